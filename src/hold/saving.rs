//! A holder's checkpoint, and what is written with it or without one, on its way to the store (S23 to S27,
//! T8).

use std::time::Duration;

use super::acquisition::unexpected;
use super::action::{Action, LossReason, Request, SaveOutcome};
use super::event::{CallerId, Failure, RequestId, SaveAsked, StoreFailure};
use super::held::{BROKEN, DELETED, GracePeriod, Held, Phase};
use super::output::Output;
use super::releasing::TAKEN;
use super::validity::cut_off;
use super::{Flight, Hold, Known, State};
use crate::lock::{Checkpoint, CheckpointValue, ETag, Fields, LeaseId};
use crate::time::Instant;

mod beginning;
mod settling;

use beginning::Asker;

/// The shortest time between two saves of a lock, except with a release (S26).
const BETWEEN_SAVES: Duration = Duration::from_secs(1);
/// How long a hold must last that was handed on, until the record is written of it (S10).
pub(super) const RECORDED_AFTER: Duration = Duration::from_secs(1);

/// The saves of one hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Saving {
    under_way: Option<Writing>,
    /// What waits for its turn, and everybody who is answered with its outcome (S26).
    next: Option<Save>,
    /// When a save was last begun.
    begun_at: Option<Instant>,
    /// The newest request when a save was last found to be stored: reads up to it may be from before.
    newest: Option<RequestId>,
    /// The reservation that ends soon after the release was begun to be written (S33).
    reserved_at_end: bool,
}

#[derive(Clone, Debug, Default)]
struct Save {
    askers: Vec<Asker>,
    /// The newest value.
    value: Option<CheckpointValue>,
}

/// A write whose outcome is not settled.
#[derive(Clone, Debug)]
struct Writing {
    askers: Vec<Asker>,
    checkpoint: Option<Checkpoint>,
    /// What the parts have changed.
    left: Vec<(String, Option<String>)>,
    /// The name of the write, in the record if it was done (S27).
    write: String,
    if_match: ETag,
    fields: Fields,
    step: SaveStep,
    flight: Flight,
    /// A try may have been done, or may yet be.
    uncertain: bool,
    /// It brings the record up to the hold, and nothing else (S10).
    only_records: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SaveStep {
    Write,
    /// The record is read to see whether the write was done.
    Settle,
}

impl Saving {
    /// Whether something is not settled yet: then nothing is handed on (S13, S26).
    pub(super) const fn is_unsettled(&self) -> bool {
        self.under_way.is_some() || self.next.is_some()
    }

    /// Whether a request is under way that a renewal waits for: both go by the record's version.
    pub(super) fn is_in_flight(&self) -> bool {
        self.under_way.as_ref().is_some_and(|writing| matches!(writing.flight, Flight::Sent { .. }))
    }

    /// Whether a write is under way that may have been done, or may yet be. One that met another version may
    /// have been done all the same: the network has repeated it.
    pub(super) fn may_be_done(&self) -> bool {
        self.under_way.as_ref().is_some_and(|writing| {
            let sent = matches!(writing.flight, Flight::Sent { .. });
            sent || writing.uncertain || writing.step == SaveStep::Settle
        })
    }

    /// When something is to be done; a renewal that is under way comes first, until it is given up.
    fn poll_timeout(&self, last: bool, renewing: Option<Instant>) -> Option<Instant> {
        match &self.under_way {
            Some(writing) if matches!(writing.flight, Flight::Sent { .. }) => {
                Some(writing.flight.at())
            }
            Some(writing) => Some(renewing.unwrap_or_else(|| writing.flight.at())),
            None if self.next.is_none() => None,
            None => renewing.or_else(|| self.due(last)),
        }
    }

    /// When the next save may begin; the last one of a hold waits for nothing.
    fn due(&self, last: bool) -> Option<Instant> {
        let begun_at = self.begun_at?;
        Some(if last { begun_at } else { begun_at + BETWEEN_SAVES })
    }

