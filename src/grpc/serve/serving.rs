//! Connections whose clients have spoken, served on one thread or several.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::{Stream, StreamExt as _};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::service::Routes;
use tower::ServiceExt as _;

use super::accept::{Listener, UsersOnly};
use super::connection::{Connection, Origin};
use super::deadline::{Deadline, within};
use super::tls;
use super::unfinished::Counted;
use super::unread::{Call, Calls, CallsHere};
use super::workers::{self, Dealer, Load, Workers};
use crate::coordinator::Budget;
use crate::lobby::Stage;

/// A silent TCP connection is pinged this often, and closed when no answer comes in time (S14). On a Unix
/// socket the kernel tells when the other side is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long calls in progress may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Bytes that a client may send ahead of what is read, on a stream: more than any request has. On a
/// connection it is the least that HTTP/2 allows (S38).
const WINDOW: u32 = 65_535;
/// Bytes of a connection's window for each of its streams. HTTP/2's implementation closes a connection when
/// small pieces that wait to be read cost more than half of its window, at up to 256 bytes each: a client may
/// make all its calls at once.
const WINDOW_OF_A_STREAM: u32 = 2 * 256;
/// The most that HTTP/2 allows.
const MOST_WINDOW: u32 = (1 << 31) - 1;
/// Bytes of answers that are kept for a stream whose client does not read, beside the message that did not
/// fit (S38).
const UNREAD_BYTES: usize = 8 * 1024;

/// A thread of the workers ended before the server.
#[derive(Debug, thiserror::Error)]
#[error("a worker thread ended: {0}")]
pub struct ServeError(#[from] tokio::task::JoinError);

/// What connections of every kind are served with.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Bounds {
    /// Calls and streams at once on one connection.
    pub(in crate::grpc) streams: u32,
    /// Bytes that the headers of a call have at the most.
    pub(in crate::grpc) header_list_bytes: u32,
    /// Of the requests of all connections that are not complete.
    pub(in crate::grpc) unfinished: Arc<Budget>,
    /// Of all calls under way, and answers that are not read.
    pub(in crate::grpc) calls: Calls,
}

impl Bounds {
    /// The window of a connection, in bytes.
    fn window(&self) -> u32 {
        self.streams.saturating_mul(WINDOW_OF_A_STREAM).clamp(WINDOW, MOST_WINDOW)
    }
}

/// What serves connections, on one thread or several.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Serving {
    pub(in crate::grpc) bounds: Bounds,
    pub(in crate::grpc) tcp: Option<Routes>,
    pub(in crate::grpc) unix: Option<Routes>,
    /// Takes connections with TLS, if that is on.
    pub(in crate::grpc) acceptor: Option<tls::Acceptor>,
    pub(in crate::grpc) stop: CancellationToken,
}

impl Serving {
    /// Serves what comes in, on this thread.
    pub(in crate::grpc) async fn serve(
        self,
        tcp: Option<impl Stream<Item = io::Result<Connection<TcpStream>>>>,
        unix: Option<impl Stream<Item = io::Result<Connection<UnixStream>>>>,
    ) {
        let Self { bounds, tcp: tcp_routes, unix: unix_routes, acceptor, stop } = self;
        let over_tcp = async {
            if let Some((connections, routes)) = tcp.zip(tcp_routes) {
                let bounds = bounds.clone();
                serve(connections, ListenerService { routes, bounds, acceptor }, &stop).await;
            }
        };
        let over_unix = async {
            if let Some((connections, routes)) = unix.zip(unix_routes) {
                let bounds = bounds.clone();
                serve(connections, ListenerService { routes, bounds, acceptor: None }, &stop).await;
            }
        };
        tokio::join!(over_tcp, over_unix);
    }

    /// Serves what comes in on these threads. This one only accepts.
    pub(in crate::grpc) async fn serve_on(
        self,
        workers: &Workers,
        tcp: Option<Listener<TcpListener>>,
        unix: Option<Listener<UsersOnly>>,
    ) -> Result<(), ServeError> {
        let loads: Vec<Load> = workers.runtimes().iter().map(|_| Load::default()).collect();
        let (to_tcp, tcp_dealt) = Dealer::new(&loads);
        let (to_unix, unix_dealt) = Dealer::new(&loads);
        let lanes = workers.runtimes().iter().zip(tcp_dealt.into_iter().zip(unix_dealt));
        let threads = lanes.map(|(runtime, (tcp, unix))| {
            let serving = self.clone();
            let (tcp, unix) = (workers::arriving(tcp), workers::arriving(unix));
            runtime.spawn(serving.serve(Some(tcp), Some(unix)))
        });
        let threads: Vec<_> = threads.collect();
        let dealt = async {
            let tcp = async {
                if let Some(tcp) = tcp {
                    to_tcp.deal(tcp).await
                }
            };
            let unix = async {
                if let Some(unix) = unix {
                    to_unix.deal(unix).await
                }
            };
            tokio::join!(tcp, unix);
            // The threads say why there is nobody left to deal to.
            std::future::pending().await
        };
        tokio::select! {
            served = try_join_all(threads) => Ok(served.map(drop)?),
            () = dealt => Ok(()),
        }
    }
}

