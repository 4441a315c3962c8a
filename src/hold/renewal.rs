//! The renewals of one lease, as a value: when the next is due and what is under way, until when the lease is
//! valid by what was answered, and when its holder is warned (S2, S3, S7, S9). [`super::renew`] sends them.

use std::time::Duration;

use super::event::{Failure, RequestId, StoreFailure, StoreFailureKind};
use super::jitter::Jitter;
use crate::time::Instant;

/// Why a renewal is not sent yet, for people.
const HELD_BACK: &str = "the store throttles, and the renewal waits for its turn";

/// The renewals of one lease.
#[derive(Clone, Debug)]
pub(super) struct Renewal {
    lease_duration: Duration,
    /// When the last request was sent that is known to have succeeded.
    good_sent: Instant,
    /// When the last request that may have been done was answered, or will have been given up: nothing of it
    /// arrives later (S13).
    given_up: Instant,
    due: Instant,
    /// Tries without an answer, oldest first. One that is cut off stays: its answer may yet come, and counts
    /// from its own send (S2).
    tries: Vec<Try>,
    /// It waits for its turn, because the store throttles (S7).
    is_held_back: bool,
    failures: u32,
    /// Why the last try failed, if it did.
    cause: Option<Box<StoreFailure>>,
    at_risk: bool,
    /// Since when a pause is suspected that the clock did not count: a renewal that is sent after that
    /// decides (S3).
    suspected_at: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Try {
    request: RequestId,
    sent: Instant,
    lateness: Duration,
    cut_off: bool,
}

/// What an answer to a renewal was an answer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) sent: Instant,
    pub(super) lateness: Duration,
    pub(super) cut_off: bool,
}

impl Renewal {
    /// For a lease that was granted to a request sent at `good_sent`, the last one of which was `answered`:
    /// the first renewal comes D/3 after it was sent, ± 10 %.
    pub(super) fn new(
        lease_duration: Duration,
        good_sent: Instant,
        answered: Instant,
        jitter: &mut Jitter,
    ) -> Self {
        Self {
            lease_duration,
            good_sent,
            given_up: answered,
            due: good_sent + between(lease_duration, jitter),
            tries: Vec::new(),
            is_held_back: false,
            failures: 0,
            cause: None,
            at_risk: false,
            suspected_at: None,
        }
    }

    /// The end of the validity that the store has granted (S2).
    pub(super) fn valid_until(&self) -> Instant {
        valid_until(self.good_sent, self.lease_duration)
    }

    pub(super) const fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// When the last request that may have been done was answered, or will have been given up.
    pub(super) const fn given_up(&self) -> Instant {
        self.given_up
    }

    pub(super) const fn is_at_risk(&self) -> bool {
        self.at_risk
    }

    /// When the last request was sent that is known to have succeeded.
    pub(super) const fn good_sent(&self) -> Instant {
        self.good_sent
    }

    /// The next renewal is due at once.
    pub(super) fn renew_now(&mut self, now: Instant) {
        self.due = self.due.min(now);
    }

    /// S3: a renewal that is sent after this decides, so one is due soon, whatever was sent before, and also
    /// if the lease was not renewed until now.
    pub(super) fn suspect(&mut self, was_renewed: bool, now: Instant, jitter: &mut Jitter) {
        for one in &mut self.tries {
            one.cut_off = true;
        }
        let soon = now + jitter.between(Duration::ZERO, self.lease_duration / 30);
        self.due = if was_renewed { self.due.min(soon) } else { soon };
        self.suspected_at = Some(now);
    }

    /// Whether a suspected pause was not decided yet.
    pub(super) const fn is_undecided(&self) -> bool {
        self.suspected_at.is_some()
    }

    /// The earliest moment at which something is to be done, the end of the validity aside. While it is
    /// `held_up`, no renewal is sent; without `auto_renew`, nobody is warned of one that is not due.
    pub(super) fn poll_timeout(&self, held_up: bool, auto_renew: bool) -> Instant {
        let next = match self.waiting_try() {
            Some(waiting) => Some(waiting.sent + cut_off(self.lease_duration)),
            None => (!held_up && !self.is_held_back).then_some(self.due),
        };
        let warning = self.warns_from(auto_renew).filter(|_| !self.at_risk);
        let end = self.valid_until();
        [next, warning].into_iter().flatten().fold(end, Instant::min)
    }

