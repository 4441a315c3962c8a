//! The queue of callers of one lock path (S12, S33).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::event::{CallerId, Terms};
use crate::lock::Priority;
use crate::time::Instant;

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

/// The greater priority comes first, and then who came earlier.
type Ticket = (Reverse<Priority>, u64);

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
            let (&(priority, _), waiter) = next?;
            let after = (Bound::Excluded((priority, u64::MAX)), Bound::Unbounded);
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
        let (_, arrival) = ticket;
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
        let ticket = (Reverse(waiter.terms.priority()), arrival);
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
