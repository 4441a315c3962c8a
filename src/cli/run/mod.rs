//! `leasehold run`: acquire a lock, run a command while it is held, release it.
//!
//! The command runs in a process group of its own, which is dead before the validity ends (S21): `plan.rs` says when
//! it is told to stop and when it is killed, `supervise.rs` does it, `group.rs` has the processes, `exec.rs` and
//! `sentinel.rs` are what is left should this process be killed itself, `terminal.rs` lends it the terminal.

pub(super) mod exec;
mod group;
mod plan;
pub(super) mod sentinel;
mod supervise;
mod terminal;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context as _;
use leasehold_client::{Deadline, Error, HoldEvent, HoldGuard, LeaseSpec, Loss, Outcome};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::{ConnectionArgs, Link};
use super::exit::Exit;
use super::output;
use super::patience::Patience;
use super::record;
use super::signals::Signals;
use super::spec::{SpecArgs, duration};
use crate::time::{BootClock, Clock as _};
use group::Group;
use supervise::{Ended, supervise};

/// The hidden command that becomes the command of `run`.
pub(super) const EXEC: &str = "run-exec";
/// The hidden command that outlives `run` to kill what it left.
pub(super) const SENTINEL: &str = "run-sentinel";

/// Acquires a lock, runs a command while it is held, and releases it, such as
/// `leasehold run nightly --wait 10m -- ./job`. The command is executed as it is given, without a
/// shell, in a process group of its own; its input, output and errors pass straight through.
///
/// When the lock is at risk or lost, or the sidecar shuts down, the command's process group is sent SIGTERM, then
/// SIGKILL, early enough to be dead before the lock can be anybody else's.
///
/// The command finds LEASEHOLD_FENCING_TOKEN, LEASEHOLD_LOCK_PATH and LEASEHOLD_LEASE_ID in its environment, and with
/// --max-hold LEASEHOLD_HOLD_ENDS: when the hold ends, in seconds since 1970, as `date +%s` prints.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: the command's own, 128 and the signal's number when a signal ended it; 75 \
                  (--busy-exit-code) the lock was not acquired within --wait; 76 (--lost-exit-code) the lock was lost: \
                  the command was stopped, or the release found that it had been lost before the command ended; 126 \
                  and 127 the command cannot be run."
)]
pub(super) struct Args {
    #[command(flatten)]
    spec: SpecArgs,
    /// The exit code when the lock was not acquired within `--wait`, for commands that end with 75 themselves.
    #[arg(long, value_name = "CODE", default_value_t = Exit::Busy.code())]
    busy_exit_code: u8,
    /// The exit code when the lock was lost, for commands that end with 76 themselves.
    #[arg(long, value_name = "CODE", default_value_t = Exit::Lost.code())]
    lost_exit_code: u8,
    /// The same as --busy-exit-code, and nothing is printed then. Use 0 for cron.
    #[arg(long, value_name = "CODE", conflicts_with = "busy_exit_code")]
    skip_exit_code: Option<u8>,
    /// How long the command has between SIGTERM and SIGKILL. Default: as long as the lock allows. Never so long that
    /// it outlives the lock.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    kill_after: Option<Duration>,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Signals that end the wait, and are passed on to the command.
const PASSED_ON: [SignalKind; 6] = [
    SignalKind::interrupt(),
    SignalKind::terminate(),
    SignalKind::hangup(),
    SignalKind::quit(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
];

/// How long the store may take to have a release, before the lease is left to expire.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// The same when the hold was ending anyway.
const LATE_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen(&PASSED_ON).context("cannot listen for signals")?;
    let wait = args.spec.wait;
    let spec = args.spec.spec()?;
    let mut patience = Patience::new(wait);
    let link = tokio::select! {
        biased;
        number = signals.next() => return Ok(Exit::by_signal(number)),
        link = link(&args.connection, &mut patience) => link?,
    };
    let (sender, mut events) = unbounded_channel();
    let asking = ask(&link, spec, sender, &mut patience);
    let outcome = tokio::select! {
        biased;
        number = signals.next() => {
            link.close().await;
            return Ok(Exit::by_signal(number));
        }
        outcome = with_notes(asking, &mut events) => outcome,
    };
    let exit = match outcome {
        Ok(Outcome::Granted(guard)) => {
            hold_and_run(guard, &mut events, &mut signals, args.kill_after, &args.command).await
        }
        Ok(Outcome::Busy(busy)) => {
            if args.skip_exit_code.is_none() {
                output::note(&format!("{}; waited {wait}", record::busy_text(&busy)));
            }
            Ok(Exit::Code(args.skip_exit_code.unwrap_or(args.busy_exit_code)))
        }
        Err(error) => Err(error),
    };
    link.close().await;
    Ok(if matches!(exit, Ok(Exit::Lost)) { Exit::Code(args.lost_exit_code) } else { exit? })
}

/// Connects, while the wait lasts.
async fn link(connection: &ConnectionArgs, patience: &mut Patience) -> anyhow::Result<Link> {
    loop {
        match connection.clone().link().await {
            Ok(link) => return Ok(link),
            Err(error) => patience.after(error).await?,
        }
    }
}

/// Asks for the lock until it is granted or the wait is over, also through a restart of the sidecar.
async fn ask(
    link: &Link,
    spec: LeaseSpec,
    events: UnboundedSender<HoldEvent>,
    patience: &mut Patience,
) -> anyhow::Result<Outcome<HoldGuard>> {
    loop {
        let left = patience.left();
        let spec = spec.clone().with_wait(left.unwrap_or_default());
        let holding = link.client.hold(spec).events(events.clone());
        let asked = match left {
            Some(_) => holding.await,
            None => holding.until_granted().await.map(Outcome::Granted),
        };
        match asked {
            Ok(outcome) => return Ok(outcome),
            Err(error) => patience.after(error.into()).await?,
        }
    }
}

/// Waits for `outcome`, and tells a person on a terminal what for.
async fn with_notes<T>(
    outcome: impl Future<Output = T>,
    events: &mut UnboundedReceiver<HoldEvent>,
) -> T {
    let mut outcome = std::pin::pin!(outcome);
    let mut told = !std::io::stderr().is_terminal();
    loop {
        tokio::select! {
            biased;
            outcome = &mut outcome => return outcome,
            Some(event) = events.recv() => {
                if let HoldEvent::Waiting(waiting) = event && !told {
                    told = true;
                    let record = waiting.record.unwrap_or_default();
                    let by = record::holder_text(&record);
                    output::note(&format!("waiting for {}, held{by}", record.lock_path));
                }
            }
        }
    }
}

async fn hold_and_run(
    guard: HoldGuard,
    events: &mut UnboundedReceiver<HoldEvent>,
    signals: &mut Signals,
    kill_after: Option<Duration>,
    command: &[OsString],
) -> anyhow::Result<Exit> {
    signals.also(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
    let mut group = match Group::start(command, &environment(&guard)) {
        Ok(group) => group,
        Err(error) => {
            // The command did not run: whether the lock was lost meanwhile is of no concern.
            let _released = release(guard, RELEASE_TIMEOUT).await;
            return Err(error);
        }
    };
    let ended = supervise(&guard, events, signals, &mut group, kill_after).await;
    // S13: nothing of the command runs any more; only now may the lock be another's.
    group.dismiss();
    match ended {
        Ended::Command(status) => match release(guard, RELEASE_TIMEOUT).await {
            Released::Lost(loss) => {
                output::note(&format!("the lock had been lost before the command ended: {loss}"));
                Ok(Exit::Lost)
            }
            Released::Done | Released::Unknown => Ok(exit_of(status)),
        },
        Ended::Stopped => {
            let _released = release(guard, LATE_RELEASE_TIMEOUT).await;
            Ok(Exit::Lost)
        }
    }
}

fn environment(guard: &HoldGuard) -> Vec<(&'static str, String)> {
    let ends = guard.grant().max_hold_ends.as_ref();
    let ends = ends.map(|ends| ("LEASEHOLD_HOLD_ENDS", unix_seconds(ends).to_string()));
    let always = [
        ("LEASEHOLD_FENCING_TOKEN", guard.fencing_token().to_string()),
        ("LEASEHOLD_LOCK_PATH", guard.lock_path().to_owned()),
        (super::release::LEASE_ID_VARIABLE, guard.lease_id().to_owned()),
    ];
    always.into_iter().chain(ends).collect()
}

/// When the hold ends, in whole seconds since 1970, as `date +%s` counts; rounded down, so that who stops by it is not
/// late.
fn unix_seconds(ends: &Deadline) -> u64 {
    let clock = BootClock::new();
    let here = !ends.boot_id.is_empty() && ends.boot_id == clock.boot_id();
    let after = if here {
        ends.at.since_boot().saturating_sub(clock.now().since_boot())
    } else {
        ends.after
    };
    (clock.wall() + after).seconds()
}

/// How a release ended.
enum Released {
    /// The lock was ours until then.
    Done,
    /// It was not (S13).
    Lost(Loss),
    /// It is released when its lease expires.
    Unknown,
}

/// Releases the lock, and says so if that is not known to have worked.
async fn release(guard: HoldGuard, timeout: Duration) -> Released {
    let problem = match tokio::time::timeout(timeout, guard.release()).await {
        Ok(Ok(_)) => return Released::Done,
        Ok(Err(Error::Lost(loss))) => return Released::Lost(loss),
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => "no answer in time".to_owned(),
    };
    output::note(&format!("the lock is available when its lease expires: {problem}"));
    Released::Unknown
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(number)) => Exit::by_signal(number),
        (None, None) => Exit::Internal,
    }
}
