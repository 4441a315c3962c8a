//! How a hold ends: what a release waits for ([`Hold::end_hold`]: its saves, S26, of those that only bring
//! the record up to the hold what may be done, `drop_recording`, and a reservation, S33; `run_out`: the end
//! of its lease, S16), and whether that is handed on, kept or given back (S10, S13). And how all end with the
//! sidecar: holders are waited for, and told lost at the end of the drain; or a replacement follows, which
//! holds are handed over to (S15).

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::held::{Bounds, GracePeriod, Held, Phase};
use super::memory::{Handed, Known};
use super::progress::{Attempt, Leased, Saving, end_saves};
use super::release::{Released, Releasing};
use super::words::{CallerId, Loss, LossReason, Notice, Output};
use super::{Hold, State};
use crate::time::Instant;

/// How long a hold must last that was handed on, until the record is written of it (S10).
const RECORDED_AFTER: Duration = Duration::from_secs(1);

impl Hold {
    /// A holder releases by a call (S13). Only one that carries the hold's generation can end it early while
    /// somebody may believe in it elsewhere (S16).
    pub(super) fn release_asked(
        &mut self,
        caller: CallerId,
        generation: Option<u64>,
        output: &mut Output,
    ) {
        if let Some(held) = self.take_held(output.now, |held| held.caller == caller) {
            let unsettled = held.is_unsettled(output.now);
            return match generation.map(|generation| generation.cmp(&held.generation)) {
                Some(Ordering::Greater) => self.moved_on(&held, output),
                Some(Ordering::Less) => self.run_out(&held, output),
                None if unsettled => self.run_out(&held, output),
                Some(Ordering::Equal) => self.end_hold(held, true, output),
                None => self.end_hold(held, false, output),
            };
        }
        match self.take_state(output.now) {
            // The client gave its resume up before it was answered: it believes in nothing, but it may be
            // that a repeat of that resume goes on elsewhere.
            State::Resuming(resuming)
                if resuming.is_of(caller)
                    && generation.is_some_and(|newer| newer > resuming.resume.generation) =>
            {
                // S16: a repeat of it went on elsewhere and was answered.
                output.tell(caller, Notice::Moved);
                self.leave_to_run_out(resuming.lease_id(), output);
            }
            State::Resuming(resuming) if resuming.is_of(caller) => {
                self.give_up_resume(&resuming, output);
            }
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_)) => {
                self.state = other;
                // S16: it went on elsewhere, or a repeat of its resume may.
                if self.drop_comeback(caller) {
                    output.tell(caller, Notice::Moved);
                }
            }
        }
    }

    /// A holder's stream ended in a way that S14 trusts: it is gone, or it knows that its hold is over.
    pub(super) fn holder_left(&mut self, caller: CallerId, output: &mut Output) {
        let is_of = |held: &Held| held.caller == caller;
        let Some(held) = self.take_held(output.now, is_of) else { return };
        // S16: a resume that was given up may be repeated elsewhere. A release with the generation counts
        // nevertheless.
        if held.is_unsettled(output.now) && !held.phase.is_released() {
            self.run_out(&held, output);
        } else {
            self.end_hold(held, false, output);
        }
    }

    /// The holder believes no longer: the next one has the lock, or the store. What `released` it carried the
    /// generation; else the hold may go on elsewhere, from a resume that nobody here knows of, and the store
    /// must say (S13, S16).
    pub(super) fn end_hold(&mut self, mut held: Box<Held>, released: bool, output: &mut Output) {
        held.drop_recording();
        match held.phase {
            // S26: the saves first, then the release.
            Phase::Active | Phase::GracePeriod(GracePeriod::StreamBroken) if held.is_saving() => {
                held.phase = Phase::LastSave { released: released && held.phase == Phase::Active };
                self.state = State::Held(held);
            }
            Phase::LastSave { .. } => self.state = State::Held(held),
            // S33: it is kept for who had it broken.
            Phase::Active | Phase::GracePeriod(GracePeriod::StreamBroken)
                if held.reserves_at_end(output.now) =>
            {
                held.saving.get_or_insert_default().reserve_at_end(output.now);
                held.phase = Phase::LastSave { released };
                self.state = State::Held(held);
            }
            // S22: a broken lease is not handed on; its release frees the lock at once.
            Phase::Active if held.notice.is_some() => {
                let reply = Some(held.caller);
                self.give_back(*held, reply, output);
            }
            // The end of a rest is in the record, so the lease is not needed to keep it (S11).
            Phase::Active if !released && held.terms.resumable => {
                let reply = Some(held.caller);
                self.give_back(*held, reply, output);
            }
            Phase::Active => match held.bounds.rests_until(output.now) {
                Some(until) if !self.shutdown.is_under_way() => {
                    held.phase = Phase::Resting { until };
                    self.keep_resting(held, until, output);
                }
                Some(_) | None => {
                    let reply = Some(held.caller);
                    self.hand_on_or_give_back(*held, reply, output);
                }
            },
            // The holder knows; the lease is still ours and goes back. Who was silent may have resumed
            // elsewhere and ended there, so only the store can say whether the lease is still to be handed
            // on.
            Phase::GracePeriod(GracePeriod::StreamBroken) => {
                let reply = Some(held.caller);
                self.give_back(*held, reply, output);
            }
            // S4: it was told the end, and nothing after that.
            Phase::GracePeriod(GracePeriod::LossTold | GracePeriod::ShutdownTold) => {
                self.give_back(*held, None, output)
            }
            // The lease is another's, and nobody believes in it any more.
            Phase::GracePeriod(GracePeriod::LeaseLost) => {
                self.state = State::ready(output.now);
            }
            Phase::Resting { until } => self.keep_resting(held, until, output),
        }
    }

    /// S16: a call carries a newer generation: the hold goes on elsewhere, and nothing of it is left here.
    /// The record has been written over by then, so there is nothing to release either.
    pub(super) fn moved_on(&mut self, held: &Held, output: &mut Output) {
        end_saves(held.saving.as_deref(), output);
        self.abandoned.forget(held.lease_id);
        self.memory.known = None;
        self.state = State::ready(output.now);
        if held.may_be_told() {
            output.tell(held.caller, Notice::Moved);
        }
    }

    /// S16: the lease is left to run out, since somebody may go on with the hold elsewhere.
    fn run_out(&mut self, held: &Held, output: &mut Output) {
        end_saves(held.saving.as_deref(), output);
        let told = held.may_be_told().then_some(held.caller);
        let released = self.released_hold(held, told, None);
        self.release(Releasing::held(held, released).running_out(), output);
    }

    fn keep_resting(&mut self, held: Box<Held>, until: Instant, output: &mut Output) {
        output.tell(held.caller, Notice::Released { resting_until: Some(until) });
        self.state = State::Held(held);
    }

    /// Ends a hold for a reason of our own; the lease is still ours, as far as we know.
    pub(super) fn lose(
        &mut self,
        mut held: Box<Held>,
        reason: LossReason,
        detail: String,
        output: &mut Output,
    ) {
        debug_assert_eq!(held.phase, Phase::Active, "only an active hold can be lost");
        let saving = held.saving.take();
        end_saves(saving.as_deref(), output);
        output.tell(held.caller, Notice::Lost { reason, detail });
        if reason == LossReason::Shutdown {
            held.phase = Phase::GracePeriod(GracePeriod::ShutdownTold);
            self.state = State::Held(held);
        } else {
            self.fade(held, saving.as_deref(), output);
        }
    }

    /// Its holder was told the end, and may believe a little longer. The lock is then kept for who had it
    /// broken from the time at which its lease goes back, and not from the end of that (S33); unless a write
    /// that is under way would cross with that one.
    fn fade(&mut self, mut held: Box<Held>, saving: Option<&Saving>, output: &mut Output) {
        if output.now >= held.believed_until {
            return self.end_unasked(*held, output);
        }
        held.phase = Phase::GracePeriod(GracePeriod::LossTold);
        if held.reserves_at_end(output.now) && !saving.is_some_and(Saving::may_be_done) {
            held.saving.get_or_insert_default().reserve_at_end(output.now);
        }
        self.state = State::Held(held);
    }

    /// Ends a hold because the store says that the lease is not ours any more (S8).
    pub(super) fn lose_lease(
        &mut self,
        mut held: Box<Held>,
        Loss { reason, detail }: Loss,
        output: &mut Output,
    ) {
        self.memory.known = None;
        end_saves(held.saving.take().as_deref(), output);
        held.notice = None;
        let may_believe = match held.phase {
            // S13: its holder has ended it, and this is what became of the release.
            Phase::LastSave { .. } => {
                let detail = format!("{detail}; learned when it was released");
                output.tell(held.caller, Notice::Lost { reason, detail });
                false
            }
            Phase::Active | Phase::GracePeriod(GracePeriod::StreamBroken) => {
                output.tell(held.caller, Notice::Lost { reason, detail: detail.to_owned() });
                true
            }
            Phase::GracePeriod(
                GracePeriod::LossTold | GracePeriod::ShutdownTold | GracePeriod::LeaseLost,
            ) => true,
            Phase::Resting { .. } => false,
        };
        if may_believe && output.now < held.believed_until {
            held.phase = Phase::GracePeriod(GracePeriod::LeaseLost);
            self.state = State::Held(held);
        } else {
            self.state = State::ready(output.now);
        }
    }

    /// The validity last told to a holder that may not know is over (S13).
    pub(super) fn end_grace_period(
        &mut self,
        mut held: Box<Held>,
        period: GracePeriod,
        output: &mut Output,
    ) {
        let saving = held.saving.take();
        end_saves(saving.as_deref(), output);
        match period {
            GracePeriod::StreamBroken => {
                let detail = "the holder's stream broke and was not resumed in time".to_owned();
                let reason = LossReason::Expired;
                output.tell(held.caller, Notice::Lost { reason, detail });
                self.fade(held, saving.as_deref(), output);
            }
            GracePeriod::LossTold => self.end_unasked(*held, output),
            GracePeriod::ShutdownTold | GracePeriod::LeaseLost => {
                self.state = State::ready(output.now);
            }
        }
    }

    /// Ends a hold that its holder did not end. It may go on at another sidecar by now (S16), so it is not
    /// handed on here. A release goes by the record's version, which a resume elsewhere has changed; but
    /// somebody may still believe elsewhere in a hold that was resumed here a short while ago: its lease is
    /// left to run out.
    fn end_unasked(&mut self, held: Held, output: &mut Output) {
        if held.is_unsettled(output.now) {
            self.state = State::ready(output.now);
        } else {
            self.give_back(held, None, output);
        }
    }

    /// Hands the lock to the caller at the front without asking the store, or gives it back (S10). Only for a
    /// hold that its holder has ended.
    pub(super) fn hand_on_or_give_back(
        &mut self,
        mut held: Held,
        reply: Option<CallerId>,
        output: &mut Output,
    ) {
        if !self.may_hand_on(&held, output.now) {
            return self.give_back(held, reply, output);
        }
        self.handing_since.get_or_insert(output.now);
        let Some(token) = held.token.after_hand_off() else {
            // S5: the hand-offs of this epoch are used up; the next one is written under the same lease.
            tell_handed_on(reply, output);
            return self.next_epoch(&held, output);
        };
        let Some(waiter) = self.take_front() else {
            return self.give_back(held, reply, output);
        };
        debug_assert!(Some(token) > self.memory.highest, "S5: {token} does not grow");
        self.memory.highest = Some(token);
        held.token = token;
        held.caller = waiter.caller;
        let (max_hold, valid_until) = (waiter.terms.max_hold, held.renewal.valid_until());
        held.bounds = Bounds::new(&waiter.terms, max_hold, valid_until, output.now);
        held.terms = waiter.terms;
        held.acquired_at = held.store_time(output.now);
        held.granted_at = output.now;
        held.told_until = output.now;
        held.believed_until = output.now;
        held.settled_at = None;
        held.phase = Phase::Active;
        held.record_at = Some(output.now + RECORDED_AFTER);
        let (acquired_at, terms) = (held.acquired_at, Arc::clone(&held.terms));
        self.memory.handed = Some(Box::new(Handed { token, acquired_at, terms }));
        // Who gave the lock back has ended its belief, and is told so before the next one has it.
        tell_handed_on(reply, output);
        self.tell_granted(held, false, output);
    }

    /// Whether the lock may go to the caller at the front without asking the store.
    fn may_hand_on(&self, held: &Held, now: Instant) -> bool {
        let Some(front) = self.front() else { return false };
        // T6: what is decided is written before it is granted, and a run's record is not another's.
        let needs_no_write = front.terms.min_hold.is_zero()
            && !front.terms.decides
            && !held.terms.decides
            // S33, S34: what the record says of its holder must be true of the next one.
            && front.terms.record.sharing == held.terms.record.sharing;
        let limit = self.hand_off_limit(held);
        let enough = self.handing_since.is_some_and(|since| now.saturating_since(since) >= limit);
        let fits = needs_no_write && held.suits(&front.terms);
        fits && self.is_sound(held, now) && !enough && !self.shutdown.is_under_way()
    }

    /// Writes a new epoch for the caller at the front, under the lease that is had (S5).
    fn next_epoch(&mut self, held: &Held, output: &mut Output) {
        let etag = self.memory.known.as_ref().map(Known::etag);
        for request in held.renewal.unanswered() {
            let duration = held.renewal.lease_duration();
            self.abandoned.keep(request, held.lease_id, etag.clone(), duration);
        }
        let sent = held.renewal.good_sent();
        let since_sent = output.now.saturating_since(sent);
        let time = held.store_time(output.now);
        let lease = Leased {
            lease_id: held.lease_id,
            sent,
            good_sent: sent,
            duration: held.renewal.lease_duration(),
            time: time.saturating_sub(since_sent),
            heard: sent,
            given_up: held.renewal.given_up(),
            may_be_broken: false,
            rest_until: None,
        };
        self.record_had(lease, None, output);
    }

    /// Gives the lease of a hold back to the store.
    pub(super) fn give_back(&mut self, held: Held, reply: Option<CallerId>, output: &mut Output) {
        let lease_duration = held.renewal.lease_duration();
        let rest_ends = held.bounds.recorded_rest_ends();
        let resting_until = (output.now < rest_ends).then_some(rest_ends);
        let released = self.released_hold(&held, reply, resting_until);
        debug_assert!(
            released.if_match.is_some(),
            "a hold's record is known while its lease is ours"
        );
        for request in held.renewal.unanswered() {
            self.abandoned.keep(request, held.lease_id, released.if_match.clone(), lease_duration);
        }
        self.memory.tenure.released(released.if_match.as_ref(), output.now);
        let stands_back_for = self.stands_back_for(&held, output.now);
        let releasing = Releasing::held(&held, released);
        self.release(Releasing { stands_back_for, ..releasing }, output);
    }

    fn released_hold(
        &self,
        held: &Held,
        caller: Option<CallerId>,
        resting_until: Option<Instant>,
    ) -> Released {
        Released {
            caller,
            if_match: self.memory.known.as_ref().map(Known::etag),
            token: held.token,
            generation: held.generation,
            resting_until,
            proven_until: held.renewal.valid_until(),
        }
    }
}

