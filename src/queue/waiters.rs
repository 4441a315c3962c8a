//! The callers that wait: their order, by priority and then by how long they have waited (`Ticket`), and for
//! how long they do (S12, S33). Between sidecars there is no order: who polls first has the lock, unless it
//! is kept for a priority (`rest_promised` in `hold/fairness.rs`).

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::hold::{CallerId, Waiter};
use crate::lock::{Permit, Permits};
use crate::record::Priority;
use crate::time::Instant;

/// Callers by their priority, and then in the order in which they came; the first is served first (S12, S33).
/// What an event needs is found in logarithmic time, but for a waiter's place, which it is told once, and the
/// first of each priority, of which there are few. An empty queue has nothing allocated: most locks have no
/// caller that waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Option<Box<Order>>);

#[derive(Clone, Debug, Default)]
struct Order {
    waiters: BTreeMap<Ticket, Waiting>,
    callers: BTreeMap<CallerId, Ticket>,
    request_ids: BTreeMap<String, Ticket>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    /// By how many permits they name (S28), 32 groups at most.
    groups: BTreeMap<Permits, Group>,
    next: u64,
    /// When all are told once more that they wait.
    repeat_at: Option<Instant>,
    /// What [`Waiters::rivals`] are, if that is known.
    rivals: Option<Arc<[Waiter]>>,
}

#[derive(Clone, Debug)]
struct Waiting {
    waiter: Waiter,
    deadline: Instant,
}

/// Those that name the same number of permits; there is at least one.
#[derive(Clone, Debug, Default)]
struct Group {
    all: BTreeSet<Ticket>,
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

    /// The numbers that callers of this kind name.
    const fn permits(self) -> (Bound<Permits>, Bound<Permits>) {
        match self {
            Self::Plain => (Bound::Included(Permits::ONE), Bound::Included(Permits::ONE)),
            Self::Pooled => (Bound::Excluded(Permits::ONE), Bound::Unbounded),
        }
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
        let (_, waiting) = self.0.as_ref()?.waiters.first_key_value()?;
        Some(&waiting.waiter)
    }

    /// The first that may have this permit.
    pub(super) fn first_for(&self, permit: Permit) -> Option<&Waiter> {
        let order = self.0.as_ref()?;
        let groups = order.groups.iter().filter(|(permits, _)| permits.contains(permit));
        order.waiter(groups.filter_map(|(_, group)| group.all.first()).min()?)
    }

    /// The first of this kind.
    pub(super) fn first_of(&self, kind: Kind) -> Option<&Waiter> {
        let order = self.0.as_ref()?;
        order.waiter(order.first(kind)?)
    }

