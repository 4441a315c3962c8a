//! Tells callers what becomes of their calls and holds, and the operator what the machine reports: answers,
//! events, observations, one log line a grant, loss and release.

use std::time::Duration;

use super::caller::Caller;
use super::registry::{Ended, HoldEntry};
use super::task::Task;
use crate::coordinator::api::error::CallError;
use crate::coordinator::api::hold_event::{HeldEvent, HoldEvent};
use crate::coordinator::api::occurrences::settled_event;
use crate::coordinator::api::request::{
    BusyAnswer, Extended, Grant, LockRecord, LockState, Outcome, Released,
};
use crate::coordinator::api::resume_token;
use crate::coordinator::observe::{
    AcquireResult, EndFacts, GrantFacts, GrantedBy, HoldEnd, LockEvent, LockEventKind,
    RenewalFailure,
};
use crate::hold::{
    Busy, CallerId, Failure, Granted, Known, LossReason, NotConfirmed, Notice, Remark, StoreFailure,
};
use crate::lock::{FencingToken, LeaseId, LockPath, Permit};
use crate::store::BreakNote;
use crate::time::Instant;

impl Task {
    /// Tells a caller, and whoever watches its lock or its trace.
    pub(in crate::coordinator) fn tell(
        &mut self,
        permit: Permit,
        caller: CallerId,
        notice: Notice,
    ) {
        match notice {
            Notice::Waiting { place } => self.tell_waiting(caller, place),
            Notice::Granted(grant) => self.tell_granted(permit, caller, &grant),
            Notice::SameGrant { holder } => self.tell_same_grant(caller, holder),
            Notice::Busy(busy) => self.tell_busy(permit, caller, busy),
            Notice::Failed(store_failure) => self.tell_failed(caller, store_failure),
            Notice::Settled { written } => self.tell_settled(caller, written),
            Notice::Superseded { by } => self.tell_superseded(caller, by),
            Notice::Moved => self.tell_moved(caller),
            Notice::Interrupted => self.tell_interrupted(caller),
            Notice::Extended { valid_until, max_hold_ends } => {
                self.tell_extended(caller, valid_until, max_hold_ends);
            }
            Notice::Renewed { valid_until } => {
                self.tell_validity(caller, valid_until, HeldEvent::Renewed);
            }
            Notice::AtRisk { valid_until, kind, detail } => {
                self.observe(caller, LockEventKind::AtRisk { cause: kind, detail: &detail });
                self.tell_validity(caller, valid_until, |validity| HeldEvent::AtRisk {
                    validity,
                    kind,
                    detail,
                });
                self.mark_at_risk(caller, valid_until, true);
            }
            Notice::Recovered { valid_until } => {
                self.observe(caller, LockEventKind::Recovered);
                self.tell_validity(caller, valid_until, HeldEvent::Recovered);
                self.mark_at_risk(caller, valid_until, false);
            }
            Notice::Revoked { valid_until } => self.tell_revoked(caller, valid_until),
            Notice::Draining { ends } => {
                self.observe(caller, LockEventKind::Draining);
                let time_left = ends.saturating_since(self.shared.clock.now());
                self.send_event(caller, HoldEvent::Held(HeldEvent::Draining { time_left }));
            }
            Notice::Lost { reason, detail } => self.tell_lost(caller, reason, detail),
            Notice::ResumeRefused { reason, detail } => {
                self.tell_resume_refused(caller, reason, detail);
            }
            Notice::Released { resting_until } => self.tell_released(caller, resting_until),
            Notice::NotConfirmed { why, detail } => self.tell_not_confirmed(caller, why, &detail),
        }
    }

    /// Tells the operator.
    pub(in crate::coordinator) fn report(&self, permit: Permit, remark: &Remark) {
        let path = self.path_of(permit);
        let (kind, token) = match remark {
            Remark::Collision { stored, ours } => {
                return self.report_collision(&path, stored, ours);
            }
            Remark::Renewal { latency, lateness, failure } => {
                return self.report_renewal(&path, *latency, *lateness, failure.as_ref());
            }
            Remark::TokenNotGrowing { seen, next } => {
                (LockEventKind::TokenNotGrowing { next: *next }, Some(*seen))
            }
            Remark::Forgotten => (LockEventKind::ForgottenRead, None),
            Remark::CannotBreak { store_failure } => {
                (LockEventKind::CannotBreak { cause: &store_failure.message }, None)
            }
            Remark::Overruled { priority, moves } => {
                (LockEventKind::Overruled { priority: *priority, moves: *moves }, None)
            }
        };
        self.shared.observe(&LockEvent::of(&path, kind).with_token(token));
    }

