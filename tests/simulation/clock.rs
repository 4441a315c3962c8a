//! Clocks that do not agree.

use std::time::Duration;

use leasehold::time::Instant;

/// The clock of one machine: off by an offset, and up to 0.5 % fast or slow (S1 allows two to differ by 1 %).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) offset: Duration,
    pub(crate) millionths: u64,
    /// True time that it has not counted.
    pub(crate) missed: Duration,
}

impl Clock {
    pub(crate) fn read(self, now: Duration) -> Instant {
        let counted = now.saturating_sub(self.missed);
        let micros = counted.as_micros() * u128::from(self.millionths) / 1_000_000;
        Instant::from_boot(self.offset + Duration::from_micros(u64::try_from(micros).unwrap()))
    }

    /// The true time of a reading, rounded up.
    pub(crate) fn when(self, at: Instant) -> Duration {
        let since = at.since_boot().saturating_sub(self.offset).as_micros();
        let micros = (since * 1_000_000).div_ceil(u128::from(self.millionths));
        Duration::from_micros(u64::try_from(micros).unwrap()) + self.missed
    }
}
