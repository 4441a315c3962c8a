//! The bounds that a caller sets to its hold: `max_hold`, `min_hold`, `progress_timeout` (S11).

use std::time::Duration;

use super::action::LossReason;
use super::event::{StoreBounds, Terms};
use crate::time::{Instant, UnixMillis};

/// When a hold must be over, and when it may be.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    max_hold_ends: Option<Instant>,
    min_hold_ends: Instant,
    /// Few holds are watched so.
    progress: Option<Box<Progress>>,
}

#[derive(Clone, Debug)]
struct Progress {
    timeout: Duration,
    ends: Instant,
}

impl Bounds {
    /// Those of `terms`, but for `max_hold`.
    pub(super) fn new(terms: &Terms, max_hold: Option<Duration>, now: Instant) -> Self {
        Self {
            max_hold_ends: max_hold.map(|span| now + span),
            min_hold_ends: now + terms.min_hold,
            progress: terms
                .progress_timeout
                .map(|timeout| Box::new(Progress { timeout, ends: now + timeout })),
        }
    }

    /// Takes the bounds from the store's clock, which shows `time` now, where they end earlier by that (S3,
    /// S11).
    pub(super) fn cut(&mut self, bounds: StoreBounds, time: UnixMillis, now: Instant) {
        let ends = |at: UnixMillis| now + at.saturating_since(time);
        if let Some(at) = bounds.max_hold_ends {
            let ends = ends(at);
            self.max_hold_ends = Some(self.max_hold_ends.map_or(ends, |most| most.min(ends)));
        }
        self.min_hold_ends = self.min_hold_ends.min(ends(bounds.min_hold_ends));
    }

    /// `valid_until`, but not past a bound: so the lock is free the moment the bound passes.
    pub(super) fn limit(&self, valid_until: Instant) -> Instant {
        let ends = [self.max_hold_ends, self.progress.as_ref().map(|progress| progress.ends)];
        ends.into_iter().flatten().fold(valid_until, Instant::min)
    }

    /// The bound that has passed, if one has.
    pub(super) fn passed(&self, now: Instant) -> Option<LossReason> {
        if self.max_hold_ends.is_some_and(|ends| now >= ends) {
            Some(LossReason::MaxHoldReached)
        } else if self.progress.as_ref().is_some_and(|progress| now >= progress.ends) {
            Some(LossReason::NoProgress)
        } else {
            None
        }
    }

    pub(super) fn extend(&mut self, max_hold: Duration, now: Instant) -> Instant {
        *self.max_hold_ends.insert(now + max_hold)
    }

    pub(super) fn report_progress(&mut self, now: Instant) {
        if let Some(progress) = &mut self.progress {
            progress.ends = now + progress.timeout;
        }
    }

    /// Until when a release keeps the lock from everyone.
    pub(super) const fn min_hold_ends(&self) -> Instant {
        self.min_hold_ends
    }

    /// When the hold ends at the latest, if it has such a bound.
    pub(super) const fn max_hold_ends(&self) -> Option<Instant> {
        self.max_hold_ends
    }

    /// When the hold ends without a report of progress, if that is watched.
    pub(super) fn progress_due(&self) -> Option<Instant> {
        self.progress.as_ref().map(|progress| progress.ends)
    }

    /// Until when a release keeps the lock from everyone; none if the hold has lasted long enough.
    pub(super) fn rests_until(&self, now: Instant) -> Option<Instant> {
        (now < self.min_hold_ends).then_some(self.min_hold_ends)
    }
}
