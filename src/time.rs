//! The clock: time since boot, read in this file and nowhere else (S3).
//!
//! Every module takes an [`Instant`] as an argument or asks an injected [`Clock`]. May import: rustix, uuid.

mod namespace;
mod suspicion;

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, Sub};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namespace::Shift;
pub use suspicion::{SignSource, Suspicions};

/// A moment on the clock that counts from boot and goes on counting while the machine sleeps (S3).
///
/// Not `std::time::Instant`: that one stops during suspend and cannot be made by a simulator.
/// Moments more than 584 years after boot are one: the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(
    /// Nanoseconds since boot, plus one: a hold has a dozen of these, so they are small, and optional ones as
    /// well.
    NonZeroU64,
);

impl Instant {
    /// The moment `since_boot` after boot.
    #[must_use]
    pub const fn from_boot(since_boot: Duration) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanoseconds(since_boot)))
    }

    /// The time from boot to this moment.
    #[must_use]
    pub const fn since_boot(self) -> Duration {
        Duration::from_nanos(self.0.get() - 1)
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// This moment less `duration`; boot itself if that would be before boot.
    #[must_use]
    pub const fn saturating_sub(self, duration: Duration) -> Self {
        Self::from_boot(self.since_boot().saturating_sub(duration))
    }
}

/// All of `duration`, or the most that fits.
const fn nanoseconds(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(duration.subsec_nanos() as u64)
}

impl Default for Instant {
    fn default() -> Self {
        Self::from_boot(Duration::ZERO)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Instant").field(&self.since_boot()).finish()
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(duration)))
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

    /// This moment less `duration`; the epoch itself if that would be before it.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for UnixMillis {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
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
/// `now` is raw: the very clock that clients on the same kernel compare with, and nothing is ever added to it
/// (S3). Pauses that it did not count show as suspicions, which are no time: the store decides about each
/// hold.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment. Never goes back.
    fn now(&self) -> Instant;

    /// The wall clock, for people. Nothing that a hold depends on is counted on it (S3).
    fn wall(&self) -> UnixMillis;

    /// `at` as clients on this kernel read it (S21).
    fn boot_reading(&self, at: Instant) -> BootReading;

    /// What the clocks beside this one have shown (S3).
    fn suspicions(&self) -> MutexGuard<'_, Suspicions>;

    /// Takes in the `Date` of a store's answer that came just now (S3).
    fn observe_store_date(&self, date: UnixMillis) {
        let now = self.now();
        self.suspicions().observe_store_date(now, date);
    }

    /// Looks at the wall clock too, and says how many pauses have come under suspicion so far. A driver of
    /// machines asks before each event, and hands over a suspicion that is new to it before the event: the
    /// first event after a pause may be the very one that would hand a lock on (S3).
    fn suspected_pauses(&self) -> u64 {
        let mut suspicions = self.suspicions();
        // Read under the lock: readings taken out of order would look like steps.
        suspicions.observe_wall(self.now(), self.wall());
        suspicions.raised()
    }
}

/// The machine's clock: CLOCK_BOOTTIME as the kernel's first processes read it, raw (S3).
#[derive(Debug)]
pub struct BootClock {
    boot_id: String,
    shift: Option<Shift>,
    suspicions: Mutex<Suspicions>,
}

impl BootClock {
    /// Reads the kernel's boot id; an empty one if the kernel does not tell (clients then count durations).
    #[must_use]
    pub fn new() -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|text| text.trim().to_owned())
            .unwrap_or_default();
        Self::of(boot_id, Shift::of_process())
    }

    fn of(boot_id: String, shift: Option<Shift>) -> Self {
        let boot_id = match shift {
            Some(_) => boot_id,
            // Nobody else's readings may be compared with these. A namespace's number would not do: the
            // kernel gives it to the next one as soon as this one is gone.
            None => uuid::Uuid::new_v4().to_string(),
        };
        Self { boot_id, shift, suspicions: Mutex::default() }
    }

    /// Whether the kernel tells how far this process's time namespace shifts the clock. Where it does not, no
    /// other process reads it under the same boot id.
    #[must_use]
    pub const fn is_the_kernels(&self) -> bool {
        self.shift.is_some()
    }

    /// The kernel's boot id, which says whose readings may be compared.
    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for BootClock {
    fn now(&self) -> Instant {
        let reading = read(rustix::time::ClockId::Boottime);
        Instant::from_boot(self.shift.map_or(reading, |shift| shift.taken_off(reading)))
    }

    fn wall(&self) -> UnixMillis {
        let wall = read(rustix::time::ClockId::Realtime);
        UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
    }

    fn boot_reading(&self, at: Instant) -> BootReading {
        BootReading { boot_id: self.boot_id.clone(), since_boot: at.since_boot() }
    }

    fn suspicions(&self) -> MutexGuard<'_, Suspicions> {
        self.suspicions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(clock: rustix::time::ClockId) -> Duration {
    let reading = rustix::time::clock_gettime(clock);
    // Both fields are non-negative for these clocks; a negative one would read as zero, which only ends
    // holds.
    let seconds = u64::try_from(reading.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(reading.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_the_boot_clock_is_the_kernels_and_never_goes_back() {
        let clock = BootClock::new();
        let shift = clock.shift.unwrap();
        let kernel = || shift.taken_off(read(rustix::time::ClockId::Boottime));
        let before = kernel();
        let first = clock.now();
        assert!(first.since_boot() >= before, "nothing is taken off");
        let second = clock.now();
        assert!(second >= first);
        assert!(kernel() >= second.since_boot(), "nothing is added");
    }

    #[test]
    fn s21_a_clock_that_may_be_shifted_is_nobody_elses() {
        let [one, other] = [(); 2].map(|()| BootClock::of("kernel".to_owned(), None));
        assert!(!one.is_the_kernels());
        assert!(one.boot_id() != other.boot_id() && one.boot_id() != "kernel");
    }

    #[test]
    fn instants_keep_nanoseconds_and_end_at_their_bounds() {
        let at = Instant::from_boot(Duration::new(3, 7));
        assert_eq!(at.since_boot(), Duration::new(3, 7));
        assert_eq!((at + Duration::from_secs(2)) - at, Duration::from_secs(2));
        assert_eq!(at.saturating_sub(Duration::from_secs(4)), Instant::default());
        assert_eq!(Instant::default().since_boot(), Duration::ZERO);
        assert_eq!(at - (at + Duration::from_secs(2)), Duration::ZERO);
        let last = at + Duration::MAX;
        assert_eq!(
            (last + Duration::from_secs(1), Instant::from_boot(Duration::MAX)),
            (last, last)
        );
        assert!(last.since_boot() > Duration::from_secs(500 * 365 * 86_400));
        assert_eq!(format!("{at:?}"), "Instant(3.000000007s)");
    }

    #[test]
    fn s21_boot_reading_is_on_the_kernels_own_clock() {
        let clock = BootClock::new();
        let at = clock.now();
        let told = clock.boot_reading(at);
        assert_eq!(told.since_boot, at.since_boot());
        assert_eq!(told.boot_id.len(), 36);
    }
}
