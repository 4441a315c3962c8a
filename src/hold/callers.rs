//! Callers that come, and what those are told that do not get the lock (S11, S12, S15).

use std::sync::Arc;

use super::action::{Busy, Notice};
use super::event::{CallerId, StoreFailure, StoreFailureKind, Terms};
use super::idle::Wait;
use super::output::Output;
use super::releasing::Step;
use super::waiters::Waiter;
use super::{Hold, State};
use crate::lock::Priority;
use crate::time::Instant;

impl Hold {
    /// A caller has left, in a way that S14 trusts.
    pub(super) fn caller_left(&mut self, caller: CallerId, output: &mut Output) {
        if !self.stops_waiting(caller, output) {
            self.holder_left(caller, output);
        }
    }

    /// A caller's stream ended without a word (S14).
    pub(super) fn caller_disconnected(&mut self, caller: CallerId, output: &Output) {
        if !self.stops_waiting(caller, output) {
            self.disconnected(caller);
        }
    }

    /// Takes out a caller that waited for the lock, or to resume; whether it did.
    fn stops_waiting(&mut self, caller: CallerId, output: &Output) -> bool {
        self.waiters.remove(caller) || self.resume_left(caller, output)
    }

    pub(super) fn arrive(&mut self, caller: CallerId, terms: Arc<Terms>, output: &mut Output) {
        if self.shutdown.is_under_way() {
            return output.tell(caller, Notice::Failed(shutting_down()));
        }
        if let State::Held(held) = &self.state
            && held.repeats(&terms)
        {
            return output.tell(caller, Notice::SameGrant { holder: held.caller });
        }
        let waiter = Waiter::new(caller, terms, output.now);
        let waiter = match self.waiters.replace(waiter, output.now) {
            Ok((superseded, _)) => {
                output.tell(superseded, Notice::Superseded { by: caller });
                self.refuse_known(output);
                return self.tell_untold(output);
            }
            Err(waiter) => waiter,
        };
        if waiter.terms.wait.is_zero() && self.is_answer_known(waiter.terms.priority(), output.now)
        {
            return output.tell(waiter.caller, self.refusal(&waiter, output.now));
        }
        if waiter.terms.wait.is_zero() {
            self.try_once_soon(output.now);
        }
        self.waiters.push(waiter, output.now);
        self.wake_for_front(output.now);
        if matches!(self.state, State::Idle { .. }) {
            self.take_seen(caller, output);
        }
        if self.is_answer_known(self.front_priority(), output.now) {
            self.tell_untold(output);
        }
    }

    /// Those who came while a try was under way are told once it is known that they wait.
    fn tell_untold(&mut self, output: &mut Output) {
        while let Some((caller, place)) = self.waiters.tell_next() {
            output.tell(caller, Notice::Waiting { place });
        }
    }

    /// S12: one try is one answer of the store; where others wait or hold here, the answer to a caller of
    /// this priority is known.
    fn is_answer_known(&self, priority: Priority, now: Instant) -> bool {
        match &self.state {
            State::Held(_) | State::Resuming(_) => true,
            // A sidecar that stands back knows of nobody who has the lock (S10).
            State::Idle { idle, .. } => {
                let rest = self.memory.rest.as_ref().filter(|_| idle.why.is_rest());
                now < idle.until
                    && idle.why != Wait::StandBack
                    && self.free_since().is_none()
                    && rest.is_none_or(|rest| rest.concerns(priority))
            }
            // Nothing is asked before the lease has run out.
            State::Releasing(releasing) => releasing.step == Step::RunOut,
            State::Acquiring(_) => false,
        }
    }

    /// S12: one try that came while a lease went back, or before a resume, does not wait for the end of a
    /// rest or of that hold.
    pub(super) fn refuse_known(&mut self, output: &mut Output) {
        // The front has the greatest priority: what it need not wait for is tried for all.
        if self.waiters.has_one_try() && self.is_answer_known(self.front_priority(), output.now) {
            self.refuse_one_tries(output);
        }
    }

    /// A call that was repeated may be one try, though the first was not.
    fn refuse_one_tries(&mut self, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_one_try() {
            output.tell(waiter.caller, self.refusal(&waiter, output.now));
        }
    }

    /// Answers all whose wait is over.
    pub(super) fn answer_overdue(&mut self, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_overdue(output.now) {
            output.tell(waiter.caller, self.refusal(&waiter, output.now));
        }
    }

    /// Who waits for long is told so again, whatever has changed.
    pub(super) fn repeat_waiting(&mut self, output: &mut Output) {
        if self.waiters.is_repeat_due(output.now) {
            for (caller, place) in self.waiters.tell_again(output.now) {
                output.tell(caller, Notice::Waiting { place });
            }
        }
    }

    /// Somebody has the lock: one try is over, and the others wait.
    pub(super) fn tell_taken(&mut self, output: &mut Output) {
        self.tell_busy_one_tries(output);
        self.tell_untold(output);
    }

    fn tell_busy_one_tries(&mut self, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_one_try() {
            let busy = self.busy_for(&waiter, output.now);
            output.tell(waiter.caller, Notice::Busy(busy));
        }
    }

    pub(super) fn fail_one_tries(&mut self, store_failure: &StoreFailure, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_one_try() {
            output.tell(waiter.caller, Notice::Failed(store_failure.clone()));
        }
    }

    pub(super) fn fail_all(&mut self, store_failure: &StoreFailure, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop() {
            output.tell(waiter.caller, Notice::Failed(store_failure.clone()));
        }
    }

    /// What a caller is told that does not get the lock now: the store's failure, or who has it.
    fn refusal(&self, waiter: &Waiter, now: Instant) -> Notice {
        match &self.store_failure {
            Some(store_failure) => Notice::Failed(store_failure.as_ref().clone()),
            None => Notice::Busy(self.busy_for(waiter, now)),
        }
    }

    /// Who has the lock, and what became of the caller's priority (S33).
    fn busy_for(&self, waiter: &Waiter, now: Instant) -> Busy {
        let rest = self.rest_seen(now).filter(|rest| rest.concerns(waiter.terms.priority()));
        let rest = rest.map(|rest| rest.until);
        Busy { priority: self.priority_status(waiter, now), ..self.busy_resting(rest, now) }
    }

    /// Who has the lock, as far as is known here.
    pub(crate) fn busy(&self, now: Instant) -> Busy {
        self.busy_resting(self.rest_seen(now).map(|rest| rest.until), now)
    }

    fn busy_resting(&self, seen: Option<Instant>, now: Instant) -> Busy {
        let (record, rest, kept) = match &self.state {
            State::Held(held) => {
                let holding = held.holding();
                (held.record(), holding.resting_until, holding.kept_until)
            }
            State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {
                (self.memory.record().unwrap_or_default(), seen, None)
            }
        };
        let rest = rest.filter(|until| *until > now);
        let free_at = rest.or(kept);
        let retry_after =
            free_at.map_or(self.settings.poll_cap, |until| until.saturating_since(now));
        let resting = rest.is_some();
        Busy { record, retry_after, resting, held_permits: u8::from(!resting), priority: None }
    }
}

pub(crate) fn shutting_down() -> StoreFailure {
    StoreFailure {
        kind: StoreFailureKind::ShuttingDown,
        message: "the sidecar is shutting down".to_owned(),
        retry_after: None,
    }
}
