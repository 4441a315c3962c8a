use std::sync::Arc;

use super::*;
use crate::cli::gc::tests::ours;
use crate::lock::{Container, FencingToken, LeaseId, LockPath};
use crate::record::{Checkpoint, CheckpointValue, Record};
use crate::store::{Acquire, DocumentPath, LeaseStoreExt as _, List, Write};
use crate::testing::SimClock;
use crate::time::Clock as _;

const HOUR: Duration = Duration::from_secs(3_600);

struct Bench {
    _folder: tempfile::TempDir,
    clock: Arc<SimClock>,
    store: SqliteStore,
}

impl Bench {
    fn new(most: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(SimClock::new());
        let file = folder.path().join("locks.db");
        let store = SqliteStore::open_limited(&file, Arc::clone(&clock) as _, Some(most)).unwrap();
        Self { _folder: folder, clock, store }
    }

    fn list() -> List {
        let container = Container::parse("leasehold").unwrap();
        List { container, prefix: String::new(), continuation: None, limit: 3 }
    }

    async fn lease(&self, name: &str) -> Result<(LockPath, LeaseId), StoreError> {
        self.lease_at(LockPath::from_parts(&Self::list().container, name)).await
    }

    async fn lease_at(&self, path: LockPath) -> Result<(LockPath, LeaseId), StoreError> {
        let lease_id = LeaseId::from_uuid(uuid::Uuid::new_v4());
        let acquire = Acquire { lease_id, duration: Duration::from_secs(15), if_match: None };
        self.store.acquire(&path, acquire).await?;
        Ok((path, lease_id))
    }

    async fn take(&self, name: &str, record: Record) -> Result<(LockPath, LeaseId), StoreError> {
        self.write(LockPath::from_parts(&Self::list().container, name), record).await
    }

    async fn write(
        &self,
        path: LockPath,
        record: Record,
    ) -> Result<(LockPath, LeaseId), StoreError> {
        let (path, lease_id) = self.lease_at(path).await?;
        let fields = record.into_fields(Default::default());
        self.store.write_record(&path, Write { lease_id, if_match: None, fields }).await?;
        Ok((path, lease_id))
    }

    async fn make_room(&self) -> Vec<String> {
        try_to_make_room(&self.store).await.unwrap();
        let listing = self.store.list(List { limit: 100, ..Self::list() }).await.unwrap();
        listing.locks.iter().map(|(path, _)| path.name().to_owned()).collect()
    }
}

#[tokio::test]
async fn s18_idle_locks_make_room_when_the_limit_nears_those_that_were_idle_for_longest_first() {
    let bench = Bench::new(10);
    for number in 0..4 {
        bench.take(&format!("old-{number}"), ours()).await.unwrap();
    }
    bench.clock.advance(24 * HOUR);
    for number in 0..4 {
        bench.take(&format!("mid-{number}"), ours()).await.unwrap();
    }
    assert_eq!(bench.make_room().await.len(), 8, "the limit is not near");
    bench.clock.advance(2 * HOUR);
    bench.take("new", ours()).await.unwrap();
    assert_eq!(bench.make_room().await.len(), 5, "the old ones are enough");
    for number in 0..4 {
        bench.take(&format!("new-{number}"), ours()).await.unwrap();
    }
    assert_eq!(bench.make_room().await, ["new", "new-0", "new-1", "new-2", "new-3"]);
}

#[tokio::test]
async fn s18_what_is_in_use_or_remembered_stays_and_the_limit_is_named() {
    let bench = Bench::new(4);
    let (path, lease_id) = bench.take("checkpoint", ours()).await.unwrap();
    let checkpoint = Checkpoint {
        value: CheckpointValue::new(b"here").unwrap(),
        version: 1,
        token: FencingToken::from_u64(65_537).unwrap(),
        saved_at: bench.clock.wall(),
    };
    let fields = ours().into_fields(checkpoint.into_fields(Default::default()));
    bench.store.write_record(&path, Write { lease_id, if_match: None, fields }).await.unwrap();
    let (scheduled, _) = bench.take("scheduled", ours()).await.unwrap();
    bench
        .store
        .write_document(DocumentPath::Plan(scheduled.clone()), "{}".to_owned(), None)
        .await
        .unwrap();
    bench.clock.advance(48 * HOUR);
    let (held, lease_id) = bench.take("held", ours()).await.unwrap();
    assert_eq!(bench.make_room().await, ["checkpoint", "held", "scheduled"]);

    let refused = bench.take("one-more", ours()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Full { limit: 4 }), "{refused:?}");
    assert!(refused.to_string().contains("store.embedded.max_locks"), "{refused}");
    let plan = bench
        .store
        .write_document(DocumentPath::Plan(held.clone()), "{}".to_owned(), None)
        .await
        .unwrap_err();
    assert!(matches!(plan, StoreError::Full { limit: 4 }), "{plan:?}");
    // What is there goes on.
    bench.store.renew(&held, lease_id, None).await.unwrap();
    bench.store.release(&held, lease_id, None).await.unwrap();
    bench.take("held", ours()).await.unwrap();
    // What is deleted makes room.
    let etag = bench.store.read_record(&scheduled).await.unwrap().etag;
    bench.store.delete(&scheduled, etag).await.unwrap();
    bench.take("one-more", ours()).await.unwrap();
}

/// A caller that leaves before its token is written, or names an occurrence that lies ahead, makes a lock
/// and has no grant.
#[tokio::test]
async fn s38_locks_that_nobody_was_ever_granted_make_room_too() {
    let bench = Bench::new(4);
    for number in 0..4 {
        let (path, lease_id) = bench.lease(&format!("asked-for-{number}")).await.unwrap();
        bench.store.release(&path, lease_id, None).await.unwrap();
    }
    assert_eq!(bench.make_room().await.len(), 4, "they may be about to be granted");
    bench.clock.advance(2 * HOUR);
    let (held, _) = bench.lease("asked-for-0").await.unwrap();
    assert_eq!(bench.make_room().await, [held.name()]);
    bench.take("one-more", ours()).await.unwrap();
}

/// Locks count in whatever container they are.
#[tokio::test]
async fn s18_locks_of_a_former_container_make_room_too() {
    let bench = Bench::new(4);
    let former = Container::parse("former").unwrap();
    for number in 0..4 {
        let path = LockPath::from_parts(&former, &format!("before/{number}"));
        bench.write(path, ours()).await.unwrap();
    }
    bench.clock.advance(2 * HOUR);
    bench.make_room().await;
    bench.take("one-more", ours()).await.unwrap();
}
