//! The store's time between two answers, as nearly as it is known here (T7).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::{Instant, UnixMillis};

/// A store's clock may be cut to whole seconds, so one answer may be that much behind another.
const RESOLUTION: Duration = Duration::from_secs(1);
/// What else one answer may be behind another: clocks are read in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// What the store's clock shows at the least: never more than the store itself would say, so that nothing is
/// early.
#[derive(Debug, Default)]
pub(super) struct StoreClock(Mutex<Option<(Instant, UnixMillis)>>);

impl StoreClock {
    /// Takes in the time of an answer that came at `answered`. Of answers that agree but for the cut, the one
    /// that says most is kept; one that does not agree shows that the store's clock was set.
    pub(super) fn note(&self, time: UnixMillis, answered: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = known.map(|(at, time)| time + answered.saturating_since(at));
        let is_whole = time.0.is_multiple_of(1_000);
        let tolerated = if is_whole { RESOLUTION } else { ROUNDING };
        let agrees = expected.is_some_and(|expected| {
            time <= expected && expected.saturating_since(time) <= tolerated
        });
        if !agrees {
            *known = Some((answered, time));
        }
    }

    /// The time now; none before the first answer.
    pub(super) fn now(&self, now: Instant) -> Option<UnixMillis> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.map(|(at, time)| time + now.saturating_since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_boot(Duration::from_millis(millis))
    }

    #[test]
    fn t7_answers_that_are_cut_to_the_second_are_put_together() {
        let clock = StoreClock::default();
        assert_eq!(clock.now(at(0)), None);
        // The store's clock shows 10,400 ms at the first answer.
        clock.note(UnixMillis(10_000), at(0));
        assert_eq!(clock.now(at(300)), Some(UnixMillis(10_300)));
        clock.note(UnixMillis(11_000), at(650));
        assert_eq!(clock.now(at(650)), Some(UnixMillis(11_000)), "it says more than was known");
        clock.note(UnixMillis(11_000), at(1_500));
        assert_eq!(clock.now(at(1_500)), Some(UnixMillis(11_850)), "it says less, by the cut");
    }

    #[test]
    fn t7_a_clock_that_was_set_back_is_believed() {
        let clock = StoreClock::default();
        clock.note(UnixMillis(3_600_000), at(0));
        clock.note(UnixMillis(500), at(100));
        assert_eq!(clock.now(at(100)), Some(UnixMillis(500)));
    }

    #[test]
    fn t7_a_clock_that_is_not_cut_is_believed_when_it_was_set_back_by_less_than_a_second() {
        let clock = StoreClock::default();
        clock.note(UnixMillis(10_400), at(0));
        clock.note(UnixMillis(10_123), at(600));
        assert_eq!(clock.now(at(600)), Some(UnixMillis(10_123)));
    }
}
