//! The callers that wait here: their order, by priority and then by who has waited longest (`Ticket`), what
//! they are told, and how long (S12, S31, S33). Those that name more than one permit, and so have no
//! priority, wait in `pool/queue.rs`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::action::{Busy, Notice, Output};
use super::event::{CallerId, StoreFailure, StoreFailureKind, Terms};
use super::fairness::LONGEST_STAND_BACK;
use super::release::Step;
use super::{Hold, State};
use crate::lock::{LeaseId, Permits};
use crate::record::Priority;
use crate::time::Instant;

impl Hold {
    /// A caller has left, in a way that S14 trusts.
    pub(super) fn caller_left(&mut self, caller: CallerId, output: &mut Output) {
        if !self.stops_waiting(caller, output) {
            self.holder_left(caller, output);
        }
    }

    /// A caller's stream ended without a word (S14).
    pub(super) fn caller_disconnected(&mut self, caller: CallerId, output: &Output) {
        if !self.stops_waiting(caller, output) {
            self.disconnected(caller);
        }
    }

    /// Takes out a caller that waited for the lock, or to resume; whether it did.
    fn stops_waiting(&mut self, caller: CallerId, output: &Output) -> bool {
        self.waiters.remove(caller) || self.resume_left(caller, output)
    }

    pub(super) fn arrive(&mut self, caller: CallerId, terms: Arc<Terms>, output: &mut Output) {
        if self.shutdown.is_under_way() {
            return output.tell(caller, Notice::Failed(shutting_down()));
        }
        if let State::Held(held) = &self.state
            && held.repeats(&terms)
        {
            return output.tell(caller, Notice::SameGrant { holder: held.caller });
        }
        let waiter = Waiter::new(caller, terms, output.now);
        let waiter = match self.waiters.replace(waiter, output.now) {
            Ok((superseded, _)) => {
                output.tell(superseded, Notice::Superseded { by: caller });
                self.refuse_known(output);
                return self.tell_untold(output);
            }
            Err(waiter) => waiter,
        };
        if waiter.terms.wait.is_zero() && self.is_answer_known(waiter.terms.priority(), output.now)
        {
            return output.tell(waiter.caller, self.refusal(&waiter, output.now));
        }
        if waiter.terms.wait.is_zero() {
            self.try_once_soon(output.now);
        }
        self.waiters.push(waiter, output.now);
        self.wake_for_front(output.now);
        if matches!(self.state, State::Idle { .. }) {
            self.take_seen(caller, output);
        }
        if self.is_answer_known(self.front_priority(), output.now) {
            self.tell_untold(output);
        }
    }

    /// Those who came while a try was under way are told once it is known that they wait.
    fn tell_untold(&mut self, output: &mut Output) {
        while let Some((caller, place)) = self.waiters.tell_next() {
            output.tell(caller, Notice::Waiting { place });
        }
    }

    /// S12: one try is one answer of the store; where others wait or hold here, the answer to a caller of
    /// this priority is known.
    fn is_answer_known(&self, priority: Priority, now: Instant) -> bool {
        match &self.state {
            State::Held(_) | State::Resuming(_) => true,
            // A sidecar that stands back knows of nobody who has the lock (S10).
            State::Idle { idle, .. } => {
                let rest = self.memory.rest.as_ref().filter(|_| idle.why.is_rest());
                now < idle.until
                    && idle.why != Wait::StandBack
                    && self.free_since().is_none()
                    && rest.is_none_or(|rest| rest.concerns(priority))
            }
            // Nothing is asked before the lease has run out.
            State::Releasing(releasing) => releasing.step == Step::RunOut,
            State::Acquiring(_) => false,
        }
    }

    /// S12: one try that came while a lease went back, or before a resume, does not wait for the end of a
    /// rest or of that hold.
    pub(super) fn refuse_known(&mut self, output: &mut Output) {
        // The front has the greatest priority: what it need not wait for is tried for all.
        if self.waiters.has_one_try() && self.is_answer_known(self.front_priority(), output.now) {
            self.refuse_one_tries(output);
        }
    }

