//! What a holder asks of its hold: to release it, to save a checkpoint or the outcome of its occurrence, to
//! extend it (S11, S13, S23 to S27, T8).

use std::time::Duration;

use tokio::sync::oneshot;

use crate::coordinator::Coordinator;
use crate::coordinator::actor::holder::{SaveCall, Saving};
use crate::coordinator::actor::task::{Command, HoldCall};
use crate::coordinator::call::{
    CallError, CheckpointOutcome, Concluding, Decider, Extended, HeldLock, OutcomeResult, Released,
    Saved, Validity,
};
use crate::coordinator::observe::HoldEnd;
use crate::hold::SaveOutcome;
use crate::lock::{LeaseId, LockPath};
use crate::record::CheckpointValue;
use crate::schedule::{Concluded, Occurrence, Report, conclude_over};

impl Coordinator {
    /// Releases a hold; answers when the store has it, or the lease can no longer be valid (S13).
    /// `generation` is the newest that the caller was answered with, if it knows it (S16).
    ///
    /// # Errors
    /// When this sidecar never had a hold with the lease id, or forgot it.
    pub async fn release(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
    ) -> Result<Released, CallError> {
        let concluding = self.release_concluding(lease_id, generation, None, None).await;
        concluding.map(|concluding| concluding.released)
    }

    /// As [`Coordinator::release`]; a checkpoint, and how the hold's occurrence has ended, are saved before
    /// in one write, and the hold is released whatever becomes of that (S26, T8).
    ///
    /// # Errors
    /// As [`Coordinator::release`]; when locks have no checkpoints here, or the hold has no occurrence: then
    /// nothing is released.
    pub async fn release_concluding(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        report: Option<Report>,
        checkpoint: Option<CheckpointValue>,
    ) -> Result<Concluding, CallError> {
        let has_checkpoint = checkpoint.is_some();
        if has_checkpoint {
            self.host().check_checkpoints("checkpoint")?;
        }
        let mut saving = Saving { value: checkpoint, decider: None };
        let mut conclusions = None;
        if let Some(report) = report
            && let Some((path, occurrence)) = self.named(lease_id)
        {
            let occurrence = occurrence.ok_or(CallError::NoOccurrence)?;
            let (decider, decisions) =
                Decider::new(move |found| conclude_over(found, occurrence, report));
            saving.decider = Some(decider);
            conclusions = Some((path, occurrence, decisions));
        }
        let (released, saved) = self.release_with(lease_id, generation, saving).await?;
        let outcome = report.map(|report| {
            let Some((path, occurrence, mut decisions)) = conclusions else {
                return unsaved(&released);
            };
            let result = concluded(decisions.last(), saved.as_ref(), &released);
            tracing::info!(
                lock = %path, occurrence = %occurrence.at, outcome = ?report, recorded = ?result,
                "occurrence ended"
            );
            result
        });
        let checkpoint = has_checkpoint.then(|| checkpoint_outcome(saved, &released));
        Ok(Concluding { released, checkpoint, outcome })
    }

    /// As [`Coordinator::release_concluding`], with whatever is to be written. What became of the save: none
    /// if there was none, or nobody answered it.
    pub(crate) async fn release_with(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        saving: Saving,
    ) -> Result<(Released, Option<SaveOutcome>), CallError> {
        let call = HoldCall { lease_id, generation };
        let (save, saved) = if saving.value.is_none() && saving.decider.is_none() {
            (None, None)
        } else {
            let (reply, saved) = oneshot::channel();
            (Some(SaveCall { saving, reply }), Some(saved))
        };
        let (reply, answer) = oneshot::channel();
        {
            let registry = self.shared.registry();
            if let Some(entry) = registry.holds.get(&lease_id) {
                let command = Command::Release(call, save, reply);
                if registry.send(&entry.path, command).is_err() {
                    return Err(registry.unknown_lease());
                }
            } else {
                registry.loss_is_known(call);
                drop((save, reply));
            }
        }
        // No hold, or the task failed under it: its holds are lost.
        let released = answer.await.or_else(|_| {
            let registry = self.shared.registry();
            let before = registry.ended(call).map(HoldEnd::released_before);
            before.ok_or_else(|| registry.unknown_lease())
        })?;
        let saved = match saved {
            Some(saved) => saved.await.ok(),
            None => None,
        };
        Ok((released, saved))
    }

    /// The lock of a hold of ours, and its occurrence if it has one; none at all if the hold is over.
    fn named(&self, lease_id: LeaseId) -> Option<(LockPath, Option<Occurrence>)> {
        let registry = self.shared.registry();
        registry
            .holds
            .get(&lease_id)
            .map(|hold| (hold.path.clone(), hold.occurrence.as_deref().copied()))
    }

    /// Writes something of the record under a hold that goes on (T20).
    pub(crate) async fn save_decided(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        decider: Decider,
    ) -> Result<SaveOutcome, CallError> {
        let saving = Saving { value: None, decider: Some(decider) };
        self.save_with(HoldCall { lease_id, generation }, saving).await
    }

