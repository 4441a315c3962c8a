use std::sync::Arc;

use super::*;
use crate::lock::{Container, Fields, LeaseId};
use crate::store::{Acquire, MemoryStore, Write};
use crate::testing::SimClock;

const DAY: Duration = Duration::from_secs(86_400);

struct Account {
    clock: Arc<SimClock>,
    store: MemoryStore,
    leases: u128,
}

impl Account {
    fn new() -> Self {
        let clock = Arc::new(SimClock::new());
        let store = MemoryStore::new(Arc::clone(&clock) as _);
        Self { clock, store, leases: 0 }
    }

    fn path(name: &str) -> LockPath {
        LockPath::from_parts(&Container::parse("leasehold").unwrap(), &format!("locks/h/{name}"))
    }

    async fn take(&mut self, name: &str, resting_until: Option<u64>) -> LeaseId {
        self.leases += 1;
        let lease_id = LeaseId::from_uuid(uuid::Uuid::from_u128(self.leases));
        let path = Self::path(name);
        let duration = Duration::from_secs(60);
        let acquire = Acquire { lease_id, duration, if_match: None };
        self.store.acquire(&path, acquire).await.unwrap();
        let record = Record {
            token: crate::lock::FencingToken::from_u64(1),
            resting_until: resting_until.map(crate::time::UnixMillis),
            ..Record::default()
        };
        let write = Write { lease_id, if_match: None, fields: record.into_fields(Fields::new()) };
        self.store.write_record(&path, write).await.unwrap();
        lease_id
    }

    async fn release(&self, name: &str, lease_id: LeaseId) {
        self.store.release(&Self::path(name), lease_id, None).await.unwrap();
    }

    async fn collect(&self, dry_run: bool) -> Collected {
        let list = List {
            container: Container::parse("leasehold").unwrap(),
            prefix: "locks/h/".to_owned(),
            continuation: None,
            limit: 2,
        };
        collect(&self.store, list, 30 * DAY, dry_run).await.unwrap()
    }
}

#[tokio::test]
async fn locks_that_nobody_has_held_for_long_are_deleted_over_all_pages_and_no_others() {
    let mut account = Account::new();
    for name in ["a", "b", "c", "d", "e"] {
        let lease_id = account.take(name, None).await;
        account.release(name, lease_id).await;
    }
    account.clock.advance(31 * DAY);
    let held = account.take("held", None).await;
    let fresh = account.take("fresh", None).await;
    account.release("fresh", fresh).await;
    let dry = account.collect(true).await;
    let expected: Vec<String> =
        ["a", "b", "c", "d", "e"].map(|name| Account::path(name).to_string()).into();
    assert_eq!(dry.deleted, expected);
    assert!(
        account.store.read_record(&Account::path("a")).await.is_ok(),
        "a dry run deletes nothing"
    );
    assert_eq!(account.collect(false).await.deleted, expected);
    assert!(account.store.read_record(&Account::path("a")).await.is_err());
    assert!(account.store.read_record(&Account::path("fresh")).await.is_ok());
    account.release("held", held).await;
    assert_eq!(account.collect(false).await.deleted, Vec::<String>::new());
}

#[tokio::test]
async fn s11_a_lock_that_rests_is_kept() {
    let mut account = Account::new();
    let far = 1_800_000_000_000 + u64::try_from((40 * DAY).as_millis()).unwrap();
    let lease_id = account.take("resting", Some(far)).await;
    account.release("resting", lease_id).await;
    account.clock.advance(31 * DAY);
    assert_eq!(account.collect(false).await.deleted, Vec::<String>::new());
}
