//! The process's clocks, moved by what a file says: for tests of the real binary.
//!
//! A preloaded library moves nothing, because the program asks the kernel itself. So the binary that `cargo
//! test` makes has this clock; one that is built for use has it not.

use std::path::PathBuf;
use std::sync::MutexGuard;
use std::time::Duration;

use crate::time::{BootClock, BootReading, Clock, Instant, Suspicions, UnixMillis};

/// The machine's clocks, and how far a test has moved them.
///
/// The file of [`MovedClock::VARIABLE`] has lines `name=value`, and is read anew for each reading of the
/// clock, so that a test moves it under a process that runs:
///
/// - `wall_ms`: what the wall clock shows more (or less) than the kernel's;
/// - `boot_ms`: the same of the boot clock. A pause of 30 s that it did not count is a stopped process that
///   goes on with 30,000 less. It must not be made to run backwards while the process runs;
/// - `boot_id`: what is told instead of the kernel's boot id, as on another machine.
///
/// What is left out is as the kernel says. Replace the file by renaming another one to it: it is read at any
/// time.
#[derive(Debug)]
pub struct MovedClock {
    kernel: BootClock,
    file: PathBuf,
}

/// What the file says.
#[derive(Debug, Default)]
struct Shift {
    wall_ms: i64,
    boot_ms: i64,
    boot_id: Option<String>,
}

impl MovedClock {
    /// The variable of the environment that names the file.
    pub const VARIABLE: &str = "LEASEHOLD_TEST_CLOCK";

    /// The clock of the file that the environment names, if it names one.
    #[must_use]
    pub fn of_environment() -> Option<Self> {
        std::env::var_os(Self::VARIABLE).map(|file| Self::new(file.into()))
    }

    /// The clock that `file` moves.
    #[must_use]
    pub fn new(file: PathBuf) -> Self {
        Self { kernel: BootClock::new(), file }
    }

    /// # Panics
    /// When the file cannot be read: a clock that stays where it is would prove anything.
    fn shift(&self) -> Shift {
        let text = match std::fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) => panic!("{}: {}: {error}", Self::VARIABLE, self.file.display()),
        };
        Shift::parse(&text)
            .unwrap_or_else(|line| panic!("{}: no setting: {line:?}", self.file.display()))
    }
}

impl Shift {
    /// The line that makes no sense, if there is one.
    fn parse(text: &str) -> Result<Self, String> {
        let mut shift = Self::default();
        for line in text.lines() {
            let number = |text: &str| text.parse().map_err(|_| line.to_owned());
            match line.split_once('=') {
                Some(("wall_ms", value)) => shift.wall_ms = number(value)?,
                Some(("boot_ms", value)) => shift.boot_ms = number(value)?,
                Some(("boot_id", value)) => shift.boot_id = Some(value.to_owned()),
                Some(_) | None => return Err(line.to_owned()),
            }
        }
        Ok(shift)
    }
}

/// `span` and so many milliseconds; nothing, if that is less.
fn moved(span: Duration, millis: i64) -> Duration {
    let by = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 { span.saturating_sub(by) } else { span.saturating_add(by) }
}

impl Clock for MovedClock {
    fn now(&self) -> Instant {
        Instant::from_boot(moved(self.kernel.now().since_boot(), self.shift().boot_ms))
    }

    fn wall(&self) -> UnixMillis {
        UnixMillis(self.kernel.wall().0.saturating_add_signed(self.shift().wall_ms))
    }

    fn boot_reading(&self, at: Instant) -> BootReading {
        let mut reading = self.kernel.boot_reading(at);
        reading.boot_id = self.shift().boot_id.unwrap_or(reading.boot_id);
        reading
    }

    fn suspicions(&self) -> MutexGuard<'_, Suspicions> {
        self.kernel.suspicions()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(text: &str) -> (tempfile::TempDir, MovedClock) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clock");
        std::fs::write(&file, text).unwrap();
        (folder, MovedClock::new(file))
    }

    #[test]
    fn an_empty_file_moves_nothing() {
        let (_folder, clock) = clock("");
        let kernel = BootClock::new();
        let before = (kernel.now(), kernel.wall());
        let seen = (clock.now(), clock.wall());
        let after = (kernel.now(), kernel.wall());
        assert!(before.0 <= seen.0 && seen.0 <= after.0);
        assert!(before.1 <= seen.1 && seen.1 <= after.1);
        assert_eq!(clock.boot_reading(seen.0).boot_id, kernel.boot_id());
    }

    #[test]
    fn each_clock_is_moved_alone_and_again_while_it_runs() {
        let (_folder, clock) = clock("wall_ms=-3600000\n");
        let kernel = BootClock::new();
        assert!(clock.wall() < kernel.wall());
        let now = clock.now();
        assert!(now <= kernel.now());
        std::fs::write(&clock.file, "wall_ms=-3600000\nboot_ms=500000\nboot_id=other\n").unwrap();
        assert!(clock.now().saturating_since(now) >= Duration::from_secs(500));
        assert_eq!(clock.boot_reading(clock.now()).boot_id, "other");
    }

    #[test]
    #[should_panic(expected = "no setting: \"wall=5\"")]
    fn a_file_that_makes_no_sense_is_told() {
        clock("wall=5\n").1.now();
    }
}
