//! Holds whose callers name an occurrence of their own: granted until an outcome is recorded, never after
//! (T1, T2).

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::Coordinator;
use super::decided::Decided;
use super::error::CallError;
use super::hold_event::HoldEvent;
use super::request::{Outcome, Released};
use super::saves::{CheckpointOutcome, Saving, outcome};
use super::task::{Command, Task};
use crate::hold::{AtGrant, CallerId, GrantPart, SaveOutcome, SavePart};
use crate::lock::{CheckpointValue, FencingToken, Fields, LeaseId, LockPath};
use crate::schedule::{
    Claim, Concluded, Ended, Occurrence, RecordError, Report, ScheduleRecord, claim, conclude,
};
use crate::time::UnixMillis;
use crate::timetable::UtcSecond;

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
pub(super) struct Named {
    path: LockPath,
    pub(super) occurrence: Occurrence,
    claimed: Decided<Claimed>,
}

#[derive(Clone, Debug)]
enum Claimed {
    Granted { token: FencingToken, attempt: u32 },
    AlreadyDone(Ended),
    Skipped { watermark: UtcSecond },
    Refused(CallError),
}

impl Named {
    pub(super) fn new(path: LockPath, occurrence: Occurrence) -> Self {
        Self { path, occurrence, claimed: Decided::default() }
    }

    /// One that was granted before, and goes on (S16).
    pub(super) fn resumed(
        path: LockPath,
        occurrence: Occurrence,
        token: FencingToken,
        attempt: u32,
    ) -> Self {
        let named = Self::new(path, occurrence);
        *named.claimed.cell() = Some(Claimed::Granted { token, attempt });
        named
    }

    /// Which attempt this token was granted for; 0 if it was granted for none.
    pub(super) fn attempt(&self, granted: FencingToken) -> u32 {
        match &*self.claimed.cell() {
            Some(Claimed::Granted { token, attempt }) if *token == granted => *attempt,
            Some(
                Claimed::Granted { .. }
                | Claimed::AlreadyDone(_)
                | Claimed::Skipped { .. }
                | Claimed::Refused(_),
            )
            | None => 0,
        }
    }

    /// What a caller is answered that was granted nothing; none if nothing has said so.
    fn answer(&self) -> Option<Result<Outcome, CallError>> {
        match self.claimed.cell().clone()? {
            Claimed::AlreadyDone(ended) => Some(Ok(Outcome::AlreadyDone(ended))),
            Claimed::Skipped { watermark } => Some(Ok(Outcome::Skipped { watermark })),
            Claimed::Refused(error) => Some(Err(error)),
            Claimed::Granted { .. } => None,
        }
    }

    fn unreadable(&self, error: &RecordError) -> CallError {
        CallError::ScheduleUnreadable { path: self.path.clone(), problem: error.to_string() }
    }
}

impl GrantPart for Named {
    fn at_grant(&self, fields: &Fields, token: FencingToken, store_time: UnixMillis) -> AtGrant {
        let now = store_time.into();
        let claim = ScheduleRecord::from_fields(fields)
            .map(|record| claim(record.as_ref(), self.occurrence, token, now));
        let (claimed, at_grant) = match claim {
            Ok(Claim::Granted { record, attempt }) => {
                let fields = record.into_fields(fields.clone());
                let grant = AtGrant::Grant { fields, max_hold: None };
                (Claimed::Granted { token, attempt }, grant)
            }
            Ok(Claim::AlreadyDone { ended, record: Some(record) }) => {
                let fields = record.into_fields(fields.clone());
                (Claimed::AlreadyDone(ended), AtGrant::Settle { fields })
            }
            Ok(Claim::AlreadyDone { ended, record: None }) => {
                (Claimed::AlreadyDone(ended), AtGrant::TurnAway)
            }
            Ok(Claim::Skipped { watermark }) => (Claimed::Skipped { watermark }, AtGrant::TurnAway),
            Ok(Claim::InFuture) => {
                let error = CallError::OccurrenceInFuture { at: self.occurrence.at, now };
                (Claimed::Refused(error), AtGrant::TurnAway)
            }
            Ok(Claim::HasSchedule) => {
                let error = CallError::LockHasSchedule { path: self.path.clone() };
                (Claimed::Refused(error), AtGrant::TurnAway)
            }
            Err(error) => (Claimed::Refused(self.unreadable(&error)), AtGrant::TurnAway),
        };
        *self.claimed.cell() = Some(claimed);
        at_grant
    }
}

/// How an occurrence has ended, as its holder says at the release.
#[derive(Debug)]
struct Conclusion {
    named: Arc<Named>,
    report: Report,
    concluded: Decided<Concluded>,
}

impl SavePart for Conclusion {
    fn at_save(
        &self,
        fields: &Fields,
        token: FencingToken,
        _store_time: UnixMillis,
    ) -> Option<Fields> {
        // What cannot be read does not have this run.
        let record = ScheduleRecord::from_fields(fields).ok().flatten();
        let concluded = conclude(record.as_ref(), self.named.occurrence, token, self.report);
        let written = match &concluded {
            Concluded::Write(record) => Some(record.clone().into_fields(fields.clone())),
            Concluded::Recorded | Concluded::NotThere => None,
        };
        *self.concluded.cell() = Some(concluded);
        written
    }
}

