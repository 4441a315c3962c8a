//! The schedules as the page shows them. Each has a plan of its own in the store, so what was read is kept
//! for some seconds for all who look.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;

use super::event_log::LoggedKind;
use super::page::Looked;
use super::view::moment;
use crate::coordinator::{CallError, Under};
use crate::schedule::is_of_occurrences;
use crate::scheduler::{ScheduleInfo, ScheduleListRequest, Scheduler};
use crate::time::Instant;
use crate::view::ScheduleView;

/// How old what is shown may be.
const AGE: Duration = Duration::from_secs(5);
/// Schedules that are asked for at a time.
const PAGE: usize = 1_000;

/// A schedule, and what only the page says of it.
#[derive(Debug, Serialize)]
struct PageSchedule {
    #[serde(flatten)]
    schedule: ScheduleView,
    host_id: String,
    host_type: String,
    missed_since_last_run: u64,
    failed_attempts: u32,
    /// How and why the run ended that ended last, if it ended at this sidecar not long ago.
    last_detail: String,
    /// Which sidecar had that run, and knows why it ended; empty if that is not known.
    last_sidecar: String,
}

#[derive(Debug, Serialize)]
struct SchedulesView {
    read_at: Option<String>,
    schedules: Vec<PageSchedule>,
}

/// What was read last, as it is answered. One reader asks the store at a time, and the others have what it
/// found.
#[derive(Debug)]
pub(super) struct Schedules {
    scheduler: Scheduler,
    read: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Schedules {
    pub(super) fn new(scheduler: Scheduler) -> Self {
        Self { scheduler, read: Mutex::default() }
    }

    /// All schedules under the sidecar's prefix, as JSON.
    pub(super) async fn json(&self, looked: &Looked) -> Result<Arc<str>, CallError> {
        let coordinator = &looked.coordinator;
        let mut kept = self.read.lock().await;
        let now = coordinator.clock().now();
        if let Some((at, json)) = &*kept
            && now.saturating_since(*at) < AGE
        {
            return Ok(Arc::clone(json));
        }
        let namespace = &coordinator.host().namespace;
        let (mut schedules, mut next) = (Vec::new(), None);
        loop {
            let under = Under::Prefix(namespace.all_prefix());
            let request = ScheduleListRequest { under, page_size: PAGE, page_token: next };
            let page = self.scheduler.list_schedules(request, |_| true).await?;
            schedules.extend(page.schedules.into_iter().map(|info| view(info, looked)));
            next = page.next_page_token;
            if next.is_none() {
                break;
            }
        }
        let read_at = moment(coordinator.clock().wall());
        let json = super::snapshot::text(&SchedulesView { read_at, schedules });
        let json: Arc<str> = json.into();
        *kept = Some((now, Arc::clone(&json)));
        Ok(json)
    }
}

fn view(mut info: ScheduleInfo, looked: &Looked) -> PageSchedule {
    let namespace = &looked.coordinator.host().namespace;
    // Of occurrences that callers have named there is no plan to wait for.
    info.state = info.state.filter(|state| !is_of_occurrences(state));
    let (state, record) = (info.state.as_deref(), &info.record.record);
    let token = state.and_then(|state| state.ended.first()).and_then(|last| last.token);
    // Its reason is in the event log of the sidecar that has recorded it, and not in the store.
    let events = looked.events.of(&info.path);
    let said = events.iter().rev().find(|event| {
        event.kind == LoggedKind::RunFailed && event.token.is_some() && event.token == token
    });
    let is_its = token.is_some() && record.token == token;
    PageSchedule {
        host_id: namespace.host_id_of(&info.path).map(|id| id.to_string()).unwrap_or_default(),
        host_type: record.host_type.clone(),
        missed_since_last_run: state.map_or(0, |state| state.missed_since),
        failed_attempts: state.map_or(0, |state| state.attempts.failures),
        last_detail: said.map(|said| said.detail.clone()).unwrap_or_default(),
        last_sidecar: if is_its { record.sidecar.to_string() } else { String::new() },
        schedule: ScheduleView::here(info, namespace),
    }
}
