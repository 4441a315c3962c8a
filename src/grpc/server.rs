//! The server: the service with health and reflection, on every listener.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::access::Rule;
use crate::coordinator::{Budget, Coordinator, StoreStatus};
use crate::grpc::auth::guard::{AccessRules, Door, Guard, TcpGuard};
use crate::grpc::health::GuardedHealth;
use crate::grpc::proto::lease_service_server::LeaseServiceServer;
use crate::grpc::proto::schedule_service_server::ScheduleServiceServer;
use crate::grpc::reflection::Reflection;
use crate::grpc::serve::accept::{First, Listener, UsersOnly};
use crate::grpc::serve::certificates::{Certificates, Tls};
use crate::grpc::serve::connection::{Connection, Origin};
use crate::grpc::serve::listen::{self, ListenError, SocketFile};
use crate::grpc::serve::only_grpc::only_grpc;
use crate::grpc::serve::refusals::Refusals;
use crate::grpc::serve::serving::{self, Bounds, ServeError, Serving};
use crate::grpc::serve::tls;
use crate::grpc::serve::unread::Calls;
use crate::grpc::serve::workers::Workers;
use crate::grpc::service::Limits;
use crate::grpc::service::Service;
use crate::lobby::{Connections, Descriptors, Listening, Lobby, Sizes};
use crate::scheduler::Scheduler;
use crate::time::UnixMillis;

/// Bytes that a request has at the most.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Bytes under way in one direction of a pipe inside the process.
const PIPE: usize = 64 * 1024;

/// What health knows by name: the whole, and each service.
const SERVICES: [&str; 3] = ["", "leasehold.v1.LeaseService", "leasehold.v1.ScheduleService"];

/// Connections of a listener that have said nothing yet: each is a file descriptor, and less than 1 KB (S38).
const SILENT: usize = 1_024;
/// Connections of a listener that have made no call yet, at the least. There may be as many as of those that
/// make calls, and as many handshakes: after a restart all clients come at once.
const STRANGERS: usize = 64;
/// Connections of the listener for probes that ask, and what each may have under way.
const PROBES: usize = 64;
const PROBES_STREAMS: u32 = 4;
/// Bytes of probes that are under way: enough for each.
const PROBES_BYTES: usize = 4 * 1024 * 1024;

/// Where callers connect, and how many.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The TCP address.
    pub tcp: Option<TcpSettings>,
    /// The Unix socket.
    pub unix: Option<UnixSettings>,
    /// A Unix socket that answers health probes, and nothing else.
    pub probes: Option<PathBuf>,
    /// Connections at each listener that make calls.
    pub connections: usize,
    /// Calls and streams at once on one connection.
    pub streams_per_connection: u32,
    /// Bytes that the headers of a call have at the most.
    pub header_list_bytes: u32,
    /// Watches of locks at once.
    pub watchers: usize,
    /// Bytes of all requests together that are not complete.
    pub unfinished_bytes: usize,
    /// Bytes of all calls under way, and of answers that are not read.
    pub unread_bytes: usize,
    /// Calls that hold, wait or watch, until the last of their answers was read.
    pub lasting_calls: usize,
    /// File descriptors that the process may have; none without a limit.
    pub descriptors: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tcp: None,
            unix: None,
            probes: None,
            connections: 1_024,
            streams_per_connection: 256,
            header_list_bytes: 16_384,
            watchers: 1_024,
            unfinished_bytes: 4 * 1024 * 1024,
            unread_bytes: 16 * 1024 * 1024,
            lasting_calls: 100_000,
            descriptors: None,
        }
    }
}

