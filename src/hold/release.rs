//! How a lease goes back, what is told if the store does not confirm that (`release_over`, `lease_gone`), and
//! what of requests that were given up may still come (S6, S13). Whether a release must wait is decided
//! before, by [`Hold::end_hold`] in `end.rs`.

use std::time::Duration;

use super::exchange::{Exchange, RecordOwner, margin, over_at, owner};
use super::held::Held;
use super::memory::Idle;
use super::progress::Attempt;
use super::words::{
    CallerId, Failure, Loss, NotConfirmed, Notice, Output, Request, RequestId, StoreFailure,
    Stored, Tried,
};
use super::{Hold, State};
use crate::lock::{FencingToken, LeaseId};
use crate::record::{ETag, Record};
use crate::time::Instant;

/// A lease on its way back, and what comes then.
#[derive(Clone, Debug)]
pub(super) struct Releasing {
    pub(super) lease_id: LeaseId,
    /// The hold that it backed; none for a lease under which nothing was granted.
    pub(super) hold: Option<Released>,
    pub(super) lease_duration: Duration,
    /// When the lease has run out by itself.
    pub(super) over_at: Instant,
    /// What the machine waits for then, if it does.
    pub(super) then: Option<Idle>,
    /// How long others come first then (S10).
    pub(super) stands_back_for: Option<Duration>,
    pub(super) step: Step,
    pub(super) exchange: Exchange,
    /// When the last release was sent: every answer that counts is one to that.
    pub(super) asked_at: Instant,
    /// An earlier try may have been done.
    pub(super) uncertain: bool,
    /// The only release that was sent so far: its answer is definite, however late it comes.
    pub(super) only: Option<RequestId>,
}

/// What is known of the hold that a lease backed.
#[derive(Clone, Debug)]
pub(super) struct Released {
    /// Who is told what became of it; none if it was told the end already.
    pub(super) caller: Option<CallerId>,
    /// S16: a hold that went on elsewhere has written the record since, and must not be ended from here.
    pub(super) if_match: Option<ETag>,
    pub(super) token: FencingToken,
    pub(super) generation: u64,
    /// Until when nobody gets the lock all the same, because of `min_hold` (S11).
    pub(super) resting_until: Option<Instant>,
    /// Until when the lease cannot have run out by itself: its end before that is a loss.
    pub(super) proven_until: Instant,
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Release,
    /// The record is not as we left it: it says whether the lease is still ours (S13).
    Settle,
    /// Nothing: the lease runs out (S16).
    RunOut,
}

impl Releasing {
    /// The way back of a lease under which nothing was granted.
    pub(super) fn unused(lease_id: LeaseId, lease_duration: Duration, given_up: Instant) -> Self {
        Self {
            lease_id,
            hold: None,
            lease_duration,
            over_at: over_at(given_up, lease_duration),
            then: None,
            stands_back_for: None,
            step: Step::Release,
            exchange: Exchange::Waiting { at: given_up },
            asked_at: given_up,
            uncertain: false,
            only: None,
        }
    }

    /// The way back of a hold's lease.
    pub(super) fn held(held: &Held, released: Released) -> Self {
        let lease_duration = held.renewal.lease_duration();
        let unused = Self::unused(held.lease_id, lease_duration, held.renewal.given_up());
        // A renewal that was sent elsewhere, or here, before a resume wrote the record may have come until
        // then (S16).
        let settled = held.settled_at.map(|at| at + margin(lease_duration));
        let over_at = unused.over_at.max(settled.unwrap_or(unused.over_at));
        Self { hold: Some(released), over_at, ..unused }
    }

    /// The lease is left to run out; who asked for its release is told then (S13, S16).
    pub(super) fn running_out(self) -> Self {
        let exchange = Exchange::Waiting { at: self.over_at };
        Self { step: Step::RunOut, exchange, ..self }
    }

    /// A request that may have renewed the lease was answered, or given up, only now: later than was to be
    /// expected (S13).
    fn lasts_from(&mut self, now: Instant) {
        self.over_at = self.over_at.max(over_at(now, self.lease_duration));
        if self.step == Step::RunOut {
            self.exchange = Exchange::Waiting { at: self.over_at };
        }
    }

    /// A release was sent; whether it is the only one is remembered.
    fn sent(&mut self, exchange: Exchange, now: Instant) {
        self.asked_at = now;
        let first = self.only.is_none() && !self.uncertain;
        self.only = exchange.request().filter(|_| first);
    }

    /// Whether `request` is to be answered, or was the only one and is answered late.
    fn expects(&mut self, request: RequestId) -> bool {
        if self.exchange.is(request) {
            return true;
        }
        let late = self.step == Step::Release && self.only == Some(request);
        self.uncertain &= !late;
        late
    }

    /// The owner of the record that was found.
    fn owner(&self, stored: &Stored) -> RecordOwner {
        let record = Record::from_fields(&stored.fields);
        self.hold.as_ref().map_or(RecordOwner::Another, |hold| {
            owner(&record, self.lease_id, hold.token, hold.generation)
        })
    }
}

