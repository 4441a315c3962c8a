//! The page's data as it is now: the sidecar, its locks, one lock with its history, and what happened.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt as _, Stream, stream};
use serde::Serialize;

use super::connection::{Connection, SIZES};
use super::event_log::LoggedKind;
use super::page::{About, Looked};
use super::probes::{plain, unready};
use super::view::{self, EventView, PageLock};
use crate::coordinator::{
    CallError, Coordinator, Filter, LockRecord, LockSelector, LocksEvent, LocksWatch, Under,
};
use crate::lock::LockPath;
use crate::time::UnixMillis;

/// Locks that are written at a time.
const BATCH: usize = 64;

/// What this sidecar is, and how it is.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct SidecarView {
    #[serde(flatten)]
    about: About,
    ready: bool,
    /// Why no lock can be acquired now.
    #[serde(rename = "reason")]
    obstacle: Option<String>,
    draining: bool,
    holds: usize,
    waiters: usize,
    at_risk: usize,
    /// Whether callers may break locks through this sidecar.
    allows_breaks: bool,
    /// Locks that two host types share.
    collisions: Vec<EventView>,
}

#[derive(Debug, Serialize)]
struct EventsView {
    /// The newest last.
    events: Vec<EventView>,
}

#[derive(Debug, Serialize)]
struct OneLockView {
    lock: PageLock,
    /// What happened to it at this sidecar, the newest last.
    history: Vec<EventView>,
    /// Whether two host types were seen to share its path.
    collides: bool,
}

/// A value as JSON.
pub(super) fn text(value: &impl Serialize) -> String {
    // Views have text keys and finite numbers only.
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!(%error, "a view of the page cannot be written");
        "null".to_owned()
    })
}

pub(super) fn json(text: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, "application/json")], text.into()).into_response()
}

/// What could not be asked for.
pub(super) fn failed(error: &CallError) -> Response {
    let is_not_ours =
        matches!(error, CallError::ForeignPath { .. } | CallError::ForeignPrefix { .. });
    let status = if is_not_ours { StatusCode::NOT_FOUND } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, plain(format!("{error}\n"))).into_response()
}

/// When too many look at once.
pub(super) fn busy() -> Response {
    let text = format!(
        "{} streams of the page are open, which is the limit: close another page, or try again later\n",
        SIZES.serving
    );
    (StatusCode::SERVICE_UNAVAILABLE, plain(text)).into_response()
}

pub(super) fn sidecar_now(looked: &Looked) -> SidecarView {
    let coordinator = &looked.coordinator;
    let (gauges, obstacle) = (coordinator.gauges(), unready(coordinator));
    SidecarView {
        about: looked.about.clone(),
        ready: obstacle.is_none(),
        obstacle,
        draining: gauges.draining,
        holds: gauges.holds,
        waiters: gauges.waiters,
        at_risk: gauges.at_risk,
        allows_breaks: coordinator.settings().allow_break,
        collisions: view::events(&looked.events.collisions()),
    }
}

pub(super) async fn sidecar(State(looked): State<Arc<Looked>>) -> Response {
    json(text(&sidecar_now(&looked)))
}

pub(super) async fn events(State(looked): State<Arc<Looked>>) -> Response {
    json(text(&EventsView { events: view::events(&looked.events.after(0)) }))
}

pub(super) async fn schedules(State(looked): State<Arc<Looked>>) -> Response {
    match looked.schedules.json(&looked).await {
        Ok(text) => json(text.to_string()),
        Err(error) => failed(&error),
    }
}

