//! Locks as a plain value: the contract as it is written, without IO and clock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::lock::{Container, LeaseId, LockPath};
use crate::record::Fields;
use crate::store::lease::Lease;
use crate::store::{
    Acquire, Acquired, BreakNote, DocumentPath, ETag, LeaseBroken, List, Listing, Renewed,
    StoreAnswer, StoreError, StoreRequest, StoreTime, StoredDocument, StoredLock, Write, Written,
};
use crate::time::Instant;

/// Locks, their records and their leases, driven from outside: each operation is told the store's time.
///
/// `now` moves leases and never goes back; `time` is the clock that the store tells, and may do as it likes.
#[derive(Clone, Debug, Default)]
pub struct MemoryLocks {
    pub(super) locks: BTreeMap<LockPath, MemoryLock>,
    /// What stands beside them, plans also of locks that are not there.
    pub(super) documents: BTreeMap<DocumentPath, StoredDocument>,
    /// Counts ETags: none is ever given twice, not even after a lock was deleted.
    versions: u64,
    /// The containers there are; `None` when every container is there.
    pub(super) containers: Option<BTreeSet<String>>,
}

#[derive(Clone, Debug)]
pub(super) struct MemoryLock {
    pub(super) record: RecordCopy,
    pub(super) lease: Lease,
    pub(super) note: Option<BreakNote>,
}

/// A record as it was at some moment, to go back to (S5: an account fails over to an older copy).
#[derive(Clone, Debug)]
pub struct RecordCopy {
    etag: ETag,
    fields: Fields,
    written_at: StoreTime,
}

impl MemoryLock {
    fn acquire(
        &mut self,
        request: &Acquire,
        now: Instant,
        time: StoreTime,
    ) -> Result<Acquired, StoreError> {
        let lease = self.lease.acquire(request.lease_id, request.duration, now)?;
        check_etag(request.if_match.as_ref(), &self.record.etag)?;
        self.lease = lease;
        Ok(Acquired { etag: self.record.etag.clone(), time, created: false, found: None })
    }

    fn stored(&self, now: Instant, time: StoreTime) -> StoredLock {
        StoredLock {
            etag: self.record.etag.clone(),
            fields: self.record.fields.clone(),
            lease: self.lease.state(now),
            written_at: self.record.written_at,
            time,
        }
    }
}

/// The operations of [`LeaseStore`](crate::store::LeaseStore), with its contract and its errors.
impl MemoryLocks {
    /// Does what is asked.
    ///
    /// # Errors
    /// Those of the request's method below.
    pub fn call(
        &mut self,
        request: StoreRequest,
        now: Instant,
        time: StoreTime,
    ) -> Result<StoreAnswer, StoreError> {
        Ok(match request {
            StoreRequest::Acquire(path, request) => {
                self.acquire(&path, &request, now, time)?.into()
            }
            StoreRequest::Renew { path, lease_id, if_match } => {
                self.renew(&path, lease_id, if_match.as_ref(), now, time)?.into()
            }
            StoreRequest::Release { path, lease_id, if_match } => {
                self.release(&path, lease_id, if_match.as_ref(), now)?.into()
            }
            StoreRequest::BreakLease { path, note, if_match } => {
                self.break_lease(&path, note, &if_match, now)?.into()
            }
            StoreRequest::WriteRecord(path, write) => {
                self.write_record(&path, write, now, time)?.into()
            }
            StoreRequest::ReadRecord(path) => self.read_record(&path, now, time)?.into(),
            StoreRequest::ReadBreakNote(path) => self.read_break_note(&path).into(),
            StoreRequest::ReadDocument(document) => self.read_document(&document, time).into(),
            StoreRequest::WriteDocument { document, text, if_match } => {
                self.write_document(document, text, if_match.as_ref(), time)?.into()
            }
            StoreRequest::DeletePlan { path, if_match } => {
                self.delete_plan(path, &if_match)?.into()
            }
            StoreRequest::ListPlans(request) => self.list_plans(&request).into(),
            StoreRequest::List(request) => self.list(&request, now, time).into(),
            StoreRequest::Delete { path, if_match } => self.delete(&path, &if_match, now)?.into(),
            StoreRequest::Check(container) => self.check(&container, time)?.into(),
        })
    }

