//! A lease that was broken: the notice to its holder, and breaks that are under way through this sidecar
//! (S17, S22). Such a break is an operator's (`broken_here` in `held.rs`) or for a caller that waits here
//! (`break_answered` in `preempt.rs`). Where the lease runs out, both come to `broken_here_softly`, and are
//! `Met::Operator`.

use std::time::Duration;

use super::exchange::{Exchange, RecordOwner, margin};
use super::held::{BreakNotice, GracePeriod, Held, Met, Phase};
use super::preempt::{EAGER_BEYOND, Overruling};
use super::words::{Failure, Look, Loss, Notice, Output, Request, RequestId};
use super::{Hold, State};
use crate::record::{Record, Reserved};
use crate::time::Instant;

/// The shortest time between two looks at a lease that runs out.
const LEAST_BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Looks in a row without an answer that end the hold: a later break may have ended the lease at once.
const MISSED_LOOKS: u8 = 2;

impl Held {
    /// Whether the lock is to be kept for who had it broken, and was not yet by the end of this hold (S33).
    pub(super) fn reserves_at_end(&self, now: Instant) -> bool {
        let done = self.saving.as_ref().is_some_and(|saving| saving.is_reserved_at_end());
        !done
            && self.notice.as_ref().is_some_and(|notice| notice.for_priority.is_some())
            && now < self.renewal.valid_until()
    }

    /// For whom the lock is kept once this hold is over, as is written while its lease runs out (S33): until
    /// shortly after the release, or after the end of the lease where the hold goes on.
    pub(super) fn reservation(&self, poll_cap: Duration, now: Instant) -> Option<Box<Reserved>> {
        let priority = self.notice.as_ref()?.for_priority?;
        let lease_duration = self.renewal.lease_duration();
        let lasts = match self.phase {
            Phase::LastSave { .. } => Duration::ZERO,
            // It goes back then.
            Phase::GracePeriod(GracePeriod::LossTold) => self.believed_until.saturating_since(now),
            Phase::Active | Phase::Resting { .. } | Phase::GracePeriod(_) => {
                self.renewal.valid_until().saturating_since(now) + margin(lease_duration)
            }
        };
        let span = lasts + poll_cap + EAGER_BEYOND;
        let until = self.store_time(now) + span;
        let for_millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Some(Box::new(Reserved { priority, until, for_millis }))
    }
}

/// How long a look is waited for, and how long after one the next is due.
fn between_looks(lease_duration: Duration) -> Duration {
    (lease_duration / 30).max(LEAST_BETWEEN_LOOKS)
}

impl Hold {
    /// A renewal met a broken lease: what the note says decides.
    pub(super) fn break_met(&mut self, held: Box<Held>, output: &mut Output) {
        self.begin_notice(held, Met::Renewal, output);
    }

    /// The lock was broken through this sidecar, by an operator or for a caller that waits here, so that its
    /// lease runs out.
    pub(super) fn broken_here_softly(&mut self, held: Box<Held>, output: &mut Output) {
        self.begin_notice(held, Met::Operator, output);
    }

    fn begin_notice(&mut self, mut held: Box<Held>, met: Met, output: &mut Output) {
        match &mut held.notice {
            Some(notice) => notice.met = met,
            none => {
                let look = Exchange::Waiting { at: output.now };
                *none = Some(Box::new(BreakNotice {
                    met,
                    told: None,
                    look,
                    missed: 0,
                    for_priority: None,
                }));
            }
        }
        // Who has ended its hold is told nothing of it: its last save and its release are for the store to
        // take.
        let held = match held.phase {
            Phase::Active => self.watch_break(held, output),
            Phase::LastSave { .. } | Phase::Resting { .. } | Phase::GracePeriod(_) => Some(held),
        };
        if let Some(held) = held {
            self.state = State::Held(held);
        }
    }

