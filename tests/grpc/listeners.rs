//! Real sockets: who may connect, what the end of a connection means, and certificates.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use leasehold::grpc::{Server, Settings, TcpSettings, UnixSettings};
use leasehold::scheduler::Scheduler;
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{HoldLeaseRequest, ResolvePathRequest, hold_lease_request::Start};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::grpc::rig::{Account, Event, LIMITS, Sidecar, key, next, reason, spec};

/// A server under way, and a way to it.
pub(crate) struct Running {
    pub channel: Channel,
    pub endpoint: String,
    pub stop: CancellationToken,
    pub server: tokio::task::JoinHandle<()>,
    pub folder: tempfile::TempDir,
}

/// Runs a server in a task until `stop`.
pub(crate) async fn run(
    server: Server,
    scheduler: &Scheduler,
    folder: tempfile::TempDir,
    stop: CancellationToken,
) -> Running {
    let endpoint = server.endpoints().remove(0);
    let (scheduler, stopped) = (scheduler.clone(), stop.clone());
    let server = tokio::spawn(async move {
        server.run(scheduler, LIMITS, stopped).await.unwrap();
    });
    let channel = connect(&endpoint).await;
    Running { channel, endpoint, stop, server, folder }
}

/// A connection of its own.
pub(crate) async fn connect(endpoint: &str) -> Channel {
    match endpoint.strip_prefix("unix://").map(PathBuf::from) {
        None => Endpoint::from_shared(endpoint.to_owned()).unwrap().connect().await.unwrap(),
        Some(path) => {
            let connector = tower::service_fn(move |_| {
                let path = path.clone();
                async move { UnixStream::connect(path).await.map(TokioIo::new) }
            });
            Endpoint::from_static("http://socket").connect_with_connector(connector).await.unwrap()
        }
    }
}

fn settings(tcp: Option<TcpSettings>, unix: Option<UnixSettings>) -> Settings {
    Settings {
        tcp,
        unix,
        connections: 8,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
        ..Settings::default()
    }
}

pub(crate) fn loopback() -> TcpSettings {
    TcpSettings {
        address: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        token_file: None,
        direct: false,
        access: Vec::new(),
    }
}

pub(crate) async fn on_tcp(sidecar: &Sidecar, tcp: TcpSettings) -> Running {
    let server = Server::bind(settings(Some(tcp), None)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    run(server, &sidecar.scheduler, folder, CancellationToken::new()).await
}

async fn on(sidecar: &Sidecar, unix: bool) -> Running {
    if !unix {
        return on_tcp(sidecar, loopback()).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixSettings { path: folder.path().join("s"), allowed_uids: Vec::new() };
    let server = Server::bind(settings(None, Some(socket))).await.unwrap();
    run(server, &sidecar.scheduler, folder, CancellationToken::new()).await
}

async fn resolve(channel: &Channel, token: Option<&str>) -> Result<String, Status> {
    let mut request = Request::new(ResolvePathRequest { key: Some(key("nightly")) });
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token.parse().unwrap());
    }
    let answer = LeaseServiceClient::new(channel.clone()).resolve_path(request).await?;
    Ok(answer.into_inner().lock_path)
}

#[tokio::test]
async fn the_api_is_served_on_tcp_and_on_a_unix_socket() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for unix in [false, true] {
        let running = on(&sidecar, unix).await;
        assert!(running.endpoint.starts_with(if unix { "unix:///" } else { "http://127.0.0.1:" }));
        resolve(&running.channel, None).await.unwrap();
        running.stop.cancel();
        running.server.await.unwrap();
        assert!(running.folder.path().join("s").try_exists().is_ok_and(|there| !there));
    }
}

#[tokio::test]
async fn s20_a_token_file_guards_tcp_and_health_needs_none() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("tokens");
    std::fs::write(&token_file, "open-sesame\n").unwrap();
    let tcp = TcpSettings { token_file: Some(token_file), ..loopback() };
    let server = Server::bind(settings(Some(tcp), None)).await.unwrap();
    let running = run(server, &sidecar.scheduler, folder, CancellationToken::new()).await;
    let refused = resolve(&running.channel, None).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::Unauthenticated, "UNAUTHENTICATED".to_owned()));
    let refused = resolve(&running.channel, Some("Bearer wrong")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    resolve(&running.channel, Some("Bearer open-sesame")).await.unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(running.channel.clone());
    health.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap();
}

#[tokio::test]
async fn an_allowed_user_comes_in_by_the_socket() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let own = rustix::process::getuid().as_raw();
    let folder = tempfile::tempdir().unwrap();
    let unix = UnixSettings { path: folder.path().join("s"), allowed_uids: vec![own + 1, own] };
    let server = Server::bind(settings(None, Some(unix))).await.unwrap();
    let running = run(server, &sidecar.scheduler, folder, CancellationToken::new()).await;
    resolve(&running.channel, None).await.unwrap();
}

#[tokio::test]
async fn streams_over_the_limit_of_a_connection_wait_for_a_place_and_others_are_served() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = on(&sidecar, true).await;
    let mut streams = Vec::new();
    let mut client = LeaseServiceClient::new(running.channel.clone());
    for number in 0..8 {
        let start = Start::Spec(spec(&format!("job-{number}")));
        let request = HoldLeaseRequest { start: Some(start), needs: 0 };
        let mut stream = client.hold_lease(request).await.unwrap().into_inner();
        assert!(matches!(next(&mut stream).await, Event::Granted(_)));
        streams.push(stream);
    }
    let ninth = Arc::new(running.channel.clone());
    let mut ninth = tokio::spawn(async move { resolve(&ninth, None).await });
    let other = connect(&running.endpoint).await;
    resolve(&other, None).await.unwrap();
    tokio::select! {
        biased;
        answered = &mut ninth => panic!("answered over the limit: {answered:?}"),
        () = tokio::task::yield_now() => {}
    }
    streams.pop();
    tokio::time::timeout(Duration::from_secs(30), ninth).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_call_with_too_many_headers_is_refused() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = on(&sidecar, true).await;
    let mut request = Request::new(ResolvePathRequest { key: Some(key("nightly")) });
    for number in 0..40 {
        let name = format!("x-filler-{number}").parse::<tonic::metadata::AsciiMetadataKey>();
        request.metadata_mut().insert(name.unwrap(), "x".repeat(1_000).parse().unwrap());
    }
    let refused = LeaseServiceClient::new(running.channel.clone()).resolve_path(request).await;
    assert!(refused.is_err());
    resolve(&connect(&running.endpoint).await, None).await.unwrap();
}