    /// Lets be observed what happened to a caller.
    fn observe(&self, id: CallerId, kind: LockEventKind<'_>) {
        if let Some(caller) = self.callers.get(&id) {
            self.shared.observe_caller(&self.path_of(caller.permit), caller, kind);
        }
    }

    fn tell_waiting(&mut self, id: CallerId, place: usize) {
        if !self.callers.get(&id).is_some_and(|caller| caller.sink.is_stream()) {
            return;
        }
        let record = Box::new(self.record_here(self.shown()));
        self.send_event(id, HoldEvent::Waiting { place, record });
    }

    /// The callers that had this hold before `id`.
    fn forget_former(&mut self, id: CallerId, lease_id: LeaseId) {
        let callers = self.callers.values();
        let former = callers.filter(|caller| caller.id != id && caller.lease_id == lease_id);
        let former: Vec<CallerId> = former.map(|caller| caller.id).collect();
        for former in former {
            self.take_caller(former);
        }
    }

    fn tell_granted(&mut self, permit: Permit, id: CallerId, granted: &Granted) {
        let now = self.shared.clock.now();
        let Some(lease_id) = self.callers.get(&id).map(|caller| caller.lease_id) else { return };
        self.trace_resumption(id, lease_id);
        // A hold that was resumed is another caller's now.
        self.forget_former(id, lease_id);
        let Some(caller) = self.callers.get_mut(&id) else { return };
        caller.permit = permit;
        caller.granted = Some(now);
        caller.max_hold_ends = granted.max_hold_ends;
        caller.told = caller.sink.is_stream().then(|| Box::new(granted.without_checkpoint()));
        caller.token = Some(granted.token);
        let Some(caller) = self.callers.get(&id) else { return };
        let (shared, path) = (&self.shared, &self.path.permit(permit));
        let wall = shared.clock.wall();
        let named = self.named(id);
        let resume_token = resume_token::make(
            &shared.settings.host.namespace,
            caller,
            named,
            shared.clock.as_ref(),
        );
        let grant = Box::new(Grant {
            lease_id: caller.lease_id,
            resume_token,
            path: path.clone(),
            permit,
            host_id: caller.host_id.clone(),
            token: granted.token,
            generation: granted.generation,
            validity: shared.validity(granted.valid_until),
            checkpoint: granted.checkpoint.clone(),
            acquired_at: granted.acquired_at,
            expires_at: wall + granted.valid_until.saturating_since(now),
            max_hold_ends: granted.max_hold_ends.map(|at| shared.deadline(at)),
            attempt: named.map_or(0, |named| named.attempt(granted.token)),
            revision: shared.settings.revision,
        });
        let facts = GrantFacts {
            how: granted_by(granted),
            permit,
            generation: granted.generation,
            waited: now.saturating_since(caller.arrived),
            is_run: caller.is_run,
        };
        shared.observe_caller(path, caller, LockEventKind::Granted(facts));
        let Some(caller) = self.callers.get_mut(&id) else { return };
        let mut registry = self.shared.registry();
        caller.wait = None;
        let entry = HoldEntry {
            path: self.path.clone(),
            permit,
            caller: id,
            generation: granted.generation,
            valid_until: granted.valid_until,
            at_risk: false,
        };
        registry.begin_hold(lease_id, entry);
        registry.changed(path);
        drop(registry);
        if caller.sink.is_stream() {
            self.send_event(id, HoldEvent::Granted(grant));
        } else {
            if !caller.terms.request_id.is_empty() {
                self.aside.get_or_insert_default().grants.insert(id, grant.clone());
            }
            caller.sink.answer(Ok(Outcome::Granted(grant)));
        }
    }

    /// A repeated call gets what the first one got, with the validity and the checkpoint of now.
    fn tell_same_grant(&mut self, id: CallerId, holder: CallerId) {
        let grant = self.aside().grants.repeat(holder, id).map(|mut grant| {
            grant.max_hold_ends =
                self.callers.get(&holder).and_then(|caller| self.max_hold_ends(caller));
            // S25: what its holder has saved since is there too.
            grant.checkpoint = self.known(grant.permit).and_then(Known::checkpoint);
            if let Some(valid_until) = self.pool.validity(holder) {
                grant.validity = self.shared.validity(valid_until);
                grant.expires_at = self.shared.clock.wall() + grant.validity.valid_for;
            }
            grant
        });
        let Some(mut caller) = self.take_caller(id) else { return };
        let answer = grant.map(Outcome::Granted).ok_or(CallError::Superseded);
        self.end_wait(&mut caller, AcquireResult::Granted, None);
        caller.sink.answer(answer);
    }

