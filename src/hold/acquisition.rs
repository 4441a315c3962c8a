//! From a waiting caller to a grant: acquire, read if need be, write the token, tell (S2, S5, S6).

use std::time::Duration;

use super::action::Action;
use super::event::{Failure, LeaseGranted, Request, Stored, Trouble, TroubleKind};
use super::releasing::Releasing;
use super::validity::{cut_off, over_at, valid_until};
use super::{Flight, Hold, Known, State};
use crate::lock::{ETag, FencingToken, Fields, LeaseId, Record};
use crate::time::{Instant, UnixMillis};

/// Tries to get the lock from the store under one lease id, over all polls and repetitions, until it is had or
/// given up (S6).
#[derive(Clone, Debug)]
pub(super) struct Effort {
    pub(super) lease_id: LeaseId,
    /// The first try reads the record beside the acquire, so that a busy answer names the holder.
    pub(super) first: bool,
    /// Tries in a row that met a record that had just changed.
    pub(super) changes: u32,
    /// The latest send of an acquire that may have been done, and its duration.
    pub(super) uncertain: Option<(Instant, Duration)>,
}

/// An acquisition with a request under way.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) effort: Effort,
    pub(super) step: Step,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Acquire {
        request: Request,
        sent: Instant,
        duration: Duration,
        until: Instant,
    },
    /// The lock is another's; its record is read for the busy answer.
    ReadHolder {
        request: Request,
        until: Instant,
    },
    /// The lease is had; its record must be read before it can be written.
    Read {
        lease: Leased,
        plan: Option<FencingToken>,
        flight: Flight,
    },
    /// The lease is had; the token is being written.
    Write {
        lease: Leased,
        write: Planned,
        flight: Flight,
    },
}

/// A lease that was given, and is not granted yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leased {
    /// S2: when the acquire that was answered was sent.
    pub(super) sent: Instant,
    pub(super) duration: Duration,
    pub(super) time: UnixMillis,
}

#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) token: FencingToken,
    pub(super) if_match: ETag,
    pub(super) fields: Fields,
}

/// What a grant under a new lease is made from.
#[derive(Clone, Debug)]
pub(super) struct NewLease {
    pub(super) lease_id: LeaseId,
    pub(super) sent: Instant,
    pub(super) duration: Duration,
    pub(super) token: FencingToken,
    pub(super) acquired_at: UnixMillis,
}

/// Tries in a row that may meet a changed record before the lock is polled as if it were another's.
const MAX_CHANGES: u32 = 3;

impl Hold {
    /// Begins or repeats the acquisition for the caller at the front.
    pub(super) fn try_acquire(
        &mut self,
        effort: Option<Effort>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let Some(duration) = self.waiters.front().map(|waiter| waiter.terms.lease_duration) else {
            return self.abandon(effort, now, out);
        };
        let effort = effort.or_else(|| {
            let lease_id = self.fresh.take()?;
            Some(Effort { lease_id, first: true, changes: 0, uncertain: None })
        });
        // Without a fresh lease id there is no acquisition yet; the driver supplies one before its next event.
        let Some(effort) = effort else { return };
        let request = self.next_request();
        let timeout = cut_off(duration);
        out.push(Action::SendAcquire {
            request,
            lease_id: effort.lease_id,
            duration,
            if_match: self.memory.known.as_ref().map(|known| known.etag.clone()),
            read: self.memory.known.is_none(),
            timeout,
        });
        let step = Step::Acquire { request, sent: now, duration, until: now + timeout };
        self.state = State::Acquiring(Box::new(Attempt { effort, step }));
    }

    /// Nobody waits any more: what may have been acquired is given back (S6).
    pub(super) fn abandon(&mut self, effort: Option<Effort>, now: Instant, out: &mut Vec<Action>) {
        self.state = State::Idle { not_before: now, effort: None };
        let Some(Effort { lease_id, uncertain: Some((sent, duration)), .. }) = effort else {
            return;
        };
        self.release(plain_release(lease_id, sent, duration), now, out);
    }

