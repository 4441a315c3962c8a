//! Breaks of the lock that are on their way from this sidecar (S17).
//!
//! A break goes by the record that was looked at. That stays as it is while the lock is handed on without the store (S10), and until
//! the token of the next grant is written: a break that comes late would meet the lease of whoever has the lock by then. So nothing
//! is handed on while one is under way, nor before a renewal has shown that none has met the lease; and a lease under which a
//! token was written meanwhile is proved before anything is granted under it.

use super::Hold;
use super::overruling::Overruling;
use crate::time::Instant;

/// The breaks by operators through this sidecar, and any that is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Breaks {
    under_way: u32,
    /// When the last one was over, whatever became of it.
    over_at: Option<Instant>,
}

impl Breaks {
    /// Whether nothing is to be remembered of any.
    pub(super) const fn is_none(&self) -> bool {
        self.under_way == 0 && self.over_at.is_none()
    }
}

impl Hold {
    /// An operator begins to break the lock through this sidecar.
    pub(super) fn break_begun(&mut self) {
        let breaks = &mut self.seldom.get_or_insert_default().breaks;
        breaks.under_way = breaks.under_way.saturating_add(1);
    }

    /// That break is over.
    pub(super) fn break_over(&mut self, now: Instant) {
        let breaks = &mut self.seldom.get_or_insert_default().breaks;
        breaks.under_way = breaks.under_way.saturating_sub(1);
        self.break_may_have_met(now);
    }

    /// A break from here is over, and may have been done by now.
    pub(super) fn break_may_have_met(&mut self, now: Instant) {
        self.seldom.get_or_insert_default().breaks.over_at = Some(now);
    }

    /// Whether an operator's break is under way.
    pub(super) fn is_being_broken(&self) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.breaks.under_way > 0)
    }

    /// Whether a break from here may have met the lease that was acquired or renewed by a request of `sent`, or may yet.
    pub(super) fn may_be_broken_since(&self, sent: Instant) -> bool {
        let over_at = self.seldom.as_ref().and_then(|seldom| seldom.breaks.over_at);
        self.is_being_broken()
            || self.overruling().is_some_and(Overruling::is_breaking)
            || over_at.is_some_and(|at| sent <= at)
    }
}
