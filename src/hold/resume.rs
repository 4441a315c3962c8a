//! A hold that goes on by another stream: at once if it is still had here (`resume_here`); or at another or a
//! restarted sidecar, once its record was read (`comebacks.rs`, then `take_up`; S16).

use std::sync::Arc;

use super::action::{Loss, LossReason, Notice, Output, Request};
use super::attempt::Attempt;
use super::comebacks::{Comeback, TOO_LATE, refuse};
use super::event::{
    CallerId, Failure, RequestId, Resume, StoreFailure, StoreFailureKind, Stored, Terms,
};
use super::exchange::{Exchange, RecordWrite};
use super::grant::Resumed;
use super::held::{Bounds, GracePeriod, Phase, StoreClock};
use super::idle::{Idle, Wait};
use super::release::{Released, Releasing};
use super::renewal::valid_until;
use super::saves::end_saves;
use super::{Hold, State};
use crate::lock::LeaseId;
use crate::record::{ETag, Fields, Record};
use crate::time::{Instant, UnixMillis};

/// A hold that is being taken up again.
#[derive(Clone, Debug)]
pub(super) struct Resuming {
    pub(super) caller: CallerId,
    pub(super) resume: Resume,
    step: ResumeStep,
    pub(super) exchange: Exchange,
    /// The bounds of the hold: where this sidecar had it, newer than what the resume token says (S11).
    pub(super) bounds: Bounds,
    /// Until when the client may believe, also by a slow clock (S13).
    believed_until: Instant,
    store_clock: StoreClock,
}

#[derive(Clone, Debug)]
enum ResumeStep {
    /// By the version that was read: nobody has gone on with the hold, or been granted the lock, since.
    Renew { sent: Instant, if_match: ETag, fields: Fields },
    /// The record has changed since it was read.
    Read { renewed: Option<Instant> },
    /// The record is written again with a greater generation: its new version shields the hold from whoever
    /// had it before, because releases and renewals go by the version that the sender knows.
    Write { renewed: Instant, write: RecordWrite },
}

/// What a resume is answered before the store is asked.
enum Verdict {
    GoOn,
    Ended,
    Later,
}

impl Hold {
    pub(super) fn resume(&mut self, caller: CallerId, resume: Resume, output: &mut Output) {
        if self.shutdown.is_under_way() {
            return output.tell(caller, Notice::Failed(StoreFailure::shutting_down()));
        }
        let Some(resume) = self.resume_here(caller, resume, output) else { return };
        if self.is_answered(caller, &resume, output) {
            return;
        }
        self.come_back(caller, resume, output);
    }

    /// Whether a resume is answered without asking the store.
    fn is_answered(&self, caller: CallerId, resume: &Resume, output: &mut Output) -> bool {
        match self.may_resume(resume) {
            Verdict::GoOn => return false,
            Verdict::Ended => {
                let detail = "the hold has ended, or another has had the lock since";
                refuse(caller, Loss { detail, ..Loss::TAKEN }, output);
            }
            Verdict::Later => {
                let store_failure = StoreFailure {
                    kind: StoreFailureKind::Unavailable,
                    message: "another hold of this lock is not settled yet".to_owned(),
                    retry_after: None,
                };
                output.tell(caller, Notice::Failed(store_failure));
            }
        }
        true
    }

    /// The record shows that the hold is the client's: it is taken up again, unless that is settled here
    /// meanwhile.
    pub(super) fn take_up(&mut self, comeback: Comeback, stored: &Stored, output: &mut Output) {
        let Comeback { caller, mut resume, mut bounds, .. } = comeback;
        if self.is_answered(caller, &resume, output) {
            return;
        }
        if let Some(store_bounds) = resume.bounds.take() {
            bounds.cut(store_bounds, stored.time, output.now);
        }
        if let Some(reason) = bounds.passed(output.now) {
            let detail = "a bound of the hold passed before it was resumed";
            return refuse(caller, Loss { reason, detail }, output);
        }
        // Who waits here waits for that hold from now on, whatever failed before.
        self.store_failure = None;
        match self.take_state(output.now) {
            State::Idle { retry, .. } => self.drop_retry(retry.map(|retry| *retry), output),
            State::Acquiring(attempt) => self.drop_attempt(*attempt, output),
            State::Resuming(former) => {
                output.tell(former.caller, Notice::Superseded { by: caller });
            }
            State::Releasing(releasing) => self.leave_behind(&releasing, output),
            State::Held(_) => {}
        }
        let (if_match, fields) = (stored.etag.clone(), stored.fields.clone());
        let step = ResumeStep::Renew { sent: output.now, if_match, fields };
        let exchange = Exchange::Waiting { at: output.now };
        let believed_until = resume.believed_until;
        let store_clock = StoreClock { heard: output.now, time: stored.time };
        let resuming =
            Resuming { caller, resume, step, exchange, bounds, believed_until, store_clock };
        self.send_resume(Box::new(resuming), output);
    }

