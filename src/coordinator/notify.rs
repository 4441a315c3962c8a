//! Tells callers what becomes of their calls and holds, and the operator what the machine reports: answers,
//! events, observations, one log line a grant, loss and release.

use std::time::Duration;

use super::caller::Caller;
use super::error::CallError;
use super::hold_event::HoldEvent;
use super::journal::{HappeningKind, News};
use super::observe::{AcquireResult, HoldEnd, Observation, RenewalFailure};
use super::occurrences::settled_event;
use super::registry::{Ended, HoldEntry};
use super::request::{BusyAnswer, Extended, Grant, LockRecord, LockState, Outcome, Released};
use super::task::Task;
use super::trace::TraceEnd;
use super::{calls, resume_token};
use crate::hold::{
    Action, Busy, CallerId, Failure, Granted, Known, LossReason, NotConfirmed, StoreFailure,
};
use crate::lock::{FencingToken, LockPath, Permit, Priority};
use crate::store::BreakNote;
use crate::time::Instant;

/// A line about a hold; at DEBUG for a run of a schedule, which has one at its start and one at its end
/// (T23).
macro_rules! log_hold {
    ($is_run:expr, $($line:tt)+) => {
        if $is_run { tracing::debug!($($line)+) } else { tracing::info!($($line)+) }
    };
}

impl Task {
    pub(super) fn tell(&mut self, permit: Permit, action: Action) {
        let path = self.path_of(permit);
        self.trace_event(&action);
        match action {
            Action::TellWaiting { caller, place } => self.tell_waiting(caller, place),
            Action::TellGranted { caller, grant } => self.tell_granted(permit, caller, &grant),
            Action::TellSameGrant { caller, holder } => self.tell_same_grant(caller, holder),
            Action::TellBusy { caller, busy } => self.tell_busy(permit, caller, busy),
            Action::TellFailed { caller, store_failure } => self.tell_failed(caller, store_failure),
            Action::TellSettled { caller, written } => self.tell_settled(caller, written),
            Action::TellSuperseded { caller, by } => self.tell_superseded(caller, by),
            Action::TellMoved { caller } => self.tell_moved(caller),
            Action::TellInterrupted { caller } => self.tell_interrupted(caller),
            Action::TellExtended { caller, valid_until, max_hold_ends } => {
                self.tell_extended(caller, valid_until, max_hold_ends);
            }
            Action::TellRenewed { caller, valid_until } => {
                tracing::debug!(lock = %path, "renewed");
                self.tell_validity(caller, valid_until, HoldEvent::Renewed);
            }
            Action::TellAtRisk { caller, valid_until, kind, detail } => {
                self.report_at_risk(&path, &detail);
                self.tell_validity(caller, valid_until, |validity| HoldEvent::AtRisk {
                    validity,
                    kind,
                    detail,
                });
                self.mark_at_risk(caller, valid_until, true);
            }
            Action::TellRecovered { caller, valid_until } => {
                self.tell_recovered(&path, caller, valid_until);
            }
            Action::TellRevoked { caller, valid_until } => self.tell_revoked(caller, valid_until),
            Action::TellSaved { id, outcome } => self.tell_saved(permit, id, outcome),
            Action::TellDraining { caller, ends } => {
                let time_left = ends.saturating_since(self.shared.clock.now());
                self.send_event(caller, HoldEvent::Draining { time_left });
            }
            Action::TellLost { caller, reason, detail } => self.tell_lost(caller, reason, detail),
            Action::TellResumeRefused { caller, reason, detail } => {
                self.tell_resume_refused(caller, reason, detail);
            }
            Action::TellReleased { caller, resting_until } => {
                self.tell_released(caller, resting_until);
            }
            Action::TellNotConfirmed { caller, why, detail } => {
                self.tell_not_confirmed(caller, why, &detail);
            }
            Action::ReportCollision { stored, ours } => {
                self.report_collision(&path, &stored, &ours);
            }
            Action::ReportTokenNotGrowing { seen, next } => self.report_token(&path, seen, next),
            Action::ReportForgotten => self.shared.observer.observe(&Observation::ForgottenRead),
            Action::ReportCannotBreak { store_failure } => {
                self.report_cannot_break(&path, &store_failure);
            }
            Action::ReportOverruled { priority, moves } => {
                self.report_overruled(&path, priority, moves);
            }
            Action::ReportRenewal { latency, lateness, failure } => {
                self.report_renewal(&path, latency, lateness, failure.as_ref());
            }
            // Sent before they come here.
            Action::SendAcquire { .. }
            | Action::SendRead { .. }
            | Action::SendLook { .. }
            | Action::SendWrite { .. }
            | Action::SendRenew { .. }
            | Action::SendBreak { .. }
            | Action::SendRelease { .. } => {}
        }
    }

