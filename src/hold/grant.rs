//! From a lease to a grant: the record is read if need be, the token written, the lease proven, the caller
//! told (S2, S5, S11). What is written beside the token is decided elsewhere: the machine knows fields, and
//! not what they say. It asks ([`Action::Decide`]), and goes on with the verdict (T6).

use std::sync::Arc;
use std::time::Duration;

use super::exchange::{Exchange, RecordWrite, Renewal, cut_off};
use super::held::{Bounds, Held, Phase, StoreClock};
use super::memory::{Idle, Known, Resume, Wait};
use super::progress::{Attempt, Decided, Leased, Plan, Unsettled, Work};
use super::release::Releasing;
use super::words::{
    Action, CallerId, Failure, LeaseGranted, Notice, Output, Remark, Request, RequestId,
    StoreFailure, StoreFailureKind, Stored, Tried, WriteOf,
};
use super::{Hold, State};
use crate::lock::FencingToken;
use crate::record::{ETag, Fields, Found, Record, Verdict};
use crate::time::{Instant, UnixMillis};

impl Hold {
    pub(super) fn read_answered(
        &mut self,
        request: RequestId,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        match self.take_state(output.now) {
            State::Resuming(resuming) => {
                self.resume_read_answered(resuming, request, answer, output)
            }
            State::Releasing(releasing) => {
                self.release_read_answered(releasing, request, answer, output);
            }
            State::Held(held) => self.settle_answered(held, request, answer, output),
            State::Acquiring(attempt) => match *attempt {
                Attempt::ReadHolder { retry, exchange } if exchange.is(request) => {
                    // A lock that is not there yet is free; and one that was there rests no more.
                    let free = match &answer {
                        Ok(stored) => stored.free,
                        Err(Failure::Deleted) => {
                            let rested = self.memory.rest.take().is_some();
                            rested || self.share().is_some()
                        }
                        Err(_) => false,
                    };
                    let time = answer.as_ref().ok().map(|stored| stored.time);
                    match answer.map(|stored| self.learn(stored, output.now)) {
                        Ok(()) | Err(_) if free => {
                            if let Some(retry) = self.leave_to_rest(retry, time, output)
                                && let Some(retry) = self.leave_to_others(retry, output)
                            {
                                self.try_acquire(Some(retry), output);
                            }
                        }
                        Ok(()) => self.contended(retry, output),
                        Err(failure) => self.holder_unread(retry, failure, output),
                    }
                }
                Attempt::Leased { lease, work: Work::Read { unsettled }, exchange }
                    if exchange.is(request) =>
                {
                    match answer {
                        Ok(stored) => {
                            self.learn(stored, output.now);
                            self.record_had(lease, unsettled, output);
                        }
                        Err(failure) => {
                            self.work_failed(lease, Work::Read { unsettled }, failure, output);
                        }
                    }
                }
                other @ (Attempt::Acquire { .. }
                | Attempt::ReadHolder { .. }
                | Attempt::Leased { .. }) => self.acquiring(other),
            },
            other @ State::Idle { .. } => self.state = other,
        }
    }

    pub(super) fn write_answered(
        &mut self,
        request: RequestId,
        answer: Result<ETag, Failure>,
        output: &mut Output,
    ) {
        match self.take_state(output.now) {
            State::Resuming(resuming) => {
                self.resume_write_answered(resuming, request, answer, output);
            }
            State::Acquiring(attempt) => match *attempt {
                Attempt::Leased { lease, work: Work::Write { plan, write }, exchange }
                    if exchange.is(request) =>
                {
                    match answer {
                        Ok(etag) => {
                            self.record_stored(&write, &etag, request, output.now);
                            self.token_written(lease, plan, output);
                        }
                        // Our own write whose answer was lost, or an older one's: the record says which (S5).
                        Err(Failure::Changed) => self.settle(lease, plan, None, output),
                        Err(failure) => {
                            self.work_failed(lease, Work::Write { plan, write }, failure, output);
                        }
                    }
                }
                other @ (Attempt::Acquire { .. }
                | Attempt::ReadHolder { .. }
                | Attempt::Leased { .. }) => self.acquiring(other),
            },
            State::Held(held) => self.save_answered(held, request, answer, output),
            other @ (State::Idle { .. } | State::Releasing(_)) => {
                self.state = other;
            }
        }
    }

