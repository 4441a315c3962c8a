//! The SQLite store, with a clock that tests move.

use std::sync::Arc;
use std::time::Duration;

use leasehold::lock::Container;
use leasehold::store::{LeaseStore, SqliteStore};
use leasehold::testing::SimClock;
use leasehold::testing::conformance::{Bench, Deviations};
use tempfile::TempDir;

struct SqliteBench {
    store: Arc<SqliteStore>,
    clock: Arc<SimClock>,
    _folder: TempDir,
}

impl Bench for SqliteBench {
    async fn open(_case: &'static str) -> Self {
        let folder = TempDir::new().unwrap();
        let clock = Arc::new(SimClock::new());
        let store = SqliteStore::open(&folder.path().join("locks.db"), Arc::clone(&clock) as _);
        Self { store: Arc::new(store.unwrap()), clock, _folder: folder }
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

    fn deviations(&self) -> Deviations {
        Deviations {
            no_writes_from_outside: Some("nothing but the store knows the file's tables"),
            ..Deviations::default()
        }
    }
}

leasehold::store_conformance!(SqliteBench);