impl Conclusion {
    fn result(&self, saved: Option<&SaveOutcome>, released: &Released) -> OutcomeResult {
        match saved {
            Some(SaveOutcome::Saved { .. } | SaveOutcome::Nothing) => {
                match &*self.concluded.cell() {
                    Some(Concluded::Write(_) | Concluded::Recorded) => OutcomeResult::Recorded,
                    Some(Concluded::NotThere) | None => OutcomeResult::NotRecorded,
                }
            }
            Some(SaveOutcome::Unknown) => OutcomeResult::Unknown,
            Some(SaveOutcome::NotSaved(_) | SaveOutcome::Ended) => OutcomeResult::NotRecorded,
            None => unsaved(released),
        }
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
        let Some(report) = report else {
            let (released, checkpoint) =
                self.release_saving(lease_id, generation, checkpoint).await?;
            return Ok(Concluding { released, checkpoint, outcome: None });
        };
        if checkpoint.is_some() {
            self.check_checkpoints("checkpoint")?;
        }
        let conclusion = match self.named(lease_id).await {
            Some(named) => {
                let named = named.ok_or(CallError::NoOccurrence)?;
                Some(Arc::new(Conclusion { named, report, concluded: Decided::default() }))
            }
            None => None,
        };
        let part = conclusion.clone().map(|conclusion| conclusion as Arc<dyn SavePart>);
        let has_checkpoint = checkpoint.is_some();
        let saving = Saving { value: checkpoint, part };
        let (released, saved) = self.release_with(lease_id, generation, saving).await?;
        let saved = saved.flatten();
        let result = match &conclusion {
            Some(conclusion) => conclusion.result(saved.as_ref(), &released),
            None => unsaved(&released),
        };
        if let Some(conclusion) = conclusion {
            let Named { path, occurrence, .. } = &*conclusion.named;
            tracing::info!(
                lock = %path, occurrence = %occurrence.at, outcome = ?report, recorded = ?result,
                "occurrence ended"
            );
        }
        let checkpoint = has_checkpoint.then(|| outcome(saved, &released));
        Ok(Concluding { released, checkpoint, outcome: Some(result) })
    }

    /// The occurrence of a hold of ours, if it has one. None at all if the hold is over.
    async fn named(&self, lease_id: LeaseId) -> Option<Option<Arc<Named>>> {
        let (reply, answer) = oneshot::channel();
        {
            let registry = self.shared.registry();
            let path = &registry.hold(lease_id)?.path;
            registry.send(path, Command::Named(lease_id, reply)).ok()?;
        }
        answer.await.ok()
    }

    /// Checks whether locks can have occurrences here: software that shares the layout `webjobs` drops the
    /// fields of others.
    pub(super) fn check_occurrences(&self) -> Result<(), CallError> {
        let layout = self.host().namespace.layout;
        if layout.keeps_checkpoints() { Ok(()) } else { Err(CallError::NoOccurrences) }
    }
}

/// The occurrences that callers of one lock have named.
#[derive(Debug, Default)]
pub(super) struct Occurrences(BTreeMap<CallerId, Arc<Named>>);

impl Task {
    /// A caller has come, or come back, with an occurrence.
    pub(super) fn note_named(&mut self, caller: CallerId, named: Option<Arc<Named>>) {
        let Some(named) = named else { return };
        let callers = &self.callers;
        let aside = self.aside.get_or_insert_default();
        // Those of callers that have gone since.
        aside.occurrences.0.retain(|id, _| callers.get(id).is_some());
        aside.occurrences.0.insert(caller, named);
    }

    pub(super) fn named(&self, caller: CallerId) -> Option<&Arc<Named>> {
        self.aside.as_ref()?.occurrences.0.get(&caller)
    }

    /// Answers with the occurrence of a hold; a hold that is over is not answered.
    pub(super) fn tell_named(&self, lease_id: LeaseId, reply: oneshot::Sender<Option<Arc<Named>>>) {
        if let Some(caller) = self.holder(lease_id) {
            // Who does not wait for it any more has gone.
            let _ = reply.send(self.named(caller).cloned());
        }
    }

    /// What a caller is told that was granted nothing, because what it brought has said so.
    pub(super) fn settled_answer(
        &self,
        caller: CallerId,
        written: bool,
    ) -> Result<Outcome, CallError> {
        let named = self.named(caller).and_then(|named| named.answer());
        named.unwrap_or(Ok(Outcome::Settled { written }))
    }
}

/// The same for a stream: its last event.
pub(super) fn settled_event(answer: Result<Outcome, CallError>) -> HoldEvent {
    match answer {
        Ok(Outcome::AlreadyDone(ended)) => HoldEvent::AlreadyDone(ended),
        Ok(Outcome::Skipped { watermark }) => HoldEvent::Skipped { watermark },
        Ok(Outcome::Settled { written }) => HoldEvent::Settled { written },
        Ok(Outcome::Granted(_) | Outcome::Busy(_)) => HoldEvent::Settled { written: false },
        Err(error) => HoldEvent::Failed(error),
    }
}
