//! A hold: from its grant to its end, and on to the next holder (S4, S9, S10, S11, S13, S14).

use std::sync::Arc;

use super::action::{Action, Granted, LossReason};
use super::bounds::Bounds;
use super::event::{CallerId, Failure, Request, Resume, Stored, Terms, Trouble};
use super::granting::Leased;
use super::releasing::TAKEN;
use super::renewal::{Answered, Renewal};
use super::turn::Turn;
use super::validity::{cut_off, slowness};
use super::{Hold, State};
use crate::lock::{FencingToken, LeaseId, Record};
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
    pub(super) attempt: String,
    /// S16: until then somebody may still believe in the hold elsewhere; only a release that carries its generation
    /// ends it early. None for a hold that was not resumed.
    pub(super) settled_at: Option<Instant>,
    /// When the record was last written for this hold or the one before it under this lease.
    pub(super) written_at: Instant,
    /// The record is read to see whether a change of it was ours (S16).
    pub(super) settling: Option<Request>,
    pub(super) caller: CallerId,
    pub(super) terms: Arc<Terms>,
    pub(super) bounds: Bounds,
    pub(super) acquired_at: UnixMillis,
    pub(super) granted_at: Instant,
    /// The latest validity that this holder was told.
    pub(super) told_until: Instant,
    /// S13: until when it may believe in that, also by a slow clock elsewhere.
    pub(super) believed_until: Instant,
    pub(super) phase: Phase,
}

/// What the holder is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has the lock.
    Active,
    /// It gave the lock back before `min_hold` was over (S11).
    Resting { until: Instant },
    /// It may still believe in its hold; nobody gets the lock before that is over (S13, S14).
    Fading(Fading),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fading {
    /// Its stream ended without a word: it may come back (S14, S16).
    Silent,
    /// It was told that the hold is over; the lease is still ours.
    Told,
    /// As `Told`, and the lease is left to run out, because the sidecar ends first (S15).
    ToldAtShutdown,
    /// It was told that the hold is over; the lease is ours no more.
    Bereft,
}

/// What callers may know of a hold here.
#[derive(Clone, Debug)]
pub struct Holding {
    /// Who.
    pub caller: CallerId,
    /// Its token.
    pub token: FencingToken,
    /// When it was granted, by the store's clock.
    pub acquired_at: UnixMillis,
    /// When it was granted.
    pub granted_at: Instant,
    /// The end of the holder's validity.
    pub valid_until: Instant,
    /// Its terms.
    pub terms: Arc<Terms>,
    /// Until when the lock rests, if its holder gave it back (S11).
    pub resting_until: Option<Instant>,
    /// Whether the holder has it: false while it rests or fades.
    pub active: bool,
}

impl Held {
    pub(super) fn valid_until(&self) -> Instant {
        self.bounds.limit(self.renewal.valid_until())
    }

    /// The validity to tell now. What was told once is not taken back: nobody else gets the lock before (S13).
    pub(super) fn tell_validity(&mut self, now: Instant) -> Instant {
        let until = self.valid_until();
        self.told_until = self.told_until.max(until);
        self.believed_until = self.believed_until.max(until + slowness(until - now));
        until
    }

    pub(super) fn is_renewed(&self) -> bool {
        match self.phase {
            Phase::Active => self.terms.auto_renew,
            Phase::Resting { .. } => true,
            Phase::Fading(_) => false,
        }
    }

    /// Whether somebody may still believe in this hold elsewhere, since it was resumed a short while ago (S16).
    pub(super) fn is_unsettled(&self, now: Instant) -> bool {
        self.settled_at.is_some_and(|at| now < at)
    }

    pub(super) fn granted(&mut self, resumed: bool, now: Instant) -> Granted {
        Granted {
            token: self.token,
            generation: self.generation,
            max_hold_ends: self.bounds.max_hold_ends(),
            min_hold_ends: self.bounds.min_hold_ends(),
            lease_id: self.lease_id,
            lease_duration: self.renewal.lease_duration(),
            valid_until: self.tell_validity(now),
            acquired_at: self.acquired_at,
            store_time: self.store_time(now),
            resumed,
        }
    }

