//! From a caller that waits to a lease: when the store is asked, how long between two polls, and what is made
//! of its answers (S6, S12). The caller is the one that the queue above has chosen ([`Candidate`]): what it
//! finds here, what its tries come to, and what who finds the lock busy is told of its holder (`busy_for`).

use std::sync::Arc;
use std::time::Duration;

use super::exchange::{Exchange, Jitter};
use super::fairness::{LONGEST_STAND_BACK, Turn, eager_span};
use super::memory::{Change, Idle, Known, Terms, Wait};
use super::progress::{Attempt, Leased, Retry, Work};
use super::release::{Releasing, Step};
use super::words::{
    Busy, CallerId, Failure, LeaseGranted, Notice, Output, Remark, Request, RequestId,
    StoreFailure, Stored, Tried,
};
use super::{Hold, State};
use crate::lock::{LeaseId, Permits};
use crate::record::{Priority, Record};
use crate::time::Instant;

/// Polls by the acquire alone between two that read the record instead. Only the record says that the lock is
/// handed on, and then a poll at the cap would rare meet the moment at which it is free (S10).
const POLLS_UNREAD: u8 = 3;

/// Tries in a row that may meet a changed record before the lock is polled as if it were another's.
const MAX_CHANGES: u8 = 3;

impl Hold {
    /// Begins or repeats the acquisition for the caller at the front, or for nobody, so that a rest is taken
    /// back.
    pub(super) fn try_acquire(&mut self, retry: Option<Retry>, output: &mut Output) {
        self.attempt(retry, false, output);
    }

    /// The machine has waited for long enough. A lock that rests is read, because it need not be acquired to
    /// find whether it still does.
    pub(super) fn try_again(&mut self, retry: Option<Retry>, output: &mut Output) {
        let reads = self.knows_of_a_rest(output.now);
        self.attempt(retry, reads, output);
    }

    fn attempt(&mut self, retry: Option<Retry>, reads: bool, output: &mut Output) {
        let terms = self.front().map(|front| &front.terms);
        let paced = self.is_paced();
        let owed = || Some(self.memory.ungranted.as_ref()?.lease_duration);
        let Some(duration) = terms.map(|terms| terms.lease_duration).or_else(owed) else {
            return self.abandon(retry, output);
        };
        let retry = match retry {
            Some(retry) if retry.duration == duration => retry,
            Some(retry @ Retry { uncertain: Some(_), .. }) => {
                return self.abandon(Some(retry), output);
            }
            // Without a fresh lease id there is no acquisition yet; the driver supplies one before its next
            // event.
            Some(_) | None => match self.fresh.take() {
                Some(lease_id) => {
                    self.polling = Polling::default();
                    Retry {
                        lease_id,
                        duration,
                        first: !paced,
                        unread: if paced { self.polls_unread } else { 0 },
                        changes: 0,
                        uncertain: None,
                    }
                }
                None => return,
            },
        };
        // S6: what may have been done is repeated, whoever has fewer, until the store has answered one of
        // them.
        if retry.uncertain.is_none() || self.store_failure.is_none() {
            match self.share_turn(output.now) {
                Turn::Acquire if retry.unread < POLLS_UNREAD && !reads => {}
                Turn::Acquire | Turn::Read => return self.read_holder(retry, output),
                Turn::Wait(delay) => {
                    return self.idle(retry, delay, Wait::OutOfTurn, output.now);
                }
            }
        }
        if self.memory.is_forgotten && self.memory.known.is_none() {
            output.report(Remark::Forgotten);
        }
        let acquire = Request::Acquire {
            lease_id: retry.lease_id,
            duration,
            if_match: self.memory.known.as_ref().map(Known::etag),
            read: self.memory.known.is_none(),
        };
        let exchange = self.send(acquire, duration, output);
        self.acquiring(Attempt::Acquire { retry, sent: output.now, exchange });
    }

    pub(super) fn acquiring(&mut self, attempt: Attempt) {
        self.state = State::Acquiring(Box::new(attempt));
    }

