//! A sidecar that is older than what is asked for (S37): a real one, behind a proxy that takes out of every
//! message what the first version did not have, and tells that version.

use std::convert::Infallible;
use std::net::SocketAddr;

use futures_util::{Stream, StreamExt as _};
use leasehold_client::Client;
use leasehold_client::proto::hold_lease_request::Start;
use leasehold_client::proto::hold_lease_response::Event;
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    GetServerInfoRequest, GetServerInfoResponse, HoldLeaseRequest, HoldLeaseResponse, LeaseSpec,
    ReleaseLeaseRequest, ReleaseLeaseResponse,
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::server::{Grpc, NamedService};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::clients::driver::Driver;
use crate::clients::scenarios::LONG;
use crate::clients::sidecar::Sidecar;

/// The clients that say which versions they and the sidecar are.
const TELL_VERSIONS: [&str; 1] = ["rust"];
/// What the proxy says that it is.
const VERSION: &str = "0.0.9";

pub(crate) async fn older_sidecar(driver: &mut Driver, sidecar: &mut Sidecar) {
    let older = Older::before(sidecar).await;
    let mut asking = Driver::start(driver.language(), &older.endpoint()).await;
    let newer_fields = [
        json!({ "permits": 2 }),
        json!({ "wait_forever": true }),
        json!({ "priority": 7 }),
        json!({ "yields": true }),
        json!({ "share": "queues" }),
        json!({ "share": "queues", "yields": true, "rebalance": true }),
    ];
    for fields in newer_fields {
        let mut spec = json!({ "function": "older", "lease_ms": LONG });
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        asking.tell("asks", "hold", spec).await;
        asking.is_refused_as_too_new("asks").await;
        // Nobody waits: what was granted was released, and did not expire.
        driver.hold("next", "older", LONG).await;
        driver.release("next").await;
    }
    asking.tell("asks", "occurrence", json!({ "function": "older", "at": 1_700_000_000 })).await;
    asking.is_refused_as_too_new("asks").await;
    driver.hold("next", "older", LONG).await;
    // The answer that the lock is busy has no echo either.
    let spec = json!({ "function": "older", "lease_ms": LONG, "priority": 7 });
    asking.tell("asks", "hold", spec).await;
    asking.is_refused_as_too_new("asks").await;
    driver.release("next").await;

    let schedule = json!({ "function": "older", "every_ms": 60_000, "backoff_ms": 10_000 });
    asking.tell("asks", "runs", schedule).await;
    asking.is_refused_as_too_new("asks").await;

    asking.hold("saves", "older", LONG).await;
    let refusal = asking.save_refused("saves", "of a newer client").await;
    assert_eq!(refusal, "UNSUPPORTED", "S37: {}", asking.story());
    asking.release("saves").await;
}

impl Driver {
    /// The command ends because the sidecar is too old, and the message of those that tell it has both
    /// versions.
    async fn is_refused_as_too_new(&mut self, id: &str) {
        let refused = self.event(id, "error").await;
        assert_eq!(refused["reason"], "UNSUPPORTED", "S37: {refused}");
        if !TELL_VERSIONS.contains(&self.language()) {
            return;
        }
        let message = refused["message"].as_str().unwrap_or_default();
        let versions = format!(
            "; this client is version {}, and the sidecar that answers now is version {VERSION}",
            env!("CARGO_PKG_VERSION")
        );
        assert!(message.ends_with(&versions), "S37: {message}");
    }
}

/// The proxy. Dropped, it closes its connections.
struct Older {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Older {
    async fn before(sidecar: &Sidecar) -> Self {
        let channel = Client::builder(sidecar.endpoint()).channel().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = Leases(LeaseServiceClient::new(channel));
        let serving = tokio::spawn(async move {
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { address, serving }
    }

    fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Older {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The calls that the scenario needs; it has no others, and no service of schedules.
#[derive(Clone)]
struct Leases(LeaseServiceClient<Channel>);

impl NamedService for Leases {
    const NAME: &'static str = "leasehold.v1.LeaseService";
}

impl Service<http::Request<Body>> for Leases {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let call = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(match call.as_str() {
                "HoldLease" => {
                    let codec = ProstCodec::<HoldLeaseResponse, HoldLeaseRequest>::default();
                    let call = service_fn(move |request| hold(client.clone(), request));
                    Grpc::new(codec).server_streaming(call, request).await
                }
                "ReleaseLease" => {
                    let codec = ProstCodec::<ReleaseLeaseResponse, ReleaseLeaseRequest>::default();
                    let call = service_fn(move |request| release(client.clone(), request));
                    Grpc::new(codec).unary(call, request).await
                }
                "GetServerInfo" => {
                    let codec =
                        ProstCodec::<GetServerInfoResponse, GetServerInfoRequest>::default();
                    let call = service_fn(move |request| info(client.clone(), request));
                    Grpc::new(codec).unary(call, request).await
                }
                _ => Status::unimplemented("").into_http(),
            })
        })
    }
}

async fn hold(
    mut client: LeaseServiceClient<Channel>,
    request: Request<HoldLeaseRequest>,
) -> Result<Response<impl Stream<Item = Result<HoldLeaseResponse, Status>>>, Status> {
    let answer = client.hold_lease(older_request(request.into_inner())).await?;
    Ok(answer.map(|told| told.map(|said| said.map(older_response))))
}

async fn release(
    mut client: LeaseServiceClient<Channel>,
    request: Request<ReleaseLeaseRequest>,
) -> Result<Response<ReleaseLeaseResponse>, Status> {
    client.release_lease(request.into_inner()).await
}

async fn info(
    mut client: LeaseServiceClient<Channel>,
    request: Request<GetServerInfoRequest>,
) -> Result<Response<GetServerInfoResponse>, Status> {
    let answer = client.get_server_info(request.into_inner()).await?;
    Ok(answer.map(|info| GetServerInfoResponse { version: VERSION.to_owned(), ..info }))
}

fn older_request(mut request: HoldLeaseRequest) -> HoldLeaseRequest {
    if let Some(Start::Spec(spec)) = &mut request.start {
        *spec = LeaseSpec {
            wait_without_end: false,
            permits: None,
            priority: 0,
            yields: false,
            share: String::new(),
            rebalance: false,
            occurrence_at: None,
            ..std::mem::take(spec)
        };
    }
    request
}

fn older_response(mut response: HoldLeaseResponse) -> HoldLeaseResponse {
    match &mut response.event {
        Some(Event::Granted(granted)) => granted.understood = None,
        Some(Event::Busy(busy)) => busy.understood = None,
        Some(Event::Waiting(waiting)) => waiting.understood = None,
        _ => {}
    }
    response
}