    fn tell_busy(&mut self, permit: Permit, id: CallerId, busy: Busy) {
        let Some(mut caller) = self.take_caller(id) else { return };
        let mut record = self.record_here(permit);
        record.state = if busy.resting { LockState::Resting } else { LockState::Held };
        record.holder_is_last_recorded &= !busy.resting;
        record.record = busy.record;
        self.end_wait(&mut caller, AcquireResult::Busy, Some(&record));
        let Busy { retry_after, held_permits, priority, .. } = busy;
        let answer = Box::new(BusyAnswer { record, retry_after, held_permits, priority });
        caller.sink.event(HoldEvent::Busy(answer.clone()));
        caller.sink.answer(Ok(Outcome::Busy(answer)));
    }

    fn tell_failed(&mut self, id: CallerId, store_failure: StoreFailure) {
        let Some(mut caller) = self.take_caller(id) else { return };
        self.shared.registry().forget_hold(caller.lease_id, id);
        self.end_wait(&mut caller, AcquireResult::Failed(store_failure.kind), None);
        caller.sink.event(HoldEvent::Failed(CallError::StoreFailure(store_failure.clone())));
        caller.sink.answer(Err(CallError::StoreFailure(store_failure)));
    }

    fn tell_extended(&mut self, id: CallerId, valid_until: Instant, max_hold_ends: Instant) {
        let Some(caller) = self.callers.get_mut(&id) else { return };
        caller.max_hold_ends = Some(max_hold_ends);
        self.observe(id, LockEventKind::Extended);
        let Some(caller) = self.callers.get(&id) else { return };
        let lease_id = caller.lease_id;
        let clock = self.shared.clock.as_ref();
        let namespace = &self.shared.settings.host.namespace;
        let resume_token = resume_token::make(namespace, caller, self.named(id), clock);
        self.note_validity(lease_id, valid_until, None);
        let validity = self.shared.validity(valid_until);
        let max_hold_ends = Some(self.shared.deadline(max_hold_ends));
        let extended = Extended { validity, resume_token, max_hold_ends };
        self.send_event(id, HoldEvent::Held(HeldEvent::Extended(extended)));
    }

    fn tell_validity(
        &mut self,
        id: CallerId,
        valid_until: Instant,
        event: impl FnOnce(crate::coordinator::api::request::Validity) -> HeldEvent,
    ) {
        if let Some(caller) = self.callers.get(&id) {
            self.note_validity(caller.lease_id, valid_until, None);
            let event = event(self.shared.validity(valid_until));
            self.send_event(id, HoldEvent::Held(event));
        }
    }

    fn mark_at_risk(&self, id: CallerId, valid_until: Instant, at_risk: bool) {
        if let Some(caller) = self.callers.get(&id) {
            self.note_validity(caller.lease_id, valid_until, Some(at_risk));
        }
    }

    fn tell_lost(&mut self, id: CallerId, reason: LossReason, detail: String) {
        self.forget_grant(id);
        let Some(mut caller) = self.take_caller(id) else { return };
        let break_note = self.break_note_of(&caller, reason);
        let detail = match &break_note {
            Some(note) => format!("{detail}: {}", note.text()),
            None => detail,
        };
        self.end_hold(&mut caller, Ended::Lost(reason), &detail);
        caller.sink.event(HoldEvent::Held(HeldEvent::Lost { reason, detail, break_note }));
        let resumed = Err(CallError::HoldLost { reason });
        caller.sink.answer(resumed);
        self.answer_releases(id, &Released::AlreadyLost { reason });
    }

    /// To its client the hold is lost. Here it never was, and a client that means harm is not to count losses
    /// or fill the log.
    fn tell_resume_refused(&mut self, id: CallerId, reason: LossReason, detail: String) {
        let Some(mut caller) = self.take_caller(id) else { return };
        let unsaid = self.shared.refused_resumes.line(self.shared.clock.now());
        let kind = LockEventKind::ResumeRefused { reason, detail: &detail, unsaid };
        self.shared.observe_caller(&self.path_of(caller.permit), &caller, kind);
        self.shared.registry().forget_hold(caller.lease_id, id);
        self.end_wait(&mut caller, AcquireResult::ResumeRefused, None);
        caller.sink.event(HoldEvent::Held(HeldEvent::Lost { reason, detail, break_note: None }));
        caller.sink.answer(Err(CallError::HoldLost { reason }));
        self.answer_releases(id, &Released::AlreadyLost { reason });
    }

