//! A hold: from its grant to its end, and on to the next holder (S4, S9, S10, S11, S13, S14).

use std::sync::Arc;

use super::acquisition::NewLease;
use super::action::{Action, Granted, LossReason};
use super::bounds::Bounds;
use super::event::{CallerId, Failure, Request, Terms};
use super::renewal::Renewal;
use super::validity::cut_off;
use super::waiters::Waiter;
use super::{Hold, State};
use crate::lock::{ETag, FencingToken, LeaseId, Record};
use crate::time::{Instant, UnixMillis};

/// The lease, and who has the lock under it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) lease_id: LeaseId,
    /// The record's version as we wrote it.
    pub(super) etag: Option<ETag>,
    pub(super) renewal: Renewal,
    pub(super) token: FencingToken,
    /// S16: the hold was resumed; what was handed on under its lease before is not known, so nothing is now.
    pub(super) resumed: bool,
    pub(super) caller: CallerId,
    pub(super) terms: Arc<Terms>,
    pub(super) bounds: Bounds,
    pub(super) acquired_at: UnixMillis,
    pub(super) granted_at: Instant,
    /// S13: the latest validity that this holder was told.
    pub(super) told_until: Instant,
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
    pub(super) fn tell_validity(&mut self) -> Instant {
        let until = self.valid_until();
        self.told_until = self.told_until.max(until);
        until
    }

    pub(super) fn is_renewed(&self) -> bool {
        match self.phase {
            Phase::Active => self.terms.auto_renew,
            Phase::Resting { .. } => true,
            Phase::Fading(_) => false,
        }
    }

    pub(super) fn granted(&mut self, resumed: bool) -> Granted {
        Granted {
            token: self.token,
            lease_id: self.lease_id,
            lease_duration: self.renewal.lease_duration(),
            valid_until: self.tell_validity(),
            expires_at: self.bounds.limit(self.renewal.expires_at()),
            acquired_at: self.acquired_at,
            resumed,
        }
    }

    pub(super) fn next_wakeup(&self) -> Instant {
        match self.phase {
            Phase::Fading(_) => self.told_until,
            Phase::Resting { until } => self.with_renewal(until.min(self.renewal.valid_until())),
            Phase::Active => self.with_renewal(self.valid_until()),
        }
    }

    pub(super) fn with_renewal(&self, end: Instant) -> Instant {
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
}

impl Hold {
    /// Grants the lock under a new lease to the caller at the front, which the record was written for.
    pub(super) fn grant_new(&mut self, new: &NewLease, now: Instant, out: &mut Vec<Action>) {
        let Some(waiter) = self.waiters.pop() else {
            return;
        };
        let renewal = Renewal::new(new.duration, new.sent, &mut self.jitter);
        let held = self.held(new, renewal, &waiter, now);
        self.tell_granted(held, false, out);
    }

    pub(super) fn held(
        &self,
        new: &NewLease,
        renewal: Renewal,
        waiter: &Waiter,
        now: Instant,
    ) -> Held {
        Held {
            lease_id: new.lease_id,
            etag: self.memory.known.as_ref().map(|known| known.etag.clone()),
            renewal,
            token: new.token,
            resumed: false,
            caller: waiter.caller,
            // S11: `max_hold` and the rest run from the grant.
            bounds: Bounds::new(&waiter.terms, now),
            terms: Arc::clone(&waiter.terms),
            acquired_at: new.acquired_at,
            granted_at: now,
            told_until: now,
            phase: Phase::Active,
        }
    }

    /// Goes on with a hold whose lease was just renewed and whose record was just written again (S16).
    pub(super) fn grant_resumed(
        &mut self,
        new: &NewLease,
        waiter: &Waiter,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let renewal = Renewal::new(new.duration, new.sent, &mut self.jitter);
        let held = Held { resumed: true, ..self.held(new, renewal, waiter, now) };
        self.tell_granted(held, true, out);
    }

    pub(super) fn tell_granted(&mut self, mut held: Held, resumed: bool, out: &mut Vec<Action>) {
        out.push(Action::TellGranted { caller: held.caller, grant: held.granted(resumed) });
        self.state = State::Held(Box::new(held));
    }