    /// The store's clock now, as nearly as it is known.
    pub(super) fn store_time(&self, now: Instant) -> UnixMillis {
        self.acquired_at + now.saturating_since(self.granted_at)
    }

    pub(super) fn next_wakeup(&self) -> Instant {
        match self.phase {
            Phase::Fading(fading) => self.faded_at(fading),
            Phase::Resting { until } => self.with_renewal(until.min(self.renewal.valid_until())),
            Phase::Active => self.with_renewal(self.valid_until()),
        }
    }

    /// When a holder that fades is told so, or is known not to believe any more.
    const fn faded_at(&self, fading: Fading) -> Instant {
        match fading {
            Fading::Silent => self.told_until,
            Fading::Told | Fading::ToldAtShutdown | Fading::Bereft => self.believed_until,
        }
    }

    fn with_renewal(&self, end: Instant) -> Instant {
        if self.is_renewed() { end.min(self.renewal.next_wakeup()) } else { end }
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
                Phase::Active | Phase::Fading(_) => None,
            },
            active: self.phase == Phase::Active,
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

    pub(super) fn is_active(&self, caller: CallerId) -> bool {
        self.caller == caller && self.phase == Phase::Active
    }

    pub(super) fn repeats(&self, terms: &Terms) -> bool {
        self.phase == Phase::Active
            && !terms.request_id.is_empty()
            && self.terms.request_id == terms.request_id
    }