    /// The store leased the lock to us.
    pub(super) fn lease_had(&mut self, lease: Leased, granted: LeaseGranted, output: &mut Output) {
        self.note_free();
        self.memory.tenure.acquired(&granted.etag, self.settings.poll_cap, output.now);
        if granted.created {
            self.memory.known = Some(Known::new(&granted.etag, &Fields::new()));
            self.memory.is_forgotten = false;
        }
        if self.memory.known.as_ref().is_some_and(|known| known.is_version(&granted.etag)) {
            self.record_had(lease, None, output);
        } else {
            self.send_work(lease, Work::Read { unsettled: None }, output);
        }
    }

    /// The lease is ours and the record is known: write the token, unless the lock rests.
    pub(super) fn record_had(
        &mut self,
        mut lease: Leased,
        unsettled: Option<Unsettled>,
        output: &mut Output,
    ) {
        let Some(known) = self.memory.known.clone() else {
            return self.send_work(lease, Work::Read { unsettled }, output);
        };
        let stored = known.fields();
        let record = Record::from_fields(&stored);
        let written_here = record.lease == Some(lease.lease_id.fingerprint());
        if let Some(Unsettled { plan, write }) = unsettled {
            if written_here
                && record.token == Some(plan.token)
                && plan.name.is_none_or(|name| record.write == name.to_string())
            {
                // S5: our write was done, only its answer was lost.
                return self.token_written(lease, plan, output);
            }
            // It may be done yet: decided anew, its caller would be judged by its own record (T6).
            if let Some(write) = write.filter(|write| known.is_version(&write.if_match))
                && self.is_for_front(&plan)
            {
                let failure = self.store_failure.as_deref().cloned();
                let failure = failure.unwrap_or_else(|| StoreFailure::unanswered("write"));
                let at = output.now + self.backoff(&failure, lease.duration);
                let (work, exchange) = (Work::Write { plan, write }, Exchange::Waiting { at });
                return self.acquiring(Attempt::Leased { lease, work, exchange });
            }
        }
        let front = self.front();
        let Some(front) = front.filter(|front| front.terms.lease_duration == lease.duration) else {
            return self.release_without_rest(lease, output);
        };
        let (caller, terms) = (front.caller, Arc::clone(&front.terms));
        // A rest under this very lease was written for a caller that has gone ungranted: it does not count.
        let rest = match written_here || self.is_ungranted(&record) {
            true => None,
            false => self.rest_promised(lease.time, &record, terms.priority(), output.now),
        };
        if let Some(free_at) = rest {
            return self.rest_until(lease, free_at, output);
        }
        if record.token_is_unreadable {
            return self.refuse_unreadable(lease, output);
        }
        let next = FencingToken::after_acquisition(record.token, lease.time);
        let seen = self.memory.highest.max(record.token);
        let Some(token) = next.filter(|token| seen.is_none_or(|seen| *token > seen)) else {
            return self.refuse_token(lease, next, output);
        };
        if !record.host_type.is_empty() && record.host_type != terms.record.host_type {
            let (stored, ours) = (record.host_type, terms.record.host_type.clone());
            output.report(Remark::Collision { stored, ours });
        }
        lease.may_be_broken |= record.sharing.is_some_and(|sharing| sharing.yields);
        if terms.decides {
            return self.ask_decision(lease, token, stored, output);
        }
        self.write_token(lease, Plan::new(token, caller, terms.min_hold), stored, output);
    }

    /// Writes the token over `stored`, with all that the record says of the grant to the caller at the front.
    fn write_token(&mut self, lease: Leased, plan: Plan, stored: Fields, output: &mut Output) {
        let (Some(known), Some(front)) = (&self.memory.known, self.front()) else {
            return self.release_unused(lease, output);
        };
        let (record, if_match) = (known.record(), known.etag());
        let (ours, min_hold) = (front.terms.record.clone(), plan.min_hold);
        let name = self.jitter.write_name();
        let written_here = record.lease == Some(lease.lease_id.fingerprint());
        let rest = (!min_hold.is_zero()).then(|| lease.store_time(output.now) + min_hold);
        let fields = Record {
            token: Some(plan.token),
            acquired_at: Some(lease.time),
            resting_until: rest,
            resting_for: rest.map(|_until| min_hold),
            handed_on: self.others_wait() || self.memory.tenure.is_repeated(),
            lease: Some(lease.lease_id.fingerprint()),
            // A new epoch under the same lease leaves the generation as it is (S5, S16).
            generation: if written_here { record.generation.max(1) } else { 1 },
            write: name.to_string(),
            ..ours
        }
        .into_fields(stored);
        let write = RecordWrite { if_match, fields };
        let rest_ends = rest.map(|_| output.now + min_hold);
        let plan = Plan { name: Some(name), rest_ends, ..plan };
        self.send_work(lease, Work::Write { plan, write }, output);
    }