    /// The note of the break that ended this caller's hold: one of its lease, and not of an earlier grant
    /// (S17).
    fn break_note_of(&mut self, caller: &Caller, reason: LossReason) -> Option<BreakNote> {
        if reason != LossReason::Broken {
            return None;
        }
        let note = self.aside.as_mut()?.break_notes.remove(&caller.permit);
        note.filter(|note| {
            note.token.map(FencingToken::epoch) == caller.token.map(FencingToken::epoch)
        })
    }

    fn tell_released(&mut self, id: CallerId, resting_until: Option<Instant>) {
        self.forget_grant(id);
        let released = resting_until.map_or(Released::Released, |until| {
            let left = until.saturating_since(self.shared.clock.now());
            Released::Resting { until: self.shared.clock.wall() + left }
        });
        if let Some(mut caller) = self.take_caller(id) {
            self.end_hold(&mut caller, Ended::Released, "");
            caller.sink.event(HoldEvent::Released(released.clone()));
        }
        self.answer_releases(id, &released);
    }

    /// The store has not confirmed a release (S13).
    fn tell_not_confirmed(&mut self, id: CallerId, why: NotConfirmed, detail: &str) {
        self.forget_grant(id);
        if let Some(mut caller) = self.take_caller(id) {
            let was_here = self.holder(caller.lease_id) == Some(id);
            if was_here {
                self.end_hold(&mut caller, Ended::NotConfirmed(why), detail);
            } else {
                // A resume that its client gave up: what it would have resumed was not here.
                self.end_wait(&mut caller, AcquireResult::Left, None);
            }
            caller.sink.event(HoldEvent::Released(Released::NotConfirmed));
        }
        self.answer_releases(id, &Released::NotConfirmed);
    }

    /// A caller went away: it waited, or it held.
    pub(in crate::coordinator) fn note_left(&mut self, mut caller: Caller) {
        self.forget_grant(caller.id);
        if caller.granted.is_some() {
            self.end_hold(&mut caller, Ended::Released, "");
        } else {
            self.shared.registry().forget_hold(caller.lease_id, caller.id);
            self.end_wait(&mut caller, AcquireResult::Left, None);
        }
    }

    pub(in crate::coordinator) fn end_wait(
        &self,
        caller: &mut Caller,
        result: AcquireResult,
        busy: Option<&LockRecord>,
    ) {
        let waited = self.shared.clock.now().saturating_since(caller.arrived);
        if caller.granted.is_none() {
            let kind = LockEventKind::NotGranted { result, waited, busy };
            let path = busy.map_or_else(|| self.path_of(caller.permit), |busy| busy.path.clone());
            self.shared.observe_caller(&path, caller, kind);
        }
        caller.wait = None;
    }

    fn end_hold(&self, caller: &mut Caller, ended: Ended, detail: &str) {
        let end = match ended {
            Ended::Released => HoldEnd::Released,
            Ended::NotConfirmed(why) => HoldEnd::NotConfirmed(why),
            Ended::Lost(reason) => HoldEnd::Lost(reason),
        };
        let path = self.path_of(caller.permit);
        self.observe_end(&path, caller, end, detail);
        let mut registry = self.shared.registry();
        caller.wait = None;
        registry.end_hold(caller.lease_id, caller.id, ended);
        match ended {
            Ended::Released | Ended::NotConfirmed(_) => registry.released(&path),
            Ended::Lost(_) => registry.changed(&path),
        }
    }

    fn observe_end(&self, path: &LockPath, caller: &Caller, end: HoldEnd, detail: &str) {
        let now = self.shared.clock.now();
        let facts = EndFacts {
            end,
            held: caller.granted.map(|at| now.saturating_since(at)),
            waited: now.saturating_since(caller.arrived),
            detail,
            is_run: caller.is_run,
        };
        self.shared.observe_caller(path, caller, LockEventKind::Ended(facts));
    }

    fn answer_releases(&mut self, id: CallerId, released: &Released) {
        let Some(aside) = &mut self.aside else { return };
        let releases = std::mem::take(&mut aside.releases).into_iter();
        let (answered, waiting) = releases.partition(|(caller, _)| *caller == id);
        aside.releases = waiting;
        let answered: Vec<(CallerId, _)> = answered;
        for (_, reply) in answered {
            let _ = reply.send(released.clone());
        }
    }