/// What the connections of one listener are served with.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct ListenerService {
    pub(in crate::grpc) routes: Routes,
    pub(in crate::grpc) bounds: Bounds,
    pub(in crate::grpc) acceptor: Option<tls::Acceptor>,
}

/// Serves each connection in a task of its own until `stop`, and then the calls that are under way for a
/// while.
pub(in crate::grpc) async fn serve<S>(
    connections: impl Stream<Item = io::Result<Connection<S>>>,
    service: ListenerService,
    stop: &CancellationToken,
) where
    S: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static,
{
    let (served, too_late) = (TaskTracker::new(), CancellationToken::new());
    let mut connections = std::pin::pin!(connections);
    let coming = async {
        while let Some(connection) = connections.next().await {
            let Ok(connection) = connection else { continue };
            let (service, stop, too_late) = (service.clone(), stop.clone(), too_late.clone());
            // In a box: the task is as large as what it becomes only once it is that.
            let served_one = Box::pin(async move {
                tokio::select! {
                    () = service.serve(connection, stop) => {}
                    () = too_late.cancelled() => {}
                }
            });
            served.spawn(served_one);
        }
    };
    tokio::select! {
        () = coming => stop.cancelled().await,
        () = stop.cancelled() => {}
    }
    served.close();
    let _ = tokio::time::timeout(LAST_ANSWERS, served.wait()).await;
    too_late.cancel();
}

impl ListenerService {
    async fn serve<S>(self, connection: Connection<S>, stop: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static,
    {
        let seat = connection.peer().seat;
        let over = std::future::poll_fn(|context| match &seat {
            Some(seat) => seat.poll_over(context),
            None => std::task::Poll::Pending,
        });
        let Self { routes, bounds, acceptor } = self;
        let served = async {
            match acceptor {
                None => {
                    connection.advance(Stage::Idle);
                    answer(connection, routes, bounds, stop).await;
                }
                Some(acceptor) => {
                    let accepted = Box::pin(acceptor.accept(connection)).await;
                    if let Some(connection) = accepted {
                        answer(connection, routes, bounds, stop).await;
                    }
                }
            }
        };
        tokio::select! {
            () = served => {}
            () = over => {}
        }
    }
}

/// Answers the calls that come over a connection, until it ends or, once `stop` is over, those under way are
/// answered.
pub(in crate::grpc) async fn answer<S>(
    connection: Connection<S>,
    routes: Routes,
    bounds: Bounds,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let peer = connection.peer();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_connection_window_size(bounds.window())
        .initial_stream_window_size(WINDOW)
        .max_send_buf_size(UNREAD_BYTES)
        .max_concurrent_streams(bounds.streams)
        // All of them may be given up while this thread is held up, without an end to the connection and its
        // holds.
        .max_pending_accept_reset_streams(usize::try_from(bounds.streams).ok())
        .max_header_list_size(bounds.header_list_bytes);
    if peer.origin != Origin::Socket {
        builder.keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
    }
    let (routes, here) = (routes.prepare(), bounds.calls.of_connection(peer.clone()));
    let service = tower::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let answer =
            bounded(request, &here, &bounds.unfinished).map(|(request, deadline, call)| {
                (deadline.bound(routes.clone().oneshot(request)), call)
            });
        async move {
            match answer {
                Ok((answer, call)) => answer.await.map(|answer| call.answer(answer)),
                Err(refused) => Ok(refused.into_http()),
            }
        }
    });
    let serving =
        builder.serve_connection(TokioIo::new(connection), TowerToHyperService::new(service));
    let mut serving: Pin<Box<_>> = Box::pin(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

/// A request within its bounds, or why there is no memory for it.
fn bounded(
    request: Request<Incoming>,
    here: &Arc<CallsHere>,
    unfinished: &Arc<Budget>,
) -> Result<(Request<tonic::body::Body>, Deadline, Call), Status> {
    let mut call = Call::begin(&request, here)?;
    let deadline = within(request.headers());
    let (parts, body) = request.into_parts();
    let body = Counted::new(&parts.uri, body, unfinished.nothing(), call.until_complete());
    Ok((Request::from_parts(parts, tonic::body::Body::new(body)), deadline, call))
}
