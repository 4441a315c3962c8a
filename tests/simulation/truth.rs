//! What was true of each lease in the store, beside what was told of it (S8, S13).

use std::collections::{BTreeMap, BTreeSet};

use leasehold::hold::{
    Action, Answer, CallerId, Event, Failure, LossReason, Notice, Request, RequestId,
};
use leasehold::lock::LeaseId;

/// How a lease ended in the store, other than by its own release or by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Taken,
    Broken,
    Gone,
}

/// The leases that there were, and the answers about them.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// Only the first end of each counts.
    pub(crate) ended: BTreeMap<LeaseId, Ended>,
    /// Under which lease a caller was granted the lock.
    pub(crate) leases: BTreeMap<CallerId, LeaseId>,
    /// The latest release of each lease by each sidecar, and those that were repeated.
    releases: BTreeMap<(usize, LeaseId), RequestId>,
    repeated: BTreeSet<(usize, LeaseId)>,
    /// Which lease each release was of, and the leases of which the store has answered one.
    asked: BTreeMap<(usize, RequestId), LeaseId>,
    answered: BTreeSet<(usize, LeaseId)>,
    /// Leases whose first release was answered so that they had ended before.
    refused: BTreeSet<(usize, LeaseId)>,
    /// Leases that somebody wanted to go on with elsewhere (S16).
    moved: BTreeSet<LeaseId>,
    /// Leases that were given back.
    released: BTreeSet<LeaseId>,
}

impl Truth {
    pub(crate) fn sent(&mut self, sidecar: usize, action: &Action) {
        match action {
            Action::Store { request, what: Request::Release { lease_id, .. }, .. } => {
                self.asked.insert((sidecar, *request), *lease_id);
                // Once it was repeated, an answer may be about the try before.
                let only = self.releases.insert((sidecar, *lease_id), *request).is_none();
                if !only {
                    self.repeated.insert((sidecar, *lease_id));
                }
            }
            Action::Tell { caller, notice: Notice::Granted(grant) } => {
                self.leases.insert(*caller, grant.lease_id);
                // S16: what was asked before the hold came back is not its own release.
                let place = (sidecar, grant.lease_id);
                self.releases.remove(&place);
                self.repeated.remove(&place);
                self.refused.remove(&place);
                self.answered.remove(&place);
            }
            _ => {}
        }
    }

    /// The store gave a lease; `former` was the one before.
    pub(crate) fn acquired(&mut self, lease_id: LeaseId, former: Option<LeaseId>) {
        if let Some(former) = former.filter(|former| *former != lease_id) {
            self.end(former, Ended::Taken);
        }
    }

    pub(crate) fn given_back(&mut self, lease_id: LeaseId) {
        self.released.insert(lease_id);
    }

    pub(crate) fn end(&mut self, lease_id: LeaseId, how: Ended) {
        if !self.released.contains(&lease_id) {
            self.ended.entry(lease_id).or_insert(how);
        }
    }

    /// Whether a lease has ended in the store, as far as anybody did something to it.
    pub(crate) fn is_over(&self, lease_id: LeaseId) -> bool {
        self.ended.contains_key(&lease_id) || self.released.contains(&lease_id)
    }

    /// Whether the lease that a request is about was ended in the store by somebody or something else.
    pub(crate) fn has_ended(&self, action: &Action) -> bool {
        match action {
            Action::Store {
                what:
                    Request::Renew { lease_id, .. }
                    | Request::Write { lease_id, .. }
                    | Request::Release { lease_id, .. },
                ..
            } => self.ended.contains_key(lease_id),
            _ => false,
        }
    }

    pub(crate) fn came_in(&mut self, sidecar: usize, event: &Event) {
        if let Event::ResumeAsked { resume, .. } = event {
            self.moved.insert(resume.lease_id);
        }
        if let Event::Answer { request, answer: Answer::Release(answer) } = event
            && matches!(
                answer,
                Ok(())
                    | Err(Failure::Taken | Failure::Broken | Failure::Deleted | Failure::Changed)
            )
            && let Some(lease_id) = self.asked.get(&(sidecar, *request))
        {
            self.answered.insert((sidecar, *lease_id));
        }
        if let Event::Answer { request, answer: Answer::Release(Err(failure)) } = event
            && matches!(failure, Failure::Taken | Failure::Broken | Failure::Deleted)
        {
            let first =
                self.releases.iter().find(|((at, _), first)| *at == sidecar && *first == request);
            if let Some(((_, lease_id), _)) = first
                && !self.repeated.contains(&(sidecar, *lease_id))
            {
                self.refused.insert((sidecar, *lease_id));
            }
        }
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.releases.retain(|(at, _), _| *at != sidecar);
    }

    /// S13: what the store refused at the first try had ended earlier, so it is no release; nor is one that
    /// the store has not answered. A hand-off and a rest ask it for none.
    pub(crate) fn released(&self, sidecar: usize, caller: CallerId) -> Option<String> {
        let lease_id = self.leases.get(&caller)?;
        let place = (sidecar, *lease_id);
        if self.releases.contains_key(&place) && !self.answered.contains(&place) {
            return Some(format!(
                "S13: {caller:?} is told RELEASED though the store has not confirmed it"
            ));
        }
        let ended = self.ended.get(lease_id)?;
        self.refused.contains(&place).then(|| {
            format!("S13: {caller:?} is told RELEASED though its lease was {ended:?} before")
        })
    }

    /// S8: the store is said to have ended the lease; has it?
    pub(crate) fn lost(&self, caller: CallerId, reason: LossReason) -> Option<String> {
        let lease_id = self.leases.get(&caller)?;
        let by_store =
            matches!(reason, LossReason::Taken | LossReason::Broken | LossReason::LockDeleted);
        let justified = !by_store || self.is_over(*lease_id) || self.moved.contains(lease_id);
        (!justified).then(|| {
            format!("S8: {caller:?} is told LOST ({}) though its lease is ours", reason.as_str())
        })
    }
}
