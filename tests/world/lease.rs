//! Leases: what they are at a time, and how those that were granted ended.

use std::time::Duration;

/// Lease ids as they are sent.
pub(crate) type Id = String;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lease {
    #[default]
    Available,
    /// Until then; expired after it.
    Leased { id: Id, until: Duration, lasts: Duration },
    /// Until then; broken after it.
    Breaking { id: Id, until: Duration },
}

/// What a lease is at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Available,
    Leased,
    Breaking,
    Broken,
    Expired,
}

impl Lease {
    pub(crate) fn state(&self, now: Duration) -> State {
        match self {
            Self::Available => State::Available,
            Self::Leased { until, .. } if now < *until => State::Leased,
            Self::Leased { .. } => State::Expired,
            Self::Breaking { until, .. } if now < *until => State::Breaking,
            Self::Breaking { .. } => State::Broken,
        }
    }

    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Available => None,
            Self::Leased { id, .. } | Self::Breaking { id, .. } => Some(id),
        }
    }
}

/// A lease that was given.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) blob: String,
    pub(crate) id: Id,
    pub(crate) lasts: Duration,
    /// The epoch of the token that was stored under it.
    pub(crate) token: Option<u64>,
    pub(crate) ended: Option<(Duration, End)>,
    /// A write under it was refused by policy at this time.
    pub(crate) refused: Option<Duration>,
    /// A release of it was asked for.
    pub(crate) release_asked: bool,
    /// How often, and whether the only one was refused as that of a lease that is over.
    pub(crate) releases: u32,
    pub(crate) release_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    /// It ran out, and another took the lock.
    TakenOver,
    Deleted,
}
