//! A hold that goes on by another stream: at once if it is still had here (`resume_here`); or at another or a
//! restarted sidecar, once its record was read (`comebacks_answered`, then `take_up`; S16). A resume token is
//! the client's word: until the record shows that it is of this very hold, nothing here waits for it, is held
//! back or is counted as lost for its sake.

use std::sync::Arc;

use super::exchange::{Exchange, RecordWrite, valid_until};
use super::grant::Resumed;
use super::held::{Bounds, GracePeriod, Phase, StoreClock};
use super::memory::{Idle, Resume, Terms, Wait};
use super::progress::{Attempt, end_saves};
use super::release::{Released, Releasing};
use super::words::{
    CallerId, Failure, Loss, LossReason, Notice, Output, Request, RequestId, StoreFailure,
    StoreFailureKind, Stored,
};
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
    fn take_up(&mut self, comeback: Comeback, stored: &Stored, output: &mut Output) {
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

const TOO_LATE: Loss = Loss {
    reason: LossReason::Expired,
    detail: "the store could not be asked before the validity ran out",
};

/// A client that waits for the record to be read.
#[derive(Clone, Debug)]
pub(super) struct Comeback {
    pub(super) caller: CallerId,
    pub(super) resume: Resume,
    /// What is left of its bounds, counted from when it asked, however long that takes (S11).
    pub(super) bounds: Bounds,
    /// The newest request when it asked: a read of before says nothing of it.
    asked: RequestId,
}

/// The clients that wait so, and the one read that answers them all.
#[derive(Clone, Debug)]
pub(super) struct Comebacks {
    waiting: Vec<Comeback>,
    read: Exchange,
}

impl Comebacks {
    pub(super) fn poll_timeout(&self) -> Instant {
        let ends = self.waiting.iter().map(|comeback| comeback.resume.believed_until);
        ends.fold(self.read.at(), Instant::min)
    }

    fn remove(&mut self, caller: CallerId) -> Option<Comeback> {
        let index = self.waiting.iter().position(|comeback| comeback.caller == caller)?;
        Some(self.waiting.remove(index))
    }
}

impl Hold {
    pub(super) fn comebacks(&self) -> Option<&Comebacks> {
        self.rare.as_ref()?.comebacks.as_deref()
    }

    fn comebacks_mut(&mut self) -> Option<&mut Comebacks> {
        self.rare.as_mut()?.comebacks.as_deref_mut()
    }

    /// A client is to be heard as soon as the record was read.
    fn come_back(&mut self, caller: CallerId, resume: Resume, output: &Output) {
        let Resume { terms, believed_until, .. } = &resume;
        let lease_ends = resume.lease_ends.unwrap_or(*believed_until);
        let bounds = Bounds::new(terms, terms.max_hold, lease_ends, output.now);
        let comeback = Comeback { caller, resume, bounds, asked: RequestId(self.requests) };
        let none =
            || Box::new(Comebacks { waiting: vec![], read: Exchange::Waiting { at: output.now } });
        let rare = self.rare.get_or_insert_default();
        rare.comebacks.get_or_insert_with(none).waiting.push(comeback);
    }

    /// Reads the record for those who wait for that, and refuses those whose belief is over.
    pub(super) fn advance_comebacks(&mut self, output: &mut Output) {
        let Some(comebacks) = self.comebacks_mut() else { return };
        let is_over = |comeback: &mut Comeback| output.now >= comeback.resume.believed_until;
        let over: Vec<Comeback> = comebacks.waiting.extract_if(.., is_over).collect();
        for comeback in over {
            // S6: nobody wants the lease any more, so nothing is asked of it.
            refuse(comeback.caller, TOO_LATE, output);
        }
        self.read_for_comebacks(output);
    }

    fn read_for_comebacks(&mut self, output: &mut Output) {
        let Some(comebacks) = self.comebacks() else { return };
        let Some(first) = comebacks.waiting.first() else {
            return self.forget_comebacks();
        };
        let lease_duration = first.resume.terms.lease_duration;
        let read = match comebacks.read {
            Exchange::Sent { until, .. } if output.now >= until => {
                // The clients' validity is running: there is no time for patience.
                Exchange::Waiting { at: output.now + self.jitter.around(lease_duration / 60, 20) }
            }
            Exchange::Waiting { at } if output.now >= at => {
                self.send(Request::Read, lease_duration, output)
            }
            read @ (Exchange::Sent { .. } | Exchange::Waiting { .. }) => read,
        };
        if let Some(comebacks) = self.comebacks_mut() {
            comebacks.read = read;
        }
    }

    fn forget_comebacks(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.comebacks = None;
        }
    }

    /// Whether `request` is the read for those who wait.
    pub(super) fn comebacks_by(&self, request: RequestId) -> bool {
        self.comebacks().is_some_and(|comebacks| comebacks.read.is(request))
    }

    /// The record was read: each comeback that came before that is refused, or the hold is taken up again.
    pub(super) fn comebacks_answered(
        &mut self,
        request: RequestId,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        let Some(comebacks) = self.comebacks_mut() else { return };
        comebacks.read = Exchange::Waiting { at: output.now };
        let heard = |comeback: &mut Comeback| comeback.asked < request;
        let heard: Vec<Comeback> = match &answer {
            Ok(_) | Err(Failure::Deleted) => comebacks.waiting.extract_if(.., heard).collect(),
            Err(_) => vec![],
        };
        match answer {
            Ok(stored) => {
                let record = Record::from_fields(&stored.fields);
                for comeback in heard {
                    match comeback.resume.check(&record) {
                        Ok(()) => self.take_up(comeback, &stored, output),
                        Err(loss) => refuse(comeback.caller, loss, output),
                    }
                }
                if matches!(self.state, State::Idle { .. }) {
                    self.learn(stored, output.now);
                }
            }
            Err(Failure::Deleted) => {
                for comeback in heard {
                    refuse(comeback.caller, Loss::DELETED, output);
                }
            }
            // It says nothing of the lock.
            Err(_) => self.read_later(output),
        }
    }

    fn read_later(&mut self, output: &Output) {
        let Some(first) = self.comebacks().and_then(|comebacks| comebacks.waiting.first()) else {
            return;
        };
        let lease_duration = first.resume.terms.lease_duration;
        // S7, S12: as often as a renewal would be repeated; callers that wait here poll beside it.
        let at = output.now + self.jitter.between(lease_duration / 30, lease_duration / 12);
        if let Some(comebacks) = self.comebacks_mut() {
            comebacks.read = Exchange::Waiting { at };
        }
    }

    /// Takes out the comeback of a caller that wants it no more. Nothing was asked of its lease.
    pub(super) fn drop_comeback(&mut self, caller: CallerId) -> bool {
        self.comebacks_mut().is_some_and(|comebacks| comebacks.remove(caller).is_some())
    }

    /// S15: the clients may go on with their holds at another sidecar.
    fn drain_comebacks(&mut self, output: &mut Output) {
        let comebacks =
            self.comebacks_mut().map(|comebacks| std::mem::take(&mut comebacks.waiting));
        for Comeback { caller, .. } in comebacks.unwrap_or_default() {
            let store_failure = StoreFailure::shutting_down();
            output.tell(caller, Notice::Failed(store_failure));
        }
        self.forget_comebacks();
    }
}

/// The hold is not the client's, as far as anybody can tell: to it, it is lost; here, it never was.
pub(super) fn refuse(caller: CallerId, Loss { reason, detail }: Loss, output: &mut Output) {
    output.tell(caller, Notice::ResumeRefused { reason, detail: detail.to_owned() });
}