    /// The first of each priority, the greatest first, if one of them may overrule a holder (S33, S35). They
    /// are looked for once after each change: there may be as many priorities as waiters.
    pub(super) fn rivals(&mut self) -> Arc<[Waiter]> {
        let Some(order) = &mut self.0 else { return Arc::default() };
        let rivals = order.rivals.take().unwrap_or_else(|| order.find_rivals());
        Arc::clone(order.rivals.insert(rivals))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |order| order.waiters.len())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a caller of this kind waits here.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.0.as_ref().is_some_and(|order| order.groups(kind).next().is_some())
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
            _ => {
                let pooled = order.groups(Kind::Pooled);
                pooled.map(|group| group.all.len() - group.one_tries.len()).sum()
            }
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
        let ticket = *self.0.as_ref()?.first(kind)?;
        self.take(ticket)
    }

    /// Takes out one whose wait is over.
    pub(super) fn pop_overdue(&mut self, now: Instant) -> Option<Waiter> {
        let (deadline, ticket) = self.0.as_ref()?.deadlines.first().copied()?;
        if deadline <= now { self.take(ticket) } else { None }
    }

    /// Takes out one of those that wanted one try.
    pub(super) fn pop_one_try(&mut self, kind: Kind) -> Option<Waiter> {
        let groups = self.0.as_ref()?.groups(kind);
        let ticket = groups.filter_map(|group| group.one_tries.first()).min().copied()?;
        self.take(ticket)
    }

    pub(super) fn has_one_try(&self) -> bool {
        self.0.as_ref().is_some_and(|order| order.deadlines.len() < order.waiters.len())
    }

    /// Whether one try waits for which this permit would do.
    pub(super) fn has_one_try_for(&self, permit: Permit) -> bool {
        self.first_one_try(|permits| permits.contains(permit), &[]).is_some()
    }

    /// The first that wants one try of several permits, of a number that `suits`, and is none of `but`.
    pub(super) fn first_one_try(
        &self,
        suits: impl Fn(Permits) -> bool,
        but: &[CallerId],
    ) -> Option<&Waiter> {
        let order = self.0.as_ref()?;
        let is_other = |ticket: &&Ticket| {
            order.waiter(ticket).is_some_and(|waiter| !but.contains(&waiter.caller))
        };
        let groups = order.groups.range(Kind::Pooled.permits());
        let suited =
            groups.filter(|(permits, group)| !group.one_tries.is_empty() && suits(**permits));
        let firsts = suited.filter_map(|(_, group)| group.one_tries.iter().find(is_other));
        order.waiter(firsts.min()?)
    }

    /// Those of this kind that were not told yet that they wait, and their places; from now on they were.
    pub(super) fn tell(&mut self, kind: Kind) -> Vec<(CallerId, usize)> {
        let Some(order) = &mut self.0 else { return Vec::new() };
        let groups = order.groups.range_mut(kind.permits());
        let mut untold = BTreeSet::new();
        groups.for_each(|(_, group)| untold.append(&mut group.untold));
        let Some(first) = untold.first() else { return Vec::new() };
        // Nearly always they came last: places are counted from the nearer end.
        let (before, from) = (order.waiters.range(..*first), order.waiters.range(*first..));
        let nearer = before.clone().zip(from.clone()).count();
        let is_in_front = before.clone().nth(nearer).is_none();
        let ahead = if is_in_front { nearer } else { order.waiters.len() - nearer };
        let told = from.zip(ahead + 1..).filter(|((ticket, _), _)| untold.contains(ticket));
        let told = told.map(|((_, waiting), place)| (waiting.waiter.caller, place));
        told.take(untold.len()).collect()
    }

    /// Whether there is one of this kind that was not told yet that it waits.
    pub(super) fn has_untold(&self, kind: Kind) -> bool {
        let has = |order: &Order| order.groups(kind).any(|group| !group.untold.is_empty());
        self.0.as_deref().is_some_and(has)
    }

    /// If it is time to tell all once more that they wait: all of them, and their places. Also those that
    /// came while it was not known whether they would wait: they have.
    pub(super) fn tell_again(&mut self, now: Instant) -> Vec<(CallerId, usize)> {
        let Some(order) = &mut self.0 else { return Vec::new() };
        if order.repeat_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        order.repeat_at = Some(now + REPEAT);
        order.groups.values_mut().for_each(|group| group.untold.clear());
        let waiters = order.waiters.values().map(|waiting| &waiting.waiter);
        let places = waiters.zip(1..).filter(|(waiter, _)| !waiter.is_one_try());
        places.map(|(waiter, place)| (waiter.caller, place)).collect()
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
    fn groups(&self, kind: Kind) -> impl Iterator<Item = &Group> {
        self.groups.range(kind.permits()).map(|(_, group)| group)
    }

    fn first(&self, kind: Kind) -> Option<&Ticket> {
        self.groups(kind).filter_map(|group| group.all.first()).min()
    }

    fn waiter(&self, ticket: &Ticket) -> Option<&Waiter> {
        self.waiters.get(ticket).map(|waiting| &waiting.waiter)
    }

    fn find_rivals(&self) -> Arc<[Waiter]> {
        let may = |waiter: &Waiter| {
            waiter.terms.priority() > Priority::default() || waiter.terms.rebalance
        };
        if self.first_of_each().any(may) {
            self.first_of_each().cloned().collect()
        } else {
            Arc::default()
        }
    }

    fn first_of_each(&self) -> impl Iterator<Item = &Waiter> {
        let mut next = self.waiters.first_key_value();
        std::iter::from_fn(move || {
            let (&(priority, ..), waiting) = next?;
            let last = (priority, Instant::from_boot(Duration::MAX), u64::MAX);
            next = self.waiters.range((Bound::Excluded(last), Bound::Unbounded)).next();
            Some(&waiting.waiter)
        })
    }

    fn put(&mut self, arrival: u64, waiter: Waiter, now: Instant) {
        self.rivals = None;
        let ticket = (Reverse(waiter.terms.priority()), waiter.since, arrival);
        let deadline = now + waiter.terms.wait;
        // A place that is given on may be later than all that an emptied queue knows of.
        self.next = self.next.max(arrival + 1);
        self.repeat_at.get_or_insert(now + REPEAT);
        let group = self.groups.entry(waiter.terms.permits()).or_default();
        group.all.insert(ticket);
        if waiter.is_one_try() {
            group.one_tries.insert(ticket);
        } else {
            group.untold.insert(ticket);
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
        self.rivals = None;
        let Waiting { waiter, deadline } = self.waiters.remove(&ticket)?;
        self.callers.remove(&waiter.caller);
        self.deadlines.remove(&(deadline, ticket));
        if let Entry::Occupied(mut group) = self.groups.entry(waiter.terms.permits()) {
            group.get_mut().all.remove(&ticket);
            group.get_mut().one_tries.remove(&ticket);
            group.get_mut().untold.remove(&ticket);
            if group.get().all.is_empty() {
                group.remove();
            }
        }
        if !waiter.terms.request_id.is_empty() {
            self.request_ids.remove(&waiter.terms.request_id);
        }
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::Terms;
    use crate::record::{Record, Sharing};

    fn now() -> Instant {
        Instant::from_boot(Duration::from_secs(9))
    }

    fn permit(number: u8) -> Permit {
        Permit::new(number).unwrap()
    }

    /// A caller of this priority that waits for one of so many permits, for so many seconds.
    fn waiter(caller: u64, priority: u32, permits: u32, wait: u64) -> Waiter {
        let priority = Priority::new(priority).unwrap();
        let sharing = Sharing { priority, ..Sharing::default() }.boxed();
        let permits = (permits > 1).then(|| Permits::new(permits).unwrap());
        let record = Record { sharing, permits, ..Record::default() };
        let plain = Terms::plain(Duration::from_secs(15), Duration::from_secs(wait));
        let terms = Terms { record, ..plain };
        Waiter { caller: CallerId(caller), terms: Arc::new(terms), since: now() }
    }

    fn queue(waiting: impl IntoIterator<Item = Waiter>) -> Waiters {
        let mut waiters = Waiters::default();
        waiting.into_iter().for_each(|waiter| waiters.push(waiter, now()));
        waiters
    }

    #[test]
    fn s12_a_queue_is_empty_once_all_have_gone() {
        let mut waiters = queue([waiter(1, 0, 1, 60)]);
        assert!(!waiters.is_empty() && waiters.contains(CallerId(1)));
        assert!(!waiters.contains(CallerId(2)) && !waiters.remove(CallerId(2)));
        assert!(waiters.remove(CallerId(1)));
        assert!(waiters.is_empty() && !waiters.contains(CallerId(1)));
    }

    #[test]
    fn s12_s33_each_is_told_its_place_once_wherever_that_is() {
        let mut waiters = queue((1..=6).map(|caller| waiter(caller, 4, 1, 60)));
        let places: Vec<_> = (1..=6).map(|place| (CallerId(place), place as usize)).collect();
        assert!(waiters.has_untold(Kind::Plain) && !waiters.has_untold(Kind::Pooled));
        assert_eq!(waiters.tell(Kind::Plain), places);
        assert!(!waiters.has_untold(Kind::Plain));
        assert!(waiters.tell(Kind::Plain).is_empty());
        for (caller, priority, place) in [(7, 4, 7), (8, 5, 1), (9, 5, 2), (10, 3, 10)] {
            waiters.push(waiter(caller, priority, 1, 60), now());
            assert_eq!(waiters.tell(Kind::Plain), [(CallerId(caller), place)]);
        }
    }

    #[test]
    fn s10_s28_others_wait_for_a_permit_unless_they_try_once() {
        let first = waiter(1, 0, 2, 60);
        let mut waiters = queue([first.clone()]);
        assert!(!waiters.others_wait(permit(1), &first));
        waiters.push(waiter(2, 0, 2, 0), now());
        assert!(!waiters.others_wait(permit(1), &first), "one try is over with the grant");
        assert!(waiters.has_one_try_for(permit(1)) && !waiters.has_one_try_for(permit(2)));
        waiters.push(waiter(3, 0, 2, 60), now());
        assert!(waiters.others_wait(permit(1), &first));
        assert!(queue([first]).others_wait(permit(1), &waiter(4, 0, 2, 0)));
    }

    #[test]
    fn s33_the_first_of_each_priority_are_rivals_if_one_has_a_priority() {
        assert!(queue([waiter(1, 0, 1, 60), waiter(2, 0, 1, 60)]).rivals().is_empty());
        let waiting = [(1, 0), (2, 3), (3, 3), (4, 9)];
        let mut waiters = queue(waiting.map(|(caller, priority)| waiter(caller, priority, 1, 60)));
        let rivals: Vec<_> = waiters.rivals().iter().map(|rival| rival.caller.0).collect();
        assert_eq!(rivals, [4, 2, 1]);
    }
}
