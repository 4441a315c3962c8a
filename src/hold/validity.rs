//! From when to when a holder may act (S2).

use std::time::Duration;

use crate::time::Instant;

/// The part of the margin that does not depend on D: rounding, jitter, and clock steps too small to be seen.
const FIXED_MARGIN: Duration = Duration::from_millis(500);

/// What is taken off a lease's duration: 2 % of it, for clocks that differ in rate, and 500 ms (S2).
#[must_use]
pub fn margin(lease_duration: Duration) -> Duration {
    lease_duration / 50 + FIXED_MARGIN
}

/// The end of the validity that an answered request gives: counted from before it was sent (S2).
#[must_use]
pub fn valid_until(sent: Instant, lease_duration: Duration) -> Instant {
    sent + lease_duration.saturating_sub(margin(lease_duration))
}

/// The moment at which a lease has certainly run out in the store, on a clock that is at most 1 % slow: the
/// last request that may have acquired or renewed it was answered or given up at `given_up`, and arrives no
/// later (S13).
pub(super) fn over_at(given_up: Instant, lease_duration: Duration) -> Instant {
    given_up + lease_duration + margin(lease_duration)
}

/// How much longer a span lasts on a clock elsewhere that is 1 % slow: a client on another kernel counts by
/// its own (S1, S21).
pub(super) fn slowness(span: Duration) -> Duration {
    let millis = u64::try_from(span.as_millis().div_ceil(100)).unwrap_or(u64::MAX);
    Duration::from_millis(millis)
}

/// How long a request about a lease of this duration is waited for: D/6, at most 5 s (S7).
pub(super) fn cut_off(lease_duration: Duration) -> Duration {
    (lease_duration / 6).min(Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_validity_ends_the_margin_before_the_lease() {
        let sent = Instant::from_boot(Duration::from_secs(1_000));
        for (duration, lasts) in [(15, 14_200), (30, 28_900), (60, 58_300)] {
            let until = valid_until(sent, Duration::from_secs(duration));
            assert_eq!(until - sent, Duration::from_millis(lasts));
        }
    }

    #[test]
    fn s7_tries_are_cut_off_after_a_sixth_and_at_most_five_seconds() {
        assert_eq!(cut_off(Duration::from_secs(15)), Duration::from_millis(2_500));
        assert_eq!(cut_off(Duration::from_secs(60)), Duration::from_secs(5));
    }
}
