//! The callers that wait: their order, by priority and then by how long they have waited (`Ticket`), and for
//! how long they do (S12, S33). Between sidecars there is no order: who polls first has the lock, unless it
//! is kept for a priority (`rest_promised` in `hold/fairness.rs`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use crate::hold::{CallerId, Waiter};
use crate::lock::{Permit, Permits};
use crate::record::Priority;
use crate::time::Instant;

/// Callers by their priority, and then in the order in which they came; the first is served first (S12, S33).
/// Everything that an event needs is found in logarithmic time, and an empty queue has nothing allocated:
/// most locks have no caller that waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Option<Box<Order>>);

#[derive(Clone, Debug, Default)]
struct Order {
    waiters: BTreeMap<Ticket, Waiting>,
    callers: BTreeMap<CallerId, Ticket>,
    request_ids: BTreeMap<String, Ticket>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    plain: OfKind,
    pooled: OfKind,
    next: u64,
    /// When all are told once more that they wait.
    repeat_at: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Waiting {
    waiter: Waiter,
    deadline: Instant,
}

/// What is told to the waiters of one kind at a time.
#[derive(Clone, Debug, Default)]
struct OfKind {
    len: usize,
    one_tries: BTreeSet<Ticket>,
    /// Those that wait and were not told yet: they came while it was not known whether they would.
    untold: BTreeSet<Ticket>,
}

/// Whether a caller names one permit, so that it waits for the lock's own path, or more of them (S28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Pooled,
}

impl Kind {
    pub(super) fn of(permits: Permits) -> Self {
        if permits == Permits::ONE { Self::Plain } else { Self::Pooled }
    }
}

/// The greater priority comes first, and then the caller that has waited for longer.
type Ticket = (Reverse<Priority>, Instant, u64);

/// A waiter hears so again after this, and not before, whatever has changed: a queue that is told of each
/// hand-off is served the more slowly the longer it is (S31). One that hears nothing takes its connection for
/// dead, and a proxy may close it. A little under the 30 s that callers are promised.
const REPEAT: Duration = Duration::from_secs(25);

impl Waiters {
    pub(crate) fn push(&mut self, waiter: Waiter, now: Instant) {
        let order = self.0.get_or_insert_default();
        order.put(order.next, waiter, now);
    }

    /// Gives the place of the waiter with the same request id to `waiter`; the caller that had it.
    pub(crate) fn replace(&mut self, waiter: Waiter, now: Instant) -> Result<CallerId, Waiter> {
        let request_id = &waiter.terms.request_id;
        let ticket = self.0.as_ref().and_then(|order| order.request_ids.get(request_id).copied());
        let Some((ticket, former)) = ticket.and_then(|ticket| Some((ticket, self.take(ticket)?)))
        else {
            return Err(waiter);
        };
        // It is the same call, and has waited since it was first made (S33).
        let waiter = Waiter { since: former.since, ..waiter };
        let (.., arrival) = ticket;
        self.0.get_or_insert_default().put(arrival, waiter, now);
        Ok(former.caller)
    }

    pub(crate) fn front(&self) -> Option<&Waiter> {
        self.each().next()
    }

    /// The first that `suits`.
    pub(super) fn first(&self, suits: impl Fn(&Waiter) -> bool) -> Option<&Waiter> {
        self.each().find(|waiter| suits(waiter))
    }

