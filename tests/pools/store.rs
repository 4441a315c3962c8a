//! The store: the contract in memory, with a path for each permit.

use std::time::Duration;

use leasehold::hold::{Action, Event};
use leasehold::lock::{Container, LockPath, Permit};
use leasehold::store::MemoryLocks;
use leasehold::time::{Instant, UnixMillis};

use crate::kit::store::{self, Times};

/// The store's clock begins here.
const EPOCH: u64 = 1_800_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Store {
    locks: MemoryLocks,
    lock: LockPath,
    /// Requests that were made.
    pub(crate) requests: usize,
}

impl Store {
    pub(crate) fn new() -> Self {
        let container = Container::parse("leasehold").unwrap();
        let lock = LockPath::from_parts(&container, "locks/simulated");
        Self { locks: MemoryLocks::default(), lock, requests: 0 }
    }

    pub(crate) fn path(&self, permit: Permit) -> LockPath {
        self.lock.permit(permit)
    }

    fn times(now: Duration) -> Times {
        (Instant::from_boot(now), UnixMillis(EPOCH + u64::try_from(now.as_millis()).unwrap()))
    }

    /// Does what `action` asks of `path`, and answers as the coordinator would.
    pub(crate) fn apply(&mut self, path: &LockPath, action: &Action, now: Duration) -> Event {
        self.requests += store::requests(action).len();
        store::apply(&mut self.locks, path, action, Self::times(now))
    }

    pub(crate) fn is_leased(&self, permit: Permit, now: Duration) -> bool {
        store::is_leased(&self.locks, &self.path(permit), Self::times(now))
    }
}