    /// A call that was repeated may be one try, though the first was not.
    fn refuse_one_tries(&mut self, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_one_try() {
            output.tell(waiter.caller, self.refusal(&waiter, output.now));
        }
    }

    /// Answers all whose wait is over.
    pub(super) fn answer_overdue(&mut self, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_overdue(output.now) {
            output.tell(waiter.caller, self.refusal(&waiter, output.now));
        }
    }

    /// Who waits for long is told so again, whatever has changed.
    pub(super) fn repeat_waiting(&mut self, output: &mut Output) {
        if self.waiters.is_repeat_due(output.now) {
            for (caller, place) in self.waiters.tell_again(output.now) {
                output.tell(caller, Notice::Waiting { place });
            }
        }
    }

    /// Somebody has the lock: one try is over, and the others wait.
    pub(super) fn tell_taken(&mut self, output: &mut Output) {
        self.tell_busy_one_tries(output);
        self.tell_untold(output);
    }

    fn tell_busy_one_tries(&mut self, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_one_try() {
            let busy = self.busy_for(&waiter, output.now);
            output.tell(waiter.caller, Notice::Busy(busy));
        }
    }

    pub(super) fn fail_one_tries(&mut self, store_failure: &StoreFailure, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_one_try() {
            output.tell(waiter.caller, Notice::Failed(store_failure.clone()));
        }
    }

    pub(super) fn fail_all(&mut self, store_failure: &StoreFailure, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop() {
            output.tell(waiter.caller, Notice::Failed(store_failure.clone()));
        }
    }

    /// What a caller is told that does not get the lock now: the store's failure, or who has it.
    fn refusal(&self, waiter: &Waiter, now: Instant) -> Notice {
        match &self.store_failure {
            Some(store_failure) => Notice::Failed(store_failure.as_ref().clone()),
            None => Notice::Busy(self.busy_for(waiter, now)),
        }
    }

    /// Who has the lock, and what became of the caller's priority (S33).
    fn busy_for(&self, waiter: &Waiter, now: Instant) -> Busy {
        let rest = self.rest_seen(now).filter(|rest| rest.concerns(waiter.terms.priority()));
        let rest = rest.map(|rest| rest.until);
        Busy { priority: self.priority_status(waiter, now), ..self.busy_resting(rest, now) }
    }

    /// Who has the lock, as far as is known here.
    pub(crate) fn busy(&self, now: Instant) -> Busy {
        self.busy_resting(self.rest_seen(now).map(|rest| rest.until), now)
    }

    fn busy_resting(&self, seen: Option<Instant>, now: Instant) -> Busy {
        let (record, rest, kept) = match &self.state {
            State::Held(held) => {
                let holding = held.holding();
                (held.record(), holding.resting_until, holding.kept_until)
            }
            State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {
                (self.memory.record().unwrap_or_default(), seen, None)
            }
        };
        let rest = rest.filter(|until| *until > now);
        let free_at = rest.or(kept);
        let retry_after =
            free_at.map_or(self.settings.poll_cap, |until| until.saturating_since(now));
        let resting = rest.is_some();
        Busy { record, retry_after, resting, held_permits: u8::from(!resting), priority: None }
    }
}

pub(crate) fn shutting_down() -> StoreFailure {
    StoreFailure {
        kind: StoreFailureKind::ShuttingDown,
        message: "the sidecar is shutting down".to_owned(),
        retry_after: None,
    }
}

/// A caller that waits for the lock.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) caller: CallerId,
    pub(crate) terms: Arc<Terms>,
    /// Since when it waits (S33, S34).
    pub(crate) since: Instant,
    deadline: Instant,
}

/// Whoever waits hears so again after this, and not before, whatever has changed: a queue that is told of
/// each hand-off is served the more slowly the longer it is (S31). One that hears nothing takes its
/// connection for dead, and a proxy may close it. A little under the 30 s that callers are promised.
const REPEAT: Duration = Duration::from_secs(25);

impl Waiter {
    pub(crate) fn new(caller: CallerId, terms: Arc<Terms>, now: Instant) -> Self {
        let deadline = now + terms.wait;
        Self { caller, terms, since: now, deadline }
    }

