//! The clock that counts from boot and goes on counting while the machine sleeps (S3); the only file here
//! that reads one.

use std::fmt;
use std::ops::Add;
use std::path::Path;
use std::time::Duration;

/// A moment on this machine's boot clock (CLOCK_BOOTTIME, on macOS CLOCK_MONOTONIC, which counts sleep
/// there): readings of it compare, whatever the wall clock does.
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

    /// Whose boot it counts from; empty where that is not known, as on macOS, or not all, as in a time
    /// namespace that shifts the clock. No sidecar's clock is this one then.
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
        let is_shifted = is_shifted(Path::new("/proc/self"));
        Self { boot_id: if is_shifted { String::new() } else { boot_id } }
    }
}

/// Whether a time namespace shifts the clock of this process, or may: processes of other namespaces then read
/// another clock under the same boot id (S21).
fn is_shifted(process: &Path) -> bool {
    let offsets = std::fs::read_to_string(process.join("timens_offsets"));
    let [ours, of_children] =
        ["ns/time", "ns/time_for_children"].map(|name| std::fs::read_link(process.join(name)));
    let is_zero = |line: &str| line.split_whitespace().eq(["boottime", "0", "0"]);
    match (offsets, ours, of_children) {
        // The kernel tells the shift of the namespace that children get.
        (Ok(text), Ok(ours), Ok(of_children)) if ours == of_children => !text.lines().any(is_zero),
        // A kernel without time namespaces.
        (Err(_), Err(_), _) => false,
        _ => true,
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

    #[cfg(unix)]
    #[test]
    fn s21_a_clock_that_a_time_namespace_shifts_is_not_the_kernels() {
        let zero = "monotonic           7         0\nboottime            0         0\n";
        let (one, other) = (Some("time:[1]"), Some("time:[2]"));
        for (offsets, ours, of_children, shifted) in [
            (Some(zero), one, one, false),
            (None, None, None, false),
            (Some("monotonic 0 0\nboottime 9 0\n"), one, one, true),
            (Some("boottime -1 500000000\n"), one, one, true),
            (Some(zero), one, other, true),
            (Some(zero), None, None, true),
            (None, one, one, true),
            (Some("nonsense"), one, one, true),
        ] {
            let process = process(offsets, [ours, of_children]);
            assert_eq!(is_shifted(process.path()), shifted, "{offsets:?} {ours:?} {of_children:?}");
        }
    }

    /// What the kernel tells a process of itself.
    #[cfg(unix)]
    fn process(offsets: Option<&str>, namespaces: [Option<&str>; 2]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("ns")).unwrap();
        if let Some(offsets) = offsets {
            std::fs::write(folder.path().join("timens_offsets"), offsets).unwrap();
        }
        for (name, namespace) in ["ns/time", "ns/time_for_children"].iter().zip(namespaces) {
            if let Some(namespace) = namespace {
                std::os::unix::fs::symlink(namespace, folder.path().join(name)).unwrap();
            }
        }
        folder
    }
}
