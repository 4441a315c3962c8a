//! Locks in memory: the contract as it is written, for tests and the simulator.
//!
//! [`MemoryLocks`] is a plain value without IO and clock, so that a simulator can own it; [`MemoryStore`] is
//! the same behind a mutex and an injected [`Clock`]. Both keep the contract of the module, with nothing of
//! their own.

mod documents;
mod locks;
mod outside;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{
    Acquire, Acquired, BreakNote, ETag, LeaseBroken, LeaseStore, List, Listing, PlanListing,
    PlanRead, PlanWritten, Renewed, StoreError, StoreTime, StoredLock, TimerRead, TimerWritten,
    Write, Written,
};
use crate::lock::{Container, LeaseId, LockPath, TimerPath};
use crate::time::Clock;

pub use locks::{MemoryLocks, RecordCopy};

/// [`MemoryLocks`] as a [`LeaseStore`].
///
/// Its leases run by the clock's `now`, and it tells the clock's `wall` as its own.
#[derive(Debug)]
pub struct MemoryStore {
    locks: Mutex<MemoryLocks>,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { locks: Mutex::new(MemoryLocks::default()), clock }
    }

    /// The locks themselves, for what happens to a store from outside. Not to be kept over an `await`.
    pub fn locks(&self) -> MutexGuard<'_, MemoryLocks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn acquire(&self, path: &LockPath, request: Acquire) -> Result<Acquired, StoreError> {
        // The clock is read under the lock, so that the store's time never goes back from one operation to
        // the next.
        let mut locks = self.locks();
        locks.acquire(path, &request, self.clock.now(), self.clock.wall())
    }

    async fn renew(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        let mut locks = self.locks();
        locks.renew(path, lease_id, if_match.as_ref(), self.clock.now(), self.clock.wall())
    }

    async fn release(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<(), StoreError> {
        let mut locks = self.locks();
        locks.release(path, lease_id, if_match.as_ref(), self.clock.now())
    }

    async fn break_lease(
        &self,
        path: &LockPath,
        note: BreakNote,
        if_match: ETag,
    ) -> Result<LeaseBroken, StoreError> {
        let mut locks = self.locks();
        locks.break_lease(path, note, &if_match, self.clock.now())
    }

    async fn write_record(&self, path: &LockPath, write: Write) -> Result<Written, StoreError> {
        let mut locks = self.locks();
        locks.write_record(path, write, self.clock.now(), self.clock.wall())
    }

    async fn read_record(&self, path: &LockPath) -> Result<StoredLock, StoreError> {
        let locks = self.locks();
        locks.read_record(path, self.clock.now(), self.clock.wall())
    }

    async fn read_break_note(&self, path: &LockPath) -> Result<Option<BreakNote>, StoreError> {
        Ok(self.locks().read_break_note(path))
    }

    async fn read_plan(&self, path: &LockPath) -> Result<PlanRead, StoreError> {
        let locks = self.locks();
        Ok(locks.read_plan(path, self.clock.wall()))
    }

    async fn write_plan(
        &self,
        path: &LockPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<PlanWritten, StoreError> {
        let mut locks = self.locks();
        locks.write_plan(path, text, if_match.as_ref(), self.clock.wall())
    }

    async fn delete_plan(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        self.locks().delete_plan(path, &if_match)
    }

    async fn list_plans(&self, request: List) -> Result<PlanListing, StoreError> {
        Ok(self.locks().list_plans(&request))
    }

    fn has_timers(&self) -> bool {
        true
    }

    async fn read_timer(&self, timer: &TimerPath) -> Result<TimerRead, StoreError> {
        let locks = self.locks();
        Ok(locks.read_timer(timer, self.clock.wall()))
    }

    async fn write_timer(
        &self,
        timer: &TimerPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<TimerWritten, StoreError> {
        let mut locks = self.locks();
        locks.write_timer(timer, text, if_match.as_ref(), self.clock.wall())
    }

    async fn list(&self, request: List) -> Result<Listing, StoreError> {
        let locks = self.locks();
        Ok(locks.list(&request, self.clock.now(), self.clock.wall()))
    }

    async fn delete(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        let mut locks = self.locks();
        locks.delete(path, &if_match, self.clock.now())
    }

    async fn check(&self, container: &Container) -> Result<StoreTime, StoreError> {
        self.locks().check(container, self.clock.wall())
    }

    fn tells_record(&self) -> bool {
        false
    }

    fn kind(&self) -> &'static str {
        "memory"
    }
}

#[cfg(test)]
mod tests;
