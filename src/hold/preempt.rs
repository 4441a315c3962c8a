//! A lock that is broken for a caller of greater priority, or for the balance of its share (S33, S35):
//! `overrule` begins that, and `Overruling` is how far it has come. What its holder is told, if that is here,
//! is in `broken.rs`.

use std::time::Duration;

use super::acquire::Waiter;
use super::exchange::{Exchange, cut_off};
use super::held::Phase;
use super::memory::Known;
use super::words::{
    Failure, Look, Output, PriorityStatus, Remark, Request, RequestId, Rival, StoreFailure,
};
use super::{Hold, State};
use crate::lock::FencingToken;
use crate::record::{ETag, Priority, Record, Sharing};
use crate::time::{Instant, UnixMillis};

/// How long a store that refuses to break leases is not asked again.
const REFUSED: Duration = Duration::from_secs(600);
/// What the lock is polled eagerly for beyond D and the poll cap, once it was broken for a caller here.
pub(super) const EAGER_BEYOND: Duration = Duration::from_secs(5);
/// A lock that was granted less long ago is not moved (S35): no lock moves twice in that time.
const SETTLED: Duration = Duration::from_secs(600);
/// How long a move that was asked for may take to begin (S35).
const MOVE_BEGINS: Duration = Duration::from_secs(30);
/// Between two looks of which the first has led to no break: the lock is polled meanwhile.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// What is done so that the lock becomes free for the caller at the front.
#[derive(Clone, Debug, Default)]
pub(super) struct Overruling {
    step: Option<BreakStep>,
    /// Nothing is done before that, and why.
    pub(super) paused: Option<(Instant, PriorityStatus)>,
    /// Until when the store is not asked again, if it has refused to break leases: that is said once.
    pub(super) refused_until: Option<Instant>,
    /// The grant whose lease was last seen to be broken, or was broken for a caller here.
    pub(super) broken: Option<FencingToken>,
    /// The lock was broken for a caller here.
    pub(super) eager: Option<Eager>,
    /// The share's balance wants the lock here, if that begins before then (S35).
    moves_until: Option<Instant>,
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug)]
enum BreakStep {
    /// How the lock is, and when it was broken last.
    Look(Exchange),
    Break(Exchange, Broken),
}

/// What is broken, and for whom.
#[derive(Clone, Copy, Debug)]
struct Broken {
    token: Option<FencingToken>,
    priority: Priority,
    moves: bool,
    /// For how long the path is left alone then.
    span: Duration,
}

impl Overruling {
    /// What is known at a lock whose store has refused, and is not asked again until then.
    pub(super) fn refused(until: Instant) -> Box<Self> {
        let paused = Some((until, PriorityStatus::CannotBreak));
        Box::new(Self { paused, refused_until: Some(until), ..Self::default() })
    }

    /// Whether a break is under way.
    pub(super) const fn is_breaking(&self) -> bool {
        matches!(self.step, Some(BreakStep::Break(..)))
    }
}

impl BreakStep {
    const fn exchange(&self) -> Exchange {
        match self {
            Self::Look(exchange) | Self::Break(exchange, _) => *exchange,
        }
    }
}

/// What was seen at a look that a break goes by.
struct Target {
    etag: ETag,
    token: Option<FencingToken>,
    time: UnixMillis,
}

impl Hold {
    pub(super) fn overruling(&self) -> Option<&Overruling> {
        self.rare.as_ref()?.overruling.as_deref()
    }

    fn overruling_mut(&mut self) -> &mut Overruling {
        self.rare.get_or_insert_default().overruling.get_or_insert_default()
    }

    /// Whether a request is under way: the lock is not polled beside it (S12).
    pub(super) fn is_overruling(&self) -> bool {
        self.overruling().is_some_and(|overruling| overruling.step.is_some())
    }

    /// What the holder that is waited for here has said of its place, if a caller that waits may overrule
    /// holders.
    fn rival(&self) -> Option<Sharing> {
        // Most callers never do, and the record is not looked through for them at each event.
        if self.rivals().is_empty() {
            return None;
        }
        let holder = match &self.state {
            State::Held(held) if held.phase == Phase::Active && held.notice.is_none() => {
                held.terms.record.sharing.clone()
            }
            // S6: a lease that may be our own is not broken; the store says first whose it is.
            State::Idle { retry: Some(retry), .. }
                if retry.uncertain.is_none() || self.store_failure.is_none() =>
            {
                self.memory.known.as_ref().and_then(Known::sharing)
            }
            State::Idle { .. }
            | State::Acquiring(_)
            | State::Held(_)
            | State::Releasing(_)
            | State::Resuming(_) => return None,
        };
        Some(holder.map(|sharing| *sharing).unwrap_or_default())
    }

