//! How a caller comes to its lock's task, and how something is written that is nobody's to hold (T6).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::brought::Brings;
use super::caller::{Caller, HoldStream, Presence, Sink};
use super::shared::Shared;
use super::task::{Command, deliver};
use crate::coordinator::call::{CallError, Decider, HoldEvent};
use crate::coordinator::observe::{AcquireResult, LockEvent, LockEventKind};
use crate::coordinator::waiting::WaitKind;
use crate::hold::{CallerId, StoreFailureKind, Stored, Terms};
use crate::lock::{FencingToken, HostId, LeaseId, LockPath, Permit};
use crate::record::Record;
use crate::schedule::withdraw_over;

/// What a try to write something under a lock's lease has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settling {
    /// It is written.
    Written,
    /// Under the lease there was nothing to write.
    TurnedAway,
    /// Somebody else has the lock.
    Busy,
}

/// What a caller brings that writes something of its own.
#[derive(Debug)]
pub(crate) struct Brought {
    /// Decides what is written.
    pub(crate) decider: Decider,
    /// The lock as the caller read it just before.
    pub(crate) seen: Option<Box<Stored>>,
}

impl Shared {
    pub(in crate::coordinator) fn caller(
        &self,
        lease_id: LeaseId,
        host_id: HostId,
        terms: Arc<Terms>,
        sink: Sink,
    ) -> Caller {
        Caller {
            id: CallerId(self.callers.fetch_add(1, Ordering::Relaxed)),
            lease_id,
            host_id,
            is_run: false,
            terms,
            permit: Permit::FIRST,
            sink,
            arrived: self.clock.now(),
            granted: None,
            max_hold_ends: None,
            told: None,
            token: None,
            wait: None,
            trace: None,
        }
    }

    /// One try for the lock at this path, as `record` says who asks, for something that is written and
    /// nobody's to hold; until it is over.
    pub(in crate::coordinator) async fn settle_at(
        self: &Arc<Self>,
        path: &LockPath,
        record: Record,
        lease_duration: Duration,
        brought: Brought,
    ) -> Result<Settling, CallError> {
        let terms = Terms {
            resumable: true,
            record,
            decides: true,
            seen: brought.seen,
            ..Terms::plain(lease_duration, Duration::ZERO)
        };
        let mut hold = HoldStream::of(|sink| {
            let (lease_id, host_id) = (self.entropy.lease_id(), self.settings.host.host_id.clone());
            let caller = self.caller(lease_id, host_id, Arc::new(terms), sink);
            let brings = Brings::Written(brought.decider);
            self.come(path, WaitKind::Write, Caller { is_run: true, ..caller }, |caller| {
                Command::Arrive(caller, Some(brings))
            })
        })?;
        while let Some(event) = hold.next().await {
            if let HoldEvent::Settled { written } = event {
                return Ok(if written { Settling::Written } else { Settling::TurnedAway });
            }
            if let HoldEvent::Failed(error) = event {
                return Err(error);
            }
        }
        Ok(Settling::Busy)
    }

    /// T6: what may be written for a caller of these terms, which was then not granted, ends as returned:
    /// under the same lease, if that has not gone back yet. One try: somebody else may have gone on.
    pub(super) async fn withdraw(
        self: Arc<Self>,
        path: LockPath,
        terms: Arc<Terms>,
        ungranted: Vec<FencingToken>,
    ) {
        let (decider, _) = Decider::new(move |found| (withdraw_over(found, &ungranted), ()));
        let brought = Brought { decider, seen: None };
        let (record, lease_duration) = (terms.record.clone(), terms.lease_duration);
        // Where it cannot be written, the next caller takes it for an attempt.
        let _ = self.settle_at(&path, record, lease_duration, brought).await;
    }

    /// Lets a new caller in, within the limits, and sends it to its path's task.
    pub(in crate::coordinator) fn come(
        self: &Arc<Self>,
        path: &LockPath,
        kind: WaitKind,
        mut caller: Caller,
        command: impl FnOnce(Box<Caller>) -> Command,
    ) -> Result<Presence, CallError> {
        let mut registry = self.registry();
        let (wait, result) = if registry.is_draining() && kind != WaitKind::Write {
            let result = AcquireResult::Failed(StoreFailureKind::ShuttingDown);
            (Err(CallError::shutting_down()), result)
        } else {
            let admitted = registry.admit(path, &self.waiting, kind);
            (admitted, AcquireResult::OverLimit)
        };
        caller.wait = Some(wait.inspect_err(|_| {
            let refused = LockEventKind::NotGranted { result, waited: Duration::ZERO, busy: None };
            self.observe(&LockEvent::of(path, refused));
            // What comes for a caller that was never in the queue concerns its trace alone.
            if let Some(trace) = &caller.trace {
                trace.observe(&LockEvent::of(path, LockEventKind::Refused), self.clock.now());
            }
        })?);
        let id = caller.id;
        deliver(self, &mut registry, path, command(Box::new(caller)));
        Ok(Presence::new(Arc::clone(self), path.clone(), id))
    }
}
