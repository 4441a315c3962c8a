//! `leasehold run`: take a lock, run a command while it is held, release it.
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
use leasehold_client::{Error, HoldEvent, HoldGuard, Loss, Outcome};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output;
use super::record;
use super::signals::Signals;
use super::spec::{SpecArgs, span};
use group::Group;
use supervise::{Ended, supervise};

/// The hidden command that becomes the command of `run`.
pub(super) const EXEC: &str = "run-exec";
/// The hidden command that outlives `run` to kill what it left.
pub(super) const SENTINEL: &str = "run-sentinel";

/// Takes a lock, runs a command while it is held, and releases it. The command is executed as it is given, without a
/// shell, in a process group of its own; its input, output and errors pass straight through.
///
/// When the lock is at risk or lost, or the sidecar shuts down, the command's process group is sent SIGTERM, then
/// SIGKILL, early enough to be dead before the lock can be anybody else's.
///
/// The command finds LEASEHOLD_FENCING_TOKEN, LEASEHOLD_LOCK_PATH and LEASEHOLD_LEASE_ID in its environment.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: the command's own, 128 and the signal's number when a signal ended it; 75 the lock was \
                  not had within --wait; 76 the lock was lost: the command was stopped, or the release found that it \
                  had been lost before the command ended; 126 and 127 the command \
                  cannot be run."
)]
pub(super) struct Args {
    #[command(flatten)]
    spec: SpecArgs,
    /// The exit code when the lock was not had within `--wait`, instead of 75; nothing is said then. 0 suits cron.
    #[arg(long, value_name = "CODE")]
    skip_exit_code: Option<u8>,
    /// How long the command has between SIGTERM and SIGKILL. Default: as long as the lock allows. Never so long that
    /// it outlives the lock.
    #[arg(long, value_parser = span, value_name = "DURATION", allow_hyphen_values = true)]
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

/// How long the store may take to have a release, before the lease is left to run out.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// The same when the hold was ending anyway.
const LATE_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen(&PASSED_ON).context("cannot listen for signals")?;
    let Args { spec, skip_exit_code, kill_after, connection, command } = args;
    let wait = spec.wait;
    let spec = spec.spec()?;
    let link = tokio::select! {
        biased;
        number = signals.next() => return Ok(Exit::by_signal(number)),
        link = connection.link() => link?,
    };
    let (sender, mut events) = unbounded_channel();
    let holding = link.client.hold(spec).events(sender);
    let outcome = tokio::select! {
        biased;
        number = signals.next() => {
            link.close().await;
            return Ok(Exit::by_signal(number));
        }
        outcome = with_notes(holding.into_future(), &mut events) => outcome,
    };
    let exit = match outcome {
        Ok(Outcome::Granted(guard)) => {
            hold_and_run(guard, &mut events, &mut signals, kill_after, &command).await
        }
        Ok(Outcome::Busy(busy)) => {
            if skip_exit_code.is_none() {
                let waited = humantime::format_duration(wait);
                output::note(&format!("{}; waited {waited}", record::busy_text(&busy)));
            }
            Ok(skip_exit_code.map_or(Exit::NotHad, Exit::Code))
        }
        Err(error) => Err(error.into()),
    };
    link.close().await;
    exit
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

fn environment(guard: &HoldGuard) -> [(&'static str, String); 3] {
    [
        ("LEASEHOLD_FENCING_TOKEN", guard.fencing_token().to_string()),
        ("LEASEHOLD_LOCK_PATH", guard.lock_path().to_owned()),
        (super::release::LEASE_ID_VARIABLE, guard.lease_id().to_owned()),
    ]
}

/// How a release ended.
enum Released {
    /// The lock was ours until then.
    Done,
    /// It was not (S13).
    Lost(Loss),
    /// It is released when its lease runs out.
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
    output::note(&format!("the lock will be free when its lease runs out: {problem}"));
    Released::Unknown
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(number)) => Exit::by_signal(number),
        (None, None) => Exit::Internal,
    }
}
