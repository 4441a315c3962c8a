//! From a lease to a grant: read the record if need be, write the token, tell (S2, S5, S11).

use std::time::Duration;

use super::acquisition::{
    Attempt, Effort, Leased, NewLease, Planned, Step, plain_release, unexpected,
};
use super::action::Action;
use super::event::{Failure, LeaseGranted, Request, Stored, Trouble, TroubleKind};
use super::validity::cut_off;
use super::{Flight, Hold, Known, State};
use crate::lock::{ETag, FencingToken, Fields, Record};
use crate::time::Instant;

impl Hold {
    pub(super) fn read_answered(
        &mut self,
        request: Request,
        answer: Result<Stored, Failure>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if matches!(self.state, State::Resuming(_)) {
            return self.resume_read_answered(request, answer, now, out);
        }
        let State::Acquiring(attempt) = &self.state else {
            return;
        };
        let Attempt { effort, step } = attempt.as_ref().clone();
        match step {
            Step::ReadHolder { request: expected, .. } if expected == request => {
                if let Ok(stored) = answer {
                    self.learn(stored);
                }
                self.contended(effort, now, out);
            }
            Step::Read { lease, plan, flight } if flight.is(request) => match answer {
                Ok(stored) => {
                    self.learn(stored);
                    self.record_had(effort, lease, plan, now, out);
                }
                Err(failure) => {
                    let flight = Flight::Waiting { at: now };
                    self.lease_trouble(
                        effort,
                        Step::Read { lease, plan, flight },
                        failure,
                        now,
                        out,
                    );
                }
            },
            Step::Acquire { .. }
            | Step::ReadHolder { .. }
            | Step::Read { .. }
            | Step::Write { .. } => {}
        }
    }

    pub(super) fn write_answered(
        &mut self,
        request: Request,
        answer: Result<ETag, Failure>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if matches!(self.state, State::Resuming(_)) {
            return self.resume_write_answered(request, answer, now, out);
        }
        let State::Acquiring(attempt) = &self.state else {
            return;
        };
        let Attempt { effort, step } = attempt.as_ref().clone();
        let Step::Write { lease, write, flight } = step else {
            return;
        };
        if !flight.is(request) {
            return;
        }
        match answer {
            Ok(etag) => {
                self.memory.known = Some(Known { etag, fields: write.fields });
                self.token_stored(effort, lease, write.token, now, out);
            }
            // Our own write whose answer was lost, or an older one's: the record says which (S5).
            Err(Failure::Changed) => {
                self.read_under_lease(effort, lease, Some(write.token), now, out)
            }
            Err(failure) => {
                let flight = Flight::Waiting { at: now };
                self.lease_trouble(effort, Step::Write { lease, write, flight }, failure, now, out);
            }
        }
    }

    /// The store leased the lock to us.
    pub(super) fn lease_had(
        &mut self,
        effort: Effort,
        lease: Leased,
        granted: LeaseGranted,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if granted.created {
            self.memory.known = Some(Known { etag: granted.etag.clone(), fields: Fields::new() });
        }
        match &self.memory.known {
            Some(known) if known.etag == granted.etag => {
                self.record_had(effort, lease, None, now, out);
            }
            Some(_) | None => self.read_under_lease(effort, lease, None, now, out),
        }
    }

    /// The lease is ours and the record is known: write the token, unless the lock rests.
    pub(super) fn record_had(
        &mut self,
        effort: Effort,
        lease: Leased,
        plan: Option<FencingToken>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let Some(known) = self.memory.known.clone() else {
            return;
        };
        let record = Record::from_fields(&known.fields);
        if plan.is_some()
            && record.token == plan
            && record.lease == Some(effort.lease_id.fingerprint())
        {
            // S5: our write was done, only its answer was lost.
            if let Some(token) = plan {
                return self.token_stored(effort, lease, token, now, out);
            }
        }
        let mut releasing = plain_release(effort.lease_id, lease.sent, lease.duration);
        let Some(front) = self.waiters.front() else {
            return self.release(releasing, now, out);
        };
        if let Some(rest) = record.resting_until.filter(|until| *until > lease.time) {
            // S11: a release before `min_hold` keeps the lock from everyone, whatever became of its sidecar.
            let free_at = now + rest.saturating_since(lease.time);
            releasing.not_before = Some(free_at);
            self.resting_until = Some(free_at);
            self.tell_busy_one_tries(now, out);
            return self.release(releasing, now, out);
        }
        let ours = front.terms.record.clone();
        let min_hold = front.terms.min_hold;
        let next = FencingToken::after_acquisition(record.token, lease.time.seconds());
        let seen = self.memory.highest.max(record.token);
        let Some(token) = next.filter(|token| seen.is_none_or(|seen| *token > seen)) else {
            return self.refuse_token(effort, lease, next, now, out);
        };
        if !record.host_type.is_empty() && record.host_type != ours.host_type {
            out.push(Action::ReportCollision {
                stored: record.host_type,
                ours: ours.host_type.clone(),
            });
        }
        let fields = Record {
            token: Some(token),
            acquired_at: Some(lease.time),
            resting_until: (!min_hold.is_zero()).then(|| lease.time + min_hold),
            handed_on: self.waiters.len() > 1,
            lease: Some(effort.lease_id.fingerprint()),
            ..ours
        }
        .into_fields(known.fields);
        let write = Planned { token, if_match: known.etag, fields };
        self.send_write(effort, lease, write, now, out);
    }

