//! The schedules as the page shows them. Each has a plan of its own in the store, so what was read is kept
//! for some seconds for all who look.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;

use super::event_log::{EventLog, LoggedKind};
use super::page::Looked;
use super::view::moment;
use crate::coordinator::{CallError, RunOutcome, ScheduleInfo, ScheduleListRequest, Under};
use crate::lock::FencingToken;
use crate::schedule::{Ended, Occasion, Plan, Run, is_of_occurrences, waited_for};
use crate::time::{Instant, UnixMillis};
use crate::timetable::UtcSecond;

/// How old what is shown may be.
const AGE: Duration = Duration::from_secs(5);
/// Schedules that are asked for at a time.
const PAGE: usize = 1_000;

/// A schedule.
#[derive(Debug, Serialize)]
struct ScheduleView {
    lock_path: String,
    host_id: String,
    host_type: String,
    function: String,
    scope: String,
    expression: String,
    time_zone: String,
    sentence: String,
    paused: bool,
    next_at: Option<String>,
    last: Option<EndedView>,
    run: Option<RunView>,
    missed: u64,
    missed_since_last_run: u64,
    failed_attempts: u32,
    retry_at: Option<String>,
    subscribers_here: usize,
    problem: String,
}

/// A run, or an occurrence without one, that is over.
#[derive(Debug, Serialize)]
struct EndedView {
    scheduled_at: Option<String>,
    request_id: Option<String>,
    outcome: String,
    attempt: u32,
    fencing_token: Option<u64>,
    /// How it ended and why, if it ended at this sidecar not long ago.
    detail: String,
    /// Which sidecar had the run, and knows why it ended; empty if that is not known.
    sidecar: String,
}

/// A run that goes on, as far as the record says.
#[derive(Debug, Serialize)]
struct RunView {
    scheduled_at: Option<String>,
    request_id: Option<String>,
    attempt: u32,
    fencing_token: u64,
    started_at: Option<String>,
    deadline_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct SchedulesView {
    read_at: Option<String>,
    schedules: Vec<ScheduleView>,
}

/// What was read last, as it is answered. One reader asks the store at a time, and the others have what it
/// found.
#[derive(Debug, Default)]
pub(super) struct Schedules(Mutex<Option<(Instant, Arc<str>)>>);

impl Schedules {
    /// All schedules under the sidecar's prefix, as JSON.
    pub(super) async fn json(&self, looked: &Looked) -> Result<Arc<str>, CallError> {
        let coordinator = &looked.coordinator;
        let mut kept = self.0.lock().await;
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
            let page = coordinator.list_schedules(request, |_| true).await?;
            schedules.extend(page.schedules.iter().map(|info| view(info, looked)));
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

fn view(info: &ScheduleInfo, looked: &Looked) -> ScheduleView {
    let namespace = &looked.coordinator.host().namespace;
    let (plan, problem) = match &info.plan {
        Some(Ok(plan)) => (Some(plan.as_ref()), String::new()),
        Some(Err(problem)) => (None, problem.clone()),
        None => (None, "its plan was deleted: subscribe to it again to continue it".to_owned()),
    };
    // Of occurrences that callers have named there is no plan to wait for.
    let state = info.state.as_deref().filter(|state| !is_of_occurrences(state));
    let next = match plan {
        Some(plan) => waited_for(plan, state),
        None => state.and_then(|state| state.next),
    };
    let timetable = plan.map(|plan| plan.definition().timetable());
    let attempts = state.map(|state| state.attempts).unwrap_or_default();
    let record = &info.record.record;
    ScheduleView {
        lock_path: info.path.to_string(),
        host_id: namespace
            .host_id_of(&info.path)
            .map(|host_id| host_id.to_string())
            .unwrap_or_default(),
        host_type: record.host_type.clone(),
        function: record.function.clone(),
        scope: record.scope.clone(),
        expression: timetable.map(|timetable| timetable.canonical().to_owned()).unwrap_or_default(),
        time_zone: timetable.map(|timetable| timetable.zone().to_owned()).unwrap_or_default(),
        sentence: timetable.map(|timetable| timetable.sentence()).unwrap_or_default(),
        paused: plan.is_some_and(Plan::is_paused),
        next_at: next.and_then(second),
        last: state
            .and_then(|state| state.ended.first())
            .map(|last| ended(last, info, &looked.events)),
        run: state.and_then(|state| state.run.as_ref()).map(run),
        missed: state.map_or(0, |state| state.missed),
        missed_since_last_run: state.map_or(0, |state| state.missed_since),
        failed_attempts: attempts.failures,
        retry_at: attempts.retry_at.and_then(second),
        subscribers_here: info.subscribers_here,
        problem,
    }
}

fn ended(ended: &Ended, info: &ScheduleInfo, events: &EventLog) -> EndedView {
    let (scheduled_at, request_id) = occasion(&ended.occasion);
    // Its reason is in the event log of the sidecar that has recorded it, and not in the store.
    let events = events.of(&info.path);
    let said = events.iter().rev().find(|event| {
        event.kind == LoggedKind::RunFailed && event.token.is_some() && event.token == ended.token
    });
    let record = &info.record.record;
    let is_its = ended.token.is_some() && record.token == ended.token;
    let outcome: RunOutcome = ended.outcome;
    EndedView {
        scheduled_at,
        request_id,
        outcome: outcome.as_str().to_lowercase(),
        attempt: ended.attempt,
        fencing_token: ended.token.map(FencingToken::value),
        detail: said.map(|said| said.detail.clone()).unwrap_or_default(),
        sidecar: if is_its { record.sidecar.to_string() } else { String::new() },
    }
}

fn run(run: &Run) -> RunView {
    let (scheduled_at, request_id) = occasion(&run.occasion);
    RunView {
        scheduled_at,
        request_id,
        attempt: run.attempt,
        fencing_token: run.token.value(),
        started_at: second(run.started),
        deadline_at: run.deadline.and_then(second),
    }
}

fn occasion(occasion: &Occasion) -> (Option<String>, Option<String>) {
    match occasion {
        Occasion::Scheduled(at) => (second(*at), None),
        Occasion::ByHand { request_id, .. } => (None, Some(request_id.clone())),
    }
}

fn second(at: UtcSecond) -> Option<String> {
    let seconds = u64::try_from(at.0).ok()?;
    moment(UnixMillis(seconds.checked_mul(1_000)?))
}