    /// The first caller that may overrule a holder that has said this, and whether that is a move (S35). Who
    /// is at the front of its priority has waited longest of it; one of a greater priority may have come just
    /// now.
    fn overruler(&self, holder: &Sharing, now: Instant) -> Option<(&Waiter, bool)> {
        self.rivals_of(holder)
            .find_map(|waiter| Some((waiter, self.may_overrule(waiter, holder, now).ok()?)))
    }

    /// Those at the front of their priorities, as far down as that of the holder.
    fn rivals_of(&self, holder: &Sharing) -> impl Iterator<Item = &Waiter> {
        let least = holder.priority;
        self.rivals().iter().take_while(move |waiter| waiter.terms.priority() >= least)
    }

    /// Whether `waiter` may overrule a holder that has said this, and whether that is a move; or why not.
    fn may_overrule(
        &self,
        waiter: &Waiter,
        holder: &Sharing,
        now: Instant,
    ) -> Result<bool, PriorityStatus> {
        if !holder.yields {
            return Err(PriorityStatus::HolderDoesNotYield);
        }
        let ours = waiter.terms.priority();
        let moves = ours == holder.priority && waiter.terms.rebalance && self.is_moving(now);
        if !moves && ours <= holder.priority {
            return Err(PriorityStatus::NotGreater);
        }
        if waiter.is_one_try() || !moves && now < waiter.since + waiter.terms.lease_duration {
            return Err(PriorityStatus::WaitedTooShort);
        }
        match self.overruling().and_then(|overruling| overruling.paused) {
            Some((until, why)) if now < until => Err(why),
            Some(_) | None => Ok(moves),
        }
    }

    /// When a caller may overrule a holder here, or the request under way is over.
    pub(super) fn overruling_timeout(&self) -> Option<Instant> {
        if let Some(step) = self.overruling().and_then(|overruling| overruling.step) {
            return Some(step.exchange().at());
        }
        if !matches!(self.state, State::Held(_)) || self.shutdown.is_under_way() {
            return None;
        }
        let holder = self.rival().filter(|holder| holder.yields)?;
        let rivals = self
            .rivals_of(&holder)
            .filter(|waiter| waiter.terms.priority() > holder.priority && !waiter.is_one_try());
        let ripe = rivals.map(|waiter| waiter.since + waiter.terms.lease_duration).min()?;
        let paused = self.overruling().and_then(|overruling| overruling.paused);
        Some(paused.map_or(ripe, |(until, _)| until.max(ripe)))
    }

    /// Begins to free the lock for a caller that may have that, or gives up on a request that is not
    /// answered.
    pub(super) fn overrule(&mut self, output: &mut Output) {
        if let Some(step) = self.overruling().and_then(|overruling| overruling.step) {
            if step.exchange().is_over(output.now) {
                if matches!(step, BreakStep::Break(..)) {
                    self.break_unanswered();
                }
                let failure = Failure::Unknown(StoreFailure::unanswered("break"));
                self.overruling_failed(failure, output);
            }
            return;
        }
        let Some(holder) = self.rival() else { return };
        let Some((waiter, _)) = self.overruler(&holder, output.now) else { return };
        let lease_duration = waiter.terms.lease_duration;
        let exchange = self.send(Request::Look { note: true }, lease_duration, output);
        self.overruling_mut().step = Some(BreakStep::Look(exchange));
    }

    /// Whether the answer to this look is for the caller at the front.
    pub(super) fn overrules_by(&self, request: RequestId) -> bool {
        let step = self.overruling().and_then(|overruling| overruling.step);
        matches!(step, Some(BreakStep::Look(exchange)) if exchange.is(request))
    }

