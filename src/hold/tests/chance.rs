//! Chance from a seed, and clocks that do not agree.

use std::time::Duration;

use crate::hold::jitter::Jitter;
use crate::time::Instant;

/// Seeded chance.
#[derive(Debug)]
pub(super) struct Dice(Jitter);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Jitter::new(seed))
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        let span = self.0.between(Duration::ZERO, Duration::from_micros(limit - 1));
        u64::try_from(span.as_micros()).unwrap()
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub(super) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }
}

/// A clock that is off by an offset and runs up to 0.45 % fast or slow (S1 allows two to differ by 1 %).
#[derive(Clone, Copy, Debug)]
pub(super) struct Skewed {
    pub(super) offset: Duration,
    pub(super) millionths: u64,
}

impl Skewed {
    pub(super) fn read(self, now: Duration) -> Instant {
        let micros = now.as_micros() * u128::from(self.millionths) / 1_000_000;
        Instant::from_boot(self.offset + Duration::from_micros(u64::try_from(micros).unwrap()))
    }

    /// The true time of a reading, rounded up.
    pub(super) fn when(self, at: Instant) -> Duration {
        let since = (at.since_boot().saturating_sub(self.offset)).as_micros();
        let micros = (since * 1_000_000).div_ceil(u128::from(self.millionths));
        Duration::from_micros(u64::try_from(micros).unwrap())
    }
}
