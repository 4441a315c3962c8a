//! `leasehold serve`: the sidecar.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::SignalKind;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::connection::ConfigArgs;
use super::doctor::{excludes_only, in_a_pod};
use super::engine::{self, Engine, Opened};
use super::exit::Exit;
use super::gc;
use super::output;
use super::reload::Reload;
use super::signals::Signals;
use super::times::span;
use crate::admin::{About, Admin, EventLog, Look, Readers};
use crate::config::{self, Config, Exposure, Page};
use crate::coordinator::{Coordinator, Observer};
use crate::grpc::{RELOAD_INTERVAL, Server, Settings, TcpSettings, Tls, UnixSettings, Workers};
use crate::host_id::HostIdentity;
use crate::telemetry::{
    self, ConnectionCounts, EventLines, MeteredStore, Metrics, Observers, Traces,
};
use crate::time::Clock;

/// Runs the sidecar until it is told to stop. Without any configuration it keeps locks in a file of this
/// user, and listens on loopback.
///
/// SIGTERM or SIGINT: refuses new callers, tells holders, and waits for them up to drain.period; with
/// drain.hand_over it renews each hold once more instead, and leaves it to be resumed at the replacement. A
/// second one ends it at once.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print every setting with its value and its source, secrets masked, and exit.
    #[arg(long)]
    print_config: bool,
    /// Shut down, as at SIGTERM, when standard input is closed: for a process that starts a sidecar for
    /// itself, such as a test. When that process dies the system closes its end of the pipe, and the sidecar
    /// ends too.
    #[arg(long)]
    exit_on_stdin_close: bool,
}

/// Runs the sidecar.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let config = args.config.clone().load()?;
    if args.print_config {
        output::print(&config.print())?;
        return Ok(Exit::Success);
    }
    let mut signals = Signals::listen(&[SignalKind::terminate(), SignalKind::interrupt()])
        .context("cannot listen for signals")?;
    telemetry::init(config.log.format, &config.log.filter).context("cannot log")?;
    let stdin = if args.exit_on_stdin_close { Some(stdin_closed()?) } else { None };
    let identity = engine::identify(&config)?;
    let clock = engine::clock();
    let metrics = Metrics::with_schedule_labels(clock.as_ref(), config.admin.schedule_labels);
    // Everything that can be refused is asked for before the first caller is accepted.
    let Opened { store, place, account, embedded } = engine::open_named_store(&config, &clock)?;
    if let Some(account) = &account {
        metrics.follow_signature(account.signature_end());
    }
    let store = MeteredStore::new(store, Arc::clone(&clock), metrics.clone());
    let descriptors = descriptors();
    let server = bind(&config, descriptors, &metrics).await?;
    let reload = Reload::new(args.config, &config, server.access(), account, &clock);
    let admin = match config.admin.listen {
        Some(address) => Some(Admin::bind(address, descriptors).await?),
        None => None,
    };
    follow_connections(&metrics, &server, admin.as_ref());
    announce(&config, &identity, &place);
    warn_of_memory(&config.limits);
    listening(&config, &server, admin.as_ref().map(Admin::address));
    let look = admin.as_ref().and_then(|_| look(&config, &identity, &place, &server, &clock));
    let traces = traces(&config, &clock, &metrics);
    let observer = observers(&metrics, traces.as_ref(), look.as_ref());
    let engine = Engine::start(&config, identity, Arc::new(store), clock, observer);

    let scheduler = engine.scheduler;
    let coordinator = scheduler.coordinator();
    let look = look.map(|mut look| {
        look.about.sidecar = coordinator.settings().sidecar.to_string();
        look
    });
    let (stop, stop_admin) = (CancellationToken::new(), CancellationToken::new());
    let serving = server.run(scheduler.clone(), engine.limits, stop.clone());
    let until_stopped = stop_admin.clone().cancelled_owned();
    let administration = async {
        if let Some(admin) = admin {
            let stop = until_stopped;
            admin.run(scheduler.clone(), metrics, look, stop).await;
        }
    };
    let ending = end(&mut signals, stdin, coordinator, &config, [stop, stop_admin]);
    tokio::select! {
        exit = ending => return Ok(exit),
        served = both(serving, administration) => served.context("the server broke")?,
        () = coordinator.keep_checking() => return Ok(Exit::Internal),
        () = reload.keep_current() => return Ok(Exit::Internal),
        () = gc::keep_room(embedded.as_deref()) => return Ok(Exit::Internal),
    }
    if let Some(traces) = traces {
        traces.flush().await;
    }
    Ok(Exit::Success)
}