    /// All that wait, the first first.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Waiter> {
        self.0.iter().flat_map(|order| order.waiters.values()).map(|waiting| &waiting.waiter)
    }

    /// The first of each priority, the greatest first, if one of them may overrule a holder (S33, S35).
    pub(super) fn rivals(&self) -> Vec<Waiter> {
        let may = |waiter: &Waiter| {
            waiter.terms.priority() > Priority::default() || waiter.terms.rebalance
        };
        if self.first_of_each().any(may) { self.first_of_each().cloned().collect() } else { vec![] }
    }

    fn first_of_each(&self) -> impl Iterator<Item = &Waiter> {
        let waiters = self.0.as_ref().map(|order| &order.waiters);
        let mut next = waiters.and_then(BTreeMap::first_key_value);
        std::iter::from_fn(move || {
            let (&(priority, ..), waiting) = next?;
            let last = (priority, Instant::from_boot(Duration::MAX), u64::MAX);
            let after = (Bound::Excluded(last), Bound::Unbounded);
            next = waiters.and_then(|waiters| waiters.range(after).next());
            Some(&waiting.waiter)
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |order| order.waiters.len())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a caller of this kind waits here.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.of_kind(kind).is_some_and(|of_kind| of_kind.len > 0)
    }

    /// Whether `caller` waits here.
    pub(crate) fn contains(&self, caller: CallerId) -> bool {
        self.0.as_ref().is_some_and(|order| order.callers.contains_key(&caller))
    }

    /// Whether a caller besides `first` is going to wait for this permit: one try is answered at the grant
    /// (S10).
    pub(super) fn others_wait(&self, permit: Permit, first: &Waiter) -> bool {
        let Some(order) = &self.0 else { return false };
        let waiting = match permit {
            Permit::FIRST => order.deadlines.len(),
            _ => order.pooled.len - order.pooled.one_tries.len(),
        };
        waiting > usize::from(!first.is_one_try())
    }

    /// When the first wait is over, or all are to be told again that they wait.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let order = self.0.as_ref()?;
        let deadline = order.deadlines.first().map(|(deadline, _)| *deadline);
        [deadline, order.repeat_at].into_iter().flatten().min()
    }

    /// Takes `caller` out; whether it was there.
    pub(crate) fn remove(&mut self, caller: CallerId) -> bool {
        let ticket = self.0.as_ref().and_then(|order| order.callers.get(&caller).copied());
        ticket.is_some_and(|ticket| self.take(ticket).is_some())
    }

    /// Takes out the first of this kind.
    pub(super) fn pop(&mut self, kind: Kind) -> Option<Waiter> {
        let caller = self.first(|waiter| Kind::of(waiter.terms.permits()) == kind)?.caller;
        let ticket = self.0.as_ref()?.callers.get(&caller).copied()?;
        self.take(ticket)
    }

    /// Takes out one whose wait is over.
    pub(super) fn pop_overdue(&mut self, now: Instant) -> Option<Waiter> {
        let (deadline, ticket) = self.0.as_ref()?.deadlines.first().copied()?;
        if deadline <= now { self.take(ticket) } else { None }
    }

    /// Takes out one of those that wanted one try.
    pub(super) fn pop_one_try(&mut self, kind: Kind) -> Option<Waiter> {
        let ticket = self.of_kind(kind)?.one_tries.first().copied()?;
        self.take(ticket)
    }

    pub(super) fn has_one_try(&self) -> bool {
        self.0.as_ref().is_some_and(|order| order.deadlines.len() < order.waiters.len())
    }

    /// Those of this kind that want one try.
    pub(super) fn one_tries(&self, kind: Kind) -> impl Iterator<Item = &Waiter> {
        let tickets = self.of_kind(kind).into_iter().flat_map(|of_kind| &of_kind.one_tries);
        tickets.filter_map(|ticket| self.0.as_ref()?.waiters.get(ticket)).map(|one| &one.waiter)
    }

    /// One that was not told yet that it waits, and its place; from now on it was.
    pub(super) fn tell_next(&mut self, kind: Kind) -> Option<(CallerId, usize)> {
        let order = self.0.as_mut()?;
        let ticket = order.of_kind(kind).untold.pop_first()?;
        let place = order.waiters.range(..=ticket).count();
        Some((order.waiters.get(&ticket)?.waiter.caller, place))
    }

    /// Whether there is one of this kind that was not told yet that it waits.
    pub(super) fn has_untold(&self, kind: Kind) -> bool {
        self.of_kind(kind).is_some_and(|of_kind| !of_kind.untold.is_empty())
    }

    /// If it is time to tell all once more that they wait: all of them, and their places. Also those that
    /// came while it was not known whether they would wait: they have.
    pub(super) fn tell_again(&mut self, now: Instant) -> Vec<(CallerId, usize)> {
        let Some(order) = &mut self.0 else { return Vec::new() };
        if order.repeat_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        order.repeat_at = Some(now + REPEAT);
        order.plain.untold.clear();
        order.pooled.untold.clear();
        let places = self.each().zip(1..).filter(|(waiter, _)| !waiter.is_one_try());
        places.map(|(waiter, place)| (waiter.caller, place)).collect()
    }

    fn of_kind(&self, kind: Kind) -> Option<&OfKind> {
        let order = self.0.as_ref()?;
        Some(match kind {
            Kind::Plain => &order.plain,
            Kind::Pooled => &order.pooled,
        })
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        let order = self.0.as_mut()?;
        let waiter = order.take(ticket)?;
        if order.waiters.is_empty() {
            self.0 = None;
        }
        Some(waiter)
    }
}

impl Order {
    const fn of_kind(&mut self, kind: Kind) -> &mut OfKind {
        match kind {
            Kind::Plain => &mut self.plain,
            Kind::Pooled => &mut self.pooled,
        }
    }

    fn put(&mut self, arrival: u64, waiter: Waiter, now: Instant) {
        let ticket = (Reverse(waiter.terms.priority()), waiter.since, arrival);
        let deadline = now + waiter.terms.wait;
        // A place that is given on may be later than all that an emptied queue knows of.
        self.next = self.next.max(arrival + 1);
        self.repeat_at.get_or_insert(now + REPEAT);
        let of_kind = self.of_kind(Kind::of(waiter.terms.permits()));
        of_kind.len += 1;
        if waiter.is_one_try() {
            of_kind.one_tries.insert(ticket);
        } else {
            of_kind.untold.insert(ticket);
            self.deadlines.insert((deadline, ticket));
        }
        if !waiter.terms.request_id.is_empty() {
            self.request_ids.insert(waiter.terms.request_id.clone(), ticket);
        }
        self.callers.insert(waiter.caller, ticket);
        self.waiters.insert(ticket, Waiting { waiter, deadline });
        debug_assert_eq!(self.waiters.len(), self.callers.len(), "a caller waits once");
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        let Waiting { waiter, deadline } = self.waiters.remove(&ticket)?;
        self.callers.remove(&waiter.caller);
        self.deadlines.remove(&(deadline, ticket));
        let of_kind = self.of_kind(Kind::of(waiter.terms.permits()));
        of_kind.len -= 1;
        of_kind.one_tries.remove(&ticket);
        of_kind.untold.remove(&ticket);
        if !waiter.terms.request_id.is_empty() {
            self.request_ids.remove(&waiter.terms.request_id);
        }
        Some(waiter)
    }
}
