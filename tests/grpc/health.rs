//! Standard services: health and reflection.

use std::time::Duration;

use leasehold::grpc::{Server, Settings, UnixSettings};
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::grpc::listeners::{Running, run};
use crate::grpc::rig::{Account, Sidecar};

async fn on_a_socket(sidecar: &Sidecar) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let unix = UnixSettings { path: folder.path().join("s"), allowed_uids: Vec::new() };
    let settings = Settings {
        tcp: None,
        unix: Some(unix),
        connections: 8,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
        ..Settings::default()
    };
    let server = Server::bind(settings).await.unwrap();
    run(server, &sidecar.scheduler, folder, CancellationToken::new()).await
}

#[tokio::test]
async fn s18_health_follows_the_store_and_the_shutdown() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = on_a_socket(&sidecar).await;
    for service in ["", "leasehold.v1.LeaseService", "leasehold.v1.ScheduleService"] {
        let mut client = HealthClient::new(running.channel.clone());
        let request = HealthCheckRequest { service: service.to_owned() };
        let mut watch = client.watch(request).await.unwrap().into_inner();
        let mut until = async |status: ServingStatus| {
            let reached = async {
                while watch.message().await.unwrap().unwrap()
                    != (HealthCheckResponse { status: status.into() })
                {}
            };
            tokio::time::timeout(Duration::from_secs(30), reached).await.unwrap();
        };
        sidecar.coordinator.check().await;
        until(ServingStatus::Serving).await;
        sidecar.link.go_down(Duration::MAX);
        sidecar.coordinator.check().await;
        // One failure is no outage.
        account.clock.advance(Duration::from_secs(3));
        sidecar.coordinator.check().await;
        until(ServingStatus::NotServing).await;
        sidecar.link.go_down(Duration::ZERO);
        sidecar.coordinator.check().await;
        until(ServingStatus::Serving).await;
    }
    sidecar.coordinator.drain(Duration::ZERO).await;
    let mut client = HealthClient::new(running.channel.clone());
    let drained = async {
        loop {
            let answer = client.check(HealthCheckRequest::default()).await.unwrap().into_inner();
            if answer.status() == ServingStatus::NotServing {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), drained).await.unwrap();
    let request = HealthCheckRequest { service: "nobody".to_owned() };
    assert_eq!(client.check(request).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn reflection_lists_the_service_and_describes_every_message() {
    let account = Account::new();
    let running = on_a_socket(&account.sidecar()).await;
    let mut client = ServerReflectionClient::new(running.channel.clone());
    let mut ask = async |request: MessageRequest| -> ServerReflectionResponse {
        let request =
            ServerReflectionRequest { host: String::new(), message_request: Some(request) };
        let requests = tokio_stream::once(request);
        let answers = client.server_reflection_info(requests).await.unwrap();
        answers.into_inner().message().await.unwrap().unwrap()
    };
    let listed = ask(MessageRequest::ListServices(String::new())).await;
    let Some(MessageResponse::ListServicesResponse(services)) = listed.message_response else {
        panic!("{listed:?}");
    };
    let names: Vec<String> = services.service.into_iter().map(|service| service.name).collect();
    for name in
        ["leasehold.v1.LeaseService", "leasehold.v1.ScheduleService", "grpc.health.v1.Health"]
    {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    for message in ["leasehold.v1.Grant", "google.rpc.ErrorInfo"] {
        let symbol = MessageRequest::FileContainingSymbol(message.to_owned());
        let described = ask(symbol).await.message_response.unwrap();
        assert!(matches!(described, MessageResponse::FileDescriptorResponse(_)), "{described:?}");
    }
}
