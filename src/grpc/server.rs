//! The server: the service with health and reflection, on every listener.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::certificates::Certificates;
use super::connection::{Connection, Origin};
use super::convert::Limits;
use super::guard::{AccessRules, Door, Guard, TcpGuard};
use super::listen::{ListenError, Listener, SocketFile};
use super::only_grpc::only_grpc;
use super::proto::lease_service_server::LeaseServiceServer;
use super::proto::schedule_service_server::ScheduleServiceServer;
use super::reflection::Reflection;
use super::service::Service;
use super::serving::{ServeError, Serving};
use super::tls;
use super::workers::Workers;
use crate::access::Rule;
use crate::coordinator::{Coordinator, StoreStatus};
use crate::time::UnixMillis;

/// Bytes that a request has at the most.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Bytes under way in one direction of a pipe inside the process.
const PIPE: usize = 64 * 1024;

/// What health knows by name: the whole, and each service.
const SERVICES: [&str; 3] = ["", "leasehold.v1.LeaseService", "leasehold.v1.ScheduleService"];

/// Where callers connect, and how many.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The TCP address.
    pub tcp: Option<TcpSettings>,
    /// The Unix socket.
    pub unix: Option<UnixSettings>,
    /// Connections at once, over both.
    pub connections: usize,
    /// Calls and streams at once on one connection.
    pub streams_per_connection: u32,
    /// Bytes that the headers of a call have at the most.
    pub header_list_bytes: u32,
}

/// How to listen on TCP. Whether strangers may connect was decided by the configuration.
#[derive(Clone, Debug)]
pub struct TcpSettings {
    /// The address; port 0 lets the system choose.
    pub address: SocketAddr,
    /// TLS; none for plain text.
    pub tls: Option<Tls>,
    /// A file of bearer tokens, one a line: every caller must show one.
    pub token_file: Option<PathBuf>,
    /// Whether nothing is between callers and this address, so that a stream cancelled or closed over the network was
    /// ended by its client (S14).
    pub direct: bool,
    /// Who may do what; without rules, whoever is let in may do everything.
    pub access: Vec<Rule>,
}

/// Files in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients' certificates; none admits clients without a certificate.
    pub client_ca: Option<PathBuf>,
    /// Lists of clients' certificates that were revoked, by those authorities.
    pub crl: Option<PathBuf>,
    /// How often the files are looked at, to use new ones; by default [`super::RELOAD_INTERVAL`].
    pub reload_interval: Duration,
}

/// How to listen on a Unix socket.
#[derive(Clone, Debug)]
pub struct UnixSettings {
    /// Where it is made, with mode 0660.
    pub path: PathBuf,
    /// The users whose processes may connect; if empty, whoever the socket's mode admits.
    pub allowed_uids: Vec<u32>,
}

/// A server that listens, and serves nobody yet: callers wait until it runs.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    tcp: Option<Tcp>,
    unix: Option<(Listener<UnixListener>, SocketFile)>,
    workers: Option<Workers>,
}

#[derive(Debug)]
struct Tcp {
    listener: Listener<TcpListener>,
    address: SocketAddr,
    certificates: Option<Arc<Certificates>>,
    door: Door,
}

impl Server {
    /// Listens on everything that `settings` name.
    ///
    /// # Errors
    /// Names what cannot be listened on, why, and what to do.
    pub async fn bind(settings: Settings) -> Result<Self, ListenError> {
        let places = Arc::new(Semaphore::new(settings.connections));
        let tcp = match &settings.tcp {
            Some(tcp) => Some(Tcp::bind(tcp, Arc::clone(&places)).await?),
            None => None,
        };
        let unix = match &settings.unix {
            Some(unix) => {
                let socket = SocketFile::claim(&unix.path)?;
                Some((Listener::unix(&socket, places)?, socket))
            }
            None => None,
        };
        Ok(Self { settings, tcp, unix, workers: None })
    }

    /// Where clients reach it, such as `http://127.0.0.1:50951` and `unix:///run/leasehold/leasehold.sock`: TCP first.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        let unix =
            self.unix.as_ref().map(|(_, socket)| format!("unix://{}", socket.path().display()));
        self.tcp.as_ref().map(Tcp::endpoint).into_iter().chain(unix).collect()
    }

    /// The TCP address that it listens on, with the port that the system chose, if it was to choose.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(|tcp| tcp.address)
    }

    /// The rules that are asked who may do what; none without TCP.
    #[must_use]
    pub fn access(&self) -> Option<AccessRules> {
        match &self.tcp.as_ref()?.door {
            Door::Tcp(guard) => Some(AccessRules::of(guard)),
            Door::Everybody | Door::Users(_) => None,
        }
    }

    /// When the certificate that is served expires, and each change of that; none without TLS.
    #[must_use]
    pub fn certificate_not_after(&self) -> Option<watch::Receiver<Option<UnixMillis>>> {
        let tcp = self.tcp.as_ref()?;
        tcp.certificates.as_ref().map(|certificates| certificates.not_after())
    }

    /// Serves callers on these threads; on the one that runs it, without any.
    #[must_use]
    pub fn on(self, workers: Workers) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// Serves until `stop`, then lets the calls that are being answered end.
    ///
    /// # Errors
    /// When the server breaks.
    pub async fn run(
        self,
        coordinator: Coordinator,
        limits: Limits,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        let Self { settings, tcp, unix, workers } = self;
        let (health, health_service) = tonic_health::server::health_reporter();
        let direct = settings.tcp.as_ref().is_some_and(|tcp| tcp.direct);
        let streams_per_connection = settings.streams_per_connection;
        let service =
            Service { coordinator: coordinator.clone(), limits, direct, streams_per_connection };
        let routes = |door: Door| {
            only_grpc(guarded(service.clone(), door).add_service(health_service.clone()))
        };
        let allowed = settings.unix.as_ref().map_or(&[][..], |unix| &unix.allowed_uids);
        let users = match allowed {
            [] => Door::Everybody,
            allowed => Door::Users(allowed.into()),
        };
        let certificates = tcp.as_ref().and_then(|tcp| tcp.certificates.clone());
        let serving = Serving {
            settings: Arc::new(settings.clone()),
            tcp: tcp.as_ref().map(|tcp| routes(tcp.door.clone())),
            unix: unix.as_ref().map(|_| routes(users)),
            acceptor: certificates.clone().map(|certificates| tls::Acceptor {
                certificates,
                coordinator: coordinator.clone(),
                refusals: Arc::default(),
            }),
            stop,
        };
        let (unix, _socket) = unix.unzip();
        let tcp = tcp.map(|tcp| tcp.listener);
        let served = async {
            match workers {
                None => Ok(serving.serve(tcp, unix).await?),
                Some(workers) => serving.serve_on(&workers, tcp, unix).await,
            }
        };
        let renewed = async {
            match certificates {
                Some(certificates) => certificates.keep_current().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            served = served => served,
            () = renewed => Ok(()),
            () = report_health(&coordinator, &health) => Ok(()),
        }
    }
}

