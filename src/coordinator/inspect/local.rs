//! What is known here without asking the store: of a lock, of its hold, and of this sidecar.

use super::merged::scheduled;
use crate::coordinator::actor::caller::Caller;
use crate::coordinator::actor::registry::HoldEntry;
use crate::coordinator::actor::task::{Command, HoldCall, Task};
use crate::coordinator::{
    CallError, Coordinator, Deadline, HeldLock, HoldState, LeaseHere, LockRecord, LockState,
};
use crate::hold::{Handed, HolderCall, Holding, Known};
use crate::lock::{FencingToken, LeaseId, LockPath, Permit};
use crate::record::Record;
use crate::schedule::ScheduleRecord;
use crate::store::BreakNote;
use crate::time::Instant;

/// Callers that wait for a lock and are told of by name.
const NAMED: usize = 8;

/// A look at a path's machine.
#[derive(Clone, Debug)]
pub(crate) struct LocalView {
    /// The lock as a machine here has it, if one does.
    pub(crate) here: Option<LockRecord>,
    pub(crate) waiters: usize,
    /// The first of them by name.
    pub(crate) waiting: Vec<String>,
    /// The greatest token seen or granted here.
    pub(crate) highest: Option<FencingToken>,
    /// The newest grant by a hand-off here, which the record in the store may not tell of (S10).
    pub(crate) handed: Option<Handed>,
}

impl LocalView {
    /// The lock, if it is shown as it is here: somebody holds it here, or it rests here.
    pub(crate) fn shown(&self) -> Option<&LockRecord> {
        let here = self.here.as_ref();
        here.filter(|here| here.held_here || here.state == LockState::Resting)
    }
}

/// How long a hold of a caller here is valid, for people who look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldHere {
    /// The lock, or the permit of it.
    pub path: LockPath,
    /// The end of its validity (S2).
    pub valid_until: Instant,
    /// Whether renewals fail (S9).
    pub at_risk: bool,
}

impl Coordinator {
    /// The holds of callers here, in no order.
    #[must_use]
    pub fn holds_here(&self) -> Vec<HoldHere> {
        let registry = self.shared.registry();
        let here = |hold: &HoldEntry| HoldHere {
            path: hold.path.permit(hold.permit),
            valid_until: hold.valid_until,
            at_risk: hold.at_risk,
        };
        registry.holds.values().map(here).collect()
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
        self.ask(call, |reply| Command::GetHold(call, reply)).await
    }
}

impl Task {
    /// A hold that is not over. What time has ended is over, also for who only asks (S4).
    pub(crate) fn held(&mut self, call: HoldCall) -> Result<HeldLock, CallError> {
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
        let at_risk = self.shared.registry().hold(call.lease_id).is_some_and(|hold| hold.at_risk);
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

    /// The note of the break of the lease that is had here.
    fn note(&self, permit: Permit) -> Option<BreakNote> {
        let token = self.holding(permit).map(|holding| holding.token);
        self.break_note(permit).cloned().filter(|note| note.is_about(token))
    }

    /// When the hold of this caller ends at the latest, with what has extended it (S11).
    pub(crate) fn max_hold_ends(&self, caller: &Caller) -> Option<Deadline> {
        caller.max_hold_ends.map(|at| self.shared.deadline(at))
    }

    /// One of the lock's permits as it is here; whoever waits for any of them waits for it too.
    pub(crate) fn view(&self, permit: Permit) -> LocalView {
        LocalView {
            here: self.holding(permit).map(|holding| self.held_here(permit, &holding)),
            waiters: self.queue.waiting(),
            waiting: self.waiting_by_name(),
            highest: self.highest(permit),
            handed: self.queue.handed(permit).cloned(),
        }
    }

    /// A permit of a machine here, whose lease may have been broken and run out (S22).
    fn held_here(&self, permit: Permit, holding: &Holding) -> LockRecord {
        let mut here = self.record_here(permit);
        if holding.revoked || self.is_broken_here(permit, holding) {
            here.break_note = self.note(permit);
            if here.state == LockState::Held {
                here.state = LockState::Breaking;
            }
        }
        here
    }

    /// Who waits, for people: those that have waited for the longest.
    fn waiting_by_name(&self) -> Vec<String> {
        let by_arrival = |caller: &&Caller| (caller.arrived, caller.id);
        let callers = self.callers.values().map(AsRef::as_ref);
        let mut waiting: Vec<&Caller> = callers.filter(|caller| caller.wait.is_some()).collect();
        // There may be thousands.
        if waiting.len() > NAMED {
            waiting.select_nth_unstable_by_key(NAMED, by_arrival);
            waiting.truncate(NAMED);
        }
        waiting.sort_unstable_by_key(by_arrival);
        waiting.into_iter().map(|caller| caller.terms.record.holder.clone()).collect()
    }

    fn scheduled(&self, permit: Permit) -> Option<Box<ScheduleRecord>> {
        self.known(permit).and_then(|known| scheduled(&known.fields()))
    }

    /// Whether this grant's lease was broken through this sidecar, which knows it before the store has shown
    /// it.
    fn is_broken_here(&self, permit: Permit, holding: &Holding) -> bool {
        let broken = self.aside.as_ref().and_then(|aside| aside.broken_here.get(&permit));
        broken == Some(&holding.token)
    }

    /// The same as a record.
    pub(crate) fn record_here(&self, permit: Permit) -> LockRecord {
        let holding = self.holding(permit);
        let record = match (&holding, self.known(permit)) {
            (Some(holding), _) => self.shared.record_of(holding),
            (None, Some(known)) => newest(known.record(), self.queue.handed(permit)),
            (None, None) => Record::default(),
        };
        let resting = holding.as_ref().is_some_and(|holding| holding.resting_until.is_some());
        let kept_until = holding.as_ref().and_then(|holding| holding.kept_until);
        LockRecord {
            checkpoint: self.known(permit).and_then(Known::checkpoint),
            schedule: self.scheduled(permit),
            path: self.path_of(permit),
            state: if resting { LockState::Resting } else { LockState::Held },
            record,
            written_at: None,
            waiters_here: self.queue.waiting(),
            // It goes to each of them whenever one comes or is served.
            waiting_here: Vec::new(),
            lease: holding.as_ref().and_then(lease),
            held_here: holding.as_ref().is_some_and(|holding| holding.active),
            break_note: None,
            kept_until: kept_until.map(|until| self.shared.wall_at(until)),
            holder_is_last_recorded: holding.is_none() && self.shared.settings.function_instance,
        }
    }
}

/// Of a record and a hand-off here, what was granted last (S10).
pub(crate) fn newest(record: Record, handed: Option<&Handed>) -> Record {
    match handed {
        Some(handed) => handed.or_newer(record),
        None => record,
    }
}

/// The lease of a lock that somebody holds here.
fn lease(holding: &Holding) -> Option<LeaseHere> {
    let Holding { lease_duration: duration, renewed_at, .. } = *holding;
    holding.active.then_some(LeaseHere { duration, renewed_at })
}
