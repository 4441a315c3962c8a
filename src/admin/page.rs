//! The page: its files, its data, and who may have them.

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use axum::middleware;
use axum::routing::get;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::event_log::EventLog;
use super::guard::{Guard, Readers, guard};
use super::schedules::Schedules;
use super::{live, snapshot};
use crate::coordinator::Coordinator;
use crate::scheduler::Scheduler;

/// What there is, as it is told to those who ask for something else.
pub(super) const PAGES: &str = "\
/               the page: locks, schedules and events
/api/sidecar    this sidecar, as JSON
/api/locks      every lock under this sidecar's prefix
/api/locks/PATH one lock, and its events at this sidecar
/api/schedules  every schedule
/api/events     the newest 500 events
/api/live       all of this as it changes, as server-sent events
";

/// A file of the page, with its media type.
type File = ([(HeaderName, &'static str); 1], &'static str);
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What a person is told of the sidecar that does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct About {
    /// The version of the program.
    pub version: String,
    /// Its name in records (S34).
    pub sidecar: String,
    /// Its host id.
    pub host_id: String,
    /// Which provider that came from.
    pub host_id_provider: String,
    /// Its host type.
    pub host_type: String,
    /// Where its locks are kept, for people.
    pub store: String,
    /// What all of its paths begin with.
    pub prefix: String,
    /// How keys become paths.
    pub layout: String,
    /// Where it listens.
    pub endpoints: Vec<String>,
}

/// Who may look at the page, and what it says of the sidecar.
#[derive(Clone, Debug)]
pub struct Look {
    /// Who may look.
    pub readers: Readers,
    /// Names that may lead to the page, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// What it says of the sidecar.
    pub about: About,
    /// What has happened at the sidecar: an observer of its coordinator.
    pub events: Arc<EventLog>,
}

/// What all requests for the page share.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) coordinator: Coordinator,
    pub(super) about: About,
    pub(super) events: Arc<EventLog>,
    pub(super) schedules: Schedules,
    /// The server ends.
    pub(super) stopped: CancellationToken,
}

pub(super) fn router(scheduler: Scheduler, look: Look, stopped: CancellationToken) -> Router {
    let Look { readers, hosts, about, events } = look;
    let hosts = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
    let coordinator = scheduler.coordinator().clone();
    let schedules = Schedules::new(scheduler);
    let looked = Looked { coordinator, about, events, schedules, stopped };
    Router::new()
        .route("/", get(file("text/html; charset=utf-8", include_str!("page/index.html"))))
        .route("/page.css", get(file("text/css; charset=utf-8", include_str!("page/page.css"))))
        .route("/page.js", get(file(SCRIPT, include_str!("page/page.js"))))
        .route("/known.js", get(file(SCRIPT, include_str!("page/known.js"))))
        .route("/parts.js", get(file(SCRIPT, include_str!("page/parts.js"))))
        .route("/icon.svg", get(file("image/svg+xml", include_str!("page/icon.svg"))))
        .route("/api/sidecar", get(snapshot::sidecar))
        .route("/api/locks", get(snapshot::locks))
        .route("/api/locks/{*lock_path}", get(snapshot::lock))
        .route("/api/schedules", get(snapshot::schedules))
        .route("/api/events", get(snapshot::events))
        .route("/api/live", get(live::live))
        .route_layer(middleware::from_fn_with_state(Arc::new(Guard { readers, hosts }), guard))
        .with_state(Arc::new(looked))
}

const fn file(kind: &'static str, text: &'static str) -> File {
    ([(CONTENT_TYPE, kind)], text)
}
