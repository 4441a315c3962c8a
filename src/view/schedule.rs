//! The JSON document of a schedule.

use std::time::Duration;

use leasehold_client::{
    CatchUp, EndedRun, Overlap, RunKind, RunOutcome, RunTimeout, Schedule, ScheduleIntervention,
    ScheduleSpec, ScheduleState, StartedRun, Timetable,
};
use serde::Serialize;

use super::lock::{KeyView, LockView};
use super::moment;

/// A schedule as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct ScheduleView {
    lock_path: String,
    key: Option<KeyView>,
    expression: String,
    sentence: String,
    zone_data: String,
    definition: Option<DefinitionView>,
    problem: Option<String>,
    paused: bool,
    waiting_request_ids: Vec<String>,
    next_at: Option<String>,
    state: Option<StateView>,
    lock: Option<LockView>,
    subscribers_here: u32,
    removed: Option<InterventionView>,
    reset: Option<InterventionView>,
}

/// What an operator has done to a whole schedule.
#[derive(Debug, Serialize)]
struct InterventionView {
    at: Option<String>,
    reason: String,
    caller: String,
}

impl From<&ScheduleIntervention> for InterventionView {
    fn from(by: &ScheduleIntervention) -> Self {
        let (reason, caller) = (by.reason.clone(), by.caller.clone());
        Self { at: moment(by.at), reason, caller }
    }
}

/// The definition in force.
#[derive(Debug, Serialize)]
struct DefinitionView {
    time_zone: String,
    revision: u64,
    every_seconds: Option<f64>,
    catch_up: &'static str,
    catch_up_max: Option<u32>,
    catch_up_window_seconds: Option<f64>,
    grace_seconds: Option<f64>,
    overlap: &'static str,
    max_attempts: Option<u32>,
    backoff_seconds: Option<f64>,
    run_timeout: &'static str,
    run_timeout_seconds: Option<f64>,
    stop_grace_seconds: Option<f64>,
    progress_timeout_seconds: Option<f64>,
    spread_seconds: Option<f64>,
    takeover_check_seconds: Option<f64>,
    lease_duration_seconds: Option<f64>,
}

/// What its runs have decided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StateView {
    next_at: Option<String>,
    watermark: Option<String>,
    watermark_outcome: Option<String>,
    run: Option<StartedView>,
    retry_at: Option<String>,
    missed: u64,
    ended: Vec<EndedView>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct StartedView {
    kind: &'static str,
    scheduled_at: Option<String>,
    request_id: Option<String>,
    attempt: u32,
    fencing_token: u64,
    started_at: Option<String>,
    deadline_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct EndedView {
    kind: &'static str,
    scheduled_at: Option<String>,
    request_id: Option<String>,
    outcome: Option<String>,
    attempt: u32,
    fencing_token: Option<u64>,
}

impl From<&Schedule> for ScheduleView {
    fn from(schedule: &Schedule) -> Self {
        Self {
            lock_path: schedule.lock_path.clone(),
            key: schedule.key.as_ref().map(KeyView::from),
            expression: schedule.expression.clone(),
            sentence: schedule.description.clone(),
            zone_data: schedule.zone_data.clone(),
            definition: schedule.spec.as_ref().map(DefinitionView::from),
            problem: given(&schedule.problem),
            paused: schedule.paused,
            waiting_request_ids: schedule.waiting_request_ids.clone(),
            next_at: moment(schedule.next_at),
            state: schedule.state.as_ref().map(StateView::from),
            lock: schedule.record.as_ref().map(LockView::from),
            subscribers_here: schedule.subscribers_here,
            removed: schedule.removed.as_ref().map(InterventionView::from),
            reset: schedule.reset.as_ref().map(InterventionView::from),
        }
    }
}

impl From<&ScheduleSpec> for DefinitionView {
    fn from(spec: &ScheduleSpec) -> Self {
        let every = match &spec.timetable {
            Timetable::Every(every) => Some(*every),
            // A later version may know more.
            Timetable::Cron(_) | _ => None,
        };
        let (catch_up, catch_up_max) = match spec.catch_up {
            CatchUp::None => ("none", None),
            CatchUp::All(most) => ("all", Some(most)),
            CatchUp::Latest | _ => ("latest", None),
        };
        let (run_timeout, run_timeout_seconds) = match spec.run_timeout {
            RunTimeout::After(span) => ("after", Some(span)),
            RunTimeout::Unlimited => ("unlimited", None),
            RunTimeout::UntilNext | _ => ("until_next", None),
        };
        Self {
            time_zone: spec.time_zone.clone(),
            revision: spec.revision,
            every_seconds: seconds(every),
            catch_up,
            catch_up_max,
            catch_up_window_seconds: seconds(spec.catch_up_window),
            grace_seconds: seconds(spec.grace),
            overlap: if spec.overlap == Overlap::Skip { "skip" } else { "follow" },
            max_attempts: Some(spec.max_attempts).filter(|most| *most > 0),
            backoff_seconds: seconds(spec.backoff),
            run_timeout,
            run_timeout_seconds: seconds(run_timeout_seconds),
            stop_grace_seconds: seconds(spec.stop_grace),
            progress_timeout_seconds: seconds(spec.progress_timeout),
            spread_seconds: seconds(spec.spread),
            takeover_check_seconds: seconds(spec.takeover_check),
            lease_duration_seconds: seconds(spec.lease_duration),
        }
    }
}

impl From<&ScheduleState> for StateView {
    fn from(state: &ScheduleState) -> Self {
        Self {
            next_at: moment(state.next_at),
            watermark: moment(state.watermark),
            watermark_outcome: outcome(state.watermark_outcome),
            run: state.run.as_ref().map(StartedView::from),
            retry_at: moment(state.retry_at),
            missed: state.missed,
            ended: state.ended.iter().map(EndedView::from).collect(),
        }
    }
}

impl From<&StartedRun> for StartedView {
    fn from(run: &StartedRun) -> Self {
        Self {
            kind: kind(run.kind),
            scheduled_at: moment(run.scheduled_at),
            request_id: given(&run.request_id),
            attempt: run.attempt,
            fencing_token: run.fencing_token,
            started_at: moment(run.started_at),
            deadline_at: moment(run.deadline_at),
        }
    }
}

impl From<&EndedRun> for EndedView {
    fn from(run: &EndedRun) -> Self {
        Self {
            kind: kind(run.kind),
            scheduled_at: moment(run.scheduled_at),
            request_id: given(&run.request_id),
            outcome: outcome(run.outcome),
            attempt: run.attempt,
            fencing_token: run.fencing_token,
        }
    }
}

/// An outcome as documents write it, such as `failed_final`.
pub(crate) fn outcome(outcome: Option<RunOutcome>) -> Option<String> {
    outcome.map(|outcome| outcome.as_str().to_ascii_lowercase())
}

fn kind(kind: RunKind) -> &'static str {
    if kind == RunKind::Manual { "manual" } else { "scheduled" }
}

fn seconds(span: Option<Duration>) -> Option<f64> {
    span.map(|span| span.as_secs_f64())
}

fn given(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
