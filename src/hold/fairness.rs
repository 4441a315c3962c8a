//! Whose turn it is: a sidecar stands back after a while (`stands_back_for`, asked by `give_back` in
//! `end.rs`, takes effect in `released_or_not` in `release.rs`; S10), leaves locks to others of the share
//! (`share_turn`, `leave_to_others`, S34), and lets a lock rest, or be kept for a greater priority
//! (`rest_promised`, S11, S33).

use std::time::Duration;

use super::exchange::RecordWrite;
use super::held::Held;
use super::memory::{Idle, Known, Rest, Ungranted, Wait};
use super::progress::{Attempt, Leased, Plan, Retry, Work};
use super::release::Releasing;
use super::words::{Output, Tried};
use super::{Hold, State};
use crate::record::{Priority, Record, ShareName};
use crate::time::{Instant, UnixMillis};

/// So many leases are remembered under which a rest may stand for which nobody was granted the lock.
const MOST_UNGRANTED: usize = 16;

/// How long a sidecar stands back at the least, ± 20 %.
const STAND_BACK: Duration = Duration::from_millis(500);
/// The longest that this is with its spread.
pub(super) const LONGEST_STAND_BACK: Duration = Duration::from_millis(600);
/// What a lock is polled eagerly for beyond D, after its record was last seen to change.
const EAGER_BEYOND: Duration = Duration::from_secs(5);

/// How long after a change of the record the lock is polled eagerly.
pub(super) fn eager_span(lease_duration: Duration) -> Duration {
    EAGER_BEYOND + lease_duration
}

impl Hold {
    /// How long this sidecar leaves the lock to others once the store has it back: they come first if it was
    /// handed on here, or acquired again and again, for long enough.
    pub(super) fn stands_back_for(&mut self, held: &Held, now: Instant) -> Option<Duration> {
        let limit = self.hand_off_limit(held);
        if self.candidate.is_none() {
            self.handing_since = None;
        } else {
            self.handing_since.get_or_insert(now);
        }
        let handed = self.handing_since.is_some_and(|since| now.saturating_since(since) >= limit);
        let lasted = self.memory.tenure.has_lasted(now);
        let looped = self.memory.tenure.is_repeated() && lasted >= limit;
        self.note_free();
        if !handed && !looped {
            return None;
        }
        self.handing_since = None;
        let mut span = self.jitter.around(STAND_BACK, 20);
        // Others may have stopped to poll eagerly: they need a chance all the same, at no more than a tenth
        // of the time.
        let lapsed = now.saturating_since(held.written_at);
        if lapsed > eager_span(held.renewal.lease_duration()) {
            span = span.max((lasted / 10).min(self.settings.poll_cap * 6 / 5));
        }
        Some(span)
    }

    /// Others have their turn from now on: the store has the lock back.
    pub(super) fn stand_back(&mut self, span: Duration, now: Instant) -> Idle {
        let until = now + span;
        self.memory.tenure.stand_back(until);
        Idle { until, why: Wait::StandBack }
    }

