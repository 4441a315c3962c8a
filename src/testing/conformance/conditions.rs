//! Operations that are done only if the record is the one that the caller knows.

use std::collections::HashSet;

use super::bench::{
    Bench, acquire, fields, is_refused, lock, longest, new_id, read, state, write, written_lock,
};
use crate::lock::LeaseId;
use crate::record::ETag;
use crate::store::{Acquire, LeaseState, LeaseStoreExt as _, StoreError, Write};

fn only_if(lease_id: LeaseId, etag: &ETag) -> Acquire {
    Acquire { if_match: Some(etag.clone()), ..longest(lease_id) }
}

pub(super) async fn s6_acquire_is_done_only_if_the_record_is_the_one_known<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/known/~/FUNCTION"), bench.store());
    let old = written_lock(bench, &path).await;
    let new = written_lock(bench, &path).await;
    let refused = store.acquire(&path, only_if(new_id(), &old)).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(state(bench, &path).await, LeaseState::Available);
    let granted = store.acquire(&path, only_if(new_id(), &new)).await.unwrap();
    assert_eq!((granted.etag, granted.created), (new, false));
    assert_eq!(state(bench, &path).await, LeaseState::Leased);
}

pub(super) async fn s6_acquire_of_a_known_record_does_not_make_the_lock<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/gone/~/FUNCTION"), bench.store());
    let etag = written_lock(bench, &path).await;
    store.delete(&path, etag.clone()).await.unwrap();
    let refused = store.acquire(&path, only_if(new_id(), &etag)).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert!(matches!(store.read_record(&path).await, Err(StoreError::NotFound)));
}

pub(super) async fn s6_a_late_duplicate_of_an_acquire_fails<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/late/~/FUNCTION"), bench.store(), new_id());
    let known = written_lock(bench, &path).await;
    store.acquire(&path, only_if(a, &known)).await.unwrap();
    // Repeated before the grant was stored, it is the same acquire.
    store.acquire(&path, only_if(a, &known)).await.unwrap();
    write(bench, &path, a, fields([("leasehold_holder", "granted")])).await;
    store.release(&path, a, None).await.unwrap();
    let duplicate = store.acquire(&path, only_if(a, &known)).await;
    assert!(is_refused(&duplicate), "{duplicate:?}");
    assert_eq!(state(bench, &path).await, LeaseState::Available);
}

pub(super) async fn s12_acquire_of_a_lock_held_elsewhere_is_no_success_under_any_condition<
    B: Bench,
>(
    bench: &B,
) {
    let (path, store, b) = (lock(bench, "host/elsewhere/~/FUNCTION"), bench.store(), new_id());
    let old = written_lock(bench, &path).await;
    acquire(bench, &path, longest(b)).await;
    let current = write(bench, &path, b, fields([("leasehold_holder", "b")])).await.etag;
    let contended = store.acquire(&path, only_if(new_id(), &current)).await;
    assert!(matches!(contended, Err(StoreError::Contended)), "{contended:?}");
    let either = store.acquire(&path, only_if(new_id(), &old)).await;
    assert!(matches!(either, Err(StoreError::Contended | StoreError::Changed)), "{either:?}");
    store.renew(&path, b, None).await.expect("the holder notices nothing");
}

pub(super) async fn release_is_done_only_if_the_record_is_the_one_known<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/release/~/FUNCTION"), bench.store(), new_id());
    let old = written_lock(bench, &path).await;
    acquire(bench, &path, longest(a)).await;
    let new = write(bench, &path, a, fields([("leasehold_holder", "a")])).await.etag;
    let refused = store.release(&path, a, Some(old)).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(state(bench, &path).await, LeaseState::Leased);
    store.release(&path, a, Some(new)).await.unwrap();
    assert_eq!(state(bench, &path).await, LeaseState::Available);
}

pub(super) async fn s5_write_is_done_only_if_the_record_is_the_one_known<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/write/~/FUNCTION"), bench.store(), new_id());
    let old = written_lock(bench, &path).await;
    let granted = acquire(bench, &path, longest(a)).await;
    assert_eq!(granted.etag, old, "leasing changes no record");
    let attempt = |holder: &str, etag: &ETag| Write {
        lease_id: a,
        if_match: Some(etag.clone()),
        fields: fields([("leasehold_holder", holder)]),
    };
    let new = store.write_record(&path, attempt("first", &old)).await.unwrap().etag;
    let refused = store.write_record(&path, attempt("second", &old)).await;
    assert!(is_refused(&refused), "{refused:?}");
    let stored = read(bench, &path).await;
    assert_eq!(stored.etag, new);
    assert_eq!(stored.fields, fields([("leasehold_holder", "first")]));
    store.write_record(&path, attempt("third", &new)).await.unwrap();
}

pub(super) async fn s5_every_write_makes_an_etag_that_never_was<B: Bench>(bench: &B) {
    let (path, a) = (lock(bench, "host/etags/~/FUNCTION"), new_id());
    let mut seen = HashSet::from([acquire(bench, &path, longest(a)).await.etag]);
    for _ in 0..20 {
        // The same fields each time: a write is a write.
        let etag = write(bench, &path, a, fields([("leasehold_holder", "a")])).await.etag;
        assert_eq!(read(bench, &path).await.etag, etag);
        assert!(seen.insert(etag), "an ETag was given twice");
    }
}
