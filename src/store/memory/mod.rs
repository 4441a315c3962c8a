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

use super::{Features, LeaseStore, StoreAnswer, StoreError, StoreRequest};
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
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        // The clock is read under the lock, so that the store's time never goes back from one operation to
        // the next.
        let mut locks = self.locks();
        locks.call(request, self.clock.now(), self.clock.wall())
    }

    fn features(&self) -> Features {
        Features { kind: "memory", tells_record: false, has_timers: true }
    }
}

#[cfg(test)]
mod tests;
