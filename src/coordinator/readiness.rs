//! Whether the store can be used, by the evidence of real requests, and by a check where there are none (S18).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::store::StoreError;
use crate::time::Instant;

/// Evidence younger than this makes a check unnecessary.
pub(super) const FRESH: Duration = Duration::from_secs(30);

/// What is known of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreStatus {
    /// Nothing was asked of it yet.
    Unknown,
    /// It answers.
    Ready,
    /// It does not answer, or does not let us in.
    NotReady {
        /// Why, for people.
        cause: String,
    },
}

#[derive(Debug)]
pub(super) struct Readiness {
    status: watch::Sender<StoreStatus>,
    noted_at: Mutex<Option<Instant>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { status: watch::Sender::new(StoreStatus::Unknown), noted_at: Mutex::new(None) }
    }
}

impl Readiness {
    /// A request ended like this.
    pub(super) fn note(&self, error: Option<&StoreError>, now: Instant) {
        *self.noted_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        let status = match error {
            Some(
                StoreError::Unavailable { .. }
                | StoreError::Denied { .. }
                | StoreError::Fatal { .. }
                | StoreError::ContainerMissing { .. },
            ) => {
                let cause = error.map(StoreError::chain).unwrap_or_default();
                StoreStatus::NotReady { cause }
            }
            // A store that answers is there, whatever it answers; one that throttles works.
            Some(
                StoreError::Contended
                | StoreError::LeaseLost { .. }
                | StoreError::Changed
                | StoreError::NotFound
                | StoreError::NotHeld
                | StoreError::Throttled { .. },
            )
            | None => StoreStatus::Ready,
        };
        self.status.send_if_modified(|current| {
            let modified = *current != status;
            if modified {
                current.clone_from(&status);
            }
            modified
        });
    }

    /// Whether the last check says nothing about now.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        let noted_at = *self.noted_at.lock().unwrap_or_else(PoisonError::into_inner);
        let old = noted_at.is_none_or(|at| now.saturating_since(at) >= FRESH);
        old || *self.status.borrow() != StoreStatus::Ready
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<StoreStatus> {
        self.status.subscribe()
    }
}
