//! How often the store is asked while somebody else has the lock (S10, S12).

use std::time::Duration;

use super::jitter::Jitter;

/// The shortest time between two polls, and the time between them where a lock is being handed on (S10, S12).
const POLL_FLOOR: Duration = Duration::from_millis(250);
/// The longest time between two polls where a lock is being handed on. It is spread a little, so that no two
/// sidecars keep step and one of them is always the second; and it is less than a sidecar stands back (S10).
const POLL_EAGER: Duration = Duration::from_millis(300);

/// Decorrelated jitter up to the cap (S12).
#[derive(Clone, Debug, Default)]
pub(super) struct Polling(
    /// None before the first poll: most locks are free.
    Option<Box<Pace>>,
);

#[derive(Clone, Debug, Default)]
struct Pace {
    last: Option<Duration>,
    /// The holder's sidecar hands the lock on: it will stand back soon, for a moment only (S10).
    eager: bool,
}

impl Polling {
    pub(super) fn set_eager(&mut self, eager: bool) {
        self.0.get_or_insert_default().eager = eager;
    }

    pub(super) fn next(&mut self, jitter: &mut Jitter, cap: Duration) -> Duration {
        let pace = self.0.get_or_insert_default();
        if pace.eager {
            return jitter.between(POLL_FLOOR, POLL_EAGER);
        }
        let last = pace.last.unwrap_or(POLL_FLOOR);
        let delay = jitter.between(POLL_FLOOR, last * 3).min(cap);
        pace.last = Some(delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_polls_grow_from_the_floor_to_the_cap() {
        let mut jitter = Jitter::new(3);
        let mut polling = Polling::default();
        let cap = Duration::from_secs(5);
        let mut longest = Duration::ZERO;
        for _ in 0..200 {
            let delay = polling.next(&mut jitter, cap);
            assert!(delay >= POLL_FLOOR && delay <= cap, "{delay:?}");
            longest = longest.max(delay);
        }
        assert_eq!(longest, cap);
        polling.set_eager(true);
        for _ in 0..50 {
            let delay = polling.next(&mut jitter, cap);
            assert!(delay >= POLL_FLOOR && delay <= POLL_EAGER, "{delay:?}");
        }
    }
}