/// Who gave the lock back is told so before the next caller here is told that it has it.
fn tell_handed_on(former: Option<CallerId>, output: &mut Output) {
    if let Some(caller) = former {
        output.tell(caller, Notice::Released { resting_until: None });
    }
}

/// How long a hold that was renewed once more is still answered for. A client on another kernel may count the
/// renewal only from a request of its own (S21), and sends one when it hears of it.
const ASKING: Duration = Duration::from_secs(1);

/// How the sidecar ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// It does not, yet.
    None,
    /// Holders are waited for, and the rest told lost.
    Drain,
    /// A replacement follows. Boxed: every machine has room for it, and few hand over.
    HandOver(Box<Limits>),
}

/// Until when a machine that hands over waits for what is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// What is not settled by then is left to the replacement, or to run out.
    until: Instant,
    /// The same for a hold that was renewed once more: its client has had the time to ask by then.
    asked_until: Option<Instant>,
}

impl Shutdown {
    /// Whether nobody is served any more.
    pub(super) const fn is_under_way(&self) -> bool {
        match self {
            Self::None => false,
            Self::Drain | Self::HandOver(_) => true,
        }
    }

    pub(super) const fn hands_over(&self) -> bool {
        matches!(self, Self::HandOver(_))
    }

    /// When everything is left to the replacement that is not settled by then.
    fn left_to_replacement_at(&self, is_held: bool) -> Option<Instant> {
        match self {
            Self::None | Self::Drain => None,
            Self::HandOver(limits) => {
                let asked_until = limits.asked_until.filter(|_| is_held);
                Some(asked_until.map_or(limits.until, |asked| asked.min(limits.until)))
            }
        }
    }

