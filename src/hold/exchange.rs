//! An exchange with the store: what was asked, until when an answer counts, and when it is asked again (S7).
//! And what a failure says of the lease that the request went under (S8).

use std::time::Duration;

use super::Hold;
use super::action::{LossReason, Output, Request};
use super::event::{Failure, RequestId, StoreFailure, StoreFailureKind};
use super::renew::cut_off;
use crate::time::Instant;

/// A request under way, or one to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exchange {
    /// It was sent, and is given up then.
    Sent { request: RequestId, until: Instant },
    /// It is sent then, for the first time or once more.
    Waiting { at: Instant },
}

impl Exchange {
    /// The request that is under way.
    pub(super) const fn request(&self) -> Option<RequestId> {
        match self {
            Self::Sent { request, .. } => Some(*request),
            Self::Waiting { .. } => None,
        }
    }

    /// Whether `request` is the one that is under way.
    pub(super) fn is(&self, request: RequestId) -> bool {
        self.request() == Some(request)
    }

    pub(super) const fn is_sent(&self) -> bool {
        matches!(self, Self::Sent { .. })
    }

    pub(super) const fn at(&self) -> Instant {
        match self {
            Self::Sent { until, .. } => *until,
            Self::Waiting { at } => *at,
        }
    }

    /// When the last of its tries was given up, or will be.
    pub(super) const fn given_up(&self, now: Instant) -> Instant {
        match self {
            Self::Sent { until, .. } => *until,
            Self::Waiting { .. } => now,
        }
    }

    /// Whether it is to be given up now, or to be sent.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.at()
    }
}

impl Hold {
    /// Asks the store about a lease of this duration.
    pub(super) fn send(
        &mut self,
        what: Request,
        lease_duration: Duration,
        output: &mut Output,
    ) -> Exchange {
        let (request, timeout) = (self.next_request(), cut_off(lease_duration));
        output.ask(request, what, timeout);
        Exchange::Sent { request, until: output.now + timeout }
    }
}

/// Why a lease is ours no more, as the store says it (S8).
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone {
    pub(super) reason: LossReason,
    pub(super) detail: &'static str,
}

impl Gone {
    pub(super) const TAKEN: Self =
        Self { reason: LossReason::Taken, detail: "another has the lease, or had it since" };
    /// An operator did that, or a sidecar for a caller of greater priority.
    pub(super) const BROKEN: Self =
        Self { reason: LossReason::Broken, detail: "the lease was broken" };
    pub(super) const DELETED: Self =
        Self { reason: LossReason::LockDeleted, detail: "the lock or its container was deleted" };
}

impl Failure {
    /// What it says of the lease that the request went under, if that is gone. The answer to a read says only
    /// whether there is a lock.
    pub(super) const fn gone(&self) -> Option<Gone> {
        match self {
            Self::Taken => Some(Gone::TAKEN),
            Self::Broken => Some(Gone::BROKEN),
            Self::Deleted => Some(Gone::DELETED),
            Self::Contended
            | Self::Changed
            | Self::Unknown(_)
            | Self::NotDone(_)
            | Self::Refused(_) => None,
        }
    }

    /// What callers are told of it where `what` was asked and this is no answer to that.
    pub(super) fn into_cause(self, what: &str) -> StoreFailure {
        match self {
            Self::Unknown(store_failure)
            | Self::NotDone(store_failure)
            | Self::Refused(store_failure) => store_failure,
            Self::Contended | Self::Changed | Self::Taken | Self::Broken | Self::Deleted => {
                StoreFailure {
                    kind: StoreFailureKind::StoreFailed,
                    message: format!(
                        "the store answered the {what} in a way that no {what} is answered: {self:?}"
                    ),
                    retry_after: None,
                }
            }
        }
    }
}
