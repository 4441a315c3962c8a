//! While a lock is held: what its holder asks, its bounds and its end by the clock (`advance_held`), and how
//! far it may be silent (S4, S11, S14).

use std::sync::Arc;
use std::time::Duration;

use super::exchange::{Exchange, RecordOwner, Renewal, cut_off, owner, slowness};
use super::memory::{StoreBounds, Terms};
use super::progress::Saving;
use super::words::{CallerId, Granted, Loss, LossReason, Notice, Output, RequestId};
use super::{Hold, State};
use crate::lock::{FencingToken, LeaseId};
use crate::record::{Checkpoint, Priority, Record};
use crate::time::{Instant, UnixMillis};

/// The lease, and who has the lock under it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) lease_id: LeaseId,
    pub(super) renewal: Renewal,
    pub(super) token: FencingToken,
    /// Grows with each resume (S16): a call that carries a greater one shows that the hold has left.
    pub(super) generation: u64,
    /// The try to resume that wrote the generation; empty for none.
    pub(super) attempt: Box<str>,
    /// S16: until then somebody may still believe in the hold elsewhere; only a release that carries its
    /// generation ends it early. None for a hold that was not resumed.
    pub(super) settled_at: Option<Instant>,
    /// When a grant or a resume under this lease was written last: others poll eagerly for a while from then
    /// on (S10).
    pub(super) written_at: Instant,
    /// The record is read to see whether a change of it was ours (S16).
    pub(super) settling: Option<Box<Exchange>>,
    pub(super) caller: CallerId,
    pub(super) terms: Arc<Terms>,
    pub(super) bounds: Bounds,
    pub(super) acquired_at: UnixMillis,
    pub(super) granted_at: Instant,
    /// What the store's clock showed, and when.
    pub(super) store_clock: StoreClock,
    /// The latest validity that this holder was told.
    pub(super) told_until: Instant,
    /// S13: until when it may believe in that, also by a slow clock elsewhere.
    pub(super) believed_until: Instant,
    pub(super) phase: Phase,
    /// The lease was broken and runs out (S22).
    pub(super) notice: Option<Box<BreakNotice>>,
    /// Its checkpoints on their way to the store (S26).
    pub(super) saving: Option<Box<Saving>>,
    /// When the record is to be written: it is of the grant before, from which the lock was handed on (S10).
    pub(super) record_at: Option<Instant>,
}

/// What the store's clock showed, and when that was heard: it had surely passed by then (T7).
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreClock {
    pub(super) heard: Instant,
    pub(super) time: UnixMillis,
}

/// What callers may know of a hold here.
#[derive(Clone, Debug)]
pub struct Holding {
    /// The caller that holds the lock.
    pub caller: CallerId,
    /// The fencing token of the grant (S5).
    pub token: FencingToken,
    /// When it was granted, by the store's clock.
    pub acquired_at: UnixMillis,
    /// When it was granted.
    pub granted_at: Instant,
    /// The end of the holder's validity.
    pub valid_until: Instant,
    /// The terms of the grant.
    pub terms: Arc<Terms>,
    /// Until when the lock rests, if its holder gave it back (S11).
    pub resting_until: Option<Instant>,
    /// Until when the lock is kept for a holder that may not know its end, unless that says that it knows
    /// (S13, S14).
    pub kept_until: Option<Instant>,
    /// Whether the holder has it: false while it rests or fades.
    pub active: bool,
    /// Whether its holder was told that its lease was broken and runs out (S22).
    pub revoked: bool,
    /// Whether its stream broke, and it may come back (S14, S16).
    pub disconnected: bool,
    /// The end of the latest validity that the holder was told.
    pub told_until: Instant,
    /// How often the hold was resumed, from 1 (S16).
    pub generation: u64,
    /// When `max_hold` ends, if it was given (S11).
    pub max_hold_ends: Option<Instant>,
    /// When the hold is lost without a report of progress, if that is watched (S11).
    pub progress_due: Option<Instant>,
    /// D, the duration of the lease.
    pub lease_duration: Duration,
    /// When the lease was acquired or renewed last, by the store's clock.
    pub renewed_at: UnixMillis,
}

impl Held {
    pub(super) fn valid_until(&self) -> Instant {
        let until = self.bounds.limit(self.renewal.valid_until());
        self.deadline().map_or(until, |deadline| until.min(deadline))
    }

