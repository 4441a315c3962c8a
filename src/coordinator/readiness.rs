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
        /// When that began, whatever the cause was then.
        since: Instant,
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
        let cause = match error {
            Some(
                StoreError::Unavailable { .. }
                | StoreError::Denied { .. }
                | StoreError::Fatal { .. }
                | StoreError::ContainerMissing { .. },
            ) => error.map(StoreError::chain),
            // A store that answers is there, whatever it answers; one that throttles works.
            Some(
                StoreError::Contended
                | StoreError::LeaseLost { .. }
                | StoreError::Changed
                | StoreError::NotFound
                | StoreError::NotHeld
                | StoreError::Recreated { .. }
                | StoreError::Throttled { .. },
            )
            | None => None,
        };
        self.status.send_if_modified(|current| {
            let status = match (cause, &*current) {
                (None, _) => StoreStatus::Ready,
                (Some(cause), &StoreStatus::NotReady { since, .. }) => {
                    StoreStatus::NotReady { cause, since }
                }
                (Some(cause), StoreStatus::Unknown | StoreStatus::Ready) => {
                    StoreStatus::NotReady { cause, since: now }
                }
            };
            let modified = *current != status;
            if modified {
                log_change(current, &status, now);
                *current = status;
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

/// One line when the store goes and one when it comes back, however many requests fail between.
fn log_change(old: &StoreStatus, new: &StoreStatus, now: Instant) {
    match (old, new) {
        (StoreStatus::Unknown | StoreStatus::Ready, StoreStatus::NotReady { cause, .. }) => {
            tracing::warn!(%cause, "the store cannot be used");
        }
        (StoreStatus::NotReady { since, .. }, StoreStatus::Ready) => {
            let seconds = now.saturating_since(*since).as_secs();
            tracing::info!(seconds, "the store can be used again");
        }
        (StoreStatus::NotReady { .. }, StoreStatus::NotReady { .. } | StoreStatus::Unknown)
        | (StoreStatus::Unknown | StoreStatus::Ready, StoreStatus::Unknown | StoreStatus::Ready) => {
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(cause: &str) -> StoreError {
        StoreError::Unavailable { sent: false, source: cause.into() }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn s18_an_outage_keeps_its_beginning_while_its_cause_changes() {
        let readiness = Readiness::default();
        let status = readiness.subscribe();
        for (seconds, cause) in [(10, "refused"), (15, "reset"), (20, "reset")] {
            readiness.note(Some(&unavailable(cause)), at(seconds));
            let cause = unavailable(cause).chain();
            assert_eq!(*status.borrow(), StoreStatus::NotReady { cause, since: at(10) });
        }
        readiness.note(None, at(30));
        assert_eq!(*status.borrow(), StoreStatus::Ready);
        readiness.note(Some(&unavailable("refused")), at(40));
        let since = match &*status.borrow() {
            StoreStatus::NotReady { since, .. } => Some(*since),
            StoreStatus::Unknown | StoreStatus::Ready => None,
        };
        assert_eq!(since, Some(at(40)));
    }
}
