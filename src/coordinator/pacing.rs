//! One budget of requests for the whole sidecar while the store throttles: what a thousand holds would ask again each
//! for itself goes out at the rate that the store takes, the most urgent first (S7).
//!
//! The rate follows the answers: it falls to what was accepted when a request is throttled, returns quickly to what
//! worked last, and grows slowly from there. While nothing is throttled there is no budget and nothing waits.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Coordinator;
use crate::store::StoreError;
use crate::time::{Clock, Instant};

/// Requests a second that find out whether a store that accepts nothing has changed its mind.
const LEAST: f64 = 1.0;
/// Requests a second at which a budget begins at the least: a sidecar that asks little is not what the store suffers
/// from.
const LEAST_AT_FIRST: f64 = 10.0;
/// What is left of the rate when a request is throttled.
const DECREASE: f64 = 0.8;
/// The rate falls once for all requests that were under way together.
const DECREASE_INTERVAL: Duration = Duration::from_secs(1);
/// What the rate grows by in a second, as a share of the rate that worked last, and at the least.
const INCREASE: (f64, f64) = (0.05, 0.5);
/// How much may go out at once after a pause, as a share of a second's requests; one request at the least.
const BURST: f64 = 0.1;
/// The budget ends when nothing was throttled and nothing had to wait for this long.
const QUIET: Duration = Duration::from_secs(10);
/// The longest that the queue is left alone.
const NAP: Duration = Duration::from_millis(250);

/// What a request is for; the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// A hold, which is lost at this moment unless it is renewed.
    Renewal(Instant),
    /// A lease that is held: its record is written, or it is released.
    Lease,
    /// Everything else: polls and questions.
    Poll,
}

/// How requests to the store are held back now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Requests that wait for their turn.
    pub waiting: usize,
    /// Requests a second at the most; `None` while the store does not throttle.
    pub rate: Option<f64>,
}

/// A request was not sent: its turn did not come in time.
#[derive(Debug)]
pub(super) struct HeldBack {
    waited: Duration,
}

impl fmt::Display for HeldBack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waited = humantime::format_duration(self.waited);
        write!(
            formatter,
            "not sent: requests that are more urgent left no room for it within {waited}"
        )
    }
}

impl std::error::Error for HeldBack {}

impl HeldBack {
    pub(super) fn error(waited: Duration) -> StoreError {
        StoreError::Throttled { retry_after: None, source: Box::new(Self { waited }) }
    }

    /// Whether this says nothing about the store, because the request was not sent.
    pub(super) fn is(error: &StoreError) -> bool {
        matches!(error, StoreError::Throttled { source, .. } if source.is::<Self>())
    }
}

/// The rate at which requests go out. Pure: the time is an argument.
#[derive(Debug, Default)]
struct Budget {
    accepted: Accepted,
    limit: Option<Limit>,
}

#[derive(Debug)]
struct Limit {
    /// Requests a second.
    rate: f64,
    /// The rate that worked last: below it the rate returns quickly.
    worked: f64,
    /// Something was accepted since the rate fell.
    works: bool,
    /// Requests that may go out now.
    room: f64,
    /// When `room` and `rate` were last updated.
    at: Instant,
    decreased: Instant,
    /// When something was throttled, or had to wait, last.
    pressed: Instant,
}

/// What happened to the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Began,
    Ended,
}

impl Budget {
    /// The store accepted a request, whatever it answered.
    fn accepted(&mut self, now: Instant) {
        self.accepted.count(now);
        if let Some(limit) = &mut self.limit {
            limit.works = true;
            if limit.rate < limit.worked {
                limit.rate = (limit.rate + 1.0).min(limit.worked);
            }
        }
    }

