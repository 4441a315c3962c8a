//! What must hold at every step. The first thing that does not is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use leasehold::hold::{Action, CallerId, Event, Hold};
use leasehold::lock::LeaseId;
use leasehold::time::Instant;

/// What a caller has been told of its hold (S4, S9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Held,
    AtRisk,
    Over,
}

#[derive(Debug)]
pub(crate) struct Checks {
    /// The rule that was broken, and how.
    pub(crate) violation: Option<String>,
    told: BTreeMap<CallerId, Told>,
    /// Who waits at each sidecar, in the order of arrival (S12).
    waiting: Vec<VecDeque<CallerId>>,
    /// The leases under which sidecars have granted the lock.
    granted: BTreeSet<(usize, LeaseId)>,
    /// The leases that an operator ended at once: until that is noticed, two may believe (S17).
    pub(crate) broken: BTreeSet<LeaseId>,
    tokens: BTreeSet<u64>,
    pub(crate) grants: u64,
    /// The greatest token that the resource has seen.
    accepted: u64,
    /// Writes that came with an older one: what a resource without the check would have done.
    pub(crate) stale_writes: u64,
    pub(crate) writes: u64,
}

impl Checks {
    pub(crate) fn new(sidecars: usize) -> Self {
        Self {
            violation: None,
            told: BTreeMap::new(),
            waiting: vec![VecDeque::new(); sidecars],
            granted: BTreeSet::new(),
            broken: BTreeSet::new(),
            tokens: BTreeSet::new(),
            grants: 0,
            accepted: 0,
            stale_writes: 0,
            writes: 0,
        }
    }

    pub(crate) fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// S6: an acquire is never used to prove that a hold goes on.
    pub(crate) fn sent(&mut self, sidecar: usize, action: &Action) {
        if let Action::SendAcquire { lease_id, .. } = action
            && self.granted.contains(&(sidecar, *lease_id))
        {
            self.fail(format!("S6: sidecar {sidecar} acquires again under {lease_id}"));
        }
    }

    pub(crate) fn came_in(&mut self, sidecar: usize, event: &Event) {
        if let Event::CallerArrived { caller, .. } = event {
            self.waiting[sidecar].push_back(*caller);
        }
    }

    pub(crate) fn stops_waiting(&mut self, sidecar: usize, caller: CallerId) {
        self.waiting[sidecar].retain(|waiting| *waiting != caller);
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.waiting[sidecar].clear();
    }

    /// S4, on the sidecar's side: nobody is kept past the end of its validity by a machine that was just looked at.
    pub(crate) fn machine(&mut self, sidecar: usize, hold: &Hold, now: Instant) {
        if let Some(holding) = hold.holding()
            && holding.active
            && holding.valid_until <= now
        {
            self.fail(format!(
                "S4: sidecar {sidecar} keeps {:?} past its validity",
                holding.caller
            ));
        }
    }

    /// What a sidecar tells: HELD, (AT_RISK, HELD)*, then the end, and never back.
    pub(crate) fn told(&mut self, sidecar: usize, action: &Action) {
        let (caller, next) = match action {
            Action::TellGranted { caller, grant } => {
                self.granted.insert((sidecar, grant.lease_id));
                if !grant.resumed {
                    self.check_order(sidecar, *caller);
                    self.check_token(grant.token.value(), grant.lease_id);
                }
                (*caller, Told::Held)
            }
            Action::TellRenewed { caller, .. } | Action::TellRecovered { caller, .. } => {
                (*caller, Told::Held)
            }
            Action::TellAtRisk { caller, .. } => (*caller, Told::AtRisk),
            Action::TellLost { caller, .. } => (*caller, Told::Over),
            Action::TellReleased { caller, .. } => {
                self.told.insert(*caller, Told::Over);
                return;
            }
            Action::TellBusy { caller, .. }
            | Action::TellFailed { caller, .. }
            | Action::TellSuperseded { caller } => {
                self.stops_waiting(sidecar, *caller);
                return;
            }
            _ => return,
        };
        let before = self.told.insert(caller, next);
        let wrong = match (before, next) {
            (Some(Told::Over), _) | (Some(Told::AtRisk), Told::AtRisk) => true,
            (None, Told::AtRisk) => true,
            (None, Told::Held | Told::Over) | (Some(_), _) => false,
        };
        if wrong {
            self.fail(format!("S4: {caller:?} is told {action:?} after {before:?}"));
        }
    }

    /// S12: who came first is served first.
    fn check_order(&mut self, sidecar: usize, caller: CallerId) {
        let first = self.waiting[sidecar].front().copied();
        if first != Some(caller) {
            self.fail(format!("S12: {caller:?} is served before {first:?}"));
        }
        self.stops_waiting(sidecar, caller);
    }

    /// S5: tokens grow in the order of their grants. Under a lease that was ended at once they may come too late, and
    /// are refused then; but no token is given twice.
    fn check_token(&mut self, token: u64, lease_id: LeaseId) {
        let highest = self.tokens.last().copied().unwrap_or_default();
        let late = token < highest && self.broken.contains(&lease_id);
        if !self.tokens.insert(token) || token <= highest && !late {
            self.fail(format!("S5: token {token} is granted after {highest}"));
        }
        self.grants += 1;
    }

    /// A write at the protected resource, which refuses older tokens than it has seen.
    pub(crate) fn write(&mut self, token: u64, now: Duration) {
        self.writes += 1;
        if !self.tokens.contains(&token) {
            self.fail(format!("S5: {token} was never granted, and is written with at {now:?}"));
        }
        if token < self.accepted {
            self.stale_writes += 1;
        } else {
            self.accepted = token;
        }
    }
}
