//! Going on with a hold after a sidecar restarted (S16): renew its lease, check its token, write its record again.

use super::acquisition::NewLease;
use super::action::{Action, LossReason};
use super::event::{CallerId, Failure, Request, Resume, Stored, Trouble, TroubleKind};
use super::validity::cut_off;
use super::waiters::Waiter;
use super::{Flight, Hold, Known, State};
use crate::lock::{ETag, Fields, Record};
use crate::time::Instant;

/// A hold that is being taken up again.
#[derive(Clone, Debug)]
pub(super) struct Resuming {
    caller: CallerId,
    resume: Resume,
    step: Step,
    flight: Flight,
}

#[derive(Clone, Debug)]
enum Step {
    Renew {
        sent: Instant,
    },
    Read {
        renewed: Instant,
    },
    /// The record is written again as it is: its new version shields the hold from whoever had it before, because
    /// a release goes by the version that the releaser knows.
    Write {
        renewed: Instant,
        if_match: ETag,
        fields: Fields,
    },
}

impl Hold {
    pub(super) fn resume(
        &mut self,
        caller: CallerId,
        resume: Resume,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if self.draining {
            let trouble = Trouble {
                kind: TroubleKind::ShuttingDown,
                message: "the sidecar is shutting down".to_owned(),
                retry_after: None,
            };
            return out.push(Action::TellFailed { caller, trouble });
        }
        if self.take_up(caller, resume.lease_id, resume.token, (now, out)) {
            return;
        }
        let superseded = self.memory.highest.is_some_and(|highest| highest > resume.token);
        let effort = match &self.state {
            State::Idle { effort, .. } if !superseded => effort.clone(),
            State::Acquiring(attempt) if !superseded => {
                Some(attempt.as_ref().clone().into_effort())
            }
            State::Resuming(other) if other.resume.lease_id == resume.lease_id => {
                out.push(Action::TellSuperseded { caller: other.caller });
                None
            }
            State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_) => {
                let detail = "the hold has ended, or another has had the lock since".to_owned();
                return out.push(Action::TellLost { caller, reason: LossReason::Taken, detail });
            }
        };
        self.forget(effort, out);
        let step = Step::Renew { sent: now };
        let flight = Flight::Waiting { at: now };
        self.send_resume(Resuming { caller, resume, step, flight }, now, out);
    }

    fn send_resume(&mut self, mut resuming: Resuming, now: Instant, out: &mut Vec<Action>) {
        let request = self.next_request();
        let lease_id = resuming.resume.lease_id;
        let timeout = cut_off(resuming.resume.terms.lease_duration);
        out.push(match &mut resuming.step {
            Step::Renew { sent } => {
                *sent = now;
                Action::SendRenew { request, lease_id, timeout }
            }
            Step::Read { .. } => Action::SendRead { request, timeout },
            Step::Write { if_match, fields, .. } => Action::SendWrite {
                request,
                lease_id,
                if_match: if_match.clone(),
                fields: fields.clone(),
                timeout,
            },
        });
        resuming.flight = Flight::Sent { request, until: now + timeout };
        self.state = State::Resuming(Box::new(resuming));
    }

    pub(super) fn pass_resuming(
        &mut self,
        resuming: Resuming,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if now >= resuming.resume.believed_until {
            let detail = "the store could not be asked before the validity ran out".to_owned();
            return self.resume_lost(&resuming, LossReason::Expired, detail, now, out);
        }
        match resuming.flight {
            Flight::Sent { until, .. } if now >= until => {
                self.resume_later(resuming, now);
            }
            Flight::Waiting { at } if now >= at => self.send_resume(resuming, now, out),
            Flight::Sent { .. } | Flight::Waiting { .. } => {
                self.state = State::Resuming(Box::new(resuming));
            }
        }
    }

    pub(super) fn resume_renew_answered(
        &mut self,
        request: Request,
        answer: Result<(), Failure>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let Some(mut resuming) = self.resuming(request) else {
            return;
        };
        let Step::Renew { sent } = resuming.step else {
            return;
        };
        match answer {
            Ok(()) => {
                resuming.step = Step::Read { renewed: sent };
                self.send_resume(resuming, now, out);
            }
            Err(failure) => self.resume_failed(resuming, failure, now, out),
        }
    }

    pub(super) fn resume_read_answered(
        &mut self,
        request: Request,
        answer: Result<Stored, Failure>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let Some(mut resuming) = self.resuming(request) else {
            return;
        };
        let Step::Read { renewed } = resuming.step else {
            return;
        };
        match answer {
            Ok(stored) => {
                let record = Record::from_fields(&stored.fields);
                let same_epoch = record
                    .token
                    .is_some_and(|token| token.epoch() == resuming.resume.token.epoch());
                let same_lease = record.lease == Some(resuming.resume.lease_id.fingerprint());
                if !same_epoch || !same_lease {
                    let detail = "the lock has been granted to another since".to_owned();
                    return self.resume_lost(&resuming, LossReason::Taken, detail, now, out);
                }
                let Stored { etag, fields } = stored;
                resuming.step = Step::Write { renewed, if_match: etag, fields };
                self.send_resume(resuming, now, out);
            }
            Err(failure) => self.resume_failed(resuming, failure, now, out),
        }
    }

    pub(super) fn resume_write_answered(
        &mut self,
        request: Request,
        answer: Result<ETag, Failure>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let Some(mut resuming) = self.resuming(request) else {
            return;
        };
        let Step::Write { renewed, fields, .. } = resuming.step.clone() else {
            return;
        };
        match answer {
            Ok(etag) => {
                self.memory.known = Some(Known { etag, fields });
                self.memory.highest = self.memory.highest.max(Some(resuming.resume.token));
                let Resuming { caller, resume, .. } = resuming;
                let new = NewLease {
                    lease_id: resume.lease_id,
                    sent: renewed,
                    duration: resume.terms.lease_duration,
                    token: resume.token,
                    acquired_at: resume.acquired_at,
                };
                self.grant_resumed(&new, &Waiter::new(caller, resume.terms, now), now, out);
            }
            Err(Failure::Changed) => {
                resuming.step = Step::Read { renewed };
                self.send_resume(resuming, now, out);
            }
            Err(failure) => self.resume_failed(resuming, failure, now, out),
        }
    }

    /// The caller of a resume went away. It may be trying elsewhere and still believe in its hold: the lease is
    /// left to run out.
    pub(super) fn resume_left(&mut self, caller: CallerId, now: Instant) -> bool {
        let left = matches!(&self.state, State::Resuming(resuming) if resuming.caller == caller);
        if left {
            self.state = State::Idle { not_before: now, effort: None };
        }
        left
    }

    fn resuming(&self, request: Request) -> Option<Resuming> {
        match &self.state {
            State::Resuming(resuming) if resuming.flight.is(request) => {
                Some(resuming.as_ref().clone())
            }
            State::Resuming(_)
            | State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_) => None,
        }
    }

    fn resume_failed(
        &mut self,
        resuming: Resuming,
        failure: Failure,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let (reason, detail) = match failure {
            Failure::Unknown(_) | Failure::Refused(_) | Failure::Contended | Failure::Changed => {
                return self.resume_later(resuming, now);
            }
            Failure::Taken => {
                (LossReason::Taken, "another has the lease, or had it since".to_owned())
            }
            Failure::Broken { reason } => {
                (LossReason::Broken, reason.unwrap_or_else(|| "the lease was broken".to_owned()))
            }
            Failure::Deleted => {
                (LossReason::LockDeleted, "the lock or its container was deleted".to_owned())
            }
        };
        self.resume_lost(&resuming, reason, detail, now, out);
    }

    fn resume_later(&mut self, mut resuming: Resuming, now: Instant) {
        // The client's validity is running: there is no time for patience.
        let duration = resuming.resume.terms.lease_duration;
        resuming.flight = Flight::Waiting { at: now + self.jitter.around(duration / 60, 20) };
        self.state = State::Resuming(Box::new(resuming));
    }

    /// The resume did not succeed; the client may believe until its validity ends (S13).
    fn resume_lost(
        &mut self,
        resuming: &Resuming,
        reason: LossReason,
        detail: String,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        out.push(Action::TellLost { caller: resuming.caller, reason, detail });
        let not_before = resuming.resume.believed_until.max(now);
        self.state = State::Idle { not_before, effort: None };
    }
}

impl Resuming {
    pub(super) fn next_wakeup(&self) -> Instant {
        self.flight.at().min(self.resume.believed_until)
    }
}
