//! Where a lock is kept: the contract of every store, and the stores themselves.
//!
//! Rules: S5 and S6 (conditional writes, proposed lease ids), S8 (what an error means), S18 (absent stores
//! and containers), T3 and T21 (plans of schedules), T22 (statuses of .NET timers). May import: record, lock,
//! time (an injected `Clock`). To add an operation: a variant of [`StoreRequest`] and its name as an
//! [`Operation`], a line of `answers!` if its answer is of a new kind, and the compiler names the stores that
//! lack it; its method with its promises in [`LeaseStoreExt`]; its cases in `testing/conformance`, and one of
//! `telemetry/metered_store_tests.rs`; `make tables`. Wrappers pass requests on whole, and need nothing. To
//! add a backend: a file or folder here, an arm in `config`, one line in `tests/store_conformance`; what it
//! cannot do is named in its `Deviations`.

pub mod azure;
mod descriptors;
mod document;
mod error;
mod lease;
mod list;
mod memory;
mod operation;
mod request;
mod secret;
mod sqlite;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;

use crate::lock::{Container, FencingToken, LeaseId, LockPath};
use crate::record::{Fields, Priority, Record};
use crate::time::UnixMillis;

pub use crate::record::ETag;
pub use document::{
    DocumentKind, DocumentPath, DocumentRead, DocumentWritten, PlanListing, StoredDocument,
};
pub use error::{LeaseEnd, Source, StoreError};
pub use list::{List, Listing};
pub use memory::{MemoryLocks, MemoryStore, RecordCopy};
pub use operation::Operation;
pub use request::{StoreAnswer, StoreRequest};
pub use secret::Secret;
pub use sqlite::{SqliteStore, Usage};

/// Keeps locks: at most one lease each, and a record beside it.
///
/// # Contract
/// States × operations, where A is the lease id that the lock has or had last, and B any other:
///
/// | operation | available | leased by A | breaking (A) | broken (A) | expired (A) |
/// | --- | --- | --- | --- | --- | --- |
/// | acquire(A) | granted | granted, duration restarts (idempotent) | Contended | granted | granted |
/// | acquire(B) | granted | Contended | Contended | granted | granted |
/// | renew(A) | LeaseLost | renewed | LeaseLost | LeaseLost | renewed, only if nobody leased or wrote since; else LeaseLost |
/// | renew(B) | LeaseLost | LeaseLost | LeaseLost | LeaseLost | LeaseLost |
/// | release(A) | LeaseLost | available | available | available | available |
/// | release(B) | LeaseLost | LeaseLost | LeaseLost | LeaseLost | LeaseLost |
/// | break, no period or > 0 | NotHeld | breaking | breaking | broken | broken |
/// | break, period 0 | NotHeld | broken | broken | broken | broken |
/// | write record with A | LeaseLost | written | written | LeaseLost | LeaseLost |
/// | write record with B | LeaseLost | LeaseLost | LeaseLost | LeaseLost | LeaseLost |
/// | time passes | available | expired | broken | broken | expired |
///
/// - A lock that does not exist is made by acquire without `if_match`, is `Changed` to acquire with it, and
///   `NotFound` to everything else, whether or not its container exists. It has no break note.
/// - A store may give back names of fields in lower case, as HTTP does with names of headers.
/// - Operations on the lease change neither the record nor its [`ETag`]; every write of the record changes
///   the ETag.
/// - Where `if_match` is given and is not the record's ETag, the operation is not done, unless it says
///   otherwise. It answers [`StoreError::Changed`], or what it would have answered without the condition if
///   that is no success either.
/// - A lock may have a plan beside it, the text of its schedule (T3), also before the lock is there. Where
///   hosts of .NET share the store, their timers have a status (T22). Writing and deleting such a document
///   needs no lease. It has an ETag of its own: no operation on a lock changes that, and none on the document
///   changes a lease, a record or its ETag. The text is kept byte for byte.
/// - Only `delete` of the lock takes the plan along, and only after the lock (T21). If it is cut short
///   between the two, the plan stays; so it does where the lock was not there.
/// - An operation that answers `Unavailable` or `Throttled` with `sent: true` may have been done, or may be
///   done later.
/// - Nothing but `delete` ever deletes a lock, and nothing overwrites one that exists.
/// - Each operation but a listing is one try: no retrying inside (S7). Dropping the future may or may not
///   undo it.
#[async_trait]
pub trait LeaseStore: Send + Sync + fmt::Debug {
    /// Does what is asked, in one try. The answer belongs to the request, as [`LeaseStoreExt`] has them.
    ///
    /// # Errors
    /// Those of the request's method there.
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError>;