    /// A hold was renewed once more: its client may ask about it until `at`.
    fn renewed(&mut self, at: Instant) {
        match self {
            Self::None | Self::Drain => {}
            Self::HandOver(limits) => limits.asked_until = Some(at),
        }
    }
}

impl Hold {
    /// Waits end; whoever holds is told, and has until `ends`.
    pub(super) fn start_draining(&mut self, ends: Instant, output: &mut Output) {
        self.shutdown = Shutdown::Drain;
        self.drain_resume(output);
        self.drain_holder(ends, output);
    }

    fn drain_holder(&mut self, ends: Instant, output: &mut Output) {
        if let Some(held) = self.held().filter(|held| held.phase == Phase::Active) {
            output.tell(held.caller, Notice::Draining { ends });
        }
        let rests = |held: &Held| matches!(held.phase, Phase::Resting { .. });
        // The end of the rest is in the record, so the lease is not needed to keep it (S11).
        if let Some(held) = self.take_held(output.now, rests) {
            self.give_back(*held, None, output);
        }
    }

    /// The drain period is over: the rest are told (S15).
    pub(super) fn shut_down_holder(&mut self, output: &mut Output) {
        if let Some(held) = self.take_held(output.now, |held| held.phase == Phase::Active) {
            let detail = "the sidecar shut down and the drain period is over".to_owned();
            self.lose(held, LossReason::Shutdown, detail, output);
        }
    }