    /// The deadline that the holder of a broken lease was told (S22).
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.notice.as_ref()?.deadline()
    }

    /// The owner of the record that was found.
    pub(super) fn owner(&self, record: &Record) -> RecordOwner {
        owner(record, self.lease_id, self.token, self.generation)
    }

    /// The validity to tell now. What was told once is not taken back: nobody else gets the lock before
    /// (S13).
    pub(super) fn tell_validity(&mut self, now: Instant) -> Instant {
        let until = self.valid_until();
        self.told_until = self.told_until.max(until);
        self.believed_until = self.believed_until.max(until + slowness(until - now));
        until
    }

    pub(super) fn is_renewed(&self) -> bool {
        match self.phase {
            // S22: a broken lease cannot be renewed. S3: the store decides about a suspected pause, and says
            // that of any lease by a renewal.
            Phase::Active => {
                (self.terms.auto_renew || self.renewal.is_undecided()) && self.notice.is_none()
            }
            Phase::Resting { .. } => true,
            Phase::LastSave { .. } | Phase::GracePeriod(_) => false,
        }
    }

    /// Whether somebody may still believe in this hold elsewhere, since it was resumed a short while ago
    /// (S16).
    pub(super) fn is_unsettled(&self, now: Instant) -> bool {
        self.settled_at.is_some_and(|at| now < at)
    }

    pub(super) fn granted(
        &mut self,
        resumed: bool,
        checkpoint: Option<Checkpoint>,
        now: Instant,
    ) -> Granted {
        Granted {
            checkpoint,
            token: self.token,
            generation: self.generation,
            max_hold_ends: self.bounds.max_hold_ends(),
            lease_ends: self.bounds.lease_ends(),
            min_hold_ends: self.bounds.recorded_rest_ends(),
            lease_id: self.lease_id,
            lease_duration: self.renewal.lease_duration(),
            valid_until: self.tell_validity(now),
            acquired_at: self.acquired_at,
            store_time: self.store_time(now),
            resumed,
        }
    }

    /// Whether a caller with these terms can have the lock under this lease.
    pub(super) fn suits(&self, terms: &Terms) -> bool {
        terms.lease_duration == self.renewal.lease_duration() && terms.auto_renew
    }

    /// Whether nothing is under way that may change what is known of the lease, and it lasts long enough for
    /// another caller.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        !self.is_unsettled(now)
            && self.settling.is_none()
            && self.notice.is_none()
            && !self.is_saving()
            // A renewal must have the time of a try before it is late: else who is granted the lock is told
            // so at once (S9).
            && !self.renewal.is_late(now + cut_off(self.renewal.lease_duration()))
            && self.bounds.rests_until(now).is_none()
    }

    /// The store's clock now, as nearly as it is known, and never ahead of it (T7).
    pub(super) fn store_time(&self, now: Instant) -> UnixMillis {
        self.store_clock.time + now.saturating_since(self.store_clock.heard)
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        let end = match self.phase {
            Phase::GracePeriod(period) => self.grace_period_ends(period),
            Phase::LastSave { .. } => self.renewal.valid_until(),
            Phase::Resting { until } => self.with_renewal(until.min(self.renewal.valid_until())),
            Phase::Active => self.with_renewal(self.valid_until()),
        };
        let look = match self.phase {
            Phase::Active => self.notice.as_ref().map(|notice| notice.poll_timeout()),
            Phase::LastSave { .. } | Phase::Resting { .. } | Phase::GracePeriod(_) => None,
        };
        [look, self.saving_timeout()].into_iter().flatten().fold(end, Instant::min)
    }

    /// When a holder that fades is told so, or is known not to believe any more.
    const fn grace_period_ends(&self, period: GracePeriod) -> Instant {
        match period {
            GracePeriod::StreamBroken => self.told_until,
            GracePeriod::LossTold | GracePeriod::ShutdownTold | GracePeriod::LeaseLost => {
                self.believed_until
            }
        }
    }

    fn with_renewal(&self, end: Instant) -> Instant {
        // A renewal waits for the answer to a save, since both go by the record's version.
        let saving = self.saving.as_ref().is_some_and(|saving| saving.is_in_flight());
        if !self.is_renewed() {
            return end;
        }
        end.min(self.renewal.poll_timeout(saving, self.terms.auto_renew))
    }

    pub(super) fn holding(&self) -> Holding {
        Holding {
            caller: self.caller,
            token: self.token,
            acquired_at: self.acquired_at,
            granted_at: self.granted_at,
            valid_until: self.valid_until(),
            terms: Arc::clone(&self.terms),
            resting_until: match self.phase {
                Phase::Resting { until } => Some(until),
                Phase::Active | Phase::LastSave { .. } | Phase::GracePeriod(_) => None,
            },
            kept_until: matches!(self.phase, Phase::GracePeriod(_)).then_some(self.believed_until),
            active: self.phase == Phase::Active,
            revoked: self.deadline().is_some(),
            disconnected: self.phase == Phase::GracePeriod(GracePeriod::StreamBroken),
            told_until: self.told_until,
            generation: self.generation,
            max_hold_ends: self.bounds.max_hold_ends(),
            progress_due: self.bounds.progress_due(),
            lease_duration: self.renewal.lease_duration(),
            renewed_at: self.store_time(self.renewal.good_sent()),
        }
    }

    /// What is known of the holder, as a record.
    pub(super) fn record(&self) -> Record {
        Record {
            token: Some(self.token),
            acquired_at: Some(self.acquired_at),
            ..self.terms.record.clone()
        }
    }

    /// Whether its holder was not told the end yet (S4).
    pub(super) fn may_be_told(&self) -> bool {
        match self.phase {
            Phase::Active
            | Phase::LastSave { .. }
            | Phase::Resting { .. }
            | Phase::GracePeriod(GracePeriod::StreamBroken) => true,
            Phase::GracePeriod(
                GracePeriod::LossTold | GracePeriod::ShutdownTold | GracePeriod::LeaseLost,
            ) => false,
        }
    }

    fn is_active(&self, caller: CallerId) -> bool {
        self.caller == caller && self.phase == Phase::Active
    }

    /// Why the clock ends this hold now.
    fn end_by_the_clock(&self, now: Instant) -> (LossReason, &'static str) {
        if self.deadline().is_some() {
            let reason = self.bounds.passed(now).unwrap_or(LossReason::Broken);
            return (reason, "the lease was broken, and the time that was left is over");
        }
        let renewed = self.terms.auto_renew;
        let expired = if renewed { LossReason::Expired } else { LossReason::MaxHoldReached };
        let reason = self.bounds.passed(now).unwrap_or(expired);
        let saving = self.saving.as_ref().is_some_and(|saving| saving.is_in_flight());
        let late = self.renewal.lateness(now) > cut_off(self.renewal.lease_duration());
        let detail = match reason {
            LossReason::NoProgress => "the holder reported no progress in time",
            LossReason::MaxHoldReached if renewed => "the hold lasted as long as max_hold allows",
            LossReason::MaxHoldReached => {
                "auto_renew is off, and the lease duration or max_hold is over"
            }
            LossReason::Expired if self.renewal.is_held_back() => {
                "the store throttles, and no renewal had its turn before the validity ran out"
            }
            LossReason::Expired if late && !saving => {
                "renewals were sent late (the sidecar was starved or paused), and the validity ran out"
            }
            LossReason::Expired
            | LossReason::Taken
            | LossReason::Broken
            | LossReason::LockDeleted
            | LossReason::Shutdown => "no renewal succeeded before the validity ran out",
        };
        (reason, detail)
    }
}

