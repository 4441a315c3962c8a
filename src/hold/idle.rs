//! What an idle machine waits for, and until when (S10 to S13, S33).

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
    /// The next try: another lock of the share is being acquired here (S34).
    OutOfTurn,
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
    pub(super) fn end(&mut self, now: Instant) {
        if now < self.until {
            *self = Self::ready(now);
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
