//! What the coordinator lets be observed: one observation a happening, for metrics.

use std::fmt;
use std::time::Duration;

use super::trace::{Asked, TraceHandle};
use crate::hold::{Failure, LossReason, NotConfirmed, StoreFailureKind};
use crate::schedule::Outcome;
use crate::time::SignSource;

/// Takes in observations. Must not block.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Something happened.
    fn observe(&self, observation: &Observation);

    /// A caller asks for a lock: who follows it to the end of its hold, if anybody does.
    fn follow(&self, asked: &Asked<'_>) -> Option<TraceHandle> {
        let _ = asked;
        None
    }
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
        /// How.
        end: HoldEnd,
        /// From the grant to the end; none if it was never held here, because resuming it failed (S16).
        held: Option<Duration>,
    },
    /// A renewal was answered or cut off.
    Renewal {
        /// Why it failed; none if it succeeded.
        failure: Option<RenewalFailure>,
        /// From the send to the answer; none if it was cut off.
        latency: Option<Duration>,
        /// How long after it was due it was sent.
        lateness: Duration,
    },
    /// A resume was refused: by what is stored the hold is not its caller's, or not any more (S16).
    ResumeRefused,
    /// A hold came to be at risk (S9).
    AtRisk,
    /// A lock was found under another host type than the acquirer's.
    HostTypeCollision,
    /// A grant was refused because the token would not grow (S5).
    TokenNotGrowing,
    /// Callers of a lock were seen to name different numbers of permits (S29).
    PermitsDiffer,
    /// A lock was broken for a caller that waits here (S33, S35).
    Overruled {
        /// Whether for a share's balance (S35); else for its greater priority (S33).
        moves: bool,
    },
    /// The first attempt at an occurrence was granted here, or a run by hand (T6).
    ScheduleRunStarted {
        /// How long after it was due, by the store's time.
        lateness: Duration,
    },
    /// An end of a run, or of an occurrence without one, was recorded here (T8, T9).
    ScheduleRunEnded {
        /// How.
        outcome: Outcome,
    },
    /// Occurrences were found to be missed, and that was recorded here (T9).
    ScheduleMissed {
        /// How many.
        count: u64,
    },
    /// A schedule's record was seen to have gone back to an older one (T21).
    ScheduleWentBack,
    /// Two definitions of a schedule came with the same revision (T16).
    ScheduleConflict,
    /// A start is late by this sidecar's own queue alone (T13).
    ScheduleStartQueued,
    /// A lock that nobody uses was forgotten, because so many others were used since.
    LockForgotten,
    /// A lock that was forgotten is acquired: its record is read again.
    ForgottenRead,
    /// Another clock showed a pause that the boot clock may not have counted (S3).
    PauseSuspected,
    /// A clock has shown too many pauses that were none, and is not heard for an hour (S3).
    ClockNotHeard {
        /// Which.
        source: SignSource,
    },
}

/// How a hold ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// It was released.
    Released,
    /// It was released, and the store has not confirmed that (S13).
    NotConfirmed(NotConfirmed),
    /// It was lost.
    Lost(LossReason),
    /// It was left to the replacement of this sidecar, or to expire (S15).
    HandedOver,
    /// Its client has resumed it at another sidecar (S16).
    ResumedElsewhere,
}

impl HoldEnd {
    /// A stable name, for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::NotConfirmed(_) => "release_not_confirmed",
            Self::Lost(_) => "lost",
            Self::HandedOver => "handed_over",
            Self::ResumedElsewhere => "resumed_elsewhere",
        }
    }
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
    /// With the news that the hold to resume is lost (S16).
    ResumeLost,
    /// With the news that the hold to resume is not the caller's, or not any more (S16).
    ResumeRefused,
    /// With nothing: what the caller brought had it granted to nobody (T6).
    Settled,
    /// The caller went away.
    Left,
    /// At once, because of the limit of holds or of waiters.
    OverLimit,
    /// With a store failure.
    Failed(StoreFailureKind),
}

impl AcquireResult {
    /// Every result.
    pub const ALL: [Self; 17] = [
        Self::Granted,
        Self::Resumed,
        Self::Busy,
        Self::ResumeLost,
        Self::ResumeRefused,
        Self::Settled,
        Self::Left,
        Self::OverLimit,
        Self::Failed(StoreFailureKind::Unavailable),
        Self::Failed(StoreFailureKind::Throttled),
        Self::Failed(StoreFailureKind::Denied),
        Self::Failed(StoreFailureKind::ContainerMissing),
        Self::Failed(StoreFailureKind::StoreFailed),
        Self::Failed(StoreFailureKind::Full),
        Self::Failed(StoreFailureKind::TokenNotGrowing),
        Self::Failed(StoreFailureKind::TokenUnreadable),
        Self::Failed(StoreFailureKind::ShuttingDown),
    ];

    /// A stable name, for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Resumed => "resumed",
            Self::Busy => "busy",
            Self::ResumeLost => "resume_lost",
            Self::ResumeRefused => "resume_refused",
            Self::Settled => "settled",
            Self::Left => "left",
            Self::OverLimit => "over_limit",
            Self::Failed(kind) => store_failure_name(kind),
        }
    }
}

/// Why a renewal failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalFailure {
    /// Somebody else holds the lease, or has held it since.
    Taken,
    /// The lease was broken (S17).
    Broken,
    /// The lock or its container is gone.
    Deleted,
    /// The lock is leased under another id, as no store says to a renewal that keeps its contract.
    Contended,
    /// The record has changed, as no store says to a renewal that keeps its contract.
    Changed,
    /// With a store failure.
    Failed(StoreFailureKind),
}

impl RenewalFailure {
    /// Every failure that a store can cause that keeps its contract.
    pub const EXPECTED: [Self; 7] = [
        Self::Taken,
        Self::Broken,
        Self::Deleted,
        Self::Failed(StoreFailureKind::Unavailable),
        Self::Failed(StoreFailureKind::Throttled),
        Self::Failed(StoreFailureKind::Denied),
        Self::Failed(StoreFailureKind::StoreFailed),
    ];

    /// A stable name, for metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Broken => "broken",
            Self::Deleted => "deleted",
            Self::Contended => "contended",
            Self::Changed => "changed",
            Self::Failed(kind) => store_failure_name(kind),
        }
    }
}

impl From<&Failure> for RenewalFailure {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Taken => Self::Taken,
            Failure::Broken => Self::Broken,
            Failure::Deleted => Self::Deleted,
            Failure::Contended => Self::Contended,
            Failure::Changed => Self::Changed,
            Failure::Unknown(store_failure)
            | Failure::NotDone(store_failure)
            | Failure::Refused(store_failure) => Self::Failed(store_failure.kind),
        }
    }
}

const fn store_failure_name(kind: StoreFailureKind) -> &'static str {
    match kind {
        StoreFailureKind::Unavailable => "store_unavailable",
        StoreFailureKind::Throttled => "store_throttled",
        StoreFailureKind::Denied => "store_denied",
        StoreFailureKind::ContainerMissing => "container_missing",
        StoreFailureKind::StoreFailed => "store_failed",
        StoreFailureKind::Full => "store_full",
        StoreFailureKind::TokenNotGrowing => "token_not_growing",
        StoreFailureKind::TokenUnreadable => "token_unreadable",
        StoreFailureKind::ShuttingDown => "shutting_down",
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, _observation: &Observation) {}
}
