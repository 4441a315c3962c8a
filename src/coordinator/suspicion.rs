//! Pauses that the boot clock may not have counted: every hold is renewed, and the answers decide (S3).

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Shared;
use super::observe::{LockEvent, LockEventKind, RenewalFailure};
use super::task::{Command, Task};
use crate::time::Instant;

impl Shared {
    /// How many pauses have come under suspicion so far, by a look at the clocks beside ours. One that is new
    /// is told to the tasks of all locks at once, so that every hold is renewed (S3).
    pub(super) fn look_for_pauses(&self) -> u64 {
        let suspected = self.clock.suspected_pauses();
        if self.suspected.fetch_max(suspected, Ordering::Relaxed) < suspected {
            self.observe(&LockEvent::of_sidecar(LockEventKind::PauseSuspected));
            self.registry().send_to_all(|| Command::TimePassed(Instant::default()));
        }
        suspected
    }
}

impl Task {
    /// What a renewal says of a pause that is suspected (S3).
    pub(super) fn weigh_suspicion(
        &self,
        failure: Option<RenewalFailure>,
        latency: Option<Duration>,
    ) {
        let clock = &self.shared.clock;
        let now = clock.now();
        match (failure, latency) {
            (None, Some(latency)) => {
                let sent = now.saturating_sub(latency);
                let source = clock.suspicions().refute(sent, now);
                if let Some(source) = source {
                    let kind = LockEventKind::ClockNotHeard { source };
                    self.shared.observe(&LockEvent::of_sidecar(kind));
                }
            }
            (Some(RenewalFailure::Taken | RenewalFailure::Deleted), _) => {
                clock.suspicions().confirm(now);
            }
            (
                Some(
                    RenewalFailure::Broken
                    | RenewalFailure::Contended
                    | RenewalFailure::Changed
                    | RenewalFailure::Failed(_),
                )
                | None,
                _,
            ) => {}
        }
    }
}
