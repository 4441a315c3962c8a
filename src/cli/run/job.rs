//! A command that runs under a hold: what it is told, and how it ended.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use leasehold_client::{Deadline, Hold, HoldEvent, RunOutcome};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc::UnboundedReceiver;

use super::checkpoint::CheckpointFile;
use super::group::Group;
use super::output;
use super::supervise::supervise;
pub(in crate::cli) use super::supervise::{Ended, Terms};
use crate::cli::exit::Exit;
use crate::cli::release::LEASE_ID_VARIABLE;
use crate::cli::signals::Signals;
use crate::time::{BootClock, Clock as _};

/// What is run under a hold.
#[derive(Debug)]
pub(in crate::cli) struct Job<'a> {
    /// The command and its arguments.
    pub(in crate::cli) command: &'a [OsString],
    pub(in crate::cli) terms: Terms,
    /// Where it finds and leaves the lock's checkpoint.
    pub(in crate::cli) file: Option<CheckpointFile>,
}

/// What is told a command in its environment.
pub(in crate::cli) type Environment = Vec<(&'static str, OsString)>;

/// How a command ended, and what it left.
#[derive(Debug)]
pub(in crate::cli) struct Done {
    /// Nothing of its group is left.
    pub(in crate::cli) ended: Ended,
    /// The checkpoint to be saved, if it ended with 0 and left a new one.
    pub(in crate::cli) checkpoint: Option<Vec<u8>>,
    /// Whether what it left cannot be read; that was said.
    pub(in crate::cli) unreadable: bool,
}

impl Job<'_> {
    /// Runs the command to its end, which is before the hold's validity ends (S21).
    ///
    /// # Errors
    /// When it cannot be started.
    pub(in crate::cli) async fn run(
        mut self,
        guard: &Hold,
        more: Environment,
        events: &mut UnboundedReceiver<HoldEvent>,
        signals: &mut Signals,
    ) -> anyhow::Result<Done> {
        signals.also(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
        if let Some(file) = &mut self.file {
            file.write(guard.checkpoint())?;
        }
        let environment: Environment = self.environment(guard).into_iter().chain(more).collect();
        let mut group = Group::start(self.command, &environment)?;
        let ended = supervise(guard, events, signals, &mut group, self.terms).await;
        // S13: nothing of the command runs any more; only now may the lock be another's.
        group.dismiss();
        let (Ended::Command(status) | Ended::Stopped(status)) = ended;
        let saving = self.file.filter(|_| status.success()).map(|file| file.changed());
        Ok(match saving.transpose() {
            Ok(value) => Done { ended, checkpoint: value.flatten(), unreadable: false },
            Err(error) => {
                output::note(&format!("the checkpoint was not saved: {error:#}"));
                Done { ended, checkpoint: None, unreadable: true }
            }
        })
    }

    fn environment(&self, guard: &Hold) -> Environment {
        let ends = guard.grant().max_hold_ends.as_ref();
        let ends = ends.map(|ends| ("LEASEHOLD_HOLD_ENDS", unix_seconds(ends).to_string().into()));
        let file = self.file.as_ref();
        let file = file.map(|file| ("LEASEHOLD_CHECKPOINT_FILE", file.path().into()));
        let always = [
            ("LEASEHOLD_FENCING_TOKEN", guard.fencing_token().to_string()),
            (super::LOCK_PATH_VARIABLE, guard.lock_path().to_owned()),
            (LEASE_ID_VARIABLE, guard.lease_id().to_owned()),
            ("LEASEHOLD_PERMIT", guard.permit().to_string()),
        ];
        let always = always.into_iter().map(|(name, value)| (name, value.into()));
        always.chain(ends).chain(file).collect()
    }
}

/// When the hold ends, in whole seconds since 1970, as `date +%s` counts; rounded down, so that who stops by
/// it is not late.
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

/// The exit code of a command that ended by itself.
pub(in crate::cli) fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(number)) => Exit::by_signal(number),
        (None, None) => Exit::Internal,
    }
}

/// What the end of a command by itself says of its work (T11). `ending` is the signal that told this process
/// to end, if one did; `final_exit_code` says that another try is no use.
pub(in crate::cli) fn outcome_of(
    status: ExitStatus,
    ending: Option<i32>,
    final_exit_code: Option<u8>,
) -> RunOutcome {
    let code = exit_of(status).code();
    if status.success() {
        return RunOutcome::Succeeded;
    }
    if final_exit_code == Some(code) {
        return RunOutcome::FailedFinal;
    }
    // Ended by the signal that was passed on: it was told to stop, and is to be done elsewhere.
    let stopped = ending.is_some_and(|number| Exit::by_signal(number).code() == code);
    if code == Exit::Busy.code() || stopped { RunOutcome::Returned } else { RunOutcome::Failed }
}
