//! What went wrong in a store, said as what the caller can do about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The cause of a [`StoreError`]: what happened, in the backend's words, without secrets (S20).
pub type Source = Box<dyn Error + Send + Sync>;

/// What a store answers when it does not do what was asked. Each variant says what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The lock is leased under another id. An answer, not a fault: try later (S12).
    #[error("the lock is leased by another")]
    Contended,
    /// The lease id given does not hold the lock, or no longer. Definitive: not retried (S8).
    #[error("the lease is lost: {how}")]
    LeaseLost {
        /// What became of it, as far as the store tells.
        how: LeaseEnd,
    },
    /// The record is not the one whose ETag was given: read it again (S5, S6).
    #[error("the lock's record has changed since it was read")]
    Changed,
    /// The lock does not exist, or no longer (S8). An acquire makes it instead of answering this.
    #[error("the lock does not exist")]
    NotFound,
    /// A break found no lease to break.
    #[error("the lock is not leased")]
    NotHeld,
    /// The container does not exist and may not be made by this sidecar (S18). Not retried by an acquire.
    #[error("the container {container:?} does not exist: {advice}")]
    ContainerMissing {
        /// The name of the container.
        container: String,
        /// What the operator can do.
        advice: String,
    },
    /// The container or file was deleted and created again: leases died with it, whose holders may believe
    /// for as long as a lease lasts. Nothing was asked of the store; an acquire is retried after the delay
    /// (S18).
    #[error(
        "the {what} was deleted and created again, and its leases with it: no lock is granted there for another {}",
        whole_seconds(*retry_after)
    )]
    Recreated {
        /// What was made again: a container or a file, with its name.
        what: String,
        /// When to come again.
        retry_after: Duration,
    },
    /// The store refuses the credentials. Refreshed and retried for a hold (S8), told to a caller that
    /// acquires.
    #[error("the store refuses to {operation} with these credentials: {advice}")]
    Denied {
        /// The operation that was refused, as a verb with its object.
        operation: &'static str,
        /// The role or right that is needed.
        advice: String,
        /// What the store said.
        #[source]
        source: Source,
    },
    /// The store asks for patience: whether the operation was done is unknown unless `sent` is false.
    /// Retried, after the delay if one was given (S8).
    #[error("the store is throttling requests")]
    Throttled {
        /// False when the request certainly never left.
        sent: bool,
        /// When to come again, if the store said so.
        retry_after: Option<Duration>,
        /// What the store said.
        #[source]
        source: Source,
    },
    /// The store has as many locks as it may: there is no place for another. Those that are there are not
    /// concerned.
    #[error(
        "the store has {limit} locks and schedules, which is the limit (store.embedded.max_locks): raise it, or delete \
         locks that are not used any more (leasehold gc)"
    )]
    Full {
        /// The limit that is reached.
        limit: u64,
    },
    /// The store could not be reached or did not answer in time: whether the operation was done is unknown
    /// unless `sent` is false. Retried (S6, S8, S18).
    #[error("the store is unavailable")]
    Unavailable {
        /// False when the request certainly never left.
        sent: bool,
        /// What the store, or the way to it, has said.
        #[source]
        source: Source,
    },
    /// This process or its machine has no file descriptor left, and this needed one: it was not asked of the
    /// store. Retried (S8, S18).
    #[error("no file descriptor is left to {operation}: {advice}")]
    NoDescriptors {
        /// What needed one, as a verb with its object.
        operation: String,
        /// What the operator can do.
        advice: &'static str,
        /// What the store, or the way to it, has said.
        #[source]
        source: Source,
    },
    /// Trying again will not help: the store is misconfigured, damaged or full, or answers what no store of
    /// this kind may.
    #[error("the store has failed: {advice}")]
    Fatal {
        /// What the operator can do.
        advice: String,
        /// What the store, or the way to it, has said.
        #[source]
        source: Source,
    },
}

/// As people read it, rounded up.
fn whole_seconds(span: Duration) -> humantime::FormattedDuration {
    let up = u64::from(span.subsec_nanos() > 0);
    humantime::format_duration(Duration::from_secs(span.as_secs().saturating_add(up)))
}

/// What became of a lease that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEnd {
    /// The lock is leased by another, or by nobody, or was written since this lease ran out.
    Taken,
    /// The lease was broken.
    Broken,
}

impl fmt::Display for LeaseEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Taken => "another caller holds the lock or has held it since",
            Self::Broken => "it was broken",
        })
    }
}

impl StoreError {
    /// Every name that [`StoreError::kind`] gives.
    pub const KINDS: [&'static str; 13] = [
        "contended",
        "lease_lost",
        "changed",
        "not_found",
        "not_held",
        "container_missing",
        "recreated",
        "denied",
        "throttled",
        "full",
        "unavailable",
        "no_descriptors",
        "fatal",
    ];

    /// A stable name of the kind, for metrics and logs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Contended => "contended",
            Self::LeaseLost { .. } => "lease_lost",
            Self::Changed => "changed",
            Self::NotFound => "not_found",
            Self::NotHeld => "not_held",
            Self::ContainerMissing { .. } => "container_missing",
            Self::Recreated { .. } => "recreated",
            Self::Denied { .. } => "denied",
            Self::Throttled { .. } => "throttled",
            Self::Full { .. } => "full",
            Self::Unavailable { .. } => "unavailable",
            Self::NoDescriptors { .. } => "no_descriptors",
            Self::Fatal { .. } => "fatal",
        }
    }

    /// Whether what was asked was certainly not done, and will not be.
    pub(crate) const fn is_surely_not_done(&self) -> bool {
        !matches!(self, Self::Unavailable { sent: true, .. } | Self::Throttled { sent: true, .. })
    }

    /// The error and its causes in one line, outermost first.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