    /// Forgets a write that only brings the record up to the hold, and surely was not done: nobody waits for
    /// it.
    fn drop_recording(&mut self) {
        if !self.may_be_done() {
            self.under_way.take_if(|writing| writing.only_records);
        }
    }

    /// The record is to be written though nobody has anything to save: it is reserved (S33).
    pub(super) fn reserve(&mut self, now: Instant) {
        self.next.get_or_insert_default();
        self.begun_at.get_or_insert_with(|| now.saturating_sub(BETWEEN_SAVES));
    }

    /// The same at the end of the hold, once.
    pub(super) fn reserve_at_end(&mut self, now: Instant) {
        self.reserved_at_end = true;
        self.reserve(now);
    }

    pub(super) const fn is_reserved_at_end(&self) -> bool {
        self.reserved_at_end
    }

    fn queue(&mut self, save: SaveAsked, now: Instant) {
        self.next.get_or_insert_default().add(save);
        // The first one is due at once.
        self.begun_at.get_or_insert_with(|| now.saturating_sub(BETWEEN_SAVES));
    }
}

/// Answers everybody who waits for a save of a hold that is over here: what may have been done is unknown
/// (S27).
pub(super) fn end_saves(saving: Option<&Saving>, output: &mut Output) {
    let Some(saving) = saving else { return };
    if let Some(writing) = &saving.under_way {
        let unknown = saving.may_be_done();
        let outcome = if unknown { SaveOutcome::Unknown } else { SaveOutcome::Ended };
        tell_saved(&writing.askers, &outcome, output);
    }
    if let Some(next) = &saving.next {
        tell_saved(&next.askers, &SaveOutcome::Ended, output);
    }
}

fn tell_saved(askers: &[Asker], outcome: &SaveOutcome, output: &mut Output) {
    for asker in askers {
        output.push(Action::Saved { id: asker.id, outcome: outcome.clone() });
    }
}

impl Held {
    /// Whether a save is to be settled before the lock may go to anybody (S13, S26).
    pub(super) fn is_saving(&self) -> bool {
        self.saving.as_ref().is_some_and(|saving| saving.is_unsettled())
    }

    /// Whether the hold of `caller` may yet write: also where its stream broke, or its release waits for a
    /// save.
    fn may_save(&self, caller: CallerId) -> bool {
        let open = match self.phase {
            Phase::Active | Phase::LastSave { .. } | Phase::GracePeriod(GracePeriod::Silent) => {
                true
            }
            Phase::Resting { .. } | Phase::GracePeriod(_) => false,
        };
        self.caller == caller && open
    }

    pub(super) fn saving_timeout(&self) -> Option<Instant> {
        let last = matches!(self.phase, Phase::LastSave { .. });
        let renewing = self.renewing_until();
        let saves = self.saving.as_ref().and_then(|saving| saving.poll_timeout(last, renewing));
        saves.or_else(|| {
            let due = self.saving.as_ref().and_then(|saving| saving.due(last));
            self.records_at().map(|at| at.max(renewing.or(due).unwrap_or(at)))
        })
    }

    /// When the record is to be written because it is of the grant before (S10). A hold that is over needs
    /// that no more.
    pub(super) const fn records_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Active | Phase::GracePeriod(GracePeriod::Silent) => self.record_at,
            Phase::LastSave { .. } | Phase::Resting { .. } | Phase::GracePeriod(_) => None,
        }
    }

    /// The hold ends: its record need not be written any more, if that is not under way.
    pub(super) fn drop_recording(&mut self) {
        if let Some(saving) = &mut self.saving {
            saving.drop_recording();
        }
    }

    /// Until when, at the latest, a save waits for a renewal, or for the read after one.
    fn renewing_until(&self) -> Option<Instant> {
        let settling = self.settling.as_ref().map(|settling| settling.at());
        // S7: what is about to be sent comes first, whenever its turn is.
        let held_back = self.is_renewed() && self.renewal.is_held_back();
        let turn = held_back.then(|| self.renewal.valid_until());
        self.renewal.waits_until().into_iter().chain(settling).chain(turn).max()
    }

    /// Whether the answer to this read may show the record as it was before the last save.
    pub(super) fn is_outdated(&self, request: RequestId) -> bool {
        let newest = self.saving.as_ref().and_then(|saving| saving.newest);
        newest.is_some_and(|newest| request <= newest)
    }
}

