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
mod documents;
mod error;
mod file;
mod locks;
mod room;
mod schema;
mod session;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use super::{Features, LeaseStore, StoreAnswer, StoreError, StoreRequest};
use crate::lock::Container;
use crate::time::Clock;
use batch::{Queued, QueuedOperation};
use error::SqliteError;
use locks::Locks;
use session::{Access, Durability, Session};

/// A [`LeaseStore`] in a SQLite file, which other processes of this machine may use at the same time.
///
/// One thread of its own does all work on the file; it ends when the store is dropped.
#[derive(Debug)]
pub struct SqliteStore {
    file: Arc<PathBuf>,
    most: Option<u64>,
    jobs: mpsc::Sender<Job>,
}

/// How much of what it may have a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Locks and plans.
    pub entries: u64,
    /// So many may be there.
    pub most: u64,
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

    /// How much of its limit is there; none if it has no limit.
    ///
    /// # Errors
    /// The faults of the store.
    pub async fn usage(&self) -> Result<Option<Usage>, StoreError> {
        let Some(most) = self.most else { return Ok(None) };
        let entries = self.perform(Job::Operation, Access::Read, |locks| locks.entries()).await?;
        Ok(Some(Usage { entries, most }))
    }

    /// The containers that have locks here.
    ///
    /// # Errors
    /// The faults of the store.
    pub async fn containers(&self) -> Result<Vec<Container>, StoreError> {
        self.perform(Job::Operation, Access::Read, |locks| locks.containers()).await
    }

    /// Has the thread do `operation`, unless its caller has gone before its turn.
    async fn perform<T, F>(
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

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        let is_acquire = matches!(request, StoreRequest::Acquire(..));
        let job = if is_acquire { Job::First } else { Job::Operation };
        self.perform(job, access(&request), move |locks| locks.call(&request)).await
    }

    fn features(&self) -> Features {
        Features { kind: "sqlite", tells_record: true, has_timers: false }
    }
}

/// What the transaction of a request is for.
const fn access(request: &StoreRequest) -> Access {
    match request {
        StoreRequest::Acquire(..) | StoreRequest::Renew { .. } | StoreRequest::Release { .. } => {
            Access::Write(Durability::Lease)
        }
        StoreRequest::BreakLease { .. }
        | StoreRequest::WriteRecord(..)
        | StoreRequest::WriteDocument { .. }
        | StoreRequest::DeletePlan { .. }
        | StoreRequest::Delete { .. } => Access::Write(Durability::Record),
        StoreRequest::ReadRecord(_)
        | StoreRequest::ReadBreakNote(_)
        | StoreRequest::ReadDocument(_)
        | StoreRequest::ListPlans(_)
        | StoreRequest::List(_)
        | StoreRequest::Check(_) => Access::Read,
    }
}

#[cfg(test)]
mod tests;
