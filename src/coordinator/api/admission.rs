//! How a caller comes to its lock's task: with what it asks for, and what it brings (T6).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::occurrences::Named;
use crate::coordinator::actor::brought::Brings;
use crate::coordinator::actor::caller::{Caller, Presence, Sink};
use crate::coordinator::actor::task::Command;
use crate::coordinator::{
    Asked, CallError, Coordinator, Decider, HoldEvent, HoldRequest, HoldStream, LockEvent,
    LockEventKind, ResumeRequest, Resumed, Target, TraceContext, WaitKind,
};
use crate::hold::{CallerId, Stored, Terms};
use crate::lock::{HostId, LeaseId, LockPath, Permit, Permits};
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

impl Coordinator {
    /// As [`Coordinator::hold`]; a run of a schedule brings what is written of it.
    pub(crate) fn hold_with(
        &self,
        request: &HoldRequest,
        brought: Option<Brought>,
    ) -> Result<HoldStream, CallError> {
        // A repeated stream is another hold: its life line is its own.
        let request = HoldRequest { request_id: String::new(), ..request.clone() };
        HoldStream::of(|sink| self.arrive(&request, sink, brought))
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
        let mut hold = HoldStream::of(|sink| {
            let (lease_id, host_id) = (self.shared.entropy.lease_id(), self.host().host_id.clone());
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

    pub(crate) fn arrive(
        &self,
        request: &HoldRequest,
        sink: Sink,
        brought: Option<Brought>,
    ) -> Result<Presence, CallError> {
        let settings = &self.shared.settings;
        let target = self.resolve(&request.key)?;
        let permits = Some(request.permits).filter(|permits| *permits > Permits::ONE);
        if permits.is_some() {
            self.check_permits("spec.permits")?;
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
        let lease_id = self.shared.entropy.lease_id();
        let caller = self.caller(lease_id, target.host_id, Arc::new(terms), sink);
        let caller = Caller { is_run: kind == WaitKind::Try, ..caller };
        let caller = self.followed(&target.path, caller, request.trace_context.as_deref());
        self.come(&target.path, kind, caller, |caller| Command::Arrive(caller, brings))
    }

    /// Resumes a hold whose stream broke (S16).
    ///
    /// # Errors
    /// When the token is not one of ours, or the sidecar is shutting down.
    pub fn resume(&self, request: &ResumeRequest) -> Result<HoldStream, CallError> {
        let Resumed { target, permit, hold, resume, named } = self.read_resume(request)?;
        let Target { path, host_id, .. } = target;
        let named = named.map(|named| Brings::Occurrence(Box::new(named)));
        HoldStream::of(|sink| {
            let caller = self.caller(hold, host_id, Arc::clone(&resume.terms), sink);
            let caller = Caller { permit, token: Some(resume.token), ..caller };
            let caller = self.followed(&path, caller, request.trace_context.as_deref());
            let resume = |caller| Command::Resume(caller, Box::new(resume), named);
            self.come(&path, WaitKind::Resume, caller, resume)
        })
    }

    fn caller(&self, lease_id: LeaseId, host_id: HostId, terms: Arc<Terms>, sink: Sink) -> Caller {
        Caller {
            id: CallerId(self.shared.callers.fetch_add(1, Ordering::Relaxed)),
            lease_id,
            host_id,
            is_run: false,
            terms,
            permit: Permit::FIRST,
            sink,
            arrived: self.shared.clock.now(),
            granted: None,
            max_hold_ends: None,
            told: None,
            token: None,
            wait: None,
            trace: None,
        }
    }

    /// The same caller with who follows it, if anybody does.
    fn followed(&self, path: &LockPath, caller: Caller, context: Option<&TraceContext>) -> Caller {
        let trace = self.shared.observer.follow(&Asked {
            path,
            host_id: &caller.host_id,
            holder: &caller.terms.record.holder,
            permits: caller.terms.permits(),
            arrived: caller.arrived,
            resumes: caller.token.is_some(),
            context,
        });
        Caller { trace, ..caller }
    }

    fn come(
        &self,
        path: &LockPath,
        kind: WaitKind,
        mut caller: Caller,
        command: impl FnOnce(Box<Caller>) -> Command,
    ) -> Result<Presence, CallError> {
        let (id, trace) = (caller.id, caller.trace.clone());
        let come = |wait| {
            caller.wait = Some(wait);
            command(Box::new(caller))
        };
        self.admit(path, kind, come).inspect_err(|_| {
            // What comes for a caller that was never in the queue concerns its trace alone.
            if let Some(trace) = trace {
                let event = LockEvent::of(path, LockEventKind::Refused);
                trace.observe(&event, self.shared.clock.now());
            }
        })?;
        Ok(Presence::new(Arc::clone(&self.shared), path.clone(), id))
    }
}
