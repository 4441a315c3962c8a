//! Clocks that do not agree.

use std::time::Duration;

use leasehold::time::{Instant, UnixMillis};

/// Where every wall clock begins.
pub(crate) const EPOCH: u64 = 1_800_000_000_000;

/// The clocks of one machine: a boot clock that is off by an offset, and up to 0.5 % fast or slow (S1 allows
/// two to differ by 1 %), and a wall clock that somebody sets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) offset: Duration,
    pub(crate) millionths: u64,
    /// True time that it has not counted.
    pub(crate) missed: Duration,
    /// From when to when it stands still, latest: a virtual machine that is moved.
    stands: Option<(Duration, Duration)>,
    /// What was added to the wall clock, in milliseconds.
    pub(crate) wall_shift: i64,
}

impl Clock {
    pub(crate) fn new(offset: Duration, millionths: u64) -> Self {
        Self { offset, millionths, ..Self::default() }
    }

    fn counted(&self, now: Duration) -> Duration {
        let (now, stood) = match self.stands {
            Some((from, until)) if now < until => (now.min(from), Duration::ZERO),
            Some((from, until)) => (now, until - from),
            None => (now, Duration::ZERO),
        };
        let micros = now.saturating_sub(self.missed + stood).as_micros();
        let micros = micros * u128::from(self.millionths) / 1_000_000;
        Duration::from_micros(u64::try_from(micros).unwrap())
    }

    pub(crate) fn read(&self, now: Duration) -> Instant {
        Instant::from_boot(self.offset + self.counted(now))
    }

    pub(crate) fn wall(&self, now: Duration) -> UnixMillis {
        let counted = u64::try_from(self.counted(now).as_millis()).unwrap();
        UnixMillis((EPOCH + counted).saturating_add_signed(self.wall_shift))
    }

    /// The true time of a reading, rounded up.
    pub(crate) fn when(&self, at: Instant) -> Duration {
        let since = at.since_boot().saturating_sub(self.offset).as_nanos().div_ceil(1_000);
        let micros = (since * 1_000_000).div_ceil(u128::from(self.millionths));
        let true_at = Duration::from_micros(u64::try_from(micros).unwrap()) + self.missed;
        match self.stands {
            Some((from, until)) if at > self.read(from) => (true_at + (until - from)).max(until),
            Some(_) | None => true_at,
        }
    }

    /// Until when it stands still; `now` if it does not.
    pub(crate) fn stands_until(&self, now: Duration) -> Duration {
        self.stands.map_or(now, |(_, until)| until.max(now))
    }

    /// It stands still for `span` from `now` on, if it does not already.
    pub(crate) fn stand_still(&mut self, now: Duration, span: Duration) {
        if let Some((from, until)) = self.stands {
            if now < until {
                return;
            }
            self.missed += until - from;
        }
        self.stands = Some((now, now + span));
    }
}
