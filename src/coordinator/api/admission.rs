//! How a caller comes to its lock's task: with what it asks for, and what it brings (T6).

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::coordinator::Coordinator;
use crate::coordinator::actor::arriving::Brought;
use crate::coordinator::actor::arriving::{Brings, Named};
use crate::coordinator::actor::caller::{Caller, HoldStream, Presence, Sink};
use crate::coordinator::actor::resume_token::Resumed;
use crate::coordinator::actor::task::Command;
use crate::coordinator::call::{
    CallError, HoldRequest, Outcome, ResumeRequest, Target, TraceContext,
};
use crate::coordinator::trace::Asked;
use crate::coordinator::waiting::WaitKind;
use crate::hold::Terms;
use crate::lock::{LockPath, Permits};
use crate::record::Record;
use crate::schedule::check_key;

impl Coordinator {
    /// Acquires the lock, or waits for it, for a caller that releases by its lease id. Without `max_hold`,
    /// the default applies (S14). Dropping the future leaves the queue, or releases the lock.
    ///
    /// # Errors
    /// When it was neither granted nor busy.
    pub async fn acquire(&self, request: HoldRequest) -> Result<Outcome, CallError> {
        let (reply, answer) = oneshot::channel();
        let mut request = request;
        request.max_hold.get_or_insert(self.shared.settings.max_hold_default);
        let mut presence = self.arrive(&request, Sink::Unary(Some(reply)), None)?;
        let answer = answer.await;
        if !request.request_id.is_empty() {
            presence.confirm();
        }
        presence.done();
        answer.unwrap_or(Err(CallError::UnknownLease))
    }

    /// Acquires the lock, or waits for it, and holds it while the stream lives (S14).
    ///
    /// # Errors
    /// When the request cannot be queued.
    pub fn hold(&self, request: &HoldRequest) -> Result<HoldStream, CallError> {
        self.hold_with(request, None)
    }

    /// The lock that a resume token names, by the key that it carries: a caller may do with that what it may
    /// do with the key.
    ///
    /// # Errors
    /// When the token is not one of ours.
    pub fn resumed(&self, request: &ResumeRequest) -> Result<Target, CallError> {
        Ok(self.read_resume(request)?.target)
    }

    pub(crate) fn read_resume(&self, request: &ResumeRequest) -> Result<Resumed, CallError> {
        Resumed::read(request, self.settings(), self.clock())
    }

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

    pub(super) fn arrive(
        &self,
        request: &HoldRequest,
        sink: Sink,
        brought: Option<Brought>,
    ) -> Result<Presence, CallError> {
        let settings = &self.shared.settings;
        let target = settings.host.resolve(&request.key)?;
        let permits = Some(request.permits).filter(|permits| *permits > Permits::ONE);
        if permits.is_some() {
            settings.host.check_permits("spec.permits")?;
        }
        let named = match request.occurrence {
            Some(occurrence) => {
                settings.host.check_occurrences()?;
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
        let caller = self.shared.caller(lease_id, target.host_id, Arc::new(terms), sink);
        let caller = Caller { is_run: kind == WaitKind::Try, ..caller };
        let caller = self.followed(&target.path, caller, request.trace_context.as_deref());
        self.shared.come(&target.path, kind, caller, |caller| Command::Arrive(caller, brings))
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
            let caller = self.shared.caller(hold, host_id, Arc::clone(&resume.terms), sink);
            let caller = Caller { permit, token: Some(resume.token), ..caller };
            let caller = self.followed(&path, caller, request.trace_context.as_deref());
            let resume = |caller| Command::Resume(caller, Box::new(resume), named);
            self.shared.come(&path, WaitKind::Resume, caller, resume)
        })
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
}