    /// Goes on with a hold that this sidecar still has: its record is known, and written with the next
    /// generation. Gives the resume back if that is not so.
    fn resume_here(
        &mut self,
        caller: CallerId,
        mut resume: Resume,
        output: &mut Output,
    ) -> Option<Resume> {
        let State::Held(held) = &self.state else { return Some(resume) };
        if held.lease_id != resume.lease_id || held.token != resume.token {
            return Some(resume);
        }
        if resume.generation > held.generation {
            // S16: it went on elsewhere meanwhile, so what is known here is old, also that it is over.
            let held = held.clone();
            self.moved_on(&held, output);
            return Some(resume);
        }
        match held.phase {
            Phase::Active | Phase::GracePeriod(GracePeriod::StreamBroken) => {}
            Phase::LastSave { .. } | Phase::Resting { .. } | Phase::GracePeriod(_) => {
                return Some(resume);
            }
        }
        if held.notice.is_some() {
            // S22: a hold whose lease was broken is not resumed.
            let Loss { reason, detail } = Loss::BROKEN;
            output.tell(caller, Notice::Lost { reason, detail: detail.to_owned() });
            return None;
        }
        let known = self.memory.known.as_ref();
        let repeated = !resume.attempt.is_empty() && *resume.attempt == *held.attempt;
        let Some(known) = known.filter(|_| resume.generation == held.generation || repeated) else {
            return Some(resume);
        };
        resume.terms = Arc::clone(&held.terms);
        resume.acquired_at = held.acquired_at;
        let etag = known.etag();
        let fields = next_generation(known.fields(), &resume, self.jitter.name());
        let write = RecordWrite { if_match: etag.clone(), fields };
        let step = ResumeStep::Write { renewed: held.renewal.good_sent(), write };
        end_saves(held.saving.as_deref(), output);
        output.tell(held.caller, Notice::Superseded { by: caller });
        // What the client was told last was told here.
        resume.believed_until = held.told_until;
        let believed_until = held.believed_until;
        let store_clock = held.store_clock;
        let bounds = held.bounds.clone();
        let lease_duration = held.renewal.lease_duration();
        for request in held.renewal.unanswered().collect::<Vec<_>>() {
            self.abandoned.keep(request, resume.lease_id, Some(etag.clone()), lease_duration);
        }
        let exchange = Exchange::Waiting { at: output.now };
        let resuming =
            Resuming { caller, resume, step, exchange, bounds, believed_until, store_clock };
        self.send_resume(Box::new(resuming), output);
        None
    }

    fn may_resume(&self, resume: &Resume) -> Verdict {
        if self.memory.highest.is_some_and(|highest| highest > resume.token) {
            return Verdict::Ended;
        }
        match &self.state {
            // S6: a lease that was acquired here is not thrown away before it shows which of the two counts.
            State::Acquiring(attempt) if matches!(**attempt, Attempt::Leased { .. }) => {
                Verdict::Later
            }
            State::Idle { .. } | State::Acquiring(_) => Verdict::GoOn,
            State::Held(held) if held.lease_id == resume.lease_id => Verdict::Ended,
            // Somebody here may still believe in a lease that the store has given to another since (S8, S13).
            State::Held(_) => Verdict::Later,
            State::Releasing(releasing) if releasing.is_left_by(resume) => Verdict::GoOn,
            State::Releasing(releasing) if releasing.lease_id == resume.lease_id => Verdict::Ended,
            State::Releasing(_) => Verdict::Later,
            State::Resuming(other) if other.lease_id() == resume.lease_id => Verdict::GoOn,
            State::Resuming(_) => Verdict::Later,
        }
    }

