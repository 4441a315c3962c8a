//! What the coordinator lets be observed: one event for each thing that happens to a lock, a hold, a schedule
//! or the sidecar. Metrics, logs, traces and the event log are made of it outside.

use std::time::Duration;

use super::call::{LockRecord, Released};
use crate::hold::{Failure, LossReason, NotConfirmed, SaveOutcome, StoreFailureKind};
use crate::lock::{FencingToken, LockPath, Permit, Permits};
use crate::record::Priority;
use crate::schedule::{Outcome, RunId};
use crate::store::BreakNote;
use crate::time::SignSource;

/// Something that happened here.
#[derive(Clone, Copy, Debug)]
pub struct LockEvent<'a> {
    /// The path of the lock, or of its permit; none if the event concerns the sidecar.
    pub path: Option<&'a LockPath>,
    /// The token of the grant that the event is about (S5).
    pub token: Option<FencingToken>,
    /// The holder that it happened to, or the caller that wanted to be one; may be empty.
    pub holder: &'a str,
    /// What happened to it.
    pub kind: LockEventKind<'a>,
}

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub enum LockEventKind<'a> {
    /// A caller's request was refused before it was in the queue.
    Refused,
    /// A caller holds the lock.
    Granted(GrantFacts),
    /// A caller's acquire ended without a grant of its own.
    NotGranted {
        /// How the acquire ended.
        result: AcquireResult,
        /// From the call to its end.
        waited: Duration,
        /// The lock as the caller was told it, with [`AcquireResult::Busy`].
        busy: Option<&'a LockRecord>,
    },
    /// A resume was refused: by what is stored the hold is not its caller's, or not any more (S16).
    ResumeRefused {
        /// What became of the hold.
        reason: LossReason,
        /// More for people.
        detail: &'a str,
        /// How many of these were left unsaid since the last that was said; none if this one is left unsaid,
        /// too, because a stranger can cause it.
        unsaid: Option<u64>,
    },
    /// What a caller brought was written, or was not to be, and nobody is granted the lock (T6).
    Settled {
        /// Whether it was written.
        written: bool,
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
    /// A hold came to be at risk: renewals fail (S9).
    AtRisk {
        /// Of what kind the failure is.
        cause: StoreFailureKind,
        /// The same for people.
        detail: &'a str,
    },
    /// Renewals of a hold that was at risk succeed again (S9).
    Recovered,
    /// The lease of a hold was broken and runs out (S22).
    Revoked {
        /// Who broke it and why, where that is known.
        reason: &'a str,
    },
    /// A hold has a new `max_hold` (S11).
    Extended,
    /// A holder was told that the sidecar shuts down (S15).
    Draining,
    /// A checkpoint was saved, or not (S23).
    Saved {
        /// What became of it.
        outcome: &'a SaveOutcome,
    },
    /// A hold ended here.
    Ended(EndFacts<'a>),
    /// The task of a lock has failed: its holds are lost.
    TaskFailed,
    /// A lock was found under another host type than the acquirer's.
    Collision {
        /// The host type in the record.
        stored: &'a str,
        /// The host type of the acquirer.
        ours: &'a str,
        /// Whether it was not seen before.
        is_new: bool,
    },
    /// A grant was refused because the token would not grow (S5). The event's token is the greatest seen.
    TokenNotGrowing {
        /// The token that was to be granted.
        next: Option<FencingToken>,
    },
    /// Callers of a lock were seen to name different numbers of permits (S29).
    PermitsDiffer {
        /// What others have named.
        others: Permits,
        /// What the latest caller here has named.
        ours: Permits,
        /// Whether that was not seen before.
        is_new: bool,
    },
    /// The store refuses to break leases, so that callers of greater priority wait (S33).
    CannotBreak {
        /// What the store said.
        cause: &'a str,
    },
    /// A lock was broken for a caller that waits here (S33, S35).
    Overruled {
        /// The caller's priority.
        priority: Priority,
        /// Whether for a share's balance (S35); else for its greater priority (S33).
        moves: bool,
    },
    /// An operator broke the lock through this sidecar (S17).
    Broken {
        /// The note of the break.
        note: &'a BreakNote,
        /// The operator, as the sidecar knows it.
        caller: &'a str,
    },
    /// A lock that nobody uses was forgotten, because so many others were used since.
    Forgotten,
    /// A lock that was forgotten is acquired: its record is read again.
    ForgottenRead,
    /// Another clock showed a pause that the boot clock may not have counted (S3).
    PauseSuspected,
    /// A clock has shown too many pauses that were none, and is not heard for an hour (S3).
    ClockNotHeard {
        /// The clock that is not heard.
        source: SignSource,
    },
    /// The sidecar began to shut down (S15).
    ShutdownBegun,
    /// Something happened to a schedule.
    Schedule(ScheduleEventKind<'a>),
}

/// What can happen to a schedule.
#[derive(Clone, Copy, Debug)]
pub enum ScheduleEventKind<'a> {
    /// A run of a schedule began here (T6).
    RunStarted {
        /// The run that began.
        run: &'a RunId,
        /// How long after it was due, by the store's time.
        lateness: Duration,
        /// Occurrences that were missed before it (T9).
        missed: u64,
        /// It goes on with a run that had begun elsewhere or by another stream (T12).
        is_resumed: bool,
    },
    /// An end of a run, or of an occurrence without one, was recorded here (T8, T9).
    RunEnded {
        /// How the run or the occurrence ended.
        outcome: Outcome,
        /// What its holder has reported, for people; may be empty.
        detail: &'a str,
    },
    /// Occurrences were found to be missed, and that was recorded here (T9).
    Missed {
        /// How many occurrences were missed.
        count: u64,
    },
    /// A schedule's record was seen to have gone back to an older one (T21).
    WentBack,
    /// Two definitions of a schedule came with the same revision (T16).
    Conflict {
        /// The revision that both have.
        revision: u64,
    },
    /// A start is late by this sidecar's own queue alone (T13).
    StartQueued,
    /// An operator changed a schedule (T18).
    Changed {
        /// A stable name of the change.
        change: &'static str,
        /// The operator, as the sidecar knows it.
        caller: &'a str,
        /// Why, as the operator said; may be empty.
        reason: &'a str,
    },
}

/// What is told of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantFacts {
    /// How the lock was had.
    pub how: GrantedBy,
    /// Which permit (S28).
    pub permit: Permit,
    /// How often the hold was resumed, from 1 (S16).
    pub generation: u64,
    /// From the call to the grant.
    pub waited: Duration,
    /// It is for a run of a schedule, of which the run's own events tell (T23).
    pub is_run: bool,
}

