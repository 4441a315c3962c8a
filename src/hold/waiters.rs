//! The queue of callers of one lock path, and when to poll the store for them (S10, S12).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::event::{CallerId, Terms};
use super::jitter::Jitter;
use crate::time::Instant;

/// The shortest time between two polls, and the time between them where a lock is being handed on (S10, S12).
const POLL_FLOOR: Duration = Duration::from_millis(250);

/// A caller that waits for the lock.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) caller: CallerId,
    pub(super) terms: Arc<Terms>,
    pub(super) deadline: Instant,
}

impl Waiter {
    pub(super) fn new(caller: CallerId, terms: Arc<Terms>, now: Instant) -> Self {
        let deadline = now + terms.wait;
        Self { caller, terms, deadline }
    }

    /// A wait of zero is one try: it ends with the next answer, not with the clock (S12).
    fn is_one_try(&self) -> bool {
        self.terms.wait.is_zero()
    }
}

/// Callers in the order in which they came; the first is served first (S12).
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters {
    queue: VecDeque<Waiter>,
    /// No deadline is before this; it may be early, never late.
    earliest: Option<Instant>,
}

impl Waiters {
    pub(super) fn push(&mut self, waiter: Waiter) {
        if !waiter.is_one_try() {
            let earliest = self.earliest.unwrap_or(waiter.deadline);
            self.earliest = Some(earliest.min(waiter.deadline));
        }
        self.queue.push_back(waiter);
    }

    pub(super) fn pop(&mut self) -> Option<Waiter> {
        self.queue.pop_front()
    }

    pub(super) fn front(&self) -> Option<&Waiter> {
        self.queue.front()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) const fn earliest_deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// Takes `caller` out; whether it was there.
    pub(super) fn remove(&mut self, caller: CallerId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|waiter| waiter.caller != caller);
        before != self.queue.len()
    }

    /// Takes out those whose wait is over.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<Waiter> {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return Vec::new();
        }
        let overdue = self.take(|waiter| !waiter.is_one_try() && waiter.deadline <= now);
        let timed = self.queue.iter().filter(|waiter| !waiter.is_one_try());
        self.earliest = timed.map(|waiter| waiter.deadline).min();
        overdue
    }

    /// Takes out those who wanted one try.
    pub(super) fn take_one_tries(&mut self) -> Vec<Waiter> {
        self.take(Waiter::is_one_try)
    }

    /// Takes out everybody.
    pub(super) fn take_all(&mut self) -> Vec<Waiter> {
        self.earliest = None;
        self.queue.drain(..).collect()
    }

    /// Puts `caller` in the place of the waiter with this request id; who was there before.
    pub(super) fn replace(&mut self, request_id: &str, caller: CallerId) -> Option<CallerId> {
        let same = |waiter: &&mut Waiter| waiter.terms.request_id == request_id;
        let waiter = self.queue.iter_mut().find(same)?;
        Some(std::mem::replace(&mut waiter.caller, caller))
    }

    fn take(&mut self, which: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let mut taken = Vec::new();
        let mut index = 0;
        while let Some(waiter) = self.queue.get(index) {
            if which(waiter) {
                taken.extend(self.queue.remove(index));
            } else {
                index += 1;
            }
        }
        taken
    }
}

/// How often to try again while somebody else has the lock: decorrelated jitter up to the cap (S12).
#[derive(Clone, Debug, Default)]
pub(super) struct Polling {
    last: Option<Duration>,
    /// The holder's sidecar hands the lock on: it will stand back soon, for a moment only (S10).
    eager: bool,
}

impl Polling {
    pub(super) const fn set_eager(&mut self, eager: bool) {
        self.eager = eager;
    }

    pub(super) fn next(&mut self, jitter: &mut Jitter, cap: Duration) -> Duration {
        if self.eager {
            return POLL_FLOOR;
        }
        let last = self.last.unwrap_or(POLL_FLOOR);
        let delay = jitter.between(POLL_FLOOR, last * 3).min(cap);
        self.last = Some(delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_polls_grow_from_the_floor_to_the_cap() {
        let mut jitter = Jitter::new(3);
        let mut polling = Polling::default();
        let cap = Duration::from_secs(5);
        let mut longest = Duration::ZERO;
        for _ in 0..200 {
            let delay = polling.next(&mut jitter, cap);
            assert!(delay >= POLL_FLOOR && delay <= cap, "{delay:?}");
            longest = longest.max(delay);
        }
        assert_eq!(longest, cap);
        polling.set_eager(true);
        assert_eq!(polling.next(&mut jitter, cap), POLL_FLOOR);
    }
}
