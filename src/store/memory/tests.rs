//! What the conformance suite cannot see: what happens to a store from outside.

use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::lock::{Container, LeaseId, LockPath};
use crate::record::Fields;
use crate::store::{Acquire, StoreTime, Write};
use crate::time::{Instant, UnixMillis};

const TIME: StoreTime = UnixMillis(1_800_000_000_000);

fn id(number: u128) -> LeaseId {
    LeaseId::from_uuid(Uuid::from_u128(number))
}

fn at(seconds: u64) -> Instant {
    Instant::from_boot(Duration::from_secs(seconds))
}

fn container() -> Container {
    Container::parse("locks").unwrap()
}

fn path() -> LockPath {
    LockPath::from_parts(&container(), "host/f/~/FUNCTION")
}

fn acquire(number: u128) -> Acquire {
    Acquire { lease_id: id(number), duration: Duration::from_secs(15), if_match: None }
}

fn write(number: u128, value: &str) -> Write {
    Write {
        lease_id: id(number),
        if_match: None,
        fields: Fields::from([("field".to_owned(), value.to_owned())]),
    }
}

#[test]
fn s18_a_container_that_must_exist_is_not_made() {
    let mut locks = MemoryLocks::default();
    locks.require_containers();
    let missing = |answer: Result<_, StoreError>| matches!(answer, Err(StoreError::ContainerMissing { container, .. }) if container == "locks");
    assert!(missing(locks.check(&container(), TIME).map(|_| ())));
    assert!(missing(locks.acquire(&path(), &acquire(1), at(1), TIME).map(|_| ())));
    assert!(matches!(locks.renew(&path(), id(1), None, at(1), TIME), Err(StoreError::NotFound)));
    locks.create_container(&container());
    assert!(locks.acquire(&path(), &acquire(1), at(1), TIME).unwrap().created);
    assert!(locks.check(&container(), TIME).is_ok());
}

#[test]
fn s8_a_deleted_container_takes_its_locks_along() {
    let mut locks = MemoryLocks::default();
    locks.acquire(&path(), &acquire(1), at(1), TIME).unwrap();
    locks.require_containers();
    locks.delete_container(&container());
    assert!(matches!(locks.renew(&path(), id(1), None, at(2), TIME), Err(StoreError::NotFound)));
    assert!(locks.acquire(&path(), &acquire(1), at(2), TIME).is_err());
}

#[test]
fn s5_etags_are_not_given_again_when_a_lock_is_made_again() {
    let mut locks = MemoryLocks::default();
    let first = locks.acquire(&path(), &acquire(1), at(1), TIME).unwrap();
    locks.delete_lock(&path());
    let second = locks.acquire(&path(), &acquire(2), at(1), TIME).unwrap();
    assert!(second.created);
    assert_ne!(first.etag, second.etag);
}

#[test]
fn s5_a_record_goes_back_to_an_older_copy_under_the_same_lease() {
    let mut locks = MemoryLocks::default();
    locks.acquire(&path(), &acquire(1), at(1), TIME).unwrap();
    let old = locks.write_record(&path(), write(1, "old"), at(1), TIME).unwrap();
    let copy = locks.copy_record(&path()).unwrap();
    let new = locks.write_record(&path(), write(1, "new"), at(1), TIME).unwrap();
    locks.rewind_record(&path(), copy);
    let read = locks.read_record(&path(), at(2), TIME).unwrap();
    assert_eq!(read.etag, old.etag);
    assert_eq!(read.fields.get("field").map(String::as_str), Some("old"));
    assert!(locks.renew(&path(), id(1), None, at(3), TIME).is_ok());
    let newest = locks.write_record(&path(), write(1, "newest"), at(3), TIME).unwrap();
    assert!(newest.etag != new.etag && newest.etag != old.etag);
}

#[test]
fn s1_a_forgotten_lease_lets_another_in() {
    let mut locks = MemoryLocks::default();
    locks.acquire(&path(), &acquire(1), at(1), TIME).unwrap();
    assert!(locks.acquire(&path(), &acquire(2), at(2), TIME).is_err());
    locks.forget_lease(&path());
    assert!(locks.acquire(&path(), &acquire(2), at(2), TIME).is_ok());
}
