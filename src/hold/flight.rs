//! A request to the store that is under way, or due.

use super::event::RequestId;
use crate::time::Instant;

/// A request under way, or one to be repeated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flight {
    Sent { request: RequestId, until: Instant },
    Waiting { at: Instant },
}

impl Flight {
    pub(super) fn is(&self, request: RequestId) -> bool {
        matches!(self, Self::Sent { request: sent, .. } if *sent == request)
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

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.at()
    }
}
