//! How many runs this sidecar starts in a second (T13).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::Instant;

/// Starts that may come together after a quiet time, so that a few schedules do not wait for each other: a
/// tenth of a second's, and so many at least.
const TOGETHER: u32 = 5;
/// A start that waits longer is late by the queue alone, which is said (T13).
const LONG: Duration = Duration::from_secs(1);
/// Between two lines of the log that say so.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// The queue of starts.
#[derive(Debug)]
pub(super) struct Starts {
    /// The time between two starts.
    between: Duration,
    together: u32,
    queue: Mutex<StartQueue>,
}

#[derive(Debug, Default)]
struct StartQueue {
    next: Instant,
    said_at: Option<Instant>,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// When it is to be used, which may be now.
    pub(super) at: Instant,
    /// The queue alone makes the start late.
    pub(super) is_late: bool,
    /// That is to be said: once a minute.
    pub(super) is_said: bool,
}

impl Starts {
    pub(super) fn new(per_second: usize) -> Self {
        let per_second = u32::try_from(per_second).unwrap_or(u32::MAX).max(1);
        let between = Duration::from_secs(1) / per_second;
        Self { between, together: TOGETHER.max(per_second / 10), queue: Mutex::default() }
    }

    /// Takes the next place in the queue.
    pub(super) fn place(&self, now: Instant) -> Place {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.saturating_sub(self.between * (self.together - 1));
        let place = queue.next.max(earliest);
        queue.next = place + self.between;
        let at = place.max(now);
        let is_late = at.saturating_since(now) > LONG;
        let is_silent = |at| now.saturating_since(at) >= BETWEEN_LINES;
        let is_said = is_late && queue.said_at.is_none_or(is_silent);
        if is_said {
            queue.said_at = Some(now);
        }
        Place { at, is_late, is_said }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_a_queue_of_more_than_a_second_is_said_once_a_minute() {
        let starts = Starts::new(50);
        let now = Instant::from_boot(Duration::from_secs(100));
        let places: Vec<Place> = (0..200).map(|_| starts.place(now)).collect();
        assert_eq!(places.iter().filter(|place| place.is_late).count(), 200 - 55);
        assert_eq!(places.iter().filter(|place| place.is_said).count(), 1);
        let later = now + Duration::from_secs(61);
        assert!((0..200).any(|_| starts.place(later).is_said));
    }

    #[test]
    fn t13_at_most_fifty_runs_are_started_in_a_second() {
        let starts = Starts::new(50);
        let now = Instant::from_boot(Duration::from_secs(100));
        let places: Vec<Instant> = (0..4_000).map(|_| starts.place(now).at).collect();
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
            starts.place(now + Duration::from_secs(3_600)).at,
            now + Duration::from_secs(3_600)
        );
    }
}
