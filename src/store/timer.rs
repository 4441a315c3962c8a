//! The status of a .NET timer, as a store keeps it: a text that hosts of .NET write too (T22).

use super::{ETag, StoreError, StoreTime};
use crate::lock::MAX_TIMER_STATUS_BYTES;

/// A timer's status as the store has it. Its text is the schedule's own matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTimer {
    /// The ETag of the status.
    pub etag: ETag,
    /// What was written, byte for byte; of one that is too long, no more than tells that it is.
    pub text: String,
}

/// The answer to reading a timer's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerRead {
    /// The status; `None` if there is none, or not even its container.
    pub status: Option<StoredTimer>,
    /// The store's clock.
    pub time: StoreTime,
}

/// A timer's status was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerWritten {
    /// Its new ETag.
    pub etag: ETag,
    /// The store's clock.
    pub time: StoreTime,
}

/// What a store answers that no .NET host can share.
pub(super) fn no_timers() -> StoreError {
    StoreError::Fatal {
        advice: "use a storage account (--store azure), or another layout of paths (paths.layout)"
            .to_owned(),
        source: "no host of .NET can share this store, so it has no status of a timer".into(),
    }
}

/// Refuses a text that is longer than any status may be.
pub(super) fn check_status(text: &str) -> Result<(), StoreError> {
    if text.len() <= MAX_TIMER_STATUS_BYTES {
        return Ok(());
    }
    Err(StoreError::Fatal {
        advice: "make the timer's status shorter: remove fields that are not its own".to_owned(),
        source: format!("the timer's status is longer than {MAX_TIMER_STATUS_BYTES} bytes").into(),
    })
}
