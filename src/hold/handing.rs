//! How a hold ends, and who has the lock then: the next caller here, or the store (S4, S8, S10, S13).

use super::action::{Action, LossReason};
use super::bounds::Bounds;
use super::event::CallerId;
use super::held::{Fading, Held, Phase};
use super::releasing::Releasing;
use super::turn::Turn;
use super::validity::over_at;
use super::{Flight, Hold, State};
use crate::lock::FencingToken;
use crate::time::Instant;
use std::time::Duration;

/// How long a sidecar stands back after it has handed a lock on for long enough (S10).
const STAND_BACK: Duration = Duration::from_millis(500);

impl Hold {
    /// The holder gives the lock back (S13). `asked` says whether it waits for the answer.
    pub(super) fn let_go(&mut self, caller: CallerId, asked: bool, turn: &mut Turn) {
        let mut held = match self.take_state(turn.now) {
            State::Held(held) if held.caller == caller => held,
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_)) => {
                self.state = other;
                return;
            }
        };
        let reply = asked.then_some(caller);
        match held.phase {
            Phase::Active => match held.bounds.rests_until(turn.now) {
                Some(until) if !self.draining => {
                    held.phase = Phase::Resting { until };
                    self.keep_resting(held, until, reply, turn);
                }
                Some(_) | None => self.hand_on_or_give_back(*held, reply, turn),
            },
            // The holder knows; the lease is still ours and goes back. Who was silent may have resumed elsewhere
            // and ended there, so only the store can say whether the lease is still to be handed on.
            Phase::Fading(Fading::Silent | Fading::Told | Fading::ToldAtShutdown) => {
                self.give_back(*held, reply, turn);
            }
            // The lease is another's, and nobody believes in it any more.
            Phase::Fading(Fading::Bereft) => {
                self.state = State::Idle { not_before: turn.now, effort: None };
                if let Some(caller) = reply {
                    turn.push(Action::TellReleased { caller, resting_until: None });
                }
            }
            Phase::Resting { until } => self.keep_resting(held, until, reply, turn),
        }
    }

    fn keep_resting(
        &mut self,
        held: Box<Held>,
        until: Instant,
        reply: Option<CallerId>,
        turn: &mut Turn,
    ) {
        if let Some(caller) = reply {
            turn.push(Action::TellReleased { caller, resting_until: Some(until) });
        }
        self.state = State::Held(held);
    }

    /// Ends a hold for a reason of our own; the lease is still ours, as far as we know.
    pub(super) fn lose(
        &mut self,
        mut held: Box<Held>,
        reason: LossReason,
        detail: String,
        turn: &mut Turn,
    ) {
        debug_assert_eq!(held.phase, Phase::Active, "only an active hold can be lost");
        turn.push(Action::TellLost { caller: held.caller, reason, detail });
        if reason == LossReason::Shutdown {
            held.phase = Phase::Fading(Fading::ToldAtShutdown);
            self.state = State::Held(held);
        } else if turn.now < held.believed_until {
            held.phase = Phase::Fading(Fading::Told);
            self.state = State::Held(held);
        } else {
            self.end_unasked(*held, turn);
        }
    }

    /// Ends a hold because the store says that the lease is not ours any more (S8).
    pub(super) fn lose_lease(
        &mut self,
        mut held: Box<Held>,
        reason: LossReason,
        detail: String,
        turn: &mut Turn,
    ) {
        self.memory.known = None;
        let may_believe = match held.phase {
            Phase::Active | Phase::Fading(Fading::Silent) => {
                turn.push(Action::TellLost { caller: held.caller, reason, detail });
                true
            }
            Phase::Fading(Fading::Told | Fading::ToldAtShutdown | Fading::Bereft) => true,
            Phase::Resting { .. } => false,
        };
        if may_believe && turn.now < held.believed_until {
            held.phase = Phase::Fading(Fading::Bereft);
            self.state = State::Held(held);
        } else {
            self.state = State::Idle { not_before: turn.now, effort: None };
        }
    }

    /// The validity last told to a holder that may not know is over (S13).
    pub(super) fn faded(&mut self, mut held: Box<Held>, fading: Fading, turn: &mut Turn) {
        match fading {
            Fading::Silent => {
                let detail = "the holder's stream broke and was not resumed in time".to_owned();
                let reason = LossReason::Expired;
                turn.push(Action::TellLost { caller: held.caller, reason, detail });
                if turn.now < held.believed_until {
                    held.phase = Phase::Fading(Fading::Told);
                    self.state = State::Held(held);
                } else {
                    self.end_unasked(*held, turn);
                }
            }
            Fading::Told => self.end_unasked(*held, turn),
            Fading::ToldAtShutdown | Fading::Bereft => {
                self.state = State::Idle { not_before: turn.now, effort: None };
            }
        }
    }

    /// Ends a hold that its holder did not end. It may go on at another sidecar by now (S16), so it is not handed
    /// on here. A release goes by the record's version, which a resume elsewhere has changed; but a hold that was
    /// resumed here may have been resumed elsewhere before our write: its lease is left to run out.
    fn end_unasked(&mut self, held: Held, turn: &mut Turn) {
        if held.resumed {
            self.state = State::Idle { not_before: turn.now, effort: None };
        } else {
            self.give_back(held, None, turn);
        }
    }

    /// Hands the lock to the caller at the front without asking the store, or gives it back (S10). Only for a hold
    /// that its holder has ended.
    pub(super) fn hand_on_or_give_back(
        &mut self,
        mut held: Held,
        reply: Option<CallerId>,
        turn: &mut Turn,
    ) {
        let next = self.next_token_here(&held, turn.now);
        let Some((token, waiter)) = next.and_then(|token| Some((token, self.waiters.pop()?)))
        else {
            return self.give_back(held, reply, turn);
        };
        debug_assert!(Some(token) > self.memory.highest, "S5: {token} does not grow");
        self.handing_since.get_or_insert(turn.now);
        self.memory.highest = Some(token);
        held.token = token;
        held.caller = waiter.caller;
        held.bounds = Bounds::new(&waiter.terms, turn.now);
        held.terms = waiter.terms;
        held.acquired_at = held.acquired_at + turn.now.saturating_since(held.granted_at);
        held.granted_at = turn.now;
        held.told_until = turn.now;
        held.believed_until = turn.now;
        held.phase = Phase::Active;
        self.tell_granted(held, false, turn);
        if let Some(caller) = reply {
            turn.push(Action::TellReleased { caller, resting_until: None });
        }
    }

    /// The token for a hand-off to the caller at the front; none if the lock must go back to the store.
    fn next_token_here(&self, held: &Held, now: Instant) -> Option<FencingToken> {
        let front = self.waiters.front()?;
        let fits = front.terms.lease_duration == held.renewal.lease_duration()
            && front.terms.min_hold.is_zero()
            && front.terms.auto_renew;
        // S16: what was handed on under a resumed lease before is not known here, so its tokens are not either.
        let sound = !held.resumed
            && !held.renewal.is_at_risk()
            && now < held.renewal.valid_until()
            && held.bounds.rests_until(now).is_none();
        if !fits || !sound || self.draining || self.has_handed_on_enough(held, now) {
            return None;
        }
        held.token.after_hand_off()
    }

    /// S10: others must have their turn after the configured span, at most D/2.
    fn has_handed_on_enough(&self, held: &Held, now: Instant) -> bool {
        let limit = self.settings.hand_off.min(held.renewal.lease_duration() / 2);
        self.handing_since.is_some_and(|since| now.saturating_since(since) >= limit)
    }

    /// Gives the lease of a hold back to the store.
    pub(super) fn give_back(&mut self, held: Held, reply: Option<CallerId>, turn: &mut Turn) {
        let lease_duration = held.renewal.lease_duration();
        let if_match = self.memory.known.as_ref().map(|known| known.etag().clone());
        debug_assert!(if_match.is_some(), "a hold's record is known while its lease is ours");
        for request in held.renewal.unanswered() {
            self.late.keep(request, held.lease_id, if_match.clone(), lease_duration);
        }
        let releasing = Releasing {
            lease_id: held.lease_id,
            if_match,
            lease_duration,
            over_at: over_at(held.renewal.last_sent(), lease_duration),
            reply,
            resting_until: held.bounds.rests_until(turn.now),
            not_before: self.stand_back(&held, turn.now),
            flight: Flight::Waiting { at: turn.now },
        };
        self.release(releasing, turn);
    }

    /// S10: with callers waiting here, other sidecars get their turn first if the lock was handed on for long enough.
    fn stand_back(&mut self, held: &Held, now: Instant) -> Option<Instant> {
        if self.waiters.is_empty() {
            self.handing_since = None;
            return None;
        }
        self.handing_since.get_or_insert(now);
        let enough = self.has_handed_on_enough(held, now) || held.token.after_hand_off().is_none();
        enough.then(|| {
            self.handing_since = None;
            now + self.jitter.around(STAND_BACK, 20)
        })
    }
}
