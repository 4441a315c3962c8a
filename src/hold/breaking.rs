//! Breaks of the lock that are on their way from this sidecar (S17).
//!
//! A break goes by the record that was looked at. That stays as it is while the lock is handed on without the
//! store (S10), and until the token of the next grant is written: a break that comes late would meet the
//! lease of whoever has the lock by then. So nothing is handed on while one is under way, nor before a
//! renewal has shown that none has met the lease; and a lease under which a token was written meanwhile is
//! proved before anything is granted under it. A break whose outcome is not known may still be on its way
//! after its sidecar has given it up. It fits no version that was written by a request sent since, so until
//! then it counts as under way: a renewal proves nothing. What this machine has given up and its driver has
//! not answered goes on with it, by newer versions of the record too (S33).

use super::event::RequestId;
use super::overruling::Overruling;
use super::{Hold, Memory};
use crate::time::Instant;

/// The breaks through this sidecar, and any that is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Breaks {
    under_way: u32,
    /// Those for waiting callers that were given up here, and are not answered yet.
    unanswered: u32,
    /// When the last one was over, whatever became of it.
    over_at: Option<Instant>,
    /// The last request that was sent before one was given up that may yet arrive. None once the record was
    /// written since.
    late: Option<RequestId>,
}

impl Breaks {
    /// What is known of them at a lock of which this is remembered.
    pub(super) fn of(memory: &mut Memory) -> Self {
        let late = std::mem::take(&mut memory.may_break_arrive).then_some(RequestId(0));
        Self { late, ..Self::default() }
    }

    /// Whether nothing is to be remembered of any.
    pub(super) const fn is_none(&self) -> bool {
        let Self { under_way, unanswered, over_at, late } = self;
        *under_way == 0 && *unanswered == 0 && over_at.is_none() && late.is_none()
    }

    /// Whether one that was given up may yet arrive.
    pub(super) const fn may_arrive(&self) -> bool {
        self.unanswered > 0 || self.late.is_some()
    }
}

impl Hold {
    /// An operator begins to break the lock through this sidecar.
    pub(super) fn break_begun(&mut self) {
        let breaks = &mut self.seldom.get_or_insert_default().breaks;
        breaks.under_way = breaks.under_way.saturating_add(1);
    }

    /// That break is over here; `may_arrive`: though its outcome is not known.
    pub(super) fn break_over(&mut self, may_arrive: bool, now: Instant) {
        let breaks = &mut self.seldom.get_or_insert_default().breaks;
        breaks.under_way = breaks.under_way.saturating_sub(1);
        self.break_ended(may_arrive, now);
    }

    /// A break from here has ended, and may have been done by now; `may_arrive`: or may be done yet.
    pub(super) fn break_ended(&mut self, may_arrive: bool, now: Instant) {
        let last = RequestId(self.requests);
        let breaks = &mut self.seldom.get_or_insert_default().breaks;
        breaks.over_at = Some(now);
        if may_arrive {
            breaks.late = Some(last);
        }
    }

    /// A break for a waiting caller was not answered in its time. Who sends it may be at it for longer: a
    /// timer of the runtime stands still while the computer sleeps.
    pub(super) fn break_unanswered(&mut self) {
        let breaks = &mut self.seldom.get_or_insert_default().breaks;
        breaks.unanswered = breaks.unanswered.saturating_add(1);
    }

    /// That break was answered after all; `may_arrive`: so that its outcome is not known.
    pub(super) fn break_answered_late(&mut self, may_arrive: bool, now: Instant) {
        let breaks = &mut self.seldom.get_or_insert_default().breaks;
        breaks.unanswered = breaks.unanswered.saturating_sub(1);
        self.break_ended(may_arrive, now);
    }

    /// The record was written by this request: what was given up before it was sent comes too late from now
    /// on, and what came before is shown by the next renewal.
    pub(super) fn record_written(&mut self, request: RequestId, now: Instant) {
        let Some(seldom) = &mut self.seldom else { return };
        if seldom.breaks.late.is_some_and(|last| request > last) {
            seldom.breaks.late = None;
            seldom.breaks.over_at = Some(now);
        }
    }

    /// Whether an operator's break is under way.
    pub(super) fn is_being_broken(&self) -> bool {
        self.seldom.as_ref().is_some_and(|seldom| seldom.breaks.under_way > 0)
    }

    /// Whether a break from here may have met the lease that was acquired or renewed by a request of `sent`,
    /// or may yet.
    pub(super) fn may_be_broken_since(&self, sent: Instant) -> bool {
        let Some(breaks) = self.seldom.as_ref().map(|seldom| seldom.breaks) else { return false };
        self.is_being_broken()
            || self.overruling().is_some_and(Overruling::is_breaking)
            || breaks.may_arrive()
            || breaks.over_at.is_some_and(|at| sent <= at)
    }
}
