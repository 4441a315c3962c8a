//! What holders, their streams and operators ask of a hold that goes on (S11, S14 to S17).

use std::time::Duration;

use super::action::{LossReason, Notice};
use super::callers::shutting_down;
use super::event::CallerId;
use super::hand_over::Shutdown;
use super::held::{BROKEN, GracePeriod, Phase};
use super::output::Output;
use super::{Hold, State};
use crate::lock::FencingToken;
use crate::time::Instant;

impl Hold {
    pub(super) fn broken_here(&mut self, ends_now: bool, output: &mut Output) {
        match self.take_state(output.now) {
            State::Held(held) if !ends_now && held.phase.is_open() => {
                self.broken_here_softly(held, output);
            }
            State::Held(held) => {
                self.lose_lease(held, LossReason::Broken, BROKEN.to_owned(), output);
            }
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Releasing(_)
            | State::Resuming(_)) => self.state = other,
        }
    }

    /// S13, S17: nobody waits for the former holder of a grant that an operator has ended at once. Its lease
    /// is gone.
    pub(super) fn freed(&mut self, token: FencingToken, now: Instant) {
        if let State::Held(held) = &self.state
            && held.phase == Phase::GracePeriod(GracePeriod::LeaseGone)
            && held.token == token
        {
            self.state = State::ready(now);
        }
    }

    /// A stream ended without a word (S14).
    pub(super) fn disconnected(&mut self, caller: CallerId) {
        if let State::Held(held) = &mut self.state
            && held.is_active(caller)
        {
            held.phase = Phase::GracePeriod(GracePeriod::Silent);
        }
    }

    /// S16: whether a call about a hold shows that it has left this sidecar; then nothing of it stays.
    pub(super) fn has_moved(
        &mut self,
        caller: CallerId,
        generation: Option<u64>,
        output: &mut Output,
    ) -> bool {
        match self.take_state(output.now) {
            State::Held(held)
                if held.caller == caller
                    && generation.is_some_and(|generation| generation > held.generation) =>
            {
                self.moved_on(&held, output);
                true
            }
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_)) => {
                self.state = other;
                false
            }
        }
    }

    pub(super) fn extend(&mut self, caller: CallerId, max_hold: Duration, output: &mut Output) {
        if let State::Held(held) = &mut self.state
            && held.is_active(caller)
        {
            let max_hold_ends = held.bounds.extend(max_hold, output.now);
            let valid_until = held.tell_validity(output.now);
            output.tell(caller, Notice::Extended { valid_until, max_hold_ends });
        }
    }

    pub(super) fn report_progress(&mut self, caller: CallerId, now: Instant) {
        if let State::Held(held) = &mut self.state
            && held.is_active(caller)
        {
            held.bounds.report_progress(now);
            // The report is answered with the validity (S21).
            held.tell_validity(now);
        }
    }

    pub(super) fn start_draining(&mut self, ends: Instant, output: &mut Output) {
        self.shutdown = Shutdown::Drain;
        self.fail_all(&shutting_down(), output);
        self.drain_resume(output);
        self.drain_holder(ends, output);
    }

    fn drain_holder(&mut self, ends: Instant, output: &mut Output) {
        match self.take_state(output.now) {
            // The end of the rest is in the record, so the lease is not needed to keep it (S11).
            State::Held(held) if matches!(held.phase, Phase::Resting { .. }) => {
                self.give_back(*held, None, output);
            }
            State::Held(held) => {
                if held.phase == Phase::Active {
                    output.tell(held.caller, Notice::Draining { ends });
                }
                self.state = State::Held(held);
            }
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Releasing(_)
            | State::Resuming(_)) => self.state = other,
        }
    }

    /// The drain period is over: the rest are told (S15).
    pub(super) fn shut_down_holder(&mut self, output: &mut Output) {
        match self.take_state(output.now) {
            State::Held(held) if held.phase == Phase::Active => {
                let detail = "the sidecar shut down and the drain period is over".to_owned();
                self.lose(held, LossReason::Shutdown, detail, output);
            }
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_)) => self.state = other,
        }
    }
}