    /// Looks at a broken lease when that is due. None if the hold has ended.
    pub(super) fn watch_break(
        &mut self,
        mut held: Box<Held>,
        output: &mut Output,
    ) -> Option<Box<Held>> {
        let interval = between_looks(held.renewal.lease_duration());
        let Some(notice) = &mut held.notice else { return Some(held) };
        if !notice.look.is_over(output.now) {
            return Some(held);
        }
        if notice.look.is_sent() {
            notice.missed += 1;
            if notice.missed >= MISSED_LOOKS {
                self.lose_lease(held, UNSEEN, output);
                return None;
            }
        }
        let request = self.next_request();
        let note = notice.told.is_none();
        output.ask(request, Request::Look { note }, interval);
        notice.look = Exchange::Sent { request, until: output.now + interval };
        Some(held)
    }

    pub(super) fn look_answered(
        &mut self,
        request: RequestId,
        answer: Result<Look, Failure>,
        output: &mut Output,
    ) {
        let is_asked = |held: &Held| {
            let expects = held.notice.as_ref().is_some_and(|notice| notice.expects(request));
            held.phase == Phase::Active && expects
        };
        let Some(held) = self.take_held(output.now, is_asked) else { return };
        match answer {
            Ok(look) => self.looked(held, request, look, output),
            Err(failure) => self.look_failed(held, &failure, output),
        }
    }

    fn looked(&mut self, mut held: Box<Held>, request: RequestId, look: Look, output: &mut Output) {
        let record = Record::from_fields(&look.stored.fields);
        match held.owner(&record) {
            RecordOwner::ThisHold => {}
            RecordOwner::MovedOn => return self.moved_on(&held, output),
            RecordOwner::Another => return self.lose_lease(held, Loss::TAKEN, output),
        }
        let free = look.stored.free;
        if !held.is_outdated(request) {
            self.learn(look.stored, output.now);
        }
        let interval = between_looks(held.renewal.lease_duration());
        let token = held.token;
        let Some(notice) = &mut held.notice else {
            self.state = State::Held(held);
            return;
        };
        notice.missed = 0;
        notice.look = Exchange::Waiting { at: output.now + interval };
        let runs_out = look.breaking
            && (notice.told.is_some()
                || look.note.is_some_and(|note| {
                    note.runs_out && note.token.map(|token| token.epoch()) == Some(token.epoch())
                }));
        if let Some((priority, _)) = look.note.and_then(|note| note.for_priority) {
            notice.for_priority = Some(priority);
        }
        if runs_out {
            self.tell_revoked(held, output);
        } else if !look.breaking && !free && notice.met == Met::Operator && notice.told.is_none() {
            // It was another's lease that was broken: the next renewal shows whether ours goes on.
            held.notice = None;
            held.renewal.renew_now(output.now);
            self.state = State::Held(held);
        } else {
            self.lose_lease(held, Loss::BROKEN, output);
        }
    }

    fn look_failed(&mut self, mut held: Box<Held>, failure: &Failure, output: &mut Output) {
        if *failure == Failure::Deleted {
            return self.lose_lease(held, Loss::DELETED, output);
        }
        let interval = between_looks(held.renewal.lease_duration());
        let Some(notice) = &mut held.notice else {
            self.state = State::Held(held);
            return;
        };
        notice.missed += 1;
        if notice.missed >= MISSED_LOOKS {
            return self.lose_lease(held, UNSEEN, output);
        }
        notice.look = Exchange::Waiting { at: output.now + interval };
        self.state = State::Held(held);
    }

    /// The holder keeps the validity that it has, and is told that it is the last.
    fn tell_revoked(&mut self, mut held: Box<Held>, output: &mut Output) {
        let valid_until = held.tell_validity(output.now);
        if let Some(notice) = &mut held.notice
            && notice.told.is_none()
        {
            notice.told = Some(valid_until);
            let reserves = notice.for_priority.is_some();
            output.tell(held.caller, Notice::Revoked { valid_until });
            if reserves {
                held.saving.get_or_insert_default().reserve(output.now);
            }
        }
        self.state = State::Held(held);
    }
}

