//! The JSON document of a schedule.

use std::time::Duration;

use leasehold_client::{
    CatchUp, EndedRun, Overlap, RunKind, RunOutcome, RunTimeout, Schedule, ScheduleIntervention,
    ScheduleSpec, ScheduleState, StartedRun, Timetable,
};
use serde::Serialize;

use super::lock::{KeyView, LockView};
use super::moment;

document! {
    /// A schedule as JSON.
    #[derive(Debug, Serialize)]
    pub(crate) struct ScheduleView of schedule: Schedule {
        lock_path: String = schedule.lock_path.clone(),
        key: Option<KeyView> = schedule.key.as_ref().map(KeyView::from),
        expression: String = schedule.expression.clone(),
        sentence: String = schedule.description.clone(),
        zone_data: String = schedule.zone_data.clone(),
        definition: Option<DefinitionView> = schedule.spec.as_ref().map(DefinitionView::from),
        problem: Option<String> = given(&schedule.problem),
        paused: bool = schedule.paused,
        waiting_request_ids: Vec<String> = schedule.waiting_request_ids.clone(),
        next_at: Option<String> = moment(schedule.next_at),
        state: Option<StateView> = schedule.state.as_ref().map(StateView::from),
        lock: Option<LockView> = schedule.record.as_ref().map(LockView::from),
        subscribers_here: u32 = schedule.subscribers_here,
        removed: Option<InterventionView> = schedule.removed.as_ref().map(InterventionView::from),
        reset: Option<InterventionView> = schedule.reset.as_ref().map(InterventionView::from),
    }
}

document! {
    /// What an operator has done to a whole schedule.
    #[derive(Debug, Serialize)]
    struct InterventionView of by: ScheduleIntervention {
        at: Option<String> = moment(by.at),
        reason: String = by.reason.clone(),
        caller: String = by.caller.clone(),
    }
}

document! {
    /// The definition in force.
    #[derive(Debug, Serialize)]
    struct DefinitionView of spec: ScheduleSpec {
        time_zone: String = spec.time_zone.clone(),
        revision: u64 = spec.revision,
        every_seconds: Option<f64> = seconds(every(spec)),
        catch_up: &'static str = catch_up(spec).0,
        catch_up_max: Option<u32> = catch_up(spec).1,
        catch_up_window_seconds: Option<f64> = seconds(spec.catch_up_window),
        grace_seconds: Option<f64> = seconds(spec.grace),
        overlap: &'static str = if spec.overlap == Overlap::Skip { "skip" } else { "follow" },
        max_attempts: Option<u32> = Some(spec.max_attempts).filter(|most| *most > 0),
        backoff_seconds: Option<f64> = seconds(spec.backoff),
        run_timeout: &'static str = run_timeout(spec).0,
        run_timeout_seconds: Option<f64> = seconds(run_timeout(spec).1),
        stop_grace_seconds: Option<f64> = seconds(spec.stop_grace),
        progress_timeout_seconds: Option<f64> = seconds(spec.progress_timeout),
        spread_seconds: Option<f64> = seconds(spec.spread),
        takeover_check_seconds: Option<f64> = seconds(spec.takeover_check),
        lease_duration_seconds: Option<f64> = seconds(spec.lease_duration),
    }
}

document! {
    /// What its runs have decided.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub(crate) struct StateView of state: ScheduleState {
        next_at: Option<String> = moment(state.next_at),
        watermark: Option<String> = moment(state.watermark),
        watermark_outcome: Option<String> = outcome(state.watermark_outcome),
        run: Option<StartedView> = state.run.as_ref().map(StartedView::from),
        retry_at: Option<String> = moment(state.retry_at),
        missed: u64 = state.missed,
        ended: Vec<EndedView> = state.ended.iter().map(EndedView::from).collect(),
    }
}

document! {
    #[derive(Clone, Debug, PartialEq, Serialize)]
    struct StartedView of run: StartedRun {
        kind: &'static str = kind(run.kind),
        scheduled_at: Option<String> = moment(run.scheduled_at),
        request_id: Option<String> = given(&run.request_id),
        attempt: u32 = run.attempt,
        fencing_token: u64 = run.fencing_token,
        started_at: Option<String> = moment(run.started_at),
        deadline_at: Option<String> = moment(run.deadline_at),
    }
}

document! {
    #[derive(Clone, Debug, PartialEq, Serialize)]
    struct EndedView of run: EndedRun {
        kind: &'static str = kind(run.kind),
        scheduled_at: Option<String> = moment(run.scheduled_at),
        request_id: Option<String> = given(&run.request_id),
        outcome: Option<String> = outcome(run.outcome),
        attempt: u32 = run.attempt,
        fencing_token: Option<u64> = run.fencing_token,
    }
}

const fn every(spec: &ScheduleSpec) -> Option<Duration> {
    match &spec.timetable {
        Timetable::Every(every) => Some(*every),
        // A later version may know more.
        Timetable::Cron(_) | _ => None,
    }
}

const fn catch_up(spec: &ScheduleSpec) -> (&'static str, Option<u32>) {
    match spec.catch_up {
        CatchUp::None => ("none", None),
        CatchUp::All(most) => ("all", Some(most)),
        CatchUp::Latest | _ => ("latest", None),
    }
}

const fn run_timeout(spec: &ScheduleSpec) -> (&'static str, Option<Duration>) {
    match spec.run_timeout {
        RunTimeout::After(span) => ("after", Some(span)),
        RunTimeout::Unlimited => ("unlimited", None),
        RunTimeout::UntilNext | _ => ("until_next", None),
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
