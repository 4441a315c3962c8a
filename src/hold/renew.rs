//! Renewals are sent, and their answers taken: what one means is in `renewal_answered`, and in
//! `settle_answered` where the record has changed (S2, S3, S7 to S9). When one is due, and when the holder is
//! warned, says `renewal.rs`.

use std::time::Duration;

use super::action::{Loss, Notice, Output, Remark, Request};
use super::event::{Failure, RequestId, StoreFailure, Stored};
use super::exchange::RecordOwner;
use super::held::{Held, Phase, StoreClock};
use super::memory::Known;
use super::renewal::{Answered, cut_off};
use super::{Hold, State};
use crate::record::Record;
use crate::time::{Instant, UnixMillis};

/// A round trip within which the store's clock is read well enough.
const PROMPT: Duration = Duration::from_secs(2);

impl Hold {
    /// What was asked of the store beside the saves and is not answered in its time is given up: a renewal,
    /// and the read after one. Saves wait for both (S26).
    pub(super) fn give_up_overdue(&mut self, held: &mut Held, output: &mut Output) {
        if let Some(missed) = held.renewal.cut_off_overdue(output.now, &mut self.jitter) {
            output.report(Remark::Renewal {
                latency: None,
                lateness: missed.lateness,
                failure: Some(Failure::Unknown(StoreFailure::unanswered("renewal"))),
            });
        }
        held.settling.take_if(|settling| settling.is_over(output.now));
    }

    pub(super) fn renew(&mut self, held: &mut Held, output: &mut Output) {
        let saving = held.saving.as_ref().is_some_and(|saving| saving.is_in_flight());
        if held.renewal.is_due(output.now) && !saving {
            let request = self.next_request();
            held.renewal.sent(request, output.now);
            let timeout = cut_off(held.renewal.lease_duration());
            let if_match = self.memory.known.as_ref().map(Known::etag);
            output.ask(request, Request::Renew { lease_id: held.lease_id, if_match }, timeout);
        }
        if let Some((kind, detail)) = held.renewal.warn(held.terms.auto_renew, output.now)
            && held.phase == Phase::Active
        {
            let (caller, valid_until) = (held.caller, held.tell_validity(output.now));
            output.tell(caller, Notice::AtRisk { valid_until, kind, detail });
        }
    }

    pub(super) fn renew_answered(
        &mut self,
        request: RequestId,
        answer: Result<UnixMillis, Failure>,
        output: &mut Output,
    ) {
        match self.take_state(output.now) {
            State::Held(mut held) => match held.renewal.answered(request, output.now) {
                Some(answered) => self.renewal_answered(held, answered, answer, output),
                None => {
                    self.state = State::Held(held);
                    self.late_answer(request, answer.is_ok(), output);
                }
            },
            State::Resuming(resuming) => {
                self.resume_renew_answered(resuming, request, answer, output);
            }
            State::Acquiring(attempt) => self.proof_answered(*attempt, request, answer, output),
            other @ (State::Idle { .. } | State::Releasing(_)) => {
                self.state = other;
                // S4: a renewal that succeeds after the hold was lost is released, not kept.
                self.late_answer(request, answer.is_ok(), output);
            }
        }
    }

    /// S7: waiting for the turn is no try, so nothing is cut off and nothing counts from it.
    pub(super) fn renew_held_back(&mut self, request: RequestId, output: &mut Output) {
        if let State::Held(held) = &mut self.state
            && held.renewal.held_back(request, output.now)
        {
            return;
        }
        self.late_answer(request, false, output);
    }

    pub(super) fn renew_turn_came(&mut self, now: Instant) {
        if let State::Held(held) = &mut self.state {
            held.renewal.turn_came(now);
        }
    }