    fn send_resume(&mut self, mut resuming: Box<Resuming>, output: &mut Output) {
        let lease_id = resuming.lease_id();
        let what = match &mut resuming.step {
            ResumeStep::Renew { sent, if_match, .. } => {
                *sent = output.now;
                let if_match = Some(if_match.clone());
                Request::Renew { lease_id, if_match }
            }
            ResumeStep::Read { .. } => Request::Read,
            ResumeStep::Write { write, .. } => write.request(lease_id),
        };
        resuming.exchange = self.send(what, resuming.resume.terms.lease_duration, output);
        self.state = State::Resuming(resuming);
    }

    pub(super) fn advance_resuming(&mut self, resuming: Box<Resuming>, output: &mut Output) {
        if output.now >= resuming.resume.believed_until {
            return self.resume_lost(&resuming, TOO_LATE, output);
        }
        match resuming.exchange {
            Exchange::Sent { until, .. } if output.now >= until => {
                self.resume_later(resuming, output)
            }
            Exchange::Waiting { at } if output.now >= at => self.send_resume(resuming, output),
            Exchange::Sent { .. } | Exchange::Waiting { .. } => {
                self.state = State::Resuming(resuming);
            }
        }
    }

    pub(super) fn resume_renew_answered(
        &mut self,
        mut resuming: Box<Resuming>,
        request: RequestId,
        answer: Result<UnixMillis, Failure>,
        output: &mut Output,
    ) {
        match resuming.step {
            ResumeStep::Renew { sent, if_match, fields } if resuming.exchange.is(request) => {
                match answer {
                    Ok(time) => {
                        resuming.store_clock = StoreClock { heard: output.now, time };
                        let fields = next_generation(fields, &resuming.resume, self.jitter.name());
                        let write = RecordWrite { if_match, fields };
                        resuming.step = ResumeStep::Write { renewed: sent, write };
                        self.send_resume(resuming, output);
                    }
                    Err(Failure::Changed) => {
                        resuming.step = ResumeStep::Read { renewed: None };
                        self.send_resume(resuming, output);
                    }
                    Err(failure) => {
                        resuming.step = ResumeStep::Renew { sent, if_match, fields };
                        self.resume_failed(resuming, &failure, output);
                    }
                }
            }
            step @ (ResumeStep::Renew { .. }
            | ResumeStep::Read { .. }
            | ResumeStep::Write { .. }) => {
                resuming.step = step;
                self.state = State::Resuming(resuming);
                self.late_answer(request, answer.is_ok(), output);
            }
        }
    }

    pub(super) fn resume_read_answered(
        &mut self,
        mut resuming: Box<Resuming>,
        request: RequestId,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        let renewed = match resuming.step {
            ResumeStep::Read { renewed } if resuming.exchange.is(request) => renewed,
            ResumeStep::Renew { .. } | ResumeStep::Read { .. } | ResumeStep::Write { .. } => {
                self.state = State::Resuming(resuming);
                return;
            }
        };
        match answer {
            Ok(Stored { etag: if_match, fields, time, .. }) => {
                resuming.store_clock = StoreClock { heard: output.now, time };
                if let Err(loss) = resuming.resume.check(&Record::from_fields(&fields)) {
                    return self.resume_refused(&resuming, loss, output);
                }
                resuming.step = match renewed {
                    Some(renewed) => {
                        let fields = next_generation(fields, &resuming.resume, self.jitter.name());
                        ResumeStep::Write { renewed, write: RecordWrite { if_match, fields } }
                    }
                    None => ResumeStep::Renew { sent: output.now, if_match, fields },
                };
                self.send_resume(resuming, output);
            }
            Err(failure) => self.resume_failed(resuming, &failure, output),
        }
    }

