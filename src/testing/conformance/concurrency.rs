//! Many callers at once: exactly one is served (S1, S5).

use std::sync::Arc;

use tokio::task::JoinSet;

use super::bench::{
    Bench, acquire, fields, lock, longest, new_id, read, run_out, shortest, written_lock,
};
use crate::lock::{LeaseId, LockPath};
use crate::store::{Acquired, LeaseStoreExt as _, StoreError, Write};

const CALLERS: usize = 16;
const ROUNDS: usize = 8;

/// Sixteen callers acquire at once. All but one are told that the lock is contended.
async fn one_of_many<B: Bench>(bench: &B, path: &LockPath) -> (LeaseId, Acquired) {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (store, path, id) = (bench.store(), path.clone(), new_id());
        callers.spawn(async move { (id, store.acquire(&path, longest(id)).await) });
    }
    let mut granted = Vec::new();
    for (id, answer) in callers.join_all().await {
        match answer {
            Ok(acquired) => granted.push((id, acquired)),
            Err(error) => assert!(matches!(error, StoreError::Contended), "{}", error.chain()),
        }
    }
    assert_eq!(granted.len(), 1, "granted at once: {granted:?}");
    let (id, acquired) = granted.remove(0);
    bench.store().renew(path, id, None).await.expect("who was granted the lock has it");
    (id, acquired)
}

pub(super) async fn s1_of_sixteen_acquires_of_a_new_lock_one_is_granted<B: Bench>(bench: &B) {
    for round in 0..ROUNDS {
        one_of_many(bench, &lock(bench, &format!("host/new-{round}/~/FUNCTION"))).await;
    }
}

pub(super) async fn s1_of_sixteen_acquires_of_a_known_lock_one_is_granted<B: Bench>(bench: &B) {
    let path = lock(bench, "host/known/~/FUNCTION");
    let etag = written_lock(bench, &path).await;
    for _ in 0..ROUNDS {
        let (id, acquired) = one_of_many(bench, &path).await;
        assert_eq!((acquired.created, acquired.etag), (false, etag.clone()));
        bench.store().release(&path, id, None).await.unwrap();
    }
}

pub(super) async fn s1_of_sixteen_acquires_of_an_expired_lock_one_is_granted<B: Bench>(bench: &B) {
    let path = lock(bench, "host/expired/~/FUNCTION");
    acquire(bench, &path, shortest(new_id())).await;
    run_out(bench, &path).await;
    one_of_many(bench, &path).await;
}

pub(super) async fn s5_of_eight_writes_of_one_version_one_is_done<B: Bench>(bench: &B) {
    let (path, a) = (lock(bench, "host/writes/~/FUNCTION"), new_id());
    let mut etag = acquire(bench, &path, longest(a)).await.etag;
    for round in 0..ROUNDS {
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let (store, path) = (Arc::clone(&bench.store()), path.clone());
            let name = format!("{round}-{writer}");
            let write = Write {
                lease_id: a,
                if_match: Some(etag.clone()),
                fields: fields([("leasehold_holder", &name)]),
            };
            writers.spawn(async move { (name, store.write_record(&path, write).await) });
        }
        let mut done = Vec::new();
        for (name, answer) in writers.join_all().await {
            match answer {
                Ok(written) => done.push((name, written.etag)),
                Err(error) => assert!(matches!(error, StoreError::Changed), "{}", error.chain()),
            }
        }
        assert_eq!(done.len(), 1, "written at once: {done:?}");
        let stored = read(bench, &path).await;
        let (name, written) = done.remove(0);
        assert_eq!(
            (stored.fields, &stored.etag),
            (fields([("leasehold_holder", &name)]), &written)
        );
        etag = written;
    }
}