    /// The store throttled a request.
    fn throttled(&mut self, now: Instant) -> Option<Change> {
        let accepted = self.accepted.rate(now);
        let Some(limit) = &mut self.limit else {
            let rate = (accepted * DECREASE).max(LEAST_AT_FIRST);
            self.limit = Some(Limit {
                rate,
                worked: rate,
                works: false,
                room: 0.0,
                at: now,
                decreased: now,
                pressed: now,
            });
            return Some(Change::Began);
        };
        limit.advance(now);
        limit.pressed = now;
        if now.saturating_since(limit.decreased) >= DECREASE_INTERVAL {
            limit.decreased = now;
            limit.rate = (limit.rate * DECREASE).min(accepted).max(LEAST);
            if std::mem::take(&mut limit.works) {
                limit.worked = limit.rate;
            }
        }
        None
    }

    /// Whether a request may go out now; then it is counted.
    fn take(&mut self, now: Instant) -> bool {
        let Some(limit) = &mut self.limit else { return true };
        limit.advance(now);
        let takes = limit.room >= 1.0;
        if takes {
            limit.room -= 1.0;
        } else {
            limit.pressed = now;
        }
        takes
    }

    /// How long until there is room for one request more.
    fn wait(&self) -> Duration {
        let missing = |limit: &Limit| (1.0 - limit.room).max(0.0) / limit.rate;
        self.limit.as_ref().map_or(Duration::ZERO, |limit| Duration::from_secs_f64(missing(limit)))
    }

    /// Ends the limit when it has not been needed for a while.
    fn end_if_quiet(&mut self, now: Instant) -> Option<Change> {
        self.limit.take_if(|limit| now.saturating_since(limit.pressed) >= QUIET)?;
        Some(Change::Ended)
    }
}

impl Limit {
    fn advance(&mut self, now: Instant) {
        let seconds = now.saturating_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        if now.saturating_since(self.decreased) >= DECREASE_INTERVAL && self.works {
            let (share, least) = INCREASE;
            self.rate += (self.worked * share).max(least) * seconds.min(1.0);
        }
        self.room = (self.room + self.rate * seconds).min((self.rate * BURST).max(1.0));
    }
}

/// Requests that the store accepted in this second and the one before.
#[derive(Debug, Default)]
struct Accepted {
    second: u64,
    now: u32,
    before: u32,
}

impl Accepted {
    fn count(&mut self, now: Instant) {
        self.turn_to(now);
        self.now = self.now.saturating_add(1);
    }

    /// Requests a second, as far as they are known: of a second that is over, unless this one has more already.
    fn rate(&mut self, now: Instant) -> f64 {
        self.turn_to(now);
        f64::from(self.now.max(self.before))
    }

    fn turn_to(&mut self, now: Instant) {
        let second = now.since_boot().as_secs();
        // Readings of two threads may come in the wrong order: an earlier second takes nothing back.
        if second > self.second {
            self.before = if second == self.second + 1 { self.now } else { 0 };
            (self.second, self.now) = (second, 0);
        }
    }
}

/// Where requests wait for their turn. Cheap to clone; the clones are one.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    /// Whether there is a budget: all that is looked at while there is none.
    limited: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    budget: Budget,
    waiting: BTreeMap<Place, oneshot::Sender<()>>,
    arrivals: u64,
    /// A task lets those that wait go, one after the other.
    is_served: bool,
}

/// A place in the queue: by urgency, then by arrival.
type Place = (Urgency, u64);

/// A request that waits for its turn; dropped, it has left.
#[derive(Debug)]
pub(super) struct Waiting {
    gate: Gate,
    place: Place,
    turn: oneshot::Receiver<()>,
}