    fn tell_recovered(&mut self, path: &LockPath, id: CallerId, valid_until: Instant) {
        tracing::info!(lock = %path, "hold recovered: renewals succeed again");
        self.happened(News::of(HappeningKind::Recovered, path));
        self.tell_validity(id, valid_until, HoldEvent::Recovered);
        self.mark_at_risk(id, valid_until, false);
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
        self.trace_grant(id, lease_id, permit, granted);
        // A hold that was resumed is another caller's now.
        self.callers.retain(|other, caller| *other == id || caller.lease_id != lease_id);
        let named = self.named(id).cloned();
        let Some(caller) = self.callers.get_mut(&id) else { return };
        caller.permit = permit;
        caller.granted = Some(now);
        caller.max_hold_ends = granted.max_hold_ends;
        caller.told = caller.sink.is_stream().then(|| Box::new(granted.without_checkpoint()));
        caller.token = Some(granted.token);
        let (shared, path) = (&self.shared, &self.path.permit(permit));
        let wall = shared.clock.wall();
        let named = named.as_deref();
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
        });
        let holder = &caller.terms.record.holder;
        let token = granted.token.value();
        log_hold!(caller.is_run, lock = %path, token, %holder, resumed = granted.resumed, "lock granted");
        let kind = match (granted.resumed, granted.token.hand_offs()) {
            (true, _) => HappeningKind::Resumed,
            (false, 0) => HappeningKind::Granted,
            (false, _) => HappeningKind::HandedOn,
        };
        shared.happened(News::of(kind, path).to(holder, Some(granted.token)));
        let result = if granted.resumed { AcquireResult::Resumed } else { AcquireResult::Granted };
        let waited = now.saturating_since(caller.arrived);
        shared.observer.observe(&Observation::Acquire { result, waited });
        let mut registry = shared.registry();
        if std::mem::take(&mut caller.waits) {
            registry.waiter_gone();
        }
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
        let Some(mut caller) = self.callers.remove(&id) else { return };
        let answer = grant.map(Outcome::Granted).ok_or(CallError::Superseded);
        self.end_wait(&mut caller, AcquireResult::Granted);
        caller.sink.answer(answer);
    }

    fn tell_busy(&mut self, permit: Permit, id: CallerId, busy: Busy) {
        let Some(mut caller) = self.callers.remove(&id) else { return };
        self.end_wait(&mut caller, AcquireResult::Busy);
        let mut record = self.record_here(permit);
        record.state = if busy.resting { LockState::Resting } else { LockState::Held };
        record.holder_is_last_recorded &= !busy.resting;
        record.record = busy.record;
        self.happened_refusal(&caller, &record);
        let Busy { retry_after, held_permits, priority, .. } = busy;
        let answer = Box::new(BusyAnswer { record, retry_after, held_permits, priority });
        caller.sink.event(HoldEvent::Busy(answer.clone()));
        caller.sink.answer(Ok(Outcome::Busy(answer)));
    }

    fn tell_failed(&mut self, id: CallerId, store_failure: StoreFailure) {
        let Some(mut caller) = self.callers.remove(&id) else { return };
        self.shared.registry().forget_hold(caller.lease_id, id);
        self.end_wait(&mut caller, AcquireResult::Failed(store_failure.kind));
        caller.sink.event(HoldEvent::Failed(CallError::StoreFailure(store_failure.clone())));
        caller.sink.answer(Err(CallError::StoreFailure(store_failure)));
    }

    fn tell_extended(&mut self, id: CallerId, valid_until: Instant, max_hold_ends: Instant) {
        let named = self.named(id).cloned();
        let Some(caller) = self.callers.get_mut(&id) else { return };
        caller.max_hold_ends = Some(max_hold_ends);
        let lease_id = caller.lease_id;
        let clock = self.shared.clock.as_ref();
        let namespace = &self.shared.settings.host.namespace;
        let resume_token = resume_token::make(namespace, caller, named.as_deref(), clock);
        self.note_validity(lease_id, valid_until, None);
        let validity = self.shared.validity(valid_until);
        let max_hold_ends = Some(self.shared.deadline(max_hold_ends));
        let extended = Extended { validity, resume_token, max_hold_ends };
        self.send_event(id, HoldEvent::Extended(extended));
    }

    fn tell_validity(
        &mut self,
        id: CallerId,
        valid_until: Instant,
        event: impl FnOnce(super::request::Validity) -> HoldEvent,
    ) {
        if let Some(caller) = self.callers.get(&id) {
            self.note_validity(caller.lease_id, valid_until, None);
            self.send_event(id, event(self.shared.validity(valid_until)));
        }
    }

    fn mark_at_risk(&self, id: CallerId, valid_until: Instant, at_risk: bool) {
        if let Some(caller) = self.callers.get(&id) {
            self.note_validity(caller.lease_id, valid_until, Some(at_risk));
        }
    }

    fn tell_lost(&mut self, id: CallerId, reason: LossReason, detail: String) {
        self.forget_grant(id);
        let Some(mut caller) = self.callers.remove(&id) else { return };
        let break_note = self.break_note_of(&caller, reason);
        let detail = match &break_note {
            Some(note) => format!("{detail}: {}", calls::note_text(note)),
            None => detail,
        };
        let holder = &caller.terms.record.holder;
        let token = caller.token.map(FencingToken::value);
        let path = self.path_of(caller.permit);
        tracing::warn!(lock = %path, token, reason = reason.as_str(), %detail, %holder, "lock lost");
        self.happened_loss(&path, &caller, reason, &detail);
        self.end_hold(&mut caller, Ended::Lost(reason));
        caller.sink.event(HoldEvent::Lost { reason, detail, break_note });
        let resumed = Err(CallError::HoldLost { reason });
        caller.sink.answer(resumed);
        self.answer_releases(id, &Released::AlreadyLost { reason });
    }

    /// To its client the hold is lost. Here it never was, and a client that means harm is not to count losses
    /// or fill the log.
    fn tell_resume_refused(&mut self, id: CallerId, reason: LossReason, detail: String) {
        let Some(mut caller) = self.callers.remove(&id) else { return };
        let (path, now) = (self.path_of(caller.permit), self.shared.clock.now());
        if let Some(more) = self.shared.refused_resumes.line(now) {
            let holder = &caller.terms.record.holder;
            tracing::info!(lock = %path, reason = reason.as_str(), %detail, %holder, more, "a resume was refused");
        }
        self.shared.observer.observe(&Observation::ResumeRefused);
        self.shared.registry().forget_hold(caller.lease_id, id);
        self.end_wait(&mut caller, AcquireResult::ResumeRefused);
        caller.sink.event(HoldEvent::Lost { reason, detail, break_note: None });
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
        if let Some(mut caller) = self.callers.remove(&id) {
            self.note_released(&mut caller);
            caller.sink.event(HoldEvent::Released(released.clone()));
        }
        self.answer_releases(id, &released);
    }

    /// The store has not confirmed a release (S13).
    fn tell_not_confirmed(&mut self, id: CallerId, why: NotConfirmed, detail: &str) {
        self.forget_grant(id);
        if let Some(mut caller) = self.callers.remove(&id) {
            let was_here = self.holder(caller.lease_id) == Some(id);
            if was_here {
                self.note_not_confirmed(&mut caller, why, detail);
            } else {
                // A resume that its client gave up: what it would have resumed was not here.
                self.end_wait(&mut caller, AcquireResult::Left);
            }
            caller.sink.event(HoldEvent::Released(Released::NotConfirmed));
        }
        self.answer_releases(id, &Released::NotConfirmed);
    }

    fn note_not_confirmed(&self, caller: &mut Caller, why: NotConfirmed, detail: &str) {
        let holder = &caller.terms.record.holder;
        let token = caller.token.map(FencingToken::value);
        let path = self.path_of(caller.permit);
        let cause = why.as_str();
        tracing::warn!(lock = %path, token, %holder, why = cause, %detail, "release not confirmed");
        let news = News::of(HappeningKind::NotConfirmed, &path).to(holder, caller.token);
        self.happened(news.saying(detail));
        self.end_hold(caller, Ended::NotConfirmed(why));
    }

    /// A caller went away: it waited, or it held.
    pub(super) fn note_left(&mut self, mut caller: Caller) {
        self.forget_grant(caller.id);
        if caller.granted.is_some() {
            self.note_released(&mut caller);
        } else {
            self.shared.registry().forget_hold(caller.lease_id, caller.id);
            self.end_wait(&mut caller, AcquireResult::Left);
        }
    }

    fn note_released(&self, caller: &mut Caller) {
        let holder = &caller.terms.record.holder;
        let token = caller.token.map(FencingToken::value);
        let path = self.path_of(caller.permit);
        log_hold!(caller.is_run, lock = %path, token, %holder, "lock released");
        self.happened(News::of(HappeningKind::Released, &path).to(holder, caller.token));
        self.end_hold(caller, Ended::Released);
    }

    pub(super) fn end_wait(&self, caller: &mut Caller, result: AcquireResult) {
        let waited = self.shared.clock.now().saturating_since(caller.arrived);
        if caller.granted.is_none() {
            self.shared.observer.observe(&Observation::Acquire { result, waited });
            self.shared.trace_end(caller.trace.as_ref(), TraceEnd::NotGranted(result));
        }
        if std::mem::take(&mut caller.waits) {
            self.shared.registry().waiter_gone();
        }
    }

    fn end_hold(&self, caller: &mut Caller, ended: Ended) {
        let now = self.shared.clock.now();
        let held = caller.granted.map(|at| now.saturating_since(at));
        let end = match ended {
            Ended::Released => HoldEnd::Released,
            Ended::NotConfirmed(why) => HoldEnd::NotConfirmed(why),
            Ended::Lost(reason) => HoldEnd::Lost(reason),
        };
        let observer = &self.shared.observer;
        if held.is_none() {
            let waited = now.saturating_since(caller.arrived);
            observer.observe(&Observation::Acquire { result: AcquireResult::ResumeLost, waited });
        }
        observer.observe(&Observation::HoldEnded { end, held });
        self.shared.trace_end(caller.trace.as_ref(), TraceEnd::Ended(end));
        let path = self.path_of(caller.permit);
        let mut registry = self.shared.registry();
        if std::mem::take(&mut caller.waits) {
            registry.waiter_gone();
        }
        registry.end_hold(caller.lease_id, caller.id, ended);
        match ended {
            Ended::Released | Ended::NotConfirmed(_) => registry.released(&path),
            Ended::Lost(_) => registry.changed(&path),
        }
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

    pub(super) fn send_event(&self, id: CallerId, event: HoldEvent) {
        if let Some(caller) = self.callers.get(&id) {
            caller.sink.event(event);
        }
    }

    /// Another call has taken the place of one that waited.
    fn tell_superseded(&mut self, id: CallerId, by: CallerId) {
        let Some(mut caller) = self.callers.remove(&id) else { return };
        self.shared.registry().supersede(caller.lease_id, id, by);
        self.trace_resumed(&caller, by);
        self.end_wait(&mut caller, AcquireResult::Left);
        caller.sink.event(HoldEvent::Failed(CallError::Superseded));
        caller.sink.answer(Err(CallError::Superseded));
    }

    /// A caller's own part of the grant had it granted nothing (T6).
    fn tell_settled(&mut self, id: CallerId, written: bool) {
        let path = self.path_at(id);
        let answer = self.settled_answer(id, written);
        let Some(mut caller) = self.callers.remove(&id) else { return };
        tracing::debug!(lock = %path, written, "settled: granted to nobody");
        self.shared.registry().forget_hold(caller.lease_id, id);
        self.end_wait(&mut caller, AcquireResult::Settled);
        caller.sink.event(settled_event(answer.clone()));
        caller.sink.answer(answer);
        self.shared.registry().changed(&path);
    }

    /// The hold goes on at another sidecar (S16): calls about it are answered as those about a hold that was
    /// never here.
    fn tell_moved(&mut self, id: CallerId) {
        let path = self.path_at(id);
        tracing::info!(lock = %path, "a hold continues at another sidecar");
        self.happened(News::of(HappeningKind::ResumedElsewhere, &path));
        self.tell_gone(id, HoldEnd::ResumedElsewhere, &CallError::Superseded);
    }

    /// The sidecar ends, and the hold does not: it goes on at the replacement, or its lease runs out (S15,
    /// S16).
    fn tell_interrupted(&mut self, id: CallerId) {
        let token = self.callers.get(&id).and_then(|caller| caller.token);
        let path = self.path_at(id);
        self.happened(News::of(HappeningKind::HandedOver, &path).to("", token));
        let token = token.map(FencingToken::value);
        tracing::info!(lock = %path, token, "left to the replacement");
        self.tell_gone(id, HoldEnd::HandedOver, &CallError::handed_over());
    }

    /// Nothing of a hold is left here, though it may not be over.
    fn tell_gone(&mut self, id: CallerId, end: HoldEnd, why: &CallError) {
        self.forget_grant(id);
        if let Some(aside) = &mut self.aside {
            aside.releases.retain(|(caller, _)| *caller != id);
        }
        let Some(mut caller) = self.callers.remove(&id) else { return };
        let now = self.shared.clock.now();
        let held = caller.granted.map(|at| now.saturating_since(at));
        self.shared.observer.observe(&Observation::HoldEnded { end, held });
        self.shared.trace_end(caller.trace.as_ref(), TraceEnd::Ended(end));
        {
            let mut registry = self.shared.registry();
            registry.forget_hold(caller.lease_id, id);
            if std::mem::take(&mut caller.waits) {
                registry.waiter_gone();
            }
            registry.changed(&self.path.permit(caller.permit));
        }
        caller.sink.event(HoldEvent::Failed(why.clone()));
        caller.sink.answer(Err(why.clone()));
    }
}

