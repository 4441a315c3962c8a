//! Tells callers what becomes of their calls and holds, and the operator what the machine reports: answers,
//! events, observations, one log line a grant, loss and release.

use std::time::Duration;

use super::caller::Caller;
use super::shared::HoldEntry;
use super::task::Task;
use crate::coordinator::call::{
    BusyAnswer, CallError, Grant, HeldEvent, HoldEvent, LockRecord, LockState, Outcome, Released,
    Validity,
};
use crate::coordinator::observe::{
    AcquireResult, EndFacts, GrantFacts, GrantedBy, HoldEnd, LockEvent, LockEventKind,
    RenewalFailure,
};
use crate::coordinator::trace::{TraceHandle, TraceLink};
use crate::hold::{
    self, Busy, CallerId, Granted, Hold, Known, LossReason, NotConfirmed, Notice, Remark,
    StoreFailure,
};
use crate::lock::{FencingToken, Permit, Permits};
use crate::queue;
use crate::store::BreakNote;
use crate::time::Instant;

impl Task {
    /// Tells a caller, and whoever watches its lock or its trace.
    pub(super) fn tell(&mut self, permit: Permit, caller: CallerId, notice: Notice) {
        match notice {
            Notice::Waiting { place } => self.tell_waiting(caller, place),
            Notice::Granted(grant) => self.tell_granted(permit, caller, &grant),
            Notice::SameGrant { holder } => self.tell_same_grant(caller, holder),
            Notice::Busy(busy) => self.tell_busy(permit, caller, *busy),
            Notice::Failed(store_failure) => self.tell_failed(caller, store_failure),
            Notice::Settled { written } => self.tell_settled(caller, written),
            Notice::Superseded { by } => self.tell_superseded(caller, by),
            // S16: it goes on at another sidecar. Calls about it are answered as those about a hold that was
            // never here.
            Notice::Moved => {
                self.tell_gone(caller, HoldEnd::ResumedElsewhere, CallError::Superseded);
            }
            // S15, S16: the sidecar ends, and the hold does not: it goes on at the replacement, or its lease
            // runs out.
            Notice::Interrupted => {
                self.tell_gone(caller, HoldEnd::HandedOver, CallError::handed_over());
            }
            Notice::Extended { valid_until, max_hold_ends } => {
                self.tell_extended(caller, valid_until, max_hold_ends);
            }
            Notice::Renewed { valid_until } => {
                self.tell_validity(caller, valid_until, None, HeldEvent::Renewed);
            }
            Notice::AtRisk { valid_until, kind, detail } => {
                self.observe(caller, LockEventKind::AtRisk { cause: kind, detail: &detail });
                let event = |validity| HeldEvent::AtRisk { validity, kind, detail };
                self.tell_validity(caller, valid_until, Some(true), event);
            }
            Notice::Recovered { valid_until } => {
                self.observe(caller, LockEventKind::Recovered);
                self.tell_validity(caller, valid_until, Some(false), HeldEvent::Recovered);
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
    pub(super) fn report(&self, permit: Permit, remark: &Remark) {
        let path = self.path_of(permit);
        let (kind, token) = match remark {
            Remark::Collision { stored, ours } => {
                let is_new = self.shared.registry().collided.insert(&path);
                (LockEventKind::Collision { stored, ours, is_new }, None)
            }
            Remark::Renewal { latency, lateness, failure } => {
                let (latency, lateness) = (*latency, *lateness);
                let failure = failure.as_ref().map(RenewalFailure::from);
                self.weigh_suspicion(failure, latency);
                (LockEventKind::Renewal { failure, latency, lateness }, None)
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

    /// S29: callers name different numbers, as in a rolling upgrade.
    pub(super) fn report_permits(&self, others: Permits, ours: Permits) {
        let is_new = self.shared.registry().differing.insert(&self.path);
        let kind = LockEventKind::PermitsDiffer { others, ours, is_new };
        self.shared.observe(&LockEvent::of(&self.path, kind));
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

    fn tell_granted(&mut self, permit: Permit, id: CallerId, granted: &Granted) {
        let now = self.shared.clock.now();
        let Some(lease_id) = self.callers.get(&id).map(|caller| caller.lease_id) else { return };
        // A hold that was resumed is another caller's now.
        let all = self.callers.values();
        let former = all.filter(|caller| caller.id != id && caller.lease_id == lease_id);
        for former in former.map(|caller| caller.id).collect::<Vec<_>>() {
            if let Some(former) = self.take_caller(former) {
                self.trace_resumed(&former, id);
            }
        }
        let Some(caller) = self.callers.get_mut(&id) else { return };
        caller.permit = permit;
        caller.granted = Some(now);
        caller.max_hold_ends = granted.max_hold_ends;
        caller.told = caller.sink.is_stream().then(|| Box::new(granted.without_checkpoint()));
        caller.token = Some(granted.token);
        let Some(caller) = self.callers.get(&id) else { return };
        let (shared, path) = (&self.shared, &self.path.permit(permit));
        let named = self.named(id);
        let grant = Box::new(Grant {
            lease_id: caller.lease_id,
            resume_token: self.resume_token(caller),
            path: path.clone(),
            permit,
            host_id: caller.host_id.clone(),
            token: granted.token,
            generation: granted.generation,
            validity: shared.validity(granted.valid_until),
            checkpoint: granted.checkpoint.clone(),
            acquired_at: granted.acquired_at,
            expires_at: shared.wall_at(granted.valid_until),
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
        let entry = HoldEntry {
            path: self.path.clone(),
            permit,
            caller: id,
            generation: granted.generation,
            valid_until: granted.valid_until,
            at_risk: false,
            occurrence: named.map(|named| Box::new(named.occurrence)),
        };
        let Some(caller) = self.callers.get_mut(&id) else { return };
        let mut registry = self.shared.registry();
        caller.wait = None;
        registry.begin_hold(lease_id, entry);
        registry.watchers.changed(path);
        drop(registry);
        if !caller.terms.request_id.is_empty() {
            self.aside.get_or_insert_default().grants.insert(id, grant.clone());
        }
        caller.sink.end(Ok(Outcome::Granted(grant)));
    }

    /// A repeated call gets what the first one got, with the validity and the checkpoint of now.
    fn tell_same_grant(&mut self, id: CallerId, holder: CallerId) {
        let grant = self.aside().grants.repeat(holder, id).map(|mut grant| {
            grant.max_hold_ends =
                self.callers.get(&holder).and_then(|caller| self.max_hold_ends(caller));
            // S25: what its holder has saved since is there too.
            grant.checkpoint = self.known(grant.permit).and_then(Known::checkpoint);
            if let Some(valid_until) = self.queue.validity(holder) {
                grant.validity = self.shared.validity(valid_until);
                grant.expires_at = self.shared.clock.wall() + grant.validity.valid_for;
            }
            grant
        });
        let Some(mut caller) = self.take_caller(id) else { return };
        let answer = grant.map(Outcome::Granted).ok_or(CallError::Superseded);
        self.end_wait(&mut caller, AcquireResult::Granted, None);
        caller.sink.end(answer);
    }

    fn tell_busy(&mut self, permit: Permit, id: CallerId, busy: Busy) {
        let Some(mut caller) = self.take_ungranted(id) else { return };
        let mut record = self.record_here(permit);
        record.state = if busy.resting { LockState::Resting } else { LockState::Held };
        record.holder_is_last_recorded &= !busy.resting;
        record.record = busy.record;
        self.end_wait(&mut caller, AcquireResult::Busy, Some(&record));
        let Busy { retry_after, held_permits, priority, .. } = busy;
        let answer = Box::new(BusyAnswer { record, retry_after, held_permits, priority });
        caller.sink.end(Ok(Outcome::Busy(answer)));
    }

    fn tell_failed(&mut self, id: CallerId, store_failure: StoreFailure) {
        let Some(mut caller) = self.take_ungranted(id) else { return };
        self.end_wait(&mut caller, AcquireResult::Failed(store_failure.kind), None);
        caller.sink.end(Err(CallError::StoreFailure(store_failure)));
    }

    fn tell_extended(&mut self, id: CallerId, valid_until: Instant, max_hold_ends: Instant) {
        let Some(caller) = self.callers.get_mut(&id) else { return };
        caller.max_hold_ends = Some(max_hold_ends);
        self.observe(id, LockEventKind::Extended);
        let Some(caller) = self.callers.get(&id) else { return };
        self.note_validity(caller.lease_id, valid_until, None);
        let extended = self.extended(caller, self.shared.validity(valid_until));
        self.send_event(id, HoldEvent::Held(HeldEvent::Extended(extended)));
    }

    fn tell_validity(
        &mut self,
        id: CallerId,
        valid_until: Instant,
        at_risk: Option<bool>,
        event: impl FnOnce(Validity) -> HeldEvent,
    ) {
        if let Some(caller) = self.callers.get(&id) {
            self.note_validity(caller.lease_id, valid_until, at_risk);
            let event = event(self.shared.validity(valid_until));
            self.send_event(id, HoldEvent::Held(event));
        }
    }

    /// The lease of a hold was broken and runs out (S22).
    fn tell_revoked(&mut self, id: CallerId, valid_until: Instant) {
        let Some(caller) = self.callers.get(&id) else { return };
        let (token, path) = (caller.token, self.path_of(caller.permit));
        let break_note = self.break_note(caller.permit).cloned();
        let break_note = break_note.filter(|note| note.is_about(token));
        let reason = break_note.as_ref().map(BreakNote::text).unwrap_or_default();
        self.shared.observe_caller(&path, caller, LockEventKind::Revoked { reason: &reason });
        self.note_validity(caller.lease_id, valid_until, None);
        let validity = self.shared.validity(valid_until);
        self.send_event(id, HoldEvent::Held(HeldEvent::Revoked { validity, break_note }));
        self.shared.registry().watchers.changed(&path);
    }

    fn tell_lost(&mut self, id: CallerId, reason: LossReason, detail: String) {
        let Some(mut caller) = self.take_caller(id) else { return };
        let break_note = self.break_note_of(&caller, reason);
        let detail = match &break_note {
            Some(note) => format!("{detail}: {}", note.text()),
            None => detail,
        };
        self.hold_ended(&mut caller, HoldEnd::Lost(reason), &detail);
        caller.sink.event(HoldEvent::Held(HeldEvent::Lost { reason, detail, break_note }));
        caller.sink.answer(Err(CallError::HoldLost { reason }));
        self.answer_releases(id, &Released::AlreadyLost { reason });
    }

    /// To its client the hold is lost. Here it never was, and a client that means harm is not to count losses
    /// or fill the log.
    fn tell_resume_refused(&mut self, id: CallerId, reason: LossReason, detail: String) {
        let Some(mut caller) = self.take_caller(id) else { return };
        let unsaid = self.shared.refused_resumes.line(self.shared.clock.now());
        let kind = LockEventKind::ResumeRefused { reason, detail: &detail, unsaid };
        self.shared.observe_caller(&self.path_of(caller.permit), &caller, kind);
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
        let released = resting_until.map_or(Released::Released, |until| Released::Resting {
            until: self.shared.wall_at(until),
        });
        if let Some(mut caller) = self.take_caller(id) {
            self.hold_ended(&mut caller, HoldEnd::Released, "");
            caller.sink.event(HoldEvent::Released(released.clone()));
        }
        self.answer_releases(id, &released);
    }

    /// The store has not confirmed a release (S13).
    fn tell_not_confirmed(&mut self, id: CallerId, why: NotConfirmed, detail: &str) {
        if let Some(mut caller) = self.take_caller(id) {
            if self.holder(caller.lease_id) == Some(id) {
                self.hold_ended(&mut caller, HoldEnd::NotConfirmed(why), detail);
            } else {
                // A resume that its client gave up: what it would have resumed was not here.
                self.end_wait(&mut caller, AcquireResult::Left, None);
            }
            caller.sink.event(HoldEvent::Released(Released::NotConfirmed));
        }
        self.answer_releases(id, &Released::NotConfirmed);
    }

    /// A caller went away. The outcome for a holder is told when it is known (S13).
    pub(super) fn note_left(&mut self, id: CallerId) {
        if self.callers.get(&id).is_some_and(|caller| caller.granted.is_none())
            && let Some(mut caller) = self.take_ungranted(id)
        {
            self.end_wait(&mut caller, AcquireResult::Left, None);
        }
    }

    fn end_wait(&self, caller: &mut Caller, result: AcquireResult, busy: Option<&LockRecord>) {
        self.shared.registry().forget_hold(caller.lease_id, caller.id);
        if caller.granted.is_none() {
            let waited = self.shared.clock.now().saturating_since(caller.arrived);
            let kind = LockEventKind::NotGranted { result, waited, busy };
            let path = busy.map_or_else(|| self.path_of(caller.permit), |busy| busy.path.clone());
            self.shared.observe_caller(&path, caller, kind);
        }
        caller.wait = None;
    }

    fn hold_ended(&self, caller: &mut Caller, end: HoldEnd, detail: &str) {
        let path = self.path_of(caller.permit);
        let now = self.shared.clock.now();
        let facts = EndFacts {
            end,
            held: caller.granted.map(|at| now.saturating_since(at)),
            waited: now.saturating_since(caller.arrived),
            detail,
            is_run: caller.is_run,
        };
        self.shared.observe_caller(&path, caller, LockEventKind::Ended(facts));
        let mut registry = self.shared.registry();
        caller.wait = None;
        registry.end_hold(caller.lease_id, caller.id, end);
        match end {
            HoldEnd::Released | HoldEnd::NotConfirmed(_) => registry.watchers.released(&path),
            HoldEnd::Lost(_) | HoldEnd::HandedOver | HoldEnd::ResumedElsewhere => {
                registry.watchers.changed(&path);
            }
        }
    }

    fn answer_releases(&mut self, id: CallerId, released: &Released) {
        let Some(aside) = &mut self.aside else { return };
        for (_, reply) in aside.releases.extract_if(.., |(caller, _)| *caller == id) {
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
        // One that waited is told elsewhere.
        if caller.granted.is_some() {
            self.trace_resumed(&caller, by);
        }
        self.end_wait(&mut caller, AcquireResult::Left, None);
        caller.sink.end(Err(CallError::Superseded));
    }

    /// As was decided for a caller, it is granted nothing (T6).
    fn tell_settled(&mut self, id: CallerId, written: bool) {
        let answer = self.settled_answer(id, written);
        let Some(mut caller) = self.take_caller(id) else { return };
        let path = self.path_of(caller.permit);
        self.shared.observe_caller(&path, &caller, LockEventKind::Settled { written });
        self.end_wait(&mut caller, AcquireResult::Settled, None);
        caller.sink.end(answer);
        self.shared.registry().watchers.changed(&path);
    }

    /// Nothing of a hold is left here, though it may not be over.
    fn tell_gone(&mut self, id: CallerId, end: HoldEnd, why: CallError) {
        if let Some(aside) = &mut self.aside {
            aside.releases.retain(|(caller, _)| *caller != id);
        }
        let Some(mut caller) = self.take_caller(id) else { return };
        self.hold_ended(&mut caller, end, "");
        caller.sink.end(Err(why));
    }

    /// What a renewal says of a pause that is suspected (S3).
    fn weigh_suspicion(&self, failure: Option<RenewalFailure>, latency: Option<Duration>) {
        let clock = &self.shared.clock;
        let now = clock.now();
        let is_gone = matches!(failure, Some(RenewalFailure::Taken | RenewalFailure::Deleted));
        if is_gone {
            clock.suspicions().confirm(now);
        } else if failure.is_none()
            && let Some(latency) = latency
            && let Some(source) = clock.suspicions().refute(now.saturating_sub(latency), now)
        {
            let kind = LockEventKind::ClockNotHeard { source };
            self.shared.observe(&LockEvent::of_sidecar(kind));
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

impl Task {
    /// Who follows the caller that requests for this permit are made for now.
    pub(super) fn served(&self, permit: Permit) -> Option<TraceHandle> {
        let caller = self.queue.machine(permit).and_then(Hold::serves)?;
        self.callers.get(&caller)?.trace.clone()
    }

    /// Links a hold with the one that its lock is handed on to, before it is told to be over (S10).
    pub(super) fn trace_hand_offs(&self, actions: &[queue::Action]) {
        for action in actions {
            let queue::Action::At {
                permit,
                action: hold::Action::Tell { caller: id, notice: Notice::Granted(_) },
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

    /// Links a hold with the caller that goes on with it (S16).
    fn trace_resumed(&self, former: &Caller, by: CallerId) {
        let trace = self.callers.get(&by).and_then(|caller| caller.trace.as_ref());
        if let (Some(former), Some(trace)) = (&former.trace, trace) {
            let at = self.shared.clock.now();
            trace.linked(former.id(), TraceLink::ResumedFrom, at);
            former.linked(trace.id(), TraceLink::ResumedBy, at);
        }
    }
}
