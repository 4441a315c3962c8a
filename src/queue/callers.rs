//! Callers that come, wait and go: what they are told while they do not have the lock (S12, S31). One try is
//! refused by `refuse_known`, by `refuse`, or, once the store has said so, by `tell_taken` (`serving.rs`).

use std::sync::Arc;

use super::waiters::Kind;
use super::{Output, Pooled, Queue};
use crate::hold::{self, Busy, CallerId, Hold, Notice, Readiness, StoreFailure, Terms, Waiter};
use crate::lock::{Permit, Permits};
use crate::time::Instant;

impl Queue {
    pub(super) fn arrive(&mut self, caller: CallerId, terms: Arc<Terms>, output: &mut Output) {
        if self.machines.is_shutting_down() {
            return output.tell(caller, Notice::Failed(StoreFailure::shutting_down()));
        }
        if let Some((permit, holder)) = self.repeated(&terms) {
            let action = hold::Action::Tell { caller, notice: Notice::SameGrant { holder } };
            return output.push(permit, action);
        }
        let kind = Kind::of(terms.permits());
        if kind == Kind::Pooled {
            self.compare_named(terms.permits(), output);
            self.expect(terms.permits(), output.now);
        }
        let waiter = Waiter { caller, terms: Arc::clone(&terms), since: output.now };
        match self.waiters.replace(waiter, output.now) {
            Ok(former) => {
                output.tell(former, Notice::Superseded { by: caller });
                if kind == Kind::Plain {
                    self.refuse_known(Permit::FIRST, output);
                    self.tell_untold(kind, output);
                }
            }
            Err(waiter) if kind == Kind::Plain => self.wait_for_first(waiter, output),
            Err(waiter) => self.waiters.push(waiter, output.now),
        }
        // What is known of permit 0 is the answer to a try there, also of a caller that names more (S12).
        self.advance(Permit::FIRST, output);
    }

    /// A caller that names one permit waits, or is told at once who has the lock.
    fn wait_for_first(&mut self, waiter: Waiter, output: &mut Output) {
        let (machine, now) = (self.machines.first(), output.now);
        if waiter.is_one_try() && machine.is_answer_known(waiter.terms.priority(), now) {
            return output.tell(waiter.caller, machine.refusal(&waiter, now));
        }
        let terms = Arc::clone(&waiter.terms);
        self.waiters.push(waiter, now);
        let candidate = self.candidate(Permit::FIRST);
        let machine = self.machines.first_mut();
        machine.offer(candidate, now);
        if let Some(seen) = &terms.seen {
            machine.take_seen(seen, now);
        }
        if machine.is_answer_known(machine.front_priority(), now) {
            self.tell_untold(Kind::Plain, output);
        }
    }

    /// The permit whose holder has made the same call before, and that caller.
    fn repeated(&self, terms: &Terms) -> Option<(Permit, CallerId)> {
        if terms.request_id.is_empty() {
            return None;
        }
        let is_same = |holding: &hold::Holding| {
            holding.active && holding.terms.request_id == terms.request_id
        };
        let mut held = self.holdings().filter(|(_, holding)| is_same(holding));
        held.next().map(|(permit, holding)| (permit, holding.caller))
    }

    /// A caller is going to wait that names more permits than one.
    fn expect(&mut self, permits: Permits, now: Instant) {
        let is_first = !self.waiters.has(Kind::Pooled);
        let seed = self.machines.seed();
        let pooled = self.pooled.get_or_insert_with(|| Box::new(Pooled::new(permits, seed, now)));
        if is_first {
            pooled.begin(permits, now);
        }
        pooled.greatest = pooled.greatest.max(permits);
    }

    pub(super) fn fail_all(
        &mut self,
        kind: Kind,
        store_failure: &StoreFailure,
        output: &mut Output,
    ) {
        while let Some(waiter) = self.waiters.pop(kind) {
            output.tell(waiter.caller, Notice::Failed(store_failure.clone()));
        }
    }

    /// One try does not wait until the store can be reached (S12).
    pub(super) fn fail_one_tries(
        &mut self,
        kind: Kind,
        store_failure: &StoreFailure,
        output: &mut Output,
    ) {
        while let Some(waiter) = self.waiters.pop_one_try(kind) {
            output.tell(waiter.caller, Notice::Failed(store_failure.clone()));
        }
    }

    /// Answers all whose wait is over.
    pub(super) fn answer_overdue(&mut self, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_overdue(output.now) {
            self.refuse(&waiter, output);
        }
    }