/// What the machine reports to the operator.
impl Task {
    pub(super) fn report_collision(&self, path: &LockPath, stored: &str, ours: &str) {
        self.shared.observer.observe(&Observation::HostTypeCollision);
        if self.shared.registry().is_new_collision(path) {
            let detail = format!("{stored} and {ours} share this lock path");
            self.happened(News::of(HappeningKind::Collision, path).saying(detail));
            tracing::warn!(
                lock = %path, stored_host_type = stored, our_host_type = ours,
                "two host types share this lock path: give them different host ids, if they are not to exclude each other"
            );
        }
    }

    pub(super) fn report_token(
        &self,
        path: &LockPath,
        seen: FencingToken,
        next: Option<FencingToken>,
    ) {
        let next = next.map(FencingToken::value);
        tracing::error!(lock = %path, seen = seen.value(), next, "fencing token would not grow: no grant");
        self.shared.observer.observe(&Observation::TokenNotGrowing);
        self.happened(News::of(HappeningKind::TokenNotGrowing, path).to("", Some(seen)));
    }

    pub(super) fn report_renewal(
        &self,
        path: &LockPath,
        latency: Option<Duration>,
        lateness: Duration,
        failure: Option<&Failure>,
    ) {
        let failure = failure.map(RenewalFailure::from);
        if let Some(cause) = failure {
            tracing::debug!(lock = %path, cause = cause.as_str(), "renewal failed");
        }
        self.weigh_suspicion(failure, latency);
        self.shared.observer.observe(&Observation::Renewal { failure, latency, lateness });
    }