/// One lock, with what happened to it here.
pub(super) async fn lock(
    State(looked): State<Arc<Looked>>,
    Path(lock_path): Path<String>,
) -> Response {
    let coordinator = &looked.coordinator;
    let Ok(path) = lock_path.parse::<LockPath>() else {
        return (StatusCode::NOT_FOUND, plain("there is no lock with this path\n".to_owned()))
            .into_response();
    };
    let record = match coordinator.get(&LockSelector::Path(path.clone())).await {
        Ok(record) => record,
        Err(error) => return failed(&error),
    };
    let (holds, now) = (view::holds(coordinator), coordinator.clock().now());
    let history = looked.events.of(&path);
    let namespace = &coordinator.host().namespace;
    json(text(&OneLockView {
        lock: view::lock(record, namespace, holds.get(&path), now),
        collides: history.iter().any(|event| event.kind == LoggedKind::Collision),
        history: view::events(&history),
    }))
}

/// Every lock under the sidecar's prefix. Many are written in parts, so that nothing else waits for them.
pub(super) async fn locks(
    State(looked): State<Arc<Looked>>,
    Extension(connection): Extension<Connection>,
) -> Response {
    if !connection.become_stream() {
        return busy();
    }
    let mut watch = match watch(&looked.coordinator) {
        Ok(watch) => watch,
        Err(error) => return failed(&error),
    };
    // What cannot be listed is an answer of its own, not half of one.
    let first = match Batch::next(&mut watch).await {
        Ok(first) => first,
        Err(error) => return failed(&error),
    };
    json(Body::from_stream(document(Arc::clone(&looked), watch, first)))
}

/// Follows every lock under the sidecar's prefix.
pub(super) fn watch(coordinator: &Coordinator) -> Result<LocksWatch, CallError> {
    let all = Under::Prefix(coordinator.host().namespace.all_prefix());
    let filter: Filter = Box::new(|_| true);
    coordinator.watch_locks(&all, filter)
}

/// What became known of locks at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) changed: Vec<LockRecord>,
    pub(super) gone: Vec<LockPath>,
    /// All that is known has been told, with when the store was listed.
    pub(super) listed: Option<UnixMillis>,
}

impl Batch {
    /// What is known next; at most [`BATCH`] of it. Nothing is missed where this is dropped before it is
    /// done.
    pub(super) async fn next(watch: &mut LocksWatch) -> Result<Self, CallError> {
        let mut batch = Self::default();
        batch.add(watch.next().await?);
        for _ in 1..BATCH {
            match watch.next().now_or_never() {
                Some(Ok(event)) => batch.add(event),
                // A failure is said again.
                Some(Err(_)) | None => break,
            }
        }
        Ok(batch)
    }

    fn add(&mut self, event: LocksEvent) {
        match event {
            LocksEvent::Changed(record) => self.changed.push(*record),
            LocksEvent::Gone(path) => self.gone.push(path),
            LocksEvent::Listed { at, .. } => self.listed = Some(at),
        }
    }
}

/// A listing that is being written.
struct Listing {
    looked: Arc<Looked>,
    watch: LocksWatch,
    holds: view::Holds,
    /// None at the end.
    next: Option<Batch>,
    begun: bool,
}

fn document(
    looked: Arc<Looked>,
    watch: LocksWatch,
    first: Batch,
) -> impl Stream<Item = Result<Bytes, CallError>> {
    let holds = view::holds(&looked.coordinator);
    let listing = Listing { looked, watch, holds, next: Some(first), begun: false };
    stream::try_unfold(listing, async |mut listing| {
        let Some(batch) = listing.next.take() else { return Ok(None) };
        let coordinator = &listing.looked.coordinator;
        let (now, namespace) = (coordinator.clock().now(), &coordinator.host().namespace);
        let mut part = String::new();
        for record in batch.changed {
            part.push_str(if listing.begun { "," } else { "{\"locks\":[" });
            listing.begun = true;
            let hold = listing.holds.get(&record.path);
            part.push_str(&text(&view::lock(record, namespace, hold, now)));
        }
        if let Some(at) = batch.listed {
            part.push_str(if listing.begun { "" } else { "{\"locks\":[" });
            part.push_str("],\"listed_at\":");
            part.push_str(&text(&view::moment(at)));
            part.push('}');
        } else {
            listing.next = Some(Batch::next(&mut listing.watch).await?);
        }
        Ok(Some((Bytes::from(part), listing)))
    })
}