    /// The token was written: a break from here that was under way until then has met this lease, or comes
    /// too late for it (S17).
    fn token_written(&mut self, lease: Leased, plan: Plan, output: &mut Output) {
        let may_be_broken = lease.may_be_broken || self.may_be_broken_since(lease.sent);
        let rest_until = lease.rest_until.filter(|_| self.rest_left(&lease).is_some());
        self.token_stored(Leased { may_be_broken, rest_until, ..lease }, plan, output);
    }

    /// The token is in the store: grant, if anything is, once the lease is known to be ours still.
    fn token_stored(&mut self, lease: Leased, plan: Plan, output: &mut Output) {
        let settles = plan.decided.is_some_and(|decided| decided.settles);
        let unproven =
            lease.may_be_broken || self.is_unproven(lease.good_sent) || lease.is_late(output.now);
        // What has run out by our own clock goes back, and is not renewed.
        if unproven && !settles && self.is_waited_for(&plan) && output.now < lease.valid_until() {
            return self.send_work(lease, Work::Prove { plan, sent: output.now }, output);
        }
        self.grant_planned(lease, plan, output);
    }

    /// Grants, if the lease is still good (S2) and somebody still waits.
    fn grant_planned(&mut self, lease: Leased, plan: Plan, output: &mut Output) {
        if output.now >= lease.valid_until() {
            return self.release_unused(lease, output);
        }
        let front = self.front();
        match front.filter(|front| front.terms.lease_duration == lease.duration) {
            Some(_) if self.is_for_front(&plan) => {
                self.serve_front(lease, plan, output);
            }
            // The caller that the record was written for has gone, or one of a greater priority has come:
            // the record names its holder, and says what that one has asked for (T6, S11, S33, S34).
            Some(_) => self.record_had(lease, None, output),
            None => self.release_without_rest(lease, output),
        }
    }

    /// S5: the token would not grow, so there is no grant; said loudly.
    fn refuse_token(&mut self, lease: Leased, next: Option<FencingToken>, output: &mut Output) {
        if let Some(seen) = self.memory.highest.or(next) {
            output.report(Remark::TokenNotGrowing { seen, next });
        }
        let store_failure = StoreFailure {
            kind: StoreFailureKind::TokenNotGrowing,
            message: "the lock's fencing token would not grow: the store has gone back to an older copy, or its \
                      clock is wrong; no grant is given until the store's clock has passed the greatest token seen"
                .to_owned(),
            retry_after: None,
        };
        self.refuse(store_failure, output);
        self.release_unused(lease, output);
    }

    /// S5: a token that is there but cannot be read is never taken for none, so there is no grant.
    fn refuse_unreadable(&mut self, lease: Leased, output: &mut Output) {
        let store_failure = StoreFailure {
            kind: StoreFailureKind::TokenUnreadable,
            message: "the lock's stored fencing token cannot be read, so no grant is given; set the record's field \
                      leasehold_token to a number above every token that was granted, or delete the lock once no \
                      resource remembers its tokens"
                .to_owned(),
            retry_after: None,
        };
        self.refuse(store_failure, output);
        self.release_unused(lease, output);
    }

    pub(super) fn send_work(&mut self, mut lease: Leased, mut work: Work, output: &mut Output) {
        let what = match &mut work {
            // It is decided over the record anew.
            Work::Decide { .. } => return self.record_had(lease, None, output),
            Work::Read { .. } => Request::Read,
            Work::Write { plan, write } => {
                let rest = (!plan.min_hold.is_zero()).then(|| output.now + plan.min_hold);
                plan.rest_before = lease.rest_until;
                lease.rest_until = lease.rest_until.max(rest);
                write.request(lease.lease_id)
            }
            // S16: one that comes late renews nothing that went on elsewhere since.
            Work::Prove { sent, .. } => {
                *sent = output.now;
                lease.given_up = output.now + cut_off(lease.duration);
                let if_match = self.memory.known.as_ref().map(Known::etag);
                Request::Renew { lease_id: lease.lease_id, if_match }
            }
        };
        let exchange = self.send(what, lease.duration, output);
        self.acquiring(Attempt::Leased { lease, work, exchange });
    }