    /// The same, which has waited for longer already.
    pub(crate) fn waiting_since(self, since: Instant) -> Self {
        Self { since, ..self }
    }

    /// A wait of zero is one try: it ends with the next answer, not with the clock (S12).
    pub(crate) fn is_one_try(&self) -> bool {
        self.terms.wait.is_zero()
    }
}

/// Callers by their priority, and then in the order in which they came; the first is served first (S12, S33).
/// Everything that an event needs is found in logarithmic time, and an empty queue has nothing allocated:
/// most machines have nobody who waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Option<Box<Queue>>);

#[derive(Clone, Debug, Default)]
struct Queue {
    waiters: BTreeMap<Ticket, Waiter>,
    callers: BTreeMap<CallerId, Ticket>,
    request_ids: BTreeMap<String, Ticket>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    one_tries: BTreeSet<Ticket>,
    /// Those who wait and were not told yet: they came while it was not known whether they would.
    untold: BTreeSet<Ticket>,
    next: u64,
    /// When all are told once more that they wait.
    repeat_at: Option<Instant>,
}

/// The greater priority comes first, and then the caller that has waited for longer: one that a pool enters
/// has waited there.
type Ticket = (Reverse<Priority>, Instant, u64);

impl Waiters {
    pub(crate) fn push(&mut self, waiter: Waiter, now: Instant) {
        let queue = self.0.get_or_insert_default();
        let arrival = queue.next;
        queue.put(arrival, waiter, now);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiter> {
        let (ticket, _) = self.0.as_ref()?.waiters.first_key_value()?;
        self.take(*ticket)
    }

    pub(crate) fn front(&self) -> Option<&Waiter> {
        self.each().next()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.waiters.len())
    }

    /// Whether `caller` waits here.
    pub(crate) fn contains(&self, caller: CallerId) -> bool {
        self.0.as_ref().is_some_and(|queue| queue.callers.contains_key(&caller))
    }

    /// Who waits here with the call of this id.
    pub(crate) fn caller_of(&self, request_id: &str) -> Option<CallerId> {
        let queue = self.0.as_ref()?;
        let ticket = queue.request_ids.get(request_id)?;
        queue.waiters.get(ticket).map(|waiter| waiter.caller)
    }

    /// The first of each priority, the greatest first.
    pub(crate) fn first_of_each(&self) -> impl Iterator<Item = &Waiter> {
        let waiters = self.0.as_ref().map(|queue| &queue.waiters);
        let mut next = waiters.and_then(BTreeMap::first_key_value);
        std::iter::from_fn(move || {
            let (&(priority, ..), waiter) = next?;
            let last = (priority, Instant::from_boot(Duration::MAX), u64::MAX);
            let after = (Bound::Excluded(last), Bound::Unbounded);
            next = waiters.and_then(|waiters| waiters.range(after).next());
            Some(waiter)
        })
    }

