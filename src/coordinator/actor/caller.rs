//! A caller of the sidecar: where its answers go, and how its going away is noticed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::shared::Shared;
use super::task::Command;
use crate::coordinator::call::{CallError, Grant, HoldEvent, Outcome};
use crate::coordinator::trace::TraceHandle;
use crate::coordinator::unread::{Teller, Unread, unread};
use crate::coordinator::waiting::Wait;
use crate::hold::{CallerId, Granted, Terms};
use crate::lock::{FencingToken, HostId, LeaseId, LockPath, Permit};
use crate::time::Instant;
use tokio::sync::oneshot;

/// A caller, as its path's task knows it.
#[derive(Debug)]
pub(in crate::coordinator) struct Caller {
    pub(in crate::coordinator) id: CallerId,
    /// The id of its hold, once it has one.
    pub(in crate::coordinator) lease_id: LeaseId,
    pub(in crate::coordinator) host_id: HostId,
    pub(in crate::coordinator) terms: Arc<Terms>,
    /// It is a run of a schedule, or a write for one, whose log has lines of its own (T23).
    pub(in crate::coordinator) is_run: bool,
    /// Which permit it has, or wants to resume (S28).
    pub(in crate::coordinator) permit: Permit,
    pub(in crate::coordinator) sink: Sink,
    pub(in crate::coordinator) arrived: Instant,
    pub(in crate::coordinator) granted: Option<Instant>,
    /// When `max_hold` ends, with what has extended it (S11).
    pub(in crate::coordinator) max_hold_ends: Option<Instant>,
    /// What it was granted, without the checkpoint: for the resume tokens of a stream (S16).
    pub(in crate::coordinator) told: Option<Box<Granted>>,
    /// The token of its hold, or of the one that it wants to resume.
    pub(in crate::coordinator) token: Option<FencingToken>,
    /// Counts it among the waiting until it is granted something (S38).
    pub(in crate::coordinator) wait: Option<Wait>,
    /// Who follows it, if anybody does.
    pub(in crate::coordinator) trace: Option<TraceHandle>,
}

/// Where a caller's answers go.
#[derive(Debug)]
pub(in crate::coordinator) enum Sink {
    /// A unary call: one answer; empty once it was given.
    Unary(Option<oneshot::Sender<Result<Outcome, CallError>>>),
    /// A stream of events, until the last one.
    Stream(Teller<HoldEvent>),
}

impl Sink {
    pub(in crate::coordinator) const fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Answers a unary call; to a stream the answer is an event, too.
    pub(super) fn end(&mut self, answer: Result<Outcome, CallError>) {
        match self {
            Self::Unary(_) => self.answer(answer),
            Self::Stream(_) => self.event(answer.into()),
        }
    }

    /// Answers a unary call; a stream has its events instead.
    pub(super) fn answer(&mut self, answer: Result<Outcome, CallError>) {
        if let Self::Unary(reply) = self
            && let Some(reply) = reply.take()
        {
            // A receiver that is gone has sent `Leave`, which ends the hold (S6).
            let _ = reply.send(answer);
        }
    }

    /// Sends an event to a stream.
    pub(super) fn event(&self, event: HoldEvent) {
        if let Self::Stream(events) = self {
            let told = events.tell(event);
            debug_assert!(told, "one of each kind is unread at the most");
        }
    }
}

/// Tells the task when a caller goes away before it has its answer.
#[derive(Debug)]
pub(in crate::coordinator) struct Presence {
    shared: Arc<Shared>,
    path: LockPath,
    id: CallerId,
    done: bool,
}

impl Presence {
    pub(super) const fn new(shared: Arc<Shared>, path: LockPath, id: CallerId) -> Self {
        Self { shared, path, id, done: false }
    }

    /// The answer is with the caller: its going away means nothing any more.
    pub(in crate::coordinator) const fn done(&mut self) {
        self.done = true;
    }

    /// The answer of a call that can be repeated is with its caller.
    pub(in crate::coordinator) fn confirm(&self) {
        self.send(Command::Confirm(self.id));
    }

    /// The last word of a caller.
    fn end(mut self, word: fn(CallerId) -> Command) {
        self.done = true;
        self.send(word(self.id));
    }

