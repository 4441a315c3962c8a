//! The embedded store tells the record with the lease: nothing is read beside an acquire.

use std::sync::Arc;

use super::rig::{counts, request, settings};
use crate::coordinator::{Coordinator, Grant, NoObserver, Outcome};
use crate::record::{Fields, Record};
use crate::store::{LeaseStoreExt as _, Operation, SqliteStore};
use crate::testing::CountingStore;
use crate::time::BootClock;

struct Rig {
    coordinator: Coordinator,
    store: Arc<CountingStore<SqliteStore>>,
}

/// A sidecar on the file, which others may use too.
fn sidecar(folder: &tempfile::TempDir) -> Rig {
    let clock = Arc::new(BootClock::new());
    let file = folder.path().join("locks.db");
    let store = SqliteStore::open(&file, Arc::clone(&clock) as _).unwrap();
    let store = Arc::new(CountingStore::new(store));
    let coordinator =
        Coordinator::new(Arc::clone(&store) as _, clock, Arc::new(NoObserver), settings());
    Rig { coordinator, store }
}

impl Rig {
    async fn ask(&self) -> Outcome {
        self.coordinator.acquire(request("nightly")).await.unwrap()
    }

    async fn acquire(&self) -> Grant {
        match self.ask().await {
            Outcome::Granted(grant) => *grant,
            other @ (Outcome::Busy(_)
            | Outcome::Settled { .. }
            | Outcome::AlreadyDone(_)
            | Outcome::Skipped { .. }) => panic!("{other:?}"),
        }
    }

    async fn release(&self, grant: &Grant) {
        self.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    }
}

#[tokio::test]
async fn an_acquire_takes_two_requests_whether_or_not_the_lock_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (sidecar(&folder), sidecar(&folder));
    let expected = || counts([(Operation::Acquire, 1), (Operation::WriteRecord, 1)]);
    let made = first.acquire().await;
    assert_eq!(first.store.take_counts(), expected(), "the first acquire ever");
    first.release(&made).await;
    let found = second.acquire().await;
    assert_eq!(second.store.take_counts(), expected(), "a lock that another sidecar used");
    assert!(found.token > made.token, "S5: the token that was found is the one before");
}

#[tokio::test]
async fn who_has_the_lock_is_read_when_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (sidecar(&folder), sidecar(&folder));
    let _grant = first.acquire().await;
    let Outcome::Busy(busy) = second.ask().await else { panic!("granted twice") };
    assert_eq!(busy.record.record.holder, "the-pod");
    let asked = second.store.take_counts();
    assert_eq!(asked, counts([(Operation::Acquire, 1), (Operation::ReadRecord, 1)]));
}

#[tokio::test]
async fn what_an_acquire_tells_is_what_a_read_would() {
    let folder = tempfile::tempdir().unwrap();
    let rig = sidecar(&folder);
    let grant = rig.acquire().await;
    rig.release(&grant).await;
    let path = &grant.path;
    let read = rig.store.read_record(path).await.unwrap();
    let lease_id = crate::lock::LeaseId::from_uuid(uuid::Uuid::from_u128(7));
    let acquire = crate::store::Acquire {
        lease_id,
        duration: crate::store::MIN_LEASE_DURATION,
        if_match: None,
    };
    let found = rig.store.acquire(path, acquire.clone()).await.unwrap().found.unwrap();
    assert_eq!((&found.etag, &found.fields), (&read.etag, &read.fields));
    assert_eq!(found.lease, read.lease);
    assert_eq!(Record::from_fields(&found.fields).token, Some(grant.token));
    let new = crate::lock::LockPath::from_parts(&settings().host.namespace.container, "new");
    let made = rig.store.acquire(&new, acquire).await.unwrap();
    assert!(made.created && made.found.unwrap().fields == Fields::new());
}