/// Those who observe the coordinator: logs, metrics, and what is asked for.
fn observers(
    metrics: &Metrics,
    traces: Option<&Arc<Traces>>,
    look: Option<&Look>,
) -> Arc<dyn Observer> {
    let mut observers: Vec<Arc<dyn Observer>> =
        vec![Arc::new(EventLines), Arc::new(metrics.clone())];
    observers.extend(traces.map(|traces| Arc::clone(traces) as Arc<dyn Observer>));
    observers.extend(look.map(|look| Arc::clone(&look.events) as Arc<dyn Observer>));
    Arc::new(Observers::new(observers))
}

/// Traces of holds, if a collector is named. It is not reached yet, and nothing waits for it; locks do
/// without traces, too.
fn traces(config: &Config, clock: &Arc<dyn Clock>, metrics: &Metrics) -> Option<Arc<Traces>> {
    for why in &config.traces_ignored {
        tracing::warn!(why, "a variable of OpenTelemetry cannot be used, and is ignored");
    }
    let settings = config.traces.as_ref()?;
    match Traces::start(settings, Arc::clone(clock), metrics) {
        Ok(traces) => {
            tracing::info!(collector = settings.collector.as_str(), "sends traces");
            Some(Arc::new(traces))
        }
        Err(error) => {
            tracing::error!(%error, "no traces are sent");
            None
        }
    }
}

/// Runs both to their ends. A server that breaks ends this at once: what answers probes must not outlive it.
async fn both<E>(
    serving: impl Future<Output = Result<(), E>>,
    administration: impl Future<Output = ()>,
) -> Result<(), E> {
    let administration = async {
        administration.await;
        Ok(())
    };
    tokio::try_join!(serving, administration).map(drop)
}

/// Listens, on the threads that are configured. One is this thread.
async fn bind(
    config: &Config,
    descriptors: Option<usize>,
    metrics: &Metrics,
) -> anyhow::Result<Server> {
    let mut server = Server::bind(settings(config, descriptors)).await?;
    if let Some(not_after) = server.certificate_not_after() {
        metrics.follow_certificate(not_after);
    }
    let threads = config.limits.worker_threads;
    if threads > 1 {
        let workers = Workers::start(threads);
        let workers = workers
            .with_context(|| format!("cannot start {threads} threads (limits.worker_threads)"))?;
        metrics.follow_runtimes(workers.runtimes().to_vec());
        server = server.on(workers);
    }
    Ok(server)
}

fn follow_connections(metrics: &Metrics, server: &Server, admin: Option<&Admin>) {
    let (mut connections, refused) = (server.connections(), server.refused());
    if let Some(admin) = admin {
        connections = connections.and(admin.connections());
    }
    metrics.follow_connections(Box::new(move || ConnectionCounts {
        open: connections.open(),
        closed: connections.closed(),
        refused: refused(),
    }));
}

/// Resolves when standard input is closed, or cannot be read.
///
/// A thread of its own reads it: one of the runtime's would be waited for at the end, and not every kind of
/// file can be polled.
fn stdin_closed() -> anyhow::Result<oneshot::Receiver<()>> {
    let (closed, receiver) = oneshot::channel();
    let read = move || {
        // What is written to it is for nobody, and a failure to read it is its end too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = closed.send(());
    };
    let thread = std::thread::Builder::new().name("stdin".to_owned()).spawn(read);
    thread.context("cannot start the thread that reads standard input (--exit-on-stdin-close)")?;
    Ok(receiver)
}