impl Hold {
    /// The lease goes back, or runs out; nothing else is sent before that is answered or the lease is over.
    pub(super) fn release(&mut self, releasing: Releasing, output: &mut Output) {
        self.send_back(Box::new(releasing), output);
    }

    fn send_back(&mut self, mut releasing: Box<Releasing>, output: &mut Output) {
        let lease_duration = releasing.lease_duration;
        match releasing.step {
            Step::Release => {
                let if_match = releasing.hold.as_ref().and_then(|hold| hold.if_match.clone());
                let release = Request::Release { lease_id: releasing.lease_id, if_match };
                releasing.exchange = self.send(release, lease_duration, output);
                releasing.sent(releasing.exchange, output.now);
            }
            Step::Settle => releasing.exchange = self.send(Request::Read, lease_duration, output),
            Step::RunOut => {}
        }
        self.state = State::Releasing(releasing);
    }

    pub(super) fn advance_releasing(&mut self, mut releasing: Box<Releasing>, output: &mut Output) {
        if output.now >= releasing.over_at {
            return self.release_over(&releasing, output);
        }
        match releasing.exchange {
            Exchange::Sent { until, .. } if output.now >= until => {
                releasing.uncertain |= releasing.step == Step::Release;
                self.release_later(releasing, StoreFailure::unanswered("release"), output);
            }
            Exchange::Waiting { at } if output.now >= at => self.send_back(releasing, output),
            Exchange::Sent { .. } | Exchange::Waiting { .. } => {
                self.state = State::Releasing(releasing);
            }
        }
    }

    pub(super) fn release_answered(
        &mut self,
        request: RequestId,
        answer: Result<(), Failure>,
        output: &mut Output,
    ) {
        let State::Releasing(releasing) = &mut self.state else { return };
        if !releasing.expects(request) {
            return;
        }
        let State::Releasing(mut releasing) = self.take_state(output.now) else { return };
        let failure = match answer {
            Ok(()) => return self.released(&releasing, output),
            Err(failure) => failure,
        };
        if let Some(loss) = failure.loss() {
            self.lease_gone(&releasing, loss, output);
        } else if failure != Failure::Changed {
            releasing.uncertain |= matches!(failure, Failure::Unknown(_));
            self.release_later(releasing, failure.into_cause("release"), output);
        } else if releasing.hold.is_some() {
            // Our own late write, or another's: the record says which (S13).
            releasing.step = Step::Settle;
            self.send_back(releasing, output);
        } else {
            self.lease_gone(&releasing, Loss::TAKEN, output);
        }
    }

    /// The record was read because a release met another version than ours.
    pub(super) fn release_read_answered(
        &mut self,
        mut releasing: Box<Releasing>,
        request: RequestId,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        if releasing.step != Step::Settle || !releasing.exchange.is(request) {
            self.state = State::Releasing(releasing);
            return;
        }
        let stored = match answer {
            Ok(stored) => stored,
            Err(Failure::Deleted) => return self.lease_gone(&releasing, Loss::DELETED, output),
            Err(failure) => {
                return self.release_later(releasing, failure.into_cause("read"), output);
            }
        };
        match releasing.owner(&stored) {
            RecordOwner::ThisHold => {
                // S13: a late write of our own is no loss.
                if let Some(hold) = &mut releasing.hold {
                    hold.if_match = Some(stored.etag.clone());
                }
                self.learn(stored, output.now);
                releasing.step = Step::Release;
                self.send_back(releasing, output);
            }
            // S16: a release that had been done would have kept the record from being written.
            RecordOwner::MovedOn => {
                self.leave_behind(&releasing, output);
                self.released_or_not(&releasing, output);
            }
            RecordOwner::Another => {
                self.learn(stored, output.now);
                self.lease_gone(&releasing, Loss::TAKEN, output);
            }
        }
    }

    fn release_later(
        &mut self,
        mut releasing: Box<Releasing>,
        store_failure: StoreFailure,
        output: &mut Output,
    ) {
        let at = output.now + self.backoff(&store_failure, releasing.lease_duration);
        releasing.exchange = Exchange::Waiting { at };
        self.state = State::Releasing(releasing);
        output.tried(Tried::Failed(store_failure.clone()));
        self.store_failure = Some(Box::new(store_failure));
    }

    fn released(&mut self, releasing: &Releasing, output: &mut Output) {
        if let Some(Released { caller: Some(caller), resting_until, .. }) = releasing.hold {
            output.tell(caller, Notice::Released { resting_until });
        }
        self.released_or_not(releasing, output);
    }

    /// S13: the lease has run out, and the store has not said that it was released.
    fn release_over(&mut self, releasing: &Releasing, output: &mut Output) {
        let (why, detail) = match releasing.step {
            Step::RunOut => (
                NotConfirmed::LeftToExpire,
                "the hold may have been resumed elsewhere, so its lease was left to expire"
                    .to_owned(),
            ),
            Step::Release | Step::Settle => {
                let cause =
                    self.store_failure.as_ref().map(|failure| format!(": {}", failure.message));
                let cause = cause.unwrap_or_default();
                let detail = format!("the lease expired before the store answered{cause}");
                (NotConfirmed::NoAnswer, detail)
            }
        };
        self.not_confirmed(releasing, why, detail, output);
    }