    /// Why the clock ends this hold now.
    fn end_by_the_clock(&self, now: Instant) -> (LossReason, &'static str) {
        let renewed = self.terms.auto_renew;
        let expired = if renewed { LossReason::Expired } else { LossReason::MaxHoldReached };
        let reason = self.bounds.passed(now).unwrap_or(expired);
        let detail = match reason {
            LossReason::NoProgress => "the holder reported no progress in time",
            LossReason::MaxHoldReached if renewed => "the hold lasted as long as max_hold allows",
            LossReason::MaxHoldReached => {
                "auto_renew is off, and the lease duration or max_hold is over"
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
    /// Grants the lock under a new lease to the caller at the front, which the record was written for.
    pub(super) fn grant_new(&mut self, lease: Leased, token: FencingToken, turn: &mut Turn) {
        debug_assert!(turn.now < lease.valid_until(), "S2: the lease has run out");
        debug_assert!(Some(token) >= self.memory.highest, "S5: {token} does not grow");
        let Some(waiter) = self.waiters.pop() else {
            return self.release_unused(lease, turn);
        };
        self.memory.highest = self.memory.highest.max(Some(token));
        self.late.forget(lease.lease_id);
        let held = Held {
            lease_id: lease.lease_id,
            renewal: Renewal::new(lease.duration, lease.sent, &mut self.jitter),
            token,
            generation: self.generation_stored(),
            attempt: String::new(),
            settled_at: None,
            written_at: turn.now,
            settling: None,
            caller: waiter.caller,
            // S11: `max_hold` and the rest run from the grant.
            bounds: Bounds::new(&waiter.terms, turn.now),
            terms: waiter.terms,
            acquired_at: lease.time,
            granted_at: turn.now,
            told_until: turn.now,
            believed_until: turn.now,
            phase: Phase::Active,
        };
        self.tell_granted(held, false, turn);
    }

    /// The generation that the record has, as we wrote it (S16).
    fn generation_stored(&self) -> u64 {
        self.memory.known.as_ref().map_or(1, |known| known.record().generation.max(1))
    }

    /// Goes on with a hold whose lease was renewed by a request sent at `renewed`, and whose record was just written
    /// again (S16).
    pub(super) fn grant_resumed(
        &mut self,
        caller: CallerId,
        (resume, bounds): (Resume, Option<Bounds>),
        renewed: Instant,
        turn: &mut Turn,
    ) {
        let lease_duration = resume.terms.lease_duration;
        let held = Held {
            lease_id: resume.lease_id,
            renewal: Renewal::new(lease_duration, renewed, &mut self.jitter),
            token: resume.token,
            generation: self.generation_stored(),
            attempt: resume.attempt,
            // Renewals elsewhere carry If-Match on a version from before our write, so no validity that was told
            // elsewhere outlives it by D.
            settled_at: Some(turn.now + lease_duration),
            written_at: turn.now,
            settling: None,
            caller,
            bounds: bounds.unwrap_or_else(|| Bounds::new(&resume.terms, turn.now)),
            terms: resume.terms,
            acquired_at: resume.acquired_at,
            granted_at: turn.now,
            told_until: turn.now,
            // S13: what it was told before it came here counts too.
            believed_until: resume.believed_until.max(turn.now),
            phase: Phase::Active,
        };
        self.tell_granted(held, true, turn);
    }

    pub(super) fn tell_granted(&mut self, mut held: Held, resumed: bool, turn: &mut Turn) {
        debug_assert!(!self.draining, "S15: nothing is granted while the sidecar shuts down");
        self.trouble = None;
        turn.push(Action::TellGranted {
            caller: held.caller,
            grant: held.granted(resumed, turn.now),
        });
        self.state = State::Held(Box::new(held));
        self.tell_taken(turn);
    }

    pub(super) fn pass_held(&mut self, mut held: Box<Held>, turn: &mut Turn) {
        let now = turn.now;
        match held.phase {
            Phase::Fading(fading) if now >= held.faded_at(fading) => {
                return self.faded(held, fading, turn);
            }
            Phase::Resting { .. } if now >= held.renewal.valid_until() => {
                return self.give_back(*held, None, turn);
            }
            Phase::Resting { until } if now >= until => {
                return self.hand_on_or_give_back(*held, None, turn);
            }
            Phase::Active if now >= held.valid_until() => {
                // S4: by the clock, whatever the store may say later.
                let (reason, detail) = held.end_by_the_clock(now);
                return self.lose(held, reason, detail.to_owned(), turn);
            }
            Phase::Active | Phase::Resting { .. } | Phase::Fading(_) => {}
        }
        if held.is_renewed() {
            self.renew(&mut held, turn);
        }
        self.state = State::Held(held);
    }

    fn renew(&mut self, held: &mut Held, turn: &mut Turn) {
        if let Some(missed) = held.renewal.cut_off_overdue(turn.now, &mut self.jitter) {
            turn.push(Action::ReportRenewal {
                latency: None,
                lateness: missed.lateness,
                failure: Some(Failure::Unknown(Trouble::unanswered("renewal"))),
            });
        }
        if held.renewal.is_due(turn.now) {
            let request = self.next_request();
            held.renewal.sent(request, turn.now);
            let timeout = cut_off(held.renewal.lease_duration());
            let if_match = self.memory.known.as_ref().map(|known| known.etag().clone());
            turn.push(Action::SendRenew { request, lease_id: held.lease_id, if_match, timeout });
        }
        if let Some((kind, detail)) = held.renewal.warn(turn.now)
            && held.phase == Phase::Active
        {
            let (caller, valid_until) = (held.caller, held.tell_validity(turn.now));
            turn.push(Action::TellAtRisk { caller, valid_until, kind, detail });
        }
    }

    pub(super) fn renew_answered(
        &mut self,
        request: Request,
        answer: Result<(), Failure>,
        turn: &mut Turn,
    ) {
        match self.take_state(turn.now) {
            State::Held(mut held) => match held.renewal.answered(request) {
                Some(answered) => self.renewal_answered(held, answered, answer, turn),
                None => {
                    self.state = State::Held(held);
                    self.late_answer(request, answer.is_ok(), turn);
                }
            },
            State::Resuming(resuming) => {
                self.resume_renew_answered(resuming, request, answer, turn);
            }
            other @ (State::Idle { .. } | State::Acquiring(_) | State::Releasing(_)) => {
                self.state = other;
                // S4: a renewal that succeeds after the hold was lost is released, not kept.
                self.late_answer(request, answer.is_ok(), turn);
            }
        }
    }

    fn renewal_answered(
        &mut self,
        mut held: Box<Held>,
        answered: Answered,
        answer: Result<(), Failure>,
        turn: &mut Turn,
    ) {
        // A try that was cut off has been reported and repeated: of its answer only the definite counts.
        if !answered.cut_off || answer.is_ok() {
            turn.push(Action::ReportRenewal {
                latency: Some(turn.now.saturating_since(answered.sent)),
                lateness: answered.lateness,
                failure: answer.as_ref().err().cloned(),
            });
        }
        let (reason, detail) = match answer {
            Ok(()) => {
                let recovered = held.renewal.succeeded(answered.sent);
                tell_renewed(&mut held, recovered, turn);
                self.state = State::Held(held);
                return;
            }
            Err(Failure::Taken) => (LossReason::Taken, TAKEN.to_owned()),
            Err(Failure::Broken) => (LossReason::Broken, BROKEN.to_owned()),
            Err(Failure::Deleted) => (LossReason::LockDeleted, DELETED.to_owned()),
            Err(
                failure @ (Failure::Contended
                | Failure::Changed
                | Failure::Unknown(_)
                | Failure::NotDone(_)
                | Failure::Refused(_)),
            ) => {
                if !answered.cut_off {
                    held.renewal.failed(&failure, turn.now, &mut self.jitter);
                }
                if failure == Failure::Changed {
                    self.settle(&mut held, turn);
                }
                self.state = State::Held(held);
                return;
            }
        };
        self.lose_lease(held, reason, detail, turn);
    }
}

impl Hold {
    /// Somebody has written the record since: it went on elsewhere, or it was a late write of ours (S16).
    fn settle(&mut self, held: &mut Held, turn: &mut Turn) {
        let request = self.next_request();
        let timeout = cut_off(held.renewal.lease_duration());
        held.settling = Some(request);
        turn.push(Action::SendRead { request, timeout });
    }

    /// The record was read because a renewal met another version than ours. An unknown outcome needs no repeat: the
    /// next renewal meets the change again.
    pub(super) fn settle_answered(
        &mut self,
        mut held: Box<Held>,
        request: Request,
        answer: Result<Stored, Failure>,
        turn: &mut Turn,
    ) {
        if held.settling != Some(request) {
            self.state = State::Held(held);
            return;
        }
        held.settling = None;
        let stored = match answer {
            Ok(stored) => stored,
            Err(Failure::Deleted) => {
                let detail = DELETED.to_owned();
                return self.lose_lease(held, LossReason::LockDeleted, detail, turn);
            }
            Err(
                Failure::Contended
                | Failure::Taken
                | Failure::Broken
                | Failure::Changed
                | Failure::Unknown(_)
                | Failure::NotDone(_)
                | Failure::Refused(_),
            ) => {
                self.state = State::Held(held);
                return;
            }
        };
        let record = Record::from_fields(&stored.fields);
        let ours = record.lease == Some(held.lease_id.fingerprint())
            && record.generation == held.generation;
        self.learn(stored, turn.now);
        if ours {
            held.renewal.renew_now(turn.now);
            self.state = State::Held(held);
        } else {
            let detail = "the hold went on at another sidecar, or another has the lock".to_owned();
            self.lose_lease(held, LossReason::Taken, detail, turn);
        }
    }

    /// Another clock shows a pause that ours may not have counted: the store's answer decides (S3).
    pub(super) fn suspect_pause(&mut self, turn: &Turn) {
        if let State::Held(held) = &mut self.state
            && held.is_renewed()
        {
            held.renewal.suspect(turn.now, &mut self.jitter);
        }
    }
}

/// Who is silent is told nothing, so the validity that it was told stays what it is (S14).
fn tell_renewed(held: &mut Held, recovered: bool, turn: &mut Turn) {
    if held.phase != Phase::Active {
        return;
    }
    let (caller, valid_until) = (held.caller, held.tell_validity(turn.now));
    turn.push(if recovered {
        Action::TellRecovered { caller, valid_until }
    } else {
        Action::TellRenewed { caller, valid_until }
    });
}

/// Why a hold is lost whose lease was broken; who broke it is not the machine's business.
pub(super) const BROKEN: &str = "the lease was broken";
/// Why a hold is lost whose lock is gone.
pub(super) const DELETED: &str = "the lock or its container was deleted";
