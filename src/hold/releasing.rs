//! A lease that goes back to the store (S6, S13).

use super::action::Action;
use super::event::{CallerId, Failure, Request};
use super::validity::cut_off;
use super::{Flight, Hold, State};
use crate::lock::{ETag, LeaseId};
use crate::time::Instant;
use std::time::Duration;

/// A lease on its way back, and what comes then.
#[derive(Clone, Debug)]
pub(super) struct Releasing {
    pub(super) lease_id: LeaseId,
    /// S16: a hold that went on elsewhere has written the record since, and must not be ended from here.
    pub(super) if_match: Option<ETag>,
    pub(super) lease_duration: Duration,
    /// When the lease has run out by itself.
    pub(super) over_at: Instant,
    pub(super) replies: Vec<CallerId>,
    /// When the next acquisition may begin.
    pub(super) not_before: Option<Instant>,
    pub(super) flight: Flight,
}

impl Hold {
    /// Sends the lease back; nothing else is sent before that is answered or the lease has run out.
    pub(super) fn release(
        &mut self,
        mut releasing: Releasing,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let request = self.next_request();
        let timeout = cut_off(releasing.lease_duration);
        out.push(Action::SendRelease {
            request,
            lease_id: releasing.lease_id,
            if_match: releasing.if_match.clone(),
            timeout,
        });
        releasing.flight = Flight::Sent { request, until: now + timeout };
        self.state = State::Releasing(Box::new(releasing));
    }

    pub(super) fn pass_releasing(
        &mut self,
        releasing: Releasing,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if now >= releasing.over_at {
            return self.released(releasing, now, out);
        }
        match releasing.flight {
            Flight::Sent { until, .. } if now >= until => self.release_later(releasing, now),
            Flight::Waiting { at } if now >= at => self.release(releasing, now, out),
            Flight::Sent { .. } | Flight::Waiting { .. } => {
                self.state = State::Releasing(Box::new(releasing));
            }
        }
    }

    pub(super) fn release_answered(
        &mut self,
        request: Request,
        answer: &Result<(), Failure>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let State::Releasing(releasing) = &self.state else {
            return;
        };
        if !releasing.flight.is(request) {
            return;
        }
        let releasing = releasing.as_ref().clone();
        match answer {
            // A repeated release whose first answer was lost says that the lease is not ours: released.
            Ok(())
            | Err(Failure::Taken | Failure::Broken { .. } | Failure::Deleted | Failure::Changed) => {
                self.released(releasing, now, out)
            }
            Err(Failure::Unknown(_) | Failure::Refused(_) | Failure::Contended) => {
                self.release_later(releasing, now);
            }
        }
    }

    fn release_later(&mut self, mut releasing: Releasing, now: Instant) {
        let duration = releasing.lease_duration;
        let at = now + self.jitter.between(duration / 30, duration / 12);
        releasing.flight = Flight::Waiting { at };
        self.state = State::Releasing(Box::new(releasing));
    }

    fn released(&mut self, releasing: Releasing, now: Instant, out: &mut Vec<Action>) {
        for caller in releasing.replies {
            out.push(Action::TellReleased { caller, resting_until: None });
        }
        let not_before = releasing.not_before.unwrap_or(now);
        self.state = State::Idle { not_before, effort: None };
    }
}