    pub(super) fn pass_held(&mut self, mut held: Held, now: Instant, out: &mut Vec<Action>) {
        match held.phase {
            Phase::Fading(fading) if now >= held.told_until => {
                return self.faded(held, fading, now, out);
            }
            Phase::Resting { until } if now >= until => return self.go_on(held, now, out),
            Phase::Resting { .. } if now >= held.renewal.valid_until() => {
                return self.give_back(held, now, out);
            }
            Phase::Active if now >= held.valid_until() => {
                // S4: by the clock, whatever the store may say later.
                let (reason, detail) = match held.bounds.passed(now) {
                    Some(LossReason::NoProgress) => (
                        LossReason::NoProgress,
                        "the holder reported no progress in time".to_owned(),
                    ),
                    Some(reason) => {
                        (reason, "the hold lasted as long as max_hold allows".to_owned())
                    }
                    None => (LossReason::Expired, expiry_detail(&held)),
                };
                return self.lose(held, reason, detail, now, out);
            }
            Phase::Active | Phase::Resting { .. } | Phase::Fading(_) => {}
        }
        if held.is_renewed() {
            self.renew(&mut held, now, out);
        }
        self.state = State::Held(Box::new(held));
    }

    pub(super) fn renew(&mut self, held: &mut Held, now: Instant, out: &mut Vec<Action>) {
        if let Some(missed) = held.renewal.cut_off_overdue(now, &mut self.jitter) {
            let failure = Failure::Unknown(super::event::Trouble::unanswered("renewal"));
            out.push(Action::ReportRenewal {
                latency: None,
                lateness: missed.lateness,
                failure: Some(failure),
            });
        }
        if held.renewal.is_due(now) {
            let request = self.next_request();
            held.renewal.sent(request, now);
            let timeout = cut_off(held.renewal.lease_duration());
            out.push(Action::SendRenew { request, lease_id: held.lease_id, timeout });
        }
        if let Some(cause) = held.renewal.warn(now)
            && held.phase == Phase::Active
        {
            let valid_until = held.tell_validity();
            out.push(Action::TellAtRisk { caller: held.caller, valid_until, cause });
        }
    }

    pub(super) fn renew_answered(
        &mut self,
        request: Request,
        answer: Result<(), Failure>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let State::Held(held) = &mut self.state else {
            return self.late_renewal_answered(request, &answer, out);
        };
        let Some(answered) = held.renewal.answered(request) else {
            return self.late_renewal_answered(request, &answer, out);
        };
        out.push(Action::ReportRenewal {
            latency: Some(now.saturating_since(answered.sent)),
            lateness: answered.lateness,
            failure: answer.as_ref().err().cloned(),
        });
        let (reason, detail) = match answer {
            Ok(()) => {
                // A silent holder's lease is renewed no more; an answer that was under way changes nothing (S14).
                if !matches!(held.phase, Phase::Fading(_)) {
                    let recovered = held.renewal.succeeded(answered.sent);
                    tell_renewed(held, recovered, out);
                }
                return;
            }
            Err(Failure::Taken) => {
                (LossReason::Taken, "another has the lease, or had it since".to_owned())
            }
            Err(Failure::Broken { reason }) => (LossReason::Broken, broken_detail(reason)),
            Err(Failure::Deleted) => {
                (LossReason::LockDeleted, "the lock or its container was deleted".to_owned())
            }
            Err(
                failure @ (Failure::Contended
                | Failure::Changed
                | Failure::Unknown(_)
                | Failure::Refused(_)),
            ) => return held.renewal.failed(&failure, now, &mut self.jitter),
        };
        let held = held.as_ref().clone();
        self.lose_lease(held, reason, detail, now, out);
    }

    /// S4: a renewal that succeeds after the hold was lost is released, not kept.
    pub(super) fn late_renewal_answered(
        &mut self,
        request: Request,
        answer: &Result<(), Failure>,
        out: &mut Vec<Action>,
    ) {
        let Some(late) = self.late_renewals.take(request) else {
            return;
        };
        if answer.is_ok() {
            let request = self.next_request();
            out.push(Action::SendRelease {
                request,
                lease_id: late.lease_id,
                if_match: late.etag,
                timeout: cut_off(late.lease_duration),
            });
        }
    }
}

fn tell_renewed(held: &mut Held, recovered: bool, out: &mut Vec<Action>) {
    if held.phase != Phase::Active {
        return;
    }
    let (caller, valid_until) = (held.caller, held.tell_validity());
    out.push(if recovered {
        Action::TellRecovered { caller, valid_until }
    } else {
        Action::TellRenewed { caller, valid_until }
    });
}

fn expiry_detail(held: &Held) -> String {
    if held.terms.auto_renew {
        "no renewal succeeded before the validity ran out".to_owned()
    } else {
        "auto_renew is off and the lease duration is over".to_owned()
    }
}

pub(super) fn broken_detail(reason: Option<String>) -> String {
    reason.map_or_else(
        || "the lease was broken".to_owned(),
        |reason| format!("the lease was broken: {reason}"),
    )
}
