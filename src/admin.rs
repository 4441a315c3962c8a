//! Health and metrics over HTTP, for whoever operates the sidecar: `/livez`, `/readyz`, `/metrics`.
//!
//! Rules: S18 (alive without its store, ready only with it), S15 (not ready while it shuts down), S20. May import:
//! coordinator, telemetry. To add a page: a line in `PAGES` and in `router`. Nothing here changes anything: there is
//! no page that ends the process, and there is no sign-in.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::coordinator::{Coordinator, StoreStatus};
use crate::telemetry::{Exposition, Metrics};

/// Connections at once; what comes beyond waits in the system's queue.
const MAX_CONNECTIONS: usize = 32;
/// How long a client has from connecting to the end of its request's headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection lasts at the most; each carries one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that are kept of a request. Bodies are not read.
const BUFFER_BYTES: usize = 16 * 1024;
/// How long answers under way have once it is over.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What there is, as it is told to those who ask for something else.
const PAGES: &str = "\
/livez    200 while the process runs, whatever the store does
/readyz   200 when locks can be acquired, else 503 and the reason
/metrics  metrics for Prometheus
";

/// Why there is no admin HTTP. The messages name the setting.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Something else has the address.
    #[error(
        "cannot listen on {address} (admin.listen): it is in use by another process, perhaps another Leasehold; stop \
         it, set admin.listen to another address, or to \"\" for none"
    )]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The process may not listen there.
    #[error(
        "cannot listen on {address} (admin.listen): permission denied; set admin.listen to a port above 1023, \
         or to \"\" for none"
    )]
    NotPermitted {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address} (admin.listen): {source}; set admin.listen to an address of this machine, or to \
         \"\" for none"
    )]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

impl AdminError {
    fn new(address: SocketAddr, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::AddrInUse {
            Self::AddressInUse { address }
        } else if source.kind() == io::ErrorKind::PermissionDenied {
            Self::NotPermitted { address }
        } else {
            Self::Address { address, source }
        }
    }
}

/// The admin HTTP server, listening and not yet answering.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

impl Admin {
    /// Listens on `address`; with port 0, the system chooses one.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(address: SocketAddr) -> Result<Self, AdminError> {
        let refused = |source| AdminError::new(address, source);
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address })
    }

    /// The address, with the port that the system chose, if it was to choose.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is over, then ends what is under way within a second.
    pub async fn run(
        self,
        coordinator: Coordinator,
        metrics: Metrics,
        stop: impl Future<Output = ()> + Send,
    ) {
        let router = router(coordinator, metrics);
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        let mut listener = self.listener;
        let accept = async {
            // The semaphore is never closed.
            while let Ok(place) = Arc::clone(&places).acquire_owned().await {
                // Axum's accept: it waits and tries again when the system has no more file descriptors.
                let (stream, _peer) = Listener::accept(&mut listener).await;
                let router = router.clone();
                connections.spawn(async move {
                    answer(stream, router).await;
                    drop(place);
                });
            }
        };
        tokio::select! {
            () = accept => {}
            () = stop => {}
        }
        drop(listener);
        connections.close();
        // Those that are late end by their own time limit.
        let _ = tokio::time::timeout(LAST_ANSWERS, connections.wait()).await;
    }
}

/// Answers one request.
async fn answer(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(BUFFER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an admin request failed"),
        Err(_elapsed) => tracing::debug!("an admin request took too long"),
    }
}

#[derive(Clone, Debug)]
struct Pages {
    coordinator: Coordinator,
    metrics: Metrics,
}

fn router(coordinator: Coordinator, metrics: Metrics) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(show_metrics))
        .method_not_allowed_fallback(async || {
            (StatusCode::METHOD_NOT_ALLOWED, plain("only GET and HEAD are allowed\n".to_owned()))
        })
        .fallback(async || {
            (StatusCode::NOT_FOUND, plain(format!("page not found; these exist:\n{PAGES}")))
        })
        .with_state(Pages { coordinator, metrics })
}

/// S18: whoever runs the process must not restart it because its store is away.
async fn livez() -> impl IntoResponse {
    plain("alive\n".to_owned())
}

async fn readyz(State(pages): State<Pages>) -> impl IntoResponse {
    match obstacle(&pages.coordinator) {
        None => (StatusCode::OK, plain("ready\n".to_owned())),
        Some(obstacle) => {
            (StatusCode::SERVICE_UNAVAILABLE, plain(format!("not ready: {obstacle}\n")))
        }
    }
}

/// Why no lock can be taken now, in one line.
fn obstacle(coordinator: &Coordinator) -> Option<String> {
    if *coordinator.draining().borrow() {
        return Some("the sidecar is shutting down".to_owned());
    }
    match &*coordinator.store_status().borrow() {
        StoreStatus::Ready => None,
        StoreStatus::Unknown => Some("the store has not answered yet".to_owned()),
        StoreStatus::NotReady { cause, since } => {
            let span = coordinator.clock().now().saturating_since(*since).as_secs();
            let span = humantime::format_duration(Duration::from_secs(span));
            Some(format!("for {span}: {}", one_line(cause)))
        }
    }
}

/// What a store or its network says may have line breaks.
fn one_line(text: &str) -> String {
    text.split(char::is_control).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

async fn show_metrics(State(pages): State<Pages>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let exposition = Exposition::for_accept(&accept.collect::<Vec<_>>().join(","));
    let text = pages.metrics.encode(&pages.coordinator, exposition);
    ([(CONTENT_TYPE, exposition.content_type())], text)
}

fn plain(text: String) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-store")], text)
}

#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
