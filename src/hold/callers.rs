//! Callers that come, and what those are told that do not get the lock (S11, S12, S15).

use std::sync::Arc;

use super::action::{Action, Busy};
use super::event::{CallerId, Terms, Trouble, TroubleKind};
use super::waiters::Waiter;
use super::{Hold, State};
use crate::lock::Record;
use crate::time::Instant;

impl Hold {
    pub(super) fn arrive(
        &mut self,
        caller: CallerId,
        terms: Arc<Terms>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if self.draining {
            return out.push(Action::TellFailed { caller, trouble: shutting_down() });
        }
        if let State::Held(held) = &self.state
            && held.repeats(&terms)
        {
            let holder = held.holding().caller;
            return out.push(Action::TellSameGrant { caller, holder });
        }
        if !terms.request_id.is_empty()
            && let Some(superseded) = self.waiters.replace(&terms.request_id, caller)
        {
            return out.push(Action::TellSuperseded { caller: superseded });
        }
        // S12: one try is one answer of the store; where others wait or hold here, the answer is known.
        let one_try = terms.wait.is_zero();
        let answer_known = match &self.state {
            State::Held(_) | State::Resuming(_) => true,
            State::Idle { not_before, .. } => now < *not_before,
            State::Acquiring(_) | State::Releasing(_) => false,
        };
        if one_try && answer_known {
            let busy = self.busy(now);
            return out.push(Action::TellBusy { caller, busy });
        }
        self.waiters.push(Waiter::new(caller, terms, now));
        out.push(Action::TellWaiting { caller, place: self.waiters.len() });
    }

    /// The wait of a caller is over.
    pub(super) fn answer_overdue(&self, waiter: &Waiter, now: Instant, out: &mut Vec<Action>) {
        let caller = waiter.caller;
        out.push(match &self.trouble {
            Some(trouble) => Action::TellFailed { caller, trouble: trouble.clone() },
            None => Action::TellBusy { caller, busy: self.busy(now) },
        });
    }

    pub(super) fn tell_busy_one_tries(&mut self, now: Instant, out: &mut Vec<Action>) {
        for waiter in self.waiters.take_one_tries() {
            let busy = self.busy(now);
            out.push(Action::TellBusy { caller: waiter.caller, busy });
        }
    }

    pub(super) fn fail_one_tries(&mut self, trouble: &Trouble, out: &mut Vec<Action>) {
        for waiter in self.waiters.take_one_tries() {
            out.push(Action::TellFailed { caller: waiter.caller, trouble: trouble.clone() });
        }
    }

    pub(super) fn fail_all(&mut self, trouble: &Trouble, out: &mut Vec<Action>) {
        for waiter in self.waiters.take_all() {
            out.push(Action::TellFailed { caller: waiter.caller, trouble: trouble.clone() });
        }
    }

    /// Who has the lock, as far as is known here.
    pub(super) fn busy(&self, now: Instant) -> Busy {
        let rest = match &self.state {
            State::Held(held) => held.holding().resting_until,
            State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {
                self.resting_until
            }
        };
        let rest = rest.filter(|until| *until > now);
        let record = match (&self.state, &self.memory.known) {
            (State::Held(held), _) => held.record(),
            (_, Some(known)) => Record::from_fields(&known.fields),
            (_, None) => Record::default(),
        };
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
