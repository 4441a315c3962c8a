//! What a backend's tests provide, and what the cases share.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::lock::{Container, LeaseId, LockPath};
use crate::record::Fields;
use crate::store::{
    Acquire, Acquired, BreakNote, BreakPeriod, ETag, LeaseBroken, LeaseState, LeaseStore,
    LeaseStoreExt as _, MIN_LEASE_DURATION, StoreError, StoredLock, Write, Written,
};
use crate::time::UnixMillis;

/// A store under test, with a place of its own in it and a way to let time pass.
pub trait Bench: Sized + Send + Sync {
    /// A store in which nothing of this case is there yet. Cases run side by side: a backend that all of them
    /// share gives each a container of its own.
    fn open(case: &'static str) -> impl Future<Output = Self> + Send;

    /// The store. May be asked from several tasks at once.
    fn store(&self) -> Arc<dyn LeaseStore>;

    /// A container in which the case may make locks. It need not be there yet.
    fn container(&self) -> Container;

    /// Lets this span pass for the store: an injected clock moves, a real one is waited for.
    fn pass(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// What this backend cannot do.
    fn deviations(&self) -> Deviations {
        Deviations::default()
    }

    /// Replaces the fields of a lock that nobody has leased as somebody does who knows nothing of leases.
    fn write_without_lease(
        &self,
        path: &LockPath,
        fields: Fields,
    ) -> impl Future<Output = ()> + Send {
        let _ = fields;
        let path = path.clone();
        async move { panic!("say how {path} is written from outside, or name `no_writes_from_outside`") }
    }
}

/// What a backend does differently from the contract, each with the reason; nothing by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deviations {
    /// A renew of an expired lease succeeds under any id.
    pub renews_expired_under_any_id: Option<&'static str>,
    /// A renew of an expired lease may succeed though the record was written since.
    pub renews_expired_after_write: Option<&'static str>,
    /// Nobody but this contract can write a record, so that case cannot be brought about.
    pub no_writes_from_outside: Option<&'static str>,
}

/// A lease id that was never used.
pub(super) fn new_id() -> LeaseId {
    LeaseId::from_uuid(Uuid::new_v4())
}

/// The path of the lock `name` in the bench's container.
pub(super) fn lock<B: Bench>(bench: &B, name: &str) -> LockPath {
    LockPath::from_parts(&bench.container(), name)
}

/// Asks for the shortest lease, without a condition.
pub(super) const fn shortest(lease_id: LeaseId) -> Acquire {
    Acquire { lease_id, duration: MIN_LEASE_DURATION, if_match: None }
}

/// Asks for a lease that no case outlives.
pub(super) const fn longest(lease_id: LeaseId) -> Acquire {
    Acquire { lease_id, duration: Duration::from_secs(60), if_match: None }
}

pub(super) async fn acquire<B: Bench>(bench: &B, path: &LockPath, request: Acquire) -> Acquired {
    bench.store().acquire(path, request).await.expect("the lock is free")
}

pub(super) async fn read<B: Bench>(bench: &B, path: &LockPath) -> StoredLock {
    bench.store().read_record(path).await.expect("the lock is there")
}

pub(super) async fn state<B: Bench>(bench: &B, path: &LockPath) -> LeaseState {
    read(bench, path).await.lease
}

pub(super) fn fields<const N: usize>(pairs: [(&str, &str); N]) -> Fields {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

pub(super) async fn write<B: Bench>(
    bench: &B,
    path: &LockPath,
    lease_id: LeaseId,
    fields: Fields,
) -> Written {
    let write = Write { lease_id, if_match: None, fields };
    bench.store().write_record(path, write).await.expect("the lease is ours")
}

/// A lock that A leased, wrote and gave back; its ETag.
pub(super) async fn written_lock<B: Bench>(bench: &B, path: &LockPath) -> ETag {
    let a = new_id();
    acquire(bench, path, longest(a)).await;
    let written = write(bench, path, a, fields([("leasehold_holder", "a")])).await;
    bench.store().release(path, a, None).await.expect("the lease is ours");
    written.etag
}

pub(super) fn note(period: BreakPeriod, reason: &str) -> BreakNote {
    BreakNote {
        period,
        reason: reason.to_owned(),
        by: "the suite".to_owned(),
        token: None,
        at: UnixMillis(1_800_000_000_000),
        for_priority: None,
    }
}

/// Breaks a lock as whoever has just looked at it.
pub(super) async fn break_lease<B: Bench>(
    bench: &B,
    path: &LockPath,
    note: BreakNote,
) -> Result<LeaseBroken, StoreError> {
    let store = bench.store();
    let seen = store.read_record(path).await.map(|stored| stored.etag);
    store.break_lease(path, note, seen.unwrap_or_else(|_| ETag("none".into()))).await
}

/// Lets time pass until the lease of this lock has run out: as long as the shortest lease, and not much
/// longer.
pub(super) async fn run_out<B: Bench>(bench: &B, path: &LockPath) {
    let step = Duration::from_secs(1);
    let bound = MIN_LEASE_DURATION * 3;
    let mut passed = Duration::ZERO;
    while state(bench, path).await.is_held() {
        assert!(passed < bound, "the lease of {path} did not run out in {bound:?}");
        bench.pass(step).await;
        passed += step;
    }
}

/// Whether an operation with a condition was refused for it, as the contract allows.
pub(super) fn is_refused<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Changed))
}