    /// S10: others must have their turn after the configured span, at most D/2.
    pub(super) fn hand_off_limit(&self, held: &Held) -> Duration {
        self.settings.hand_off.min(held.renewal.lease_duration() / 2)
    }
}

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
        match self.held() {
            Some(held) => held.terms.share(),
            None => self.front()?.terms.share(),
        }
    }

    /// Whether the caller at the front wants its share rebalanced (S35).
    #[must_use]
    pub fn rebalances(&self) -> bool {
        self.front().is_some_and(|front| front.terms.rebalance)
    }

    /// The priority of the caller at the front (S33).
    #[must_use]
    pub fn front_priority(&self) -> Priority {
        self.front().map_or(Priority::NONE, |front| front.terms.priority())
    }

    /// Takes what this sidecar has of the lock's share: before each event, while [`Hold::share`] names one.
    pub fn stand(&mut self, standing: Standing) {
        self.rare.get_or_insert_default().sharing.standing = Some(standing);
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
        self.rare.as_ref()?.sharing.free_since
    }

    /// The lock is another's.
    pub(super) fn note_taken(&mut self, now: Instant) {
        if let Some(rare) = &mut self.rare
            && let Some(since) = rare.sharing.free_since.take()
        {
            let before = rare.sharing.left.map_or(Duration::ZERO, |(left, _)| left);
            rare.sharing.left = Some((before + now.saturating_since(since), now));
        }
    }

    /// The lease goes back, or is a new one: what was known of the share is of before.
    pub(super) fn note_free(&mut self) {
        self.rare.take_if(|rare| {
            rare.sharing = Sharing::default();
            rare.suspected_at.is_none()
                && rare.overruling.is_none()
                && rare.comebacks.is_none()
                && rare.breaks.is_none()
        });
    }

    /// Whether a free lock is left to others first: not for who tries once, nor where the lock is handed on
    /// (S10), nor where it was left to them for long enough: nobody starves. How long a caller has waited for
    /// a lock that was held says nothing: listeners wait for days. A lock that was broken for somebody here
    /// is for that caller.
    fn is_patient(&self, now: Instant) -> bool {
        let Some(front) = self.front() else { return false };
        let duration = front.terms.lease_duration;
        let sharing = self.rare.as_ref().map(|rare| rare.sharing).unwrap_or_default();
        let since = sharing.free_since.unwrap_or(now);
        let enough = duration + self.settings.poll_cap;
        // Whoever took it then and kept it was to have it.
        let before = sharing.left.filter(|(_, until)| since.saturating_since(*until) <= enough);
        let left = before.map_or(Duration::ZERO, |(left, _)| left) + now.saturating_since(since);
        front.terms.share().is_some()
            && !self.has_one_try()
            && !self.is_eager_after_break(now)
            && !self.is_handed_on(duration, now)
            && left <= enough
    }

    /// What may be done now for the caller at the front (S34).
    pub(super) fn share_turn(&mut self, now: Instant) -> Turn {
        let standing = self.rare.as_ref().and_then(|rare| rare.sharing.standing);
        let shares =
            self.front().is_some_and(|front| front.terms.share().is_some() && !self.has_one_try());
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
        let standing = self.rare.as_ref().and_then(|rare| rare.sharing.standing);
        let Some(standing) = standing.filter(|standing| standing.held > 0) else {
            return Some(retry);
        };
        if !self.is_patient(output.now) {
            return Some(retry);
        }
        let since = *self.rare.get_or_insert_default().sharing.free_since.get_or_insert(output.now);
        let left = standing.ripe_at(since).saturating_since(output.now);
        let delay = left.min(self.poll_delay(retry.duration, output.now));
        self.store_failure = None;
        self.idle(retry, delay, Wait::Poll, output.now);
        output.tried(Tried::Taken);
        None
    }

    /// Others of the share were found free: this one may be too. Or this one is free, and what is had here
    /// has changed.
    pub(super) fn stir(&mut self, now: Instant) {
        let standing = self.rare.as_ref().and_then(|rare| rare.sharing.standing);
        let soon = match (self.free_since(), standing) {
            (Some(since), Some(standing)) => standing.ripe_at(since).max(now),
            (Some(_), None) => return,
            (None, _) => now + self.jitter.between(Duration::ZERO, STIRRED),
        };
        self.poll_soon(soon);
    }
}

/// The longest `min_hold` there is: what a record without a span of its own is cut to.
const LONGEST_REST: Duration = Duration::from_secs(24 * 3_600);
/// The longest reservation that is ever written: a lease of 60 s that has just been renewed, its margin, a
/// poll cap of 60 s, and 5 s.
const LONGEST_RESERVED: Duration = Duration::from_secs(130);