    /// The token is in the store: grant, if the lease is still good (S2) and somebody still waits.
    pub(super) fn token_stored(
        &mut self,
        effort: Effort,
        lease: Leased,
        token: FencingToken,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        self.memory.highest = self.memory.highest.max(Some(token));
        let new = NewLease {
            lease_id: effort.lease_id,
            sent: lease.sent,
            duration: lease.duration,
            token,
            acquired_at: lease.time,
        };
        let wanted = self.waiters.front().is_some_and(|front| {
            front.terms.lease_duration == lease.duration
                && self.stored_rest_fits(front.terms.min_hold)
        });
        if wanted && now < lease.valid_until() {
            self.grant_new(&new, now, out);
        } else {
            self.release(plain_release(new.lease_id, new.sent, new.duration), now, out);
        }
    }

    /// Whether the record that was written keeps the lock as long as this `min_hold` wants: the caller that it was
    /// written for may have gone meanwhile.
    pub(super) fn stored_rest_fits(&self, min_hold: Duration) -> bool {
        let Some(known) = &self.memory.known else {
            return false;
        };
        let record = Record::from_fields(&known.fields);
        let stored = record.resting_until.zip(record.acquired_at);
        stored.map_or(Duration::ZERO, |(until, at)| until.saturating_since(at)) == min_hold
    }

    /// S5: the token would not grow, so there is no grant; said loudly.
    pub(super) fn refuse_token(
        &mut self,
        effort: Effort,
        lease: Leased,
        next: Option<FencingToken>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let seen = self.memory.highest.or(next);
        if let Some(seen) = seen {
            out.push(Action::ReportTokenNotGrowing { seen, next });
        }
        let trouble = Trouble {
            kind: TroubleKind::TokenNotGrowing,
            message: "the lock's fencing token would not grow: the store has gone back to an older copy, or its \
                      clock is wrong; no grant is given until the store's clock has passed the greatest token seen"
                .to_owned(),
            retry_after: None,
        };
        self.fail_all(&trouble, out);
        self.release(plain_release(effort.lease_id, lease.sent, lease.duration), now, out);
    }

    pub(super) fn send_read(
        &mut self,
        duration: Duration,
        now: Instant,
        out: &mut Vec<Action>,
    ) -> (Request, Instant) {
        let request = self.next_request();
        let timeout = cut_off(duration);
        out.push(Action::SendRead { request, timeout });
        (request, now + timeout)
    }

    pub(super) fn read_under_lease(
        &mut self,
        effort: Effort,
        lease: Leased,
        plan: Option<FencingToken>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let (request, until) = self.send_read(lease.duration, now, out);
        let step = Step::Read { lease, plan, flight: Flight::Sent { request, until } };
        self.state = State::Acquiring(Box::new(Attempt { effort, step }));
    }

    pub(super) fn send_write(
        &mut self,
        effort: Effort,
        lease: Leased,
        write: Planned,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let request = self.next_request();
        let timeout = cut_off(lease.duration);
        out.push(Action::SendWrite {
            request,
            lease_id: effort.lease_id,
            if_match: write.if_match.clone(),
            fields: write.fields.clone(),
            timeout,
        });
        let flight = Flight::Sent { request, until: now + timeout };
        let step = Step::Write { lease, write, flight };
        self.state = State::Acquiring(Box::new(Attempt { effort, step }));
    }

    /// A read or a write under the new lease failed.
    pub(super) fn lease_trouble(
        &mut self,
        effort: Effort,
        step: Step,
        failure: Failure,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let trouble = match failure {
            Failure::Taken | Failure::Broken { .. } | Failure::Deleted => {
                self.memory.known = None;
                return self.contended(effort, now, out);
            }
            Failure::Refused(trouble) => return self.refuse_all(effort, trouble, now, out),
            Failure::Unknown(trouble) => trouble,
            failure @ (Failure::Contended | Failure::Changed) => unexpected("write", &failure),
        };
        self.fail_one_tries(&trouble, out);
        let (lease, duration) = match &step {
            Step::Read { lease, .. } | Step::Write { lease, .. } => (lease.sent, lease.duration),
            Step::Acquire { sent, duration, .. } => (*sent, *duration),
            Step::ReadHolder { .. } => return self.contended(effort, now, out),
        };
        if self.waiters.is_empty() {
            return self.release(plain_release(effort.lease_id, lease, duration), now, out);
        }
        let at = now + self.backoff(&trouble, duration);
        let flight = Flight::Waiting { at };
        let step = match step {
            Step::Read { lease, plan, .. } => Step::Read { lease, plan, flight },
            Step::Write { lease, write, .. } => Step::Write { lease, write, flight },
            step @ (Step::Acquire { .. } | Step::ReadHolder { .. }) => step,
        };
        self.state = State::Acquiring(Box::new(Attempt { effort, step }));
    }
}