    pub(super) fn report_at_risk(&self, path: &LockPath, detail: &str) {
        tracing::warn!(lock = %path, %detail, "hold at risk: renewals fail");
        self.happened(News::of(HappeningKind::AtRisk, path).saying(detail));
        self.shared.observer.observe(&Observation::AtRisk);
    }

    /// S33: the store refuses to break leases.
    pub(super) fn report_cannot_break(&self, path: &LockPath, failure: &StoreFailure) {
        tracing::warn!(
            lock = %path, cause = %failure.message,
            "the store refuses to break leases: callers of greater priority wait until the lock is released"
        );
    }

    /// S33, S35: the lock was broken for a caller that waits here.
    pub(super) fn report_overruled(&self, path: &LockPath, priority: Priority, moves: bool) {
        tracing::info!(lock = %path, %priority, moves, "lock broken for a waiting caller");
        self.shared.observer.observe(&Observation::Overruled { moves });
        let detail = if moves {
            "to balance its share".to_owned()
        } else {
            format!("for a caller of priority {priority}")
        };
        self.happened(News::of(HappeningKind::Overruled, path).saying(detail));
    }

    /// A caller was told that somebody else has the lock.
    pub(super) fn happened_refusal(&self, caller: &Caller, busy: &LockRecord) {
        if self.shared.keeps_journal() {
            let detail = match busy.record.holder.as_str() {
                "" => "somebody has it".to_owned(),
                holder => format!("{holder} has it"),
            };
            let news = News::of(HappeningKind::Refused, &busy.path).saying(detail);
            self.happened(news.to(&caller.terms.record.holder, None));
        }
    }

    pub(super) fn happened_loss(
        &self,
        path: &LockPath,
        caller: &Caller,
        reason: LossReason,
        detail: &str,
    ) {
        if self.shared.keeps_journal() {
            let detail = format!("{}: {detail}", reason.as_str());
            let news = News::of(HappeningKind::Lost, path).saying(detail);
            self.happened(news.to(&caller.terms.record.holder, caller.token));
        }
    }

    pub(super) fn happened_revocation(&self, path: &LockPath, caller: &Caller, reason: String) {
        let news = News::of(HappeningKind::Revoked, path).saying(reason);
        self.happened(news.to(&caller.terms.record.holder, caller.token));
    }
}
