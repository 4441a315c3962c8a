//! A lock of a share that is free is left for a while to sidecars that have fewer (S34).

use std::time::Duration;

use super::acquisition::{Attempt, Retry};
use super::idle::Wait;
use super::output::Output;
use super::{Hold, Known, State};
use crate::lock::{Priority, Record, ShareName};
use crate::time::Instant;

/// What this sidecar has of the share of a lock, as its driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Locks of the share, without this one, that are held or being acquired here.
    pub held: u32,
    /// For how long a free lock must have stayed free before it is acquired here.
    pub patience: Duration,
    /// It is not acquired here before this either: another of the share was a moment ago.
    pub not_before: Option<Instant>,
    /// Whether no other lock of the share is being acquired here: there is one at a time.
    pub turn: bool,
}

impl Standing {
    /// When a lock that has been free since then may be acquired here.
    fn ripe_at(&self, since: Instant) -> Instant {
        let ripe = since + self.patience;
        self.not_before.map_or(ripe, |not_before| ripe.max(not_before))
    }
}

/// What a machine does with a lock of a share, and has seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareUse {
    /// Somebody here holds it.
    Held,
    /// It is being acquired for somebody here.
    Acquiring,
    /// Somebody here waits for it, and nothing is known of it.
    Unknown,
    /// Somebody here waits for it, and it was seen free.
    Free,
    /// Somebody here waits for it, and another sidecar has it: its record.
    Others(Box<Record>),
}

/// What is known of a lock of a share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sharing {
    standing: Option<Standing>,
    /// Since when the lock was found free at every look.
    free_since: Option<Instant>,
    /// For how long it was left to others before, again and again, and until when that was.
    left: Option<(Duration, Instant)>,
}

/// Between two tries while another lock of the share is being acquired.
const OUT_OF_TURN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(250));
/// Within this others of the share look, once one of its locks was found free.
const STIRRED: Duration = Duration::from_millis(250);

/// What may be done now for the caller at the front.
pub(super) enum Turn {
    Acquire,
    Read,
    Wait(Duration),
}

impl Hold {
    /// The share of the lock, if its holder here or the caller at the front names one.
    #[must_use]
    pub fn share(&self) -> Option<&ShareName> {
        match &self.state {
            State::Held(held) => held.terms.share(),
            State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {
                self.waiters.front()?.terms.share()
            }
        }
    }

    /// Whether the caller at the front wants its share rebalanced (S35).
    #[must_use]
    pub fn rebalances(&self) -> bool {
        self.waiters.front().is_some_and(|front| front.terms.rebalance)
    }

    /// The priority of the caller at the front (S33).
    #[must_use]
    pub fn front_priority(&self) -> Priority {
        self.waiters.front().map_or(Priority::NONE, |front| front.terms.priority())
    }

    /// Takes what this sidecar has of the lock's share: before each event, while [`Hold::share`] names one.
    pub fn stand(&mut self, standing: Standing) {
        self.seldom.get_or_insert_default().sharing.standing = Some(standing);
    }

