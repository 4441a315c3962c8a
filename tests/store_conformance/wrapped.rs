//! The wrappers, without faults: they change nothing of what the store behind them promises.

use std::sync::Arc;
use std::time::Duration;

use leasehold::lock::{Container, LockPath};
use leasehold::record::Fields;
use leasehold::store::{LeaseStore, MemoryStore};
use leasehold::testing::conformance::Bench;
use leasehold::testing::{CountingStore, FaultPlan, FaultyStore, SimClock};
use leasehold::time::Clock as _;

struct WrappedBench {
    store: Arc<FaultyStore<CountingStore<MemoryStore>>>,
    clock: Arc<SimClock>,
}

impl Bench for WrappedBench {
    async fn open(_case: &'static str) -> Self {
        let clock = Arc::new(SimClock::new());
        let store = CountingStore::new(MemoryStore::new(Arc::clone(&clock) as _));
        let store =
            FaultyStore::new(Arc::new(store), Arc::clone(&clock) as _, 1, FaultPlan::default());
        Self { store: Arc::new(store), clock }
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
        let memory = self.store.store().store();
        memory.locks().write_without_lease(path, fields, now, time).unwrap();
    }
}

leasehold::store_conformance!(WrappedBench);