impl Hold {
    /// S11, S33: when a rest that the record has promised is over, or the lock is reserved no more for a
    /// greater priority, on our own clock: by the store's clock, and never longer than was asked for from
    /// when this sidecar first sees it, because that clock may have been set.
    pub(super) fn rest_promised(
        &mut self,
        time: UnixMillis,
        record: &Record,
        priority: Priority,
        now: Instant,
    ) -> Option<Instant> {
        let rests = record.resting_until.map(|until| {
            let most = record.resting_for.unwrap_or(LONGEST_REST).min(LONGEST_REST);
            (until, most, None)
        });
        let reserved = record.reserved.as_deref().map(|reserved| {
            let most = Duration::from_millis(reserved.for_millis).min(LONGEST_RESERVED);
            (reserved.until, most, Some(reserved.priority))
        });
        let etag = self.memory.known.as_ref()?.etag();
        let before = self.memory.rest.as_ref().filter(|rest| rest.etag == etag);
        let seen = before.map_or((now, time), |rest| rest.seen);
        let (seen_at, time) = seen;
        // A rest that is over may stand beside a reservation that is not.
        for (until, most, below) in rests.into_iter().chain(reserved) {
            let free_at = seen_at + until.saturating_since(time).min(most);
            let rest = Rest { etag: etag.clone(), seen, until: free_at, below };
            let kept = rest.concerns(priority) && now < free_at;
            self.memory.rest = Some(Box::new(rest));
            if kept {
                return Some(free_at);
            }
        }
        None
    }

    /// The rest or the reservation that goes on, as far as is known: not one that another grant has followed.
    pub(super) fn rest_seen(&self, now: Instant) -> Option<&Rest> {
        let is_known = |rest: &&Rest| {
            self.memory.known.as_ref().is_none_or(|known| known.is_version(&rest.etag))
        };
        self.memory.rest.as_deref().filter(|rest| now < rest.until).filter(is_known)
    }

    /// A read at `time` has found the lock free. Whether it rests, or is kept for a greater priority, so that
    /// it need not be acquired to find that out; else `retry` is to acquire it. What may have been acquired
    /// is acquired again all the same (S6).
    pub(super) fn leave_to_rest(
        &mut self,
        retry: Retry,
        time: Option<UnixMillis>,
        output: &mut Output,
    ) -> Option<Retry> {
        let front = self.front().filter(|_| !self.is_paced());
        let (Some(front), Some(time), None) = (front, time, retry.uncertain) else {
            return Some(retry);
        };
        let priority = front.terms.priority();
        let Some(record) = self.memory.known.as_ref().map(Known::record) else {
            return Some(retry);
        };
        if self.is_ungranted(&record) {
            return Some(retry);
        }
        let Some(free_at) = self.rest_promised(time, &record, priority, output.now) else {
            return Some(retry);
        };
        self.store_failure = None;
        let idle = self.rests(free_at, retry.duration, output.now);
        self.state = State::Idle { idle, retry: Some(Box::new(retry)) };
        output.tried(Tried::Taken);
        None
    }

    /// S11: a release before `min_hold` keeps the lock from everyone, whatever became of its sidecar.
    pub(super) fn rest_until(&mut self, lease: Leased, free_at: Instant, output: &mut Output) {
        output.tried(Tried::Taken);
        let releasing = Releasing::unused(lease.lease_id, lease.duration, lease.given_up);
        let then = Some(self.rests(free_at, lease.duration, output.now));
        self.release(Releasing { then, ..releasing }, output);
    }

    /// The lock rests, or is reserved, until then, as its record was seen to promise. It is looked at before,
    /// because its sidecar may take back a rest of which nothing came, or an operator.
    fn rests(&self, until: Instant, lease_duration: Duration, now: Instant) -> Idle {
        let is_reserved = self.memory.rest.as_ref().is_some_and(|rest| rest.below.is_some());
        let look = now + lease_duration.max(self.settings.poll_cap);
        let why = if is_reserved { Wait::Reserved } else { Wait::MinHold };
        Idle { until: until.min(look), why }
    }

