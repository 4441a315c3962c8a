//! What the machine reports to the operator: log lines and observations.

use std::time::Duration;

use super::observe::{Observation, RenewalFailure};
use super::task::Task;
use crate::hold::{Failure, StoreFailure};
use crate::lock::{FencingToken, LockPath, Priority};

impl Task {
    pub(super) fn report_collision(&self, path: &LockPath, stored: &str, ours: &str) {
        self.shared.observer.observe(&Observation::HostTypeCollision);
        if self.shared.registry().is_new_collision(path) {
            tracing::warn!(
                lock = %path, stored_host_type = stored, our_host_type = ours,
                "two host types share this lock path: give them different host ids, if they are not to exclude each other"
            );
        }
    }

    pub(super) fn report_token(
        &self,
        path: &LockPath,
        seen: FencingToken,
        next: Option<FencingToken>,
    ) {
        let next = next.map(FencingToken::value);
        tracing::error!(lock = %path, seen = seen.value(), next, "fencing token would not grow: no grant");
        self.shared.observer.observe(&Observation::TokenNotGrowing);
    }

    pub(super) fn report_renewal(
        &self,
        path: &LockPath,
        latency: Option<Duration>,
        lateness: Duration,
        failure: Option<&Failure>,
    ) {
        let failure = failure.map(RenewalFailure::from);
        if let Some(cause) = failure {
            tracing::debug!(lock = %path, cause = cause.as_str(), "renewal failed");
        }
        self.weigh_suspicion(failure, latency);
        self.shared.observer.observe(&Observation::Renewal { failure, latency, lateness });
    }

    /// S33: the store refuses to break leases.
    pub(super) fn report_cannot_break(&self, path: &LockPath, failure: &StoreFailure) {
        tracing::warn!(
            lock = %path, cause = %failure.message,
            "the store refuses to break leases: callers of greater priority wait until the lock is released"
        );
    }

    /// S33, S35: the lock was broken for a caller that waits here.
    pub(super) fn report_overruled(&self, path: &LockPath, priority: Priority, moves: bool) {
        tracing::info!(lock = %path, %priority, moves, "lock broken for a waiting caller");
        if moves {
            self.note_move();
        }
        self.shared.observer.observe(&Observation::Overruled { moves });
    }
}
