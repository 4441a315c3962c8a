//! Health, metrics, and a page to look at, over HTTP, for whoever operates the sidecar.
//!
//! Rules: S18 (alive without its store, ready only with it), S15 (not ready while it shuts down), S20. May
//! import: access, coordinator, scheduler, lobby, telemetry, view, lock, schedule, time. To add a page: a
//! line in `PAGES` and a route, in `probes` if every caller may have it, else in `page`. Nothing here changes
//! anything: there is no page that ends the process, and there is no sign-in.

mod connection;
mod event_log;
mod guard;
mod live;
mod page;
mod probes;
mod schedules;
mod snapshot;
mod view;

pub use event_log::EventLog;
pub use guard::Readers;
pub use page::{About, Look};

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::lobby::{Connections, Lobby};
use crate::scheduler::Scheduler;
use crate::telemetry::Metrics;
use connection::{Connection, bound_reader};
use probes::plain;

/// How long a client has to begin its request, and then from its first bytes to the end of its headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection lasts at the most after its first bytes; each carries one request.
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
        /// The address that was to be listened to.
        address: SocketAddr,
    },
    /// The process may not listen there.
    #[error(
        "cannot listen on {address} (admin.listen): permission denied; set admin.listen to a port above 1023, \
         or to \"\" for none"
    )]
    NotPermitted {
        /// The address that was to be listened to.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address} (admin.listen): {source}; set admin.listen to an address of this machine, or to \
         \"\" for none"
    )]
    Address {
        /// The address that was to be listened to.
        address: SocketAddr,
        /// What the system said.
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
    lobby: Arc<Lobby>,
}

impl Admin {
    /// Listens on `address`; with port 0, the system chooses one. Lets in no more connections than there are
    /// file descriptors for, of those that the process may have; none without a limit.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(address: SocketAddr, descriptors: Option<usize>) -> Result<Self, AdminError> {
        let refused = |source| AdminError::new(address, source);
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address, lobby: connection::lobby(descriptors) })
    }

    /// What its connections are doing.
    #[must_use]
    pub fn connections(&self) -> Connections {
        Connections::of(std::iter::once(&self.lobby))
    }

    /// The address, with the port that the system chose, if it was to choose.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is over, then ends what is under way within a second. Without a `look`, there is
    /// no page.
    pub async fn run(
        self,
        scheduler: Scheduler,
        metrics: Metrics,
        look: Option<Look>,
        stop: impl Future<Output = ()> + Send,
    ) {
        let stopped = CancellationToken::new();
        let router = router(scheduler, metrics, look, &stopped);
        let connections = TaskTracker::new();
        let Self { listener, lobby, .. } = self;
        let accept = async {
            loop {
                let (stream, connection) = connection::accept(&listener, &lobby).await;
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

/// Waits until the client has begun its request, and answers it.
async fn answer(stream: TcpStream, place: Connection, router: Router) {
    let begun = async {
        tokio::select! {
            readable = stream.readable() => readable.is_ok(),
            () = place.cut() => false,
        }
    };
    match tokio::time::timeout(HEADER_TIMEOUT, begun).await {
        // Nothing is built before.
        Ok(true) => Box::pin(converse(stream, place, router)).await,
        Ok(false) => {}
        Err(_elapsed) => place.is_overdue(),
    }
}

async fn converse(stream: TcpStream, place: Connection, router: Router) {
    bound_reader(&stream);
    place.speaks();
    let of_requests = place.clone();
    let service = router.map_request(move |mut request: Request<Incoming>| {
        of_requests.asked();
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
            return tracing::debug!("an admin connection gave way to another");
        }
        Err(_elapsed) if place.is_stream() => connection.await,
        Err(_elapsed) => return tracing::debug!("an admin request took too long"),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an admin request failed");
    }
}

fn router(
    scheduler: Scheduler,
    metrics: Metrics,
    look: Option<Look>,
    stopped: &CancellationToken,
) -> Router {
    let mut there = probes::PAGES.to_owned();
    let mut router = probes::router(scheduler.clone(), metrics);
    if let Some(look) = look {
        there.push_str(page::PAGES);
        router = router.merge(page::router(scheduler, look, stopped.clone()));
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