    /// The store says that the lease is not ours any more. Where it was asked before the lease can have run
    /// out by itself, the hold had been lost before its holder released it, and nobody knew. Later that says
    /// nothing of a holder whose belief had ended in time: the release has come too late to be confirmed
    /// (S13).
    fn lease_gone(
        &mut self,
        releasing: &Releasing,
        Loss { reason, detail }: Loss,
        output: &mut Output,
    ) {
        if releasing.hold.as_ref().is_some_and(|hold| releasing.asked_at >= hold.proven_until) {
            let detail = format!("{detail}; by then it may have expired");
            return self.not_confirmed(releasing, NotConfirmed::LeaseGone, detail, output);
        }
        if releasing.uncertain {
            // S13: the first release was done, and only its answer was lost.
            return self.released(releasing, output);
        }
        if let Some(Released { caller: Some(caller), .. }) = releasing.hold {
            let detail = format!("{detail}; learned when it was released");
            output.tell(caller, Notice::Lost { reason, detail });
        }
        self.released_or_not(releasing, output);
    }

    fn not_confirmed(
        &mut self,
        releasing: &Releasing,
        why: NotConfirmed,
        detail: String,
        output: &mut Output,
    ) {
        if let Some(Released { caller: Some(caller), .. }) = releasing.hold {
            output.tell(caller, Notice::NotConfirmed { why, detail });
        }
        self.released_or_not(releasing, output);
    }

    fn released_or_not(&mut self, releasing: &Releasing, output: &Output) {
        self.store_failure = None;
        let idle = match releasing.stands_back_for {
            Some(span) => self.stand_back(span, output.now),
            None => releasing.then.unwrap_or_else(|| Idle::ready(output.now)),
        };
        self.state = State::Idle { idle, retry: None };
        // One that need not rest may have come meanwhile (S33), or one try (S12).
        self.wake_for_front(output.now);
    }
}

/// A request that, if it succeeded after all, has leased the lock to nobody.
#[derive(Clone, Debug)]
struct AbandonedRequest {
    request: RequestId,
    lease_id: LeaseId,
    if_match: Option<ETag>,
    lease_duration: Duration,
}

/// Those of one machine.
#[derive(Clone, Debug, Default)]
pub(super) struct AbandonedRequests(Vec<AbandonedRequest>);

/// So many are remembered; older ones have long been answered or cut off.
const MAX_ABANDONED: usize = 8;

impl AbandonedRequests {
    pub(super) fn keep(
        &mut self,
        request: RequestId,
        lease_id: LeaseId,
        if_match: Option<ETag>,
        lease_duration: Duration,
    ) {
        if self.0.len() == MAX_ABANDONED {
            self.0.remove(0);
        }
        self.0.push(AbandonedRequest { request, lease_id, if_match, lease_duration });
    }

    /// The lease was granted to a holder, so whoever ends that hold ends the lease; or it is left to run out,
    /// or went on elsewhere.
    pub(super) fn forget(&mut self, lease_id: LeaseId) {
        self.0.retain(|abandoned| abandoned.lease_id != lease_id);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    fn take(&mut self, request: RequestId) -> Option<AbandonedRequest> {
        let index = self.0.iter().position(|abandoned| abandoned.request == request)?;
        Some(self.0.remove(index))
    }
}

impl Hold {
    /// An acquire or a renewal was answered that nobody waits for any more: a lease that it has is given
    /// back.
    pub(super) fn late_answer(&mut self, request: RequestId, succeeded: bool, output: &mut Output) {
        let Some(late) = self.abandoned.take(request) else {
            return;
        };
        if let State::Releasing(releasing) = &mut self.state
            && releasing.lease_id == late.lease_id
        {
            releasing.lasts_from(output.now);
        }
        if !succeeded || self.uses(late.lease_id) {
            return;
        }
        if let State::Releasing(releasing) = &mut self.state
            && releasing.lease_id == late.lease_id
        {
            // A renewal was done before the release that is under way; an acquire may have been done after
            // it.
            if late.if_match.is_some() {
                return;
            }
            releasing.uncertain = true;
        }
        let release = Request::Release { lease_id: late.lease_id, if_match: late.if_match };
        self.send(release, late.lease_duration, output);
    }

    /// Whether this lease is had or tried for now.
    fn uses(&self, lease_id: LeaseId) -> bool {
        let used = match &self.state {
            State::Idle { retry, .. } => retry.as_ref().map(|retry| retry.lease_id),
            State::Acquiring(attempt) => Some(match attempt.as_ref() {
                Attempt::Acquire { retry, .. } | Attempt::ReadHolder { retry, .. } => {
                    retry.lease_id
                }
                Attempt::Leased { lease, .. } => lease.lease_id,
            }),
            State::Held(held) => Some(held.lease_id),
            // On its way back, and so is what a late request may have made of it.
            State::Releasing(_) => None,
            State::Resuming(resuming) => Some(resuming.lease_id()),
        };
        used == Some(lease_id)
    }
}
