//! What the holder of a lease is doing (S4, S11, S13, S14).

use crate::time::Instant;

/// What the holder is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has the lock.
    Active,
    /// It has ended its hold, and its last checkpoint is being saved before that goes on (S26). What
    /// `released` it was a call that carried the generation.
    LastSave { released: bool },
    /// It gave the lock back before `min_hold` was over (S11).
    Resting { until: Instant },
    /// It may still believe in its hold; nobody gets the lock before that is over (S13, S14).
    GracePeriod(GracePeriod),
}

impl Phase {
    /// Whether a call with the generation has released the hold, and something of it remains to be done.
    pub(super) const fn is_released(self) -> bool {
        match self {
            Self::LastSave { released: true } | Self::Resting { .. } => true,
            Self::Active | Self::LastSave { released: false } | Self::GracePeriod(_) => false,
        }
    }

    /// Whether its holder has it, or has ended it and waits for its last save and its release.
    pub(super) const fn is_open(self) -> bool {
        match self {
            Self::Active | Self::LastSave { .. } => true,
            Self::Resting { .. } | Self::GracePeriod(_) => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GracePeriod {
    /// Its stream ended without a word: it may come back (S14, S16).
    Silent,
    /// It was told that the hold is over; the lease is still ours.
    Told,
    /// As `Told`, and the lease is left to run out, because the sidecar ends first (S15).
    ToldAtShutdown,
    /// It was told that the hold is over; the lease is ours no more.
    LeaseGone,
}