impl Settings {
    /// The places of each listener for callers, and of the one for probes: no more than there are file
    /// descriptors for.
    fn sizes(&self) -> (Sizes, Sizes) {
        let (idle, serving) = (STRANGERS, self.connections);
        let wanted = Sizes { silent: SILENT, greeting: serving.max(idle), idle, serving };
        let probes = Sizes { silent: SILENT, greeting: 0, idle: PROBES, serving: 0 };
        let Some(descriptors) = self.descriptors else { return (wanted, probes) };
        let left = Descriptors::of(descriptors).callers;
        let listeners = usize::from(self.tcp.is_some()) + usize::from(self.unix.is_some());
        let probes = probes.fit(left / 4);
        let fitting = wanted.fit((left - left / 4) / listeners.max(1));
        if fitting != wanted {
            tracing::warn!(
                descriptors,
                connections = fitting.serving,
                "the limit of open files is too small for limits.connections: fewer are let in"
            );
        }
        (fitting, probes)
    }
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
    /// Whether nothing is between callers and this address, so that a stream cancelled or closed over the
    /// network was ended by its client (S14).
    pub direct: bool,
    /// Who may do what; without rules, whoever is let in may do everything.
    pub access: Vec<Rule>,
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
    unix: Option<Socket>,
    probes: Option<Socket>,
    workers: Option<Workers>,
    refusals: Arc<Refusals>,
}

/// A Unix socket that is listened on, and its file.
type Socket = (Listener<UsersOnly>, SocketFile);

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
        let (sizes, sizes_of_probes) = settings.sizes();
        let tcp = match &settings.tcp {
            Some(tcp) => Some(Tcp::bind(tcp, Lobby::new(Listening::Tcp, sizes)).await?),
            None => None,
        };
        let socket = |path: &Path, allowed: &[u32], lobby: Arc<Lobby>| {
            let file = SocketFile::claim(path)?;
            let listener = UsersOnly { listener: file.listen()?, allowed: allowed.to_vec() };
            Ok((Listener::new(listener, First::Preface, lobby), file))
        };
        let unix = settings.unix.as_ref();
        let unix = unix
            .map(|unix| socket(&unix.path, &unix.allowed_uids, Lobby::new(Listening::Unix, sizes)));
        let probes = settings.probes.as_ref();
        let probes =
            probes.map(|path| socket(path, &[], Lobby::new(Listening::Probes, sizes_of_probes)));
        let (unix, probes) = (unix.transpose()?, probes.transpose()?);
        Ok(Self { settings, tcp, unix, probes, workers: None, refusals: Refusals::new() })
    }

    /// What the connections of all listeners are doing.
    #[must_use]
    pub fn connections(&self) -> Connections {
        let tcp = self.tcp.iter().map(|tcp| tcp.listener.lobby());
        let sockets = self.unix.iter().chain(&self.probes).map(|(listener, _)| listener.lobby());
        Connections::of(tcp.chain(sockets))
    }

    /// How many calls were refused, by the limit that refused them, whenever it is asked.
    pub fn refused(&self) -> impl Fn() -> Vec<(&'static str, u64)> + Send + Sync + use<> {
        let refusals = Arc::clone(&self.refusals);
        move || refusals.counts().to_vec()
    }

    /// Where clients reach it, such as `http://127.0.0.1:50951` and `unix:///run/leasehold/leasehold.sock`:
    /// TCP first.
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
            Door::Everybody => None,
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
        scheduler: Scheduler,
        limits: Limits,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        let Self { settings, tcp, unix, probes, workers, refusals } = self;
        let (health, health_service) = tonic_health::server::health_reporter();
        let direct = settings.tcp.as_ref().is_some_and(|tcp| tcp.direct);
        let streams_per_connection = settings.streams_per_connection;
        let coordinator = scheduler.coordinator().clone();
        let service = Service {
            coordinator: coordinator.clone(),
            scheduler,
            limits,
            direct,
            streams_per_connection,
            watchers: Arc::new(Semaphore::new(settings.watchers)),
        };
        let routes = |door: Door| {
            let guard = Guard::new(door.clone(), coordinator.clone());
            let health = GuardedHealth::new(health_service.clone(), guard);
            only_grpc(guarded(service.clone(), door).add_service(health))
        };
        let certificates = tcp.as_ref().and_then(|tcp| tcp.certificates.clone());
        let bounds = Bounds {
            streams: streams_per_connection,
            header_list_bytes: settings.header_list_bytes,
            unfinished: Budget::new(settings.unfinished_bytes),
            calls: Calls::new(settings.unread_bytes, settings.lasting_calls, Arc::clone(&refusals)),
        };
        let serving = Serving {
            bounds: bounds.clone(),
            tcp: tcp.as_ref().map(|tcp| routes(tcp.door.clone())),
            unix: unix.as_ref().map(|_| routes(Door::Everybody)),
            acceptor: certificates.clone().map(|certificates| tls::Acceptor {
                certificates,
                coordinator: coordinator.clone(),
                refusals: Arc::default(),
            }),
            stop: stop.clone(),
        };
        let (unix, _socket) = unix.unzip();
        let tcp = tcp.map(|tcp| tcp.listener);
        let callers = async {
            match workers {
                None => {
                    serving.serve(tcp, unix).await;
                    Ok(())
                }
                Some(workers) => serving.serve_on(&workers, tcp, unix).await,
            }
        };
        let probed = answer_probes(probes, Routes::new(health_service.clone()), bounds, &stop);
        let served = async { tokio::join!(callers, probed).0 };
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

