//! One budget of requests for the whole sidecar while the store throttles: what a thousand holds would ask
//! again each for itself goes out at the rate that the store takes (`RateLimiter::enter`), the most urgent
//! first (`Urgency`; which request is what, `calls.rs` says; S7).
//!
//! `budget` has the rate, which follows the answers, and `needs` what the leases need, below which it never
//! is. While nothing is throttled there is no budget and nothing waits.

mod budget;
mod needs;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use budget::RequestBudget;
use needs::Needs;
use tokio::sync::oneshot;

use crate::store::StoreError;
use crate::time::{Clock, Instant};

pub(in crate::coordinator) use needs::Lease;

/// The shortest and the longest that the queue is left alone.
const NAP: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// What a request is for; the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// A lease, which runs out at this moment unless it is renewed.
    Renewal(Instant),
    /// A lease that is held: its record is written, or it is released.
    Lease,
    /// Everything else: polls and questions.
    Poll,
}

/// How requests to the store are held back now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateStatus {
    /// Requests that wait for their turn.
    pub waiting: usize,
    /// Requests a second at the most; `None` while the store does not throttle.
    pub rate: Option<f64>,
}

/// A request was not sent: its turn did not come in time.
#[derive(Debug)]
pub(in crate::coordinator) struct RateLimited {
    waited: Duration,
}

impl fmt::Display for RateLimited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waited = humantime::format_duration(self.waited);
        write!(
            formatter,
            "not sent: requests that are more urgent left no room for it within {waited}"
        )
    }
}

impl std::error::Error for RateLimited {}

impl RateLimited {
    pub(in crate::coordinator) fn error(waited: Duration) -> StoreError {
        StoreError::Throttled { sent: false, retry_after: None, source: Box::new(Self { waited }) }
    }

    /// Whether this says nothing about the store, because the request was not sent.
    pub(super) fn is(error: &StoreError) -> bool {
        matches!(error, StoreError::Throttled { source, .. } if source.is::<Self>())
    }
}

/// Where requests wait for their turn. Cheap to clone; the clones are one.
#[derive(Clone, Debug)]
pub(in crate::coordinator) struct RateLimiter {
    inner: Arc<SharedLimiter>,
}

#[derive(Debug)]
struct SharedLimiter {
    clock: Arc<dyn Clock>,
    /// Whether there is a budget: all that is looked at while there is none.
    limited: AtomicBool,
    queue: Mutex<LimiterQueue>,
}

#[derive(Debug, Default)]
struct LimiterQueue {
    budget: RequestBudget,
    needs: Needs,
    waiting: BTreeMap<TurnOrder, oneshot::Sender<()>>,
    arrivals: u64,
    /// A mistake that tests plant: the budget is not told of the leases.
    #[cfg(test)]
    is_blind: bool,
    /// A task lets those that wait go, one after the other.
    is_served: bool,
}

/// A place in the queue: by urgency, then by arrival.
type TurnOrder = (Urgency, u64);

/// A request that waits for its turn; dropped, it has left.
#[derive(Debug)]
pub(super) struct Waiting {
    limiter: RateLimiter,
    place: TurnOrder,
    turn: oneshot::Receiver<()>,
}

