//! The house's clock: time since boot, read in this file and nowhere else (S3).
//!
//! Every room takes an [`Instant`] as an argument or asks an injected [`Clock`]. May import: rustix.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A moment on the clock that counts from boot and goes on counting while the machine sleeps (S3).
///
/// Not `std::time::Instant`: that one stops during suspend and cannot be made by a simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(Duration);

impl Instant {
    /// The moment `since_boot` after boot.
    #[must_use]
    pub const fn from_boot(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// The time from boot to this moment.
    #[must_use]
    pub const fn since_boot(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment less `span`; boot itself if that would be before boot.
    #[must_use]
    pub const fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

/// Milliseconds since the Unix epoch: for people, and for moments that several machines share (S5, S11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// Whole seconds since the Unix epoch.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for UnixMillis {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// A moment as it is told to clients: a CLOCK_BOOTTIME reading of this machine (S21).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootReading {
    /// The kernel's boot id: readings compare only when it is the same.
    pub boot_id: String,
    /// The reading of CLOCK_BOOTTIME.
    pub since_boot: Duration,
}

/// Where the time comes from.
///
/// # Contract
/// `now` never goes back, and never runs behind the true time that has passed: pauses that the boot clock
/// missed are added (S3). Adding can only shorten a hold.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Instant;

    /// The wall clock, for people. Never used to lengthen anything (S3).
    fn wall(&self) -> UnixMillis;

    /// Takes in the `Date` of a store's answer to a request sent at `sent`, to find pauses that this
    /// machine's own clocks did not count (S3). `date` has a resolution of one second.
    fn observe_store_date(&self, sent: Instant, date: UnixMillis);

    /// `at` as clients on this kernel read it (S21).
    fn boot_reading(&self, at: Instant) -> BootReading;
}

/// The machine's clock: CLOCK_BOOTTIME, advanced past pauses that only other clocks noticed (S3).
#[derive(Debug)]
pub struct BootClock {
    boot_id: String,
    correction: Mutex<Correction>,
}

impl BootClock {
    /// Reads the kernel's boot id; an empty one if the kernel does not tell (clients then count spans).
    #[must_use]
    pub fn new() -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|text| text.trim().to_owned())
            .unwrap_or_default();
        Self { boot_id, correction: Mutex::new(Correction::default()) }
    }

    /// The kernel's boot id, which says whose readings may be compared.
    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    fn correction(&self) -> MutexGuard<'_, Correction> {
        self.correction.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for BootClock {
    fn now(&self) -> Instant {
        // Read under the lock: readings taken out of order would look like steps.
        let mut correction = self.correction();
        correction.now(read(rustix::time::ClockId::Boottime), self.wall())
    }

    fn wall(&self) -> UnixMillis {
        let wall = read(rustix::time::ClockId::Realtime);
        UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
    }

    fn observe_store_date(&self, sent: Instant, date: UnixMillis) {
        let answered = self.now();
        self.correction().observe_store_date(sent, answered, date);
    }

    fn boot_reading(&self, at: Instant) -> BootReading {
        BootReading {
            boot_id: self.boot_id.clone(),
            since_boot: at.since_boot().saturating_sub(self.correction().missed),
        }
    }
}