    /// What this store is, and what it does that not every store does.
    fn features(&self) -> Features;
}

/// What a store is, and what it does that not every store does. A wrapper has those of the store behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// A short name of the kind of store, for logs and metrics: `memory`, `sqlite`, `azure`.
    pub kind: &'static str,
    /// An acquire without `if_match` answers with the lock too, so that nobody need read it at the same time.
    pub tells_record: bool,
    /// Hosts of .NET can share this store, so that it keeps the status of their timers (T22). In one that
    /// they cannot share, reading and writing a status is `Fatal`.
    pub has_timers: bool,
}

/// The answer to one request, once the store has it.
pub trait Answering<T>: Future<Output = Result<T, StoreError>> + Send {}

impl<T, F: Future<Output = Result<T, StoreError>> + Send> Answering<T> for F {}

fn ask<T>(store: &(impl LeaseStore + ?Sized), request: StoreRequest) -> impl Answering<T>
where
    T: TryFrom<StoreAnswer, Error = StoreError>,
{
    let answer = store.call(request);
    async move { T::try_from(answer.await?) }
}

/// The requests of the contract as methods, of every store.
pub trait LeaseStoreExt: LeaseStore {
    /// Leases the lock under the proposed id, making the lock first if it is not there.
    ///
    /// # Errors
    /// `Contended`, `Changed`, `ContainerMissing`, `Recreated`, `Full`, and the faults of the store.
    fn acquire(&self, path: &LockPath, request: Acquire) -> impl Answering<Acquired> {
        ask(self, StoreRequest::Acquire(path.clone(), request))
    }