    pub(super) fn acquire_answered(
        &mut self,
        request: Request,
        (answer, read): (Result<LeaseGranted, Failure>, Option<Result<Stored, Failure>>),
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let State::Acquiring(attempt) = &self.state else {
            return;
        };
        let Step::Acquire { request: expected, sent, duration, .. } = attempt.step else {
            return;
        };
        if expected != request {
            return;
        }
        let mut effort = attempt.effort.clone();
        let was_read = read.is_some();
        if let Some(Ok(stored)) = read {
            self.learn(stored);
        }
        match answer {
            Ok(granted) => {
                let lease = Leased { sent, duration, time: granted.time };
                self.lease_had(effort, lease, granted, now, out);
            }
            Err(Failure::Contended) if effort.first && !was_read => {
                effort.first = false;
                let (request, until) = self.send_read(duration, now, out);
                let step = Step::ReadHolder { request, until };
                self.state = State::Acquiring(Box::new(Attempt { effort, step }));
            }
            Err(Failure::Contended) => self.contended(effort, now, out),
            Err(Failure::Changed) => self.acquire_met_change(effort, now, out),
            Err(Failure::Refused(trouble)) => self.refuse_all(effort, trouble, now, out),
            Err(Failure::Unknown(trouble)) => {
                effort.uncertain = Some((sent, duration));
                self.acquire_later(effort, trouble, now, out);
            }
            Err(failure @ (Failure::Taken | Failure::Broken { .. } | Failure::Deleted)) => {
                effort.uncertain = Some((sent, duration));
                self.acquire_later(effort, unexpected("acquire", &failure), now, out);
            }
        }
    }

    pub(super) fn pass_acquiring(&mut self, attempt: Attempt, now: Instant, out: &mut Vec<Action>) {
        let Attempt { mut effort, step } = attempt;
        match step {
            Step::Acquire { sent, duration, until, .. } if now >= until => {
                effort.uncertain = Some((sent, duration));
                self.acquire_later(effort, Trouble::unanswered("acquire"), now, out);
            }
            Step::ReadHolder { until, .. } if now >= until => self.contended(effort, now, out),
            Step::Read { lease, .. } | Step::Write { lease, .. } if now >= lease.valid_until() => {
                self.state = State::Idle { not_before: now, effort: None };
                self.release(plain_release(effort.lease_id, lease.sent, lease.duration), now, out);
            }
            Step::Read { lease, plan, flight } if flight.is_over(now) => match flight {
                Flight::Sent { .. } => {
                    let failure = Failure::Unknown(Trouble::unanswered("read"));
                    self.lease_trouble(
                        effort,
                        Step::Read { lease, plan, flight },
                        failure,
                        now,
                        out,
                    );
                }
                Flight::Waiting { .. } => self.read_under_lease(effort, lease, plan, now, out),
            },
            Step::Write { lease, write, flight } if flight.is_over(now) => match flight {
                Flight::Sent { .. } => {
                    let failure = Failure::Unknown(Trouble::unanswered("write"));
                    self.lease_trouble(
                        effort,
                        Step::Write { lease, write, flight },
                        failure,
                        now,
                        out,
                    );
                }
                Flight::Waiting { .. } => self.send_write(effort, lease, write, now, out),
            },
            step @ (Step::Acquire { .. }
            | Step::ReadHolder { .. }
            | Step::Read { .. }
            | Step::Write { .. }) => {
                self.state = State::Acquiring(Box::new(Attempt { effort, step }));
            }
        }
    }

    /// Somebody else has the lock: those who wanted one try are answered, the others polled for (S12).
    pub(super) fn contended(&mut self, mut effort: Effort, now: Instant, out: &mut Vec<Action>) {
        effort.first = false;
        effort.changes = 0;
        self.trouble = None;
        let eager = self
            .memory
            .known
            .as_ref()
            .is_some_and(|known| Record::from_fields(&known.fields).handed_on);
        self.polling.set_eager(eager);
        let delay = self.polling.next(&mut self.jitter, self.settings.poll_cap);
        self.state = State::Idle { not_before: now + delay, effort: Some(effort) };
        self.tell_busy_one_tries(now, out);
        self.abandon_if_unwanted(now, out);
    }

    /// The record changed since we knew it: read it beside another acquire (S5).
    pub(super) fn acquire_met_change(
        &mut self,
        mut effort: Effort,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        self.memory.known = None;
        effort.changes += 1;
        if effort.changes > MAX_CHANGES {
            return self.contended(effort, now, out);
        }
        self.try_acquire(Some(effort), now, out);
    }

