//! What holders, their streams and operators ask of a hold that goes on (S11, S14 to S17).

use std::time::Duration;

use super::action::{Action, LossReason};
use super::event::CallerId;
use super::held::{Fading, Phase, broken_detail};
use super::{Hold, State};
use crate::lock::{FencingToken, LeaseId};
use crate::time::Instant;

impl Hold {
    pub(super) fn broken_here(&mut self, reason: String, now: Instant, out: &mut Vec<Action>) {
        if let State::Held(held) = &self.state {
            let held = held.as_ref().clone();
            self.lose_lease(held, LossReason::Broken, broken_detail(Some(reason)), now, out);
        }
    }

    /// A stream ended without a word (S14).
    pub(super) fn fall_silent(&mut self, caller: CallerId) {
        if let State::Held(held) = &mut self.state
            && held.is_active(caller)
        {
            held.phase = Phase::Fading(Fading::Silent);
        }
    }

    /// Takes a hold up again that this sidecar still has (S16); false if it has not.
    pub(super) fn take_up(
        &mut self,
        caller: CallerId,
        lease_id: LeaseId,
        token: FencingToken,
        (now, out): (Instant, &mut Vec<Action>),
    ) -> bool {
        let State::Held(held) = &mut self.state else {
            return false;
        };
        let goes_on = match held.phase {
            Phase::Active | Phase::Fading(Fading::Silent) => true,
            Phase::Resting { .. } | Phase::Fading(_) => false,
        };
        if !goes_on || held.lease_id != lease_id || held.token != token {
            return false;
        }
        if held.phase == Phase::Active {
            out.push(Action::TellSuperseded { caller: held.caller });
        }
        held.caller = caller;
        held.phase = Phase::Active;
        held.renewal.hasten(now);
        let grant = held.granted(true);
        out.push(Action::TellGranted { caller, grant });
        true
    }

    pub(super) fn extend(
        &mut self,
        caller: CallerId,
        max_hold: Duration,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if let State::Held(held) = &mut self.state
            && held.is_active(caller)
        {
            held.bounds.extend(max_hold, now);
            let valid_until = held.tell_validity();
            out.push(Action::TellRenewed { caller, valid_until });
        }
    }

    pub(super) fn report_progress(&mut self, caller: CallerId, now: Instant) {
        if let State::Held(held) = &mut self.state
            && held.is_active(caller)
        {
            held.bounds.report_progress(now);
            held.tell_validity();
        }
    }

    pub(super) fn drain_holder(&mut self, ends: Instant, now: Instant, out: &mut Vec<Action>) {
        let State::Held(held) = &self.state else {
            return;
        };
        match held.phase {
            Phase::Active => out.push(Action::TellDraining { caller: held.caller, ends }),
            // The end of the rest is in the record, so the lease is not needed to keep it (S11).
            Phase::Resting { .. } => {
                let held = held.as_ref().clone();
                self.give_back(held, now, out);
            }
            Phase::Fading(_) => {}
        }
    }

    /// The drain period is over: the rest are told (S15).
    pub(super) fn shut_down_holder(&mut self, now: Instant, out: &mut Vec<Action>) {
        let State::Held(held) = &self.state else {
            return;
        };
        if held.phase == Phase::Active {
            let held = held.as_ref().clone();
            let detail = "the sidecar shut down and the drain period is over".to_owned();
            self.lose(held, LossReason::Shutdown, detail, now, out);
        }
    }
}
