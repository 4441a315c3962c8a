//! What machines ask: whether the process lives, whether it is ready (`unready`), and its metrics. When the
//! store counts as unusable is decided in `coordinator/store_io/readiness.rs`.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::coordinator::{Coordinator, StoreStatus};
use crate::scheduler::Scheduler;
use crate::telemetry::{Exposition, Metrics};

/// What there is, as it is told to those who ask for something else.
pub(super) const PAGES: &str = "\
/livez    200 while the process runs, whatever the store does
/readyz   200 when locks can be acquired, else 503 and the reason
/metrics  metrics for Prometheus
";

#[derive(Clone, Debug)]
struct Probed {
    scheduler: Scheduler,
    metrics: Metrics,
}

/// What every caller may have.
pub(super) fn router(scheduler: Scheduler, metrics: Metrics) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(show_metrics))
        .with_state(Probed { scheduler, metrics })
}

/// S18: whoever runs the process must not restart it because its store is away.
async fn livez() -> impl IntoResponse {
    plain("alive\n".to_owned())
}

async fn readyz(State(probed): State<Probed>) -> impl IntoResponse {
    match unready(probed.scheduler.coordinator()) {
        None => (StatusCode::OK, plain("ready\n".to_owned())),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, plain(format!("not ready: {reason}\n"))),
    }
}

/// Why no lock can be taken now, in one line.
pub(super) fn unready(coordinator: &Coordinator) -> Option<String> {
    if *coordinator.draining().borrow() {
        return Some("the sidecar is shutting down".to_owned());
    }
    match &*coordinator.store_status().borrow() {
        StoreStatus::Ready => None,
        StoreStatus::Unknown => Some("the store has not answered yet".to_owned()),
        StoreStatus::NotReady { cause, since } => {
            let span = coordinator.clock().now().saturating_since(*since).as_secs();
            let span = humantime::format_duration(Duration::from_secs(span));
            Some(format!("for {span}: {}", one_line(cause)))
        }
    }
}

/// What a store or its network says may have line breaks.
fn one_line(text: &str) -> String {
    text.split(char::is_control).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

async fn show_metrics(State(probed): State<Probed>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let exposition = Exposition::for_accept(&accept.collect::<Vec<_>>().join(","));
    let text = probed.metrics.encode(&probed.scheduler, exposition);
    ([(CONTENT_TYPE, exposition.content_type())], text)
}

pub(super) fn plain(text: String) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-store")], text)
}
