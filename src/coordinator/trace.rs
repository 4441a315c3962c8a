//! Lets each hold be followed from its request to its end, for whoever shows traces. Nothing here knows how
//! they are shown. Where nobody follows, this costs a null pointer a caller.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::actor::caller::Caller;
use super::actor::task::Task;
use crate::coordinator::LockEvent;
use crate::hold::{Action, CallerId, Hold, Notice};
use crate::lock::{HostId, LeaseId, LockPath, Permit, Permits};
use crate::queue;
use crate::store::Operation;
use crate::time::Instant;

/// The trace that a caller is in, as it said so by the headers of W3C Trace Context; nothing of them is
/// checked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// The header `traceparent`, as it came.
    pub parent: String,
    /// The header `tracestate`, as it came.
    pub state: String,
}

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

fn goes_on(former: &TraceHandle, trace: &TraceHandle, at: Instant) {
    trace.linked(former.id(), TraceLink::ResumedFrom, at);
    former.linked(trace.id(), TraceLink::ResumedBy, at);
}

impl Task {
    /// Who follows the caller that requests for this permit are made for now.
    pub(super) fn served(&self, permit: Permit) -> Option<TraceHandle> {
        let caller = self.queue.machine(permit).and_then(Hold::serves)?;
        self.callers.get(&caller)?.trace.clone()
    }

    /// Links a grant with the hold that it goes on with (S16).
    pub(super) fn trace_resumption(&self, id: CallerId, lease_id: LeaseId) {
        let Some(trace) = self.callers.get(&id).and_then(|caller| caller.trace.as_ref()) else {
            return;
        };
        for (other, caller) in self.callers.iter() {
            let Some(former) = caller.trace.as_ref().filter(|_| *other != id) else { continue };
            if caller.lease_id == lease_id {
                goes_on(former, trace, self.shared.clock.now());
            }
        }
    }

    /// Links a hold with the one that its lock is handed on to, before it is told to be over (S10).
    pub(super) fn trace_hand_offs(&self, actions: &[queue::Action]) {
        for action in actions {
            let queue::Action::At {
                permit,
                action: Action::Tell { caller: id, notice: Notice::Granted(_) },
            } = action
            else {
                continue;
            };
            let Some(next) = self.callers.get(id) else { continue };
            for (_, former) in self.callers.iter() {
                if former.granted.is_some()
                    && former.permit == *permit
                    && former.lease_id != next.lease_id
                    && let (Some(former), Some(next)) = (&former.trace, &next.trace)
                {
                    let at = self.shared.clock.now();
                    next.linked(former.id(), TraceLink::HandedOnFrom, at);
                    former.linked(next.id(), TraceLink::HandedOnTo, at);
                }
            }
        }
    }

    /// A holder whose place another stream of its client has taken (S16); or a caller that waits, which is
    /// told elsewhere.
    pub(super) fn trace_resumed(&self, former: &Caller, by: CallerId) {
        let trace = self.callers.get(&by).and_then(|caller| caller.trace.as_ref());
        if let (Some(former), Some(trace), Some(_)) = (&former.trace, trace, former.granted) {
            goes_on(former, trace, self.shared.clock.now());
        }
    }
}
