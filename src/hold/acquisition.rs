//! From a waiting caller to a lease (S2, S6, S12). What is done under the lease before it is granted is in
//! `granting`.

use std::time::Duration;

use super::action::Action;
use super::event::{Failure, LeaseGranted, Request, Stored, Trouble, TroubleKind};
use super::granting::{Leased, Work};
use super::polling::Polling;
use super::releasing::Releasing;
use super::tenure::eager_span;
use super::turn::Turn;
use super::validity::cut_off;
use super::{Flight, Hold, Known, State};
use crate::lock::{LeaseId, Record};
use crate::time::Instant;

/// Tries to get the lock from the store under one lease id, over all polls and repetitions, until it is had or
/// given up (S6).
#[derive(Clone, Debug)]
pub(super) struct Effort {
    pub(super) lease_id: LeaseId,
    /// D, the same in every repetition: a late one must not shorten the lease that another was granted.
    pub(super) duration: Duration,
    /// The first try reads the record too, so that a busy answer names the holder.
    first: bool,
    /// Polls since the record was read.
    unread: u8,
    /// Tries in a row that met a record that had just changed.
    changes: u8,
    /// The latest send of an acquire that may have been done.
    pub(super) uncertain: Option<Instant>,
}

/// An acquisition with a request under way.
#[derive(Clone, Debug)]
pub(super) enum Attempt {
    /// The lease is asked for.
    Acquire { effort: Effort, request: Request, sent: Instant, until: Instant },
    /// The lock is another's; its record is read for the busy answer.
    ReadHolder { effort: Effort, request: Request, until: Instant },
    /// The lease is had, and not granted yet.
    Leased { lease: Leased, work: Work, flight: Flight },
}

/// Polls by the acquire alone between two that read the record instead. Only the record says that the lock is handed on,
/// and then a poll at the cap would seldom meet the moment at which it is free (S10).
const POLLS_UNREAD: u8 = 3;

/// Tries in a row that may meet a changed record before the lock is polled as if it were another's.
const MAX_CHANGES: u8 = 3;

impl Hold {
    /// Begins or repeats the acquisition for the caller at the front.
    pub(super) fn try_acquire(&mut self, effort: Option<Effort>, turn: &mut Turn) {
        let Some(duration) = self.waiters.front().map(|waiter| waiter.terms.lease_duration) else {
            return self.abandon(effort, turn);
        };
        let effort = match effort {
            Some(effort) if effort.duration == duration => effort,
            Some(effort @ Effort { uncertain: Some(_), .. }) => {
                return self.abandon(Some(effort), turn);
            }
            // Without a fresh lease id there is no acquisition yet; the driver supplies one before its next event.
            Some(_) | None => match self.fresh.take() {
                Some(lease_id) => {
                    self.polling = Polling::default();
                    Effort {
                        lease_id,
                        duration,
                        first: true,
                        unread: 0,
                        changes: 0,
                        uncertain: None,
                    }
                }
                None => return,
            },
        };
        if effort.unread >= POLLS_UNREAD && effort.uncertain.is_none() {
            return self.read_holder(effort, turn);
        }
        let request = self.next_request();
        let timeout = cut_off(duration);
        turn.push(Action::SendAcquire {
            request,
            lease_id: effort.lease_id,
            duration,
            if_match: self.memory.known.as_ref().map(|known| known.etag().clone()),
            read: self.memory.known.is_none(),
            timeout,
        });
        self.acquiring(Attempt::Acquire {
            effort,
            request,
            sent: turn.now,
            until: turn.now + timeout,
        });
    }

    pub(super) fn acquiring(&mut self, attempt: Attempt) {
        self.state = State::Acquiring(Box::new(attempt));
    }

    /// What may have been acquired is given back before anything else is done (S6).
    pub(super) fn abandon(&mut self, effort: Option<Effort>, turn: &mut Turn) {
        self.state = State::Idle { not_before: turn.now, effort: None };
        if let Some(Effort { lease_id, duration, uncertain: Some(sent), .. }) = effort {
            self.release(Releasing::unused(lease_id, duration, sent), turn);
        }
    }