    /// What may have been acquired is given back before anything else is done (S6).
    pub(super) fn abandon(&mut self, retry: Option<Retry>, output: &mut Output) {
        self.state = State::ready(output.now);
        if let Some(Retry { lease_id, duration, uncertain: Some(given_up), .. }) = retry {
            self.release(Releasing::unused(lease_id, duration, given_up), output);
        }
    }

    pub(super) fn acquire_answered(
        &mut self,
        request: RequestId,
        answer: Result<LeaseGranted, Failure>,
        read: Option<Result<Stored, Failure>>,
        output: &mut Output,
    ) {
        let is_asked = |attempt: &Attempt| matches!(attempt, Attempt::Acquire { exchange, .. } if exchange.is(request));
        let Some(Attempt::Acquire { mut retry, sent, .. }) =
            self.take_attempt(output.now, is_asked)
        else {
            return self.late_answer(request, answer.is_ok(), output);
        };
        let was_read = read.is_some();
        if let Some(Ok(stored)) = read {
            self.learn(stored, output.now);
        }
        match answer {
            Ok(granted) => {
                let lease = Leased {
                    lease_id: retry.lease_id,
                    duration: retry.duration,
                    sent,
                    good_sent: sent,
                    time: granted.time,
                    heard: output.now,
                    given_up: output.now,
                    may_be_broken: false,
                    rest_until: None,
                };
                self.lease_had(lease, granted, output);
            }
            Err(Failure::Contended) if retry.first && !was_read => {
                retry.first = false;
                self.read_holder(retry, output);
            }
            Err(Failure::Contended) => {
                retry.unread = retry.unread.saturating_add(1);
                self.contended(retry, output);
            }
            Err(Failure::Changed) => self.acquire_met_change(retry, output),
            Err(Failure::Refused(store_failure)) => {
                self.refuse(store_failure, output);
                self.forgive_rest();
                self.abandon(Some(retry), output);
            }
            Err(Failure::NotDone(store_failure)) => {
                self.acquire_later(retry, store_failure, output)
            }
            Err(Failure::Unknown(store_failure)) => {
                retry.uncertain = Some(output.now);
                self.acquire_later(retry, store_failure, output);
            }
            Err(failure @ (Failure::Taken | Failure::Broken | Failure::Deleted)) => {
                retry.uncertain = Some(output.now);
                self.acquire_later(retry, failure.into_cause("acquire"), output);
            }
        }
    }

    fn read_holder(&mut self, mut retry: Retry, output: &mut Output) {
        retry.unread = 0;
        let exchange = self.send(Request::Read, retry.duration, output);
        self.acquiring(Attempt::ReadHolder { retry, exchange });
    }

    pub(super) fn advance_acquiring(&mut self, attempt: Attempt, output: &mut Output) {
        if let Attempt::Leased { lease, exchange, .. } = &attempt
            && (exchange.is_over(output.now) || output.now >= lease.valid_until())
        {
            self.keep_late_proof(&attempt);
        }
        match attempt {
            Attempt::Acquire { mut retry, exchange, .. } if exchange.is_over(output.now) => {
                retry.uncertain = Some(output.now);
                if let Some(request) = exchange.request() {
                    self.abandoned.keep(request, retry.lease_id, None, retry.duration);
                }
                self.acquire_later(retry, StoreFailure::unanswered("acquire"), output);
            }
            Attempt::ReadHolder { retry, exchange } if exchange.is_over(output.now) => {
                let failure = Failure::Unknown(StoreFailure::unanswered("read"));
                self.holder_unread(retry, failure, output);
            }
            Attempt::Leased { lease, .. } if output.now >= lease.valid_until() => {
                if let Some(store_failure) = &self.store_failure {
                    output.tried(Tried::Failed(StoreFailure::clone(store_failure)));
                }
                self.release_unused(lease, output);
            }
            Attempt::Leased { lease, work, exchange } if exchange.is_over(output.now) => {
                match exchange {
                    Exchange::Sent { .. } => {
                        let failure = Failure::Unknown(StoreFailure::unanswered(work.what()));
                        if matches!(work, Work::Prove { .. }) {
                            let (latency, lateness) = (None, Duration::ZERO);
                            let failure = Some(failure.clone());
                            output.report(Remark::Renewal { latency, lateness, failure });
                        }
                        self.work_failed(lease, work, failure, output);
                    }
                    Exchange::Waiting { .. } => self.send_late(lease, work, output),
                }
            }
            waiting @ (Attempt::Acquire { .. }
            | Attempt::ReadHolder { .. }
            | Attempt::Leased { .. }) => self.acquiring(waiting),
        }
    }

