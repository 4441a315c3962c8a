//! Locks in one SQLite file that all processes of a machine share: the embedded store.
//!
//! Rules: S1 and S3 (leases run on the kernel's boot clock, and over a reboot), S5 (records reach the disk
//! before they count; what each write needs stands at `Durability`), S18 (a file that was deleted or cut, a
//! disk that somebody else fills: `room.rs`). The file is for one kernel: on a disk that several machines
//! mount, their locks would not exclude each other.
//!
//! # Time
//! A lease is kept as a raw reading of CLOCK_BOOTTIME and the boot id it was read under; all processes of a
//! kernel read that clock alike, since what a time namespace adds is taken off. A lease of another boot
//! counts as running for its whole duration from when this boot first sees it, because a caller on another
//! machine may still believe: whoever looks first writes that down for all. The clock is read inside the
//! transaction: a reading from before a wait for the file would be stale.

mod batch;
mod error;
mod file;
mod locks;
mod plans;
mod room;
mod schema;
mod session;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use super::plan::check_plan;
use super::{
    Acquire, Acquired, BreakNote, ETag, LeaseBroken, LeaseStore, List, Listing, PlanListing,
    PlanRead, PlanWritten, Renewed, StoreError, StoreTime, StoredLock, Usage, Write, Written,
};
use crate::lock::{Container, LeaseId, LockPath};
use crate::time::Clock;
use batch::{Queued, QueuedOperation};
use error::SqliteError;
use locks::Locks;
use session::{Access, Durability, Session};

/// A [`LeaseStore`] in a SQLite file, which other processes of this machine may use at the same time.
///
/// One thread of its own does all work on the file; it ends when the store is dropped.
pub struct SqliteStore {
    file: Arc<PathBuf>,
    most: Option<u64>,
    jobs: mpsc::Sender<Job>,
}

/// What the thread does.
enum Job {
    Operation(Box<dyn QueuedOperation>),
    /// One whose caller goes on with another at once: an acquire, which the record's write follows.
    First(Box<dyn QueuedOperation>),
    /// What a test does with the session itself.
    #[cfg(test)]
    Session(Box<dyn FnOnce(&mut Session) + Send>),
}

const LEASE: Access = Access::Write(Durability::Lease);
const RECORD: Access = Access::Write(Durability::Record);

/// How often the thread looks for what follows an acquire before it sleeps: that takes less time than to be
/// woken up.
const LOOKS: usize = 100;

/// The thread's stack, which SQLite's parser needs most of; its default of 2 MiB is of no use.
const STACK_BYTES: usize = 512 * 1_024;

impl SqliteStore {
    /// Opens the file, or makes it, readable for this user only, if it is not there. Its folder must be
    /// there.
    ///
    /// Blocks for as long as the disk takes, and for up to two seconds if another process is making the file.
    ///
    /// # Errors
    /// `Denied` without the right to read and write the file and its folder; `Fatal` when it is no database
    /// of Leasehold, was written by a newer version, is damaged or was cut, others may read or write it, or
    /// the disk is full; `Unavailable` when another process keeps it locked. Each names the file and what to
    /// do, and nothing is ever deleted.
    pub fn open(file: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_limited(file, clock, None)
    }

    /// As [`SqliteStore::open`], for no more locks and plans together than `most`: what would be one more is
    /// refused (`Full`).
    ///
    /// # Errors
    /// As there.
    pub fn open_limited(
        file: &Path,
        clock: Arc<dyn Clock>,
        most: Option<u64>,
    ) -> Result<Self, StoreError> {
        let mut session = Session::new(file.to_owned(), clock, most);
        session.open().map_err(|error| error.into_store_error(file))?;
        // Where that fails, on a full disk perhaps, whoever meets such a lease does it.
        let _ = session.see_leases();
        if let Err(error) = session.take_room() {
            let error = error.into_store_error(file);
            tracing::warn!(error = %error.chain(), "no room can be taken on the disk beforehand");
        }
        let (jobs, queue) = mpsc::channel(batch::LARGEST);
        let work = move || work(session, queue);
        std::thread::Builder::new()
            .name("sqlite-store".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(work)
            .map_err(|error| SqliteError::Thread(error).into_store_error(file))?;
        Ok(Self { file: Arc::new(file.to_owned()), most, jobs })
    }

    /// Has the thread do `operation`, unless its caller has gone before its turn.
    async fn perform<T, F>(&self, access: Access, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Locks<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        self.ask(Job::Operation, access, operation).await
    }

    async fn ask<T, F>(
        &self,
        job: fn(Box<dyn QueuedOperation>) -> Job,
        access: Access,
        operation: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Locks<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let operation = Box::new(Queued::new(access, operation, answer));
        let done = match self.jobs.send(job(operation)).await {
            Ok(()) => answered.await.unwrap_or(Err(SqliteError::ThreadGone { begun: true })),
            Err(_) => Err(SqliteError::ThreadGone { begun: false }),
        };
        done.map_err(|error| error.into_store_error(&self.file))
    }

    #[cfg(test)]
    async fn run<T, F>(&self, look: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Session) -> Result<T, SqliteError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let look = Box::new(move |session: &mut Session| drop(answer.send(look(session))));
        drop(self.jobs.send(Job::Session(look)).await);
        let done = answered.await.unwrap_or(Err(SqliteError::ThreadGone { begun: true }));
        done.map_err(|error| error.into_store_error(&self.file))
    }
}