    /// All who wait, the first first.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Waiter> {
        self.0.iter().flat_map(|queue| queue.waiters.values())
    }

    /// The first of those who wait that `suits`.
    pub(crate) fn first(&self, suits: impl Fn(&Waiter) -> bool) -> Option<&Waiter> {
        self.each().find(|waiter| suits(waiter))
    }

    /// Whether somebody besides the front is going to wait: one try is answered at the grant (S10).
    pub(crate) fn will_be_handed_on(&self) -> bool {
        let front_waits = self.front().is_some_and(|front| !front.is_one_try());
        self.0.as_ref().is_some_and(|queue| queue.deadlines.len() > usize::from(front_waits))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// When the first wait is over, or all are to be told again that they wait.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let queue = self.0.as_ref()?;
        let deadline = queue.deadlines.first().map(|(deadline, _)| *deadline);
        [deadline, queue.repeat_at].into_iter().flatten().min()
    }

    /// Takes `caller` out; whether it was there.
    pub(crate) fn remove(&mut self, caller: CallerId) -> bool {
        let ticket = self.0.as_ref().and_then(|queue| queue.callers.get(&caller).copied());
        ticket.is_some_and(|ticket| self.take(ticket).is_some())
    }

    /// Takes out one whose wait is over.
    pub(crate) fn pop_overdue(&mut self, now: Instant) -> Option<Waiter> {
        let (deadline, ticket) = self.0.as_ref()?.deadlines.first().copied()?;
        if deadline <= now { self.take(ticket) } else { None }
    }

    /// Who was not told yet that it waits, and its place; from now on it was.
    pub(crate) fn tell_next(&mut self) -> Option<(CallerId, usize)> {
        let queue = self.0.as_mut()?;
        let ticket = queue.untold.pop_first()?;
        let place = queue.waiters.range(..=ticket).count();
        let waiter = queue.waiters.get(&ticket)?;
        Some((waiter.caller, place))
    }

    /// Whether there is somebody who was not told yet that it waits.
    pub(crate) fn has_untold(&self) -> bool {
        self.0.as_ref().is_some_and(|queue| !queue.untold.is_empty())
    }

    /// Whether all are to be told once more that they wait.
    pub(crate) fn is_repeat_due(&self, now: Instant) -> bool {
        let repeat_at = self.0.as_ref().and_then(|queue| queue.repeat_at);
        repeat_at.is_some_and(|at| now >= at)
    }

    /// All who wait, and their places; from now on they were told. Also those who came while it was not known
    /// whether they would wait: they have.
    pub(crate) fn tell_again(&mut self, now: Instant) -> impl Iterator<Item = (CallerId, usize)> {
        if let Some(queue) = &mut self.0 {
            queue.repeat_at = Some(now + REPEAT);
            queue.untold.clear();
        }
        let places = self.each().zip(1..);
        places
            .filter(|(waiter, _)| !waiter.is_one_try())
            .map(|(waiter, place)| (waiter.caller, place))
    }

    pub(crate) fn has_one_try(&self) -> bool {
        self.0.as_ref().is_some_and(|queue| !queue.one_tries.is_empty())
    }

    /// Takes out one of those who wanted one try.
    pub(crate) fn pop_one_try(&mut self) -> Option<Waiter> {
        let ticket = self.0.as_ref()?.one_tries.first().copied()?;
        self.take(ticket)
    }

    /// Gives the place of the waiter with the same request id to `waiter`; who had it, and the place.
    pub(crate) fn replace(
        &mut self,
        waiter: Waiter,
        now: Instant,
    ) -> Result<(CallerId, usize), Waiter> {
        let request_id = &waiter.terms.request_id;
        let ticket = self.0.as_ref().and_then(|queue| queue.request_ids.get(request_id).copied());
        let Some((ticket, former)) = ticket.and_then(|ticket| Some((ticket, self.take(ticket)?)))
        else {
            return Err(waiter);
        };
        // It is the same call, and has waited since it was first made (S33).
        let waiter = Waiter { since: former.since, ..waiter };
        let queue = self.0.get_or_insert_default();
        let (.., arrival) = ticket;
        let ticket = queue.put(arrival, waiter, now);
        Ok((former.caller, queue.waiters.range(..=ticket).count()))
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        let queue = self.0.as_mut()?;
        let waiter = queue.take(ticket)?;
        if queue.waiters.is_empty() {
            self.0 = None;
        }
        Some(waiter)
    }
}

