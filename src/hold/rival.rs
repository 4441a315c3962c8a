//! For whom a lock is broken, and why it is not (S33, S35).

use super::waiters::Waiter;
use super::{Hold, Known, State};
use crate::lock::{FencingToken, Priority};
use crate::time::{Instant, UnixMillis};

/// For whom a lock is broken that is another's (S33, S35).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The token of the grant that is broken.
    pub token: Option<FencingToken>,
    /// The caller's priority.
    pub priority: Priority,
    /// Who the caller is, for people.
    pub holder: String,
    /// Whether it is for a share's balance (S35); else the holder's priority is smaller (S33).
    pub moves: bool,
    /// When, by the store's clock.
    pub at: UnixMillis,
}

/// Why a caller with a priority waits all the same (S33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PriorityStatus {
    /// The holder does not yield.
    HolderDoesNotYield,
    /// The holder's priority is not smaller.
    NotGreater,
    /// The caller has not waited for a lease duration, or tries once.
    WaitedTooShort,
    /// The lock was broken less than two lease durations ago.
    BrokenRecently,
    /// The holder was told, and has until its lease expires to finish.
    Revoked,
    /// The store refuses to break leases with the sidecar's credentials.
    CannotBreak,
    /// The lock is kept for a caller of greater priority.
    Reserved,
}

/// The lock was broken for a caller here: until then it is polled eagerly for who is of no smaller priority.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eager {
    pub(super) until: Instant,
    pub(super) priority: Priority,
}

impl Hold {
    /// What the lock was broken for, for a caller here, while it is to be free soon.
    fn eager(&self, now: Instant) -> Option<Eager> {
        self.overruling()?.eager.filter(|eager| now < eager.until)
    }

    /// Whether the lock was broken for who waits here, and is to be had as soon as it is free. Not for those
    /// that are left once that one has gone.
    pub(super) fn is_eager_after_break(&self, now: Instant) -> bool {
        self.eager(now).is_some_and(|eager| self.front_priority() >= eager.priority)
    }

    /// Why the priority of a caller that leaves has not freed the lock; none if it gave none.
    pub(super) fn priority_status(&self, waiter: &Waiter, now: Instant) -> Option<PriorityStatus> {
        let ours = waiter.terms.priority();
        if ours == Priority::NONE {
            return None;
        }
        let rest = self.rest_seen(now);
        if rest.is_some_and(|rest| rest.below.is_some() && rest.concerns(ours)) {
            return Some(PriorityStatus::Reserved);
        }
        let holder = match &self.state {
            State::Held(held) if held.notice.is_some() => return Some(PriorityStatus::Revoked),
            State::Held(held) => held.terms.record.sharing.clone(),
            State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {
                self.memory.known.as_ref()?.sharing()
            }
        };
        let holder = holder.map(|sharing| *sharing).unwrap_or_default();
        // Who has been granted the lock since the break was not told of it.
        let epoch = |token: Option<FencingToken>| token.map(FencingToken::epoch);
        let known = self.memory.known.as_ref().and_then(Known::token);
        let broken = self.overruling().and_then(|overruling| overruling.broken);
        let told = epoch(known) == epoch(broken);
        Some(match self.may_overrule(waiter, &holder, now) {
            _ if told && self.eager(now).is_some() => PriorityStatus::Revoked,
            Err(PriorityStatus::Revoked) if !told => PriorityStatus::BrokenRecently,
            Err(why) => why,
            // What a caller could do by now and has not done was yet to begin.
            Ok(_) => PriorityStatus::WaitedTooShort,
        })
    }
}
