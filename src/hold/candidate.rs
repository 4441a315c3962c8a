//! The caller that the lock is to be had for, as the queue above chooses it: what a caller finds here, what
//! its tries come to, what who finds the lock busy is told of its holder (`busy_for`), and what an idle
//! machine waits for (S12). The callers that wait are in `queue/`.

use std::sync::Arc;

use super::action::{Busy, Notice, Output, Tried};
use super::event::{CallerId, StoreFailure, Terms};
use super::fairness::LONGEST_STAND_BACK;
use super::idle::{Idle, Wait};
use super::release::Step;
use super::{Hold, State};
use crate::lock::Permits;
use crate::record::Priority;
use crate::time::Instant;

/// A caller that waits for the lock.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) caller: CallerId,
    pub(crate) terms: Arc<Terms>,
    /// Since when it waits (S33, S34).
    pub(crate) since: Instant,
}

impl Waiter {
    /// A wait of zero is one try: it ends with the next answer, not with the clock (S12).
    pub(crate) fn is_one_try(&self) -> bool {
        self.terms.wait.is_zero()
    }
}

/// For whom the lock is to be had now. The machine knows of no other caller that waits but of those that may
/// overrule its holder.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) waiter: Waiter,
    /// An answer of the store is waited for by a caller that tries once (S12).
    pub(crate) has_one_try: bool,
    /// A caller besides this one is going to wait: one try is answered at the grant (S10).
    pub(crate) others_wait: bool,
    /// The queue keeps the pace of the tries: each is one request, and one try, whatever the wait (S31).
    pub(crate) paced: bool,
    /// The first waiter of each priority, the greatest first, if one of them may overrule a holder (S33,
    /// S35).
    pub(crate) rivals: Arc<[Waiter]>,
}

impl Candidate {
    /// Whether a caller still waits here once one try is over.
    fn stays(&self) -> bool {
        !self.paced && (!self.waiter.is_one_try() || self.others_wait)
    }
}

impl Hold {
    /// Takes the caller that the lock is to be had for from now on. What is due is done by [`Hold::advance`].
    pub(crate) fn offer(&mut self, candidate: Option<Candidate>, now: Instant) {
        match (&mut self.candidate, candidate) {
            (Some(former), Some(candidate)) => **former = candidate,
            (former, candidate) => *former = candidate.map(Box::new),
        }
        self.wake_for_front(now);
    }

    /// The caller that the lock is to be had for.
    pub(super) fn front(&self) -> Option<&Waiter> {
        self.candidate.as_ref().map(|candidate| &candidate.waiter)
    }

    /// Whether the machine was told this caller, and so whether one try waits.
    pub(crate) fn is_to_be_had_for(&self, wanted: Option<(CallerId, bool)>) -> bool {
        let told = self.candidate.as_ref();
        told.map(|told| (told.waiter.caller, told.has_one_try)) == wanted
    }

    /// That caller, which waits no more: it is granted the lock, or told that it is not.
    pub(super) fn take_front(&mut self) -> Option<Waiter> {
        self.candidate.take().map(|candidate| candidate.waiter)
    }

    /// The store refuses what is asked for: nobody is served.
    pub(super) fn refuse(&mut self, store_failure: StoreFailure, output: &mut Output) {
        self.candidate = None;
        output.tried(Tried::Refused(store_failure));
    }