    pub(super) fn acquire_answered(
        &mut self,
        request: Request,
        (answer, read): (Result<LeaseGranted, Failure>, Option<Result<Stored, Failure>>),
        turn: &mut Turn,
    ) {
        let (mut effort, sent) = match self.take_state(turn.now) {
            State::Acquiring(attempt) => match *attempt {
                Attempt::Acquire { effort, request: expected, sent, .. } if expected == request => {
                    (effort, sent)
                }
                other @ (Attempt::Acquire { .. }
                | Attempt::ReadHolder { .. }
                | Attempt::Leased { .. }) => {
                    self.acquiring(other);
                    return self.late_answer(request, answer.is_ok(), turn);
                }
            },
            other @ (State::Idle { .. }
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_)) => {
                self.state = other;
                return self.late_answer(request, answer.is_ok(), turn);
            }
        };
        let was_read = read.is_some();
        if let Some(Ok(stored)) = read {
            self.learn(stored, turn.now);
        }
        match answer {
            Ok(granted) => {
                let lease = Leased {
                    lease_id: effort.lease_id,
                    duration: effort.duration,
                    sent,
                    time: granted.time,
                };
                self.lease_had(lease, granted, turn);
            }
            Err(Failure::Contended) if effort.first && !was_read => {
                effort.first = false;
                self.read_holder(effort, turn);
            }
            Err(Failure::Contended) => {
                effort.unread = effort.unread.saturating_add(1);
                self.contended(effort, turn);
            }
            Err(Failure::Changed) => self.acquire_met_change(effort, turn),
            Err(Failure::Refused(trouble)) => {
                self.fail_all(&trouble, turn);
                self.abandon(Some(effort), turn);
            }
            Err(Failure::NotDone(trouble)) => self.acquire_later(effort, trouble, turn),
            Err(Failure::Unknown(trouble)) => {
                effort.uncertain = Some(sent);
                self.acquire_later(effort, trouble, turn);
            }
            Err(failure @ (Failure::Taken | Failure::Broken | Failure::Deleted)) => {
                effort.uncertain = Some(sent);
                self.acquire_later(effort, unexpected("acquire", &failure), turn);
            }
        }
    }

    fn read_holder(&mut self, mut effort: Effort, turn: &mut Turn) {
        effort.unread = 0;
        let request = self.next_request();
        let timeout = cut_off(effort.duration);
        turn.push(Action::SendRead { request, timeout });
        self.acquiring(Attempt::ReadHolder { effort, request, until: turn.now + timeout });
    }

    pub(super) fn pass_acquiring(&mut self, attempt: Attempt, turn: &mut Turn) {
        match attempt {
            Attempt::Acquire { mut effort, request, sent, until } if turn.now >= until => {
                effort.uncertain = Some(sent);
                self.late.keep(request, effort.lease_id, None, effort.duration);
                self.acquire_later(effort, Trouble::unanswered("acquire"), turn);
            }
            Attempt::ReadHolder { effort, until, .. } if turn.now >= until => {
                self.contended(effort, turn);
            }
            Attempt::Leased { lease, .. } if turn.now >= lease.valid_until() => {
                self.release_unused(lease, turn);
            }
            Attempt::Leased { lease, work, flight } if flight.is_over(turn.now) => match flight {
                Flight::Sent { .. } => {
                    let trouble = Trouble::unanswered(work.what());
                    self.work_failed(lease, work, Failure::Unknown(trouble), turn);
                }
                Flight::Waiting { .. } => self.send_work(lease, work, turn),
            },
            waiting @ (Attempt::Acquire { .. }
            | Attempt::ReadHolder { .. }
            | Attempt::Leased { .. }) => self.acquiring(waiting),
        }
    }

    /// Somebody else has the lock: those who wanted one try are answered, the others polled for (S12).
    pub(super) fn contended(&mut self, mut effort: Effort, turn: &mut Turn) {
        effort.first = false;
        effort.changes = 0;
        self.trouble = None;
        let delay = self.poll_delay(effort.duration, turn.now);
        self.state = State::Idle { not_before: turn.now + delay, effort: Some(effort) };
        self.tell_still_taken(turn);
    }

    pub(super) fn poll_delay(&mut self, lease_duration: Duration, now: Instant) -> Duration {
        self.polling.set_eager(self.is_handed_on(lease_duration, now));
        self.polling.next(&mut self.jitter, self.settings.poll_cap)
    }

    /// Whether the holder's sidecar hands the lock on, as far as we know (S10). A mark ages: it may have been left by
    /// callers that have gone.
    fn is_handed_on(&self, lease_duration: Duration, now: Instant) -> bool {
        let changed = self.memory.changed_at;
        changed.is_some_and(|at| now.saturating_since(at) < eager_span(lease_duration))
            && self.memory.known.as_ref().is_some_and(Known::is_handed_on)
    }

    /// The record changed since we knew it: read it beside another acquire (S5).
    fn acquire_met_change(&mut self, mut effort: Effort, turn: &mut Turn) {
        self.memory.known = None;
        effort.changes += 1;
        if effort.changes > MAX_CHANGES {
            return self.contended(effort, turn);
        }
        self.try_acquire(Some(effort), turn);
    }

    /// The acquire's outcome is unknown: it is repeated with the same id (S6), unless nobody waits for it.
    fn acquire_later(&mut self, mut effort: Effort, trouble: Trouble, turn: &mut Turn) {
        effort.first = false;
        let delay = self.backoff(&trouble, effort.duration);
        self.fail_one_tries(&trouble, turn);
        self.trouble = Some(Box::new(trouble));
        self.state = State::Idle { not_before: turn.now + delay, effort: Some(effort) };
    }

    /// How long to wait before a request is repeated whose outcome is unknown.
    pub(super) fn backoff(&mut self, trouble: &Trouble, duration: Duration) -> Duration {
        let delay = self.jitter.between(duration / 30, duration / 12);
        delay.max(trouble.retry_after.unwrap_or_default().min(self.settings.poll_cap))
    }

    pub(super) fn learn(&mut self, stored: Stored, now: Instant) {
        let token = Record::from_fields(&stored.fields).token;
        self.memory.highest = self.memory.highest.max(token);
        let known = self.memory.known.as_ref();
        if known.is_none_or(|known| *known.etag() != stored.etag) {
            self.memory.changed_at = Some(now);
        }
        self.memory.known = Some(Known::new(stored.etag, &stored.fields));
    }

    /// Gives up `attempt` without waiting for the store: something more urgent comes first.
    pub(super) fn drop_attempt(&mut self, attempt: Attempt, turn: &mut Turn) {
        match attempt {
            Attempt::Acquire { effort, request, sent, .. } => {
                self.late.keep(request, effort.lease_id, None, effort.duration);
                self.drop_effort(Some(Effort { uncertain: Some(sent), ..effort }), turn);
            }
            Attempt::ReadHolder { effort, .. } => self.drop_effort(Some(effort), turn),
            Attempt::Leased { lease, .. } => {
                self.send_release(lease.lease_id, lease.duration, turn)
            }
        }
    }

    pub(super) fn drop_effort(&mut self, effort: Option<Effort>, turn: &mut Turn) {
        if let Some(Effort { lease_id, duration, uncertain: Some(_), .. }) = effort {
            self.send_release(lease_id, duration, turn);
        }
    }

    fn send_release(&mut self, lease_id: LeaseId, duration: Duration, turn: &mut Turn) {
        let request = self.next_request();
        turn.push(Action::SendRelease {
            request,
            lease_id,
            if_match: None,
            timeout: cut_off(duration),
        });
    }
}

impl Attempt {
    pub(super) fn next_wakeup(&self) -> Instant {
        match self {
            Self::Acquire { until, .. } | Self::ReadHolder { until, .. } => *until,
            Self::Leased { lease, flight, .. } => flight.at().min(lease.valid_until()),
        }
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