impl Hold {
    pub(super) fn advance_held(&mut self, mut held: Box<Held>, output: &mut Output) {
        let now = output.now;
        match held.phase {
            Phase::GracePeriod(period) if now >= held.grace_period_ends(period) => {
                return self.end_grace_period(held, period, output);
            }
            Phase::Resting { .. } if now >= held.renewal.valid_until() => {
                return self.give_back(*held, None, output);
            }
            Phase::Resting { until } if now >= until => {
                return self.hand_on_or_give_back(*held, None, output);
            }
            Phase::Active if now >= held.valid_until() => {
                // S4: by the clock, whatever the store may say later.
                let (reason, detail) = held.end_by_the_clock(now);
                return self.lose(held, reason, detail.to_owned(), output);
            }
            Phase::LastSave { .. } if now >= held.renewal.valid_until() => {
                return self.give_up_last_save(held, output);
            }
            Phase::Active
            | Phase::LastSave { .. }
            | Phase::Resting { .. }
            | Phase::GracePeriod(_) => {}
        }
        self.give_up_overdue(&mut held, output);
        if held.is_renewed() {
            self.renew(&mut held, output);
        }
        self.advance_saving(&mut held, output);
        // T8: there may have been nothing to write.
        if matches!(held.phase, Phase::LastSave { .. }) && !held.is_saving() {
            return self.after_save(held, output);
        }
        let held =
            if held.phase == Phase::Active { self.watch_break(held, output) } else { Some(held) };
        if let Some(held) = held {
            self.state = State::Held(held);
        }
    }
}