    /// Leases the lock under the proposed id, making the lock first if it is not there.
    ///
    /// # Errors
    /// `Contended`, `Changed`, `ContainerMissing`; `Fatal` for a duration outside the contract.
    pub fn acquire(
        &mut self,
        path: &LockPath,
        request: &Acquire,
        now: Instant,
        time: StoreTime,
    ) -> Result<Acquired, StoreError> {
        self.check_container(path.container())?;
        if let Some(lock) = self.locks.get_mut(path) {
            return lock.acquire(request, now, time);
        }
        let lease = Lease::AVAILABLE.acquire(request.lease_id, request.duration, now)?;
        if request.if_match.is_some() {
            return Err(StoreError::Changed);
        }
        let record = self.next_record(Fields::new(), time);
        let etag = record.etag.clone();
        let lock = MemoryLock { record, lease, note: None };
        self.locks.insert(path.clone(), lock);
        Ok(Acquired { etag, time, created: true, found: None })
    }

    /// Restarts the lease's duration.
    ///
    /// # Errors
    /// `LeaseLost`, `Changed`, `NotFound`.
    #[expect(clippy::too_many_arguments, reason = "the store's two clocks beside the operation")]
    pub fn renew(
        &mut self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<&ETag>,
        now: Instant,
        time: StoreTime,
    ) -> Result<Renewed, StoreError> {
        let lock = self.lock_mut(path)?;
        let lease = lock.lease.renew(lease_id, now)?;
        check_etag(if_match, &lock.record.etag)?;
        lock.lease = lease;
        Ok(Renewed { time })
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// `LeaseLost`, `Changed`, `NotFound`.
    pub fn release(
        &mut self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<&ETag>,
        now: Instant,
    ) -> Result<(), StoreError> {
        let lock = self.lock_mut(path)?;
        let lease = lock.lease.release(lease_id, now)?;
        check_etag(if_match, &lock.record.etag)?;
        lock.lease = lease;
        Ok(())
    }

    /// Ends the lease without knowing its id, and keeps the note: of the record with this ETag, or of the
    /// note's grant.
    ///
    /// # Errors
    /// `NotHeld`, `NotFound`, `Changed`.
    pub fn break_lease(
        &mut self,
        path: &LockPath,
        note: BreakNote,
        if_match: &ETag,
        now: Instant,
    ) -> Result<LeaseBroken, StoreError> {
        let lock = self.lock_mut(path)?;
        let found = lock.lease.state(now);
        let (lease, remaining) = lock.lease.break_lease(note.period, now)?;
        if !note.is_of(&lock.record.fields) {
            check_etag(Some(if_match), &lock.record.etag)?;
        }
        lock.lease = lease;
        lock.note = Some(note.after(lock.note.as_ref(), found));
        Ok(LeaseBroken { remaining })
    }

    /// Replaces all fields of the record, under the lease.
    ///
    /// # Errors
    /// `LeaseLost`, `Changed`, `NotFound`.
    pub fn write_record(
        &mut self,
        path: &LockPath,
        write: Write,
        now: Instant,
        time: StoreTime,
    ) -> Result<Written, StoreError> {
        let lock = self.lock_mut(path)?;
        lock.lease.check_write(write.lease_id, now)?;
        check_etag(write.if_match.as_ref(), &lock.record.etag)?;
        let lease = lock.lease;
        Ok(self.replace_record(path, write.fields, lease, time))
    }

    /// Reads the record and the lease's state.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn read_record(
        &self,
        path: &LockPath,
        now: Instant,
        time: StoreTime,
    ) -> Result<StoredLock, StoreError> {
        let lock = self.locks.get(path).ok_or(StoreError::NotFound)?;
        Ok(lock.stored(now, time))
    }

    /// The note of the latest break of this lock.
    #[must_use]
    pub fn read_break_note(&self, path: &LockPath) -> Option<BreakNote> {
        self.locks.get(path).and_then(|lock| lock.note.clone())
    }