impl Gate {
    /// A gate without a budget.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let limited = AtomicBool::new(false);
        Self { inner: Arc::new(Inner { clock, limited, queue: Mutex::default() }) }
    }

    /// Lets a request go at once, which is `None`, or has it wait for its turn.
    pub(super) fn enter(&self, urgency: Urgency) -> Option<Waiting> {
        if !self.inner.limited.load(Ordering::Relaxed) {
            return None;
        }
        let now = self.inner.clock.now();
        let mut queue = self.queue();
        self.end_if_quiet(&mut queue, now);
        if queue.waiting.is_empty() && queue.budget.take(now) {
            return None;
        }
        let (sender, turn) = oneshot::channel();
        queue.arrivals += 1;
        let place = (urgency, queue.arrivals);
        queue.waiting.insert(place, sender);
        if !std::mem::replace(&mut queue.is_served, true) {
            tokio::spawn(self.clone().serve());
        }
        Some(Waiting { gate: self.clone(), place, turn })
    }

    /// Takes note of the answer to a request that was sent.
    pub(super) fn note(&self, error: Option<&StoreError>) {
        let now = self.inner.clock.now();
        let mut queue = self.queue();
        match error {
            Some(StoreError::Throttled { .. }) => {
                if queue.budget.throttled(now).is_some() {
                    self.inner.limited.store(true, Ordering::Relaxed);
                    let rate = queue.budget.limit.as_ref().map_or(0.0, |limit| limit.rate.round());
                    tracing::warn!(rate, "the store throttles: requests are held back");
                }
            }
            // Nobody knows whether the store would have taken it.
            Some(StoreError::Unavailable { .. } | StoreError::Recreated { .. }) => {}
            Some(
                StoreError::Contended
                | StoreError::LeaseLost { .. }
                | StoreError::Changed
                | StoreError::NotFound
                | StoreError::NotHeld
                | StoreError::ContainerMissing { .. }
                | StoreError::Denied { .. }
                | StoreError::Full { .. }
                | StoreError::Fatal { .. },
            )
            | None => queue.budget.accepted(now),
        }
    }

    fn pace(&self) -> Pace {
        let mut queue = self.queue();
        self.end_if_quiet(&mut queue, self.inner.clock.now());
        let rate = queue.budget.limit.as_ref().map(|limit| limit.rate);
        Pace { waiting: queue.waiting.len(), rate }
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
        while !queue.waiting.is_empty() && queue.budget.take(now) {
            if let Some((_, turn)) = queue.waiting.pop_first() {
                // Whoever left in this very moment has taken its turn with it.
                let _ = turn.send(());
            }
        }
        queue.is_served = !queue.waiting.is_empty();
        queue.is_served.then(|| queue.budget.wait().clamp(Duration::from_millis(1), NAP))
    }

    fn end_if_quiet(&self, queue: &mut Queue, now: Instant) {
        if queue.waiting.is_empty() && queue.budget.end_if_quiet(now).is_some() {
            self.inner.limited.store(false, Ordering::Relaxed);
            tracing::info!("the store no longer throttles: requests are not held back");
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Waits for the turn, for so long.
    ///
    /// # Errors
    /// When it does not come in time.
    pub(super) async fn turn(mut self, timeout: Duration) -> Result<(), StoreError> {
        // The sender is only dropped with the gate, and there is no turn to wait for then.
        let waited = tokio::time::timeout(timeout, &mut self.turn).await;
        waited.map(drop).map_err(|_elapsed| HeldBack::error(timeout))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.gate.queue().waiting.remove(&self.place);
    }
}

impl Coordinator {
    /// How requests to the store are held back now, because it throttles.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.shared.gate.pace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_readings_of_two_threads_in_the_wrong_order_take_nothing_back() {
        let at = |millis| Instant::from_boot(Duration::from_millis(millis));
        let mut budget = Budget::default();
        for _ in 0..100 {
            budget.accepted(at(9_500));
        }
        budget.accepted(at(10_000));
        budget.accepted(at(9_999));
        assert!(budget.accepted.rate(at(10_000)) >= 100.0, "{budget:?}");
        budget.throttled(at(10_000));
        budget.take(at(11_000));
        budget.take(at(10_999));
        assert_eq!(budget.limit.map(|limit| limit.at), Some(at(11_000)));
    }
}