/// What the holder is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has the lock.
    Active,
    /// It has ended its hold, and its last checkpoint is being saved before that goes on (S26). What
    /// `released` it was a call that carried the generation.
    LastSave { released: bool },
    /// It gave the lock back before `min_hold` was over (S11).
    Resting { until: Instant },
    /// It may still believe in its hold; nobody gets the lock before that is over (S13, S14).
    GracePeriod(GracePeriod),
}

impl Phase {
    /// Whether a call with the generation has released the hold, and something of it remains to be done.
    pub(super) const fn is_released(self) -> bool {
        match self {
            Self::LastSave { released: true } | Self::Resting { .. } => true,
            Self::Active | Self::LastSave { released: false } | Self::GracePeriod(_) => false,
        }
    }

    /// Whether its holder has it, or has ended it and waits for its last save and its release.
    pub(super) const fn is_open(self) -> bool {
        match self {
            Self::Active | Self::LastSave { .. } => true,
            Self::Resting { .. } | Self::GracePeriod(_) => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GracePeriod {
    /// Its stream ended without a word: it may come back (S14, S16).
    StreamBroken,
    /// It was told that the hold is over; the lease is still ours.
    LossTold,
    /// As `LossTold`, and the lease is left to run out, because the sidecar ends first (S15).
    ShutdownTold,
    /// It was told that the hold is over; the lease is ours no more.
    LeaseLost,
}

impl Hold {
    pub(super) fn broken_here(&mut self, ends_now: bool, output: &mut Output) {
        let Some(held) = self.take_held(output.now, |_| true) else { return };
        if !ends_now && held.phase.is_open() {
            self.broken_here_softly(held, output);
        } else {
            self.lose_lease(held, Loss::BROKEN, output);
        }
    }

    /// S13, S17: nobody waits for the former holder of a grant that an operator has ended at once. Its lease
    /// is gone.
    pub(super) fn freed(&mut self, token: FencingToken, now: Instant) {
        if let State::Held(held) = &self.state
            && held.phase == Phase::GracePeriod(GracePeriod::LeaseLost)
            && held.token == token
        {
            self.state = State::ready(now);
        }
    }

    /// A stream ended without a word (S14).
    pub(super) fn disconnected(&mut self, caller: CallerId) {
        if let State::Held(held) = &mut self.state
            && held.is_active(caller)
        {
            held.phase = Phase::GracePeriod(GracePeriod::StreamBroken);
        }
    }

    /// S16: a call about a hold may show that it has left this sidecar; then nothing of it stays.
    pub(super) fn leave_if_moved(
        &mut self,
        caller: CallerId,
        generation: Option<u64>,
        output: &mut Output,
    ) {
        let has_moved = |held: &Held| {
            held.caller == caller && generation.is_some_and(|newer| newer > held.generation)
        };
        if let Some(held) = self.take_held(output.now, has_moved) {
            self.moved_on(&held, output);
        }
    }

    pub(super) fn extend(&mut self, caller: CallerId, max_hold: Duration, output: &mut Output) {
        if let State::Held(held) = &mut self.state
            && held.is_active(caller)
        {
            let max_hold_ends = held.bounds.extend(max_hold, output.now);
            let valid_until = held.tell_validity(output.now);
            output.tell(caller, Notice::Extended { valid_until, max_hold_ends });
        }
    }

    pub(super) fn report_progress(&mut self, caller: CallerId, now: Instant) {
        if let State::Held(held) = &mut self.state
            && held.is_active(caller)
        {
            held.bounds.report_progress(now);
            // The report is answered with the validity (S21).
            held.tell_validity(now);
        }
    }
}

/// What is known of the break of a hold's lease.
#[derive(Clone, Debug)]
pub(super) struct BreakNotice {
    pub(super) met: Met,
    /// The deadline that the holder was told; none before the note was read.
    pub(super) told: Option<Instant>,
    pub(super) look: Exchange,
    pub(super) missed: u8,
    /// For which priority it was broken: the lock is kept for that (S33).
    pub(super) for_priority: Option<Priority>,
}

/// Who says that the lease was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// The store, to a renewal.
    Renewal,
    /// An operator, or a caller that waits here: the lock was broken through this sidecar, and it may have
    /// been another's lease.
    Operator,
}

impl BreakNotice {
    /// The deadline, once the holder was told.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.told
    }

    pub(super) const fn poll_timeout(&self) -> Instant {
        self.look.at()
    }

    pub(super) fn expects(&self, request: RequestId) -> bool {
        self.look.is(request)
    }

    /// The lease is looked at as soon as may be.
    pub(super) fn look_now(&mut self, now: Instant) {
        if let Exchange::Waiting { at } = &mut self.look {
            *at = now.min(*at);
        }
    }
}

/// When a hold must be over, and when it may be.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    max_hold_ends: Option<Instant>,
    /// The end of the one lease that a hold without `auto_renew` lasts for, however often the lease is
    /// renewed so that the store decides about it (S3, S16).
    lease_ends: Option<Instant>,
    min_hold_ends: Instant,
    /// The end of the rest that the record has, where it was written for this hold: before that if the store
    /// was slow.
    recorded_rest_ends: Option<Instant>,
    /// Few holds are watched so.
    progress: Option<Box<Progress>>,
}

