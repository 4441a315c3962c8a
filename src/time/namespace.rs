//! The time namespace of this process: how far it shifts the boot clock (S3, S21).
//!
//! Processes in different time namespaces of one kernel read different boot clocks under the same boot id. So
//! what a namespace adds is taken off every reading.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// What the namespace adds to the kernel's boot clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift(i128);

impl Shift {
    /// That of this process; `None` if the kernel does not tell.
    pub(super) fn of_process() -> Option<Self> {
        Self::told_in(Path::new("/proc/self"))
    }

    fn told_in(process: &Path) -> Option<Self> {
        let told = fs::read_to_string(process.join("timens_offsets"));
        let [ours, of_children] = ["ns/time", "ns/time_for_children"]
            .map(|namespace| fs::read_link(process.join(namespace)));
        match (told, ours, of_children) {
            // The kernel tells the shift of the namespace that children get.
            (Ok(told), Ok(ours), Ok(of_children)) if ours == of_children => Self::parse(&told),
            // A kernel without time namespaces.
            (Err(told), Err(ours), _) if is_missing(&told) && is_missing(&ours) => Some(Self(0)),
            _ => None,
        }
    }

    /// Reads the line `boottime <seconds> <nanoseconds>`, of which the seconds may be negative.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text
            .lines()
            .map(str::split_whitespace)
            .find_map(|mut words| (words.next() == Some("boottime")).then_some(words))?;
        let seconds: i64 = words.next()?.parse().ok()?;
        let nanoseconds: u32 = words.next()?.parse().ok()?;
        let is_whole = words.next().is_none() && nanoseconds < 1_000_000_000;
        is_whole.then(|| Self(i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)))
    }

    /// A reading of the namespace's clock as the kernel's own shows it.
    pub(super) fn taken_off(self, reading: Duration) -> Duration {
        let by = u64::try_from(self.0.unsigned_abs()).map_or(Duration::MAX, Duration::from_nanos);
        if self.0 < 0 { reading.saturating_add(by) } else { reading.saturating_sub(by) }
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own words (Linux 6.18).
    const INITIAL: &str = "monotonic           0         0\nboottime            0         0\n";
    const AHEAD: &str = "monotonic           7         0\nboottime         1000         5\n";
    const BEHIND: &str = "monotonic           0         0\nboottime           -2 500000000\n";

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn s3_what_the_namespace_adds_is_taken_off() {
        let read = |text| Shift::parse(text).unwrap().taken_off(seconds(5_000));
        assert_eq!(read(INITIAL), seconds(5_000));
        assert_eq!(read(AHEAD), seconds(4_000) - Duration::from_nanos(5));
        assert_eq!(read(BEHIND), seconds(5_001) + Duration::from_millis(500));
        assert_eq!(Shift::parse(AHEAD).unwrap().taken_off(seconds(1)), Duration::ZERO);
        let least = Shift::parse("boottime -9223372036854775808 0").unwrap();
        assert_eq!(least.taken_off(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn nonsense_is_no_shift() {
        for text in
            ["", "monotonic 0 0", "boottime", "boottime 0", "boottime 0 0 0", "boottime x 0"]
        {
            assert_eq!(Shift::parse(text), None, "{text}");
        }
        for text in ["boottime 0 -1", "boottime 0 1000000000", "boottime 1.5 0"] {
            assert_eq!(Shift::parse(text), None, "{text}");
        }
    }

    /// What a process sees of itself: the shift, its namespace, and that of its children.
    fn told(offsets: Option<&str>, namespaces: [Option<&str>; 2]) -> Option<Shift> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("ns")).unwrap();
        if let Some(offsets) = offsets {
            fs::write(folder.path().join("timens_offsets"), offsets).unwrap();
        }
        for (name, namespace) in ["ns/time", "ns/time_for_children"].iter().zip(namespaces) {
            if let Some(namespace) = namespace {
                std::os::unix::fs::symlink(namespace, folder.path().join(name)).unwrap();
            }
        }
        Shift::told_in(folder.path())
    }

    #[test]
    fn s3_a_shift_that_may_be_another_is_not_known() {
        let (one, other) = (Some("time:[4026531834]"), Some("time:[4026532177]"));
        assert_eq!(told(Some(AHEAD), [one, one]), Some(Shift(1_000_000_000_005)));
        assert_eq!(told(None, [None, None]), Some(Shift(0)), "a kernel without time namespaces");
        assert_eq!(told(Some(INITIAL), [one, other]), None, "what was told is of the children");
        assert_eq!(told(None, [one, one]), None);
        assert_eq!(told(Some(INITIAL), [None, None]), None);
        assert_eq!(told(Some("boottime"), [one, one]), None);
    }

    #[test]
    fn the_kernel_tells_this_process() {
        let shift = Shift::of_process();
        assert!(shift.is_some(), "{:?}", fs::read_to_string("/proc/self/timens_offsets"));
    }
}
