//! `leasehold serve`: the sidecar.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use leasehold_client::DEFAULT_ENDPOINT;
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;

use super::connection::ConfigArgs;
use super::engine::{self, Engine};
use super::exit::Exit;
use super::output;
use super::signals::Signals;
use crate::admin::Admin;
use crate::config::Config;
use crate::coordinator::Coordinator;
use crate::grpc;
use crate::telemetry::{self, Measured, Metrics};

/// Runs the sidecar. Without any configuration it keeps locks in a file in your state folder and listens on
/// 127.0.0.1:50951. See docs/configuration.md for all settings.
///
/// SIGTERM and SIGINT let holders finish (drain.period) before it ends; a second one ends it at once.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the configuration, with where each value comes from and secrets masked, and end.
    #[arg(long)]
    print_config: bool,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let config = args.config.load()?;
    if args.print_config {
        output::print(&config.print())?;
        return Ok(Exit::Success);
    }
    telemetry::init(config.log.format, &config.log.filter)?;
    // Before anything is had that a signal must not cut off.
    let signals = Signals::listen(&[SignalKind::terminate(), SignalKind::interrupt()])
        .context("cannot listen for signals")?;
    let sidecar = Sidecar::start(&config).await?;
    sidecar.announce();
    sidecar.serve(config.drain.period, signals).await
}

/// Everything that runs, listening and not yet answering.
struct Sidecar {
    engine: Engine,
    server: grpc::Server,
    admin: Option<Admin>,
    metrics: Metrics,
    /// The kind of store, for people.
    store: &'static str,
}

impl Sidecar {
    async fn start(config: &Config) -> anyhow::Result<Self> {
        let identity = engine::identify(config)?;
        for warning in &identity.warnings {
            tracing::warn!("{warning}");
        }
        // What is taken by another process is found out before the store is touched.
        let server = grpc::Server::bind(listeners(config)).await?;
        let admin = match config.admin.listen {
            Some(address) => Some(Admin::bind(address).await?),
            None => None,
        };
        let clock = engine::clock();
        let metrics = Metrics::new(clock.as_ref());
        let store = engine::open_store(config, &clock)?;
        let kind = store.kind();
        let store = Arc::new(Measured::new(store, Arc::clone(&clock), metrics.clone()));
        let observer = Arc::new(metrics.clone());
        let engine = Engine::start(config, identity, store, clock, observer);
        Ok(Self { engine, server, admin, metrics, store: kind })
    }

    /// Says where it is, and how to try it.
    fn announce(&self) {
        let host = self.engine.coordinator.host();
        let endpoints = self.server.endpoints();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            endpoints = endpoints.join(" "),
            admin = self.admin.as_ref().map(|admin| admin.address().to_string()),
            store = self.store,
            host_id = %host.host_id,
            host_type = %host.host_type,
            host_id_from = host.provider,
            "serving"
        );
        if let Some(endpoint) = endpoints.first() {
            let flag = if endpoint == DEFAULT_ENDPOINT {
                String::new()
            } else {
                format!("--endpoint {endpoint} ")
            };
            tracing::info!(
                "try it: leasehold run {flag}--function hello -- echo 'this has the lock'"
            );
        }
    }

    /// Serves until a signal, and drains then (S15). A second signal ends it at once.
    async fn serve(self, period: Duration, mut signals: Signals) -> anyhow::Result<Exit> {
        let Self { engine: Engine { coordinator, limits }, server, admin, metrics, .. } = self;
        let stop = CancellationToken::new();
        let mut served = tokio::spawn(server.run(coordinator.clone(), limits, stop.clone()));
        let admin = admin.map(|admin| {
            let stop = stop.clone().cancelled_owned();
            tokio::spawn(admin.run(coordinator.clone(), metrics, stop))
        });
        let checking = tokio::spawn({
            let coordinator = coordinator.clone();
            async move { coordinator.keep_checking().await }
        });
        tokio::select! {
            broke = &mut served => {
                broke.context("the server broke")?.context("the server broke")?;
                anyhow::bail!("the server ended by itself");
            }
            number = signals.next() => {
                let period = humantime::format_duration(period);
                tracing::info!(signal = number, "draining: holders have {period} to let go");
            }
        }
        tokio::select! {
            () = end(&coordinator, period, &stop, served) => {}
            number = signals.next() => {
                tracing::warn!(signal = number, "ended at once: leases that are still held run out");
                return Ok(Exit::by_signal(number));
            }
        }
        checking.abort();
        if let Some(admin) = admin {
            // It ends within a second of `stop`.
            let _ = admin.await;
        }
        tracing::info!("ended");
        Ok(Exit::Success)
    }
}

/// Lets holders finish, then the calls that are being answered.
async fn end(
    coordinator: &Coordinator,
    period: Duration,
    stop: &CancellationToken,
    served: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
) {
    coordinator.drain(period).await;
    stop.cancel();
    match served.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the server broke while it was ending"),
        Err(error) => tracing::error!(%error, "the server broke while it was ending"),
    }
}

fn listeners(config: &Config) -> grpc::Settings {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    grpc::Settings {
        tcp: config.listen.tcp.map(|address| grpc::TcpSettings {
            address,
            tls: config.listen.tls.as_ref().map(|tls| grpc::Tls {
                certificate: tls.certificate.clone(),
                key: tls.key.clone(),
                client_ca: tls.client_ca.clone(),
            }),
            token_file: config.listen.token_file.clone(),
        }),
        unix: config.listen.unix.as_ref().map(|unix| grpc::UnixSettings {
            path: unix.path.clone(),
            allowed_uids: unix.allowed_uids.clone(),
        }),
        connections: config.limits.connections,
        streams_per_connection: small(config.limits.streams_per_connection),
        header_list_bytes: small(config.limits.header_list_bytes),
    }
}