    /// A read or a write under the new lease failed.
    pub(super) fn work_failed(
        &mut self,
        mut lease: Leased,
        work: Work,
        failure: Failure,
        output: &mut Output,
    ) {
        let work = match (work, &failure) {
            // T6: a read settles it, before its caller is told anything.
            (Work::Write { plan, write }, Failure::Unknown(cause))
                if plan.decided.is_some() && output.now < lease.valid_until() =>
            {
                self.store_failure = Some(Box::new(cause.clone()));
                return self.settle(lease, plan, Some(write), output);
            }
            (Work::Write { plan, write }, Failure::NotDone(_)) => {
                lease.rest_until = plan.rest_before;
                Work::Write { plan, write }
            }
            (work, _) => work,
        };
        if failure.loss().is_some() {
            // S6: the lease is gone, so its id is never used again.
            self.memory.known = None;
            self.note_ungranted(&lease);
            let until = output.now + self.poll_delay(lease.duration, output.now);
            self.state = State::Idle { idle: Idle { until, why: Wait::Poll }, retry: None };
            return output.tried(Tried::Taken);
        }
        if let Failure::Refused(store_failure) = &failure {
            self.refuse(store_failure.clone(), output);
            self.release_unused(lease, output);
            return self.forgive_rest();
        }
        let store_failure = failure.into_cause(work.what());
        output.tried(Tried::Failed(store_failure.clone()));
        if !self.is_waited_for_on() && !self.may_leave_a_rest(&lease) {
            return self.release_unused(lease, output);
        }
        let exchange =
            Exchange::Waiting { at: output.now + self.backoff(&store_failure, lease.duration) };
        self.store_failure = Some(Box::new(store_failure));
        self.acquiring(Attempt::Leased { lease, work, exchange });
    }

    /// Sends what had to wait. Nothing is written for a caller that has gone meanwhile (T6, S11): what was
    /// sent for it before is looked for.
    pub(super) fn send_late(&mut self, lease: Leased, work: Work, output: &mut Output) {
        match work {
            Work::Write { plan, .. } if plan.caller.is_some() && !self.is_for_front(&plan) => {
                self.settle(lease, plan, None, output);
            }
            Work::Prove { plan, .. } if !self.is_waited_for(&plan) => {
                self.grant_planned(lease, plan, output);
            }
            Work::Read { .. } | Work::Decide { .. } | Work::Write { .. } | Work::Prove { .. } => {
                self.send_work(lease, work, output);
            }
        }
    }

    /// Reads whether a write was done.
    fn settle(
        &mut self,
        lease: Leased,
        plan: Plan,
        write: Option<RecordWrite>,
        output: &mut Output,
    ) {
        let unsettled = Some(Unsettled { plan, write });
        self.send_work(lease, Work::Read { unsettled }, output);
    }

    fn is_for_front(&self, plan: &Plan) -> bool {
        self.front().is_some_and(|front| plan.caller == Some(front.caller))
    }

    /// Whether a caller waits for what comes after this; after a rest that is taken back, any does.
    fn is_waited_for(&self, plan: &Plan) -> bool {
        if plan.caller.is_none() { self.candidate.is_some() } else { self.is_for_front(plan) }
    }

    pub(super) fn release_unused(&mut self, lease: Leased, output: &mut Output) {
        self.note_ungranted(&lease);
        self.release(Releasing::unused(lease.lease_id, lease.duration, lease.given_up), output);
    }
}

/// A hold that its client goes on with (S16).
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) caller: CallerId,
    pub(super) resume: Resume,
    pub(super) bounds: Bounds,
    pub(super) store_clock: StoreClock,
    /// When the renewal of its lease was sent.
    pub(super) renewed: Instant,
}

impl Hold {
    /// Grants the lock under a new lease to the caller at the front, which the record was written for; for
    /// `max_hold` at the most, if that was decided, and else on its own terms (T12).
    fn grant_new(&mut self, lease: Leased, plan: Plan, output: &mut Output) {
        let token = plan.token;
        debug_assert!(output.now < lease.valid_until(), "S2: the lease has run out");
        debug_assert!(Some(token) >= self.memory.highest, "S5: {token} does not grow");
        let Some(waiter) = self.take_front() else {
            return self.release_unused(lease, output);
        };
        self.memory.highest = self.memory.highest.max(Some(token));
        self.memory.handed = None;
        self.memory.ungranted = None;
        self.abandoned.forget(lease.lease_id);
        self.end_overruling();
        let decided = plan.decided.and_then(|decided| decided.max_hold);
        let max_hold = decided.or(waiter.terms.max_hold);
        let valid_until = lease.valid_until();
        let mut bounds = Bounds::new(&waiter.terms, max_hold, valid_until, output.now);
        if let Some(ends) = plan.rest_ends {
            bounds.recorded(ends);
        }
        let held = Held {
            lease_id: lease.lease_id,
            renewal: Renewal::new(lease.duration, lease.good_sent, output.now, &mut self.jitter),
            token,
            generation: self.generation_stored(),
            attempt: Box::default(),
            settled_at: None,
            written_at: output.now,
            settling: None,
            caller: waiter.caller,
            bounds,
            terms: waiter.terms,
            acquired_at: lease.time,
            granted_at: output.now,
            store_clock: StoreClock { heard: lease.heard, time: lease.time },
            told_until: output.now,
            believed_until: output.now,
            phase: Phase::Active,
            notice: None,
            saving: None,
            record_at: None,
        };
        self.tell_granted(held, false, output);
    }

