//! A lock that rests because of `min_hold`, or is kept for a greater priority, whatever became of the sidecar
//! that said so (S11, S33).

use std::time::Duration;

use super::acquisition::Retry;
use super::granting::{Leased, Plan, Work};
use super::idle::{Idle, Wait};
use super::output::Output;
use super::releasing::Releasing;
use super::{Hold, Known, Rest, State};
use crate::lock::{Priority, Record};
use crate::time::{Instant, UnixMillis};

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
        let front = self.waiters.front().filter(|front| !front.terms.is_pooled());
        let (Some(front), Some(time), None) = (front, time, retry.uncertain) else {
            return Some(retry);
        };
        let priority = front.terms.priority();
        let Some(record) = self.memory.known.as_ref().map(Known::record) else {
            return Some(retry);
        };
        let Some(free_at) = self.rest_promised(time, &record, priority, output.now) else {
            return Some(retry);
        };
        self.store_failure = None;
        let idle = self.rests(free_at);
        self.state = State::Idle { idle, retry: Some(Box::new(retry)) };
        self.tell_taken(output);
        None
    }

    /// S11: a release before `min_hold` keeps the lock from everyone, whatever became of its sidecar.
    pub(super) fn rest_until(&mut self, lease: Leased, free_at: Instant, output: &mut Output) {
        self.tell_taken(output);
        let releasing = Releasing::unused(lease.lease_id, lease.duration, lease.given_up);
        let then = Some(self.rests(free_at));
        self.release(Releasing { then, ..releasing }, output);
    }

    /// The lock rests, or is reserved, until then, as its record was seen to promise.
    fn rests(&self, until: Instant) -> Idle {
        let is_reserved = self.memory.rest.as_ref().is_some_and(|rest| rest.below.is_some());
        Idle { until, why: if is_reserved { Wait::Reserved } else { Wait::MinHold } }
    }

    /// Takes back a rest that was stored for a caller that has gone ungranted.
    pub(super) fn clear_rest(&mut self, lease: Leased, plan: Plan, output: &mut Output) {
        let Some(known) = self.memory.known.clone() else {
            return self.release_unused(lease, output);
        };
        let record = Record { resting_until: None, resting_for: None, ..known.record() };
        let fields = record.into_fields(known.fields());
        let plan = Plan { min_hold: Duration::ZERO, ..plan };
        self.send_work(lease, Work::Write { plan, if_match: known.etag(), fields }, output);
    }
}