    /// What is done with the lock here, for the driver to count.
    #[must_use]
    pub fn share_use(&self) -> ShareUse {
        match &self.state {
            State::Held(_) => ShareUse::Held,
            State::Acquiring(attempt) if !matches!(**attempt, Attempt::ReadHolder { .. }) => {
                ShareUse::Acquiring
            }
            State::Resuming(_) => ShareUse::Acquiring,
            State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) => {
                if self.free_since().is_some() {
                    return ShareUse::Free;
                }
                let known = self.memory.known.as_ref().map(Known::record);
                known.map_or(ShareUse::Unknown, |record| ShareUse::Others(Box::new(record)))
            }
        }
    }

    pub(super) fn free_since(&self) -> Option<Instant> {
        self.seldom.as_ref()?.sharing.free_since
    }

    /// The lock is another's.
    pub(super) fn note_taken(&mut self, now: Instant) {
        if let Some(seldom) = &mut self.seldom
            && let Some(since) = seldom.sharing.free_since.take()
        {
            let before = seldom.sharing.left.map_or(Duration::ZERO, |(left, _)| left);
            seldom.sharing.left = Some((before + now.saturating_since(since), now));
        }
    }

    /// The lock is ours.
    pub(super) fn note_had(&mut self) {
        if let Some(seldom) = &mut self.seldom {
            (seldom.sharing.free_since, seldom.sharing.left) = (None, None);
        }
    }

    /// The lease goes back, or is a new one: what was known of the share is of before.
    pub(super) fn note_free(&mut self) {
        self.seldom.take_if(|seldom| {
            seldom.sharing = Sharing::default();
            seldom.suspected_at.is_none()
                && seldom.overruling.is_none()
                && seldom.claims.is_none()
                && seldom.breaks.is_none()
        });
    }

    /// Whether a free lock is left to others first: not for who tries once, nor where the lock is handed on
    /// (S10), nor where it was left to them for long enough: nobody starves. How long a caller has waited for
    /// a lock that was held says nothing: listeners wait for days. A lock that was broken for somebody here
    /// is for that caller.
    fn is_patient(&self, now: Instant) -> bool {
        let Some(front) = self.waiters.front() else { return false };
        let duration = front.terms.lease_duration;
        let sharing = self.seldom.as_ref().map(|seldom| seldom.sharing).unwrap_or_default();
        let since = sharing.free_since.unwrap_or(now);
        let enough = duration + self.settings.poll_cap;
        // Whoever took it then and kept it was to have it.
        let before = sharing.left.filter(|(_, until)| since.saturating_since(*until) <= enough);
        let left = before.map_or(Duration::ZERO, |(left, _)| left) + now.saturating_since(since);
        front.terms.share().is_some()
            && !self.waiters.has_one_try()
            && !self.is_eager_after_break(now)
            && !self.is_handed_on(duration, now)
            && left <= enough
    }

    /// What may be done now for the caller at the front (S34).
    pub(super) fn share_turn(&mut self, now: Instant) -> Turn {
        let standing = self.seldom.as_ref().and_then(|seldom| seldom.sharing.standing);
        let shares = self
            .waiters
            .front()
            .is_some_and(|front| front.terms.share().is_some() && !self.waiters.has_one_try());
        let Some(standing) = standing.filter(|_| shares) else {
            return Turn::Acquire;
        };
        let is_ripe = self.free_since().is_some_and(|since| now >= standing.ripe_at(since));
        if standing.held > 0 && !is_ripe && self.is_patient(now) {
            Turn::Read
        } else if standing.turn || self.is_eager_after_break(now) {
            // What was broken for somebody here is kept for it for a short time only.
            Turn::Acquire
        } else {
            let (least, most) = OUT_OF_TURN;
            Turn::Wait(self.jitter.between(least, most))
        }
    }

    /// A read has found the lock free. Whether it is left alone for now; else `retry` is to acquire it.
    pub(super) fn leave_to_others(&mut self, retry: Retry, output: &mut Output) -> Option<Retry> {
        let standing = self.seldom.as_ref().and_then(|seldom| seldom.sharing.standing);
        let Some(standing) = standing.filter(|standing| standing.held > 0) else {
            return Some(retry);
        };
        if !self.is_patient(output.now) {
            return Some(retry);
        }
        let since =
            *self.seldom.get_or_insert_default().sharing.free_since.get_or_insert(output.now);
        let left = standing.ripe_at(since).saturating_since(output.now);
        let delay = left.min(self.poll_delay(retry.duration, output.now));
        self.store_failure = None;
        self.idle(retry, delay, Wait::Poll, output.now);
        self.tell_taken(output);
        None
    }

    /// Others of the share were found free: this one may be too. Or this one is free, and what is had here
    /// has changed.
    pub(super) fn stir(&mut self, now: Instant) {
        let standing = self.seldom.as_ref().and_then(|seldom| seldom.sharing.standing);
        let soon = match (self.free_since(), standing) {
            (Some(since), Some(standing)) => standing.ripe_at(since).max(now),
            (Some(_), None) => return,
            (None, _) => now + self.jitter.between(Duration::ZERO, STIRRED),
        };
        self.poll_soon(soon);
    }
}
