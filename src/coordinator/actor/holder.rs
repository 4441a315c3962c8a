//! What a holder asks of its hold: what is to be saved, and the validity that it is answered with (S11, S16,
//! S21, S23 to S27, T8).

use std::collections::BTreeMap;
use std::time::Duration;

use super::caller::Caller;
use super::resume_token;
use super::task::{HoldCall, Task};
use crate::coordinator::call::{
    CallError, Deadline, Decider, Extended, HeldLock, HoldState, Validity,
};
use crate::coordinator::observe::{LockEvent, LockEventKind};
use crate::hold::{CallerId, Event, HolderCall, SaveAsked, SaveId, SaveOutcome, StoreFailureKind};
use crate::lock::{LeaseId, Permit};
use crate::record::{CheckpointValue, Found, Verdict};
use crate::time::Instant;
use tokio::sync::oneshot;

/// What is to be saved, in one write.
#[derive(Debug, Default)]
pub(crate) struct Saving {
    /// A checkpoint (S23).
    pub(crate) value: Option<CheckpointValue>,
    /// Whatever this decides, too (T8).
    pub(crate) decider: Option<Decider>,
}

/// What to save, and where the outcome goes.
#[derive(Debug)]
pub(in crate::coordinator) struct SaveCall {
    pub(in crate::coordinator) saving: Saving,
    pub(in crate::coordinator) reply: oneshot::Sender<SaveOutcome>,
}

/// The calls of one lock that wait for the outcome of a save.
#[derive(Debug, Default)]
pub(super) struct Saves {
    last: u64,
    waiting: BTreeMap<SaveId, SaveCall>,
}

impl Saves {
    fn add(&mut self, save: SaveCall) -> SaveId {
        self.last += 1;
        let id = SaveId(self.last);
        self.waiting.insert(id, save);
        id
    }

    /// What else is written with a save (T8).
    pub(super) fn decide(&self, id: SaveId, found: &Found) -> Verdict {
        let decider = self.waiting.get(&id).and_then(|save| save.saving.decider.as_ref());
        decider.map_or(Verdict::Nothing, |decider| decider.decide(found))
    }

    fn answer(&mut self, id: SaveId, outcome: SaveOutcome) {
        if let Some(save) = self.waiting.remove(&id) {
            // A call that was given up: its value is saved all the same.
            let _ = save.reply.send(outcome);
        }
    }
}

impl Task {
    /// Asks something of a hold; its validity then.
    pub(super) fn ask(&mut self, call: HoldCall, what: HolderCall) -> Result<Validity, CallError> {
        let HoldCall { lease_id, generation } = call;
        if let Some(caller) = self.holder(lease_id) {
            self.feed(Event::Call { caller, generation, call: what });
        }
        self.validity(call)
    }

    /// Extends a hold; its newest resume token has the new bound (S16).
    pub(super) fn extend(
        &mut self,
        call: HoldCall,
        max_hold: Duration,
    ) -> Result<Extended, CallError> {
        let validity = self.ask(call, HolderCall::Extend { max_hold })?;
        let caller = self.holder(call.lease_id).and_then(|caller| self.callers.get(&caller));
        caller.map(|caller| self.extended(caller, validity)).ok_or(CallError::UnknownLease)
    }

    pub(super) fn extended(&self, caller: &Caller, validity: Validity) -> Extended {
        let (resume_token, max_hold_ends) = (self.resume_token(caller), self.max_hold_ends(caller));
        Extended { validity, resume_token, max_hold_ends }
    }

    pub(super) fn resume_token(&self, caller: &Caller) -> String {
        let namespace = &self.shared.settings.host.namespace;
        let named = self.named(caller.id);
        resume_token::make(namespace, caller, named, self.shared.clock.as_ref())
    }

    fn validity(&self, call: HoldCall) -> Result<Validity, CallError> {
        let Some(caller) = self.holder(call.lease_id) else {
            return Err(self.shared.registry().why_over(call));
        };
        if let Some(valid_until) = self.queue.validity(caller) {
            self.note_validity(call.lease_id, valid_until, None);
            return Ok(self.shared.validity(valid_until));
        }
        if self.is_releasing(caller) {
            return Err(CallError::HoldReleased);
        }
        let message = "the hold's stream broke, so it is not renewed: resume it first";
        Err(CallError::failed(StoreFailureKind::Unavailable, message))
    }

    pub(super) fn note_validity(
        &self,
        lease_id: LeaseId,
        valid_until: Instant,
        at_risk: Option<bool>,
    ) {
        if let Some(entry) = self.shared.registry().holds.get_mut(&lease_id) {
            entry.valid_until = valid_until;
            entry.at_risk = at_risk.unwrap_or(entry.at_risk);
        }
    }

    /// A hold that is not over. What time has ended is over, also for who only asks (S4).
    pub(super) fn held(&mut self, call: HoldCall) -> Result<HeldLock, CallError> {
        let validity = self.ask(call, HolderCall::Validity);
        let caller = self.holder(call.lease_id);
        let holding = self.queue.holdings().find(|(_, holding)| Some(holding.caller) == caller);
        let Some((permit, holding)) = holding else {
            return Err(validity.err().unwrap_or(CallError::UnknownLease));
        };
        // S14: one that is gone without a word may believe what it was told last, and nothing beyond it.
        let validity = match holding.disconnected {
            true => self.shared.validity(holding.told_until),
            false => validity?,
        };
        let at_risk =
            self.shared.registry().holds.get(&call.lease_id).is_some_and(|hold| hold.at_risk);
        let state = match (holding.disconnected, holding.revoked, at_risk) {
            (true, _, _) => HoldState::Disconnected,
            (false, true, _) => HoldState::Revoked,
            (false, false, true) => HoldState::AtRisk,
            (false, false, false) => HoldState::Held,
        };
        let break_note = self.note(permit).filter(|_| holding.revoked);
        Ok(HeldLock {
            break_note,
            validity,
            state,
            max_hold_ends: holding.max_hold_ends.map(|at| self.shared.deadline(at)),
            progress_due: holding.progress_due.map(|at| self.shared.deadline(at)),
            path: self.path_of(permit),
            permit,
            token: holding.token,
            generation: holding.generation,
        })
    }

    /// When the hold of this caller ends at the latest, with what has extended it (S11).
    pub(super) fn max_hold_ends(&self, caller: &Caller) -> Option<Deadline> {
        caller.max_hold_ends.map(|at| self.shared.deadline(at))
    }

    /// Asks the machine to save; what the hold is answered tells whether it could ask at all.
    pub(super) fn save(&mut self, call: HoldCall, save: SaveCall) -> Result<Validity, CallError> {
        let validity = self.ask(call, HolderCall::Validity)?;
        if let Some(caller) = self.holder(call.lease_id) {
            self.save_of(caller, call.generation, save);
        }
        Ok(validity)
    }

    pub(super) fn save_of(
        &mut self,
        caller: CallerId,
        generation: Option<u64>,
        mut save: SaveCall,
    ) {
        let (value, decides) = (save.saving.value.take(), save.saving.decider.is_some());
        let id = self.aside().saves.add(save);
        let save = SaveAsked { id, value, decides };
        self.feed(Event::Call { caller, generation, call: HolderCall::Save(save) });
    }

    pub(super) fn tell_saved(&mut self, permit: Permit, id: SaveId, outcome: SaveOutcome) {
        let path = self.path_of(permit);
        let kind = LockEventKind::Saved { outcome: &outcome };
        self.shared.observe(&LockEvent::of(&path, kind));
        self.aside().saves.answer(id, outcome);
        self.shared.registry().watchers.changed(&path);
    }
}
