//! Deleting locks: only those that nobody has, and only as the caller knows them.

use super::bench::{
    Bench, acquire, break_lease, fields, is_refused, lock, longest, new_id, note, read, state,
    write, written_lock,
};
use crate::store::{BreakPeriod, LeaseState, LeaseStoreExt as _, StoreError};

pub(super) async fn a_lock_that_nobody_has_leased_is_deleted_with_its_note<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/idle/~/FUNCTION"), bench.store());
    acquire(bench, &path, longest(new_id())).await;
    break_lease(bench, &path, note(BreakPeriod::Now, "gone with the lock")).await.unwrap();
    let etag = read(bench, &path).await.etag;
    store.delete(&path, etag).await.unwrap();
    assert!(matches!(store.read_record(&path).await, Err(StoreError::NotFound)));
    assert_eq!(store.read_break_note(&path).await.unwrap(), None);
}

pub(super) async fn a_lock_that_is_leased_is_not_deleted<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/leased/~/FUNCTION"), bench.store(), new_id());
    let etag = acquire(bench, &path, longest(a)).await.etag;
    for state in [LeaseState::Leased, LeaseState::Breaking] {
        if state == LeaseState::Breaking {
            break_lease(bench, &path, note(BreakPeriod::RunOut, "still held")).await.unwrap();
        }
        let refused = store.delete(&path, etag.clone()).await;
        assert!(matches!(refused, Err(StoreError::Contended)), "{state:?}: {refused:?}");
        assert_eq!(read(bench, &path).await.lease, state);
    }
}

pub(super) async fn a_lock_whose_record_has_changed_is_not_deleted<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/changed/~/FUNCTION"), bench.store());
    let old = written_lock(bench, &path).await;
    let new = written_lock(bench, &path).await;
    let refused = store.delete(&path, old).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(state(bench, &path).await, LeaseState::Available);
    store.delete(&path, new).await.unwrap();
}

pub(super) async fn s5_a_lock_made_again_is_another<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/again/~/FUNCTION"), bench.store(), new_id());
    let first = acquire(bench, &path, longest(a)).await.etag;
    let written = write(bench, &path, a, fields([("leasehold_holder", "a")])).await.etag;
    store.release(&path, a, None).await.unwrap();
    store.delete(&path, written.clone()).await.unwrap();
    store.renew(&path, a, None).await.unwrap_err();
    let again = acquire(bench, &path, longest(new_id())).await;
    assert!(again.created);
    assert!(again.etag != first && again.etag != written, "an ETag was given twice");
    assert!(read(bench, &path).await.fields.is_empty());
    store.renew(&path, a, None).await.unwrap_err();
}