/// Answers probes with these routes, if they have a socket of their own, apart from all that callers can
/// take.
async fn answer_probes(
    socket: Option<Socket>,
    routes: Routes,
    bounds: Bounds,
    stop: &CancellationToken,
) {
    let Some((listener, _file)) = socket else { return };
    let bounds = Bounds {
        streams: PROBES_STREAMS,
        unfinished: Budget::new(PROBES_BYTES),
        calls: bounds.calls.with(PROBES_BYTES),
        ..bounds
    };
    let service = serving::ListenerService { routes, bounds, acceptor: None };
    serving::serve(listener, service, stop).await;
}

impl Tcp {
    async fn bind(settings: &TcpSettings, lobby: Arc<Lobby>) -> Result<Self, ListenError> {
        let guard = TcpGuard::new(settings.token_file.as_deref(), &settings.access)
            .map_err(|(key, path, source)| ListenError::File { key, path, source })?;
        let door = Door::Tcp(Arc::new(guard));
        let certificates = settings.tls.as_ref().map(Certificates::open).transpose()?;
        let certificates = certificates.map(Arc::new);
        let listener = listen::listen_on(settings.address).await?;
        let address = listener
            .local_addr()
            .map_err(|source| ListenError::Address { address: settings.address, source })?;
        let first = if certificates.is_some() { First::Handshake } else { First::Preface };
        let listener = Listener::new(listener, first, lobby);
        Ok(Self { listener, address, certificates, door })
    }
}

impl Tcp {
    /// A name that clients can connect to. An unspecified address is none: with TLS it is a name of the
    /// certificate, else this machine itself.
    fn endpoint(&self) -> String {
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        if !self.address.ip().is_unspecified() {
            return format!("{scheme}://{}", self.address);
        }
        let name = self.certificates.as_ref().and_then(|certificates| certificates.name());
        format!("{scheme}://{}:{}", name.as_deref().unwrap_or("localhost"), self.address.port())
    }
}

/// The whole service on a pipe inside this process, for somebody who needs no listener: through the same
/// messages and the same rules.
#[must_use]
pub fn in_process(scheduler: Scheduler, limits: Limits) -> Channel {
    let open = pipes(scheduler, limits);
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
pub fn pipes(scheduler: Scheduler, limits: Limits) -> impl Fn() -> Opening + Send + Sync + 'static {
    let watchers = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
    let service = Service {
        coordinator: scheduler.coordinator().clone(),
        scheduler,
        limits,
        direct: false,
        streams_per_connection: 0,
        watchers,
    };
    let routes = guarded(service, Door::Everybody);
    // Whoever calls is this process.
    let (unfinished, calls) =
        (Budget::new(usize::MAX), Calls::new(usize::MAX, usize::MAX, Refusals::new()));
    let bounds = Bounds { streams: u32::MAX, header_list_bytes: u32::MAX, unfinished, calls };
    move || {
        let (routes, bounds) = (routes.clone(), bounds.clone());
        Box::pin(async move {
            let (client, server) = tokio::io::duplex(PIPE);
            let connection = Connection::new(server, Origin::Socket);
            tokio::spawn(serving::answer(connection, routes, bounds, CancellationToken::new()));
            Ok(client)
        })
    }
}

/// The services that ask who is calling.
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
