//! The unary calls of a holder, one method each: for holds by call, and for those by stream.

use std::time::Duration;

use crate::client::{Client, within};
use crate::constants::{CALL_TIMEOUT, SAVE_GRACE};
use crate::errors::{Error, Reason};
use crate::messages::{
    Code, Extension, HoldInfo, ReleaseResult, RunOutcome, Validity, check_size, wire_duration,
};
use crate::proto;

/// A release may wait until the lease can no longer be valid (S13), at most one lease duration.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(90);
/// The longest lease there is: a save is answered before the validity of its hold has ended.
const LONGEST_LEASE: Duration = Duration::from_secs(60);

impl Client {
    /// Releases a lock that [`acquire`](Self::acquire) took, and waits until the store has it, at most one
    /// lease duration. Stop acting on the lock before calling this; may be repeated. Look at the result's
    /// outcome: `AlreadyLost` says that somebody else may have had the lock before.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::UnknownLease`] if the sidecar knows no such hold.
    pub async fn release(&self, lease_id: impl Into<String>) -> Result<ReleaseResult, Error> {
        let result = self.release_hold(lease_id.into(), 0, None, None).await?;
        Ok(ReleaseResult::from_wire(&result))
    }

    /// The same, and saves a checkpoint before: at most 2,048 bytes. Where that fails the lock is released
    /// all the same (S26).
    ///
    /// # Errors
    /// As [`release`](Self::release). [`Error::CheckpointNotSaved`] and [`Error::CheckpointUnknown`]: the
    /// lock was released. [`Error::Refused`] with [`Reason::InvalidField`] for too large a value: then
    /// nothing was done.
    pub async fn release_with_checkpoint(
        &self,
        lease_id: impl Into<String>,
        value: impl AsRef<[u8]>,
    ) -> Result<ReleaseResult, Error> {
        let value = value.as_ref().to_vec();
        check_size("checkpoint", &value)?;
        let result = self.release_hold(lease_id.into(), 0, Some(value), None).await?;
        check_saved(&result)?;
        Ok(ReleaseResult::from_wire(&result))
    }

    /// The same, and says how the occurrence has ended that the spec names: see
    /// [`Hold::release_with_outcome`](crate::Hold::release_with_outcome).
    ///
    /// # Errors
    /// As [`release`](Self::release). [`Error::OutcomeNotRecorded`] and [`Error::OutcomeUnknown`]: the lock
    /// was released.
    pub async fn release_with_outcome(
        &self,
        lease_id: impl Into<String>,
        outcome: RunOutcome,
    ) -> Result<ReleaseResult, Error> {
        let result = self.release_hold(lease_id.into(), 0, None, Some(outcome)).await?;
        check_recorded(&result)?;
        Ok(ReleaseResult::from_wire(&result))
    }

    /// The same for a hold by stream, of which this is the newest generation that was answered (S16).
    pub(crate) async fn release_hold(
        &self,
        lease_id: String,
        generation: u64,
        checkpoint: Option<Vec<u8>>,
        outcome: Option<RunOutcome>,
    ) -> Result<proto::ReleaseResult, Error> {
        let request = proto::ReleaseLeaseRequest {
            lease_id: lease_id.clone(),
            generation,
            checkpoint,
            outcome: outcome.map_or(proto::RunOutcome::Unspecified, RunOutcome::into_wire).into(),
        };
        let mut calls = self.about(&lease_id);
        let answer =
            self.answer(calls.leases.release_lease(within(RELEASE_TIMEOUT, request)).await);
        if answer.as_ref().map_or_else(|error| error.code() == Some(Code::NotFound), |_| true) {
            self.forget(&lease_id);
        }
        answer?.result.ok_or(Error::Protocol("a release was answered without a result"))
    }

