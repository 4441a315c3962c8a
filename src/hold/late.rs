//! Requests that were given up though their answers may yet come (S4, S6).

use super::action::Request;
use super::event::RequestId;
use super::output::Output;
use super::validity::cut_off;
use super::{Attempt, Hold, State};
use crate::lock::{ETag, LeaseId};
use std::time::Duration;

/// A request that, if it succeeded after all, has leased the lock to nobody.
#[derive(Clone, Debug)]
struct Late {
    request: RequestId,
    lease_id: LeaseId,
    if_match: Option<ETag>,
    lease_duration: Duration,
}

/// The late requests of one machine.
#[derive(Clone, Debug, Default)]
pub(super) struct LateRequests(Vec<Late>);

/// Late requests that are remembered; older ones have long been answered or cut off.
const MAX_LATE: usize = 8;

impl LateRequests {
    pub(super) fn keep(
        &mut self,
        request: RequestId,
        lease_id: LeaseId,
        if_match: Option<ETag>,
        lease_duration: Duration,
    ) {
        if self.0.len() == MAX_LATE {
            self.0.remove(0);
        }
        self.0.push(Late { request, lease_id, if_match, lease_duration });
    }

    /// The lease was granted to a holder, so whoever ends that hold ends the lease; or it is left to run out,
    /// or went on elsewhere.
    pub(super) fn forget(&mut self, lease_id: LeaseId) {
        self.0.retain(|late| late.lease_id != lease_id);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    fn take(&mut self, request: RequestId) -> Option<Late> {
        let index = self.0.iter().position(|late| late.request == request)?;
        Some(self.0.remove(index))
    }
}

impl Hold {
    /// An acquire or a renewal was answered that nobody waits for any more: a lease that it has is given
    /// back.
    pub(super) fn late_answer(&mut self, request: RequestId, succeeded: bool, output: &mut Output) {
        let Some(late) = self.late.take(request) else {
            return;
        };
        if let State::Releasing(releasing) = &mut self.state
            && releasing.lease_id == late.lease_id
        {
            releasing.lasts_from(output.now);
        }
        if !succeeded || self.uses(late.lease_id) {
            return;
        }
        if let State::Releasing(releasing) = &mut self.state
            && releasing.lease_id == late.lease_id
        {
            // A renewal was done before the release that is under way; an acquire may have been done after
            // it.
            if late.if_match.is_some() {
                return;
            }
            releasing.uncertain = true;
        }
        let request = self.next_request();
        output.ask(
            request,
            Request::Release { lease_id: late.lease_id, if_match: late.if_match },
            cut_off(late.lease_duration),
        );
    }

    /// Whether this lease is had or tried for now.
    fn uses(&self, lease_id: LeaseId) -> bool {
        let used = match &self.state {
            State::Idle { retry, .. } => retry.as_ref().map(|retry| retry.lease_id),
            State::Acquiring(attempt) => Some(match attempt.as_ref() {
                Attempt::Acquire { retry, .. } | Attempt::ReadHolder { retry, .. } => {
                    retry.lease_id
                }
                Attempt::Leased { lease, .. } => lease.lease_id,
            }),
            State::Held(held) => Some(held.lease_id),
            // On its way back, and so is what a late request may have made of it.
            State::Releasing(_) => None,
            State::Resuming(resuming) => Some(resuming.lease_id()),
        };
        used == Some(lease_id)
    }
}
