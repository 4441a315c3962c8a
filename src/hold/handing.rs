//! How a hold ends, and who has the lock then: the next caller here, or the store (S4, S8, S10, S13).

use std::time::Duration;

use super::action::{Action, LossReason};
use super::bounds::Bounds;
use super::event::CallerId;
use super::held::{Fading, Held, Phase};
use super::releasing::Releasing;
use super::validity::over_at;
use super::{Flight, Hold, State};
use crate::lock::FencingToken;
use crate::time::Instant;

/// How long a sidecar stands back after it has handed a lock on for long enough (S10).
const STAND_BACK: Duration = Duration::from_millis(500);

impl Hold {
    /// The holder gives the lock back (S13). `asked` says whether it waits for the answer.
    pub(super) fn let_go(
        &mut self,
        caller: CallerId,
        asked: bool,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let State::Held(held) = &self.state else {
            return;
        };
        if held.caller != caller {
            return;
        }
        let mut held = held.as_ref().clone();
        match held.phase {
            Phase::Active | Phase::Fading(Fading::Silent | Fading::Told) => {}
            // The holder knows; the lease is still ours and goes back.
            Phase::Fading(Fading::ToldAtShutdown) => {}
            Phase::Fading(Fading::Bereft) => {
                self.state = State::Idle { not_before: now, effort: None };
                if asked {
                    out.push(Action::TellReleased { caller, resting_until: None });
                }
                return;
            }
            Phase::Resting { until } => {
                if asked {
                    out.push(Action::TellReleased { caller, resting_until: Some(until) });
                }
                return;
            }
        }
        if let Some(until) = held.bounds.rests_until(now)
            && held.phase == Phase::Active
            && !self.draining
        {
            held.phase = Phase::Resting { until };
            if asked {
                out.push(Action::TellReleased { caller, resting_until: Some(until) });
            }
            self.state = State::Held(Box::new(held));
            return;
        }
        held.told_until = now;
        if let Some(reply) = self.hand_on_or_release(held, now, out, asked)
            && asked
        {
            out.push(Action::TellReleased { caller: reply, resting_until: None });
        }
    }

    /// Ends a hold for a reason of our own; the lease is still ours, as far as we know.
    pub(super) fn lose(
        &mut self,
        mut held: Held,
        reason: LossReason,
        detail: String,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        out.push(Action::TellLost { caller: held.caller, reason, detail });
        if reason == LossReason::Shutdown {
            held.phase = Phase::Fading(Fading::ToldAtShutdown);
            self.state = State::Held(Box::new(held));
        } else if now < held.told_until {
            held.phase = Phase::Fading(Fading::Told);
            self.state = State::Held(Box::new(held));
        } else if reason == LossReason::Expired {
            self.give_back(held, now, out);
        } else {
            self.go_on(held, now, out);
        }
    }

    /// Ends a hold because the store says that the lease is not ours any more (S8).
    pub(super) fn lose_lease(
        &mut self,
        mut held: Held,
        reason: LossReason,
        detail: String,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        self.memory.known = None;
        let may_believe = match held.phase {
            Phase::Active => {
                out.push(Action::TellLost { caller: held.caller, reason, detail });
                true
            }
            Phase::Fading(_) => true,
            Phase::Resting { .. } => false,
        };
        if may_believe && now < held.told_until {
            held.phase = Phase::Fading(Fading::Bereft);
            self.state = State::Held(Box::new(held));
        } else {
            self.state = State::Idle { not_before: now, effort: None };
        }
    }

    /// The validity last told to a holder that may not know is over (S13).
    pub(super) fn faded(
        &mut self,
        held: Held,
        fading: Fading,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        match fading {
            Fading::Silent => {
                let detail = "the holder's stream broke and was not resumed in time".to_owned();
                out.push(Action::TellLost {
                    caller: held.caller,
                    reason: LossReason::Expired,
                    detail,
                });
                self.give_back(held, now, out);
            }
            Fading::Told => self.go_on(held, now, out),
            Fading::ToldAtShutdown | Fading::Bereft => {
                self.state = State::Idle { not_before: now, effort: None };
            }
        }
    }

    pub(super) fn go_on(&mut self, held: Held, now: Instant, out: &mut Vec<Action>) {
        self.hand_on_or_release(held, now, out, false);
    }

    /// Hands the lock to the caller at the front without asking the store, or gives it back (S10). Answers the
    /// former holder if it need not wait for the store.
    pub(super) fn hand_on_or_release(
        &mut self,
        mut held: Held,
        now: Instant,
        out: &mut Vec<Action>,
        asked: bool,
    ) -> Option<CallerId> {
        let next = self.next_token_here(&held, now);
        let Some((token, waiter)) = next.and_then(|token| Some((token, self.waiters.pop()?)))
        else {
            let former = held.caller;
            let mut releasing = self.way_back(held, now);
            if asked {
                releasing.replies.push(former);
            }
            self.release(releasing, now, out);
            return None;
        };
        self.handing_since.get_or_insert(now);
        self.memory.highest = self.memory.highest.max(Some(token));
        let former = held.caller;
        let held_for = now.saturating_since(held.granted_at);
        held.token = token;
        held.caller = waiter.caller;
        held.bounds = Bounds::new(&waiter.terms, now);
        held.terms = waiter.terms;
        held.acquired_at = held.acquired_at + held_for;
        held.granted_at = now;
        held.told_until = now;
        held.phase = Phase::Active;
        self.tell_granted(held, false, out);
        Some(former)
    }

    /// The token for a hand-off to the caller at the front; none if the lock must go back to the store.
    pub(super) fn next_token_here(&self, held: &Held, now: Instant) -> Option<FencingToken> {
        let front = self.waiters.front()?;
        let used_up = self.handing_since.is_some_and(|since| {
            let limit = self.settings.hand_off.min(held.renewal.lease_duration() / 2);
            now.saturating_since(since) >= limit
        });
        let fits = front.terms.lease_duration == held.renewal.lease_duration()
            && front.terms.min_hold.is_zero()
            && front.terms.auto_renew;
        let sound = !held.resumed
            && held.bounds.rests_until(now).is_none()
            && !held.renewal.is_at_risk()
            && now < held.renewal.valid_until()
            && matches!(
                held.phase,
                Phase::Active | Phase::Resting { .. } | Phase::Fading(Fading::Silent)
            );
        if used_up || !fits || !sound || self.draining {
            return None;
        }
        held.token.after_hand_off()
    }

    pub(super) fn give_back(&mut self, held: Held, now: Instant, out: &mut Vec<Action>) {
        let releasing = self.way_back(held, now);
        self.release(releasing, now, out);
    }

    pub(super) fn way_back(&mut self, held: Held, now: Instant) -> Releasing {
        // S10: with callers waiting here, other sidecars get their turn first.
        let not_before = if self.waiters.is_empty() {
            None
        } else {
            let since = *self.handing_since.get_or_insert(now);
            (now.saturating_since(since) >= self.settings.hand_off)
                .then(|| now + self.jitter.around(STAND_BACK, 20))
        };
        if not_before.is_some() || self.waiters.is_empty() {
            self.handing_since = None;
        }
        let lease_duration = held.renewal.lease_duration();
        self.late_renewals.keep(&held.renewal, held.lease_id, held.etag.clone());
        Releasing {
            lease_id: held.lease_id,
            if_match: held.etag,
            lease_duration,
            over_at: over_at(held.renewal.last_sent(), lease_duration),
            replies: Vec::new(),
            not_before,
            flight: Flight::Waiting { at: now },
        }
    }
}
