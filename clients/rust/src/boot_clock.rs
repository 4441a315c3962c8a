//! The clock that counts from boot and goes on counting while the machine sleeps (S3); the only file here that reads one.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment on this machine's boot clock (CLOCK_BOOTTIME, on macOS CLOCK_MONOTONIC, which counts sleep there): readings
/// of it compare, whatever the wall clock does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// The present moment.
    #[must_use]
    pub fn now() -> Self {
        Self(since_boot())
    }

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
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// The clock that counts sleep: on macOS CLOCK_MONOTONIC does.
#[cfg(unix)]
fn since_boot() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let reading = rustix::time::clock_gettime(CLOCK);
    // A boot clock is never negative. Were it, the latest of all moments would only end holds.
    let seconds = u64::try_from(reading.tv_sec).unwrap_or(u64::MAX);
    let nanos = u64::try_from(reading.tv_nsec).unwrap_or_default();
    Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos))
}

/// No such clock here: every hold is past its validity, and no client connects (`platform.rs`).
#[cfg(not(unix))]
const fn since_boot() -> Duration {
    Duration::MAX
}

/// Where the time comes from: the machine, or a test.
pub(crate) trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> BootInstant;

    /// Whose boot it counts from; empty where that is not known, as on macOS. No sidecar runs there, so its clock is
    /// never this one.
    fn boot_id(&self) -> &str;
}

/// The machine's boot clock.
#[derive(Debug)]
pub(crate) struct BootClock {
    boot_id: String,
}

impl BootClock {
    pub(crate) fn new() -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|text| text.trim().to_owned())
            .unwrap_or_default();
        Self { boot_id }
    }
}

impl Clock for BootClock {
    fn now(&self) -> BootInstant {
        BootInstant::now()
    }

    fn boot_id(&self) -> &str {
        &self.boot_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_the_boot_clock_never_goes_back() {
        let clock = BootClock::new();
        let first = clock.now();
        assert!(first.since_boot() > Duration::ZERO);
        assert!(clock.now() >= first);
    }
}