    pub(super) fn resume_write_answered(
        &mut self,
        mut resuming: Box<Resuming>,
        request: RequestId,
        answer: Result<ETag, Failure>,
        output: &mut Output,
    ) {
        let (renewed, write) = match resuming.step {
            ResumeStep::Write { renewed, write } if resuming.exchange.is(request) => {
                (renewed, write)
            }
            step @ (ResumeStep::Renew { .. }
            | ResumeStep::Read { .. }
            | ResumeStep::Write { .. }) => {
                resuming.step = step;
                self.state = State::Resuming(resuming);
                return;
            }
        };
        resuming.step = ResumeStep::Read { renewed: Some(renewed) };
        match answer {
            // S2: after any wait the validity is checked again.
            Ok(_) if output.now >= resuming.valid_until(renewed) => {
                let reason = resuming.bounds.passed(output.now).unwrap_or(LossReason::Expired);
                let detail = "the resume took longer than the validity that it renewed";
                self.resume_lost(&resuming, Loss { reason, detail }, output);
            }
            // S3: a pause was suspected since the lease was renewed: once more, from the generation that is
            // stored now.
            Ok(if_match) if self.is_unproven(renewed) => {
                let fields = write.fields;
                resuming.resume.generation = Record::from_fields(&fields).generation;
                resuming.step = ResumeStep::Renew { sent: output.now, if_match, fields };
                self.send_resume(resuming, output);
            }
            Ok(etag) => {
                let Resuming { caller, mut resume, bounds, store_clock, .. } = *resuming;
                resume.remember(Record::from_fields(&write.fields));
                self.record_stored(&write, &etag, request, output.now);
                self.memory.highest = self.memory.highest.max(Some(resume.token));
                let resumed = Resumed { caller, resume, bounds, store_clock, renewed };
                self.grant_resumed(resumed, output);
            }
            // By our own write, whose answer was lost, or by another: the record says which.
            Err(Failure::Changed) => self.send_resume(resuming, output),
            Err(failure) => {
                resuming.step = ResumeStep::Write { renewed, write };
                self.resume_failed(resuming, &failure, output);
            }
        }
    }

    /// The caller of a resume went away. It may be trying elsewhere and still believe in its hold: the lease
    /// is left to run out.
    pub(super) fn resume_left(&mut self, caller: CallerId, output: &Output) -> bool {
        let lease_id = match &self.state {
            State::Resuming(resuming) if resuming.caller == caller => resuming.lease_id(),
            State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_) => return self.drop_comeback(caller),
        };
        self.leave_to_run_out(lease_id, output);
        true
    }

    /// Its client may still believe, and go on elsewhere: nothing that is answered late releases the lease
    /// (S13, S16).
    pub(super) fn leave_to_run_out(&mut self, lease_id: LeaseId, output: &Output) {
        self.abandoned.forget(lease_id);
        self.state = State::ready(output.now);
    }

    /// S15: the client may go on with its hold at another sidecar, so it is not lost.
    pub(super) fn drain_resume(&mut self, output: &mut Output) {
        self.drain_comebacks(output);
        if let State::Resuming(resuming) = &self.state {
            let lease_id = resuming.lease_id();
            output.tell(resuming.caller, Notice::Failed(StoreFailure::shutting_down()));
            self.leave_to_run_out(lease_id, output);
        }
    }

    fn resume_failed(&mut self, resuming: Box<Resuming>, failure: &Failure, output: &mut Output) {
        match failure.loss() {
            Some(loss) => self.resume_lost(&resuming, loss, output),
            None => self.resume_later(resuming, output),
        }
    }

    fn resume_later(&mut self, mut resuming: Box<Resuming>, output: &Output) {
        // The client's validity is running: there is no time for patience.
        let duration = resuming.resume.terms.lease_duration;
        resuming.exchange =
            Exchange::Waiting { at: output.now + self.jitter.around(duration / 60, 20) };
        self.state = State::Resuming(resuming);
    }

    /// The hold is another's by now: the store lets nobody have it beside that one, so nothing is held back.
    fn resume_refused(&mut self, resuming: &Resuming, loss: Loss, output: &mut Output) {
        refuse(resuming.caller, loss, output);
        self.abandoned.forget(resuming.lease_id());
        self.state = State::ready(output.now);
    }

    /// The resume did not succeed; the client may believe until its validity ends (S13).
    fn resume_lost(
        &mut self,
        resuming: &Resuming,
        Loss { reason, detail }: Loss,
        output: &mut Output,
    ) {
        output.tell(resuming.caller, Notice::Lost { reason, detail: detail.to_owned() });
        self.abandoned.forget(resuming.lease_id());
        let until = resuming.believed_until.max(output.now);
        self.state = State::Idle { idle: Idle { until, why: Wait::Believed }, retry: None };
    }
}