    pub(super) fn has_one_try(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.has_one_try)
    }

    pub(super) fn others_wait(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.others_wait)
    }

    /// Whether the queue keeps the pace of the tries (S31).
    pub(super) fn is_paced(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.paced)
    }

    /// Whether a caller still waits here once one try is over.
    pub(super) fn is_waited_for_on(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.stays())
    }

    pub(super) fn rivals(&self) -> &[Waiter] {
        self.candidate.as_ref().map_or(&[], |candidate| &candidate.rivals)
    }

    /// S12: one try is one answer of the store; where others wait or hold here, the answer to a caller of
    /// this priority is known.
    pub(crate) fn is_answer_known(&self, priority: Priority, now: Instant) -> bool {
        match &self.state {
            State::Held(_) | State::Resuming(_) => true,
            State::Idle { idle, .. } => {
                let rest = self.memory.rest.as_ref().filter(|_| idle.why.is_rest());
                now < idle.until
                    && !self.is_left_to_others(*idle)
                    && rest.is_none_or(|rest| rest.concerns(priority))
            }
            // Nothing is asked before the lease has run out.
            State::Releasing(releasing) => releasing.step == Step::RunOut,
            State::Acquiring(_) => false,
        }
    }

    /// Whether the lock is left alone though nobody is known to have it: others come first (S10, S34).
    fn is_left_to_others(&self, idle: Idle) -> bool {
        match idle.why {
            Wait::StandBack | Wait::OutOfTurn => true,
            Wait::Poll => self.free_since().is_some(),
            Wait::Ready | Wait::Backoff | Wait::MinHold | Wait::Reserved | Wait::Believed => false,
        }
    }

    /// What a caller is told that does not get the lock now: the store's failure, or who has it.
    pub(crate) fn refusal(&self, waiter: &Waiter, now: Instant) -> Notice {
        match &self.store_failure {
            Some(store_failure) => Notice::Failed(store_failure.as_ref().clone()),
            None => Notice::Busy(Box::new(self.busy_for(waiter, now))),
        }
    }

    /// Who has the lock, and what became of the caller's priority (S33).
    pub(crate) fn busy_for(&self, waiter: &Waiter, now: Instant) -> Busy {
        let rest = self.rest_seen(now).filter(|rest| rest.concerns(waiter.terms.priority()));
        let rest = rest.map(|rest| rest.until);
        Busy { priority: self.priority_status(waiter, now), ..self.busy_resting(rest, now) }
    }

    /// Who has the lock, as far as is known here.
    pub(crate) fn busy(&self, now: Instant) -> Busy {
        self.busy_resting(self.rest_seen(now).map(|rest| rest.until), now)
    }

    fn busy_resting(&self, seen: Option<Instant>, now: Instant) -> Busy {
        let (record, rest, kept) = match self.held() {
            Some(held) => {
                let holding = held.holding();
                (held.record(), holding.resting_until, holding.kept_until)
            }
            None => (self.memory.record().unwrap_or_default(), seen, None),
        };
        let rest = rest.filter(|until| *until > now);
        let free_at = rest.or(kept);
        let retry_after =
            free_at.map_or(self.settings.poll_cap, |until| until.saturating_since(now));
        let resting = rest.is_some();
        Busy { record, retry_after, resting, held_permits: u8::from(!resting), priority: None }
    }
}

/// What a caller that comes now finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing is under way: the store can be asked. Not before `from`, if this sidecar stands back (S10).
    Idle {
        /// When it has stood back.
        from: Option<Instant>,
    },
    /// The store is being asked.
    Acquiring,
    /// Somebody has the lock here, or resumes a hold of it.
    InUse,
    /// The lease is going back to the store.
    Releasing,
}

impl Terms {
    /// How many permits the caller wants the lock to have (S28).
    #[must_use]
    pub fn permits(&self) -> Permits {
        self.record.permits.unwrap_or(Permits::ONE)
    }
}

impl Hold {
    /// What a caller that comes now finds.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        match &self.state {
            State::Idle { idle, .. } => {
                let stands_back = idle.why == Wait::StandBack;
                Readiness::Idle { from: stands_back.then_some(idle.until) }
            }
            State::Acquiring(_) => Readiness::Acquiring,
            State::Held(_) | State::Resuming(_) => Readiness::InUse,
            State::Releasing(_) => Readiness::Releasing,
        }
    }
}

impl Hold {
    /// A lock that is left alone, for others who come first (S33, S34), is tried at once for a caller that
    /// need not leave it; and one try does not wait for long until others have had their turn (S12).
    pub(super) fn wake_for_front(&mut self, now: Instant) {
        let Some(front) = self.front() else { return };
        let priority = front.terms.priority();
        let is_open = self.memory.rest.as_ref().is_some_and(|rest| !rest.concerns(priority));
        let has_one_try = self.has_one_try();
        let State::Idle { idle, .. } = self.state else { return };
        let is_left = has_one_try && self.is_left_to_others(idle);
        let State::Idle { idle, .. } = &mut self.state else { return };
        if is_left && idle.why == Wait::StandBack {
            idle.until = idle.until.min(now + LONGEST_STAND_BACK);
        } else if is_left || is_open && idle.why.is_rest() {
            idle.end(now);
        }
    }

    /// What the lock is now is asked at once.
    pub(super) fn poll_now(&mut self, now: Instant) {
        if let State::Idle { idle, retry: Some(_) } = &mut self.state {
            idle.end(now);
        }
    }

    /// The next poll comes at `soon` at the latest; nothing else that the machine waits for is cut short.
    pub(super) fn poll_soon(&mut self, soon: Instant) {
        if let State::Idle { idle, retry: Some(_) } = &mut self.state
            && self.store_failure.is_none()
            && idle.why != Wait::StandBack
            && !idle.why.is_rest()
        {
            idle.until = idle.until.min(soon);
        }
    }
}
