//! A store that tells the record with the lease: what an acquire that it refuses costs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::rig::{Account, SECOND, pass, request, settings};
use crate::coordinator::{Coordinator, NoObserver, Outcome};
use crate::lock::{Container, ETag, LeaseId, LockPath};
use crate::store::{
    Acquire, Acquired, BreakNote, LeaseBroken, LeaseStore, List, Listing, MemoryStore, PlanListing,
    PlanRead, PlanWritten, Renewed, StoreError, StoreTime, StoredLock, Write, Written,
};

/// A store that tells the record, and takes its time: as the embedded one behind a slow disk.
#[derive(Debug)]
struct Slow {
    store: Arc<MemoryStore>,
    takes: Duration,
}

#[async_trait]
impl LeaseStore for Slow {
    async fn acquire(&self, path: &LockPath, request: Acquire) -> Result<Acquired, StoreError> {
        pass(self.takes).await;
        let found = self.store.read_record(path).await.ok();
        let acquired = self.store.acquire(path, request).await?;
        Ok(Acquired { found, ..acquired })
    }

    async fn renew(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        self.store.renew(path, lease_id, if_match).await
    }

    async fn release(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<(), StoreError> {
        self.store.release(path, lease_id, if_match).await
    }

    async fn break_lease(
        &self,
        path: &LockPath,
        note: BreakNote,
        if_match: ETag,
    ) -> Result<LeaseBroken, StoreError> {
        self.store.break_lease(path, note, if_match).await
    }

    async fn write_record(&self, path: &LockPath, write: Write) -> Result<Written, StoreError> {
        self.store.write_record(path, write).await
    }

    async fn read_record(&self, path: &LockPath) -> Result<StoredLock, StoreError> {
        pass(self.takes).await;
        self.store.read_record(path).await
    }

    async fn read_break_note(&self, path: &LockPath) -> Result<Option<BreakNote>, StoreError> {
        self.store.read_break_note(path).await
    }

    async fn read_plan(&self, path: &LockPath) -> Result<PlanRead, StoreError> {
        self.store.read_plan(path).await
    }

    async fn write_plan(
        &self,
        path: &LockPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<PlanWritten, StoreError> {
        self.store.write_plan(path, text, if_match).await
    }

    async fn delete_plan(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        self.store.delete_plan(path, if_match).await
    }

    async fn list_plans(&self, request: List) -> Result<PlanListing, StoreError> {
        self.store.list_plans(request).await
    }

    async fn list(&self, request: List) -> Result<Listing, StoreError> {
        self.store.list(request).await
    }

    async fn delete(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        self.store.delete(path, if_match).await
    }

    async fn check(&self, container: &Container) -> Result<StoreTime, StoreError> {
        self.store.check(container).await
    }

    fn tells_record(&self) -> bool {
        true
    }

    fn kind(&self) -> &'static str {
        self.store.kind()
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_as_busy_however_slowly_the_holder_is_read() {
    let account = Account::new();
    let holder = account.sidecar();
    let _grant = holder.acquire(request("nightly")).await;
    // Each answer comes within S7's time for a try, which is 5 s for this lease.
    let store = Arc::new(Slow { store: Arc::clone(&account.store), takes: 3 * SECOND });
    let clock = Arc::clone(&account.clock) as _;
    let sidecar = Coordinator::new(store, clock, Arc::new(NoObserver), settings());
    let answer = sidecar.acquire(request("nightly")).await;
    assert!(matches!(answer, Ok(Outcome::Busy(_))), "{answer:?}");
}