    /// One page of the locks whose names in the container begin with the prefix, in the order of their names.
    #[must_use]
    pub fn list(&self, request: &List, now: Instant, time: StoreTime) -> Listing {
        let locks = self.locks.range((page_begin(request), Bound::Unbounded));
        let stored = locks.map(|(path, lock)| (path, lock.stored(now, time)));
        let (locks, continuation) = page(stored, request);
        Listing { locks, continuation }
    }

    /// Deletes a lock that nobody has leased and whose record still has this ETag, with its break note and
    /// its plan.
    ///
    /// # Errors
    /// `Contended`, `Changed`, `NotFound`.
    pub fn delete(
        &mut self,
        path: &LockPath,
        if_match: &ETag,
        now: Instant,
    ) -> Result<(), StoreError> {
        let lock = self.lock_mut(path)?;
        if lock.lease.state(now).is_held() {
            return Err(StoreError::Contended);
        }
        check_etag(Some(if_match), &lock.record.etag)?;
        self.locks.remove(path);
        self.documents.remove(&DocumentPath::Plan(path.clone()));
        Ok(())
    }

    /// Whether the store can be used for locks of this container (S18).
    ///
    /// # Errors
    /// `ContainerMissing`, if containers are not made on first use.
    pub fn check(&self, container: &Container, time: StoreTime) -> Result<StoreTime, StoreError> {
        self.check_container(container.as_str())?;
        Ok(time)
    }
}

impl MemoryLocks {
    pub(super) fn lock_mut(&mut self, path: &LockPath) -> Result<&mut MemoryLock, StoreError> {
        self.locks.get_mut(path).ok_or(StoreError::NotFound)
    }

    fn next_record(&mut self, fields: Fields, written_at: StoreTime) -> RecordCopy {
        RecordCopy { etag: self.next_etag(), fields, written_at }
    }

    pub(super) fn next_etag(&mut self) -> ETag {
        self.versions += 1;
        ETag(format!("\"{}\"", self.versions).into())
    }

    pub(super) fn replace_record(
        &mut self,
        path: &LockPath,
        fields: Fields,
        lease: Lease,
        time: StoreTime,
    ) -> Written {
        let record = self.next_record(fields, time);
        let etag = record.etag.clone();
        if let Some(lock) = self.locks.get_mut(path) {
            lock.record = record;
            lock.lease = lease;
        }
        Written { etag }
    }

    pub(super) fn check_container(&self, container: &str) -> Result<(), StoreError> {
        match &self.containers {
            Some(there) if !there.contains(container) => Err(StoreError::ContainerMissing {
                container: container.to_owned(),
                advice: "create it, or allow containers to be created on first use".to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Where the page of `request` begins.
pub(super) fn page_begin(request: &List) -> Bound<LockPath> {
    match &request.continuation {
        None => Bound::Included(LockPath::from_parts(&request.container, &request.prefix)),
        Some(last) => Bound::Excluded(LockPath::from_parts(&request.container, last)),
    }
}

/// The page of `request` of what begins with it, and where the next one begins.
pub(super) fn page<'all, T>(
    all: impl Iterator<Item = (&'all LockPath, T)>,
    request: &List,
) -> (Vec<(LockPath, T)>, Option<String>) {
    let prefix = LockPath::from_parts(&request.container, &request.prefix);
    let mut found = all.take_while(|(path, _)| path.as_str().starts_with(prefix.as_str()));
    let page = found.by_ref().take(request.limit).map(|(path, value)| (path.clone(), value));
    let page: Vec<_> = page.collect();
    let last = page.last().filter(|_| found.next().is_some());
    let continuation = last.map(|(path, _)| path.name().to_owned());
    (page, continuation)
}

fn check_etag(wanted: Option<&ETag>, etag: &ETag) -> Result<(), StoreError> {
    match wanted {
        Some(wanted) if wanted != etag => Err(StoreError::Changed),
        Some(_) | None => Ok(()),
    }
}
