//! A holder's checkpoint on its way to the store (S23 to S27).

use std::time::Duration;

use super::action::{Action, SaveOutcome};
use super::event::{CallerId, Request, SaveAsked, SaveId, StoreFailure};
use super::held::{GracePeriod, Held, Phase};
use super::output::Output;
use super::validity::cut_off;
use super::{Flight, Hold, State};
use crate::lock::{Checkpoint, CheckpointValue, ETag, Fields, Record, checkpoint_version_of};
use crate::time::Instant;

/// The shortest time between two saves of a lock, except with a release (S26).
const BETWEEN_SAVES: Duration = Duration::from_secs(1);

/// The saves of one hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Saving {
    pub(super) under_way: Option<Writing>,
    /// The newest value that waits for its turn, and everybody who is answered with its outcome (S26).
    next: Option<Save>,
    /// When a save was last begun.
    begun_at: Option<Instant>,
    /// The newest request when a save was last found to be stored: reads up to it may be from before.
    pub(super) newest: Option<Request>,
}

#[derive(Clone, Debug)]
struct Save {
    ids: Vec<SaveId>,
    value: CheckpointValue,
}

/// A write whose outcome is not settled.
#[derive(Clone, Debug)]
pub(super) struct Writing {
    pub(super) ids: Vec<SaveId>,
    pub(super) checkpoint: Checkpoint,
    /// The name of the write, in the record if it was done (S27).
    pub(super) write: String,
    pub(super) if_match: ETag,
    pub(super) fields: Fields,
    pub(super) step: Step,
    pub(super) flight: Flight,
    /// A try may have been done, or may yet be.
    pub(super) uncertain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
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

