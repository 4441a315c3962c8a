//! Callers that name more than one permit: one queue, first come, first served (S12, S31).

use std::sync::Arc;

use super::chooser::Chooser;
use super::serving::Serving;
use super::{Output, Pool, Shared};
use crate::hold::{
    self, Busy, CallerId, Event, Hold, Notice, Readiness, StoreFailure, Terms, Waiter, Waiters,
};
use crate::lock::{Permit, Permits};
use crate::time::Instant;

impl Pool {
    pub(super) fn arrive(&mut self, caller: CallerId, terms: Arc<Terms>, output: &mut Output) {
        if self.machines.is_shutting_down() {
            let store_failure = hold::shutting_down();
            return output.tell(Permit::FIRST, caller, Notice::Failed(store_failure));
        }
        if let Some(permit) = self.repeated(&terms) {
            return self.feed(permit, Event::CallerArrived { caller, terms }, output);
        }
        self.supersede_other_kind(caller, &terms, output);
        if terms.permits() == Permits::ONE {
            return self.feed(Permit::FIRST, Event::CallerArrived { caller, terms }, output);
        }
        self.compare_named(terms.permits(), output);
        let (permits, seed) = (terms.permits(), self.machines.seed());
        let shared =
            self.shared.get_or_insert_with(|| Box::new(Shared::new(permits, seed, output.now)));
        if shared.waiters.is_empty() {
            shared.chooser.begin(output.now);
            shared.serving.begin();
            shared.greatest = permits;
        }
        shared.greatest = shared.greatest.max(permits);
        let waiter = Waiter::new(caller, terms, output.now);
        match shared.waiters.replace(waiter, output.now) {
            Ok((former, _)) => self.supersede(former, caller, output),
            Err(waiter) => shared.waiters.push(waiter, output.now),
        }
    }

    /// The permit whose holder has made the same call before.
    fn repeated(&self, terms: &Terms) -> Option<Permit> {
        if terms.request_id.is_empty() {
            return None;
        }
        let mut held = self.holdings();
        held.find_map(|(permit, holding)| {
            (holding.active && holding.terms.request_id == terms.request_id).then_some(permit)
        })
    }

    /// A repeated call that names one permit where its first named more, or the other way round, ends the
    /// wait of its first: one waits here, the other in the machine of permit 0.
    fn supersede_other_kind(&mut self, caller: CallerId, terms: &Terms, output: &mut Output) {
        if terms.permits() == Permits::ONE {
            let shared = self.shared.as_ref();
            let former = shared.and_then(|shared| shared.waiters.caller_of(&terms.request_id));
            if let Some(former) = former {
                output.tell(Permit::FIRST, former, Notice::Superseded { by: caller });
                self.withdraw(former, output);
            }
        } else if let Some(former) = self.machines.first().waiter_of(&terms.request_id)
            && !self.is_queued(former)
        {
            output.tell(Permit::FIRST, former, Notice::Superseded { by: caller });
            self.feed(Permit::FIRST, Event::CallerLeft { caller: former }, output);
        }
    }

    /// A repeated call has taken its first one's place, also where it is tried for.
    fn supersede(&mut self, former: CallerId, by: CallerId, output: &mut Output) {
        output.tell(Permit::FIRST, former, Notice::Superseded { by });
        self.leave_trial(former, output);
    }

    /// Takes a caller out of the queue, and out of the machine that is asked for it (S32); whether it was
    /// there.
    pub(super) fn withdraw(&mut self, caller: CallerId, output: &mut Output) -> bool {
        let Some(shared) = &mut self.shared else { return false };
        let waited = shared.waiters.remove(caller);
        if waited {
            self.leave_trial(caller, output);
        }
        waited
    }

    pub(super) fn leave_trial(&mut self, caller: CallerId, output: &mut Output) {
        let Some(shared) = &mut self.shared else { return };
        if let Some((permit, tried_for)) = shared.serving.trial()
            && tried_for == caller
        {
            shared.serving.end_trial();
            self.feed(permit, Event::CallerLeft { caller }, output);
        }
    }

    pub(super) fn fail_all(&mut self, store_failure: &StoreFailure, output: &mut Output) {
        while let Some(waiter) = self.shared.as_mut().and_then(|shared| shared.waiters.pop()) {
            let caller = waiter.caller;
            self.leave_trial(caller, output);
            let store_failure = store_failure.clone();
            output.tell(Permit::FIRST, caller, Notice::Failed(store_failure));
        }
    }

    /// Answers all whose wait is over.
    pub(super) fn answer_overdue(&mut self, output: &mut Output) {
        let overdue = |pool: &mut Self, now| pool.shared.as_mut()?.waiters.pop_overdue(now);
        while let Some(waiter) = overdue(self, output.now) {
            self.leave_trial(waiter.caller, output);
            self.refuse(&waiter, output);
        }
    }

