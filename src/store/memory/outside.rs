//! What happens to a store from outside: containers and locks come and go, records go back.

use std::time::Duration;

use super::locks::{MemoryLock, MemoryLocks, RecordCopy};
use crate::lock::{Container, LockPath};
use crate::record::Fields;
use crate::store::lease::Lease;
use crate::store::{StoreError, StoreTime, Written};
use crate::time::Instant;

/// What happens to a store from outside, for tests and the simulator.
impl MemoryLocks {
    /// From now on containers must exist: acquire no longer makes them (S18). Those of the locks there are
    /// exist.
    pub fn require_containers(&mut self) {
        let used = || self.locks.keys().map(|path| path.container().to_owned()).collect();
        self.containers.get_or_insert_with(used);
    }

    /// Makes a container.
    pub fn create_container(&mut self, container: &Container) {
        if let Some(containers) = &mut self.containers {
            containers.insert(container.as_str().to_owned());
        }
    }

    /// Deletes a container with all its locks, leased or not, and all documents, as Azure does.
    pub fn delete_container(&mut self, container: &Container) {
        self.locks.retain(|path, _| path.container() != container.as_str());
        self.documents.retain(|path, _| path.container() != container.as_str());
        if let Some(containers) = &mut self.containers {
            containers.remove(container.as_str());
        }
    }

    /// Deletes a lock with its break note, leased or not. Its plan stays, as after a lifecycle rule that took
    /// the lock.
    pub fn delete_lock(&mut self, path: &LockPath) {
        self.locks.remove(path);
    }

    /// Breaks the lease as another tool does: with a period of its own, and without a note (S22).
    ///
    /// # Errors
    /// `NotHeld`, `NotFound`.
    pub fn break_without_note(
        &mut self,
        path: &LockPath,
        period: Duration,
        now: Instant,
    ) -> Result<(), StoreError> {
        let lock = self.lock_mut(path)?;
        lock.lease = lock.lease.break_within(period, now)?;
        Ok(())
    }

    /// Replaces all fields as somebody does who names no lease: refused while the lock is leased, and ends
    /// what is left of a lease that ran out or was broken.
    ///
    /// # Errors
    /// `Contended`, `NotFound`.
    pub fn write_without_lease(
        &mut self,
        path: &LockPath,
        fields: Fields,
        now: Instant,
        time: StoreTime,
    ) -> Result<Written, StoreError> {
        let lease = self.lock_mut(path)?.lease.after_write_without_lease(now)?;
        Ok(self.replace_record(path, fields, lease, time))
    }

    /// The record as it is now, to come back to by [`Self::rewind_record`].
    #[must_use]
    pub fn copy_record(&self, path: &LockPath) -> Option<RecordCopy> {
        self.locks.get(path).map(|lock| lock.record.clone())
    }

    /// Puts an older record back, ETag and all, as an account that fails over to an older copy does (S5). The
    /// lease stays as it is: see [`Self::forget_lease`]. A lock that is not there comes back without a lease.
    pub fn rewind_record(&mut self, path: &LockPath, copy: RecordCopy) {
        let lease = self.locks.get(path).map(|lock| lock.lease);
        let note = self.read_break_note(path);
        let lock = MemoryLock { record: copy, lease: lease.unwrap_or(Lease::AVAILABLE), note };
        self.locks.insert(path.clone(), lock);
    }

    /// Drops the lease as if it had never been: a store that does this does not honour its leases (S1).
    pub fn forget_lease(&mut self, path: &LockPath) {
        if let Some(lock) = self.locks.get_mut(path) {
            lock.lease = Lease::AVAILABLE;
        }
    }
}