    /// The holder's record could not be read. Beside an acquire that was refused that is no matter; but pools
    /// and shares read in place of an acquire (S31, S34), and what the store does not answer is not busy
    /// (S18).
    pub(super) fn holder_unread(&mut self, retry: Retry, failure: Failure, output: &mut Output) {
        let is_shared = self.front().is_some_and(|front| front.terms.share().is_some());
        let in_place = self.is_paced() || is_shared;
        match failure {
            Failure::Refused(store_failure) if in_place => {
                self.refuse(store_failure, output);
                self.abandon(Some(retry), output);
            }
            Failure::Unknown(store_failure) | Failure::NotDone(store_failure) if in_place => {
                self.acquire_later(retry, store_failure, output);
            }
            Failure::Refused(_)
            | Failure::Unknown(_)
            | Failure::NotDone(_)
            | Failure::Contended
            | Failure::Taken
            | Failure::Broken
            | Failure::Changed
            | Failure::Deleted => self.contended(retry, output),
        }
    }

    /// Somebody else has the lock: those who wanted one try are answered, the others polled for (S12).
    pub(super) fn contended(&mut self, mut retry: Retry, output: &mut Output) {
        retry.first = false;
        retry.changes = 0;
        self.note_taken(output.now);
        self.polls_unread = retry.unread;
        self.store_failure = None;
        let delay = self.poll_delay(retry.duration, output.now);
        self.idle(retry, delay, Wait::Poll, output.now);
        output.tried(Tried::Taken);
    }

    /// The next try comes after `delay`.
    pub(super) fn idle(&mut self, retry: Retry, delay: Duration, why: Wait, now: Instant) {
        let idle = Idle { until: now + delay, why };
        self.state = State::Idle { idle, retry: Some(Box::new(retry)) };
    }

    pub(super) fn poll_delay(&mut self, lease_duration: Duration, now: Instant) -> Duration {
        let eager = self.is_handed_on(lease_duration, now) || self.is_eager_after_break(now);
        self.polling.set_eager(eager);
        self.polling.next(&mut self.jitter, self.settings.poll_cap)
    }

    /// Whether the holder's sidecar hands the lock on, as far as we know (S10). A mark ages: it may have been
    /// left by callers that have gone.
    pub(crate) fn is_handed_on(&self, lease_duration: Duration, now: Instant) -> bool {
        let change = self.memory.change.as_ref();
        change.is_some_and(|change| now.saturating_since(change.at) < eager_span(lease_duration))
            && self.memory.known.as_ref().is_some_and(Known::is_handed_on)
    }

    /// The record changed since we knew it: read it beside another acquire (S5). Where the lock was free,
    /// somebody had it since (S34).
    fn acquire_met_change(&mut self, mut retry: Retry, output: &mut Output) {
        self.memory.known = None;
        self.note_taken(output.now);
        retry.changes += 1;
        if retry.changes > MAX_CHANGES {
            return self.contended(retry, output);
        }
        self.try_acquire(Some(retry), output);
    }

    /// The acquire's outcome is unknown: it is repeated with the same id (S6), unless nobody waits for it.
    fn acquire_later(
        &mut self,
        mut retry: Retry,
        store_failure: StoreFailure,
        output: &mut Output,
    ) {
        retry.first = false;
        let delay = self.backoff(&store_failure, retry.duration);
        output.tried(Tried::Failed(store_failure.clone()));
        self.store_failure = Some(Box::new(store_failure));
        self.idle(retry, delay, Wait::Backoff, output.now);
    }

    /// How long to wait before a request is repeated whose outcome is unknown.
    pub(super) fn backoff(&mut self, store_failure: &StoreFailure, duration: Duration) -> Duration {
        let delay = self.jitter.between(duration / 30, duration / 12);
        delay.max(store_failure.retry_after.unwrap_or_default().min(self.settings.poll_cap))
    }

