//! The store: the contract in memory, asked as the coordinator asks a store, with every request counted.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::hold::{Action, Event};
use leasehold::lock::{Container, LockPath};
use leasehold::record::{Fields, Record};
use leasehold::store::{List, MemoryLocks};
use leasehold::time::{Instant, UnixMillis};

use crate::kit::store::{self, Times};

/// The store's clock begins here.
const EPOCH: u64 = 1_800_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Store {
    locks: MemoryLocks,
    container: Container,
    /// Requests that were made, by what they asked; a read beside an acquire is one more.
    requests: BTreeMap<&'static str, u64>,
}

impl Store {
    pub(crate) fn new() -> Self {
        let container = Container::parse("leasehold").unwrap();
        Self { locks: MemoryLocks::default(), container, requests: BTreeMap::new() }
    }

    fn path(&self, lock: usize) -> LockPath {
        LockPath::from_parts(&self.container, &format!("locks/{lock:03}"))
    }

    fn count(&mut self, what: &'static str) {
        *self.requests.entry(what).or_default() += 1;
    }

    pub(crate) const fn requests(&self) -> &BTreeMap<&'static str, u64> {
        &self.requests
    }

    /// The clock by which leases run, and the date of an answer, cut to the second.
    fn times(now: Duration) -> Times {
        let millis = u64::try_from(now.as_millis()).unwrap();
        (Instant::from_boot(now), UnixMillis((EPOCH + millis) / 1_000 * 1_000))
    }

    /// Does what `action` asks of `lock`, and answers as the coordinator would.
    pub(crate) fn apply(&mut self, lock: usize, action: &Action, now: Duration) -> Event {
        for what in store::requests(action) {
            self.count(what);
        }
        let path = self.path(lock);
        store::apply(&mut self.locks, &path, action, Self::times(now))
    }

    /// What is stored with a lock, without a request.
    pub(crate) fn fields(&self, lock: usize, now: Duration) -> Fields {
        let (at, time) = Self::times(now);
        let stored = self.locks.read_record(&self.path(lock), at, time);
        stored.map(|stored| stored.fields).unwrap_or_default()
    }

    /// The records of the locks that somebody has, as they are listed (S35).
    pub(crate) fn list(&mut self, now: Duration) -> BTreeMap<usize, Record> {
        self.count("listing");
        let (at, time) = Self::times(now);
        let list = List {
            container: self.container.clone(),
            prefix: "locks/".to_owned(),
            continuation: None,
            limit: 1_000,
        };
        let listing = self.locks.list(&list, at, time);
        let held = listing.locks.into_iter().filter(|(_, stored)| stored.lease.is_held());
        let numbered = held.map(|(path, stored)| {
            let number = path.name().rsplit('/').next().unwrap().parse().unwrap();
            (number, Record::from_fields(&stored.fields))
        });
        numbered.collect()
    }
}