    /// Restarts the lease's duration. Only this proves that a hold went on (S6). With `if_match`, only if the
    /// record still has this ETag: a hold that was resumed elsewhere has another (S16).
    ///
    /// # Errors
    /// `LeaseLost`, `Changed`, `NotFound`, and the faults of the store.
    fn renew(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> impl Answering<Renewed> {
        ask(self, StoreRequest::Renew { path: path.clone(), lease_id, if_match })
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// `LeaseLost`, `Changed`, `NotFound`, and the faults of the store.
    fn release(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> impl Answering<()> {
        ask(self, StoreRequest::Release { path: path.clone(), lease_id, if_match })
    }

    /// Ends the lease without knowing its id, in the way that the note says, and keeps the note for the
    /// holder to read (S17, S22). Only while the grant stands that was looked at: the record still has this
    /// ETag, or names the token of the note (S17, S33). The note is there before the lease is broken, and is
    /// taken back if it is not. A note of a break that ended the same grant's lease at once is not made
    /// milder by a later one; nor is a break by another tool, which left none, made a notice by a note.
    ///
    /// # Errors
    /// `NotHeld`, `NotFound`, `Changed`, and the faults of the store.
    fn break_lease(
        &self,
        path: &LockPath,
        note: BreakNote,
        if_match: ETag,
    ) -> impl Answering<LeaseBroken> {
        ask(self, StoreRequest::BreakLease { path: path.clone(), note, if_match })
    }

    /// Replaces all fields of the record, under the lease.
    ///
    /// # Errors
    /// `LeaseLost`, `Changed`, `NotFound`, and the faults of the store.
    fn write_record(&self, path: &LockPath, write: Write) -> impl Answering<Written> {
        ask(self, StoreRequest::WriteRecord(path.clone(), write))
    }

    /// Reads the record and the lease's state.
    ///
    /// # Errors
    /// `NotFound`, and the faults of the store.
    fn read_record(&self, path: &LockPath) -> impl Answering<StoredLock> {
        ask(self, StoreRequest::ReadRecord(path.clone()))
    }

    /// The note of the latest break of this lock; `None` if it was never broken through this contract.
    ///
    /// # Errors
    /// The faults of the store.
    fn read_break_note(&self, path: &LockPath) -> impl Answering<Option<BreakNote>> {
        ask(self, StoreRequest::ReadBreakNote(path.clone()))
    }

    /// The document, if there is one, and the store's time. A container that is missing has none.
    ///
    /// # Errors
    /// The faults of the store. `Fatal` for what is no text, and for a plan that is too long; for a timer's
    /// status in a store that [has none](Features::has_timers).
    fn read_document(&self, document: DocumentPath) -> impl Answering<DocumentRead> {
        ask(self, StoreRequest::ReadDocument(document))
    }

    /// Writes the document, of at most [`max_bytes`](DocumentKind::max_bytes): with `if_match` in place of
    /// the one that has this ETag, without it only if there is none yet. A missing container is made then as
    /// for a lock (S18). Hosts of .NET write the status of a timer without any condition.
    ///
    /// # Errors
    /// `Changed`, also when the document with this ETag is gone; `ContainerMissing`; `Full`; `Fatal` for a
    /// text that is too long, and for a timer's status in a store that [has none](Features::has_timers); and
    /// the faults of the store.
    fn write_document(
        &self,
        document: DocumentPath,
        text: String,
        if_match: Option<ETag>,
    ) -> impl Answering<DocumentWritten> {
        ask(self, StoreRequest::WriteDocument { document, text, if_match })
    }

    /// Deletes the plan, if it still has this ETag.
    ///
    /// # Errors
    /// `Changed`, also when it is gone; and the faults of the store.
    fn delete_plan(&self, path: &LockPath, if_match: ETag) -> impl Answering<()> {
        ask(self, StoreRequest::DeletePlan { path: path.clone(), if_match })
    }

    /// One page of the locks that have a plan, whether or not the lock itself is there, and whose names in
    /// the container begin with `prefix`, in the order of their names. A name of more than 1,000 bytes may be
    /// left out.
    ///
    /// # Errors
    /// The faults of the store. A container that is missing has no plans.
    fn list_plans(&self, request: List) -> impl Answering<PlanListing> {
        ask(self, StoreRequest::ListPlans(request))
    }

    /// One page of the locks whose names in the container begin with `prefix`, in the order of their names.
    /// Plans and notes are none.
    ///
    /// # Errors
    /// The faults of the store. A container that is missing has no locks.
    fn list(&self, request: List) -> impl Answering<Listing> {
        ask(self, StoreRequest::List(request))
    }

    /// Deletes a lock that nobody has leased and whose record still has this ETag, with its break note and
    /// its plan.
    ///
    /// # Errors
    /// `Contended` when it is leased, `Changed`, `NotFound`, and the faults of the store.
    fn delete(&self, path: &LockPath, if_match: ETag) -> impl Answering<()> {
        ask(self, StoreRequest::Delete { path: path.clone(), if_match })
    }

    /// One cheap read that shows whether the store can be reached and lets us in (S18). A missing container
    /// that may be made on first use is no error.
    ///
    /// # Errors
    /// Why the store cannot be used now.
    fn check(&self, container: &Container) -> impl Answering<StoreTime> {
        ask(self, StoreRequest::Check(container.clone()))
    }
}

impl<S: LeaseStore + ?Sized> LeaseStoreExt for S {}

/// The store's clock at an answer. Its resolution may be a second.
pub type StoreTime = UnixMillis;

/// The shortest lease of the contract: Azure's.
pub const MIN_LEASE_DURATION: Duration = Duration::from_secs(15);
/// The longest lease of the contract: Azure's.
pub const MAX_LEASE_DURATION: Duration = Duration::from_secs(60);

/// How long nothing is granted in a container or file that was deleted and created again: leases died with
/// it, and their holders believe no longer than the longest lease (S18).
const GRACE_AFTER_LOSS: Duration = MAX_LEASE_DURATION;

/// Asks for a lease.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The proposed id, random and of this acquisition only (S6).
    pub lease_id: LeaseId,
    /// Whole seconds from 15 to 60.
    pub duration: Duration,
    /// Only if the record still has this ETag, so that a late duplicate fails (S6).
    pub if_match: Option<ETag>,
}

/// A lease was given.
#[derive(Clone, Debug)]
pub struct Acquired {
    /// The record's ETag.
    pub etag: ETag,
    /// The store's clock.
    pub time: StoreTime,
    /// The lock was made by this acquire: it has no fields yet.
    pub created: bool,
    /// The lock as it was before, or as it was made, from a store that tells it:
    /// [`Features::tells_record`].
    pub found: Option<StoredLock>,
}

/// A lease was renewed.
#[derive(Clone, Debug)]
pub struct Renewed {
    /// The store's clock.
    pub time: StoreTime,
}

/// How a break ends the lease (S17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakPeriod {
    /// It runs out as it would have: nobody else gets it before. Safe.
    RunOut,
    /// It ends at once: the old holder may not know yet.
    Now,
}

impl BreakPeriod {
    /// As it stands in a stored note.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::RunOut => "run-out",
            Self::Now => "now",
        }
    }

    /// From a stored note.
    pub(crate) fn from_stored(text: &str) -> Self {
        if text == Self::RunOut.as_str() { Self::RunOut } else { Self::Now }
    }
}