impl Queue {
    fn put(&mut self, arrival: u64, waiter: Waiter, now: Instant) -> Ticket {
        let ticket = (Reverse(waiter.terms.priority()), waiter.since, arrival);
        // A place that is given on may be later than all that an emptied queue knows of.
        self.next = self.next.max(arrival + 1);
        self.repeat_at.get_or_insert(now + REPEAT);
        if waiter.is_one_try() {
            self.one_tries.insert(ticket);
        } else {
            self.deadlines.insert((waiter.deadline, ticket));
            self.untold.insert(ticket);
        }
        if !waiter.terms.request_id.is_empty() {
            self.request_ids.insert(waiter.terms.request_id.clone(), ticket);
        }
        self.callers.insert(waiter.caller, ticket);
        self.waiters.insert(ticket, waiter);
        debug_assert_eq!(self.waiters.len(), self.callers.len(), "a caller waits once");
        ticket
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        self.callers.remove(&waiter.caller);
        self.deadlines.remove(&(waiter.deadline, ticket));
        self.one_tries.remove(&ticket);
        self.untold.remove(&ticket);
        if !waiter.terms.request_id.is_empty() {
            self.request_ids.remove(&waiter.terms.request_id);
        }
        debug_assert_eq!(self.waiters.len(), self.deadlines.len() + self.one_tries.len());
        Some(waiter)
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

    /// Whether a pool asks for its caller: the pool keeps the pace of the tries, and each is to be one
    /// request (S31).
    pub(super) fn is_pooled(&self) -> bool {
        self.permits() > Permits::ONE
    }
}

impl Hold {
    /// Enters a caller of a pool where a hold is about to end; nothing is done by it: what ends the hold
    /// hands it on (S30).
    pub(crate) fn enter(&mut self, waiter: Waiter, now: Instant) {
        self.waiters.push(waiter, now);
    }

    /// The lease id for the next acquisition, for the machine of another permit: another is supplied before
    /// the next event.
    pub(crate) const fn lend(&mut self) -> Option<LeaseId> {
        self.fresh.take()
    }

    /// Who waits here with the call of this id.
    pub(crate) fn waiter_of(&self, request_id: &str) -> Option<CallerId> {
        self.waiters.caller_of(request_id)
    }

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
}

/// Until when an idle machine leaves the store alone, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    pub(super) until: Instant,
    pub(super) why: Wait,
}

/// What an idle machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: the next caller is tried for at once.
    Ready,
    /// The next poll: another sidecar has the lock, or comes first (S12, S34).
    Poll,
    /// The next try: the store has failed.
    Backoff,
    /// Others come first: the lock was handed on here, or acquired again and again (S10).
    StandBack,
    /// The end of a rest (S11).
    MinHold,
    /// The end of a reservation for a greater priority (S33).
    Reserved,
    /// The end of a hold that its client may still believe in (S13).
    Believed,
}

impl Wait {
    /// Whether the lock's record tells of it.
    pub(super) const fn is_rest(self) -> bool {
        matches!(self, Self::MinHold | Self::Reserved)
    }
}

impl Idle {
    /// The machine waits for nothing.
    pub(super) const fn ready(now: Instant) -> Self {
        Self { until: now, why: Wait::Ready }
    }

    /// The machine waits for nothing from now on at the latest.
    fn end(&mut self, now: Instant) {
        if now < self.until {
            *self = Self::ready(now);
        }
    }
}

impl State {
    /// Nothing is under way, and nothing is waited for.
    pub(super) const fn ready(now: Instant) -> Self {
        Self::Idle { idle: Idle::ready(now), retry: None }
    }
}

impl Hold {
    /// A lock that is left alone, for others who come first (S33, S34), is tried at once for a caller that
    /// need not leave it.
    pub(super) fn wake_for_front(&mut self, now: Instant) {
        let Some(front) = self.waiters.front() else { return };
        let priority = front.terms.priority();
        let is_open = self.memory.rest.as_ref().is_some_and(|rest| !rest.concerns(priority));
        let is_free = self.free_since().is_some() && self.waiters.has_one_try();
        if let State::Idle { idle, .. } = &mut self.state
            && (is_free || is_open && idle.why.is_rest())
        {
            idle.end(now);
        }
    }

    /// S12: one try does not wait for long until others have had their turn.
    pub(super) fn try_once_soon(&mut self, now: Instant) {
        if let State::Idle { idle, .. } = &mut self.state
            && idle.why == Wait::StandBack
        {
            idle.until = idle.until.min(now + LONGEST_STAND_BACK);
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wait_that_is_cut_short_is_for_nothing_any_more() {
        let at = |seconds| Instant::default() + Duration::from_secs(seconds);
        let mut idle = Idle { until: at(9), why: Wait::Reserved };
        idle.end(at(10));
        assert_eq!(idle, Idle { until: at(9), why: Wait::Reserved }, "it was over");
        idle.end(at(5));
        assert_eq!(idle, Idle::ready(at(5)));
    }
}
