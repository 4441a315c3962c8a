//! How long one sidecar may have a lock before others get their turn (S10).

use std::time::Duration;

use super::Hold;
use super::held::Held;
use super::idle::{Idle, Wait};
use crate::lock::ETag;
use crate::time::Instant;

/// How long a sidecar stands back at the least, ± 20 %.
const STAND_BACK: Duration = Duration::from_millis(500);
/// The longest that this is with its spread.
pub(super) const LONGEST_STAND_BACK: Duration = Duration::from_millis(600);
/// What a lock is polled eagerly for beyond D, after its record was last seen to change.
const EAGER_BEYOND: Duration = Duration::from_secs(5);

/// How long after a change of the record the lock is polled eagerly.
pub(super) fn eager_span(lease_duration: Duration) -> Duration {
    EAGER_BEYOND + lease_duration
}

/// Since when this sidecar has the lock again and again, with nobody else in between. Outlives the machine.
#[derive(Clone, Debug, Default)]
pub struct Tenure {
    /// None once this sidecar has stood back, until it acquires again.
    since: Option<Instant>,
    /// Acquisitions from the store in it.
    acquisitions: u32,
    /// Since when others could acquire it, and the record's version then.
    left: Option<(Instant, ETag)>,
}

impl Tenure {
    /// The lock was acquired from the store, with its record at `etag`. It is the same tenure if nobody has
    /// written since we released it, within the time in which others look for it.
    pub(super) fn acquired(&mut self, etag: &ETag, poll_cap: Duration, now: Instant) {
        let goes_on = self
            .left
            .take()
            .is_some_and(|(at, left)| left == *etag && now.saturating_since(at) <= poll_cap);
        if goes_on {
            self.acquisitions = self.acquisitions.saturating_add(1);
            self.since.get_or_insert(now);
        } else {
            *self = Self { since: Some(now), acquisitions: 1, left: None };
        }
    }

    /// The lock goes back to the store.
    pub(super) fn released(&mut self, etag: Option<&ETag>, now: Instant) {
        self.left = etag.map(|etag| (now, etag.clone()));
    }

    /// Until when others may need that this tenure is remembered: while they look for the lock that was
    /// released here, but no longer than it was ours. One that has been free for as long leaves them their
    /// turn by itself.
    pub(super) fn matters_until(&self, poll_cap: Duration) -> Option<Instant> {
        let (left, _) = self.left.as_ref()?;
        let lasted = self.since.map_or(poll_cap, |since| left.saturating_since(since));
        Some(*left + lasted.min(poll_cap))
    }

    /// Whether the lock was acquired here more than once in a row.
    pub(super) const fn is_repeated(&self) -> bool {
        self.acquisitions > 1
    }

    /// Others get their turn now. If nobody takes it, the lock is still acquired again and again, and marked
    /// so.
    fn stand_back(&mut self, until: Instant) {
        self.since = None;
        if let Some((at, _)) = &mut self.left {
            *at = until;
        }
    }

    fn has_lasted(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_since(since))
    }
}

impl Hold {
    /// When this sidecar may try again after it gives the lock back: others come first if it was handed on
    /// here, or acquired again and again, for long enough.
    pub(super) fn stand_back(&mut self, held: &Held, now: Instant) -> Option<Idle> {
        let limit = self.hand_off_limit(held);
        if self.waiters.is_empty() {
            self.handing_since = None;
        } else {
            self.handing_since.get_or_insert(now);
        }
        let handed = self.handing_since.is_some_and(|since| now.saturating_since(since) >= limit);
        let lasted = self.memory.tenure.has_lasted(now);
        let looped = self.memory.tenure.is_repeated() && lasted >= limit;
        self.note_free();
        if !handed && !looped {
            return None;
        }
        self.handing_since = None;
        let mut span = self.jitter.around(STAND_BACK, 20);
        // Others may have stopped to poll eagerly: they need a chance all the same, at no more than a tenth
        // of the time.
        let lapsed = now.saturating_since(held.written_at);
        if lapsed > eager_span(held.renewal.lease_duration()) {
            span = span.max((lasted / 10).min(self.settings.poll_cap * 6 / 5));
        }
        let until = now + span;
        self.memory.tenure.stand_back(until);
        Some(Idle { until, why: Wait::StandBack })
    }

    /// S10: others must have their turn after the configured span, at most D/2.
    pub(super) fn hand_off_limit(&self, held: &Held) -> Duration {
        self.settings.hand_off.min(held.renewal.lease_duration() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_a_tenure_matters_until_the_lock_was_free_for_as_long() {
        let at = |millis| Instant::default() + Duration::from_millis(millis);
        let etag = ETag("1".to_owned());
        let cap = Duration::from_secs(5);
        let mut tenure = Tenure::default();
        assert_eq!(tenure.matters_until(cap), None);
        tenure.acquired(&etag, cap, at(0));
        assert_eq!(tenure.matters_until(cap), None, "it is ours");
        tenure.released(Some(&etag), at(2_000));
        assert_eq!(tenure.matters_until(cap), Some(at(4_000)));
        // The time in between counts: it was ours again and again.
        tenure.acquired(&etag, cap, at(3_000));
        tenure.released(Some(&etag), at(4_000));
        assert_eq!(tenure.matters_until(cap), Some(at(8_000)));
        assert_eq!(tenure.matters_until(Duration::from_secs(1)), Some(at(5_000)));
        // Once it has stood back: others look for it again.
        tenure.stand_back(at(4_500));
        assert_eq!(tenure.matters_until(cap), Some(at(9_500)));
    }
}
