//! A lease that goes back to the store (S6, S13).

use std::time::Duration;

use super::action::Action;
use super::event::{CallerId, Failure, Request, Trouble};
use super::turn::Turn;
use super::validity::{cut_off, over_at};
use super::{Flight, Hold, State};
use crate::lock::{ETag, LeaseId};
use crate::time::Instant;

/// A lease on its way back, and what comes then.
#[derive(Clone, Debug)]
pub(super) struct Releasing {
    pub(super) lease_id: LeaseId,
    /// S16: a hold that went on elsewhere has written the record since, and must not be ended from here.
    pub(super) if_match: Option<ETag>,
    pub(super) lease_duration: Duration,
    /// When the lease has run out by itself.
    pub(super) over_at: Instant,
    /// Who waits for the answer.
    pub(super) reply: Option<CallerId>,
    /// Until when nobody gets the lock all the same, because of `min_hold` (S11).
    pub(super) resting_until: Option<Instant>,
    /// When the next acquisition may begin.
    pub(super) not_before: Option<Instant>,
    pub(super) flight: Flight,
}

impl Releasing {
    /// The way back of a lease under which nothing was granted.
    pub(super) fn unused(lease_id: LeaseId, lease_duration: Duration, sent: Instant) -> Self {
        Self {
            lease_id,
            if_match: None,
            lease_duration,
            over_at: over_at(sent, lease_duration),
            reply: None,
            resting_until: None,
            not_before: None,
            flight: Flight::Waiting { at: sent },
        }
    }
}

impl Hold {
    /// Sends the lease back; nothing else is sent before that is answered or the lease has run out.
    pub(super) fn release(&mut self, releasing: Releasing, turn: &mut Turn) {
        self.send_back(Box::new(releasing), turn);
    }

    fn send_back(&mut self, mut releasing: Box<Releasing>, turn: &mut Turn) {
        let request = self.next_request();
        let timeout = cut_off(releasing.lease_duration);
        turn.push(Action::SendRelease {
            request,
            lease_id: releasing.lease_id,
            if_match: releasing.if_match.clone(),
            timeout,
        });
        releasing.flight = Flight::Sent { request, until: turn.now + timeout };
        self.state = State::Releasing(releasing);
    }

    pub(super) fn pass_releasing(&mut self, releasing: Box<Releasing>, turn: &mut Turn) {
        if turn.now >= releasing.over_at {
            return self.released(&releasing, turn);
        }
        match releasing.flight {
            Flight::Sent { until, .. } if turn.now >= until => {
                self.release_later(releasing, Trouble::unanswered("release"), turn);
            }
            Flight::Waiting { at } if turn.now >= at => self.send_back(releasing, turn),
            Flight::Sent { .. } | Flight::Waiting { .. } => {
                self.state = State::Releasing(releasing);
            }
        }
    }

    pub(super) fn release_answered(
        &mut self,
        request: Request,
        answer: Result<(), Failure>,
        turn: &mut Turn,
    ) {
        let releasing = match self.take_state(turn.now) {
            State::Releasing(releasing) if releasing.flight.is(request) => releasing,
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_)) => {
                self.state = other;
                return;
            }
        };
        match answer {
            // A repeated release whose first answer was lost says that the lease is not ours: released.
            Ok(())
            | Err(Failure::Taken | Failure::Broken | Failure::Deleted | Failure::Changed) => {
                self.trouble = None;
                self.released(&releasing, turn);
            }
            Err(Failure::Unknown(trouble) | Failure::Refused(trouble)) => {
                self.release_later(releasing, trouble, turn);
            }
            Err(failure @ Failure::Contended) => {
                let trouble = super::acquisition::unexpected("release", &failure);
                self.release_later(releasing, trouble, turn);
            }
        }
    }

    fn release_later(&mut self, mut releasing: Box<Releasing>, trouble: Trouble, turn: &mut Turn) {
        let at = turn.now + self.backoff(&trouble, releasing.lease_duration);
        releasing.flight = Flight::Waiting { at };
        self.state = State::Releasing(releasing);
        self.fail_one_tries(&trouble, turn);
        self.trouble = Some(Box::new(trouble));
    }

    fn released(&mut self, releasing: &Releasing, turn: &mut Turn) {
        if let Some(caller) = releasing.reply {
            let resting_until = releasing.resting_until;
            turn.push(Action::TellReleased { caller, resting_until });
        }
        let not_before = releasing.not_before.unwrap_or(turn.now);
        self.state = State::Idle { not_before, effort: None };
    }
}