/// Does what comes, and together what came meanwhile.
fn work(mut session: Session, mut queue: mpsc::Receiver<Job>) {
    let mut jobs = Vec::new();
    let mut is_followed = false;
    while next_jobs(&mut queue, &mut jobs, is_followed) > 0 {
        // With several callers there is always somebody whose operation comes, and what comes together costs
        // less.
        is_followed = matches!(jobs[..], [Job::First(_)]);
        let mut operations = Vec::with_capacity(jobs.len());
        for job in jobs.drain(..) {
            match job {
                Job::Operation(operation) | Job::First(operation) => operations.push(operation),
                #[cfg(test)]
                Job::Session(look) => look(&mut session),
            }
        }
        batch::perform(&mut session, operations);
    }
}

/// Takes what has come, or waits for it; none when nobody is left to ask.
fn next_jobs(queue: &mut mpsc::Receiver<Job>, jobs: &mut Vec<Job>, is_soon: bool) -> usize {
    for _ in 0..if is_soon { LOOKS } else { 0 } {
        if let Ok(job) = queue.try_recv() {
            jobs.push(job);
            return 1;
        }
        std::thread::yield_now();
    }
    queue.blocking_recv_many(jobs, batch::LARGEST)
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SqliteStore").field("file", &self.file).finish_non_exhaustive()
    }
}

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn acquire(&self, path: &LockPath, request: Acquire) -> Result<Acquired, StoreError> {
        let path = path.clone();
        self.ask(Job::First, LEASE, move |locks| locks.acquire(&path, &request)).await
    }

    async fn renew(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        let path = path.clone();
        let renew = move |locks: &Locks<'_>| {
            let (etag, lease) = locks.lease(&path)?;
            let lease = lease.renew(lease_id, locks.now())?;
            etag.check(if_match.as_ref())?;
            locks.put_lease(&path, lease)?;
            Ok(Renewed { time: locks.time() })
        };
        self.perform(LEASE, renew).await
    }

    async fn release(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<(), StoreError> {
        let path = path.clone();
        let release = move |locks: &Locks<'_>| {
            let (etag, lease) = locks.lease(&path)?;
            let lease = lease.release(lease_id, locks.now())?;
            etag.check(if_match.as_ref())?;
            locks.put_lease(&path, lease)
        };
        self.perform(LEASE, release).await
    }

    async fn break_lease(
        &self,
        path: &LockPath,
        note: BreakNote,
        if_match: ETag,
    ) -> Result<LeaseBroken, StoreError> {
        let path = path.clone();
        let end = move |locks: &Locks<'_>| {
            let (etag, lease) = locks.lease(&path)?;
            let (lease, remaining) = lease.break_lease(note.period, locks.now())?;
            if etag.check(Some(&if_match)).is_err() && !note.is_of(&locks.stored(&path)?.fields) {
                return Err(StoreError::Changed.into());
            }
            locks.put_lease(&path, lease)?;
            let former = locks.note(&path)?;
            locks.put_note(&path, &note.clone().after(former.as_ref()))?;
            Ok(LeaseBroken { remaining })
        };
        self.perform(RECORD, end).await
    }

    async fn write_record(&self, path: &LockPath, write: Write) -> Result<Written, StoreError> {
        let path = path.clone();
        let replace = move |locks: &Locks<'_>| {
            let (etag, lease) = locks.lease(&path)?;
            lease.check_write(write.lease_id, locks.now())?;
            etag.check(write.if_match.as_ref())?;
            Ok(Written { etag: locks.put_fields(&path, &write.fields)? })
        };
        self.perform(RECORD, replace).await
    }

    async fn read_record(&self, path: &LockPath) -> Result<StoredLock, StoreError> {
        let path = path.clone();
        self.perform(Access::Read, move |locks| locks.stored(&path)).await
    }

    async fn read_break_note(&self, path: &LockPath) -> Result<Option<BreakNote>, StoreError> {
        let path = path.clone();
        self.perform(Access::Read, move |locks| locks.note(&path)).await
    }

    async fn read_plan(&self, path: &LockPath) -> Result<PlanRead, StoreError> {
        let path = path.clone();
        self.perform(Access::Read, move |locks| locks.read_plan(&path)).await
    }

    async fn write_plan(
        &self,
        path: &LockPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<PlanWritten, StoreError> {
        check_plan(&text)?;
        let path = path.clone();
        let write = move |locks: &Locks<'_>| locks.write_plan(&path, &text, if_match.as_ref());
        self.perform(RECORD, write).await
    }

    async fn delete_plan(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        let path = path.clone();
        self.perform(RECORD, move |locks| locks.delete_plan(&path, &if_match)).await
    }

    async fn list_plans(&self, request: List) -> Result<PlanListing, StoreError> {
        self.perform(Access::Read, move |locks| locks.list_plans(&request)).await
    }

    async fn list(&self, request: List) -> Result<Listing, StoreError> {
        self.perform(Access::Read, move |locks| locks.list(&request)).await
    }

    async fn delete(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        let path = path.clone();
        let delete = move |locks: &Locks<'_>| {
            let (etag, lease) = locks.lease(&path)?;
            if lease.state(locks.now()).is_held() {
                return Err(StoreError::Contended.into());
            }
            etag.check(Some(&if_match))?;
            locks.delete(&path)?;
            locks.drop_plan(&path)
        };
        self.perform(RECORD, delete).await
    }

    /// Containers need no making here: they are a part of the name.
    async fn check(&self, _container: &Container) -> Result<StoreTime, StoreError> {
        self.perform(Access::Read, |locks| locks.check()).await
    }

    async fn usage(&self) -> Result<Option<Usage>, StoreError> {
        let Some(most) = self.most else { return Ok(None) };
        let entries = self.perform(Access::Read, |locks| locks.entries()).await?;
        Ok(Some(Usage { entries, most }))
    }

    fn tells_record(&self) -> bool {
        true
    }

    fn kind(&self) -> &'static str {
        "sqlite"
    }
}

#[cfg(test)]
mod tests;