fn read(clock: rustix::time::ClockId) -> Duration {
    let reading = rustix::time::clock_gettime(clock);
    // Both fields are non-negative for these clocks; a negative one would read as zero, which only ends holds.
    let seconds = u64::try_from(reading.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(reading.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

/// How far the boot clock is behind, by what the other clocks have shown (S3). Pure, so that it can be simulated.
#[derive(Clone, Debug, Default)]
pub struct Correction {
    /// Time that passed and that the boot clock did not count. Only grows.
    missed: Duration,
    /// Wall clock less corrected clock, as last agreed on.
    wall_offset: Option<i128>,
    /// The largest that store clock less corrected clock can be, in milliseconds.
    store_offset: Option<i128>,
    latest: Instant,
}

/// A forward step of the wall clock counts from here: smaller ones are slewing and reading jitter, and the fixed
/// part of the validity margin (S2, 500 ms) covers them.
const STEP: Duration = Duration::from_millis(250);

impl Correction {
    /// The corrected time for a reading of the boot clock and the wall clock.
    pub fn now(&mut self, boot: Duration, wall: UnixMillis) -> Instant {
        let offset = i128::from(wall.0) - millis(boot + self.missed);
        let agreed = *self.wall_offset.get_or_insert(offset);
        if offset - agreed >= millis(STEP) {
            self.missed += from_millis(offset - agreed);
        } else if offset < agreed {
            self.wall_offset = Some(offset);
        }
        self.latest = self.latest.max(Instant(boot + self.missed));
        self.latest
    }

    /// Takes in the date of a store's answer that was sent for at `sent` and came at `answered`.
    pub fn observe_store_date(&mut self, sent: Instant, answered: Instant, date: UnixMillis) {
        let date = i128::from(date.seconds()) * 1_000;
        // The store read its clock between `sent` and `answered`, and cut up to a second off: its offset is at
        // least date − answered and less than date + 1 s − sent.
        let least = date - millis(answered.since_boot());
        let most = date + 1_000 - millis(sent.since_boot());
        let known = *self.store_offset.get_or_insert(most);
        if least > known {
            self.missed += from_millis(least - known);
        } else {
            self.store_offset = Some(known.min(most));
        }
    }

    /// Time that passed and that the boot clock did not count.
    #[must_use]
    pub const fn missed(&self) -> Duration {
        self.missed
    }
}

fn millis(span: Duration) -> i128 {
    i128::try_from(span.as_millis()).unwrap_or(i128::MAX)
}

fn from_millis(millis: i128) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn s3_wall_clock_step_forward_counts_as_time_passed() {
        let mut clock = Correction::default();
        let first = clock.now(seconds(100), UnixMillis(1_000_000));
        let after = clock.now(seconds(101), UnixMillis(1_031_000));
        assert_eq!(after - first, seconds(31));
        let later = clock.now(seconds(102), UnixMillis(1_032_000));
        assert_eq!(later - first, seconds(32), "a step counts once");
    }

    #[test]
    fn s3_wall_clock_step_back_lengthens_nothing() {
        let mut clock = Correction::default();
        let first = clock.now(seconds(100), UnixMillis(1_000_000));
        let after = clock.now(seconds(130), UnixMillis(400_000));
        assert_eq!(after - first, seconds(30));
    }

    #[test]
    fn s3_small_differences_between_the_clocks_are_not_steps() {
        let mut clock = Correction::default();
        let first = clock.now(seconds(100), UnixMillis(1_000_000));
        let after = clock.now(seconds(110), UnixMillis(1_010_200));
        assert_eq!(after - first, seconds(10));
    }

    #[test]
    fn s3_store_date_reveals_a_pause_that_no_clock_here_counted() {
        let mut clock = Correction::default();
        let sent = clock.now(seconds(100), UnixMillis(1_000_000));
        clock.observe_store_date(sent, sent + seconds(1), UnixMillis(5_000_000));
        let next = clock.now(seconds(102), UnixMillis(1_002_000));
        clock.observe_store_date(next, next, UnixMillis(5_032_000));
        // 30 s were missed; the date's resolution of a second and the first round trip leave at least 29 s proven.
        assert_eq!(clock.missed(), seconds(29));
        let after = clock.now(seconds(102), UnixMillis(1_002_000));
        assert_eq!(after - next, seconds(29));
    }

    #[test]
    fn s3_store_dates_without_a_pause_change_nothing() {
        let mut clock = Correction::default();
        for step in 0..100_u64 {
            let sent = clock.now(seconds(100 + step), UnixMillis(1_000_000 + step * 1_000));
            let date = UnixMillis(5_000_000 + step * 1_000 + 999);
            clock.observe_store_date(sent, sent + Duration::from_millis(900), date);
        }
        assert_eq!(clock.missed(), Duration::ZERO);
    }

    #[test]
    fn s3_boot_clock_never_goes_back() {
        let clock = BootClock::new();
        let first = clock.now();
        assert!(clock.now() >= first);
    }

    #[test]
    fn s21_boot_reading_is_on_the_kernels_own_clock() {
        let clock = BootClock::new();
        let told = clock.boot_reading(clock.now());
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        assert!((told.since_boot.as_secs_f64() - uptime).abs() < 60.0);
        assert_eq!(told.boot_id.len(), 36);
    }
}
