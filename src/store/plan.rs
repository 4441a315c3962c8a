//! The plan of a schedule, as a store keeps it: a text of its own beside the lock (T3).

use super::{ETag, StoreError, StoreTime};
use crate::lock::{LockPath, MAX_PLAN_BYTES};

/// A plan as the store has it. Its text is the schedule's own matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPlan {
    /// The plan's own ETag: nothing that is done to the lock changes it.
    pub etag: ETag,
    /// What was written, byte for byte.
    pub text: String,
}

/// The answer to reading a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRead {
    /// The plan; `None` if there is none, or not even its container.
    pub plan: Option<StoredPlan>,
    /// The store's clock.
    pub time: StoreTime,
}

/// A plan was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanWritten {
    /// Its new ETag.
    pub etag: ETag,
    /// The store's clock.
    pub time: StoreTime,
}

/// A page of the locks that have a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanListing {
    /// The locks, in the order of their names.
    pub paths: Vec<LockPath>,
    /// Where the next page begins; `None` at the end.
    pub continuation: Option<String>,
}

/// Refuses a text that is longer than any plan may be. Every store asks this first, so that all have the same
/// limit.
pub(super) fn check_plan(text: &str) -> Result<(), StoreError> {
    if text.len() <= MAX_PLAN_BYTES {
        return Ok(());
    }
    Err(StoreError::Fatal {
        advice: "shorten the schedule's plan: fewer or shorter settings, or fewer requests for runs by hand".to_owned(),
        source: too_long().into(),
    })
}

/// What is wrong with a text that is no plan for its length.
pub(super) fn too_long() -> String {
    format!("the schedule's plan is longer than {MAX_PLAN_BYTES} bytes")
}
