//! A sidecar: its machines, its clock, and what it knows of its share, driven as the coordinator drives them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{Memory, Settings};
use leasehold::queue::PlainLock;
use leasehold::record::ShareName;
use leasehold::sharing::Share;
use leasehold::time::Instant;

/// The poll cap, as it is by default.
pub(crate) const CAP: Duration = Duration::from_secs(5);

/// What becomes of a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It has not started.
    Later,
    Running,
    Draining,
    Gone,
}

/// Its clock: how much it is ahead, and by how many millionths it is fast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) ahead: Duration,
    pub(crate) fast: i32,
}

impl Clock {
    /// What it shows at `now`.
    pub(crate) fn at(&self, now: Duration) -> Instant {
        Instant::from_boot(self.ahead + scaled(now, 1_000_000 + i128::from(self.fast), 1_000_000))
    }

    /// When it shows `at`, or a little later.
    pub(crate) fn when(&self, at: Instant) -> Duration {
        let shown = at.since_boot().saturating_sub(self.ahead);
        scaled(shown, 1_000_000, 1_000_000 + i128::from(self.fast)) + Duration::from_micros(1)
    }
}

fn scaled(span: Duration, times: i128, of: i128) -> Duration {
    let nanos = i128::try_from(span.as_nanos()).unwrap() * times / of;
    Duration::from_nanos(u64::try_from(nanos).unwrap())
}

#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) name: Arc<str>,
    pub(crate) life: Life,
    pub(crate) clock: Clock,
    pub(crate) machines: BTreeMap<usize, PlainLock>,
    /// What it knows of the share; none before anybody has named it.
    pub(crate) share: Option<Share<usize>>,
    /// Whether it looks after the share's balance, and when it has listed its locks last.
    pub(crate) is_balanced: bool,
    pub(crate) listed_at: Option<Instant>,
    pub(crate) woken_at: BTreeMap<usize, Duration>,
    /// Locks that it is acquiring.
    pub(crate) acquiring: BTreeSet<usize>,
    pub(crate) lease_ids: u64,
    /// An older build: it writes nothing of priorities and shares, and keeps what it finds.
    pub(crate) is_old: bool,
}

impl Sidecar {
    pub(crate) fn new(number: usize, clock: Clock) -> Self {
        Self {
            name: format!("sidecar-{number}").into(),
            life: Life::Later,
            clock,
            machines: BTreeMap::new(),
            share: None,
            is_balanced: false,
            listed_at: None,
            woken_at: BTreeMap::new(),
            acquiring: BTreeSet::new(),
            lease_ids: 0,
            is_old: false,
        }
    }

    /// The machine of `lock`, made if need be.
    pub(crate) fn machine(&mut self, lock: usize, seed: u64, now: Instant) -> &mut PlainLock {
        let settings = Settings { poll_cap: CAP, hand_off: Duration::from_secs(5) };
        let new = || PlainLock::new(settings, Memory::default(), seed, now);
        self.machines.entry(lock).or_insert_with(new)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.machines.values().all(PlainLock::is_idle)
    }
}

/// The one share of a world.
pub(crate) fn share_name() -> ShareName {
    ShareName::new("listeners").unwrap()
}