/// Why a hold is lost whose broken lease could not be looked at.
const UNSEEN: Loss =
    Loss { detail: "the lease was broken, and the store could not be asked how", ..Loss::BROKEN };

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
    /// What is known of them at a lock of which is remembered whether one that was given up may arrive.
    pub(super) fn remembered(may_arrive: bool) -> Self {
        Self { late: may_arrive.then_some(RequestId(0)), ..Self::default() }
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
        let breaks = &mut self.rare.get_or_insert_default().breaks;
        breaks.under_way = breaks.under_way.saturating_add(1);
    }

    /// That break is over here; `may_arrive`: though its outcome is not known.
    pub(super) fn break_over(&mut self, may_arrive: bool, now: Instant) {
        let breaks = &mut self.rare.get_or_insert_default().breaks;
        breaks.under_way = breaks.under_way.saturating_sub(1);
        self.break_ended(may_arrive, now);
    }

    /// A break from here has ended, and may have been done by now; `may_arrive`: or may be done yet.
    pub(super) fn break_ended(&mut self, may_arrive: bool, now: Instant) {
        let last = RequestId(self.requests);
        let breaks = &mut self.rare.get_or_insert_default().breaks;
        breaks.over_at = Some(now);
        if may_arrive {
            breaks.late = Some(last);
        }
    }

    /// A break for a waiting caller was not answered in its time. Who sends it may be at it for longer: a
    /// timer of the runtime stands still while the computer sleeps.
    pub(super) fn break_unanswered(&mut self) {
        let breaks = &mut self.rare.get_or_insert_default().breaks;
        breaks.unanswered = breaks.unanswered.saturating_add(1);
    }

    /// That break was answered after all; `may_arrive`: so that its outcome is not known.
    pub(super) fn break_answered_late(&mut self, may_arrive: bool, now: Instant) {
        let breaks = &mut self.rare.get_or_insert_default().breaks;
        breaks.unanswered = breaks.unanswered.saturating_sub(1);
        self.break_ended(may_arrive, now);
    }

    /// The record was written by this request: what was given up before it was sent comes too late from now
    /// on, and what came before is shown by the next renewal.
    pub(super) fn record_written(&mut self, request: RequestId, now: Instant) {
        let Some(rare) = &mut self.rare else { return };
        if rare.breaks.late.is_some_and(|last| request > last) {
            rare.breaks.late = None;
            rare.breaks.over_at = Some(now);
        }
    }

    /// Whether an operator's break is under way.
    pub(super) fn is_being_broken(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.breaks.under_way > 0)
    }

    /// Whether a break from here has ended since `sent`: it may have ended the lease after what was sent then
    /// was done.
    pub(super) fn was_broken_since(&self, sent: Instant) -> bool {
        let over_at = self.rare.as_ref().and_then(|rare| rare.breaks.over_at);
        over_at.is_some_and(|at| sent < at)
    }

    /// Whether a break from here may have met the lease that was acquired or renewed by a request of `sent`,
    /// or may yet.
    pub(super) fn may_be_broken_since(&self, sent: Instant) -> bool {
        let Some(breaks) = self.rare.as_ref().map(|rare| rare.breaks) else { return false };
        self.is_being_broken()
            || self.overruling().is_some_and(Overruling::is_breaking)
            || breaks.may_arrive()
            || breaks.over_at.is_some_and(|at| sent <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s17_nothing_is_remembered_once_no_break_matters() {
        let none = Breaks::default();
        assert!(none.is_none());
        let some = [
            Breaks { under_way: 1, ..none },
            Breaks { unanswered: 1, ..none },
            Breaks { over_at: Some(Instant::default()), ..none },
            Breaks { late: Some(RequestId(1)), ..none },
        ];
        assert!(some.iter().all(|breaks| !breaks.is_none()));
    }
}