    /// Waits end; a hold is renewed once more; what is being acquired or released is settled, or left to run
    /// out (S13).
    pub(super) fn start_hand_over(&mut self, ends: Instant, output: &mut Output) {
        let until = ends.min(self.settled_by(output.now));
        self.shutdown = Shutdown::HandOver(Box::new(Limits { until, asked_until: None }));
        self.drain_resume(output);
        let Some(mut held) = self.take_held(output.now, |_| true) else { return };
        match held.phase {
            Phase::Active if held.is_renewed() => {
                held.renewal.renew_now(output.now);
                self.state = State::Held(held);
            }
            // S22, S26: what cannot be taken along has until the hand-over is over.
            Phase::Active if held.notice.is_some() || held.is_saving() => {
                self.state = State::Held(held);
            }
            Phase::LastSave { .. } => self.state = State::Held(held),
            // The end of the rest is in the record, so the lease is not needed to keep it (S11).
            Phase::Resting { .. } => self.give_back(*held, None, output),
            Phase::Active | Phase::GracePeriod(_) => self.leave_to_replacement(&held, output),
        }
    }

    /// A sixth of the lease: then a holder that could not be renewed has half of its validity left to come
    /// back with.
    fn settled_by(&self, now: Instant) -> Instant {
        let lease_duration = match &self.state {
            State::Idle { retry: None, .. } | State::Resuming(_) => return now,
            State::Idle { retry: Some(retry), .. } => retry.duration,
            State::Acquiring(attempt) => match &**attempt {
                Attempt::Acquire { retry, .. } | Attempt::ReadHolder { retry, .. } => {
                    retry.duration
                }
                Attempt::Leased { lease, .. } => lease.duration,
            },
            State::Held(held) => held.renewal.lease_duration(),
            State::Releasing(releasing) => releasing.lease_duration,
        };
        now + lease_duration / 6
    }