/// The record with the next generation of its hold (S16); of its grant, if it was of the one before (S10).
fn next_generation(fields: Fields, resume: &Resume, write: String) -> Fields {
    let mut record = Record::from_fields(&fields);
    if record.token != Some(resume.token) {
        let Record { holder, host_type, labels, .. } = resume.terms.record.clone();
        let (token, acquired_at) = (Some(resume.token), Some(resume.acquired_at));
        record = Record { token, acquired_at, holder, host_type, labels, ..record };
    }
    let generation = record.generation.max(1) + 1;
    // The hold is had here from now on (S34).
    let sidecar = Arc::clone(&resume.terms.record.sidecar);
    let attempt = resume.attempt.clone();
    Record { generation, attempt, write, sidecar, ..record }.into_fields(fields)
}

impl Hold {
    /// S16: the hold whose lease goes back from here went on elsewhere, and comes here again. Its release
    /// went by a version that has been written over.
    pub(super) fn leave_behind(&mut self, releasing: &Releasing, output: &mut Output) {
        self.memory.known = None;
        if let Some(caller) = releasing.hold.as_ref().and_then(|hold| hold.caller) {
            output.tell(caller, Notice::Moved);
        }
    }

    /// The client released with the generation that it had before this resume: the resume may have been done
    /// by now, or a repeat of it elsewhere, so the lease is left to run out (S16).
    pub(super) fn give_up_resume(&mut self, resuming: &Resuming, output: &mut Output) {
        let lease_duration = resuming.resume.terms.lease_duration;
        let released = Released {
            caller: Some(resuming.caller),
            if_match: None,
            token: resuming.resume.token,
            generation: resuming.resume.generation,
            resting_until: None,
            proven_until: output.now,
        };
        let given_up = resuming.exchange.given_up(output.now);
        let unused = Releasing::unused(resuming.lease_id(), lease_duration, given_up);
        self.release(Releasing { hold: Some(released), ..unused }.running_out(), output);
    }
}

impl Resuming {
    /// Whether `caller` is the one that resumes.
    pub(super) fn is_of(&self, caller: CallerId) -> bool {
        self.caller == caller
    }

    pub(super) const fn lease_id(&self) -> LeaseId {
        self.resume.lease_id
    }

    pub(super) fn valid_until(&self, renewed: Instant) -> Instant {
        self.bounds.limit(valid_until(renewed, self.resume.terms.lease_duration))
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.exchange.at().min(self.resume.believed_until)
    }
}

impl Releasing {
    /// Whether `resume` is of a later generation of the hold whose lease goes back.
    fn is_left_by(&self, resume: &Resume) -> bool {
        self.lease_id == resume.lease_id
            && self.hold.as_ref().is_some_and(|hold| resume.generation > hold.generation)
    }
}

impl Resume {
    /// Whether the record is still that of the client's hold (S16); why not. The hold may have been handed on
    /// to the client just before, so that the record is yet of the grant that ended then (S10).
    pub(super) fn check(&self, record: &Record) -> Result<(), Loss> {
        let taken = |detail| Err(Loss { detail, ..Loss::TAKEN });
        let stored = record.token.filter(|_| record.lease == Some(self.lease_id.fingerprint()));
        if !stored.is_some_and(|token| token.epoch() == self.token.epoch() && token <= self.token) {
            return taken("the lock has been granted to another since");
        }
        let repeated = !self.attempt.is_empty() && record.attempt == self.attempt;
        if record.generation.max(1) != self.generation && !repeated {
            return taken("the hold went on from another of its grants: this one is old");
        }
        Ok(())
    }

    /// Fills in what the client did not bring and the record of its grant has, as it was just written.
    pub(super) fn remember(&mut self, stored: Record) {
        let Record { permits, sharing, labels, .. } = stored;
        let mut terms = Terms::clone(&self.terms);
        terms.record = Record { permits, sharing, labels, ..terms.record };
        self.terms = Arc::new(terms);
    }
}