    /// Until when the answer to a renewal is waited for.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.waiting_try().map(|waiting| waiting.sent + cut_off(self.lease_duration))
    }

    /// Cuts off a try that was not answered in time; the latest such try is reported once.
    pub(super) fn cut_off_overdue(
        &mut self,
        now: Instant,
        jitter: &mut Jitter,
    ) -> Option<Answered> {
        let limit = cut_off(self.lease_duration);
        let overdue = self.tries.iter_mut().find(|one| !one.cut_off && now >= one.sent + limit)?;
        overdue.cut_off = true;
        let answered = Answered { sent: overdue.sent, lateness: overdue.lateness, cut_off: true };
        self.note_failure(StoreFailure::unanswered("renewal"), now, jitter);
        Some(answered)
    }

    /// The tries whose answers may yet come.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = RequestId> {
        self.tries.iter().map(|one| one.request)
    }

    /// Whether a renewal is to be sent now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.due && self.waiting_try().is_none() && !self.is_held_back
    }

    /// The renewal that `request` was is not sent before its turn comes (S7); whether it was one.
    pub(super) fn held_back(&mut self, request: RequestId, now: Instant) -> bool {
        let Some(asked) = self.answered(request, now) else { return false };
        self.is_held_back = true;
        // Its turn is not the sidecar's lateness.
        self.due = asked.sent;
        self.cause.get_or_insert_with(|| {
            Box::new(StoreFailure {
                kind: StoreFailureKind::Throttled,
                message: HELD_BACK.to_owned(),
                retry_after: None,
            })
        });
        true
    }

    pub(super) const fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    /// Its turn has come: if it is still due, it is sent now.
    pub(super) fn turn_came(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_held_back) && now > self.due {
            self.due = now;
        }
    }

    /// How much later than they were due renewals were sent that may yet be answered, or none has been sent
    /// until now.
    pub(super) fn lateness(&self, now: Instant) -> Duration {
        let idle = self.waiting_try().is_none() && !self.is_held_back;
        let overdue = if idle { now.saturating_since(self.due) } else { Duration::ZERO };
        self.tries.iter().map(|one| one.lateness).fold(overdue, Duration::max)
    }

    /// A renewal is sent now.
    pub(super) fn sent(&mut self, request: RequestId, now: Instant) {
        let lateness = now.saturating_since(self.due);
        self.tries.reserve_exact(1);
        self.tries.push(Try { request, sent: now, lateness, cut_off: false });
        self.given_up = now + cut_off(self.lease_duration);
    }

    /// Takes the try that `request` was; none if it is not of this lease, or was answered before.
    pub(super) fn answered(&mut self, request: RequestId, now: Instant) -> Option<Answered> {
        let index = self.tries.iter().position(|one| one.request == request)?;
        let one = self.tries.remove(index);
        let others = self.tries.iter().map(|other| other.sent + cut_off(self.lease_duration));
        self.given_up = others.fold(now, Instant::max);
        Some(Answered { sent: one.sent, lateness: one.lateness, cut_off: one.cut_off })
    }

    /// The renewal that was sent at `sent` succeeded; whether that ends a risk (S9).
    pub(super) fn succeeded(&mut self, sent: Instant, jitter: &mut Jitter) -> bool {
        // S2: an older request's answer, come late, shortens nothing.
        self.good_sent = self.good_sent.max(sent);
        if self.suspected_at.is_none_or(|at| sent >= at) {
            self.suspected_at = None;
            self.due = self.good_sent + between(self.lease_duration, jitter);
        }
        self.tries.retain(|one| one.sent > sent);
        self.tries.shrink_to_fit();
        self.failures = 0;
        self.cause = None;
        std::mem::replace(&mut self.at_risk, false)
    }

    /// A renewal failed in a way that leaves hope: try again after a while, D/30 at first, D/12 at the most,
    /// and sooner when the end is near (S7).
    pub(super) fn failed(&mut self, failure: Failure, now: Instant, jitter: &mut Jitter) {
        self.note_failure(failure.into_cause("renewal"), now, jitter);
    }

    /// Whether the holder is to be warned now, and of what (S9).
    pub(super) fn warn(
        &mut self,
        auto_renew: bool,
        now: Instant,
    ) -> Option<(StoreFailureKind, String)> {
        if self.at_risk || self.warns_from(auto_renew).is_none_or(|from| now < from) {
            return None;
        }
        self.at_risk = true;
        // Nothing has failed yet: no answer came because nothing was asked in time.
        let late = || {
            (StoreFailureKind::Unavailable, "the sidecar was held up and renews late".to_owned())
        };
        Some(self.cause.as_ref().map_or_else(late, |cause| (cause.kind, cause.message.clone())))
    }

    /// Whether a holder whose lease is renewed is to be warned, or was: most of the lease has passed since
    /// the last good renewal, or a suspected pause was not decided in time.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.at_risk || self.warns_from(true).is_some_and(|from| now >= from)
    }

    /// From when on the holder is to be warned (S9); without `auto_renew`, only of a suspected pause.
    fn warns_from(&self, auto_renew: bool) -> Option<Instant> {
        let late = auto_renew.then(|| self.good_sent + self.lease_duration * 2 / 3);
        // S3: a renewal is due soon after the suspicion, and has its time.
        let answer = self.lease_duration / 30 + cut_off(self.lease_duration);
        let undecided = self.suspected_at.map(|at| at + answer);
        late.into_iter().chain(undecided).min()
    }

    fn waiting_try(&self) -> Option<&Try> {
        self.tries.iter().find(|one| !one.cut_off)
    }

    fn note_failure(&mut self, cause: StoreFailure, now: Instant, jitter: &mut Jitter) {
        let retry_after = cause.retry_after;
        self.cause = Some(Box::new(cause));
        let (least, most) = (self.lease_duration / 30, self.lease_duration / 12);
        let grown = (least * 2_u32.saturating_pow(self.failures.min(8))).min(most);
        self.failures += 1;
        let delay = jitter.between(least, grown.max(least));
        // A store that asks for patience gets it, but never so much that the hold is lost for it.
        let patience = delay.max(retry_after.unwrap_or_default().min(most));
        // Whoever has least left must not stand aside while the others ask: then the fewest are lost (S7).
        let left = self.valid_until().saturating_since(now);
        self.due = now + patience.min((left / 4).max(self.lease_duration / 240));
    }
}