impl Hold {
    /// A holder saves its checkpoint. Who carries an older generation does not know that it goes on here, and
    /// may release it where it was: the save could come after the next grant (S16, S27).
    pub(super) fn save(
        &mut self,
        caller: CallerId,
        generation: Option<u64>,
        save: SaveAsked,
        output: &mut Output,
    ) {
        if let State::Held(held) = &mut self.state
            && held.may_save(caller)
            && generation.is_none_or(|generation| generation >= held.generation)
        {
            return held.saving.get_or_insert_default().queue(save, output.now);
        }
        output.push(Action::Saved { id: save.id, outcome: SaveOutcome::Ended });
    }

    /// Does what is due of the saves of a hold.
    pub(super) fn advance_saving(&mut self, held: &mut Held, output: &mut Output) {
        let cut_off = cut_off(held.renewal.lease_duration());
        let last = matches!(held.phase, Phase::LastSave { .. });
        let renewing = held.renewing_until().is_some();
        let renewal_due = held.is_renewed() && held.renewal.is_due(output.now);
        let records = held.records_at().is_some_and(|at| output.now >= at);
        if records {
            held.saving.get_or_insert_default();
        }
        let Some(saving) = &mut held.saving else { return };
        if let Some(writing) = &mut saving.under_way {
            if !writing.flight.is_over(output.now) {
                return;
            }
            if matches!(writing.flight, Flight::Sent { .. }) {
                writing.uncertain |= writing.step == SaveStep::Write;
                let unanswered = StoreFailure::unanswered("save");
                let at = output.now + self.backoff(&unanswered, held.renewal.lease_duration());
                writing.flight = Flight::Waiting { at };
            } else if !renewing {
                let request = self.next_request();
                writing.flight = Flight::Sent { request, until: output.now + cut_off };
                output.ask(request, writing.request(held.lease_id), cut_off);
            }
            return;
        }
        let due = saving.due(last).is_none_or(|due| output.now >= due);
        let may_begin = due && !renewing && !renewal_due;
        let save = saving
            .next
            .take_if(|_| may_begin)
            .or_else(|| (may_begin && records).then(Save::default));
        if let Some(save) = save {
            self.begin_save(held, save, output);
        }
    }

    /// A write was answered while the lock is held: that of a save, or one of long ago.
    pub(super) fn save_answered(
        &mut self,
        mut held: Box<Held>,
        request: RequestId,
        answer: Result<ETag, Failure>,
        output: &mut Output,
    ) {
        let lease_duration = held.renewal.lease_duration();
        let under_way = held.saving.as_mut().and_then(|saving| saving.under_way.as_mut());
        let expected =
            |writing: &&mut Writing| writing.step == SaveStep::Write && writing.flight.is(request);
        let Some(writing) = under_way.filter(expected) else {
            self.state = State::Held(held);
            return;
        };
        match answer {
            Ok(etag) => {
                self.memory.known = Some(Known::new(&etag, &writing.fields));
                self.record_written(request, output.now);
                return self.saved(held, output);
            }
            // Ours, whose answer was lost, or another's: the record says which (S27).
            Err(Failure::Changed) => {
                writing.step = SaveStep::Settle;
                writing.flight = Flight::Waiting { at: output.now };
            }
            Err(failure @ (Failure::Taken | Failure::Broken | Failure::Deleted)) => {
                // S24: this try was not done.
                writing.flight = Flight::Waiting { at: output.now };
                let (reason, detail) = match failure {
                    Failure::Broken => (LossReason::Broken, BROKEN),
                    Failure::Deleted => (LossReason::LockDeleted, DELETED),
                    Failure::Taken
                    | Failure::Contended
                    | Failure::Changed
                    | Failure::Unknown(_)
                    | Failure::NotDone(_)
                    | Failure::Refused(_) => (LossReason::Taken, TAKEN),
                };
                return self.lose_lease(held, reason, detail.to_owned(), output);
            }
            Err(Failure::Refused(store_failure)) if !writing.uncertain => {
                return self.not_saved(held, &store_failure, output);
            }
            Err(failure) => {
                writing.uncertain |= matches!(failure, Failure::Unknown(_));
                let at = output.now + self.save_backoff(failure, lease_duration);
                let under_way = held.saving.as_mut().and_then(|saving| saving.under_way.as_mut());
                if let Some(writing) = under_way {
                    writing.flight = Flight::Waiting { at };
                }
            }
        }
        self.state = State::Held(held);
    }