    /// The generation that the record has, as we wrote it (S16).
    fn generation_stored(&self) -> u64 {
        self.memory.known.as_ref().map_or(1, |known| known.generation().max(1))
    }

    /// Goes on with a hold whose lease was renewed, and whose record was just written again (S16).
    pub(super) fn grant_resumed(&mut self, resumed: Resumed, output: &mut Output) {
        let Resumed { caller, resume, bounds, store_clock, renewed } = resumed;
        self.memory.handed = None;
        let lease_duration = resume.terms.lease_duration;
        let held = Held {
            lease_id: resume.lease_id,
            renewal: Renewal::new(lease_duration, renewed, output.now, &mut self.jitter),
            token: resume.token,
            generation: self.generation_stored(),
            attempt: resume.attempt.into(),
            // Renewals elsewhere carry If-Match on a version from before our write, so no validity that was
            // told elsewhere outlives it by D.
            settled_at: Some(output.now + lease_duration),
            written_at: output.now,
            settling: None,
            caller,
            bounds,
            terms: resume.terms,
            acquired_at: resume.acquired_at,
            granted_at: output.now,
            store_clock,
            told_until: output.now,
            // S13: what it was told before it came here counts too.
            believed_until: resume.believed_until.max(output.now),
            phase: Phase::Active,
            notice: None,
            saving: None,
            record_at: None,
        };
        self.tell_granted(held, true, output);
    }

    pub(super) fn tell_granted(&mut self, mut held: Held, resumed: bool, output: &mut Output) {
        debug_assert!(
            !self.shutdown.is_under_way(),
            "S15: nothing is granted while the sidecar shuts down"
        );
        debug_assert!(
            !self.is_unproven(held.renewal.good_sent()),
            "S3: a lease that was sent for before a suspected pause is renewed before it is granted"
        );
        self.store_failure = None;
        let checkpoint = self.memory.known.as_ref().and_then(Known::checkpoint);
        output.tell(held.caller, Notice::Granted(held.granted(resumed, checkpoint, output.now)));
        self.state = State::Held(Box::new(held));
        output.tried(Tried::Taken);
    }

    /// The store answered the renewal of a lease under which nothing was granted yet, or one of long ago.
    pub(super) fn proof_answered(
        &mut self,
        attempt: Attempt,
        request: RequestId,
        answer: Result<UnixMillis, Failure>,
        output: &mut Output,
    ) {
        match attempt {
            Attempt::Leased { lease, work: Work::Prove { plan, sent }, exchange }
                if exchange.is(request) =>
            {
                output.report(Remark::Renewal {
                    latency: Some(output.now.saturating_since(sent)),
                    lateness: Duration::ZERO,
                    failure: answer.as_ref().err().cloned(),
                });
                match answer {
                    // A pause may have been suspected meanwhile.
                    Ok(_) => {
                        let (good_sent, given_up) = (sent, output.now);
                        let may_be_broken = self.was_broken_since(sent);
                        let lease = Leased { good_sent, given_up, may_be_broken, ..lease };
                        self.token_stored(lease, plan, output);
                    }
                    // Nobody was granted anything: it goes back at once, and is acquired again.
                    Err(Failure::Broken) => self.release_without_rest(lease, output),
                    Err(Failure::Refused(store_failure)) => {
                        self.refuse(store_failure, output);
                        self.release_without_rest(lease, output);
                    }
                    // Our own write whose answer was lost, or another's: the record says which.
                    Err(Failure::Changed) => self.settle(lease, plan, None, output),
                    Err(failure) => {
                        self.work_failed(lease, Work::Prove { plan, sent }, failure, output);
                    }
                }
            }
            other @ (Attempt::Acquire { .. }
            | Attempt::ReadHolder { .. }
            | Attempt::Leased { .. }) => {
                self.acquiring(other);
                // S4: a renewal that succeeds after the hold was lost is released, not kept.
                self.late_answer(request, answer.is_ok(), output);
            }
        }
    }

