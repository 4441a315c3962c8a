//! What a stream of a hold tells its caller.

use std::time::Duration;

use super::error::CallError;
use super::request::{BusyAnswer, Extended, Grant, LockRecord, Outcome, Released, Validity};
use crate::coordinator::unread::Telling;
use crate::hold::{LossReason, StoreFailureKind};
use crate::schedule::Ended;
use crate::store::BreakNote;
use crate::timetable::UtcSecond;

/// What happens to a hold between its grant and its end, by the stream of its holder or of its schedule.
#[derive(Clone, Debug)]
pub enum HeldEvent {
    /// The validity has a new end.
    Renewed(Validity),
    /// The bounds of the hold have changed (S11).
    Extended(Extended),
    /// Renewals fail (S9).
    AtRisk {
        /// When the hold will be lost.
        validity: Validity,
        /// What kind of failure renewals meet.
        kind: StoreFailureKind,
        /// The same for people.
        detail: String,
    },
    /// Renewals work again (S9).
    Recovered(Validity),
    /// The lease was broken and runs out: the holder has until then to finish (S22).
    Revoked {
        /// The validity that it has; its end is the deadline.
        validity: Validity,
        /// Who broke the lock and why.
        break_note: Option<BreakNote>,
    },
    /// The sidecar shuts down; the hold ends after this time at the latest (S15).
    Draining {
        /// The time left.
        time_left: Duration,
    },
    /// The hold is over though the holder did not end it: nothing comes after it (S4).
    Lost {
        /// Why the hold is over.
        reason: LossReason,
        /// More for people.
        detail: String,
        /// Who broke the lock and why, where that is known; with [`LossReason::Broken`] only (S17).
        break_note: Option<BreakNote>,
    },
}

/// What happens to a hold by stream, in order.
#[derive(Clone, Debug)]
pub enum HoldEvent {
    /// The caller is in the queue.
    Waiting {
        /// One for the next to be served here.
        place: usize,
        /// Who holds the lock, as far as is known.
        record: Box<LockRecord>,
    },
    /// The caller holds the lock.
    Granted(Box<Grant>),
    /// The wait is over and somebody else holds the lock: the last event.
    Busy(Box<BusyAnswer>),
    /// Nobody is granted the lock: what the caller brought has said so under the lease, which has gone back
    /// (T6). The last event.
    Settled {
        /// Whether something was written; else there was nothing to write.
        written: bool,
    },
    /// The occurrence that the caller has named has a final outcome: the last event.
    AlreadyDone(Ended),
    /// The occurrence that the caller has named is older than one that has a final outcome, and nothing was
    /// recorded for it: the last event.
    Skipped {
        /// The newest occurrence that is final.
        watermark: UtcSecond,
    },
    /// Something happened to the hold.
    Held(HeldEvent),
    /// The hold was released by a call: the last event.
    Released(Released),
    /// The caller could not be served: the last event.
    Failed(CallError),
}

impl HoldEvent {
    /// Whether nothing comes after it.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        match self {
            Self::Busy(_)
            | Self::Settled { .. }
            | Self::AlreadyDone(_)
            | Self::Skipped { .. }
            | Self::Held(HeldEvent::Lost { .. })
            | Self::Released(_)
            | Self::Failed(_) => true,
            Self::Waiting { .. } | Self::Granted(_) | Self::Held(_) => false,
        }
    }
}

impl From<Result<Outcome, CallError>> for HoldEvent {
    fn from(answer: Result<Outcome, CallError>) -> Self {
        match answer {
            Ok(Outcome::Granted(grant)) => Self::Granted(grant),
            Ok(Outcome::Busy(busy)) => Self::Busy(busy),
            Ok(Outcome::Settled { written }) => Self::Settled { written },
            Ok(Outcome::AlreadyDone(ended)) => Self::AlreadyDone(ended),
            Ok(Outcome::Skipped { watermark }) => Self::Skipped { watermark },
            Err(error) => Self::Failed(error),
        }
    }
}

impl HeldEvent {
    /// Whether both are of one kind.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Telling for HoldEvent {
    /// Each kind says what is true now: a reader that is late needs the newest only.
    fn supersedes(&self, unread: &Self) -> bool {
        match (self, unread) {
            (Self::Held(event), Self::Held(unread)) => event.is_alike(unread),
            _ => std::mem::discriminant(self) == std::mem::discriminant(unread),
        }
    }

    fn is_last(&self) -> bool {
        Self::is_last(self)
    }
}
