//! Health, metrics, and a page to look at, over HTTP, for whoever operates the sidecar.
//!
//! Rules: S18 (alive without its store, ready only with it), S15 (not ready while it shuts down), S20. May import:
//! access, coordinator, telemetry, lock, schedule, time, timetable. To add a page: a line in `PAGES` and a route, in `probes` if
//! every caller may have it, else in `page`. Nothing here changes anything: there is no page that ends the process, and
//! there is no sign-in.

mod guard;
mod live;
mod page;
mod place;
mod probes;
mod schedules;
mod snapshot;
mod view;

pub use guard::Readers;
pub use page::{About, Look};

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::serve::Listener;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::coordinator::Coordinator;
use crate::telemetry::Metrics;
use place::{Connection, MAX_STREAMS, Places, bound_reader};
use probes::plain;

/// Connections at once. What comes beyond takes the place of one that has said nothing, or waits in the system's queue.
const MAX_CONNECTIONS: usize = 32;
/// How long a client has from connecting to the end of its request's headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection lasts at the most; each carries one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that are kept of a request. Bodies are not read.
const BUFFER_BYTES: usize = 16 * 1024;
/// How long answers under way have once it is over.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

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

    /// Answers until `stop` is over, then ends what is under way within a second. Without a `look`, there is no page.
    pub async fn run(
        self,
        coordinator: Coordinator,
        metrics: Metrics,
        look: Option<Look>,
        stop: impl Future<Output = ()> + Send,
    ) {
        let stopped = CancellationToken::new();
        let router = router(coordinator, metrics, look, &stopped);
        let places = Places::new(MAX_CONNECTIONS);
        let streams = Arc::new(Semaphore::new(MAX_STREAMS));
        let connections = TaskTracker::new();
        let mut listener = self.listener;
        let accept = async {
            loop {
                // Axum's accept: it says so, waits and tries again when the system has no more file descriptors.
                let (stream, peer) = Listener::accept(&mut listener).await;
                // Of a socket that listens on IPv6, callers of IPv4 have mapped addresses.
                let peer = peer.ip().to_canonical();
                let connection = Connection::new(peer, places.take(peer).await, &streams);
                connections.spawn(answer(stream, connection, router.clone()));
            }
        };
        tokio::select! {
            () = accept => {}
            () = stop => {}
        }
        drop(listener);
        stopped.cancel();
        connections.close();
        // Those that are late end by their own time limit.
        let _ = tokio::time::timeout(LAST_ANSWERS, connections.wait()).await;
    }
}

/// Answers one request.
async fn answer(stream: TcpStream, place: Connection, router: Router) {
    bound_reader(&stream);
    let of_requests = place.clone();
    let service = router.map_request(move |mut request: Request<Incoming>| {
        of_requests.spoke();
        request.extensions_mut().insert(of_requests.clone());
        request
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(BUFFER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let answered = async {
        tokio::select! {
            ended = &mut connection => Some(ended),
            () = place.cut() => None,
        }
    };
    let ended = match tokio::time::timeout(CONNECTION_TIMEOUT, answered).await {
        Ok(Some(ended)) => ended,
        Ok(None) => {
            return tracing::debug!("an admin connection that said nothing gave way to another");
        }
        Err(_elapsed) if place.is_stream() => connection.await,
        Err(_elapsed) => return tracing::debug!("an admin request took too long"),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an admin request failed");
    }
}

fn router(
    coordinator: Coordinator,
    metrics: Metrics,
    look: Option<Look>,
    stopped: &CancellationToken,
) -> Router {
    let mut there = probes::PAGES.to_owned();
    let mut router = probes::router(coordinator.clone(), metrics);
    if let Some(look) = look {
        there.push_str(page::PAGES);
        router = router.merge(page::router(coordinator, look, stopped.clone()));
    }
    router
        .method_not_allowed_fallback(async || {
            (StatusCode::METHOD_NOT_ALLOWED, plain("only GET and HEAD are allowed\n".to_owned()))
        })
        .fallback(async move || {
            (StatusCode::NOT_FOUND, plain(format!("page not found; these exist:\n{there}")))
        })
}

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod probe_tests;
