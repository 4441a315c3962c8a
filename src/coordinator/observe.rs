//! What the coordinator lets be observed: one observation a happening, for metrics.

use std::fmt;
use std::time::Duration;

use crate::hold::{LossReason, TroubleKind};

/// Takes in observations. Must not block.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Something happened.
    fn observe(&self, observation: &Observation);
}

/// Something that happened, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A caller's acquire ended.
    Acquire {
        /// How.
        result: AcquireResult,
        /// From the call to its end.
        waited: Duration,
    },
    /// A hold ended.
    HoldEnded {
        /// None if it was released.
        lost: Option<LossReason>,
        /// From the grant to the end.
        held: Duration,
    },
    /// A renewal was answered or cut off.
    Renewal {
        /// The kind of failure; none if it succeeded.
        failure: Option<&'static str>,
        /// From the send to the answer; none if it was cut off.
        latency: Option<Duration>,
        /// How long after it was due it was sent.
        lateness: Duration,
    },
    /// A hold came to be at risk (S9).
    AtRisk,
    /// A lock was found under another host type than the acquirer's.
    HostTypeCollision,
    /// A grant was refused because the token would not grow (S5).
    TokenNotGrowing,
}

/// How an acquire ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireResult {
    /// With a grant from the store or by a local hand-off.
    Granted,
    /// With an earlier grant, resumed (S16).
    Resumed,
    /// With somebody else's hold.
    Busy,
    /// The caller went away.
    Left,
    /// With a trouble.
    Failed(TroubleKind),
}

impl AcquireResult {
    /// A stable name, for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Resumed => "resumed",
            Self::Busy => "busy",
            Self::Left => "left",
            Self::Failed(TroubleKind::Unavailable) => "store_unavailable",
            Self::Failed(TroubleKind::Throttled) => "store_throttled",
            Self::Failed(TroubleKind::Denied) => "store_denied",
            Self::Failed(TroubleKind::ContainerMissing) => "container_missing",
            Self::Failed(TroubleKind::StoreFailed) => "store_failed",
            Self::Failed(TroubleKind::TokenNotGrowing) => "token_not_growing",
            Self::Failed(TroubleKind::ShuttingDown) => "shutting_down",
        }
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, _observation: &Observation) {}
}
