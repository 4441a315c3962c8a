//! A lock that rests because of `min_hold`, or is kept for a greater priority, whatever became of the sidecar that said so (S11, S33).

use std::time::Duration;

use super::granting::{Leased, Plan, Work};
use super::output::Output;
use super::releasing::Releasing;
use super::{Hold, Rest};
use crate::lock::{Priority, Record};
use crate::time::Instant;

/// The longest `min_hold` there is: what a record without a span of its own is cut to.
const LONGEST_REST: Duration = Duration::from_secs(24 * 3_600);

impl Hold {
    /// S11, S33: when a rest that the record has promised is over, or the lock is reserved no more for a greater priority, on
    /// our own clock: by the store's clock, and never longer than was asked for from when this sidecar first sees it, because
    /// that clock may have been set.
    pub(super) fn rest_promised(
        &mut self,
        lease: &Leased,
        record: &Record,
        priority: Priority,
        now: Instant,
    ) -> Option<Instant> {
        let (until, most, below) = match (record.resting_until, record.reserved.as_deref()) {
            (Some(until), _) => (until, record.resting_for.unwrap_or(LONGEST_REST), None),
            (None, Some(reserved)) => {
                let most = Duration::from_millis(reserved.for_millis);
                (reserved.until, most, Some(reserved.priority))
            }
            (None, None) => return None,
        };
        let etag = self.memory.known.as_ref()?.etag();
        let seen = self.memory.rest.as_ref().filter(|rest| rest.etag == etag);
        let free_at = seen.map_or_else(
            || now + until.saturating_since(lease.time).min(most.min(LONGEST_REST)),
            |rest| rest.until,
        );
        let rest = Rest { etag, until: free_at, below };
        let kept = rest.concerns(priority) && now < free_at;
        self.memory.rest = Some(Box::new(rest));
        kept.then_some(free_at)
    }

    /// S11: a release before `min_hold` keeps the lock from everyone, whatever became of its sidecar.
    pub(super) fn rest_until(&mut self, lease: Leased, free_at: Instant, output: &mut Output) {
        self.tell_still_taken(output);
        let releasing = Releasing::unused(lease.lease_id, lease.duration, lease.sent);
        self.release(Releasing { not_before: Some(free_at), ..releasing }, output);
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
