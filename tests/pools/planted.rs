//! Bugs that the simulator must find.

use crate::kit::{Planted, listed};

listed! {
    /// A mistake that somebody could make.
    pub(crate) enum Bug {
        /// Who was granted a permit stays in the queue for another (S32).
        DoubleGrant,
        /// Permit 0 of a pool has a path of its own beside the plain lock's (S28).
        FirstPermitOffPlainPath,
        /// A release looks at the newest limit: a permit above it is not released (S29).
        LimitReadAtRelease,
        /// What was acquired for a caller that has gone is kept (S6, S32).
        LateGrantKept,
        /// A caller that leaves is kept in the queue (S12).
        LeaverKept,
        /// The path of each permit above the first is that of permit 1 in one sidecar (S28).
        PermitsMixedUp,
        /// Whenever a permit is handed on, all who wait are told their places (S31).
        AllToldAtHandOff,
    }
}

impl Planted for Bug {}
