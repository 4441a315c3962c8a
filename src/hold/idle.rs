//! Why an idle machine leaves the store alone, and who need not wait for that (S10 to S13, S33, S34).

use super::tenure::LONGEST_STAND_BACK;
use super::{Hold, State};
use crate::time::Instant;

/// Until when an idle machine leaves the store alone, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    pub(super) until: Instant,
    pub(super) why: Wait,
}

/// What an idle machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: the next caller is tried for at once.
    Ready,
    /// The next poll: another sidecar has the lock, or comes first (S12, S34).
    Poll,
    /// The next try: the store has failed.
    Backoff,
    /// Others come first: the lock was handed on here, or acquired again and again (S10).
    StandBack,
    /// The end of a rest (S11).
    MinHold,
    /// The end of a reservation for a greater priority (S33).
    Reserved,
    /// The end of a hold that its client may still believe in (S13).
    Believed,
}

impl Wait {
    /// Whether the lock's record tells of it.
    pub(super) const fn is_rest(self) -> bool {
        matches!(self, Self::MinHold | Self::Reserved)
    }
}

impl Idle {
    /// The machine waits for nothing.
    pub(super) const fn ready(now: Instant) -> Self {
        Self { until: now, why: Wait::Ready }
    }

    /// The machine waits for nothing from now on at the latest.
    fn end(&mut self, now: Instant) {
        if now < self.until {
            *self = Self::ready(now);
        }
    }
}

impl State {
    /// Nothing is under way, and nothing is waited for.
    pub(super) const fn ready(now: Instant) -> Self {
        Self::Idle { idle: Idle::ready(now), retry: None }
    }
}

impl Hold {
    /// A lock that is left alone, for others who come first (S33, S34), is tried at once for a caller that
    /// need not leave it.
    pub(super) fn wake_for_front(&mut self, now: Instant) {
        let Some(front) = self.waiters.front() else { return };
        let priority = front.terms.priority();
        let is_open = self.memory.rest.as_ref().is_some_and(|rest| !rest.concerns(priority));
        let is_free = self.free_since().is_some() && self.waiters.has_one_try();
        if let State::Idle { idle, .. } = &mut self.state
            && (is_free || is_open && idle.why.is_rest())
        {
            idle.end(now);
        }
    }

    /// S12: one try does not wait for long until others have had their turn.
    pub(super) fn try_once_soon(&mut self, now: Instant) {
        if let State::Idle { idle, .. } = &mut self.state
            && idle.why == Wait::StandBack
        {
            idle.until = idle.until.min(now + LONGEST_STAND_BACK);
        }
    }

    /// What the lock is now is asked at once.
    pub(super) fn poll_now(&mut self, now: Instant) {
        if let State::Idle { idle, retry: Some(_) } = &mut self.state {
            idle.end(now);
        }
    }

    /// The next poll comes at `soon` at the latest; nothing else that the machine waits for is cut short.
    pub(super) fn poll_soon(&mut self, soon: Instant) {
        if let State::Idle { idle, retry: Some(_) } = &mut self.state
            && self.store_failure.is_none()
            && idle.why != Wait::StandBack
            && !idle.why.is_rest()
        {
            idle.until = idle.until.min(soon);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wait_that_is_cut_short_is_for_nothing_any_more() {
        let at = |seconds| Instant::default() + Duration::from_secs(seconds);
        let mut idle = Idle { until: at(9), why: Wait::Reserved };
        idle.end(at(10));
        assert_eq!(idle, Idle { until: at(9), why: Wait::Reserved }, "it was over");
        idle.end(at(5));
        assert_eq!(idle, Idle::ready(at(5)));
    }
}