/// How a lock was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantedBy {
    /// By a lease of the store's.
    Store,
    /// Under the lease of the holder before (S10).
    HandOff,
    /// The hold goes on (S16).
    Resume,
}

/// What is told of the end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndFacts<'a> {
    /// How the hold ended here.
    pub end: HoldEnd,
    /// From the grant to the end; none if it was never held here, because resuming it failed (S16).
    pub held: Option<Duration>,
    /// From the call to the end.
    pub waited: Duration,
    /// More for people; may be empty.
    pub detail: &'a str,
    /// It was for a run of a schedule, of which the run's own events tell (T23).
    pub is_run: bool,
}

impl<'a> LockEvent<'a> {
    /// What happened to a lock, or to one of its permits.
    pub(crate) const fn of(path: &'a LockPath, kind: LockEventKind<'a>) -> Self {
        Self { path: Some(path), token: None, holder: "", kind }
    }

    /// What happened to the sidecar.
    pub(crate) const fn of_sidecar(kind: LockEventKind<'a>) -> Self {
        Self { path: None, token: None, holder: "", kind }
    }

    /// The same, about the grant of this token.
    pub(crate) const fn with_token(self, token: Option<FencingToken>) -> Self {
        Self { token, ..self }
    }
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
    /// What a release of a hold that has ended like this is answered.
    pub(super) const fn released_before(self) -> Released {
        match self {
            Self::Lost(reason) => Released::AlreadyLost { reason },
            Self::NotConfirmed(_) => Released::NotConfirmed,
            Self::Released | Self::HandedOver | Self::ResumedElsewhere => Released::AlreadyReleased,
        }
    }

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
    /// Every result, in the order of the metrics.
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
