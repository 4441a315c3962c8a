//! The page's data as it changes, by server-sent events: locks, how long holds are valid, what happens, and
//! the sidecar.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

use super::connection::Connection;
use super::page::Looked;
use super::snapshot::{self, Batch, SidecarView, busy, text};
use super::view::{self, HoldView, Holds, PageLock};
use crate::coordinator::{CallError, LockRecord, LocksWatch};
use crate::time::UnixMillis;

/// How often it is looked which holds were renewed, and how the sidecar is.
const TICK: Duration = Duration::from_secs(1);
/// Ticks until a listing is tried again that failed.
const RETRY: u32 = 5;
/// A proxy closes what is silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Locks that have changed.
#[derive(Debug, Serialize)]
struct LocksView {
    changed: Vec<PageLock>,
    gone: Vec<String>,
    /// All that is known has been told.
    listed_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct FailureView {
    message: String,
}

/// Follows everything until the reader or the sidecar ends.
pub(super) async fn live(
    State(looked): State<Arc<Looked>>,
    Extension(connection): Extension<Connection>,
) -> Response {
    if !connection.become_stream() {
        return busy();
    }
    let follower = Follower::new(Arc::clone(&looked));
    let events = stream::unfold(follower, async |mut follower| {
        let stopped = follower.looked.stopped.clone();
        let event = tokio::select! {
            () = stopped.cancelled() => return None,
            event = follower.next() => event,
        };
        Some((Ok::<_, Infallible>(event), follower))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// One who looks, and what it was told.
struct Follower {
    looked: Arc<Looked>,
    /// None before the first, and after a failure.
    locks: Option<LocksWatch>,
    newest: watch::Receiver<u64>,
    /// The newest event that was told.
    told: u64,
    holds: Holds,
    sidecar: Option<SidecarView>,
    /// When the store was listed, as it was told last.
    listed_at: Option<UnixMillis>,
    ticks: Interval,
    until_retry: u32,
    /// Whether the sidecar and the holds are to be looked at.
    is_due: bool,
}

impl Follower {
    fn new(looked: Arc<Looked>) -> Self {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            locks: None,
            newest: looked.events.newest(),
            looked,
            told: 0,
            holds: Holds::new(),
            sidecar: None,
            listed_at: None,
            ticks,
            until_retry: 0,
            is_due: true,
        }
    }

    /// Nothing is missed where this is dropped before it is done.
    async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.due().or_else(|| self.events()) {
                return event;
            }
            if self.locks.is_none() && self.until_retry == 0 {
                self.until_retry = RETRY;
                match snapshot::watch(&self.looked.coordinator) {
                    Ok(watch) => self.locks = Some(watch),
                    Err(error) => return failure(&error),
                }
            }
            let (locks, newest) = (&mut self.locks, &mut self.newest);
            tokio::select! {
                batch = next_batch(locks) => match batch {
                    Ok(batch) => return self.locks(batch),
                    Err(error) => {
                        self.locks = None;
                        return failure(&error);
                    }
                },
                // The sender lives as long as what is looked at.
                _ = newest.changed() => {}
                _ = self.ticks.tick() => {
                    self.is_due = true;
                    self.until_retry = self.until_retry.saturating_sub(1);
                }
            }
        }
    }

    /// How the sidecar is, if that has changed; then when the store was listed, and which holds were renewed
    /// or are at risk.
    fn due(&mut self) -> Option<Event> {
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        let sidecar = snapshot::sidecar_now(&self.looked);
        if self.sidecar.as_ref() != Some(&sidecar) {
            let event = event("sidecar", &sidecar);
            self.sidecar = Some(sidecar);
            self.is_due = true;
            return Some(event);
        }
        // The watch itself says so seldom.
        let listed_at = self.locks.as_ref().and_then(LocksWatch::listed_at);
        if listed_at.is_some() && self.listed_at != listed_at {
            self.is_due = true;
            return Some(self.locks(Batch { listed: listed_at, ..Batch::default() }));
        }
        let coordinator = &self.looked.coordinator;
        let (holds, now) = (view::holds(coordinator), coordinator.clock().now());
        let renewed = holds.values().filter(|hold| self.holds.get(&hold.path) != Some(*hold));
        let renewed: Vec<HoldView> = renewed.map(|hold| view::hold(hold, now)).collect();
        self.holds = holds;
        (!renewed.is_empty()).then(|| event("holds", &renewed))
    }

    fn events(&mut self) -> Option<Event> {
        let newest = *self.newest.borrow_and_update();
        if newest <= self.told {
            return None;
        }
        let events = self.looked.events.after(self.told);
        self.told = events.last().map_or(newest, |last| last.number);
        Some(event("events", &view::events(&events)))
    }

    fn locks(&mut self, batch: Batch) -> Event {
        self.listed_at = batch.listed.or(self.listed_at);
        let coordinator = &self.looked.coordinator;
        let (now, namespace) = (coordinator.clock().now(), &coordinator.host().namespace);
        let view = |record: LockRecord| {
            let hold = self.holds.get(&record.path);
            view::lock(record, namespace, hold, now)
        };
        let locks = LocksView {
            changed: batch.changed.into_iter().map(view).collect(),
            gone: batch.gone.iter().map(ToString::to_string).collect(),
            listed_at: batch.listed.and_then(view::moment),
        };
        event("locks", &locks)
    }
}

async fn next_batch(locks: &mut Option<LocksWatch>) -> Result<Batch, CallError> {
    match locks {
        Some(watch) => Batch::next(watch).await,
        None => std::future::pending().await,
    }
}

fn failure(error: &CallError) -> Event {
    event("failure", &FailureView { message: error.to_string() })
}

fn event(name: &str, data: &impl Serialize) -> Event {
    // JSON has no line break outside of its texts, and there they are escaped.
    Event::default().event(name).data(text(data))
}