/// From the send of a good renewal to the next: D/3, ± 10 % each time anew, so that holds that were acquired
/// together do not renew together for ever (S7).
fn between(lease_duration: Duration, jitter: &mut Jitter) -> Duration {
    jitter.around(lease_duration / 3, 10)
}

/// The part of the margin that does not depend on D: rounding, jitter, and clock steps too small to be seen.
const FIXED_MARGIN: Duration = Duration::from_millis(500);

/// What is taken off a lease's duration: 2 % of it, for clocks that differ in rate, and 500 ms (S2).
#[must_use]
pub fn margin(lease_duration: Duration) -> Duration {
    lease_duration / 50 + FIXED_MARGIN
}

/// The end of the validity that an answered request gives: counted from before it was sent (S2).
#[must_use]
pub fn valid_until(sent: Instant, lease_duration: Duration) -> Instant {
    sent + lease_duration.saturating_sub(margin(lease_duration))
}

/// The moment at which a lease has certainly run out in the store, on a clock that is at most 1 % slow: the
/// last request that may have acquired or renewed it was answered or given up at `given_up`, and arrives no
/// later (S13).
pub(super) fn over_at(given_up: Instant, lease_duration: Duration) -> Instant {
    given_up + lease_duration + margin(lease_duration)
}

/// How much longer a span lasts on a clock elsewhere that is 1 % slow: a client on another kernel counts by
/// its own (S1, S21).
pub(super) fn slowness(span: Duration) -> Duration {
    let millis = u64::try_from(span.as_millis().div_ceil(100)).unwrap_or(u64::MAX);
    Duration::from_millis(millis)
}

/// How long a request about a lease of this duration is waited for: D/6, at most 5 s (S7).
pub(super) fn cut_off(lease_duration: Duration) -> Duration {
    (lease_duration / 6).min(Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_validity_ends_the_margin_before_the_lease() {
        let sent = Instant::from_boot(Duration::from_secs(1_000));
        for (duration, lasts) in [(15, 14_200), (30, 28_900), (60, 58_300)] {
            let until = valid_until(sent, Duration::from_secs(duration));
            assert_eq!(until - sent, Duration::from_millis(lasts));
        }
    }

    #[test]
    fn s7_tries_are_cut_off_after_a_sixth_and_at_most_five_seconds() {
        assert_eq!(cut_off(Duration::from_secs(15)), Duration::from_millis(2_500));
        assert_eq!(cut_off(Duration::from_secs(60)), Duration::from_secs(5));
    }
}