    pub(super) fn learn(&mut self, stored: Stored, now: Instant) {
        let record = Record::from_fields(&stored.fields);
        self.memory.highest = self.memory.highest.max(record.token);
        // S10: what was forgotten is no news.
        let is_news = !std::mem::take(&mut self.memory.is_forgotten);
        let change = Change::new(&record, if is_news { now } else { Instant::default() });
        if !self.memory.change.as_ref().is_some_and(|known| known.is_to(&change)) {
            self.memory.change = Some(Box::new(change));
            // S34: somebody had it since: it has not stayed free.
            self.note_taken(now);
        }
        self.memory.known = Some(Known::new(&stored.etag, &stored.fields));
    }

    /// Gives up `attempt` without waiting for the store: something more urgent comes first.
    pub(super) fn drop_attempt(&mut self, attempt: Attempt, output: &mut Output) {
        self.keep_late_proof(&attempt);
        match attempt {
            Attempt::Acquire { retry, exchange, .. } => {
                if let Some(request) = exchange.request() {
                    self.abandoned.keep(request, retry.lease_id, None, retry.duration);
                }
                let uncertain = Some(exchange.given_up(output.now));
                self.drop_retry(Some(Retry { uncertain, ..retry }), output);
            }
            Attempt::ReadHolder { retry, .. } => self.drop_retry(Some(retry), output),
            Attempt::Leased { lease, .. } => {
                self.note_ungranted(&lease);
                self.send_release(lease.lease_id, lease.duration, output);
            }
        }
    }

    pub(super) fn drop_retry(&mut self, retry: Option<Retry>, output: &mut Output) {
        if let Some(Retry { lease_id, duration, uncertain: Some(_), .. }) = retry {
            self.send_release(lease_id, duration, output);
        }
    }

    fn send_release(&mut self, lease_id: LeaseId, duration: Duration, output: &mut Output) {
        self.send(Request::Release { lease_id, if_match: None }, duration, output);
    }
}

/// The shortest time between two polls, and the time between them where a lock is being handed on (S10, S12).
const POLL_FLOOR: Duration = Duration::from_millis(250);
/// The longest time between two polls where a lock is being handed on. It is spread a little, so that no two
/// sidecars keep step and one of them is always the second; and it is less than a sidecar stands back (S10).
const POLL_EAGER: Duration = Duration::from_millis(300);

/// Decorrelated jitter up to the cap (S12).
#[derive(Clone, Debug, Default)]
pub(super) struct Polling(
    /// None before the first poll: most locks are free.
    Option<Box<Pace>>,
);

#[derive(Clone, Debug, Default)]
struct Pace {
    last: Option<Duration>,
    /// The holder's sidecar hands the lock on: it will stand back soon, for a moment only (S10).
    eager: bool,
}

impl Polling {
    fn set_eager(&mut self, eager: bool) {
        self.0.get_or_insert_default().eager = eager;
    }

    pub(super) fn next(&mut self, jitter: &mut Jitter, cap: Duration) -> Duration {
        let pace = self.0.get_or_insert_default();
        if pace.eager {
            return jitter.between(POLL_FLOOR, POLL_EAGER);
        }
        let last = pace.last.unwrap_or(POLL_FLOOR);
        let delay = jitter.between(POLL_FLOOR, last * 3).min(cap);
        pace.last = Some(delay);
        delay
    }
}

/// A caller that waits for the lock.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) caller: CallerId,
    pub(crate) terms: Arc<Terms>,
    /// Since when it waits (S33, S34).
    pub(crate) since: Instant,
}

impl Waiter {
    /// A wait of zero is one try: it ends with the next answer, not with the clock (S12).
    pub(crate) fn is_one_try(&self) -> bool {
        self.terms.wait.is_zero()
    }
}

/// For whom the lock is to be had now. The machine knows of no other caller that waits but of those that may
/// overrule its holder.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) waiter: Waiter,
    /// An answer of the store is waited for by a caller that tries once (S12).
    pub(crate) has_one_try: bool,
    /// A caller besides this one is going to wait: one try is answered at the grant (S10).
    pub(crate) others_wait: bool,
    /// The queue keeps the pace of the tries: each is one request, and one try, whatever the wait (S31).
    pub(crate) paced: bool,
    /// The first waiter of each priority, the greatest first, if one of them may overrule a holder (S33,
    /// S35).
    pub(crate) rivals: Arc<[Waiter]>,
}

