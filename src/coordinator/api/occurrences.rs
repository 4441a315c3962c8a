//! Holds whose callers name an occurrence of their own: granted until an outcome is recorded, never after
//! (T1, T2).

use std::sync::Arc;

use super::saves::outcome;
use crate::coordinator::{
    Brought, CallError, CheckpointOutcome, Coordinator, Decider, Outcome, Released, Saving,
};
use crate::hold::{SaveOutcome, Terms};
use crate::lock::{FencingToken, LeaseId, LockPath};
use crate::record::{CheckpointValue, Found, Verdict};
use crate::schedule::{
    Claimed, Concluded, Occurrence, Report, claim_over, conclude_over, withdraw_over,
};

/// What became of an outcome that came with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeResult {
    /// The store has it.
    Recorded,
    /// The store does not have it: the next caller with this occurrence is granted it.
    NotRecorded,
    /// The store may have it or not: who asks for the occurrence again is told (S27).
    Unknown,
}

/// A hold was released, with what came with that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concluding {
    /// What became of the hold.
    pub released: Released,
    /// What became of the checkpoint; none if there was none (S26).
    pub checkpoint: Option<CheckpointOutcome>,
    /// What became of the outcome; none if there was none (T8).
    pub outcome: Option<OutcomeResult>,
}

/// The occurrence that a caller has named, and what has come of that.
#[derive(Debug)]
pub(crate) struct Named {
    path: LockPath,
    pub(crate) occurrence: Occurrence,
    claimed: Option<Claimed>,
    /// The tokens that it was to be granted with: where it is decided again, it was not (T6).
    tokens: Vec<FencingToken>,
}

impl Named {
    pub(crate) const fn new(path: LockPath, occurrence: Occurrence) -> Self {
        Self { path, occurrence, claimed: None, tokens: Vec::new() }
    }

    /// One that was granted before, and goes on (S16).
    pub(crate) fn resumed(
        path: LockPath,
        occurrence: Occurrence,
        token: FencingToken,
        attempt: u32,
    ) -> Self {
        let claimed = Some(Claimed::Granted { token, attempt });
        Self { claimed, ..Self::new(path, occurrence) }
    }

    /// Which attempt this token was granted for; 0 if it was granted for none.
    pub(crate) fn attempt(&self, granted: FencingToken) -> u32 {
        match &self.claimed {
            Some(Claimed::Granted { token, attempt }) if *token == granted => *attempt,
            Some(_) | None => 0,
        }
    }

    /// What is written over the record that was found, beside the caller's token.
    /// `ungranted`: what others were to be granted here, and were not (T6).
    pub(crate) fn decide(&mut self, found: &Found, ungranted: &[FencingToken]) -> Verdict {
        let ungranted = [&self.tokens, ungranted].concat();
        let (verdict, claimed) = claim_over(found, self.occurrence, &ungranted);
        if let Claimed::Granted { token, .. } = claimed {
            self.tokens.push(token);
        }
        self.claimed = Some(claimed);
        verdict
    }

    /// What it was to be granted with, which may be written, where it goes ungranted (T6).
    pub(crate) fn ungranted(&self) -> Vec<FencingToken> {
        self.tokens.clone()
    }

    /// What a caller is answered that was granted nothing; none if nothing has said so.
    pub(crate) fn answer(&self) -> Option<Result<Outcome, CallError>> {
        let path = self.path.clone();
        match self.claimed.clone()? {
            Claimed::AlreadyDone(ended) => Some(Ok(Outcome::AlreadyDone(ended))),
            Claimed::Skipped { watermark } => Some(Ok(Outcome::Skipped { watermark })),
            Claimed::InFuture { now } => {
                Some(Err(CallError::OccurrenceInFuture { at: self.occurrence.at, now }))
            }
            Claimed::HasSchedule => Some(Err(CallError::LockHasSchedule { path })),
            Claimed::Unreadable(error) => {
                Some(Err(CallError::ScheduleUnreadable { path, problem: error.to_string() }))
            }
            Claimed::Granted { .. } => None,
        }
    }
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
    match released {
        Released::AlreadyLost { .. } => OutcomeResult::NotRecorded,
        Released::Released
        | Released::NotConfirmed
        | Released::Resting { .. }
        | Released::AlreadyReleased => OutcomeResult::Unknown,
    }
}

impl Coordinator {
    /// T6: what may be written for a caller of these terms, which was then not granted, ends as returned:
    /// under the same lease, if that has not gone back yet. One try: somebody else may have gone on.
    pub(crate) async fn withdraw(
        self,
        path: LockPath,
        terms: Arc<Terms>,
        ungranted: Vec<FencingToken>,
    ) {
        let (decider, _) = Decider::new(move |found| (withdraw_over(found, &ungranted), ()));
        let brought = Brought { decider, seen: None };
        let (record, lease_duration) = (terms.record.clone(), terms.lease_duration);
        // Where it cannot be written, the next caller takes it for an attempt.
        let _ = self.settle_at(&path, record, lease_duration, brought).await;
    }

    /// As [`Coordinator::release_saving`]; how the hold's occurrence has ended is written before, in one
    /// write with the checkpoint (T8).
    ///
    /// # Errors
    /// As [`Coordinator::release_saving`]; when the hold has no occurrence: then nothing is released.
    pub async fn release_concluding(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        report: Option<Report>,
        checkpoint: Option<CheckpointValue>,
    ) -> Result<Concluding, CallError> {
        if checkpoint.is_some() {
            self.check_checkpoints("checkpoint")?;
        }
        let named = match report {
            Some(report) => self.named(lease_id).map(|named| (report, named)),
            None => None,
        };
        let Some((report, (path, occurrence))) = named else {
            let (released, checkpoint) =
                self.release_saving(lease_id, generation, checkpoint).await?;
            let outcome = report.map(|_| unsaved(&released));
            return Ok(Concluding { released, checkpoint, outcome });
        };
        let occurrence = occurrence.ok_or(CallError::NoOccurrence)?;
        let (decider, mut conclusions) =
            Decider::new(move |found| conclude_over(found, occurrence, report));
        let has_checkpoint = checkpoint.is_some();
        let saving = Saving { value: checkpoint, decider: Some(decider) };
        let (released, saved) = self.release_with(lease_id, generation, saving).await?;
        let saved = saved.flatten();
        let result = concluded(conclusions.last(), saved.as_ref(), &released);
        tracing::info!(
            lock = %path, occurrence = %occurrence.at, outcome = ?report, recorded = ?result,
            "occurrence ended"
        );
        let checkpoint = has_checkpoint.then(|| outcome(saved, &released));
        Ok(Concluding { released, checkpoint, outcome: Some(result) })
    }

    /// The lock of a hold of ours, and its occurrence if it has one; none at all if the hold is over.
    fn named(&self, lease_id: LeaseId) -> Option<(LockPath, Option<Occurrence>)> {
        let registry = self.shared.registry();
        registry.hold(lease_id).map(|hold| (hold.path.clone(), hold.occurrence.as_deref().copied()))
    }

    /// Checks whether locks can have occurrences here: software that shares the layout `webjobs` drops the
    /// fields of others.
    pub(crate) fn check_occurrences(&self) -> Result<(), CallError> {
        let layout = self.host().namespace.layout;
        if layout.keeps_checkpoints() { Ok(()) } else { Err(CallError::NoOccurrences) }
    }
}
