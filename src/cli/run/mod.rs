//! `leasehold run`: acquire a lock, run a command while it is held, release it.
//!
//! The command runs in a process group of its own, which is dead before the validity ends (S21): `job.rs`
//! runs it, here and for `every`; `plan.rs` says when it is told to stop and when it is killed,
//! `supervise.rs` does it, `group.rs` has the processes, `exec.rs` and `sentinel.rs` are what is left should
//! this process be killed itself, `terminal.rs` lends it the terminal.

pub(super) mod checkpoint;
pub(super) mod exec;
mod group;
pub(super) mod job;
mod occurrence;
mod plan;
pub(super) mod sentinel;
mod supervise;
mod terminal;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use leasehold_client::{
    Client, Error, Hold, HoldEvent, LockKey, LockRecord, Loss, Outcome, ReleaseOutcome, RunOutcome,
};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::acquire_retry::{ask, collision, link, not_asked};
use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output;
use super::record;
use super::release::NOT_CONFIRMED;
use super::retry::{Patience, TOLD_AGAIN};
use super::signals::Signals;
use super::spec::{SpecArgs, duration};
use checkpoint::CheckpointFile;
use job::{Done, Ended, Job, Terms, exit_of};
use occurrence::{Named, OccurrenceArgs};

/// What tells a command which lock it runs under.
pub(super) const LOCK_PATH_VARIABLE: &str = "LEASEHOLD_LOCK_PATH";
/// The hidden command that becomes the command of `run`.
pub(super) const EXEC: &str = "run-exec";
/// The hidden command that outlives `run` to kill what it left.
pub(super) const SENTINEL: &str = "run-sentinel";

/// Acquires a lock, runs a command while it is held, and releases it, such as
/// `leasehold run nightly --wait 10m -- ./job`. The command is executed as it is given, without a
/// shell, in a process group of its own; its input, output and errors pass straight through.
///
/// When the lock is lost, or is about to be because it cannot be renewed, or the sidecar shuts down, the
/// command's process group is sent SIGTERM, then SIGKILL, early enough to be dead before the lock can be
/// anybody else's.
///
/// The command finds LEASEHOLD_FENCING_TOKEN, LEASEHOLD_LOCK_PATH, LEASEHOLD_LEASE_ID and LEASEHOLD_PERMIT in
/// its environment. With --max-hold it finds LEASEHOLD_HOLD_ENDS: when the hold ends, in seconds since 1970,
/// as `date +%s` prints. With --checkpoint it finds LEASEHOLD_CHECKPOINT_FILE, with --occurrence
/// LEASEHOLD_SCHEDULED_AT and LEASEHOLD_ATTEMPT.
///
/// With --occurrence the command's exit code is recorded as the outcome: 0 succeeded, 75 gives it to another
/// place, anything else failed and is tried again when the occurrence is started again.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    spec: SpecArgs,
    /// The exit code when the lock was not acquired within `--wait`, for commands that may exit with 75
    /// themselves.
    #[arg(long, value_name = "CODE", default_value_t = Exit::Busy.code())]
    busy_exit_code: u8,
    /// The exit code when the lock was lost, for commands that may exit with 76 themselves.
    #[arg(long, value_name = "CODE", default_value_t = Exit::Lost.code())]
    lost_exit_code: u8,
    /// Like --busy-exit-code, but nothing is printed. Use 0 for cron.
    #[arg(long, value_name = "CODE", conflicts_with = "busy_exit_code")]
    skip_exit_code: Option<u8>,
    /// How long the command has between SIGTERM and SIGKILL; so much earlier than the lock is lost it is told
    /// to stop. Default: 5s, or less with a short lease, and more where the lock allows. Never so long that
    /// it outlives the lock.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    kill_after: Option<Duration>,
    /// A file for the lock's checkpoint, at most 2,048 bytes. Before the command starts it gets the
    /// checkpoint as the last holder left it, or is removed if there is none. When the command ends with 0,
    /// what it has written there is saved with the release.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    occurrence: OccurrenceArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Signals that end the wait, and are passed on to the command.
