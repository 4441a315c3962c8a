//! The memory store: the strict oracle, without deviations.

use std::sync::Arc;
use std::time::Duration;

use leasehold::lock::{Container, LockPath};
use leasehold::record::Fields;
use leasehold::store::{LeaseStore, MemoryStore};
use leasehold::testing::SimClock;
use leasehold::testing::conformance::Bench;
use leasehold::time::Clock as _;

struct MemoryBench {
    store: Arc<MemoryStore>,
    clock: Arc<SimClock>,
}

impl Bench for MemoryBench {
    async fn open(_case: &'static str) -> Self {
        let clock = Arc::new(SimClock::new());
        Self { store: Arc::new(MemoryStore::new(Arc::clone(&clock) as _)), clock }
    }

    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store) as _
    }

    fn container(&self) -> Container {
        Container::parse("locks").unwrap()
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    async fn write_without_lease(&self, path: &LockPath, fields: Fields) {
        let (now, time) = (self.clock.now(), self.clock.wall());
        self.store.locks().write_without_lease(path, fields, now, time).unwrap();
    }
}

leasehold::store_conformance!(MemoryBench);