/// Waits for a signal, or for the end of standard input if that is read, then shuts down (S15), and the
/// servers last. The second signal is final.
async fn end(
    signals: &mut Signals,
    stdin: Option<oneshot::Receiver<()>>,
    coordinator: &Coordinator,
    config: &Config,
    servers: [CancellationToken; 2],
) -> Exit {
    let closed = async {
        match stdin {
            Some(stdin) => drop(stdin.await),
            None => std::future::pending().await,
        }
    };
    let (why, number) = tokio::select! {
        number = signals.next() => ("a signal", Some(number)),
        () = closed => ("standard input was closed (--exit-on-stdin-close)", None),
    };
    let period = config.drain.period;
    let end = async {
        if config.drain.hand_over {
            coordinator.hand_over(period).await;
        } else {
            coordinator.drain(period).await;
        }
    };
    let what = match config.drain.hand_over {
        true => "shutting down: renewing each hold once more for the replacement",
        false => "shutting down: waiting for holders to release",
    };
    let period = span(period);
    let again = if number.is_some() { "a second signal" } else { "a signal" };
    tracing::info!(signal = number, why, %period, "{what}; {again} ends it at once");
    tokio::select! {
        biased;
        number = signals.next() => {
            tracing::warn!("ended at once by {again}: leases that are held expire");
            Exit::by_signal(number)
        }
        () = end => {
            for server in servers {
                server.cancel();
            }
            tracing::info!("shut down");
            // The servers end what they are answering, and with them this command.
            std::future::pending().await
        }
    }
}

/// What the page is, if there is one.
fn look(
    config: &Config,
    identity: &HostIdentity,
    store: &str,
    server: &Server,
    clock: &Arc<dyn Clock>,
) -> Option<Look> {
    let readers = match config.admin.page {
        Page::Loopback => Readers::ThisMachine,
        Page::Everyone => Readers::Everyone,
        Page::Off => return None,
    };
    let about = About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sidecar: String::new(),
        host_id: identity.host_id.to_string(),
        host_id_provider: identity.provider.to_string(),
        host_type: identity.host_type.to_string(),
        store: store.to_owned(),
        prefix: config.paths.all_prefix(),
        layout: config.paths.layout.as_str().to_owned(),
        endpoints: server.endpoints(),
    };
    let events = Arc::new(EventLog::new(Arc::clone(clock)));
    Some(Look { readers, hosts: config.admin.page_hosts.clone(), about, events })
}

fn announce(config: &Config, identity: &HostIdentity, store: &str) {
    for warning in &identity.warnings {
        tracing::warn!("{warning}");
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        store,
        container = %config.paths.container,
        host_id = %identity.host_id,
        host_type = %identity.host_type,
        provider = %identity.provider,
        "leasehold"
    );
    if matches!(config.store, config::Store::Embedded { .. }) {
        tracing::warn!("{}", excludes_only(in_a_pod()));
    }
}

/// Says that callers can fill more memory than there is, if the limits allow it (S38).
fn warn_of_memory(limits: &config::Limits) {
    if let Some(needed) = limits.excess() {
        tracing::warn!(
            memory = limits.memory.text(),
            needed = needed.text(),
            "the limits allow callers more than limits.memory: lower limits.connections, holds, resumes, waiters or \
             watchers, or give the sidecar more memory"
        );
    }
}

/// Says where it listens, and a command that works.
fn listening(config: &Config, server: &Server, admin: Option<SocketAddr>) {
    let endpoints = server.endpoints();
    let admin = admin.map(|address| format!("http://{address}")).unwrap_or_default();
    let tcp = server.address().map(|address| address.to_string()).unwrap_or_default();
    tracing::info!(endpoints = endpoints.join(" "), tcp, admin, "listening");
    if let Some(exposure) = config.listen.exposure(&config.access) {
        tracing::warn!(tcp, "{}", exposed(exposure));
    }
    if let Some(flags) = flags_to_try(&config.listen, &endpoints, !config.access.is_empty()) {
        tracing::info!(
            "try it: leasehold run {flags} --function hello -- sh -c 'echo I am the only one; sleep 30'"
        );
    }
}

/// What `listen.insecure` has allowed.
const fn exposed(exposure: Exposure) -> &'static str {
    match exposure {
        Exposure::Everybody => {
            "every client that reaches this address may acquire and release locks (listen.insecure)"
        }
        Exposure::PlainText => {
            "tokens and lease ids are sent to this address in plain text: whoever is on the way can read and use them \
             (listen.insecure)"
        }
    }
}