    pub(in crate::coordinator) fn send_event(&self, id: CallerId, event: HoldEvent) {
        if let Some(caller) = self.callers.get(&id) {
            caller.sink.event(event);
        }
    }

    /// Another call has taken the place of one that waited.
    fn tell_superseded(&mut self, id: CallerId, by: CallerId) {
        let Some(mut caller) = self.take_caller(id) else { return };
        self.shared.registry().supersede(caller.lease_id, id, by);
        self.trace_resumed(&caller, by);
        self.end_wait(&mut caller, AcquireResult::Left, None);
        caller.sink.event(HoldEvent::Failed(CallError::Superseded));
        caller.sink.answer(Err(CallError::Superseded));
    }

    /// As was decided for a caller, it is granted nothing (T6).
    fn tell_settled(&mut self, id: CallerId, written: bool) {
        let path = self.path_at(id);
        let answer = self.settled_answer(id, written);
        let Some(mut caller) = self.take_caller(id) else { return };
        self.shared.observe_caller(&path, &caller, LockEventKind::Settled { written });
        self.shared.registry().forget_hold(caller.lease_id, id);
        self.end_wait(&mut caller, AcquireResult::Settled, None);
        caller.sink.event(settled_event(answer.clone()));
        caller.sink.answer(answer);
        self.shared.registry().changed(&path);
    }

    /// The hold goes on at another sidecar (S16): calls about it are answered as those about a hold that was
    /// never here.
    fn tell_moved(&mut self, id: CallerId) {
        self.tell_gone(id, HoldEnd::ResumedElsewhere, &CallError::Superseded);
    }

    /// The sidecar ends, and the hold does not: it goes on at the replacement, or its lease runs out (S15,
    /// S16).
    fn tell_interrupted(&mut self, id: CallerId) {
        self.tell_gone(id, HoldEnd::HandedOver, &CallError::handed_over());
    }

    /// Nothing of a hold is left here, though it may not be over.
    fn tell_gone(&mut self, id: CallerId, end: HoldEnd, why: &CallError) {
        self.forget_grant(id);
        if let Some(aside) = &mut self.aside {
            aside.releases.retain(|(caller, _)| *caller != id);
        }
        let Some(mut caller) = self.take_caller(id) else { return };
        let path = self.path_of(caller.permit);
        self.observe_end(&path, &caller, end, "");
        {
            let mut registry = self.shared.registry();
            registry.forget_hold(caller.lease_id, id);
            caller.wait = None;
            registry.changed(&path);
        }
        caller.sink.event(HoldEvent::Failed(why.clone()));
        caller.sink.answer(Err(why.clone()));
    }
}

/// What the machine reports to the operator.
impl Task {
    fn report_collision(&self, path: &LockPath, stored: &str, ours: &str) {
        let is_new = self.shared.registry().is_new_collision(path);
        let kind = LockEventKind::Collision { stored, ours, is_new };
        self.shared.observe(&LockEvent::of(path, kind));
    }

    fn report_renewal(
        &self,
        path: &LockPath,
        latency: Option<Duration>,
        lateness: Duration,
        failure: Option<&Failure>,
    ) {
        let failure = failure.map(RenewalFailure::from);
        self.weigh_suspicion(failure, latency);
        let kind = LockEventKind::Renewal { failure, latency, lateness };
        self.shared.observe(&LockEvent::of(path, kind));
    }

    /// What a renewal says of a pause that is suspected (S3).
    fn weigh_suspicion(&self, failure: Option<RenewalFailure>, latency: Option<Duration>) {
        let clock = &self.shared.clock;
        let now = clock.now();
        match (failure, latency) {
            (None, Some(latency)) => {
                let sent = now.saturating_sub(latency);
                let source = clock.suspicions().refute(sent, now);
                if let Some(source) = source {
                    let kind = LockEventKind::ClockNotHeard { source };
                    self.shared.observe(&LockEvent::of_sidecar(kind));
                }
            }
            (Some(RenewalFailure::Taken | RenewalFailure::Deleted), _) => {
                clock.suspicions().confirm(now);
            }
            (
                Some(
                    RenewalFailure::Broken
                    | RenewalFailure::Contended
                    | RenewalFailure::Changed
                    | RenewalFailure::Failed(_),
                )
                | None,
                _,
            ) => {}
        }
    }
}

const fn granted_by(granted: &Granted) -> GrantedBy {
    match (granted.resumed, granted.token.hand_offs()) {
        (true, _) => GrantedBy::Resume,
        (false, 0) => GrantedBy::Store,
        (false, _) => GrantedBy::HandOff,
    }
}