    /// A renewal has succeeded during the hand-over, and its holder has a moment to ask what that gave it.
    /// The answer to one that was cut off is old: another is asked for.
    pub(super) fn renewed_once_more(
        &mut self,
        mut held: Box<Held>,
        old: bool,
        output: &mut Output,
    ) {
        if old {
            held.renewal.renew_now(output.now);
        } else {
            self.shutdown.renewed(output.now + ASKING);
        }
        self.state = State::Held(held);
    }

    /// When what the machine is about is left to the replacement.
    pub(super) fn left_to_replacement_at(&self) -> Option<Instant> {
        self.shutdown.left_to_replacement_at(matches!(self.state, State::Held(_)))
    }

    /// What needs no more waiting for, or has no more time, is left to the replacement.
    pub(super) fn advance_hand_over(&mut self, output: &mut Output) {
        let Some(until) = self.left_to_replacement_at() else { return };
        let is_over = output.now >= until;
        match self.take_state(output.now) {
            // S4: a hold whose validity is over is lost, and told so.
            State::Held(held) if held.phase == Phase::Active => {
                if is_over && output.now < held.valid_until() {
                    self.leave_to_replacement(&held, output);
                } else {
                    self.state = State::Held(held);
                }
            }
            State::Held(held) if !is_over && matches!(held.phase, Phase::LastSave { .. }) => {
                self.state = State::Held(held);
            }
            State::Held(held) => self.leave_to_replacement(&held, output),
            // Whether the store has the lease back is not known; if not, it runs out.
            State::Releasing(releasing) if is_over => {
                let caller = releasing.hold.as_ref().and_then(|hold| hold.caller);
                tell_interrupted(caller, output);
            }
            // S6: nobody was granted anything under it.
            State::Acquiring(attempt) if is_over => self.drop_attempt(*attempt, output),
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Releasing(_)
            | State::Resuming(_)) => self.state = other,
        }
    }

    /// S13, S16: its client may go on with it elsewhere from now on, so nothing that is answered late
    /// releases it.
    fn leave_to_replacement(&mut self, held: &Held, output: &mut Output) {
        end_saves(held.saving.as_deref(), output);
        tell_interrupted(held.may_be_told().then_some(held.caller), output);
        self.leave_to_run_out(held.lease_id, output);
    }
}

fn tell_interrupted(caller: Option<CallerId>, output: &mut Output) {
    if let Some(caller) = caller {
        output.tell(caller, Notice::Interrupted);
    }
}
