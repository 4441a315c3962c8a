use std::sync::Arc;

use super::*;
use crate::lock::{Container, FencingToken, LeaseId};
use crate::record::{Checkpoint, CheckpointValue};
use crate::store::{Acquire, MemoryStore, Write};
use crate::testing::SimClock;
use crate::time::Clock;

pub(super) const DAY: Duration = Duration::from_secs(86_400);

pub(super) struct Bench {
    pub(super) clock: Arc<SimClock>,
    pub(super) store: MemoryStore,
}

impl Bench {
    pub(super) fn new() -> Self {
        let clock = Arc::new(SimClock::new());
        let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { clock, store }
    }

    fn list() -> List {
        let container = Container::parse("leasehold").unwrap();
        List { container, prefix: "locks/".to_owned(), continuation: None, limit: 2 }
    }

    /// Takes the lock `name` and writes `record`.
    pub(super) async fn take(&self, name: &str, record: Record) -> (LockPath, LeaseId) {
        let path = LockPath::from_parts(&Self::list().container, name);
        let lease_id = LeaseId::from_uuid(uuid::Uuid::new_v4());
        let duration = Duration::from_secs(15);
        let acquire = Acquire { lease_id, duration, if_match: None };
        self.store.acquire(&path, acquire).await.unwrap();
        let fields = record.into_fields(Default::default());
        self.store.write_record(&path, Write { lease_id, if_match: None, fields }).await.unwrap();
        (path, lease_id)
    }

    async fn names(&self) -> Vec<String> {
        let list = List { limit: 100, prefix: String::new(), ..Self::list() };
        let listing = self.store.list(list).await.unwrap();
        listing.locks.iter().map(|(path, _)| path.name().to_owned()).collect()
    }

    pub(super) async fn collect(&self, idle: Duration, dry_run: bool) -> Collected {
        let which = Which { idle, with_checkpoints: false, with_schedules: true };
        collect(&self.store, Self::list(), which, dry_run).await.unwrap()
    }
}

pub(super) fn ours() -> Record {
    Record { token: FencingToken::from_u64(65_537), ..Record::default() }
}

#[tokio::test]
async fn what_nobody_has_held_for_long_is_deleted_over_all_pages() {
    let bench = Bench::new();
    for number in 0..5 {
        bench.take(&format!("locks/h/{number}"), ours()).await;
    }
    bench.clock.advance(DAY * 31);
    bench.take("locks/h/fresh", ours()).await;
    let planned = bench.collect(DAY * 30, true).await;
    assert_eq!((planned.deleted.len(), planned.kept), (5, 1));
    assert_eq!(bench.names().await.len(), 6, "a dry run deletes nothing");
    let done = bench.collect(DAY * 30, false).await;
    assert_eq!(done.deleted, planned.deleted);
    assert_eq!(bench.names().await, ["locks/h/fresh"]);
}

#[tokio::test]
async fn what_is_held_rests_or_is_not_ours_stays() {
    let bench = Bench::new();
    let (held, lease_id) = bench.take("locks/h/held", ours()).await;
    bench.take("locks/h/foreign", Record::default()).await;
    let later = bench.clock.wall() + DAY * 60;
    bench.take("locks/h/resting", Record { resting_until: Some(later), ..ours() }).await;
    bench.take("elsewhere/h/a", ours()).await;
    bench.clock.advance(DAY * 31);
    bench.store.renew(&held, lease_id, None).await.unwrap();
    let done = bench.collect(DAY * 30, false).await;
    assert_eq!(done.deleted, Vec::<String>::new());
    assert_eq!(bench.names().await.len(), 4);
}

#[tokio::test]
async fn a_lock_that_is_taken_meanwhile_stays() {
    let bench = Bench::new();
    let (path, _) = bench.take("locks/h/a", ours()).await;
    bench.clock.advance(DAY * 31);
    let seen = bench.store.read_record(&path).await.unwrap();
    assert!(is_idle(&bench.store, &seen, DAY * 30));
    bench.take("locks/h/a", ours()).await;
    assert!(!delete(&bench.store, &path, seen).await.unwrap());
    assert_eq!(bench.names().await, ["locks/h/a"]);
}

/// A lock that changes hands more than a thousand times a second runs ahead of the clock, for as long as it
/// did.
#[tokio::test]
async fn s5_a_lock_whose_epoch_is_ahead_of_the_clock_is_kept_until_the_clock_has_overtaken_it() {
    let bench = Bench::new();
    let ahead = bench.clock.wall() + DAY * 2;
    let record =
        Record { token: FencingToken::after_acquisition(None, ahead), ..Record::default() };
    let (path, lease_id) = bench.take("locks/h/busy", record).await;
    bench.store.release(&path, lease_id, None).await.unwrap();
    bench.clock.advance(DAY);
    assert_eq!(bench.collect(DAY, false).await.deleted.len(), 0);
    bench.clock.advance(DAY + Duration::from_secs(1));
    assert_eq!(bench.collect(DAY, false).await.deleted.len(), 1);
}

#[tokio::test]
async fn s23_a_lock_with_a_checkpoint_stays_unless_it_is_asked_for() {
    let bench = Bench::new();
    let (path, lease_id) = bench.take("locks/h/cursor", ours()).await;
    let checkpoint = Checkpoint {
        value: CheckpointValue::new(b"").unwrap(),
        version: 65_537,
        token: FencingToken::from_u64(65_537).unwrap(),
        saved_at: bench.clock.wall(),
    };
    let fields = ours().into_fields(checkpoint.into_fields(Default::default()));
    bench.store.write_record(&path, Write { lease_id, if_match: None, fields }).await.unwrap();
    bench.clock.advance(DAY * 31);
    let spared = bench.collect(DAY * 30, false).await;
    assert_eq!((spared.deleted.len(), spared.kept), (0, 1));
    assert!(spared.spared[0].reason.contains("--with-checkpoints"), "{:?}", spared.spared);
    let which = Which { idle: DAY * 30, with_checkpoints: true, with_schedules: true };
    let asked = collect(&bench.store, Bench::list(), which, false).await.unwrap();
    assert_eq!((asked.deleted.len(), asked.kept), (1, 0));
}