    fn send(&self, command: Command) {
        // No task: the caller's hold has ended already.
        let _ = self.shared.registry().send(&self.path, command);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if !self.done {
            self.send(Command::Leave(self.id));
        }
    }
}

/// A hold by stream, from its request to its end (S14).
///
/// Dropping it before its last event says that the client released its hold. [`HoldStream::disconnected`]
/// says that the client may not know that its stream ended. After its last event dropping it says nothing,
/// since the stream's end is then the sidecar's doing and the client may not have read it yet (S13);
/// [`HoldStream::closed_by_client`] says that it has.
#[derive(Debug)]
pub struct HoldStream {
    events: Unread<HoldEvent>,
    presence: Presence,
}

impl HoldStream {
    pub(in crate::coordinator) fn of(
        come: impl FnOnce(Sink) -> Result<Presence, CallError>,
    ) -> Result<Self, CallError> {
        let (teller, events) = unread();
        Ok(Self { events, presence: come(Sink::Stream(teller))? })
    }

    /// The next event; none after the last one.
    pub async fn next(&mut self) -> Option<HoldEvent> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The next event, as `Stream` implementations ask for it; none after the last one.
    pub fn poll_next(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<HoldEvent>> {
        let event = std::task::ready!(self.events.poll_next(context));
        if event.as_ref().is_none_or(HoldEvent::is_last) {
            self.presence.done();
        }
        std::task::Poll::Ready(event)
    }

    /// The client closed its side: it does not rely on its hold any more, so the lock need not wait for the
    /// end of the validity that it was told (S13, S15).
    pub fn closed_by_client(self) {
        self.presence.end(Command::Leave);
    }

    /// The stream ended in a way that does not show that the client knows: the client may resume, and nobody
    /// else is granted the lock before the validity that it was told last is over (S14).
    pub fn disconnected(self) {
        self.presence.end(Command::Disconnected);
    }
}

/// The grants of one path's task that repeated calls are answered with.
#[derive(Debug, Default)]
pub(super) struct GrantsByRequest(BTreeMap<CallerId, SharedGrant>);

#[derive(Debug)]
struct SharedGrant {
    grant: Box<Grant>,
    /// Calls that were answered with the grant and may go away before they have the answer. Empty once one of
    /// them has it: the outcome of the others then does not matter any more.
    unconfirmed: Vec<CallerId>,
}

/// What the going away of a caller means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// It shared no grant.
    Alone,
    /// Another call has the grant, or may yet get it.
    OneOfMany,
    /// It was the last that could have received the grant of this holder (S6).
    Last(CallerId),
}

impl GrantsByRequest {
    pub(super) fn insert(&mut self, holder: CallerId, grant: Box<Grant>) {
        self.0.insert(holder, SharedGrant { grant, unconfirmed: vec![holder] });
    }

    /// The grant of `holder`, which `caller` is told too.
    pub(super) fn repeat(&mut self, holder: CallerId, caller: CallerId) -> Option<Box<Grant>> {
        let entry = self.0.get_mut(&holder)?;
        if !entry.unconfirmed.is_empty() {
            entry.unconfirmed.push(caller);
        }
        Some(entry.grant.clone())
    }

    /// `caller` has its answer.
    pub(super) fn confirm(&mut self, caller: CallerId) {
        for entry in self.0.values_mut() {
            if entry.unconfirmed.contains(&caller) {
                entry.unconfirmed = Vec::new();
            }
        }
    }

    /// `caller` went away without its answer.
    pub(super) fn leave(&mut self, caller: CallerId) -> Departure {
        for (holder, entry) in &mut self.0 {
            if let Some(index) = entry.unconfirmed.iter().position(|one| *one == caller) {
                if entry.unconfirmed.len() == 1 {
                    return Departure::Last(*holder);
                }
                entry.unconfirmed.swap_remove(index);
                return Departure::OneOfMany;
            }
        }
        if self.0.contains_key(&caller) { Departure::OneOfMany } else { Departure::Alone }
    }

    /// The hold is over.
    pub(super) fn remove(&mut self, holder: CallerId) {
        self.0.remove(&holder);
    }
}