    /// The acquire's outcome is unknown: it is repeated with the same id (S6), unless nobody waits for it.
    pub(super) fn acquire_later(
        &mut self,
        mut effort: Effort,
        trouble: Trouble,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        effort.first = false;
        let duration = effort.uncertain.map_or(Duration::from_secs(15), |(_, duration)| duration);
        let delay = self.backoff(&trouble, duration);
        self.fail_one_tries(&trouble, out);
        self.trouble = Some(trouble);
        self.state = State::Idle { not_before: now + delay, effort: Some(effort) };
        self.abandon_if_unwanted(now, out);
    }

    /// The store will not let us, and trying again in this call will not help: everybody is told why.
    pub(super) fn refuse_all(
        &mut self,
        effort: Effort,
        trouble: Trouble,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        self.fail_all(&trouble, out);
        let effort = match &self.state {
            // A lease that was had is given back, whatever the store says now.
            State::Acquiring(attempt) => match attempt.step {
                Step::Read { lease, .. } | Step::Write { lease, .. } => {
                    Effort { uncertain: Some((lease.sent, lease.duration)), ..effort }
                }
                Step::Acquire { .. } | Step::ReadHolder { .. } => effort,
            },
            State::Idle { .. } | State::Held(_) | State::Releasing(_) | State::Resuming(_) => {
                effort
            }
        };
        self.abandon(Some(effort), now, out);
    }

    pub(super) fn abandon_if_unwanted(&mut self, now: Instant, out: &mut Vec<Action>) {
        if !self.waiters.is_empty() {
            return;
        }
        if let State::Idle { effort, .. } = &mut self.state {
            let effort = effort.take();
            self.abandon(effort, now, out);
        }
    }

    /// How long to wait before a request is repeated whose outcome is unknown.
    pub(super) fn backoff(&mut self, trouble: &Trouble, duration: Duration) -> Duration {
        let delay = self.jitter.between(duration / 30, duration / 12);
        delay.max(trouble.retry_after.unwrap_or_default().min(self.settings.poll_cap))
    }

    pub(super) fn learn(&mut self, stored: Stored) {
        let token = Record::from_fields(&stored.fields).token;
        self.memory.highest = self.memory.highest.max(token);
        self.memory.known = Some(Known { etag: stored.etag, fields: stored.fields });
    }

    /// Gives back what `effort` may have acquired, without waiting for the store.
    pub(super) fn forget(&mut self, effort: Option<Effort>, out: &mut Vec<Action>) {
        if let Some(Effort { lease_id, uncertain: Some((_, duration)), .. }) = effort {
            let request = self.next_request();
            out.push(Action::SendRelease {
                request,
                lease_id,
                if_match: None,
                timeout: cut_off(duration),
            });
        }
    }
}

impl Attempt {
    pub(super) fn next_wakeup(&self) -> Instant {
        match &self.step {
            Step::Acquire { until, .. } | Step::ReadHolder { until, .. } => *until,
            Step::Read { lease, flight, .. } | Step::Write { lease, flight, .. } => {
                flight.at().min(lease.valid_until())
            }
        }
    }

    /// The effort, with what it may have acquired so far: for giving it up.
    pub(super) fn into_effort(self) -> Effort {
        let uncertain = match self.step {
            Step::Acquire { sent, duration, .. } => Some((sent, duration)),
            Step::Read { lease, .. } | Step::Write { lease, .. } => {
                Some((lease.sent, lease.duration))
            }
            Step::ReadHolder { .. } => self.effort.uncertain,
        };
        Effort { uncertain, ..self.effort }
    }
}

impl Leased {
    pub(super) fn valid_until(&self) -> Instant {
        valid_until(self.sent, self.duration)
    }
}

/// The way back of a lease under which nothing was granted.
pub(super) fn plain_release(
    lease_id: LeaseId,
    sent: Instant,
    lease_duration: Duration,
) -> Releasing {
    Releasing {
        lease_id,
        if_match: None,
        lease_duration,
        over_at: over_at(sent, lease_duration),
        replies: Vec::new(),
        not_before: None,
        flight: Flight::Waiting { at: sent },
    }
}

pub(super) fn unexpected(what: &str, failure: &Failure) -> Trouble {
    Trouble {
        kind: TroubleKind::StoreFailed,
        message: format!(
            "the store answered the {what} in a way that no {what} is answered: {failure:?}"
        ),
        retry_after: None,
    }
}