pub(super) const PASSED_ON: [SignalKind; 6] = [
    SignalKind::interrupt(),
    SignalKind::terminate(),
    SignalKind::hangup(),
    SignalKind::quit(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
];

/// How long the store may take to have a release, before the lease is left to expire.
pub(super) const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// The same when the hold was ending anyway.
const LATE_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen(&PASSED_ON).context("cannot listen for signals")?;
    let wait = args.spec.wait;
    let (spec, named) = args.occurrence.name(args.spec.spec()?)?;
    let (priority, key) = (spec.priority, spec.key.clone());
    let file = args.checkpoint.as_deref().map(CheckpointFile::at).transpose()?;
    let mut patience = Patience::new(wait);
    let link = tokio::select! {
        biased;
        number = signals.next() => return Ok(Exit::by_signal(number)),
        link = link(&args.connection, &mut patience) => link?,
    };
    let (sender, mut events) = unbounded_channel();
    let asking = async {
        if file.is_some() {
            checkpoint::check_kept(&link.client, &mut patience).await?;
        }
        ask(&link, spec, sender, &mut patience).await
    };
    let notes = args.skip_exit_code.is_none().then_some((&link.client, &key));
    let outcome = tokio::select! {
        biased;
        number = signals.next() => {
            link.close().await;
            return Ok(Exit::by_signal(number));
        }
        outcome = with_notes(asking, &mut events, notes) => outcome,
    };
    let exit = match outcome {
        Ok(Outcome::Granted(guard)) => {
            let terms = Terms { kill_after: args.kill_after, priority, deadline: None };
            let job = Job { command: &args.command, terms, file };
            hold_and_run(guard, &mut events, &mut signals, job, named).await
        }
        Ok(Outcome::AlreadyDone(run)) => said(named.map(|named| named.already_done(&run))),
        Ok(Outcome::Skipped { watermark }) => said(named.map(|named| named.skipped(watermark))),
        Ok(Outcome::Busy(busy)) => {
            if args.skip_exit_code.is_none() {
                let collision = collision(&link.client, &key, busy.record.as_ref()).await;
                output::note(&format!("{}; waited {wait}{collision}", record::busy_text(&busy)));
            }
            Ok(Exit::Code(args.skip_exit_code.unwrap_or(args.busy_exit_code)))
        }
        Err(error) => Err(error),
    };
    link.close().await;
    Ok(if matches!(exit, Ok(Exit::Lost)) { Exit::Code(args.lost_exit_code) } else { exit? })
}

/// Waits for `outcome`, and says what for, at once and each minute: a job that only waits looks like one that
/// hangs.
async fn with_notes<T>(
    outcome: impl Future<Output = T>,
    events: &mut UnboundedReceiver<HoldEvent>,
    notes: Option<(&Client, &LockKey)>,
) -> T {
    let mut outcome = std::pin::pin!(outcome);
    let mut waits_for: Option<LockRecord> = None;
    let mut again = tokio::time::interval(TOLD_AGAIN);
    loop {
        tokio::select! {
            biased;
            outcome = &mut outcome => return outcome,
            Some(event) = events.recv() => {
                if let HoldEvent::Waiting(waiting) = event {
                    if waits_for.is_none() {
                        again.reset_immediately();
                    }
                    waits_for = waiting.record.or(waits_for).or_else(|| Some(LockRecord::default()));
                }
            }
            _ = again.tick(), if notes.is_some() => {
                if let Some((record, (client, key))) = waits_for.as_ref().zip(notes) {
                    let text = waiting_text(record);
                    // The lock may be granted while the sidecar is asked what it is.
                    let told = async {
                        let collision = collision(client, key, Some(record)).await;
                        output::note(&format!("{text}{collision}"));
                    };
                    tokio::select! {
                        biased;
                        outcome = &mut outcome => return outcome,
                        () = told => {}
                    }
                }
            }
        }
    }
}

fn waiting_text(record: &LockRecord) -> String {
    let own = std::env::var(LOCK_PATH_VARIABLE).is_ok_and(|path| path == record.lock_path);
    let own =
        if own { ": by the command that this one is part of, and so waits for itself" } else { "" };
    format!("{}{own}", record::waiting_text(record))
}

/// The occurrence is not to be run: says why, and ends so.
fn said(over: Option<(String, Exit)>) -> anyhow::Result<Exit> {
    let (text, exit) = over.ok_or_else(not_asked)?;
    output::note(&text);
    Ok(exit)
}

