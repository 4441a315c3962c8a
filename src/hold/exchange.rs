//! What is asked of the store, and how it is known what became of that: a request under way or to be sent
//! (S7), a write of the record, whose the record is where it may have been written since (S5, S16), and the
//! renewals of one lease, as a value: when the next is due, until when the lease is valid by what was
//! answered, and when its holder is warned (S2, S3, S7, S9). Chance spreads them in time ([`Jitter`]).

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use super::Hold;
use super::memory::Known;
use super::words::{Failure, Output, Request, RequestId, StoreFailure, StoreFailureKind};
use crate::lock::{FencingToken, LeaseId};
use crate::record::{ETag, Fields, Record};
use crate::time::Instant;

/// A request under way, or one to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exchange {
    /// It was sent, and is given up then.
    Sent { request: RequestId, until: Instant },
    /// It is looked at then: sent, for the first time or once more, unless there is nothing to send.
    Waiting { at: Instant },
}

impl Exchange {
    /// The request that is under way.
    pub(super) const fn request(&self) -> Option<RequestId> {
        match self {
            Self::Sent { request, .. } => Some(*request),
            Self::Waiting { .. } => None,
        }
    }

    /// Whether `request` is the one that is under way.
    pub(super) fn is(&self, request: RequestId) -> bool {
        self.request() == Some(request)
    }

    pub(super) const fn is_sent(&self) -> bool {
        matches!(self, Self::Sent { .. })
    }

    pub(super) const fn at(&self) -> Instant {
        match self {
            Self::Sent { until, .. } => *until,
            Self::Waiting { at } => *at,
        }
    }

    /// When the last of its tries was given up, or will be.
    pub(super) const fn given_up(&self, now: Instant) -> Instant {
        match self {
            Self::Sent { until, .. } => *until,
            Self::Waiting { .. } => now,
        }
    }

    /// Whether it is to be given up now, or to be sent.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.at()
    }
}

impl Hold {
    /// Asks the store, and waits as long as requests about a lease of this duration are waited for.
    pub(super) fn send(
        &mut self,
        what: Request,
        lease_duration: Duration,
        output: &mut Output,
    ) -> Exchange {
        let (request, timeout) = (self.next_request(), cut_off(lease_duration));
        output.ask(request, what, timeout);
        Exchange::Sent { request, until: output.now + timeout }
    }
}

/// What is written over which version of the record.
#[derive(Clone, Debug)]
pub(super) struct RecordWrite {
    pub(super) if_match: ETag,
    pub(super) fields: Fields,
}

impl RecordWrite {
    /// The request, under this lease.
    pub(super) fn request(&self, lease_id: LeaseId) -> Request {
        let Self { if_match, fields } = self.clone();
        Request::Write { lease_id, if_match, fields }
    }
}

/// The owner of a record that was found, seen from a hold here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordOwner {
    /// This hold: it was written for it, or is yet of the grant from which that was handed on (S10).
    ThisHold,
    /// This hold, which went on from here, by another stream or at another sidecar (S16).
    MovedOn,
    /// Another hold, or none: the lock was granted since, its token is gone (S5), or the former holder has
    /// resumed the grant from which this hold was handed on (S16).
    Another,
}

/// The owner of `record`, for the hold of this generation under `lease_id`.
pub(super) fn owner(
    record: &Record,
    lease_id: LeaseId,
    token: FencingToken,
    generation: u64,
) -> RecordOwner {
    let stored = record.token.filter(|_| record.lease == Some(lease_id.fingerprint()));
    let Some(stored) = stored.filter(|stored| stored.epoch() == token.epoch()) else {
        return RecordOwner::Another;
    };
    match record.generation.cmp(&generation) {
        Ordering::Equal => RecordOwner::ThisHold,
        Ordering::Greater if stored >= token => RecordOwner::MovedOn,
        Ordering::Greater | Ordering::Less => RecordOwner::Another,
    }
}

impl Hold {
    /// The store has done this write, by this request.
    pub(super) fn record_stored(
        &mut self,
        write: &RecordWrite,
        etag: &ETag,
        request: RequestId,
        now: Instant,
    ) {
        self.memory.known = Some(Known::new(etag, &write.fields));
        self.record_written(request, now);
    }
}

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

/// SplitMix64 (Steele, Lea and Flood 2014): good enough to spread, not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A span between `least` and `most`, both included.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let range = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros(self.next() % range.saturating_add(1).max(1))
    }

    /// `span`, less or more by up to `percent` of it.
    pub(crate) fn around(&mut self, span: Duration, percent: u32) -> Duration {
        let most = span / 100 * percent;
        self.between(span.saturating_sub(most), span + most)
    }

    pub(super) const fn write_name(&mut self) -> WriteName {
        WriteName(self.next())
    }

    /// The text of one.
    pub(super) fn name(&mut self) -> String {
        self.write_name().to_string()
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// A name for a write: another has the same with a chance of 1 in 2^64.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteName(u64);

impl fmt::Display for WriteName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
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

    #[test]
    fn spans_stay_between_their_bounds_and_replay() {
        let (least, most) = (Duration::from_millis(250), Duration::from_secs(5));
        let mut one = Jitter::new(7);
        let mut two = Jitter::new(7);
        for _ in 0..10_000 {
            let span = one.between(least, most);
            assert!(span >= least && span <= most);
            assert_eq!(span, two.between(least, most));
        }
        assert_eq!(one.between(most, most), most);
        assert_eq!(one.between(most, least), most);
    }

    #[test]
    fn spans_around_another_use_all_of_their_room() {
        let mut jitter = Jitter::new(7);
        let spans: Vec<_> =
            (0..1_000).map(|_| jitter.around(Duration::from_secs(10), 20)).collect();
        let (least, most) = (spans.iter().min().unwrap(), spans.iter().max().unwrap());
        assert!(*least >= Duration::from_secs(8) && *least < Duration::from_millis(8_100));
        assert!(*most <= Duration::from_secs(12) && *most > Duration::from_millis(11_900));
    }

    #[test]
    fn the_numbers_are_those_of_split_mix_64() {
        // From its authors' C code, as published with this seed.
        let mut jitter = Jitter::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| jitter.next()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