/// How, why and by whom a lock was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakNote {
    /// How its lease ends. A note that does not say it, or not so that it can be read, counts as `Now`.
    pub period: BreakPeriod,
    /// The operator's reason.
    pub reason: String,
    /// Who broke it, for people.
    pub by: String,
    /// The token of the record when it was broken: the note is for that grant and its hand-offs only.
    pub token: Option<FencingToken>,
    /// When: by the breaker's wall clock, for people; by the store's clock where it was broken for a waiting
    /// caller.
    pub at: UnixMillis,
    /// The priority of the waiting caller for which it was broken (S33, S35); none if an operator broke it.
    pub for_priority: Option<Priority>,
}

impl BreakNote {
    /// Why, and by whom where that is known; for people.
    #[must_use]
    pub fn text(&self) -> String {
        match self.by.as_str() {
            "" => self.reason.clone(),
            by => format!("{} (by {by})", self.reason),
        }
    }

    /// Whether the note is about the grant with this token or one that was handed on from it (S10).
    #[must_use]
    pub fn is_about(&self, token: Option<FencingToken>) -> bool {
        self.token.is_some()
            && self.token.map(FencingToken::epoch) == token.map(FencingToken::epoch)
    }

    /// Whether the record with these fields is that of the grant which is broken: it may have been written
    /// since it was looked at, by a save or a resume (S17, S33).
    pub(crate) fn is_of(&self, fields: &Fields) -> bool {
        self.token.is_some() && self.token == Record::from_fields(fields).token
    }

    /// This note in the place of `former`, of a lease that is found like this: one that was broken at once
    /// stays so. Where it was broken and no note says how, another tool did that, and it may end sooner than
    /// it would have run out (S22).
    pub(crate) fn after(self, former: Option<&Self>, found: LeaseState) -> Self {
        let ends = match former.filter(|former| former.is_about(self.token)) {
            Some(former) => former.period == BreakPeriod::Now,
            None => matches!(found, LeaseState::Breaking | LeaseState::Broken),
        };
        Self { period: if ends { BreakPeriod::Now } else { self.period }, ..self }
    }
}

/// A lease is ending or has ended by a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBroken {
    /// How long until the lock is free.
    pub remaining: Duration,
}

/// Replaces a record.
#[derive(Clone, Debug)]
pub struct Write {
    /// The lease under which it is written.
    pub lease_id: LeaseId,
    /// Only if the record still has this ETag.
    pub if_match: Option<ETag>,
    /// All its fields.
    pub fields: Fields,
}

/// A record was replaced.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its new ETag.
    pub etag: ETag,
}

/// A lock as the store has it.
#[derive(Clone, Debug)]
pub struct StoredLock {
    /// The record's ETag.
    pub etag: ETag,
    /// The record's fields, those of others included.
    pub fields: Fields,
    /// What the lease is doing.
    pub lease: LeaseState,
    /// When the record was last written, by the store's clock.
    pub written_at: StoreTime,
    /// The store's clock.
    pub time: StoreTime,
}

/// What the lease of a lock is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Never leased, or given back.
    Available,
    /// Somebody has it.
    Leased,
    /// Broken, and running out.
    Breaking,
    /// Broken, and free.
    Broken,
    /// Run out, and free.
    Expired,
}

impl LeaseState {
    /// Whether nobody can acquire the lock under another id.
    #[must_use]
    pub const fn is_held(self) -> bool {
        match self {
            Self::Leased | Self::Breaking => true,
            Self::Available | Self::Broken | Self::Expired => false,
        }
    }
}