    /// Replaces the checkpoint of a lock that [`acquire`](Self::acquire) took, and gives its version: see
    /// [`Hold::save`](crate::Hold::save).
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::HoldLost`] or [`Reason::HoldReleased`] if the hold is over, and
    /// with [`Reason::InvalidField`] for too large a value; [`Error::CheckpointUnknown`].
    pub async fn save_checkpoint(
        &self,
        lease_id: impl Into<String>,
        value: impl AsRef<[u8]>,
    ) -> Result<u64, Error> {
        let value = value.as_ref().to_vec();
        check_size("value", &value)?;
        let answer = self.save_hold(lease_id.into(), 0, value, LONGEST_LEASE).await?;
        Ok(answer.version)
    }

    /// The same for a hold by stream, of which this is the newest generation that was answered (S16), and
    /// which is valid for so long.
    pub(crate) async fn save_hold(
        &self,
        lease_id: String,
        generation: u64,
        value: Vec<u8>,
        valid_for: Duration,
    ) -> Result<proto::SaveCheckpointResponse, Error> {
        let mut calls = self.about(&lease_id);
        let request = proto::SaveCheckpointRequest { lease_id, generation, value };
        let request = within(valid_for + SAVE_GRACE, request);
        match self.answer(calls.leases.save_checkpoint(request).await) {
            Err(error)
                if error.reason() == Some(&Reason::CheckpointUnknown) || error.is_unanswered() =>
            {
                Err(Error::CheckpointUnknown(error.to_string()))
            }
            Err(error) => Err(self.knowing("checkpoints", error).await),
            saved => saved,
        }
    }

    /// Sets a new bound of the hold, counted from now.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::HoldLost`] if the hold is over.
    pub async fn extend(
        &self,
        lease_id: impl Into<String>,
        max_hold: Duration,
    ) -> Result<Extension, Error> {
        let answer = self.extend_hold(lease_id.into(), 0, max_hold).await?;
        Ok(Extension::from_wire(&answer))
    }

    /// The same for a hold by stream, of which this is the newest generation that was answered (S16).
    pub(crate) async fn extend_hold(
        &self,
        lease_id: String,
        generation: u64,
        max_hold: Duration,
    ) -> Result<proto::ExtendLeaseResponse, Error> {
        let (mut calls, max_hold) = (self.about(&lease_id), Some(wire_duration(max_hold)));
        let request = proto::ExtendLeaseRequest { lease_id, max_hold, generation };
        self.answer(calls.leases.extend_lease(within(CALL_TIMEOUT, request)).await)
    }

    /// Says that the holder makes progress, and restarts `progress_timeout` (S11). Returns until when it may
    /// act.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::HoldLost`] if the hold is lost.
    pub async fn report_progress(&self, lease_id: impl Into<String>) -> Result<Validity, Error> {
        let validity = self.report_hold(lease_id.into(), 0).await?;
        Ok(Validity::from_wire(&validity))
    }

    /// The same for a hold by stream, of which this is the newest generation that was answered (S16).
    pub(crate) async fn report_hold(
        &self,
        lease_id: String,
        generation: u64,
    ) -> Result<proto::Validity, Error> {
        let mut calls = self.about(&lease_id);
        let request = proto::ReportProgressRequest { lease_id, generation };
        let answer = calls.leases.report_progress(within(CALL_TIMEOUT, request)).await;
        self.answer(answer)?
            .validity
            .ok_or(Error::Protocol("a report was answered without a validity"))
    }

    /// A hold that is not over, by its lease id: its validity, its bounds and its state. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::HoldLost`] or
    /// [`Reason::HoldReleased`] if the hold is over.
    pub async fn get_hold(&self, lease_id: impl Into<String>) -> Result<HoldInfo, Error> {
        Ok(HoldInfo::from_wire(self.ask_hold(lease_id.into(), 0).await?))
    }

    /// The same for a hold by stream, of which this is the newest generation that was answered (S16).
    pub(crate) async fn ask_hold(
        &self,
        lease_id: String,
        generation: u64,
    ) -> Result<proto::GetHoldResponse, Error> {
        let mut calls = self.about(&lease_id);
        let request = proto::GetHoldRequest { lease_id, generation };
        self.answer(calls.leases.get_hold(within(CALL_TIMEOUT, request)).await)
    }
}

/// What became of an outcome that came with a release, unless it was recorded.
pub(crate) fn check_recorded(result: &proto::ReleaseResult) -> Result<(), Error> {
    match result.outcome_result() {
        proto::OutcomeResult::Recorded => Ok(()),
        proto::OutcomeResult::NotRecorded => Err(Error::OutcomeNotRecorded(String::new())),
        proto::OutcomeResult::Unknown => Err(Error::OutcomeUnknown),
        // S37.
        proto::OutcomeResult::Unspecified => Err(Error::OutcomeNotRecorded(
            ": the sidecar does not know occurrences, and is older than this request; update it"
                .to_owned(),
        )),
    }
}

/// What became of a checkpoint that came with a release, unless it was saved.
pub(crate) fn check_saved(result: &proto::ReleaseResult) -> Result<(), Error> {
    let detail = result.checkpoint_detail.clone();
    match result.checkpoint_outcome() {
        proto::CheckpointOutcome::Saved => Ok(()),
        proto::CheckpointOutcome::NotSaved => Err(Error::CheckpointNotSaved(detail)),
        proto::CheckpointOutcome::Unknown => Err(Error::CheckpointUnknown(detail)),
        // S37.
        proto::CheckpointOutcome::Unspecified => Err(Error::CheckpointNotSaved(
            "the sidecar does not know checkpoints: it is older than this request; update it"
                .to_owned(),
        )),
    }
}
