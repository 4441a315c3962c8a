//! What the store's answers mean to a machine, and the note of a break that a machine asks for. Pure: worlds
//! that drive machines over a store of their own understand it by the very same.

use crate::hold::{Failure, LeaseGranted, NoteSeen, Rival, StoreFailure, StoreFailureKind, Stored};
use crate::store::{Acquired, BreakNote, BreakPeriod, LeaseEnd, StoreError, StoredLock};

/// A lease that was acquired.
#[must_use]
pub fn granted(acquired: Acquired) -> LeaseGranted {
    LeaseGranted { etag: acquired.etag, time: acquired.time, created: acquired.created }
}

/// A record that was read.
#[must_use]
pub fn stored(lock: StoredLock) -> Stored {
    let free = !lock.lease.is_held();
    Stored { etag: lock.etag, fields: lock.fields, free, time: lock.time }
}

/// The note of a break, as far as the machine cares.
#[must_use]
pub fn seen(note: &BreakNote) -> NoteSeen {
    NoteSeen {
        token: note.token,
        runs_out: note.period == BreakPeriod::RunOut,
        for_priority: note.for_priority.map(|priority| (priority, note.at)),
    }
}

/// The note of a break for a caller that waits here (S33, S35).
#[must_use]
pub fn note_of(rival: Rival) -> BreakNote {
    let Rival { token, priority, holder, moves, at } = rival;
    let reason = match moves {
        true => "its sidecar has most of the share, and another has least".to_owned(),
        false => format!("a caller of priority {priority} waits, and the holder yields"),
    };
    let (period, for_priority) = (BreakPeriod::RunOut, Some(priority));
    BreakNote { period, reason, by: holder, token, at, for_priority }
}

/// What a store's error means to the machine (S8).
#[must_use]
pub fn failure(error: &StoreError) -> Failure {
    match error {
        StoreError::Contended => Failure::Contended,
        StoreError::LeaseLost { how: LeaseEnd::Taken } | StoreError::NotHeld => Failure::Taken,
        StoreError::LeaseLost { how: LeaseEnd::Broken } => Failure::Broken,
        StoreError::Changed => Failure::Changed,
        StoreError::NotFound => Failure::Deleted,
        StoreError::ContainerMissing { .. } => Failure::Refused(store_failure(error)),
        StoreError::Throttled { sent: false, .. }
        | StoreError::Unavailable { sent: false, .. }
        | StoreError::NoDescriptors { .. }
        | StoreError::Recreated { .. } => Failure::NotDone(store_failure(error)),
        StoreError::Throttled { sent: true, .. } | StoreError::Unavailable { sent: true, .. } => {
            Failure::Unknown(store_failure(error))
        }
        StoreError::Denied { .. } | StoreError::Full { .. } | StoreError::Fatal { .. } => {
            Failure::Refused(store_failure(error))
        }
    }
}

/// What a store's error is to callers.
pub(in crate::coordinator) fn store_failure(error: &StoreError) -> StoreFailure {
    let (kind, retry_after) = match error {
        StoreError::Throttled { retry_after, .. } => (StoreFailureKind::Throttled, *retry_after),
        StoreError::Denied { .. } => (StoreFailureKind::Denied, None),
        StoreError::Full { .. } => (StoreFailureKind::Full, None),
        StoreError::ContainerMissing { .. } => (StoreFailureKind::ContainerMissing, None),
        StoreError::Unavailable { .. } | StoreError::NoDescriptors { .. } => {
            (StoreFailureKind::Unavailable, None)
        }
        StoreError::Recreated { retry_after, .. } => {
            (StoreFailureKind::Unavailable, Some(*retry_after))
        }
        StoreError::Fatal { .. }
        | StoreError::Contended
        | StoreError::LeaseLost { .. }
        | StoreError::Changed
        | StoreError::NotFound
        | StoreError::NotHeld => (StoreFailureKind::StoreFailed, None),
    };
    StoreFailure { kind, message: error.chain(), retry_after }
}