    fn save_backoff(&mut self, failure: Failure, lease_duration: Duration) -> Duration {
        let store_failure = match failure {
            Failure::Unknown(store_failure)
            | Failure::NotDone(store_failure)
            | Failure::Refused(store_failure) => store_failure,
            failure @ (Failure::Contended
            | Failure::Changed
            | Failure::Taken
            | Failure::Broken
            | Failure::Deleted) => unexpected("save", &failure),
        };
        self.backoff(&store_failure, lease_duration)
    }

    /// The store has the save that was under way.
    fn saved(&mut self, mut held: Box<Held>, output: &mut Output) {
        if let Some(saving) = &mut held.saving {
            saving.newest = Some(RequestId(self.requests));
        }
        held.record_at = None;
        self.memory.handed = None;
        Self::tell_done(&mut held, output);
        self.after_save(held, output);
    }

    fn tell_done(held: &mut Held, output: &mut Output) {
        if let Some(saving) = &mut held.saving
            && let Some(writing) = saving.under_way.take()
        {
            let version = writing.checkpoint.map(|checkpoint| checkpoint.version);
            tell_saved(&writing.askers, &SaveOutcome::Saved { version }, output);
        }
    }

    fn not_saved(&mut self, mut held: Box<Held>, failure: &StoreFailure, output: &mut Output) {
        if let Some(saving) = &mut held.saving
            && let Some(writing) = saving.under_way.take()
        {
            tell_saved(&writing.askers, &SaveOutcome::NotSaved(failure.clone()), output);
        }
        if let Some(at) = &mut held.record_at {
            let delay = self.backoff(failure, held.renewal.lease_duration());
            *at = (*at).max(output.now + delay);
        }
        self.after_save(held, output);
    }

    /// The saves are settled: a release that waited for them goes on (S26).
    pub(super) fn after_save(&mut self, mut held: Box<Held>, output: &mut Output) {
        match held.phase {
            Phase::LastSave { released } if !held.is_saving() => {
                held.phase = Phase::Active;
                self.end_hold(held, released, output);
            }
            Phase::Active
            | Phase::LastSave { .. }
            | Phase::Resting { .. }
            | Phase::GracePeriod(_) => self.state = State::Held(held),
        }
    }

    /// The lease runs out before the last save was settled: its outcome stays unknown, and the lease goes
    /// back.
    pub(super) fn give_up_last_save(&mut self, held: Box<Held>, output: &mut Output) {
        end_saves(held.saving.as_deref(), output);
        let reply = Some(held.caller);
        self.give_back(*held, reply, output);
    }
}

impl Writing {
    fn request(&self, lease_id: LeaseId) -> Request {
        match self.step {
            SaveStep::Write => Request::Write {
                lease_id,
                if_match: self.if_match.clone(),
                fields: self.fields.clone(),
            },
            SaveStep::Settle => Request::Read,
        }
    }
}
