//! Lets each hold be followed from its request to its end, for whoever shows traces. Nothing here knows how
//! they are shown. Where nobody follows, this costs a null pointer a caller.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::call::TraceContext;
use super::observe::LockEvent;
use crate::lock::{HostId, LockPath, Permits};
use crate::store::Operation;
use crate::time::Instant;

/// Where in which trace a hold is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId {
    /// The id of the trace.
    pub trace: [u8; 16],
    /// The place in it.
    pub span: [u8; 8],
}

/// A caller asks for a lock, or to go on with a hold.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The lock's own path.
    pub path: &'a LockPath,
    /// The host id in it.
    pub host_id: &'a HostId,
    /// Who asks, for people.
    pub holder: &'a str,
    /// How many may hold the lock at once (S28).
    pub permits: Permits,
    /// When it came.
    pub arrived: Instant,
    /// Whether it resumes a hold (S16).
    pub resumes: bool,
    /// The trace that it is in.
    pub context: Option<&'a TraceContext>,
}

/// What two holds have to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceLink {
    /// The lock was handed on from the other hold, without the store (S10).
    HandedOnFrom,
    /// The lock was handed on to the other hold.
    HandedOnTo,
    /// It goes on with the other one, whose stream broke (S16).
    ResumedFrom,
    /// The other one goes on with it here by another stream: what is followed is over.
    ResumedBy,
}

/// A request to the store that was made for a hold.
#[derive(Clone, Copy, Debug)]
pub struct TracedRequest {
    /// What was asked.
    pub operation: Operation,
    /// When it was sent.
    pub sent: Instant,
    /// When it was answered or given up.
    pub ended: Instant,
    /// How it ended: a stable name.
    pub outcome: &'static str,
    /// Whether it was done, or says only that somebody else has the lock.
    pub expected: bool,
    /// The kind of the store.
    pub store: &'static str,
}

/// Takes in what happens. Must not block.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Takes in what happened here.
    fn observe(&self, event: &LockEvent<'_>);

    /// A caller asks for a lock: who follows it to the end of its hold, if anybody does.
    fn follow(&self, asked: &Asked<'_>) -> Option<TraceHandle> {
        let _ = asked;
        None
    }
}

/// Follows one caller, from its request to the end of its hold. Nothing of it may block.
pub trait HoldTrace: Send + Sync + fmt::Debug {
    /// Where it is followed.
    fn id(&self) -> TraceId;
    /// Something happened to it; nothing comes after its end. One that is dropped before is gone without an
    /// outcome.
    fn observe(&self, event: &LockEvent<'_>, at: Instant);
    /// It has to do with another hold.
    fn linked(&self, other: TraceId, how: TraceLink, at: Instant);
    /// A request to the store was made for it.
    fn requested(&self, request: &TracedRequest);
}

/// A hold that is followed. The clones are one.
#[derive(Clone, Debug)]
pub struct TraceHandle(Arc<dyn HoldTrace>);

impl Deref for TraceHandle {
    type Target = dyn HoldTrace;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

tokio::task_local! {
    /// The hold that a request to the store is made for.
    static FOLLOWED: TraceHandle;
}

impl TraceHandle {
    /// Follows a hold by `trace`.
    pub fn new(trace: impl HoldTrace + 'static) -> Self {
        Self(Arc::new(trace))
    }

    /// The hold for which the store is being asked by who calls this, if it is followed.
    #[must_use]
    pub fn current() -> Option<Self> {
        FOLLOWED.try_with(Self::clone).ok()
    }

    /// Runs `request` as one for this hold.
    pub(super) async fn around<T>(self, request: impl Future<Output = T>) -> T {
        FOLLOWED.scope(self, request).await
    }
}

/// Observes nothing, for tests and tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, _event: &LockEvent<'_>) {}
}
