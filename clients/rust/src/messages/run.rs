//! Runs of a schedule's occurrences, and how they end.

use std::time::SystemTime;

use super::{CompletionResult, RunKind, RunOutcome, check_size, moment};
use crate::constants::DETAIL_BYTES;
use crate::errors::Error;
use crate::proto;

/// A run that has ended, or occurrences that were skipped up to and with this one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedRun {
    /// Why there was a run.
    pub kind: RunKind,
    /// The occurrence. `None` for a run by hand.
    pub scheduled_at: Option<SystemTime>,
    /// The id of the request; for runs by hand only.
    pub request_id: String,
    /// How it ended. `None` for an outcome that this version of the client does not know.
    pub outcome: Option<RunOutcome>,
    /// Which attempt, from 1; 0 if there was no run.
    pub attempt: u32,
    /// The fencing token of the run. `None` if there was none.
    pub fencing_token: Option<u64>,
}

impl EndedRun {
    pub(crate) fn from_wire(wire: proto::EndedRun) -> Self {
        Self {
            kind: RunKind::from_wire(wire.kind()),
            scheduled_at: moment(wire.scheduled_at.as_ref()),
            outcome: RunOutcome::from_wire(wire.outcome()),
            attempt: wire.attempt,
            fencing_token: wire.fencing_token,
            request_id: wire.request_id,
        }
    }
}

/// A run that was granted and has no outcome. If the lock is available, it was abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartedRun {
    /// Why there is a run.
    pub kind: RunKind,
    /// The occurrence. `None` for a run by hand.
    pub scheduled_at: Option<SystemTime>,
    /// The id of the request; for runs by hand only.
    pub request_id: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The fencing token of the run.
    pub fencing_token: u64,
    /// When it was started, by the store's clock.
    pub started_at: Option<SystemTime>,
    /// When it is to be over, by the store's clock. `None` if it has no deadline.
    pub deadline_at: Option<SystemTime>,
}

impl StartedRun {
    pub(crate) fn from_wire(wire: proto::StartedRun) -> Self {
        Self {
            kind: RunKind::from_wire(wire.kind()),
            scheduled_at: moment(wire.scheduled_at.as_ref()),
            attempt: wire.attempt,
            fencing_token: wire.fencing_token,
            started_at: moment(wire.started_at.as_ref()),
            deadline_at: moment(wire.deadline_at.as_ref()),
            request_id: wire.request_id,
        }
    }
}

/// The outcome of a run, as whoever ran it says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Said {
    Succeeded,
    Failed,
    FailedFinal,
    Returned,
}

/// How a run ended, and why: what [`Run::complete`](crate::Run::complete) records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    said: Said,
    detail: String,
    checkpoint: Option<Vec<u8>>,
}

impl Completion {
    const fn new(said: Said, detail: String) -> Self {
        Self { said, detail, checkpoint: None }
    }

    /// It did its work, and is never granted again.
    #[must_use]
    pub const fn succeeded() -> Self {
        Self::new(Said::Succeeded, String::new())
    }

    /// It did not, and is tried again if attempts are left. `detail` is for the sidecar's log: what is longer
    /// than 512 bytes is cut. Not for secrets.
    #[must_use]
    pub fn failed(detail: impl Into<String>) -> Self {
        Self::new(Said::Failed, cut(detail.into()))
    }

    /// It did not, and is not tried again. `detail` as in [`failed`](Self::failed).
    #[must_use]
    pub fn failed_final(detail: impl Into<String>) -> Self {
        Self::new(Said::FailedFinal, cut(detail.into()))
    }

    /// Another replica is to run it. Does not count as an attempt, at most 10 times.
    #[must_use]
    pub const fn returned() -> Self {
        Self::new(Said::Returned, String::new())
    }

    /// Saves a checkpoint in the same write: at most 2,048 bytes. Only while the run's hold goes on.
    ///
    /// # Errors
    /// [`Error::Refused`] with [`Reason::InvalidField`](crate::Reason::InvalidField) for too large a value.
    pub fn with_checkpoint(self, value: impl AsRef<[u8]>) -> Result<Self, Error> {
        let value = value.as_ref().to_vec();
        check_size("checkpoint", &value)?;
        Ok(Self { checkpoint: Some(value), ..self })
    }

    /// The outcome as it is recorded.
    #[must_use]
    pub const fn outcome(&self) -> RunOutcome {
        match self.said {
            Said::Succeeded => RunOutcome::Succeeded,
            Said::Failed => RunOutcome::Failed,
            Said::FailedFinal => RunOutcome::FailedFinal,
            Said::Returned => RunOutcome::Returned,
        }
    }

    /// For the run of this id, of which this hold is the newest.
    pub(crate) fn into_wire(
        self,
        lease_id: String,
        generation: u64,
        run_id: String,
    ) -> proto::CompleteRunRequest {
        let outcome = match self.said {
            Said::Succeeded => proto::RunOutcome::Succeeded,
            Said::Failed => proto::RunOutcome::Failed,
            Said::FailedFinal => proto::RunOutcome::FailedFinal,
            Said::Returned => proto::RunOutcome::Returned,
        };
        proto::CompleteRunRequest {
            lease_id,
            run_id,
            outcome: outcome.into(),
            detail: self.detail,
            generation,
            checkpoint: self.checkpoint,
        }
    }
}

/// What a run's work gives when it did not fail: nothing in particular has succeeded.
impl From<()> for Completion {
    fn from((): ()) -> Self {
        Self::succeeded()
    }
}

/// Not more than the sidecar takes, and whole characters.
fn cut(mut detail: String) -> String {
    let mut end = detail.len().min(DETAIL_BYTES);
    while !detail.is_char_boundary(end) {
        end -= 1;
    }
    detail.truncate(end);
    detail
}

/// The answer to the completion of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompletedRun {
    /// What became of the outcome.
    pub result: CompletionResult,
    /// When the occurrence is tried again. `None` if it is not.
    pub retry_at: Option<SystemTime>,
    /// The occurrence that is waited for now. `None` if there is none.
    pub next_at: Option<SystemTime>,
    /// What became of the checkpoint: its version if it was saved. `None` if there was none to save.
    pub checkpoint: Option<SavedWith>,
}

/// What became of a checkpoint that came with an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedWith {
    /// It was saved, as this version.
    Saved(u64),
    /// The earlier checkpoint stands.
    NotSaved,
    /// The earlier one stands or this one; the next grant tells which (S27).
    Unknown,
}

impl CompletedRun {
    pub(crate) fn from_wire(wire: &proto::CompleteRunResponse) -> Self {
        Self {
            result: CompletionResult::from_wire(wire.result()),
            retry_at: moment(wire.retry_at.as_ref()),
            next_at: moment(wire.next_at.as_ref()),
            checkpoint: match wire.checkpoint_outcome() {
                proto::CheckpointOutcome::Unspecified => None,
                proto::CheckpointOutcome::Saved => Some(SavedWith::Saved(wire.checkpoint_version)),
                proto::CheckpointOutcome::NotSaved => Some(SavedWith::NotSaved),
                proto::CheckpointOutcome::Unknown => Some(SavedWith::Unknown),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let detail = "ü".repeat(400);
        let request = Completion::failed(detail).into_wire(String::new(), 0, String::new());
        assert_eq!(request.detail.len(), 512);
        let request = Completion::failed(format!("x{}", "ü".repeat(400))).into_wire(
            String::new(),
            0,
            String::new(),
        );
        assert_eq!(request.detail.len(), 511);
    }
}