    /// Whether the lock rests for the caller at the front, as far as is known.
    pub(super) fn knows_of_a_rest(&self, now: Instant) -> bool {
        let front = self.front().filter(|_| !self.is_paced());
        let rest = self.rest_seen(now);
        rest.zip(front).is_some_and(|(rest, front)| rest.concerns(front.terms.priority()))
    }

    /// Nothing more is done under `lease`. A rest that may be stored under it counts for nobody: here it is
    /// not heeded, and it is taken back under the next lease.
    pub(super) fn note_ungranted(&mut self, lease: &Leased) {
        let Some(until) = lease.rest_until else { return };
        // A write under an earlier one may stand in the record yet.
        let earlier = self.memory.ungranted.take();
        let until = earlier.as_ref().map_or(until, |rest| until.max(rest.until));
        let mut lease_ids = earlier.map(|rest| rest.lease_ids).unwrap_or_default();
        lease_ids.truncate(MOST_UNGRANTED - 1);
        lease_ids.insert(0, lease.lease_id);
        let lease_duration = lease.duration;
        let rest = Ungranted { lease_ids, lease_duration, until, is_owed: true };
        self.memory.ungranted = Some(Box::new(rest));
        // The write may have been done, or not.
        self.memory.known = None;
    }

    /// Whether a record is of a grant from here that nobody was given.
    pub(super) fn is_ungranted(&self, record: &Record) -> bool {
        let ungranted = self.memory.ungranted.iter().flat_map(|rest| &rest.lease_ids);
        ungranted.into_iter().any(|lease_id| record.lease == Some(lease_id.fingerprint()))
    }

    /// Whether a rest is to be taken back from here, as far as the record is known: others heed it.
    pub(super) fn owes_a_rest(&self) -> bool {
        let is_owed = self.memory.ungranted.as_ref().is_some_and(|rest| rest.is_owed);
        let may_rest = || match self.memory.known.as_ref().map(Known::record) {
            Some(record) => record.resting_until.is_some() && self.is_ungranted(&record),
            None => true,
        };
        is_owed && !self.shutdown.is_under_way() && may_rest()
    }

    /// The rest cannot be taken back: it is left to end by itself.
    pub(super) fn forgive_rest(&mut self) {
        if let Some(rest) = &mut self.memory.ungranted {
            rest.is_owed = false;
        }
    }

    /// The record, if it has a rest for which nobody was granted the lock: under this lease, or one before.
    pub(super) fn rest_left(&self, lease: &Leased) -> Option<Record> {
        let record = self.memory.known.as_ref().map(Known::record)?;
        let ours = record.lease == Some(lease.lease_id.fingerprint()) || self.is_ungranted(&record);
        (ours && record.resting_until.is_some()).then_some(record)
    }

    /// Whether a rest may stay for which nobody was granted the lock, once this lease goes back.
    pub(super) fn may_leave_a_rest(&self, lease: &Leased) -> bool {
        lease.rest_until.is_some() || self.rest_left(lease).is_some()
    }

    /// Gives a lease back under which nobody was granted anything. A rest that was written for a caller that
    /// has gone ungranted does not stay: everybody would be kept from the lock, who asked for it too (S11). A
    /// lease that was broken still lets it be taken back.
    pub(super) fn release_without_rest(&mut self, lease: Leased, output: &mut Output) {
        let left = self.rest_left(&lease);
        let (Some(known), Some(record @ Record { token: Some(token), .. })) =
            (&self.memory.known, left)
        else {
            self.forgive_rest();
            return self.release_unused(lease, output);
        };
        let record = Record { resting_until: None, resting_for: None, ..record };
        let write =
            RecordWrite { if_match: known.etag(), fields: record.into_fields(known.fields()) };
        self.send_work(lease, Work::Write { plan: Plan::without_rest(token), write }, output);
    }
}