    /// How the lock is, as seen just before a break.
    pub(super) fn looked_to_overrule(
        &mut self,
        answer: Result<Look, Failure>,
        output: &mut Output,
    ) {
        self.overruling_mut().step = None;
        let look = match answer {
            Ok(look) => look,
            // S8: who may not look now may break all the same, once its credentials are good again.
            Err(Failure::Refused(store_failure)) => {
                let retry_after = Some(self.settings.poll_cap);
                let failure = Failure::NotDone(StoreFailure { retry_after, ..store_failure });
                return self.overruling_failed(failure, output);
            }
            Err(failure) => return self.overruling_failed(failure, output),
        };
        let record = Record::from_fields(&look.stored.fields);
        let target =
            Target { etag: look.stored.etag.clone(), token: record.token, time: look.stored.time };
        let (free, breaking) = (look.stored.free, look.breaking);
        // What is handed on and saves has another token than the record had, and the same lease (S10).
        let epoch = |token: Option<FencingToken>| token.map(FencingToken::epoch);
        let noted = look
            .note
            .and_then(|note| Some((epoch(note.token) == epoch(record.token), note.for_priority?)));
        if matches!(self.state, State::Idle { .. }) {
            self.learn(look.stored, output.now);
        }
        self.poll_now(output.now);
        let holder = record.sharing.map(|sharing| *sharing).unwrap_or_default();
        let overruler = self.rival().and_then(|_| self.overruler(&holder, output.now));
        let overruler = overruler.filter(|_| !free);
        let Some((waiter, moves)) = overruler else {
            // What there is to have is had by polling; and a holder that yields no more is not looked at
            // without end.
            return self.pause(BETWEEN_LOOKS, PriorityStatus::WaitedTooShort, output.now);
        };
        let (priority, span) = (waiter.terms.priority(), waiter.terms.lease_duration * 2);
        let by = waiter.terms.record.holder.clone();
        let breaks = Broken { token: target.token, priority, moves, span };
        if breaking {
            // Somebody else has had it broken, or we had and did not know.
            return self.wait_for_release(breaks, output.now);
        }
        if let Some((is_of_this, (_, at))) = noted {
            // The lease of this very grant is not broken: its break is on its way yet, or was lost after the
            // note.
            let span = if is_of_this { cut_off(span / 2) } else { span };
            if let Some(left) = left_of(span, at, target.time) {
                self.overruling_mut().moves_until = None;
                return self.pause(left, PriorityStatus::BrokenRecently, output.now);
            }
        }
        let granted = record.acquired_at.unwrap_or_default();
        if moves && left_of(SETTLED, granted, target.time).is_some() {
            self.overruling_mut().moves_until = None;
            return;
        }
        self.send_break(target, breaks, by, output);
    }

    fn send_break(&mut self, target: Target, breaks: Broken, holder: String, output: &mut Output) {
        let Target { etag: if_match, token, time } = target;
        let Broken { priority, moves, span, .. } = breaks;
        let rival = Box::new(Rival { token, priority, holder, moves, at: time });
        let exchange = self.send(Request::Break { if_match, rival }, span / 2, output);
        self.overruling_mut().step = Some(BreakStep::Break(exchange, breaks));
    }

    /// The store answered the break.
    pub(super) fn break_answered(
        &mut self,
        request: RequestId,
        answer: Result<(), Failure>,
        output: &mut Output,
    ) {
        let may_arrive = matches!(answer, Err(Failure::Unknown(_)));
        let breaks = match self.overruling().and_then(|overruling| overruling.step) {
            Some(BreakStep::Break(exchange, breaks)) if exchange.is(request) => breaks,
            Some(BreakStep::Look(_) | BreakStep::Break(..)) | None => {
                return self.break_answered_late(may_arrive, output.now);
            }
        };
        self.break_ended(may_arrive, output.now);
        if let Err(failure) = answer {
            return self.overruling_failed(failure, output);
        }
        self.overruling_mut().step = None;
        self.poll_now(output.now);
        let Broken { priority, moves, .. } = breaks;
        output.report(Remark::Overruled { priority, moves });
        self.wait_for_release(breaks, output.now);
        if let Some(held) = self.take_held(output.now, |held| held.phase.is_open()) {
            self.broken_here_softly(held, output);
        }
    }

    /// The lease runs out, or is given back before: then the lock is for the caller at the front.
    fn wait_for_release(&mut self, broken: Broken, now: Instant) {
        let Broken { token, priority, span, .. } = broken;
        let until = now + span / 2 + self.settings.poll_cap + EAGER_BEYOND;
        let overruling = self.overruling_mut();
        overruling.broken = token;
        overruling.eager = Some(Eager { until, priority });
        overruling.moves_until = None;
        self.pause(span, PriorityStatus::Revoked, now);
    }

    fn pause(&mut self, span: Duration, why: PriorityStatus, now: Instant) {
        self.overruling_mut().paused = Some((now + span, why));
    }

    fn overruling_failed(&mut self, failure: Failure, output: &mut Output) {
        self.overruling_mut().step = None;
        self.poll_now(output.now);
        let duration =
            self.front().map_or(self.settings.poll_cap, |front| front.terms.lease_duration);
        match failure {
            Failure::Refused(store_failure) => {
                let until = output.now + REFUSED;
                if self.overruling_mut().refused_until.replace(until).is_none() {
                    output.report(Remark::CannotBreak { store_failure });
                }
                self.pause(REFUSED, PriorityStatus::CannotBreak, output.now);
            }
            // The note and the lease's state say at the next look what became of it.
            Failure::Unknown(store_failure) | Failure::NotDone(store_failure) => {
                let delay = self.backoff(&store_failure, duration);
                self.pause(delay, PriorityStatus::WaitedTooShort, output.now);
            }
            // It is another's by now, or nobody's: the next poll says.
            Failure::Contended
            | Failure::Taken
            | Failure::Broken
            | Failure::Deleted
            | Failure::Changed => {
                self.pause(BETWEEN_LOOKS, PriorityStatus::WaitedTooShort, output.now);
            }
        }
    }