    /// Whether a write is under way that may have been done, or may yet be. One that met another version may have been
    /// done all the same: the network has repeated it.
    pub(super) fn may_be_done(&self) -> bool {
        self.under_way.as_ref().is_some_and(|writing| {
            let sent = matches!(writing.flight, Flight::Sent { .. });
            sent || writing.uncertain || writing.step == Step::Settle
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

    fn queue(&mut self, save: SaveAsked, now: Instant) {
        let SaveAsked { id, value } = save;
        match &mut self.next {
            Some(next) => {
                next.ids.push(id);
                next.value = value;
            }
            none => *none = Some(Save { ids: vec![id], value }),
        }
        // The first one is due at once.
        self.begun_at.get_or_insert_with(|| now.saturating_sub(BETWEEN_SAVES));
    }
}

/// Answers everybody who waits for a save of a hold that is over here: what may have been done is unknown (S27).
pub(super) fn end_saves(saving: Option<&Saving>, output: &mut Output) {
    let Some(saving) = saving else { return };
    if let Some(writing) = &saving.under_way {
        let outcome = match saving.may_be_done() {
            true => SaveOutcome::Unknown,
            false => SaveOutcome::Ended,
        };
        tell_saved(&writing.ids, &outcome, output);
    }
    if let Some(next) = &saving.next {
        tell_saved(&next.ids, &SaveOutcome::Ended, output);
    }
}

pub(super) fn tell_saved(ids: &[SaveId], outcome: &SaveOutcome, output: &mut Output) {
    for id in ids {
        output.push(Action::TellSaved { id: *id, outcome: outcome.clone() });
    }
}

impl Held {
    /// Whether a save is to be settled before the lock may go to anybody (S13, S26).
    pub(super) fn is_saving(&self) -> bool {
        self.saving.as_ref().is_some_and(|saving| saving.is_unsettled())
    }

    /// Whether the hold of `caller` may yet write: also where its stream broke, or its release waits for a save.
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
        let saving = self.saving.as_ref()?;
        let last = matches!(self.phase, Phase::LastSave { .. });
        saving.poll_timeout(last, self.renewing_until())
    }

    /// Until when a save waits for a renewal, or for the read after one.
    fn renewing_until(&self) -> Option<Instant> {
        let settling = self.settling.as_ref().map(|settling| settling.at());
        self.renewal.waits_until().into_iter().chain(settling).max()
    }

    /// Whether the answer to this read may show the record as it was before the last save.
    pub(super) fn is_outdated(&self, request: Request) -> bool {
        let newest = self.saving.as_ref().and_then(|saving| saving.newest);
        newest.is_some_and(|newest| request <= newest)
    }
}

impl Hold {
    /// A holder saves its checkpoint.
    pub(super) fn save(&mut self, caller: CallerId, save: SaveAsked, output: &mut Output) {
        if let State::Held(held) = &mut self.state
            && held.may_save(caller)
        {
            return held.saving.get_or_insert_default().queue(save, output.now);
        }
        output.push(Action::TellSaved { id: save.id, outcome: SaveOutcome::Ended });
    }

    /// Does what is due of the saves of a hold.
    pub(super) fn advance_saving(&mut self, held: &mut Held, output: &mut Output) {
        let cut_off = cut_off(held.renewal.lease_duration());
        let last = matches!(held.phase, Phase::LastSave { .. });
        let renewing = held.renewing_until().is_some();
        let renewal_due = held.is_renewed() && held.renewal.is_due(output.now);
        let Some(saving) = &mut held.saving else { return };
        if let Some(writing) = &mut saving.under_way {
            if !writing.flight.is_over(output.now) {
                return;
            }
            if matches!(writing.flight, Flight::Sent { .. }) {
                writing.uncertain |= writing.step == Step::Write;
                let unanswered = StoreFailure::unanswered("save");
                let at = output.now + self.backoff(&unanswered, held.renewal.lease_duration());
                writing.flight = Flight::Waiting { at };
            } else if !renewing {
                let request = self.next_request();
                writing.flight = Flight::Sent { request, until: output.now + cut_off };
                output.push(writing.request(request, held.lease_id, cut_off));
            }
            return;
        }
        let due = saving.due(last).is_some_and(|due| output.now >= due);
        let may_begin = due && !renewing && !renewal_due;
        if may_begin && let Some(save) = saving.next.take() {
            saving.begun_at = Some(output.now);
            self.begin_save(held, save, output);
        }
    }

    fn begin_save(&mut self, held: &mut Held, save: Save, output: &mut Output) {
        let Some(known) = &self.memory.known else {
            return tell_saved(&save.ids, &SaveOutcome::Ended, output);
        };
        let fields = known.fields();
        let previous = checkpoint_version_of(|name| fields.get(name).map(String::as_str));
        let checkpoint = Checkpoint {
            value: save.value,
            version: Checkpoint::next_version(previous, held.token),
            token: held.token,
            saved_at: held.store_time(output.now),
        };
        let write = self.jitter.name();
        let stored = known.record();
        // The record may be that of the holder from whom the lock was handed on (S10).
        let record = Record {
            token: Some(held.token),
            acquired_at: Some(held.acquired_at),
            resting_until: stored.resting_until,
            resting_for: stored.resting_for,
            handed_on: stored.handed_on,
            lease: stored.lease,
            generation: stored.generation,
            attempt: stored.attempt,
            write: write.clone(),
            ..held.terms.record.clone()
        };
        let if_match = known.etag().clone();
        let fields = record.into_fields(checkpoint.clone().into_fields(fields));
        let request = self.next_request();
        let timeout = cut_off(held.renewal.lease_duration());
        let writing = Writing {
            ids: save.ids,
            checkpoint,
            write,
            if_match,
            fields,
            step: Step::Write,
            flight: Flight::Sent { request, until: output.now + timeout },
            uncertain: false,
        };
        output.push(writing.request(request, held.lease_id, timeout));
        held.saving.get_or_insert_default().under_way = Some(writing);
    }
}

impl Writing {
    fn request(
        &self,
        request: Request,
        lease_id: crate::lock::LeaseId,
        timeout: Duration,
    ) -> Action {
        match self.step {
            Step::Write => Action::SendWrite {
                request,
                lease_id,
                if_match: self.if_match.clone(),
                fields: self.fields.clone(),
                timeout,
            },
            Step::Settle => Action::SendRead { request, timeout },
        }
    }
}
