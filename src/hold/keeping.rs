//! A lease that is kept between two holds of this sidecar, so that the next needs no acquire (T19).

use std::time::Duration;

use super::action::Action;
use super::held::{Held, Phase};
use super::output::Output;
use super::{Hold, State};
use crate::time::Instant;

/// The longest that a lease is kept and used again; then others get their turn (S10, T19).
const LONGEST_KEPT: Duration = Duration::from_secs(30);

impl Hold {
    /// Ends a hold whose holder knows of a next one that comes soon: the lease stays for that, renewed, and nobody has the lock.
    /// A caller that waits already is served.
    pub(super) fn keep_lease(&mut self, mut held: Box<Held>, keep: Duration, output: &mut Output) {
        let (now, caller) = (output.now, held.caller);
        if self.may_hand_on(&held, now) {
            return self.hand_on_or_give_back(*held, Some(caller), output);
        }
        let seldom = self.seldom.get_or_insert_default();
        let since = *seldom.kept_since.get_or_insert(now);
        let until = (now + keep).min(since + LONGEST_KEPT);
        if now >= until || !self.is_sound(&held, now) || self.shutdown.is_under_way() {
            return self.give_back(*held, Some(caller), output);
        }
        output.push(Action::TellReleased { caller, resting_until: None });
        held.phase = Phase::Kept { until };
        if let Some(held) = self.serve_kept(held, output) {
            self.state = State::Held(held);
        }
    }

    /// Serves who has come while the lease is kept: under this lease with a new epoch, or else after it has gone back. The
    /// hold again if nobody has come.
    pub(super) fn serve_kept(&mut self, held: Box<Held>, output: &mut Output) -> Option<Box<Held>> {
        let Some(front) = self.waiters.front() else { return Some(held) };
        if held.suits(front) && self.is_sound(&held, output.now) {
            self.next_epoch(&held, output);
        } else {
            self.give_back(*held, None, output);
        }
        None
    }

    /// Gives back a lease that is kept.
    pub(super) fn let_kept_go(&mut self, output: &mut Output) {
        match self.take_state(output.now) {
            State::Held(held) if matches!(held.phase, Phase::Kept { .. }) => {
                self.give_back(*held, None, output);
            }
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_)) => self.state = other,
        }
    }

    /// Since when the lease is kept and used again, if it is.
    pub(super) fn kept_since(&self) -> Option<Instant> {
        self.seldom.as_ref()?.kept_since
    }

    /// Whether that is so for so long that others must have their turn (T19).
    pub(super) fn has_kept_enough(&self, now: Instant) -> bool {
        self.kept_since().is_some_and(|since| now.saturating_since(since) >= LONGEST_KEPT)
    }

    /// The lease goes back, or is a new one.
    pub(super) fn note_free(&mut self) {
        self.seldom.take_if(|seldom| {
            seldom.kept_since = None;
            seldom.sharing = super::Sharing::default();
            seldom.suspected_at.is_none()
                && seldom.overruling.is_none()
                && seldom.claims.is_none()
                && seldom.breaks.is_none()
        });
    }
}
