//! From a caller that waits to a lease: when the store is asked, how long between two polls, and what is made
//! of its answers (S6, S12).

use std::time::Duration;

use super::action::{Output, Remark, Request, Tried};
use super::attempt::{Attempt, Leased, Retry, Work};
use super::event::{Failure, LeaseGranted, RequestId, StoreFailure, Stored};
use super::exchange::Exchange;
use super::fairness::{Turn, eager_span};
use super::idle::{Idle, Wait};
use super::jitter::Jitter;
use super::memory::{Change, Known};
use super::release::Releasing;
use super::{Hold, State};
use crate::lock::LeaseId;
use crate::record::Record;
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
