//! What is known here of a lock and of its permits, each of which has a path, and with it a memory and a
//! record, of its own (S28): without asking the store.

use super::caller::Caller;
use super::task::Task;
use crate::coordinator::call::{LeaseHere, LockRecord, LockState};
use crate::hold::{Handed, Hold, Holding, Known};
use crate::lock::{FencingToken, LockPath, Permit, Permits};
use crate::record::{Fields, Record};
use crate::schedule::ScheduleRecord;
use crate::store::BreakNote;

/// Callers that wait for a lock and are told of by name.
const NAMED: usize = 8;

/// A look at a path's machine.
#[derive(Clone, Debug)]
pub(in crate::coordinator) struct LocalView {
    /// The lock as a machine here has it, if one does.
    pub(in crate::coordinator) here: Option<LockRecord>,
    /// A try for it is under way: whether the caller waits on, only its answer tells.
    pub(in crate::coordinator) acquiring: bool,
    pub(in crate::coordinator) waiters: usize,
    /// The first of them by name.
    pub(in crate::coordinator) waiting: Vec<String>,
    /// The greatest token seen or granted here.
    pub(in crate::coordinator) highest: Option<FencingToken>,
    /// The newest grant by a hand-off here, which the record in the store may not tell of (S10).
    pub(in crate::coordinator) handed: Option<Handed>,
}

impl LocalView {
    /// The lock, if it is shown as it is here: somebody holds it here, or it rests here.
    pub(in crate::coordinator) fn shown(&self) -> Option<&LockRecord> {
        let here = self.here.as_ref();
        here.filter(|here| here.held_here || here.state == LockState::Resting)
    }
}

impl Task {
    /// The path of one of the lock's permits.
    pub(in crate::coordinator) fn path_of(&self, permit: Permit) -> LockPath {
        self.path.permit(permit)
    }

    /// Who has this permit here.
    pub(super) fn holding(&self, permit: Permit) -> Option<Holding> {
        self.queue.machine(permit)?.holding()
    }

    /// What is known of the record of a permit.
    pub(super) fn known(&self, permit: Permit) -> Option<&Known> {
        self.queue.machine(permit)?.known()
    }

    /// A permit that is known to be somebody's, for who waits for any of them: the lock's own if there is
    /// none.
    pub(super) fn shown(&self) -> Permit {
        let known =
            |permit: &Permit| self.holding(*permit).is_some() || self.known(*permit).is_some();
        Permits::MAX.each().find(known).unwrap_or_default()
    }

    /// The note of the break of the lease that is had here.
    pub(super) fn note(&self, permit: Permit) -> Option<BreakNote> {
        let token = self.holding(permit).map(|holding| holding.token);
        self.break_note(permit).cloned().filter(|note| note.is_about(token))
    }

    /// One of the lock's permits as it is here; whoever waits for any of them waits for it too.
    pub(super) fn view(&self, permit: Permit) -> LocalView {
        let highest = self.queue.highest().find(|(of, _)| *of == permit);
        LocalView {
            here: self.holding(permit).map(|holding| self.held_here(permit, &holding)),
            acquiring: self.queue.machine(permit).is_some_and(Hold::is_acquiring),
            waiters: self.queue.waiting(),
            waiting: self.waiting_by_name(),
            highest: highest.map(|(_, token)| token),
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

    /// Whether this grant's lease was broken through this sidecar, which knows it before the store has shown
    /// it.
    fn is_broken_here(&self, permit: Permit, holding: &Holding) -> bool {
        let broken = self.aside.as_ref().and_then(|aside| aside.broken_here.get(&permit));
        broken == Some(&holding.token)
    }

    /// The same as a record.
    pub(super) fn record_here(&self, permit: Permit) -> LockRecord {
        let holding = self.holding(permit);
        let record = match (&holding, self.known(permit)) {
            (Some(holding), _) => Record {
                token: Some(holding.token),
                acquired_at: Some(holding.acquired_at),
                resting_until: holding.resting_until.map(|until| self.shared.wall_at(until)),
                ..holding.terms.record.clone()
            },
            (None, Some(known)) => newest(known.record(), self.queue.handed(permit)),
            (None, None) => Record::default(),
        };
        let resting = holding.as_ref().is_some_and(|holding| holding.resting_until.is_some());
        let kept_until = holding.as_ref().and_then(|holding| holding.kept_until);
        LockRecord {
            checkpoint: self.known(permit).and_then(Known::checkpoint),
            schedule: self.known(permit).and_then(|known| scheduled(&known.fields())),
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
pub(in crate::coordinator) fn newest(record: Record, handed: Option<&Handed>) -> Record {
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

/// What runs have decided, if the record says so and it can be read.
pub(in crate::coordinator) fn scheduled(fields: &Fields) -> Option<Box<ScheduleRecord>> {
    ScheduleRecord::from_fields(fields).ok().flatten().map(Box::new)
}
