//! `leasehold bench`: load on a sidecar of its own, and the result.

mod load;
mod report;
mod sidecar;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::SignalKind;

use self::load::{Load, Tally};
use self::report::BenchReport;
use self::sidecar::{Sample, Sidecar};
use super::connection::ConfigArgs;
use super::exit::{Exit, UsageError};
use super::output::{self, OutputArgs};
use super::signals::Signals;
use super::spec::duration;
use super::times::span;
use crate::time::{BootClock, Clock};

/// Starts a sidecar of its own, lets many clients acquire and release locks through it for a while, by stream
/// and by calls of their own, and reports whether a hold was lost, two clients held one lock, or the
/// sidecar's memory, files or tasks grow. The configuration flags are the sidecar's; without any it keeps its
/// locks in a temporary file.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many clients there are.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// How many connections they share.
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: u32,
    /// How many locks they acquire.
    #[arg(long, value_name = "NUMBER", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    locks: u32,
    /// The percentage of clients that use single calls instead of a stream.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100))]
    unary: u32,
    /// How long a lock is held, at most.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    hold: Duration,
    /// How long the load lasts.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    duration: Duration,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Between two samples of the sidecar's process.
const LOOK: Duration = Duration::from_millis(500);
/// Shorter loads have no second half to see growth in.
const SHORTEST: Duration = Duration::from_secs(5);

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    if args.duration < SHORTEST {
        return Err(UsageError("--duration must be at least 5s".to_owned()).into());
    }
    let mut signals = Signals::listen(&[SignalKind::terminate(), SignalKind::interrupt()])
        .context("cannot listen for signals")?;
    let mut sidecar = Sidecar::start(&args.config).await?;
    let idle = sidecar.sample().await?;
    let load = Load {
        clients: args.clients,
        locks: args.locks,
        unary: args.unary,
        hold: args.hold,
        connections: sidecar.connect(args.connections).await?,
    };
    let tally = Arc::new(Tally::new(args.locks));
    output::note(&format!(
        "{} clients acquire {} locks for {}",
        args.clients,
        args.locks,
        span(args.duration)
    ));
    let clock = BootClock::new();
    let began = clock.now();
    let running = load.start(&tally);
    let watching = watch(&mut sidecar, &clock, args.duration);
    let samples = tokio::select! {
        samples = watching => samples?,
        number = signals.next() => return Ok(Exit::by_signal(number)),
    };
    running.finish().await;
    let lasted = clock.now().saturating_since(began);
    let rest = sidecar.rest(&idle).await?;
    let report = BenchReport::new(&tally, lasted, &samples, idle, rest);
    output::result(args.output.output, || report.text(), &report)?;
    sidecar.end().await;
    Ok(if report.is_well() { Exit::Success } else { Exit::Internal })
}

/// Samples the sidecar's process until the load is over.
async fn watch(
    sidecar: &mut Sidecar,
    clock: &dyn Clock,
    duration: Duration,
) -> anyhow::Result<Vec<(Duration, Sample)>> {
    let began = clock.now();
    let mut samples = Vec::new();
    let mut ticks = tokio::time::interval(LOOK);
    loop {
        ticks.tick().await;
        let at = clock.now().saturating_since(began);
        if at >= duration {
            return Ok(samples);
        }
        samples.push((at, sidecar.sample().await?));
    }
}
