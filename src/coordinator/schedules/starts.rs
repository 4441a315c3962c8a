//! How many runs this sidecar starts in a second (T13).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::Instant;

/// The time between two starts: 50 a second.
const BETWEEN: Duration = Duration::from_millis(20);
/// Starts that may come together after a quiet time, so that a few schedules do not wait for each other.
const TOGETHER: u32 = 5;

/// The queue of starts.
#[derive(Debug, Default)]
pub(super) struct Starts(Mutex<Instant>);

impl Starts {
    /// Takes the next place in the queue: when it is to be used, which may be now.
    pub(super) fn place(&self, now: Instant) -> Instant {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (*next).max(now.saturating_sub(BETWEEN * (TOGETHER - 1)));
        *next = place + BETWEEN;
        place.max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_at_most_fifty_runs_are_started_in_a_second() {
        let starts = Starts::default();
        let now = Instant::from_boot(Duration::from_secs(100));
        let places: Vec<Instant> = (0..4_000).map(|_| starts.place(now)).collect();
        let within = |from: Duration| {
            let (from, to) = (now + from, now + from + Duration::from_secs(1));
            places.iter().filter(|place| from <= **place && **place < to).count()
        };
        assert!(places.is_sorted());
        for second in 0..79 {
            let started = within(Duration::from_secs(second));
            assert!((50..=54).contains(&started), "{started} in second {second}");
        }
        assert_eq!(
            starts.place(now + Duration::from_secs(3_600)),
            now + Duration::from_secs(3_600)
        );
    }
}