impl Candidate {
    /// Whether a caller still waits here once one try is over.
    fn stays(&self) -> bool {
        !self.paced && (!self.waiter.is_one_try() || self.others_wait)
    }
}

impl Hold {
    /// Takes the caller that the lock is to be had for from now on. What is due is done by [`Hold::advance`].
    pub(crate) fn offer(&mut self, candidate: Option<Candidate>, now: Instant) {
        match (&mut self.candidate, candidate) {
            (Some(former), Some(candidate)) => **former = candidate,
            (former, candidate) => *former = candidate.map(Box::new),
        }
        self.wake_for_front(now);
    }

    /// The caller that the lock is to be had for.
    pub(super) fn front(&self) -> Option<&Waiter> {
        self.candidate.as_ref().map(|candidate| &candidate.waiter)
    }

    /// Whether the machine was told this caller, and so whether one try waits.
    pub(crate) fn is_to_be_had_for(&self, wanted: Option<(CallerId, bool)>) -> bool {
        let told = self.candidate.as_ref();
        told.map(|told| (told.waiter.caller, told.has_one_try)) == wanted
    }

    /// That caller, which waits no more: it is granted the lock, or told that it is not.
    pub(super) fn take_front(&mut self) -> Option<Waiter> {
        self.candidate.take().map(|candidate| candidate.waiter)
    }

    /// The store refuses what is asked for: nobody is served.
    pub(super) fn refuse(&mut self, store_failure: StoreFailure, output: &mut Output) {
        self.candidate = None;
        output.tried(Tried::Refused(store_failure));
    }

    pub(super) fn has_one_try(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.has_one_try)
    }

    pub(super) fn others_wait(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.others_wait)
    }

    /// Whether the queue keeps the pace of the tries (S31).
    pub(super) fn is_paced(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.paced)
    }

    /// Whether a caller still waits here once one try is over.
    pub(super) fn is_waited_for_on(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.stays())
    }

    pub(super) fn rivals(&self) -> &[Waiter] {
        self.candidate.as_ref().map_or(&[], |candidate| &candidate.rivals)
    }

    /// S12: one try is one answer of the store; where others wait or hold here, the answer to a caller of
    /// this priority is known.
    pub(crate) fn is_answer_known(&self, priority: Priority, now: Instant) -> bool {
        match &self.state {
            State::Held(_) | State::Resuming(_) => true,
            State::Idle { idle, .. } => {
                let rest = self.memory.rest.as_ref().filter(|_| idle.why.is_rest());
                now < idle.until
                    && !self.is_left_to_others(*idle)
                    && rest.is_none_or(|rest| rest.concerns(priority))
            }
            // Nothing is asked before the lease has run out.
            State::Releasing(releasing) => releasing.step == Step::RunOut,
            State::Acquiring(_) => false,
        }
    }

    /// Whether the lock is left alone though nobody is known to have it: others come first (S10, S34).
    fn is_left_to_others(&self, idle: Idle) -> bool {
        match idle.why {
            Wait::StandBack | Wait::OutOfTurn => true,
            Wait::Poll => self.free_since().is_some(),
            Wait::Ready | Wait::Backoff | Wait::MinHold | Wait::Reserved | Wait::Believed => false,
        }
    }

    /// What a caller is told that does not get the lock now: the store's failure, or who has it.
    pub(crate) fn refusal(&self, waiter: &Waiter, now: Instant) -> Notice {
        match &self.store_failure {
            Some(store_failure) => Notice::Failed(store_failure.as_ref().clone()),
            None => Notice::Busy(Box::new(self.busy_for(waiter, now))),
        }
    }

    /// Who has the lock, and what became of the caller's priority (S33).
    pub(crate) fn busy_for(&self, waiter: &Waiter, now: Instant) -> Busy {
        let rest = self.rest_seen(now).filter(|rest| rest.concerns(waiter.terms.priority()));
        let rest = rest.map(|rest| rest.until);
        Busy { priority: self.priority_status(waiter, now), ..self.busy_resting(rest, now) }
    }

    /// Who has the lock, as far as is known here.
    pub(crate) fn busy(&self, now: Instant) -> Busy {
        self.busy_resting(self.rest_seen(now).map(|rest| rest.until), now)
    }

    fn busy_resting(&self, seen: Option<Instant>, now: Instant) -> Busy {
        let (record, rest, kept) = match self.held() {
            Some(held) => {
                let holding = held.holding();
                (held.record(), holding.resting_until, holding.kept_until)
            }
            None => (self.memory.record().unwrap_or_default(), seen, None),
        };
        let rest = rest.filter(|until| *until > now);
        let free_at = rest.or(kept);
        let retry_after =
            free_at.map_or(self.settings.poll_cap, |until| until.saturating_since(now));
        let resting = rest.is_some();
        Busy { record, retry_after, resting, held_permits: u8::from(!resting), priority: None }
    }
}

