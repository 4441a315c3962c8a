//! When a sidecar looks next (T17). Shares are chosen by the caller, so that this room stays pure.

use std::time::Duration;

/// The most between two looks.
const MOST: Duration = Duration::from_secs(600);
/// What others than the last runner wait after a due time, at least and at most.
const OTHERS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(1_200));

/// A share of a range, in thousandths: 0 is its begin, 1,000 its end. More counts as 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction(pub u16);

impl Fraction {
    fn of(self, range: Duration) -> Duration {
        range * u32::from(self.0.min(1_000)) / 1_000
    }
}

/// How long to wait before the next look, when nothing is due for `wait` (none: ever) by the store's time.
///
/// At the due time the last runner acquires at once; others wait 200 to 1,200 ms more, and then read. Within
/// 10 min there is a look in any case, for a record or plan that changed elsewhere.
#[must_use]
pub fn until_due(wait: Option<Duration>, is_last_runner: bool, share: Fraction) -> Duration {
    let (least, most) = OTHERS;
    let more = if is_last_runner { Duration::ZERO } else { least + share.of(most - least) };
    // Up to a tenth earlier, so that sidecars that began together do not read together for ever.
    let read = MOST - share.of(MOST / 10);
    match wait {
        Some(wait) if wait <= read => wait + more,
        Some(_) | None => read,
    }
}

/// How long to wait before the next look at a run elsewhere or a retry to come: D, 2 D, 4 D … at most 10 min,
/// at most `takeover_check`. `looks` counts those that saw the same before this one, from 0.
#[must_use]
pub fn after_busy(
    looks: u32,
    lease_duration: Duration,
    takeover_check: Option<Duration>,
    share: Fraction,
) -> Duration {
    let doubled = lease_duration.saturating_mul(1 << looks.min(16)).min(MOST);
    let most = takeover_check.map_or(doubled, |check| doubled.min(check));
    most - share.of(most / 10)
}
