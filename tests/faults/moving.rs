//! The clocks of a sidecar, moved by a test, and what they show, read back through the sidecar.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::testing::MovedClock;
use leasehold::time::{BootClock, Clock as _};
use leasehold_client::Grant;

use crate::faults::process::{Sidecar, spec};

/// How far a sidecar's clocks are moved from the kernel's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shift {
    pub(crate) wall: i64,
    pub(crate) boot: i64,
    pub(crate) boot_id: Option<String>,
}

/// Milliseconds that the reading of a clock through a sidecar may take.
const READING: i64 = 5_000;

/// The file that a sidecar's clocks follow.
#[derive(Debug)]
pub(crate) struct Clocks {
    folder: tempfile::TempDir,
}

impl Clocks {
    /// Not moved yet.
    pub(crate) fn new() -> Self {
        let clocks = Self { folder: tempfile::tempdir().unwrap() };
        clocks.set(&Shift::default());
        clocks
    }

    /// For the environment of the sidecar.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        (MovedClock::VARIABLE, self.folder.path().join("clock").display().to_string())
    }

    pub(crate) fn set(&self, shift: &Shift) {
        let id = shift.boot_id.iter().map(|id| format!("boot_id={id}\n")).collect::<String>();
        let text = format!("wall_ms={}\nboot_ms={}\n{id}", shift.wall, shift.boot);
        // Replaced in one step: the sidecar reads it at any time.
        let new = self.folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.folder.path().join("clock")).unwrap();
    }

    /// Moves the wall clock alone, and proves through the sidecar that it did.
    pub(crate) async fn step_wall(&self, sidecar: &Sidecar, millis: i64) {
        self.set(&Shift { wall: millis, ..Shift::default() });
        let seen = wall_through(sidecar).await;
        assert!((seen - millis).abs() < READING, "moved by {millis} ms, and {seen} ms are seen");
    }
}

/// The kernel's wall clock, in milliseconds.
pub(crate) fn wall() -> i64 {
    i64::try_from(BootClock::new().wall().0).unwrap()
}

/// A new lock's grant.
async fn probe(sidecar: &Sidecar) -> Grant {
    static PROBES: AtomicU64 = AtomicU64::new(0);
    let lock = format!("clock-{}", PROBES.fetch_add(1, Ordering::Relaxed));
    let grant = sidecar.granted(spec(&lock)).await;
    sidecar.client().await.release(grant.lease_id.clone()).await.unwrap();
    grant
}

/// By how many milliseconds a sidecar's wall clock is ahead of the kernel's, as its grants show.
pub(crate) async fn wall_through(sidecar: &Sidecar) -> i64 {
    let before = wall();
    let grant = probe(sidecar).await;
    // The one moment of a grant that is the sidecar's, and not the store's.
    let made = grant.expires_at.unwrap() - grant.validity.valid_for;
    let made = made.duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(made.as_millis()).unwrap() - before
}

/// The boot clock of a sidecar at the end of a new grant's validity, and the boot id that it tells.
pub(crate) async fn boot_through(sidecar: &Sidecar) -> (Duration, String) {
    let told = probe(sidecar).await.validity;
    (told.valid_until.since_boot(), told.boot_id)
}