    /// S31: one try at each permit is over for those of whose permits each was tried, or is held here; and it
    /// does not wait until the store is asked again that has failed.
    pub(super) fn answer_one_tries(&mut self, output: &mut Output) {
        while let Some(waiter) = self.one_try_that_is_over(output.now).cloned() {
            self.waiters.remove(waiter.caller);
            self.refuse(&waiter, output);
        }
    }

    fn one_try_that_is_over(&self, now: Instant) -> Option<&Waiter> {
        let pooled = self.pooled.as_ref()?;
        let tried = |permit| {
            pooled.chooser.is_tried(permit)
                || match self.readiness(permit) {
                    Readiness::InUse => true,
                    // It goes to a caller that waits, once it is free.
                    Readiness::Releasing => {
                        self.waiters.first_for(permit).is_some_and(|first| !first.is_one_try())
                    }
                    Readiness::Idle { .. } | Readiness::Acquiring => false,
                }
        };
        let pauses = pooled.chooser.pauses(now);
        let tried_for = pooled.trials.iter().filter_map(|permit| self.waiters.first_for(*permit));
        let tried_for: Vec<CallerId> = tried_for.map(|waiter| waiter.caller).collect();
        let is_over = |permits: Permits| pauses || permits.each().all(tried);
        self.waiters.first_one_try(is_over, &tried_for)
    }

    /// S12: a try at `permit` that came while a lease went back, or before a resume, does not wait for the
    /// end of a rest or of that hold. Whether a caller was answered, or may be tried for elsewhere.
    pub(super) fn refuse_known(&mut self, permit: Permit, output: &mut Output) -> bool {
        let Some(machine) = self.machines.get(permit) else { return false };
        // The front has the greatest priority: what it need not wait for is tried for all.
        if !machine.is_answer_known(machine.front_priority(), output.now) {
            return false;
        }
        let mut answered = false;
        if permit == Permit::FIRST {
            while let Some(waiter) = self.waiters.pop_one_try(Kind::Plain) {
                let notice = self.machines.first().refusal(&waiter, output.now);
                output.tell(waiter.caller, notice);
                answered = true;
            }
        }
        answered | self.end_known_trial(permit, output)
    }

    fn refuse(&self, waiter: &Waiter, output: &mut Output) {
        let (caller, permits) = (waiter.caller, waiter.terms.permits());
        if Kind::of(permits) == Kind::Plain {
            return output.tell(caller, self.machines.first().refusal(waiter, output.now));
        }
        let pooled = self.pooled.as_ref();
        if let Some(store_failure) = pooled.and_then(|pooled| pooled.store_failure.clone()) {
            return output.tell(caller, Notice::Failed(store_failure));
        }
        let (permit, busy) = self.busy(permits, output.now);
        output.push(permit, hold::Action::Tell { caller, notice: Notice::Busy(Box::new(busy)) });
    }

    /// Who has one of the permits, and how many of them were found held.
    fn busy(&self, permits: Permits, now: Instant) -> (Permit, Busy) {
        let pooled = self.pooled.as_ref();
        let is_held = |permit: &Permit| {
            self.readiness(*permit) == Readiness::InUse
                || pooled.is_some_and(|pooled| pooled.chooser.is_taken(*permit))
        };
        let found = pooled.and_then(|pooled| pooled.busy.clone());
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

    /// A waiter is told that it waits once that is known, and again after long, whatever has changed; never
    /// because the lock was handed on (S31).
    pub(super) fn tell_waiting(&mut self, output: &mut Output) {
        for (caller, place) in self.waiters.tell_again(output.now) {
            output.tell(caller, Notice::Waiting { place });
        }
        if self.is_known_to_wait() {
            self.tell_untold(Kind::Pooled, output);
        }
    }

    /// Those that came while a try was under way are told once it is known that they wait.
    pub(super) fn tell_untold(&mut self, kind: Kind, output: &mut Output) {
        for (caller, place) in self.waiters.tell(kind) {
            output.tell(caller, Notice::Waiting { place });
        }
    }

    /// Before each permit was tried it is not known whether callers that name several must wait.
    fn is_known_to_wait(&self) -> bool {
        let Some(pooled) = &self.pooled else { return false };
        let taken =
            |permit| pooled.chooser.is_tried(permit) || self.readiness(permit) == Readiness::InUse;
        self.waiters.has_untold(Kind::Pooled)
            && self
                .waiters
                .first_of(Kind::Pooled)
                .is_some_and(|front| front.terms.permits().each().all(taken))
    }
}