/// What a caller that comes now finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing is under way: the store can be asked. Not before `from`, if this sidecar stands back (S10).
    Idle {
        /// When it has stood back.
        from: Option<Instant>,
    },
    /// The store is being asked.
    Acquiring,
    /// Somebody has the lock here, or resumes a hold of it.
    InUse,
    /// The lease is going back to the store.
    Releasing,
}

impl Terms {
    /// How many permits the caller wants the lock to have (S28).
    #[must_use]
    pub fn permits(&self) -> Permits {
        self.record.permits.unwrap_or(Permits::ONE)
    }
}

impl Hold {
    /// What a caller that comes now finds.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        match &self.state {
            State::Idle { idle, .. } => {
                let stands_back = idle.why == Wait::StandBack;
                Readiness::Idle { from: stands_back.then_some(idle.until) }
            }
            State::Acquiring(_) => Readiness::Acquiring,
            State::Held(_) | State::Resuming(_) => Readiness::InUse,
            State::Releasing(_) => Readiness::Releasing,
        }
    }

    /// A lock that is left alone, for others who come first (S33, S34), is tried at once for a caller that
    /// need not leave it; and one try does not wait for long until others have had their turn (S12).
    pub(super) fn wake_for_front(&mut self, now: Instant) {
        let Some(front) = self.front() else { return };
        let priority = front.terms.priority();
        let is_open = self.memory.rest.as_ref().is_some_and(|rest| !rest.concerns(priority));
        let has_one_try = self.has_one_try();
        let State::Idle { idle, .. } = self.state else { return };
        let is_left = has_one_try && self.is_left_to_others(idle);
        let State::Idle { idle, .. } = &mut self.state else { return };
        if is_left && idle.why == Wait::StandBack {
            idle.until = idle.until.min(now + LONGEST_STAND_BACK);
        } else if is_left || is_open && idle.why.is_rest() {
            idle.end(now);
        }
    }

    /// What the lock is now is asked at once.
    pub(super) fn poll_now(&mut self, now: Instant) {
        if let State::Idle { idle, retry: Some(_) } = &mut self.state {
            idle.end(now);
        }
    }

    /// The next poll comes at `soon` at the latest; nothing else that the machine waits for is cut short.
    pub(super) fn poll_soon(&mut self, soon: Instant) {
        if let State::Idle { idle, retry: Some(_) } = &mut self.state
            && self.store_failure.is_none()
            && idle.why != Wait::StandBack
            && !idle.why.is_rest()
        {
            idle.until = idle.until.min(soon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_polls_grow_from_the_floor_to_the_cap() {
        let mut jitter = Jitter::new(3);
        let mut polling = Polling::default();
        let cap = Duration::from_secs(5);
        let mut longest = Duration::ZERO;
        for _ in 0..200 {
            let delay = polling.next(&mut jitter, cap);
            assert!(delay >= POLL_FLOOR && delay <= cap, "{delay:?}");
            longest = longest.max(delay);
        }
        assert_eq!(longest, cap);
        polling.set_eager(true);
        for _ in 0..50 {
            let delay = polling.next(&mut jitter, cap);
            assert!(delay >= POLL_FLOOR && delay <= POLL_EAGER, "{delay:?}");
        }
    }
}
