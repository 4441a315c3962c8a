//! A store that takes its time, as one over a network does, and keeps nearly nothing: what it kept would be
//! measured with the sidecar.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use leasehold::lock::{Container, ETag, LeaseId, LockPath};
use leasehold::store::{
    Acquire, Acquired, BreakNote, LeaseBroken, LeaseStore, List, Listing, PlanListing, PlanRead,
    PlanWritten, Renewed, StoreError, StoreTime, StoredLock, Write, Written,
};
use leasehold::time::{BootClock, Clock as _};

/// The time of each call.
const CALL: Duration = Duration::from_millis(20);

/// Knows of each lock how often it was written, and believes every lease: each lock has one taker here.
#[derive(Debug)]
pub(crate) struct SlowStore {
    versions: Mutex<HashMap<u64, u32>>,
    clock: BootClock,
}

impl SlowStore {
    pub(crate) fn new() -> Self {
        Self { versions: Mutex::default(), clock: BootClock::new() }
    }

    fn change(&self, path: &LockPath, by: u32) -> u32 {
        let mut hasher = DefaultHasher::new();
        path.as_str().hash(&mut hasher);
        let mut versions = self.versions.lock().unwrap();
        let version = versions.entry(hasher.finish()).or_default();
        *version += by;
        *version
    }

    fn etag(version: u32) -> ETag {
        ETag(version.to_string())
    }
}

fn unused<T>() -> Result<T, StoreError> {
    Err(StoreError::NotFound)
}

#[async_trait]
impl LeaseStore for SlowStore {
    async fn acquire(&self, path: &LockPath, _request: Acquire) -> Result<Acquired, StoreError> {
        tokio::time::sleep(CALL).await;
        let version = self.change(path, 0);
        let etag = Self::etag(version);
        Ok(Acquired { etag, time: self.clock.wall(), created: version == 0, found: None })
    }

    async fn renew(
        &self,
        _path: &LockPath,
        _lease_id: LeaseId,
        _if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        tokio::time::sleep(CALL).await;
        Ok(Renewed { time: self.clock.wall() })
    }

    async fn release(
        &self,
        _path: &LockPath,
        _lease_id: LeaseId,
        _if_match: Option<ETag>,
    ) -> Result<(), StoreError> {
        tokio::time::sleep(CALL).await;
        Ok(())
    }

    async fn write_record(&self, path: &LockPath, _write: Write) -> Result<Written, StoreError> {
        tokio::time::sleep(CALL).await;
        Ok(Written { etag: Self::etag(self.change(path, 1)) })
    }

    async fn read_record(&self, _path: &LockPath) -> Result<StoredLock, StoreError> {
        tokio::time::sleep(CALL).await;
        unused()
    }

    async fn break_lease(
        &self,
        _path: &LockPath,
        _note: BreakNote,
        _if_match: ETag,
    ) -> Result<LeaseBroken, StoreError> {
        unused()
    }

    async fn read_break_note(&self, _path: &LockPath) -> Result<Option<BreakNote>, StoreError> {
        Ok(None)
    }

    async fn read_plan(&self, _path: &LockPath) -> Result<PlanRead, StoreError> {
        unused()
    }

    async fn write_plan(
        &self,
        _path: &LockPath,
        _text: String,
        _if_match: Option<ETag>,
    ) -> Result<PlanWritten, StoreError> {
        unused()
    }

    async fn delete_plan(&self, _path: &LockPath, _if_match: ETag) -> Result<(), StoreError> {
        unused()
    }

    async fn list_plans(&self, _request: List) -> Result<PlanListing, StoreError> {
        unused()
    }

    async fn list(&self, _request: List) -> Result<Listing, StoreError> {
        unused()
    }

    async fn delete(&self, _path: &LockPath, _if_match: ETag) -> Result<(), StoreError> {
        unused()
    }

    async fn check(&self, _container: &Container) -> Result<StoreTime, StoreError> {
        Ok(self.clock.wall())
    }

    fn tells_record(&self) -> bool {
        false
    }

    fn kind(&self) -> &'static str {
        "slow"
    }
}