impl Tcp {
    async fn bind(settings: &TcpSettings, places: Arc<Semaphore>) -> Result<Self, ListenError> {
        let guard = TcpGuard::new(settings.token_file.as_deref(), &settings.access)
            .map_err(|(key, path, source)| ListenError::File { key, path, source })?;
        let door = Door::Tcp(Arc::new(guard));
        let certificates = settings.tls.as_ref().map(Certificates::open).transpose()?;
        let certificates = certificates.map(Arc::new);
        let listener = Listener::tcp(settings.address, places).await?;
        let address = listener
            .address()
            .map_err(|source| ListenError::Address { address: settings.address, source })?;
        Ok(Self { listener, address, certificates, door })
    }
}

impl Tcp {
    /// A name that clients can connect to. An unspecified address is none: with TLS it is a name of the certificate, else
    /// this machine itself.
    fn endpoint(&self) -> String {
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        if !self.address.ip().is_unspecified() {
            return format!("{scheme}://{}", self.address);
        }
        let name = self.certificates.as_ref().and_then(|certificates| certificates.name());
        format!("{scheme}://{}:{}", name.as_deref().unwrap_or("localhost"), self.address.port())
    }
}

/// The whole service on a pipe inside this process, for somebody who needs no listener: through the same messages and
/// the same rules.
#[must_use]
pub fn in_process(coordinator: Coordinator, limits: Limits) -> Channel {
    let open = pipes(coordinator, limits);
    Endpoint::from_static("http://in-process").connect_with_connector_lazy(tower::service_fn(
        move |_| {
            let opening = open();
            async move { opening.await.map(TokioIo::new) }
        },
    ))
}

/// A connection that is being opened.
type Opening = Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>>;

/// The same, as what opens a pipe each time it is called: for a client that makes its own connections.
pub fn pipes(
    coordinator: Coordinator,
    limits: Limits,
) -> impl Fn() -> Opening + Send + Sync + 'static {
    let (pipes, incoming) = mpsc::channel::<io::Result<Connection<DuplexStream>>>(1);
    let incoming = futures_util::stream::unfold(incoming, async |mut incoming| {
        incoming.recv().await.map(|connection| (connection, incoming))
    });
    let service = Service { coordinator, limits, direct: false, streams_per_connection: 0 };
    let routes = guarded(service, Door::Everybody);
    let router = tonic::transport::Server::builder().add_routes(routes);
    tokio::spawn(async move {
        let incoming = std::pin::pin!(incoming);
        if let Err(error) = router.serve_with_incoming(incoming).await {
            tracing::error!(%error, "the service inside this process failed");
        }
    });
    move || {
        let pipes = pipes.clone();
        Box::pin(async move {
            let (client, server) = tokio::io::duplex(PIPE);
            pipes
                .send(Ok(Connection::new(server, Origin::Socket)))
                .await
                .map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(client)
        })
    }
}

/// The services that ask who is calling. Health is for everybody, so that a probe needs no secret.
fn guarded(service: Service, door: Door) -> Routes {
    let guard = Guard::new(door, service.coordinator.clone());
    let schedules = ScheduleServiceServer::new(service.clone());
    let schedules = schedules.max_decoding_message_size(MAX_MESSAGE_BYTES);
    let leases = LeaseServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let mut routes = Routes::builder();
    routes.add_service(InterceptedService::new(leases, guard.clone()));
    routes.add_service(InterceptedService::new(schedules, guard.clone()));
    routes.add_service(InterceptedService::new(Reflection, guard));
    routes.routes()
}

/// Says NOT_SERVING while the store cannot be used, and during a shutdown (S15, S18). Never returns.
async fn report_health(coordinator: &Coordinator, health: &HealthReporter) {
    let mut store = coordinator.store_status();
    let mut draining = coordinator.draining();
    loop {
        let ready =
            *store.borrow_and_update() == StoreStatus::Ready && !*draining.borrow_and_update();
        let status = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in SERVICES {
            health.set_service_status(service, status).await;
        }
        // The coordinator keeps both senders.
        tokio::select! {
            _ = store.changed() => {}
            _ = draining.changed() => {}
        }
    }
}

/// The error of a file that could not be read.
pub(super) fn unreadable<'path>(
    key: &'static str,
    path: &'path Path,
) -> impl FnOnce(io::Error) -> ListenError + use<'path> {
    move |source| ListenError::File { key, path: path.to_owned(), source }
}