    /// S31: one try at each permit is over for those of whose permits each was tried, or is held here; and it
    /// does not wait until the store is asked again that has failed.
    pub(super) fn answer_one_tries(&mut self, output: &mut Output) {
        let now = output.now;
        let over = |pool: &Self| {
            let shared = pool.shared.as_ref().filter(|shared| shared.waiters.has_one_try())?;
            let tried = |permit| {
                shared.chooser.is_tried(permit)
                    || match pool.readiness(permit) {
                        Readiness::InUse => true,
                        // It goes to a caller that waits, once it is free.
                        Readiness::Releasing => {
                            shared.first_for(permit).is_some_and(|first| !first.is_one_try())
                        }
                        Readiness::Idle { .. } | Readiness::Acquiring => false,
                    }
            };
            let pauses = shared.chooser.pauses(now);
            let over = |waiter: &Waiter| {
                waiter.is_one_try()
                    && shared.serving.trial().is_none_or(|(_, caller)| caller != waiter.caller)
                    && (pauses || waiter.terms.permits().each().all(tried))
            };
            shared.waiters.first(over).cloned()
        };
        while let Some(waiter) = over(self) {
            if let Some(shared) = &mut self.shared {
                shared.waiters.remove(waiter.caller);
            }
            self.refuse(&waiter, output);
        }
    }

    /// One try does not wait until the store can be reached (S12).
    pub(super) fn fail_one_tries(&mut self, store_failure: &StoreFailure, output: &mut Output) {
        let next = |pool: &mut Self| pool.shared.as_mut()?.waiters.pop_one_try();
        while let Some(waiter) = next(self) {
            self.leave_trial(waiter.caller, output);
            let (caller, store_failure) = (waiter.caller, store_failure.clone());
            output.tell(Permit::FIRST, caller, Notice::Failed(store_failure));
        }
    }

    fn refuse(&self, waiter: &Waiter, output: &mut Output) {
        let caller = waiter.caller;
        let failure = self.shared.as_ref().and_then(|shared| shared.serving.store_failure());
        match failure.cloned() {
            Some(store_failure) => {
                output.tell(Permit::FIRST, caller, Notice::Failed(store_failure));
            }
            None => {
                let (permit, busy) = self.busy(waiter.terms.permits(), output.now);
                output.tell(permit, caller, Notice::Busy(busy));
            }
        }
    }

    /// Who has one of the permits, and how many of them were found held.
    fn busy(&self, permits: Permits, now: Instant) -> (Permit, Busy) {
        let shared = self.shared.as_ref();
        let is_held = |permit: &Permit| {
            self.readiness(*permit) == Readiness::InUse
                || shared.is_some_and(|shared| shared.chooser.is_taken(*permit))
        };
        let found = shared.and_then(|shared| shared.serving.busy().cloned());
        let here = || {
            let mut in_use =
                permits.each().filter(|permit| self.readiness(*permit) == Readiness::InUse);
            in_use.find_map(|permit| Some((permit, self.machines.get(permit)?.busy(now))))
        };
        let first = || (Permit::FIRST, self.machines.first().busy(now));
        let (permit, busy) = found.or_else(here).unwrap_or_else(first);
        let held = permits.each().filter(is_held).count();
        (permit, Busy { held_permits: u8::try_from(held).unwrap_or(u8::MAX), ..busy })
    }

    pub(super) fn readiness(&self, permit: Permit) -> Readiness {
        self.machines.get(permit).map_or(Readiness::Idle { from: None }, Hold::readiness)
    }

    /// Who waits is told so once it is known, and again after long; never because a permit was handed on
    /// (S31).
    pub(super) fn tell_waiting(&mut self, output: &mut Output) {
        let Some(shared) = &mut self.shared else { return };
        if shared.waiters.is_repeat_due(output.now) {
            for (caller, place) in shared.waiters.tell_again(output.now) {
                output.tell(Permit::FIRST, caller, Notice::Waiting { place });
            }
        }
        if self.is_known_to_wait() {
            let next = |pool: &mut Self| pool.shared.as_mut()?.waiters.tell_next();
            while let Some((caller, place)) = next(self) {
                output.tell(Permit::FIRST, caller, Notice::Waiting { place });
            }
        }
    }

    /// Before each permit was tried it is not known whether those who have come must wait.
    fn is_known_to_wait(&self) -> bool {
        let Some(shared) = self.shared.as_ref().filter(|shared| shared.waiters.has_untold()) else {
            return false;
        };
        let taken =
            |permit| shared.chooser.is_tried(permit) || self.readiness(permit) == Readiness::InUse;
        shared.waiters.front().is_some_and(|front| front.terms.permits().each().all(taken))
    }
}

impl Shared {
    /// The first of those who wait that may have this permit.
    pub(super) fn first_for(&self, permit: Permit) -> Option<&Waiter> {
        self.waiters.first(|waiter| waiter.terms.permits().contains(permit))
    }

    fn new(permits: Permits, seed: u64, now: Instant) -> Self {
        Self {
            waiters: Waiters::default(),
            chooser: Chooser::new(seed, now),
            serving: Serving::default(),
            permits,
            greatest: permits,
        }
    }
}