    /// The share's balance wants the lock here (S35).
    pub(super) fn move_asked(&mut self, now: Instant) {
        if self.front().is_some_and(|front| front.terms.rebalance) {
            self.overruling_mut().moves_until = Some(now + MOVE_BEGINS);
            self.poll_now(now);
        }
    }

    /// Whether a move is about to begin, or has begun and the lock is not here yet (S35).
    fn is_moving(&self, now: Instant) -> bool {
        let until = self.overruling().and_then(|overruling| overruling.moves_until);
        until.is_some_and(|until| now < until)
    }

    /// The lock is had here: what was done for a caller is over. That it was broken is remembered.
    pub(super) fn end_overruling(&mut self) {
        if let Some(rare) = &mut self.rare
            && let Some(overruling) = &mut rare.overruling
        {
            overruling.eager = None;
            overruling.moves_until = None;
        }
    }
}

/// What is left of `span` since `then`; none if it is over. A clock that was set back makes no more of it
/// than `span`.
fn left_of(span: Duration, then: UnixMillis, now: UnixMillis) -> Option<Duration> {
    let left = if then > now {
        let ahead = then.saturating_since(now);
        if ahead > span { Duration::ZERO } else { span }
    } else {
        span.saturating_sub(now.saturating_since(then))
    };
    (!left.is_zero()).then_some(left)
}

/// The lock was broken for a caller here: until then it is polled eagerly for who is of no smaller priority.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eager {
    pub(super) until: Instant,
    pub(super) priority: Priority,
}

impl Hold {
    /// What the lock was broken for, for a caller here, while it is to be free soon.
    fn eager(&self, now: Instant) -> Option<Eager> {
        self.overruling()?.eager.filter(|eager| now < eager.until)
    }

    /// Whether the lock was broken for who waits here, and is to be had as soon as it is free. Not for those
    /// that are left once that one has gone.
    pub(super) fn is_eager_after_break(&self, now: Instant) -> bool {
        self.eager(now).is_some_and(|eager| self.front_priority() >= eager.priority)
    }

    /// Why the priority of a caller that leaves has not freed the lock; none if it gave none.
    pub(super) fn priority_status(&self, waiter: &Waiter, now: Instant) -> Option<PriorityStatus> {
        let ours = waiter.terms.priority();
        if ours == Priority::NONE {
            return None;
        }
        let rest = self.rest_seen(now);
        if rest.is_some_and(|rest| rest.below.is_some() && rest.concerns(ours)) {
            return Some(PriorityStatus::Reserved);
        }
        let holder = match self.held() {
            Some(held) if held.notice.is_some() => return Some(PriorityStatus::Revoked),
            Some(held) => held.terms.record.sharing.clone(),
            None => self.memory.known.as_ref()?.sharing(),
        };
        let holder = holder.map(|sharing| *sharing).unwrap_or_default();
        // Who has been granted the lock since the break was not told of it.
        let epoch = |token: Option<FencingToken>| token.map(FencingToken::epoch);
        let known = self.memory.known.as_ref().and_then(Known::token);
        let broken = self.overruling().and_then(|overruling| overruling.broken);
        let told = epoch(known) == epoch(broken);
        Some(match self.may_overrule(waiter, &holder, now) {
            _ if told && self.eager(now).is_some() => PriorityStatus::Revoked,
            Err(PriorityStatus::Revoked) if !told => PriorityStatus::BrokenRecently,
            Err(why) => why,
            // What a caller could do by now and has not done was yet to begin.
            Ok(_) => PriorityStatus::WaitedTooShort,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s33_what_is_left_of_a_span_is_never_more_than_the_span() {
        let span = Duration::from_secs(120);
        let at = |seconds: u64| UnixMillis(seconds * 1_000);
        assert_eq!(left_of(span, at(1_000), at(1_030)), Some(Duration::from_secs(90)));
        assert_eq!(left_of(span, at(1_000), at(1_120)), None);
        assert_eq!(left_of(span, at(1_010), at(1_000)), Some(span), "the clock was set back");
        assert_eq!(left_of(span, at(2_000), at(1_000)), None, "that note is of another clock");
    }
}