    fn renewal_answered(
        &mut self,
        mut held: Box<Held>,
        answered: Answered,
        answer: Result<UnixMillis, Failure>,
        output: &mut Output,
    ) {
        // A try that was cut off has been reported and repeated: of its answer only the definite counts.
        if !answered.cut_off || answer.is_ok() {
            output.report(Remark::Renewal {
                latency: Some(output.now.saturating_since(answered.sent)),
                lateness: answered.lateness,
                failure: answer.as_ref().err().cloned(),
            });
        }
        let failure = match answer {
            Ok(time) => {
                // An answer that was long under way tells the time of long ago.
                if output.now.saturating_since(answered.sent) <= PROMPT {
                    held.store_clock = StoreClock { heard: output.now, time };
                }
                let recovered = held.renewal.succeeded(answered.sent, &mut self.jitter);
                tell_renewed(&mut held, recovered, output);
                if self.shutdown.hands_over() {
                    return self.renewed_once_more(held, answered.cut_off, output);
                }
                self.state = State::Held(held);
                return;
            }
            // S22: it may still run out. Who is gone or has been told the end is not told that.
            Err(Failure::Broken) if held.phase.is_open() => {
                return self.break_met(held, output);
            }
            Err(failure) => failure,
        };
        if let Some(loss) = failure.loss() {
            return self.lose_lease(held, loss, output);
        }
        let has_changed = failure == Failure::Changed;
        if !answered.cut_off {
            held.renewal.failed(failure, output.now, &mut self.jitter);
        }
        if has_changed && held.notice.is_none() {
            // It went on elsewhere, or it was a late write of ours (S16).
            let lease_duration = held.renewal.lease_duration();
            held.settling = Some(Box::new(self.send(Request::Read, lease_duration, output)));
        }
        self.state = State::Held(held);
    }

    /// The record was read because a renewal met another version than ours. An unknown outcome needs no
    /// repeat: the next renewal meets the change again.
    pub(super) fn settle_answered(
        &mut self,
        mut held: Box<Held>,
        request: RequestId,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        if Self::settles_save(&held, request) {
            return self.save_settled(held, answer, output);
        }
        if !held.settling.as_ref().is_some_and(|settling| settling.is(request)) {
            self.state = State::Held(held);
            return;
        }
        held.settling = None;
        let stored = match answer {
            Ok(stored) => stored,
            Err(Failure::Deleted) => {
                return self.lose_lease(held, Loss::DELETED, output);
            }
            // It says nothing of the lock.
            Err(_) => {
                self.state = State::Held(held);
                return;
            }
        };
        let record = Record::from_fields(&stored.fields);
        // S5: without its token the record is this hold's no more, whatever else of it is still there.
        let owner = held.owner(&record);
        if !held.is_outdated(request) {
            self.learn(stored, output.now);
        }
        match owner {
            RecordOwner::ThisHold => {
                held.renewal.renew_now(output.now);
                self.state = State::Held(held);
            }
            // S16: it went on elsewhere, so it is not lost.
            RecordOwner::MovedOn => self.moved_on(&held, output),
            RecordOwner::Another => self.lose_lease(held, Loss::TAKEN, output),
        }
    }
}

impl Hold {
    /// Another clock shows a pause that ours may not have counted: the store's answer decides about what was
    /// sent for before (S3).
    pub(super) fn suspect_pause(&mut self, now: Instant) {
        self.rare.get_or_insert_default().suspected_at = Some(now);
        if let State::Held(held) = &mut self.state {
            let was_renewed = held.is_renewed();
            held.renewal.suspect(was_renewed, now, &mut self.jitter);
            if let Some(notice) = &mut held.notice {
                notice.look_now(now);
            }
        }
    }

    /// Whether a pause was suspected since `sent`, when a lease was acquired or renewed: then nobody is
    /// granted anything under it before it was renewed again (S3).
    pub(super) fn is_unproven(&self, sent: Instant) -> bool {
        self.rare.as_ref().and_then(|rare| rare.suspected_at).is_some_and(|at| sent < at)
    }

    /// Whether the lease of a hold is ours beyond doubt, and for long enough to serve another caller under
    /// it.
    pub(super) fn is_sound(&self, held: &Held, now: Instant) -> bool {
        let sent = held.renewal.good_sent();
        !self.is_unproven(sent) && !self.may_be_broken_since(sent) && held.is_settled(now)
    }
}

/// Who is silent is told nothing, so the validity that it was told stays what it is (S14).
fn tell_renewed(held: &mut Held, recovered: bool, output: &mut Output) {
    // S22: what the store has renewed before the break counts until the holder is told its deadline.
    if held.phase != Phase::Active || held.deadline().is_some() {
        return;
    }
    let (caller, valid_until) = (held.caller, held.tell_validity(output.now));
    let notice = match recovered {
        true => Notice::Recovered { valid_until },
        false => Notice::Renewed { valid_until },
    };
    output.tell(caller, notice);
}
