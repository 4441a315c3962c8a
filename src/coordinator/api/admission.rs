//! How a caller comes to its lock's task: with what it asks for, and what it brings (T6).

use std::sync::Arc;
use std::time::Duration;

use super::decider::Decider;
use super::error::CallError;
use super::hold_event::{HeldEvent, HoldEvent};
use super::occurrences::Named;
use super::request::{HoldRequest, Target};
use crate::coordinator::Coordinator;
use crate::coordinator::actor::brought::Brings;
use crate::coordinator::actor::caller::{Caller, HoldStream, Presence, Sink};
use crate::coordinator::actor::task::Command;
use crate::coordinator::trace::{Asked, TraceHandle};
use crate::coordinator::unread::unread;
use crate::coordinator::waiting::WaitKind;
use crate::hold::{Stored, Terms};
use crate::lock::{HostId, LockPath, Permit, Permits};
use crate::record::Record;
use crate::schedule::check_key;

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

/// A caller that comes to a lock.
struct Arrival<'a> {
    path: &'a LockPath,
    host_id: HostId,
    terms: Terms,
    sink: Sink,
    trace: Option<TraceHandle>,
    brings: Option<Brings>,
    kind: WaitKind,
}

impl Coordinator {
    /// As [`Coordinator::hold`], for a run of a schedule.
    pub(crate) fn hold_with(
        &self,
        request: &HoldRequest,
        brought: Brought,
    ) -> Result<HoldStream, CallError> {
        let (sender, events) = unread();
        let presence = self.arrive(request, Sink::Stream(sender), Some(brought))?;
        Ok(HoldStream { events, presence })
    }

    /// One try for the lock at this path, as `record` says who asks, for something that is written and
    /// nobody's to hold; until it is over.
    pub(crate) async fn settle_at(
        &self,
        path: &LockPath,
        record: Record,
        lease_duration: Duration,
        brought: Brought,
    ) -> Result<Settling, CallError> {
        let (sender, events) = unread();
        let terms = Terms {
            lease_duration,
            wait: Duration::ZERO,
            max_hold: None,
            min_hold: Duration::ZERO,
            progress_timeout: None,
            auto_renew: true,
            request_id: String::new(),
            rebalance: false,
            resumable: true,
            record,
            decides: true,
            seen: brought.seen,
        };
        let host_id = self.shared.settings.host.host_id.clone();
        let sink = Sink::Stream(sender);
        let brings = Some(Brings::Written(brought.decider));
        let kind = WaitKind::Try;
        let arrival = Arrival { path, host_id, terms, sink, trace: None, brings, kind };
        let presence = self.come(arrival)?;
        let mut hold = HoldStream { events, presence };
        while let Some(event) = hold.next().await {
            match event {
                HoldEvent::Settled { written: true } => return Ok(Settling::Written),
                HoldEvent::Settled { written: false } => return Ok(Settling::TurnedAway),
                HoldEvent::Busy(_) => return Ok(Settling::Busy),
                HoldEvent::Failed(error) => return Err(error),
                HoldEvent::Waiting { .. }
                | HoldEvent::Granted(_)
                | HoldEvent::AlreadyDone(_)
                | HoldEvent::Skipped { .. }
                | HoldEvent::Held(
                    HeldEvent::Renewed(_)
                    | HeldEvent::Extended(_)
                    | HeldEvent::AtRisk { .. }
                    | HeldEvent::Recovered(_)
                    | HeldEvent::Revoked { .. }
                    | HeldEvent::Draining { .. }
                    | HeldEvent::Lost { .. },
                )
                | HoldEvent::Released(_) => {}
            }
        }
        Ok(Settling::Busy)
    }

    pub(in crate::coordinator) fn arrive(
        &self,
        request: &HoldRequest,
        sink: Sink,
        brought: Option<Brought>,
    ) -> Result<Presence, CallError> {
        let settings = &self.shared.settings;
        let target = self.shared.resolve(&request.key)?;
        let permits = Some(request.permits).filter(|permits| *permits > Permits::ONE);
        if permits.is_some() {
            self.shared.check_permits("spec.permits")?;
        }
        let named = match request.occurrence {
            Some(occurrence) => {
                self.check_occurrences()?;
                let checked = check_key(&target.key);
                checked.map_err(|error| CallError::ScheduleKey(error.to_string()))?;
                Some(Brings::Occurrence(Box::new(Named::new(target.path.clone(), occurrence))))
            }
            None => None,
        };
        let (brings, seen, kind) = match brought {
            Some(Brought { decider, seen }) => {
                (Some(Brings::Written(decider)), seen, WaitKind::Try)
            }
            None => (named, None, WaitKind::Caller),
        };
        let record = Record {
            holder: request.holder.clone().unwrap_or_else(|| settings.holder.clone()),
            host_type: target.host_type.to_string(),
            labels: request.labels.clone(),
            permits,
            sidecar: Arc::clone(&settings.sidecar),
            sharing: request.sharing.clone().boxed(),
            ..Record::for_key(&target.key)
        };
        let terms = Terms {
            lease_duration: request.lease_duration.unwrap_or(settings.lease_duration),
            wait: request.wait,
            max_hold: request.max_hold,
            min_hold: request.min_hold,
            progress_timeout: request.progress_timeout,
            auto_renew: request.auto_renew,
            request_id: request.request_id.clone(),
            rebalance: request.rebalance,
            resumable: sink.is_stream(),
            record,
            decides: brings.is_some(),
            seen,
        };
        let trace = self.shared.observer.follow(&Asked {
            path: &target.path,
            host_id: &target.host_id,
            holder: &terms.record.holder,
            permits: request.permits,
            arrived: self.shared.clock.now(),
            resumes: false,
            context: request.trace_context.as_deref(),
        });
        let Target { path, host_id, .. } = target;
        self.come(Arrival { path: &path, host_id, terms, sink, trace, brings, kind })
    }

    fn come(&self, arrival: Arrival<'_>) -> Result<Presence, CallError> {
        let Arrival { path, host_id, terms, sink, trace, brings, kind } = arrival;
        let mut caller = Box::new(Caller {
            id: self.shared.next_caller(),
            lease_id: self.shared.entropy.lease_id(),
            host_id,
            is_run: matches!(brings, Some(Brings::Written(_))),
            terms: Arc::new(terms),
            permit: Permit::FIRST,
            sink,
            arrived: self.shared.clock.now(),
            granted: None,
            max_hold_ends: None,
            told: None,
            token: None,
            wait: None,
            trace: trace.clone(),
        });
        let id = caller.id;
        let arrive = |wait| {
            caller.wait = Some(wait);
            Command::Arrive(caller, brings)
        };
        self.admit(path, kind, arrive)
            .inspect_err(|_| self.shared.trace_refusal(path, trace.as_ref()))?;
        Ok(Presence::new(Arc::clone(&self.shared), path.clone(), id))
    }
}
