//! Why the coordinator does not serve a call.

use crate::coordinator::store_io::understood::store_failure;
use crate::hold::{LossReason, StoreFailure, StoreFailureKind};
use crate::lock::{FencingToken, LockPath, PathError};
use crate::schedule::MAX_REQUESTS;
use crate::store::StoreError;
use crate::text::Quoted;
use crate::timetable::UtcSecond;

/// Why a call was not served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The store, or the sidecar's state, does not allow it.
    #[error("{}", .0.message)]
    StoreFailure(StoreFailure),
    /// The key has no path in this layout.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The operator forbids overriding the host id.
    #[error(
        "this sidecar does not allow host_id and host_type in a request (host_id.allow_override is false)"
    )]
    OverrideForbidden,
    /// The host type gives no host id.
    #[error("{0}")]
    HostType(String),
    /// The path is not under this sidecar's container.
    #[error("the lock path {} is not in this sidecar's container {container}", Quoted(path))]
    ForeignPath {
        /// The path that was asked for.
        path: String,
        /// The container of this sidecar.
        container: String,
    },
    /// The prefix is not under this sidecar's container.
    #[error("must begin with {own}, where this sidecar's locks are")]
    ForeignPrefix {
        /// Container, slash, and the configured prefix.
        own: String,
    },
    /// As many holds as configured.
    #[error(
        "this sidecar has as many holds, or locks that rest, as it may (limits.holds = {limit})"
    )]
    TooManyHolds {
        /// The limit that is reached.
        limit: usize,
    },
    /// As many resumed holds as configured.
    #[error(
        "this sidecar has as many holds as it may, and {limit} more that were resumed, which is its limit (limits.resumes)"
    )]
    TooManyResumes {
        /// The limit that is reached.
        limit: usize,
    },
    /// As many waiting callers and subscribers of schedules as configured.
    #[error(
        "{limit} callers wait for locks or subscribe to schedules at this sidecar, which is its limit (limits.waiters)"
    )]
    TooManyWaiters {
        /// The limit that is reached.
        limit: usize,
    },
    /// No memory is left for the records of locks that are watched.
    #[error(
        "the locks that are watched at this sidecar fill the memory that is set aside for them (limits.memory): name a \
         narrower prefix, or raise it"
    )]
    TooManyFollowed,
    /// The lease id is not of a hold of this sidecar.
    #[error(
        "no hold of this sidecar has this lease id; it may have ended long ago, or before a restart"
    )]
    UnknownLease,
    /// The hold is over.
    #[error("the hold is lost: {}", .reason.as_str())]
    HoldLost {
        /// Why it was lost.
        reason: LossReason,
    },
    /// The hold was released.
    #[error("the hold was released")]
    HoldReleased,
    /// The layout of paths is one whose locks have no checkpoints (S23).
    #[error(
        "the layout `webjobs` has no checkpoints, because other software that shares its locks drops them"
    )]
    NoCheckpoints {
        /// The field that had one.
        field: &'static str,
    },
    /// The layout of paths is one whose locks have one permit (S28).
    #[error(
        "a lock of the layout `webjobs` has one permit, because other software may have a lock with the name of \
         another permit"
    )]
    NoPermits {
        /// The field that names more.
        field: &'static str,
    },
    /// The hold was over before a save was answered (S27).
    #[error(
        "the hold ended before the store answered: either the earlier checkpoint is stored, or this one"
    )]
    CheckpointUnknown,
    /// Breaking locks is off.
    #[error("breaking locks is not enabled at this sidecar (admin.allow_break is false)")]
    BreakNotEnabled,
    /// The grant that an operator was shown is over, and the lock has another holder (S17).
    #[error("the lock {path} was not broken: {}", other_holder(*named, *now))]
    OtherHolder {
        /// The lock that was to be broken.
        path: LockPath,
        /// The token of the grant that was to be broken, if its record had one.
        named: Option<FencingToken>,
        /// The token of the grant that stands there now, if its record has one.
        now: Option<FencingToken>,
    },
    /// A repeated call took this one's place.
    #[error("a later call with the same request_id, or a resume, has taken the place of this one")]
    Superseded,
    /// The hold was resumed since the grant that the call is about (S16).
    #[error(
        "the hold was resumed after this grant: nothing was saved; save with the generation of the newest grant"
    )]
    ResumedSince,
    /// The resume token is not one of ours.
    #[error("the resume token cannot be read; give it exactly as it was granted")]
    ResumeToken,
    /// What is asked for needs a newer sidecar (S37).
    #[error(
        "this needs a sidecar of revision {needs} or newer, and this one is of revision {revision}: update the sidecar, \
         or ask without what is newer"
    )]
    Needs {
        /// The least revision that serves it.
        needs: u32,
        /// The revision of this sidecar.
        revision: u32,
    },
    /// The page token is not of this listing of this process.
    #[error(
        "the page token is not one that this sidecar gave for this listing: it may be from another sidecar, from before \
         a restart, or of another host_id or prefix; list again from the first page, without a token"
    )]
    PageToken,
    /// Nobody ever subscribed to a schedule on this lock.
    #[error("the lock {path} has no schedule: nobody has subscribed to one yet")]
    NoSuchSchedule {
        /// The lock that was asked for.
        path: LockPath,
    },
    /// An operator has removed the schedule (T25).
    #[error(
        "the schedule of the lock {path} was removed at {at}, because: {reason}; a new subscription, which is no reconnect, \
         begins it anew"
    )]
    ScheduleRemoved {
        /// The lock that was asked for.
        path: LockPath,
        /// When, by the store's clock.
        at: UtcSecond,
        /// Why, as the operator said.
        reason: String,
    },
    /// A schedule with subscribers at this sidecar is removed only by force (T25).
    #[error(
        "the schedule of the lock {path} has {subscribers} subscribers at this sidecar, which would begin it anew when they \
         restart: end them first, or repeat the call with `force`; subscribers at other sidecars are not seen from here"
    )]
    ScheduleHasSubscribers {
        /// The lock of the schedule.
        path: LockPath,
        /// How many subscribe to it.
        subscribers: usize,
    },
    /// A schedule would begin after the store's time (T25).
    #[error(
        "the watermark {at} lies ahead of the store's time, {now}: nothing would run until then"
    )]
    WatermarkAhead {
        /// The watermark that was asked for.
        at: UtcSecond,
        /// The store's time.
        now: UtcSecond,
    },
    /// Changing schedules is off (T18).
    #[error(
        "changing schedules is not enabled at this sidecar (admin.allow_schedule_changes is false)"
    )]
    ScheduleChangesNotEnabled,
    /// As many runs by hand wait as may (T3).
    #[error(
        "{MAX_REQUESTS} runs by hand wait already, which is the limit; try again when one of them is over"
    )]
    TooManyTriggers,
    /// The request id of a run by hand has a form that is not allowed.
    #[error("{0}")]
    TriggerId(String),
    /// The plan or the record of a schedule cannot be read: nothing is run.
    #[error("the schedule of the lock {path} cannot be read: {problem}")]
    ScheduleUnreadable {
        /// The lock of the schedule.
        path: LockPath,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The key is too long for a schedule's record (T3).
    #[error("{0}")]
    ScheduleKey(String),
    /// In the layout `webjobs`, the key is not that of a listener (T22).
    #[error(
        "a schedule of the layout `webjobs` shares its lock with a timer of .NET: give the timer's name as the function, and \
         the mode LISTENER"
    )]
    ScheduleMode,
    /// The occurrence lies ahead by more than the callers' clocks may differ.
    #[error(
        "the occurrence {at} is more than 5 s after the store's time, {now}: check the caller's clock"
    )]
    OccurrenceInFuture {
        /// The occurrence that was named.
        at: UtcSecond,
        /// The store's time.
        now: UtcSecond,
    },
    /// The lock has a schedule: its occurrences are granted to its subscribers.
    #[error(
        "the lock {path} has a schedule, so its occurrences are granted to subscribers only; use another key for occurrences of \
         your own, or omit occurrence_at to hold the lock for maintenance"
    )]
    LockHasSchedule {
        /// The lock that was asked for.
        path: LockPath,
    },
    /// The layout of paths is one whose locks keep no outcomes.
    #[error(
        "the layout `webjobs` keeps no outcomes of occurrences, because other software that shares its locks drops them"
    )]
    NoOccurrences,
    /// The hold was asked for without an occurrence, so there is nothing to report on.
    #[error(
        "the hold was acquired without occurrence_at, so it has no outcome; release it without one"
    )]
    NoOccurrence,
    /// The lock does not exist.
    #[error("the lock {path} does not exist")]
    NoSuchLock {
        /// The lock that was asked for.
        path: LockPath,
    },
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        Self::StoreFailure(store_failure(&error))
    }
}

impl CallError {
    pub(in crate::coordinator) fn failed(
        kind: StoreFailureKind,
        message: impl Into<String>,
    ) -> Self {
        Self::StoreFailure(StoreFailure { kind, message: message.into(), retry_after: None })
    }

    /// The sidecar shuts down (S15).
    pub(crate) fn shutting_down() -> Self {
        Self::StoreFailure(StoreFailure::shutting_down())
    }

    /// The sidecar is replaced, and its holds go on (S15).
    pub(in crate::coordinator) fn handed_over() -> Self {
        let message = "the sidecar is being replaced: the hold goes on, and is to be resumed at the replacement";
        Self::failed(StoreFailureKind::ShuttingDown, message)
    }
}

fn other_holder(named: Option<FencingToken>, now: Option<FencingToken>) -> String {
    let text = |token: Option<FencingToken>| {
        token.map_or_else(|| "without a token".to_owned(), |token| format!("with token {token}"))
    };
    format!(
        "the grant {} is over, and the lock has another holder, {}; look at it again",
        text(named),
        text(now)
    )
}