async fn hold_and_run(
    guard: Hold,
    events: &mut UnboundedReceiver<HoldEvent>,
    signals: &mut Signals,
    job: Job<'_>,
    named: Option<Named>,
) -> anyhow::Result<Exit> {
    if let Some(named) = named.filter(|_| guard.grant().attempt > 1) {
        let attempt = guard.grant().attempt;
        output::note(&format!("attempt {attempt} at the occurrence {}", named.at));
    }
    let more = named.map(|named| named.environment(&guard)).unwrap_or_default();
    let done = match job.run(&guard, more, events, signals).await {
        Ok(done) => done,
        Err(error) => {
            // The command did not run: whether the lock was lost meanwhile is of no concern. Elsewhere it may
            // run.
            let outcome = named.map(|_| RunOutcome::Returned);
            let _released = release(guard, None, outcome, RELEASE_TIMEOUT).await;
            return Err(error);
        }
    };
    let outcome = named.map(|named| named.outcome(&done, &guard, signals.ending()));
    let Done { ended, checkpoint, unreadable } = done;
    let timeout = match ended {
        Ended::Stopped(_) if checkpoint.is_none() => LATE_RELEASE_TIMEOUT,
        Ended::Stopped(_) | Ended::Command(_) => RELEASE_TIMEOUT,
    };
    let released = release(guard, checkpoint, outcome, timeout).await;
    Ok(match (ended, released) {
        (Ended::Stopped(_), _) => Exit::Lost,
        (Ended::Command(_), ReleaseEnd::Lost(loss)) => {
            output::note(&format!("the lock had been lost before the command ended: {loss}"));
            Exit::Lost
        }
        (Ended::Command(status), ReleaseEnd::NotSaved) if status.success() => Exit::NotSaved,
        (Ended::Command(_), ReleaseEnd::Done | ReleaseEnd::Unknown) if unreadable => Exit::NotSaved,
        (Ended::Command(status), ReleaseEnd::Done | ReleaseEnd::NotSaved | ReleaseEnd::Unknown) => {
            exit_of(status)
        }
    })
}

/// How a release ended.
enum ReleaseEnd {
    /// The lock was ours until then.
    Done,
    /// It was not (S13).
    Lost(Loss),
    /// The same as `Done`, and its checkpoint or its outcome was not saved, or nobody knows.
    NotSaved,
    /// It is released when its lease expires.
    Unknown,
}

/// Releases the lock, with a checkpoint and an outcome if there are any, and says so if that is not known to
/// have worked.
async fn release(
    guard: Hold,
    checkpoint: Option<Vec<u8>>,
    outcome: Option<RunOutcome>,
    timeout: Duration,
) -> ReleaseEnd {
    let what = match (&checkpoint, outcome) {
        (Some(_), Some(_)) => Some("the checkpoint and the outcome were"),
        (Some(_), None) => Some("the checkpoint was"),
        (None, Some(_)) => Some("the outcome was"),
        (None, None) => None,
    };
    let releasing = async {
        match (checkpoint, outcome) {
            (checkpoint, Some(outcome)) => guard.release_with_outcome(outcome, checkpoint).await,
            (Some(value), None) => guard.release_with_checkpoint(value).await,
            (None, None) => guard.release().await,
        }
    };
    let problem = match tokio::time::timeout(timeout, releasing).await {
        Ok(Ok(result)) => {
            if result.outcome == ReleaseOutcome::NotConfirmed {
                output::note(NOT_CONFIRMED);
            }
            return ReleaseEnd::Done;
        }
        Ok(Err(Error::Lost(loss))) => {
            if let Some(what) = what {
                output::note(&format!("{what} not saved: the lock was lost"));
            }
            return ReleaseEnd::Lost(loss);
        }
        Ok(Err(
            error @ (Error::CheckpointNotSaved(_)
            | Error::CheckpointUnknown(_)
            | Error::OutcomeNotRecorded(_)
            | Error::OutcomeUnknown),
        )) => {
            output::note(&error.to_string());
            return ReleaseEnd::NotSaved;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => "no answer in time".to_owned(),
    };
    output::note(&format!("the lock is available when its lease expires: {problem}"));
    if let Some(what) = what {
        output::note(&format!("it is not known whether {what} saved"));
        return ReleaseEnd::NotSaved;
    }
    ReleaseEnd::Unknown
}
