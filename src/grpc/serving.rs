//! Connections that were let in, served on one thread or several.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::try_join_all;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::server::{Connected, Router};

use super::connection::Connection;
use super::listen::Listener;
use super::server::Settings;
use super::tls;
use super::workers::{self, Dealer, Load, Workers};

/// A silent TCP connection is pinged this often, and closed when no answer comes in time (S14). On a Unix
/// socket the kernel tells when the other side is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long calls in progress may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Why a server broke.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It could not serve a listener any longer.
    #[error(transparent)]
    Transport(#[from] tonic::transport::Error),
    /// A thread of its workers ended before it.
    #[error("a worker thread ended: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

/// What serves connections, on one thread or several.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    pub(super) settings: Arc<Settings>,
    pub(super) tcp: Option<Routes>,
    pub(super) unix: Option<Routes>,
    /// With TLS.
    pub(super) acceptor: Option<tls::Acceptor>,
    pub(super) stop: CancellationToken,
}

impl Serving {
    /// Serves what comes in, on this thread.
    pub(super) async fn serve(
        self,
        tcp: Option<impl Stream<Item = io::Result<Connection<TcpStream>>>>,
        unix: Option<impl Stream<Item = io::Result<Connection<UnixStream>>>>,
    ) -> Result<(), tonic::transport::Error> {
        let Self { settings, tcp: tcp_routes, unix: unix_routes, acceptor, stop } = self;
        let over_tcp = async {
            let Some((connections, routes)) = tcp.zip(tcp_routes) else { return Ok(()) };
            let router = builder(&settings)
                .http2_keepalive_interval(Some(KEEP_ALIVE))
                .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
                .add_routes(routes);
            let Some(acceptor) = acceptor else {
                return serve(router, connections, &stop).await;
            };
            let connections = tls::encrypted(connections, acceptor, settings.connections);
            serve(router, connections, &stop).await
        };
        let over_unix = async {
            let Some((connections, routes)) = unix.zip(unix_routes) else { return Ok(()) };
            serve(builder(&settings).add_routes(routes), connections, &stop).await
        };
        tokio::try_join!(over_tcp, over_unix).map(drop)
    }

    /// Serves what comes in on these threads. This one only accepts.
    pub(super) async fn serve_on(
        self,
        workers: &Workers,
        tcp: Option<Listener<TcpListener>>,
        unix: Option<Listener<UnixListener>>,
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
            served = try_join_all(threads) => Ok(served?.into_iter().collect::<Result<(), _>>()?),
            () = dealt => Ok(()),
        }
    }
}

fn builder(settings: &Settings) -> tonic::transport::Server {
    tonic::transport::Server::builder()
        .max_concurrent_streams(settings.streams_per_connection)
        .http2_max_header_list_size(settings.header_list_bytes)
}

async fn serve<I>(
    router: Router,
    connections: impl Stream<Item = io::Result<Connection<I>>>,
    stop: &CancellationToken,
) -> Result<(), tonic::transport::Error>
where
    Connection<I>: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    // In a box, as what waits for it is in several more: their stack would be a fifth of a MiB of an idle sidecar.
    let served = Box::pin(router.serve_with_incoming_shutdown(connections, stop.cancelled()));
    let too_late = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    tokio::select! {
        served = served => served,
        () = too_late => Ok(()),
    }
}