    async fn save_with(&self, call: HoldCall, saving: Saving) -> Result<SaveOutcome, CallError> {
        let (reply, outcome) = oneshot::channel();
        let save = SaveCall { saving, reply };
        self.shared.ask(call, |answer| Command::Save(call, save, answer)).await?;
        outcome.await.map_err(|_| self.shared.registry().why_over(call))
    }

    /// Replaces the lock's checkpoint; answers when the store has it (S24).
    ///
    /// # Errors
    /// When the hold is over, was resumed since, or never was; when the store refuses, or the outcome stays
    /// unknown (S27).
    pub async fn save(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        value: CheckpointValue,
    ) -> Result<Saved, CallError> {
        self.host().check_checkpoints("value")?;
        let call = HoldCall { lease_id, generation };
        let saving = Saving { value: Some(value), decider: None };
        match self.save_with(call, saving).await? {
            // A checkpoint that was saved has a version.
            SaveOutcome::Saved { version: Some(version) } => {
                // The hold may have ended with its save: then nothing of its validity is left.
                let validity = self.get_hold(lease_id, generation).await;
                let ended = || self.shared.validity(self.clock().now());
                let validity = validity.map_or_else(|_| ended(), |held| held.validity);
                Ok(Saved { version, validity })
            }
            SaveOutcome::NotSaved(store_failure) => Err(CallError::StoreFailure(store_failure)),
            SaveOutcome::Unknown => Err(CallError::CheckpointUnknown),
            SaveOutcome::Saved { version: None } | SaveOutcome::Nothing | SaveOutcome::Ended => {
                Err(self.shared.registry().why_over(call))
            }
        }
    }

    /// Sets a new `max_hold`, counted from now (S11).
    ///
    /// # Errors
    /// When the hold is over, or never was.
    pub async fn extend(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        max_hold: Duration,
    ) -> Result<Extended, CallError> {
        let call = HoldCall { lease_id, generation };
        self.shared.ask(call, |reply| Command::Extend(call, max_hold, reply)).await
    }

    /// Resets the progress timeout (S11); answers with the validity (S21).
    ///
    /// # Errors
    /// When the hold is over, or never was.
    pub async fn report_progress(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
    ) -> Result<Validity, CallError> {
        let call = HoldCall { lease_id, generation };
        self.shared.ask(call, |reply| Command::ReportProgress(call, reply)).await
    }

    /// A hold that is not over, by its lease id; changes nothing of it.
    ///
    /// # Errors
    /// When the hold is over, or never was.
    pub async fn get_hold(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
    ) -> Result<HeldLock, CallError> {
        let call = HoldCall { lease_id, generation };
        self.shared.ask(call, |reply| Command::GetHold(call, reply)).await
    }
}

/// What became of a checkpoint that came with a release.
fn checkpoint_outcome(saved: Option<SaveOutcome>, released: &Released) -> CheckpointOutcome {
    let detail = match saved {
        Some(SaveOutcome::Saved { version: Some(version) }) => {
            return CheckpointOutcome::Saved { version };
        }
        Some(SaveOutcome::NotSaved(store_failure)) => store_failure.message,
        Some(SaveOutcome::Unknown) => {
            let detail = "the hold ended before the store answered".to_owned();
            return CheckpointOutcome::Unknown { detail };
        }
        // An earlier release has passed its save, which may have been of the same checkpoint.
        None if !matches!(released, Released::AlreadyLost { .. }) => {
            let detail =
                "the hold had been released before; what that call saved stands".to_owned();
            return CheckpointOutcome::Unknown { detail };
        }
        // A checkpoint that was saved has a version, and one that was brought is something to save.
        Some(SaveOutcome::Saved { version: None } | SaveOutcome::Nothing | SaveOutcome::Ended)
        | None => "the hold ended before it could be saved".to_owned(),
    };
    CheckpointOutcome::NotSaved { detail }
}

/// What became of an outcome, by what was decided last and what became of the save.
fn concluded(
    decided: Option<Concluded>,
    saved: Option<&SaveOutcome>,
    released: &Released,
) -> OutcomeResult {
    match saved {
        Some(SaveOutcome::Saved { .. } | SaveOutcome::Nothing) => match decided {
            Some(Concluded::Write(_) | Concluded::Recorded) => OutcomeResult::Recorded,
            Some(Concluded::NotThere) | None => OutcomeResult::NotRecorded,
        },
        Some(SaveOutcome::Unknown) => OutcomeResult::Unknown,
        Some(SaveOutcome::NotSaved(_) | SaveOutcome::Ended) => OutcomeResult::NotRecorded,
        None => unsaved(released),
    }
}

/// What became of an outcome that was not even tried to be saved: an earlier release may have brought the
/// same one.
const fn unsaved(released: &Released) -> OutcomeResult {
    match matches!(released, Released::AlreadyLost { .. }) {
        true => OutcomeResult::NotRecorded,
        false => OutcomeResult::Unknown,
    }
}
