//! Callers that come, and what those are told that do not get the lock (S11, S12, S15).

use std::sync::Arc;

use super::action::{Action, Busy};
use super::event::{CallerId, Terms, Trouble, TroubleKind};
use super::releasing::Step;
use super::tenure::LONGEST_STAND_BACK;
use super::turn::Turn;
use super::waiters::Waiter;
use super::{Hold, State};
use crate::lock::{FencingToken, Record};
use crate::time::Instant;

impl Hold {
    pub(super) fn arrive(&mut self, caller: CallerId, terms: Arc<Terms>, turn: &mut Turn) {
        if self.draining {
            return turn.push(Action::TellFailed { caller, trouble: shutting_down() });
        }
        if let State::Held(held) = &self.state
            && held.repeats(&terms)
        {
            return turn.push(Action::TellSameGrant { caller, holder: held.caller });
        }
        let waiter = Waiter::new(caller, terms, turn.now);
        let waiter = match self.waiters.replace(waiter) {
            Ok((superseded, _)) => {
                turn.push(Action::TellSuperseded { caller: superseded, by: caller });
                if self.is_answer_known(turn.now) {
                    self.refuse_one_tries(turn);
                }
                return self.tell_untold(turn);
            }
            Err(waiter) => waiter,
        };
        if waiter.terms.wait.is_zero() && self.is_answer_known(turn.now) {
            return turn.push(self.refusal(caller, turn.now));
        }
        if waiter.terms.wait.is_zero() {
            self.try_once_soon(turn.now);
        }
        self.waiters.push(waiter);
        if self.is_answer_known(turn.now) {
            self.tell_untold(turn);
        }
    }

    /// S12: one try does not wait for long until others have had their turn.
    fn try_once_soon(&mut self, now: Instant) {
        let latest = now + LONGEST_STAND_BACK;
        if let State::Idle { not_before, .. } = &mut self.state
            && self.memory.stands_back_until == Some(*not_before)
            && *not_before > latest
        {
            *not_before = latest;
            self.memory.stands_back_until = Some(latest);
        }
    }

    /// Those who came while a try was under way are told once it is known that they wait.
    fn tell_untold(&mut self, turn: &mut Turn) {
        let token = self.newest_token();
        while let Some((caller, place)) = self.waiters.tell_next(token) {
            turn.push(Action::TellWaiting { caller, place });
        }
    }

    fn newest_token(&self) -> Option<FencingToken> {
        match &self.state {
            State::Held(held) => Some(held.token),
            State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {
                self.memory.known.as_ref()?.token()
            }
        }
    }

    /// S12: one try is one answer of the store; where others wait or hold here, the answer is known.
    fn is_answer_known(&self, now: Instant) -> bool {
        match &self.state {
            State::Held(_) | State::Resuming(_) => true,
            // A sidecar that stands back knows of nobody who has the lock (S10).
            State::Idle { not_before, .. } => {
                now < *not_before && self.memory.stands_back_until != Some(*not_before)
            }
            // Nothing is asked before the lease has run out.
            State::Releasing(releasing) => releasing.step == Step::RunOut,
            State::Acquiring(_) => false,
        }
    }

    /// A call that was repeated may be one try, though the first was not.
    fn refuse_one_tries(&mut self, turn: &mut Turn) {
        while let Some(waiter) = self.waiters.pop_one_try() {
            turn.push(self.refusal(waiter.caller, turn.now));
        }
    }

    /// Answers all whose wait is over.
    pub(super) fn answer_overdue(&mut self, turn: &mut Turn) {
        while let Some(waiter) = self.waiters.pop_overdue(turn.now) {
            turn.push(self.refusal(waiter.caller, turn.now));
        }
    }

    /// Somebody has the lock now: one try is over, and the others wait.
    pub(super) fn tell_taken(&mut self, turn: &mut Turn) {
        self.tell_busy_one_tries(turn);
        self.tell_untold(turn);
    }

    /// Somebody still has the lock: one try is over, and the others are told what has changed.
    pub(super) fn tell_still_taken(&mut self, turn: &mut Turn) {
        self.tell_busy_one_tries(turn);
        let token = self.newest_token();
        for (caller, place) in self.waiters.tell_changed(token) {
            turn.push(Action::TellWaiting { caller, place });
        }
    }

    fn tell_busy_one_tries(&mut self, turn: &mut Turn) {
        while let Some(waiter) = self.waiters.pop_one_try() {
            let busy = self.busy(turn.now);
            turn.push(Action::TellBusy { caller: waiter.caller, busy });
        }
    }

    pub(super) fn fail_one_tries(&mut self, trouble: &Trouble, turn: &mut Turn) {
        while let Some(waiter) = self.waiters.pop_one_try() {
            turn.push(Action::TellFailed { caller: waiter.caller, trouble: trouble.clone() });
        }
    }

    pub(super) fn fail_all(&mut self, trouble: &Trouble, turn: &mut Turn) {
        while let Some(waiter) = self.waiters.pop() {
            turn.push(Action::TellFailed { caller: waiter.caller, trouble: trouble.clone() });
        }
    }

    /// What a caller is told that does not get the lock now: the store's trouble, or who has it.
    fn refusal(&self, caller: CallerId, now: Instant) -> Action {
        match &self.trouble {
            Some(trouble) => Action::TellFailed { caller, trouble: trouble.as_ref().clone() },
            None => Action::TellBusy { caller, busy: self.busy(now) },
        }
    }

    /// Who has the lock, as far as is known here.
    fn busy(&self, now: Instant) -> Busy {
        let seen = self.memory.rest.as_ref().map(|rest| rest.until);
        let (record, rest) = match (&self.state, &self.memory.known) {
            (State::Held(held), _) => (held.record(), held.holding().resting_until),
            (_, Some(known)) => (known.record(), seen),
            (_, None) => (Record::default(), seen),
        };
        let rest = rest.filter(|until| *until > now);
        let retry_after = rest.map_or(self.settings.poll_cap, |until| until.saturating_since(now));
        Busy { record, retry_after, resting: rest.is_some() }
    }
}

pub(super) fn shutting_down() -> Trouble {
    Trouble {
        kind: TroubleKind::ShuttingDown,
        message: "the sidecar is shutting down".to_owned(),
        retry_after: None,
    }
}
