//! Clients that want to go on with a hold that this sidecar does not have (S16). A resume token is the
//! client's word: until the record shows that it is of this very hold, nothing here waits for it, is held
//! back or is counted as lost for its sake.

use super::action::{LossReason, Notice, Output, Request};
use super::event::{CallerId, Failure, RequestId, Resume, Stored};
use super::held::{Bounds, DELETED};
use super::renew::cut_off;
use super::resume::TOO_LATE;
use super::{Flight, Hold, State};
use crate::lock::Record;
use crate::time::Instant;

/// A client that waits for the record to be read.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) caller: CallerId,
    pub(super) resume: Resume,
    /// What is left of its bounds, counted from when it asked, however long that takes (S11).
    pub(super) bounds: Bounds,
    /// The newest request when it asked: a read of before says nothing of it.
    asked: RequestId,
}

/// The clients that wait so, and the one read that answers them all.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    waiting: Vec<Claim>,
    read: Flight,
}

impl Claims {
    pub(super) fn poll_timeout(&self) -> Instant {
        let ends = self.waiting.iter().map(|claim| claim.resume.believed_until);
        ends.fold(self.read.at(), Instant::min)
    }

    fn remove(&mut self, caller: CallerId) -> Option<Claim> {
        let index = self.waiting.iter().position(|claim| claim.caller == caller)?;
        Some(self.waiting.remove(index))
    }
}

impl Hold {
    pub(super) fn claims(&self) -> Option<&Claims> {
        self.seldom.as_ref()?.claims.as_deref()
    }

    fn claims_mut(&mut self) -> Option<&mut Claims> {
        self.seldom.as_mut()?.claims.as_deref_mut()
    }

    /// A client is to be heard as soon as the record was read.
    pub(super) fn claim(&mut self, caller: CallerId, resume: Resume, output: &Output) {
        let bounds = Bounds::new(&resume.terms, resume.terms.max_hold, output.now);
        let claim = Claim { caller, resume, bounds, asked: RequestId(self.requests) };
        let none =
            || Box::new(Claims { waiting: vec![], read: Flight::Waiting { at: output.now } });
        let seldom = self.seldom.get_or_insert_default();
        seldom.claims.get_or_insert_with(none).waiting.push(claim);
    }

    /// Reads the record for those who wait for that, and refuses those whose belief is over.
    pub(super) fn advance_claims(&mut self, output: &mut Output) {
        let Some(claims) = self.claims_mut() else { return };
        let is_over = |claim: &mut Claim| output.now >= claim.resume.believed_until;
        let over: Vec<Claim> = claims.waiting.extract_if(.., is_over).collect();
        for claim in over {
            // S6: nobody wants the lease any more, so nothing is asked of it.
            refuse(claim.caller, LossReason::Expired, TOO_LATE, output);
        }
        self.read_for_claims(output);
    }

    fn read_for_claims(&mut self, output: &mut Output) {
        let Some(claims) = self.claims() else { return };
        let Some(first) = claims.waiting.first() else {
            return self.forget_claims();
        };
        let lease_duration = first.resume.terms.lease_duration;
        let read = match claims.read {
            Flight::Sent { until, .. } if output.now >= until => {
                // The clients' validity is running: there is no time for patience.
                Flight::Waiting { at: output.now + self.jitter.around(lease_duration / 60, 20) }
            }
            Flight::Waiting { at } if output.now >= at => {
                let (request, timeout) = (self.next_request(), cut_off(lease_duration));
                output.ask(request, Request::Read, timeout);
                Flight::Sent { request, until: output.now + timeout }
            }
            read @ (Flight::Sent { .. } | Flight::Waiting { .. }) => read,
        };
        if let Some(claims) = self.claims_mut() {
            claims.read = read;
        }
    }

    fn forget_claims(&mut self) {
        if let Some(seldom) = &mut self.seldom {
            seldom.claims = None;
        }
    }

    /// Whether `request` is the read for those who wait.
    pub(super) fn claims_by(&self, request: RequestId) -> bool {
        self.claims().is_some_and(|claims| claims.read.is(request))
    }

    /// The record was read: each claim that came before that is refused, or the hold is taken up again.
    pub(super) fn claims_answered(
        &mut self,
        request: RequestId,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        let Some(claims) = self.claims_mut() else { return };
        claims.read = Flight::Waiting { at: output.now };
        let heard = |claim: &mut Claim| claim.asked < request;
        let heard: Vec<Claim> = match &answer {
            Ok(_) | Err(Failure::Deleted) => claims.waiting.extract_if(.., heard).collect(),
            Err(_) => vec![],
        };
        match answer {
            Ok(stored) => {
                let record = Record::from_fields(&stored.fields);
                for claim in heard {
                    match claim.resume.check(&record) {
                        Ok(()) => self.take_up(claim, &stored, output),
                        Err(detail) => refuse(claim.caller, LossReason::Taken, detail, output),
                    }
                }
                if matches!(self.state, State::Idle { .. }) {
                    self.learn(stored, output.now);
                }
            }
            Err(Failure::Deleted) => {
                for claim in heard {
                    refuse(claim.caller, LossReason::LockDeleted, DELETED, output);
                }
            }
            // It says nothing of the lock.
            Err(_) => self.read_later(output),
        }
    }

    fn read_later(&mut self, output: &Output) {
        let Some(first) = self.claims().and_then(|claims| claims.waiting.first()) else { return };
        let lease_duration = first.resume.terms.lease_duration;
        // S7, S12: as often as a renewal would be repeated; callers that wait here poll beside it.
        let at = output.now + self.jitter.between(lease_duration / 30, lease_duration / 12);
        if let Some(claims) = self.claims_mut() {
            claims.read = Flight::Waiting { at };
        }
    }

    /// Takes out the claim of a caller that wants it no more. Nothing was asked of its lease.
    pub(super) fn drop_claim(&mut self, caller: CallerId) -> bool {
        self.claims_mut().is_some_and(|claims| claims.remove(caller).is_some())
    }

    /// S15: the clients may go on with their holds at another sidecar.
    pub(super) fn drain_claims(&mut self, output: &mut Output) {
        let claims = self.claims_mut().map(|claims| std::mem::take(&mut claims.waiting));
        for Claim { caller, .. } in claims.unwrap_or_default() {
            let store_failure = super::callers::shutting_down();
            output.tell(caller, Notice::Failed(store_failure));
        }
        self.forget_claims();
    }
}

/// The hold is not the client's, as far as anybody can tell: to it, it is lost; here, it never was.
pub(super) fn refuse(
    caller: CallerId,
    reason: LossReason,
    detail: &'static str,
    output: &mut Output,
) {
    output.tell(caller, Notice::ResumeRefused { reason, detail: detail.to_owned() });
}
