//! What people see of schedules.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::{EndedRun, Schedule, ScheduleIntervention, ScheduleState};

use crate::cli::narrow::{CUT, common, fit};
use crate::cli::output;
use crate::cli::record;
use crate::cli::times::moment;
use crate::time::{BootClock, Clock as _};
use crate::view::outcome;

/// What is due for longer has nobody who runs it.
const A_WHILE: Duration = Duration::from_secs(60);

/// Schedules as a table of this width.
pub(super) fn table(schedules: &[Schedule], width: usize) -> String {
    if schedules.is_empty() {
        return "no schedules".to_owned();
    }
    let places = schedules.iter().map(|schedule| {
        let host_id = schedule.record.as_ref().map(|record| record.host_id.as_str());
        (schedule.lock_path.as_str(), host_id.unwrap_or_default())
    });
    let under = common(&places.collect::<Vec<_>>());
    let row = |schedule: &Schedule| {
        let state = schedule.state.as_ref();
        let path = schedule.lock_path.get(under.len()..).unwrap_or(&schedule.lock_path);
        vec![
            path.to_owned(),
            if schedule.problem.is_empty() {
                schedule.description.clone()
            } else {
                schedule.problem.clone()
            },
            doing(schedule),
            moment(schedule.next_at).unwrap_or_default(),
            state.and_then(|state| state.ended.first()).map(ended).unwrap_or_default(),
        ]
    };
    let headings = ["LOCK", "SCHEDULE", "STATE", "NEXT", "LAST"];
    let mut rows: Vec<Vec<String>> = schedules.iter().map(row).collect();
    let was_cut = fit(&headings, &mut rows, width, &["LOCK", "SCHEDULE", "LAST"]);
    let table = output::table(&headings, rows);
    let head = if under.is_empty() { String::new() } else { format!("under {under}\n") };
    let tail = if was_cut { format!("\n{}", CUT) } else { String::new() };
    format!("{head}{table}{tail}")
}

/// A schedule with all that is known of it, as text.
pub(super) fn schedule(schedule: &Schedule) -> String {
    let empty = ScheduleState::default();
    let state = schedule.state.as_ref().unwrap_or(&empty);
    let spec = schedule.spec.as_ref();
    let all = [
        ("lock path", schedule.lock_path.clone()),
        ("expression", schedule.expression.clone()),
        ("schedule", schedule.description.clone()),
        ("problem", schedule.problem.clone()),
        ("revision", spec.map(|spec| spec.revision.to_string()).unwrap_or_default()),
        ("state", doing(schedule)),
        ("next", moment(schedule.next_at).unwrap_or_default()),
        ("retry", moment(state.retry_at).unwrap_or_default()),
        ("done up to", moment(state.watermark).unwrap_or_default()),
        ("missed", if state.missed > 0 { state.missed.to_string() } else { String::new() }),
        ("triggered", schedule.waiting_request_ids.join(", ")),
        ("lock", schedule.record.as_ref().map(record::doing_text).unwrap_or_default()),
        ("subscribers here", schedule.subscribers_here.to_string()),
        ("removed", schedule.removed.as_ref().map(intervention).unwrap_or_default()),
        ("reset", schedule.reset.as_ref().map(intervention).unwrap_or_default()),
    ];
    let ends = state.ended.iter().map(|run| ("ended", ended(run)));
    output::fields(&all.into_iter().chain(ends).collect::<Vec<_>>())
}

fn doing(schedule: &Schedule) -> String {
    let run = schedule.state.as_ref().and_then(|state| state.run.as_ref());
    match run {
        _ if schedule.removed.is_some() => "removed".to_owned(),
        Some(run) => {
            let since = moment(run.started_at).unwrap_or_default();
            if schedule.run_abandoned {
                return format!("abandoned, started {since}, attempt {}", run.attempt);
            }
            format!("running since {since}, attempt {}", run.attempt)
        }
        None if schedule.paused => "paused".to_owned(),
        None if is_past(schedule.next_at) && schedule.subscribers_here == 0 => {
            "due, without subscribers here".to_owned()
        }
        None if is_past(schedule.next_at) => "due".to_owned(),
        None => "waiting".to_owned(),
    }
}

/// Whether it was due a while ago: spread, the start and the clocks have their time.
fn is_past(at: Option<SystemTime>) -> bool {
    let now = UNIX_EPOCH.checked_add(Duration::from_millis(BootClock::new().wall().0));
    let since = now.zip(at).and_then(|(now, at)| now.duration_since(at).ok());
    since.is_some_and(|since| since > A_WHILE)
}

fn intervention(by: &ScheduleIntervention) -> String {
    let at = moment(by.at).unwrap_or_default();
    format!("{at} by {}, because: {}", by.caller, by.reason)
}

/// How a run ended.
pub(in crate::cli) fn ended(run: &EndedRun) -> String {
    let what = moment(run.scheduled_at).unwrap_or_else(|| format!("request {}", run.request_id));
    let how = outcome(run.outcome).unwrap_or_default();
    match run.attempt {
        0 | 1 => format!("{what} {how}"),
        attempt => format!("{what} {how}, attempt {attempt}"),
    }
}