/// The flags by which a person reaches the sidecar: the Unix socket where there is one and TCP needs
/// credentials.
fn flags_to_try(listen: &config::Listen, endpoints: &[String], rules: bool) -> Option<String> {
    let client_ca = listen.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let token = listen.token_file.is_some() || (rules && !client_ca);
    let endpoint = match endpoints {
        [_tcp, unix] if client_ca || token => unix,
        [first, ..] => first,
        [] => return None,
    };
    let mut flags = format!("--endpoint {endpoint}");
    if endpoint.starts_with("https:") {
        flags.push_str(" --ca-file CA.pem");
    }
    if !endpoint.starts_with("unix:") {
        if client_ca {
            flags.push_str(" --certificate-file CLIENT.pem --key-file CLIENT-KEY.pem");
        }
        if token {
            flags.push_str(" --token-file TOKEN");
        }
    }
    Some(flags)
}

/// How many file descriptors this process may have, none without a limit, once it may have as many as the
/// system allows: the first limit is small for programs that cannot cope with more.
fn descriptors() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.and_then(|number| usize::try_from(number).ok())
}

/// The files of TLS.
pub(super) fn tls(tls: &config::Tls) -> Tls {
    Tls {
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        client_ca: tls.client_ca.clone(),
        crl: tls.crl.clone(),
        reload_interval: RELOAD_INTERVAL,
    }
}

fn settings(config: &Config, descriptors: Option<usize>) -> Settings {
    let listen = &config.listen;
    let bounded = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Settings {
        tcp: listen.tcp.map(|address| TcpSettings {
            address,
            tls: listen.tls.as_ref().map(tls),
            token_file: listen.token_file.clone(),
            direct: listen.direct,
            access: config.access.clone(),
        }),
        unix: listen.unix.as_ref().map(|unix| UnixSettings {
            path: unix.path.clone(),
            allowed_uids: unix.allowed_uids.clone(),
        }),
        probes: listen.probes.clone(),
        connections: config.limits.connections,
        watchers: config.limits.watchers,
        unfinished_bytes: config.limits.unfinished_bytes,
        unread_bytes: config.limits.unread_bytes,
        lasting_calls: config.limits.lasting_calls(),
        descriptors,
        streams_per_connection: bounded(config.limits.streams_per_connection),
        header_list_bytes: bounded(config.limits.header_list_bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[tokio::test]
    async fn a_server_that_breaks_ends_the_sidecar_though_it_answers_probes() {
        let serving = std::future::ready(Err("broken"));
        let ended = futures_util::poll!(std::pin::pin!(both(serving, std::future::pending())));
        assert_eq!(ended, std::task::Poll::Ready(Err("broken")));
    }

    #[test]
    fn what_is_said_to_try_has_what_the_sidecar_asks_for() {
        let tls = |client_ca: Option<&str>| config::Tls {
            certificate: "c".into(),
            key: "k".into(),
            client_ca: client_ca.map(PathBuf::from),
            crl: None,
        };
        let listen = |tls, token_file: Option<&str>| config::Listen {
            tcp: None,
            unix: None,
            probes: None,
            tls,
            token_file: token_file.map(PathBuf::from),
            insecure: false,
            direct: false,
        };
        let (tcp, unix) = ("https://locks.shop.svc:50951".to_owned(), "unix:///s".to_owned());
        let flags = |listen: &config::Listen, endpoints: &[String], rules| {
            flags_to_try(listen, endpoints, rules).unwrap()
        };
        let plain = ["http://127.0.0.1:50951".to_owned()];
        assert_eq!(flags(&listen(None, None), &plain, false), "--endpoint http://127.0.0.1:50951");
        let certificates = "--certificate-file CLIENT.pem --key-file CLIENT-KEY.pem";
        let mutual = listen(Some(tls(Some("ca"))), None);
        assert_eq!(
            flags(&mutual, std::slice::from_ref(&tcp), true),
            format!("--endpoint {tcp} --ca-file CA.pem {certificates}")
        );
        assert_eq!(flags(&mutual, &[tcp.clone(), unix], false), "--endpoint unix:///s");
        let by_token = listen(Some(tls(None)), None);
        assert_eq!(
            flags(&by_token, std::slice::from_ref(&tcp), true),
            format!("--endpoint {tcp} --ca-file CA.pem --token-file TOKEN")
        );
        assert_eq!(flags_to_try(&by_token, &[], false), None);
    }
}