    /// A renewal that is not answered in time may come yet, after the lease has gone back: then it is
    /// released (S6).
    pub(super) fn keep_late_proof(&mut self, attempt: &Attempt) {
        if let Attempt::Leased { lease, work: Work::Prove { .. }, exchange } = attempt
            && let Some(request) = exchange.request()
        {
            let if_match = self.memory.known.as_ref().map(Known::etag);
            self.abandoned.keep(request, lease.lease_id, if_match, lease.duration);
        }
    }

    /// Asks what the caller at the front writes over `fields`, beside `token`.
    fn ask_decision(
        &mut self,
        lease: Leased,
        token: FencingToken,
        fields: Fields,
        output: &mut Output,
    ) {
        let Some(front) = self.front() else { return self.release_unused(lease, output) };
        let store_time = lease.store_time_at_least(output.now);
        let found = Found { fields, token, store_time };
        output.push(Action::Decide { of: WriteOf::Grant(front.caller), found });
        let exchange = Exchange::Waiting { at: lease.valid_until() };
        self.acquiring(Attempt::Leased { lease, work: Work::Decide { token }, exchange });
    }

    /// What the caller at the front writes is decided. If it is turned away, it is told so and the lease goes
    /// back.
    pub(super) fn grant_decided(
        &mut self,
        caller: CallerId,
        verdict: Verdict,
        output: &mut Output,
    ) {
        let is_asked = |attempt: &Attempt| {
            matches!(attempt, Attempt::Leased { work: Work::Decide { .. }, .. })
        };
        let Some(Attempt::Leased { lease, work: Work::Decide { token }, .. }) =
            self.take_attempt(output.now, is_asked)
        else {
            return;
        };
        let front = self.front().filter(|front| front.caller == caller);
        let Some(min_hold) = front.map(|front| front.terms.min_hold) else {
            return self.record_had(lease, None, output);
        };
        let (settles, max_hold) = match &verdict {
            Verdict::Grant { max_hold, .. } => (false, *max_hold),
            Verdict::Write { .. } | Verdict::Nothing => (true, None),
        };
        match verdict.into_fields() {
            Some(fields) => {
                let decided = Some(Decided { settles, max_hold });
                let plan = Plan { decided, ..Plan::new(token, caller, min_hold) };
                self.write_token(lease, plan, fields, output);
            }
            None => self.turn_away(lease, output),
        }
    }

    /// The caller at the front is granted nothing, and nothing is written for it.
    fn turn_away(&mut self, lease: Leased, output: &mut Output) {
        self.tell_settled(false, output);
        self.release_without_rest(lease, output);
    }

    fn tell_settled(&mut self, written: bool, output: &mut Output) {
        if let Some(waiter) = self.take_front() {
            output.tell(waiter.caller, Notice::Settled { written });
        }
    }

    /// The caller at the front is told that it is granted nothing, and the lease goes back. Who waits behind
    /// it acquires anew.
    fn settle_front(&mut self, lease: Leased, written: bool, output: &mut Output) {
        self.tell_settled(written, output);
        self.release_unused(lease, output);
    }

    /// What was written is there, and the caller at the front is served if it was written for it.
    fn serve_front(&mut self, lease: Leased, plan: Plan, output: &mut Output) {
        match plan.decided {
            Some(Decided { settles: true, .. }) => self.settle_front(lease, true, output),
            Some(_) | None => self.grant_new(lease, plan, output),
        }
    }

    /// What a caller has read of the lock just before it came, taken in while nothing is under way here. Of
    /// two records the one with the lower token is the older one. With equal tokens its holder may have
    /// written since we looked; if it was the other way round, the acquire finds out by the version, and
    /// costs one request more (S5).
    pub(crate) fn take_seen(&mut self, seen: &Stored, now: Instant) {
        if !matches!(self.state, State::Idle { .. }) {
            return;
        }
        let token = Record::from_fields(&seen.fields).token;
        let known = self.memory.known.as_ref();
        let is_news = known.is_none_or(|known| !known.is_version(&seen.etag));
        if is_news && known.and_then(Known::token) <= token {
            self.learn(seen.clone(), now);
        }
    }
}
