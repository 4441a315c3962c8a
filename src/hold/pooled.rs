//! What a pool needs to know of the machines of its permits (S28 to S32); the pool itself is a room of its
//! own.

use super::event::{CallerId, Terms};
use super::idle::Wait;
use super::waiters::Waiter;
use super::{Hold, State};
use crate::lock::{LeaseId, Permits};
use crate::time::Instant;

/// What a caller that comes now finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing is under way: the store can be asked. Not before `from`, if this sidecar stands back (S10).
    Idle {
        /// When it has stood back.
        from: Option<Instant>,
    },
    /// The store is being asked.
    Acquiring,
    /// Somebody has the lock here, or resumes a hold of it.
    InUse,
    /// The lease is going back to the store.
    Releasing,
}

impl Terms {
    /// How many permits the caller wants the lock to have (S28).
    #[must_use]
    pub fn permits(&self) -> Permits {
        self.record.permits.unwrap_or(Permits::ONE)
    }

    /// Whether a pool asks for its caller: the pool keeps the pace of the tries, and each is to be one
    /// request (S31).
    pub(super) fn is_pooled(&self) -> bool {
        self.permits() > Permits::ONE
    }
}

impl Hold {
    /// Enters a caller of a pool where a hold is about to end; nothing is done by it: what ends the hold
    /// hands it on (S30).
    pub(crate) fn enter(&mut self, waiter: Waiter, now: Instant) {
        self.waiters.push(waiter, now);
    }

    /// The lease id for the next acquisition, for the machine of another permit: another is supplied before
    /// the next event.
    pub(crate) const fn lend(&mut self) -> Option<LeaseId> {
        self.fresh.take()
    }

    /// Who waits here with the call of this id.
    pub(crate) fn waiter_of(&self, request_id: &str) -> Option<CallerId> {
        self.waiters.caller_of(request_id)
    }

    /// What a caller that comes now finds.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        match &self.state {
            State::Idle { idle, .. } => {
                let stands_back = idle.why == Wait::StandBack;
                Readiness::Idle { from: stands_back.then_some(idle.until) }
            }
            State::Acquiring(_) => Readiness::Acquiring,
            State::Held(_) | State::Resuming(_) => Readiness::InUse,
            State::Releasing(_) => Readiness::Releasing,
        }
    }
}