#[derive(Clone, Debug)]
struct Progress {
    timeout: Duration,
    ends: Instant,
}

impl Bounds {
    /// Those of `terms`, but for `max_hold`, of a hold whose lease is `valid_until` then.
    pub(super) fn new(
        terms: &Terms,
        max_hold: Option<Duration>,
        valid_until: Instant,
        now: Instant,
    ) -> Self {
        Self {
            max_hold_ends: max_hold.map(|span| now + span),
            lease_ends: (!terms.auto_renew).then_some(valid_until),
            min_hold_ends: now + terms.min_hold,
            recorded_rest_ends: None,
            progress: terms
                .progress_timeout
                .map(|timeout| Box::new(Progress { timeout, ends: now + timeout })),
        }
    }

    /// Takes the bounds from the store's clock, which shows `time` now, where they end earlier by that (S3,
    /// S11).
    pub(super) fn cut(&mut self, bounds: StoreBounds, time: UnixMillis, now: Instant) {
        let ends = |at: UnixMillis| now + at.saturating_since(time);
        let earlier = |most: Option<Instant>, at: Option<UnixMillis>| {
            most.into_iter().chain(at.map(ends)).min()
        };
        self.max_hold_ends = earlier(self.max_hold_ends, bounds.max_hold_ends);
        self.lease_ends = earlier(self.lease_ends, bounds.lease_ends);
        self.min_hold_ends = self.min_hold_ends.min(ends(bounds.min_hold_ends));
    }

    /// `valid_until`, but not past a bound: so the lock is free the moment the bound passes.
    pub(super) fn limit(&self, valid_until: Instant) -> Instant {
        let ends = [self.max_hold_ends, self.lease_ends, self.progress_due()];
        ends.into_iter().flatten().fold(valid_until, Instant::min)
    }

    /// The bound that has passed, if one has.
    pub(super) fn passed(&self, now: Instant) -> Option<LossReason> {
        if self.max_hold_ends.into_iter().chain(self.lease_ends).any(|ends| now >= ends) {
            Some(LossReason::MaxHoldReached)
        } else if self.progress.as_ref().is_some_and(|progress| now >= progress.ends) {
            Some(LossReason::NoProgress)
        } else {
            None
        }
    }

    /// The record keeps the lock from others until `ends`, and no longer (S11).
    pub(super) const fn recorded(&mut self, ends: Instant) {
        self.recorded_rest_ends = Some(ends);
    }

    pub(super) fn extend(&mut self, max_hold: Duration, now: Instant) -> Instant {
        *self.max_hold_ends.insert(now + max_hold)
    }

    pub(super) fn report_progress(&mut self, now: Instant) {
        if let Some(progress) = &mut self.progress {
            progress.ends = now + progress.timeout;
        }
    }

    /// Until when a release keeps the lock from everyone, by the record alone.
    pub(super) fn recorded_rest_ends(&self) -> Instant {
        self.recorded_rest_ends.unwrap_or(self.min_hold_ends).min(self.min_hold_ends)
    }

    /// When the hold ends at the latest, if it has such a bound.
    pub(super) const fn max_hold_ends(&self) -> Option<Instant> {
        self.max_hold_ends
    }

    /// The end of the one lease of a hold that is not renewed.
    pub(super) const fn lease_ends(&self) -> Option<Instant> {
        self.lease_ends
    }

    /// When the hold ends without a report of progress, if that is watched.
    fn progress_due(&self) -> Option<Instant> {
        self.progress.as_ref().map(|progress| progress.ends)
    }

    /// Until when a release keeps the lock from everyone, while the lease is kept; none if the hold has
    /// lasted long enough.
    pub(super) fn rests_until(&self, now: Instant) -> Option<Instant> {
        (now < self.min_hold_ends).then_some(self.min_hold_ends)
    }
}