impl RateLimiter {
    /// One without a budget.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let limited = AtomicBool::new(false);
        Self { inner: Arc::new(SharedLimiter { clock, limited, queue: Mutex::default() }) }
    }

    /// Lets a request go at once, which is `None`, or has it wait for its turn.
    pub(super) fn enter(&self, urgency: Urgency) -> Option<Waiting> {
        if !self.inner.limited.load(Ordering::Relaxed) {
            return None;
        }
        let now = self.inner.clock.now();
        let mut queue = self.queue();
        self.end_if_quiet(&mut queue, now);
        if queue.waiting.is_empty() && queue.takes(now) {
            return None;
        }
        let (sender, turn) = oneshot::channel();
        queue.arrivals += 1;
        let place = (urgency, queue.arrivals);
        queue.waiting.insert(place, sender);
        if !std::mem::replace(&mut queue.is_served, true) {
            tokio::spawn(self.clone().serve());
        }
        Some(Waiting { limiter: self.clone(), place, turn })
    }

    /// Takes note of the answer to a request that was sent.
    pub(super) fn note(&self, error: Option<&StoreError>) {
        let now = self.inner.clock.now();
        let mut queue = self.queue();
        // Of these nobody knows whether the store would have taken it.
        let is_unknown = matches!(
            error,
            Some(
                StoreError::Unavailable { .. }
                    | StoreError::NoDescriptors { .. }
                    | StoreError::Recreated { .. }
            )
        );
        if matches!(error, Some(StoreError::Throttled { .. })) {
            if queue.throttled(now) {
                self.inner.limited.store(true, Ordering::Relaxed);
                let rate = queue.budget.rate().unwrap_or_default().round();
                tracing::warn!(rate, "the store throttles: requests are held back");
            }
        } else if !is_unknown {
            queue.budget.accepted(now);
        }
    }

    #[cfg(test)]
    pub(in crate::coordinator) fn plant_blindness(&self) {
        let mut queue = self.queue();
        (queue.is_blind, queue.needs) = (true, Needs::default());
    }

    pub(in crate::coordinator) fn pace(&self) -> RateStatus {
        let mut queue = self.queue();
        self.end_if_quiet(&mut queue, self.inner.clock.now());
        RateStatus { waiting: queue.waiting.len(), rate: queue.budget.rate() }
    }

    /// Sends what waits, at the rate of the budget, until nobody waits.
    async fn serve(self) {
        while let Some(nap) = self.send_waiting() {
            tokio::time::sleep(nap).await;
        }
    }

    /// Sends those that the budget allows; how long until there is more, if somebody still waits.
    fn send_waiting(&self) -> Option<Duration> {
        let now = self.inner.clock.now();
        let mut queue = self.queue();
        while !queue.waiting.is_empty() && queue.takes(now) {
            if let Some((_, turn)) = queue.waiting.pop_first() {
                // Whoever left in this very moment has taken its turn with it.
                let _ = turn.send(());
            }
        }
        queue.is_served = !queue.waiting.is_empty();
        queue.is_served.then(|| queue.budget.wait().clamp(NAP.0, NAP.1))
    }

    fn end_if_quiet(&self, queue: &mut LimiterQueue, now: Instant) {
        if queue.waiting.is_empty() && queue.budget.end_if_quiet(now) {
            self.inner.limited.store(false, Ordering::Relaxed);
            tracing::info!("the store no longer throttles: requests are not held back");
        }
    }

    fn queue(&self) -> MutexGuard<'_, LimiterQueue> {
        self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimiterQueue {
    /// Whether a request may go out now; then it is counted.
    fn takes(&mut self, now: Instant) -> bool {
        self.budget.take(&self.needs, now)
    }

    /// The store throttled a request; whether the budget begins with it.
    fn throttled(&mut self, now: Instant) -> bool {
        self.budget.throttled(&self.needs, now)
    }
}

/// The leases of one lock's task, as far as the limiter knows of them; dropped, it has none.
#[derive(Debug)]
pub(in crate::coordinator) struct Renewing {
    limiter: RateLimiter,
    /// As many as there are: nearly always one.
    leases: Box<[Lease]>,
}

impl Renewing {
    /// None as yet.
    pub(in crate::coordinator) fn new(limiter: RateLimiter) -> Self {
        Self { limiter, leases: Box::default() }
    }

    /// From now on, the task renews the leases that `each` gives.
    pub(in crate::coordinator) fn set<L: Iterator<Item = Lease>>(&mut self, each: impl Fn() -> L) {
        if self.leases.iter().copied().eq(each()) {
            return;
        }
        let mut queue = self.limiter.queue();
        #[cfg(test)]
        if queue.is_blind {
            return;
        }
        for lease in &self.leases {
            queue.needs.remove(*lease);
        }
        self.leases = each().collect();
        for lease in &self.leases {
            queue.needs.add(*lease);
        }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.set(std::iter::empty);
    }
}

impl Waiting {
    /// Waits for the turn, for so long.
    ///
    /// # Errors
    /// When it does not come in time.
    pub(super) async fn turn(mut self, timeout: Duration) -> Result<(), StoreError> {
        // The sender is only dropped with the limiter, and there is no turn to wait for then.
        let waited = tokio::time::timeout(timeout, &mut self.turn).await;
        waited.map(drop).map_err(|_elapsed| RateLimited::error(timeout))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.limiter.queue().waiting.remove(&self.place);
    }
}
