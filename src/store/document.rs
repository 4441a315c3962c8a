//! The documents beside the locks: texts that need no lease to be written, each with an ETag of its own.

use std::fmt;

use super::{ETag, StoreError, StoreTime};
use crate::lock::{LockPath, MAX_PLAN_BYTES, MAX_TIMER_STATUS_BYTES, TimerPath};

/// Names a document. Its text is the schedule's own matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentPath {
    /// The plan of the schedule on this lock (T3). The lock need not be there.
    Plan(LockPath),
    /// The status of this .NET timer, which hosts of .NET write too (T22). It belongs to no lock as far as a
    /// store knows.
    TimerStatus(TimerPath),
}

impl DocumentPath {
    /// What kind of document it is.
    #[must_use]
    pub const fn kind(&self) -> DocumentKind {
        match self {
            Self::Plan(_) => DocumentKind::Plan,
            Self::TimerStatus(_) => DocumentKind::TimerStatus,
        }
    }

    /// The container that it is in.
    pub(super) fn container(&self) -> &str {
        match self {
            Self::Plan(path) => path.container(),
            Self::TimerStatus(timer) => timer.container.as_str(),
        }
    }
}

/// The kinds of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    /// [`DocumentPath::Plan`]
    Plan,
    /// [`DocumentPath::TimerStatus`]
    TimerStatus,
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plan => "the schedule's plan",
            Self::TimerStatus => "the timer's status",
        })
    }
}

impl DocumentKind {
    /// The longest text that may be written.
    #[must_use]
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::Plan => MAX_PLAN_BYTES,
            Self::TimerStatus => MAX_TIMER_STATUS_BYTES,
        }
    }

    /// Refuses a text that is too long. Every store asks this first, so that all have the same limit.
    pub(super) fn check(self, text: &str) -> Result<(), StoreError> {
        if text.len() <= self.max_bytes() {
            return Ok(());
        }
        let advice = match self {
            Self::Plan => {
                "shorten the schedule's plan: fewer or shorter settings, or fewer requests for runs by hand"
            }
            Self::TimerStatus => {
                "make the timer's status shorter: remove fields that are not its own"
            }
        };
        Err(StoreError::Fatal { advice: advice.to_owned(), source: self.too_long().into() })
    }

    /// What is wrong with a text that is none of this kind for its length.
    pub(super) fn too_long(self) -> String {
        format!("{self} is longer than {} bytes", self.max_bytes())
    }
}

/// A document as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// The document's own ETag: nothing that is done to a lock changes it.
    pub etag: ETag,
    /// What was written, byte for byte; of a timer's status that is too long, no more than tells that it is.
    pub text: String,
}

/// The answer to reading a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRead {
    /// The document; `None` if there is none, or not even its container.
    pub document: Option<StoredDocument>,
    /// The store's clock.
    pub time: StoreTime,
}

/// A document was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentWritten {
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

/// What a store answers that no .NET host can share.
pub(super) fn no_timers() -> StoreError {
    StoreError::Fatal {
        advice: "use a storage account (--store azure), or another layout of paths (paths.layout)"
            .to_owned(),
        source: "no host of .NET can share this store, so it has no status of a timer".into(),
    }
}
