//! From domain values to proto.

use super::from_proto::Preview;
use crate::coordinator::{CheckpointOutcome, LockState};
use crate::grpc::lease::run_state::{ended, occasion, state, timestamp};
use crate::grpc::lease::to_proto::{self, duration};
use crate::grpc::proto::{self, schedule_spec};
use crate::lock::{LockPath, Namespace};
use crate::schedule::{
    CatchUp, Definition, Intervention, Overlap, Plan, RunTimeout, starting, waited_for,
};
use crate::scheduler::{Completed, Completion, RunGrant, ScheduleInfo, Standby};
use crate::timetable::{UtcSecond, zone_data_version};

/// How a definition is understood.
pub(super) fn understood(definition: &Definition) -> proto::UnderstoodSchedule {
    let timetable = &definition.timetable;
    proto::UnderstoodSchedule {
        expression: timetable.canonical().to_owned(),
        time_zone: timetable.zone().to_owned(),
        description: timetable.sentence(),
        zone_data: zone_data_version().to_owned(),
        warning: timetable.warning().unwrap_or_default().to_owned(),
    }
}

pub(super) fn standby(
    standby: Standby,
    understood: Option<proto::UnderstoodSchedule>,
) -> proto::Standby {
    proto::Standby {
        next_at: standby.next_at.map(timestamp),
        last: standby.last.as_ref().map(ended),
        running_elsewhere: standby.running_elsewhere,
        paused: standby.paused,
        understood,
    }
}

pub(super) fn run(granted: RunGrant, run_id: String) -> proto::Run {
    let RunGrant { grant, told, deadline } = granted;
    let (kind, _, request_id) = occasion(&told.run_id.occasion);
    proto::Run {
        grant: Some(to_proto::grant(grant)),
        run_id,
        kind: kind.into(),
        scheduled_at: Some(timestamp(told.scheduled_at)),
        local_time: told.local_time,
        request_id,
        attempt: told.attempt,
        max_attempts: told.max_attempts,
        lateness: Some(duration(told.lateness)),
        missed_count: told.missed_count,
        deadline_at: told.deadline.map(timestamp),
        next_at: told.next_at.map(timestamp),
        previous: told.previous.as_ref().map(ended),
        deadline: deadline.map(to_proto::deadline),
    }
}

pub(super) fn definition_in_force(
    definition: &Definition,
    conflict: bool,
) -> proto::DefinitionInForce {
    let proto::UnderstoodSchedule { expression, time_zone, description, .. } =
        understood(definition);
    let revision = definition.revision;
    proto::DefinitionInForce { expression, time_zone, description, revision, conflict }
}

pub(super) fn completed(completed: Completed) -> proto::CompleteRunResponse {
    let (saved, checkpoint_version) = match completed.checkpoint {
        None => (proto::CheckpointOutcome::Unspecified, 0),
        Some(CheckpointOutcome::Saved { version }) => (proto::CheckpointOutcome::Saved, version),
        Some(CheckpointOutcome::NotSaved { .. }) => (proto::CheckpointOutcome::NotSaved, 0),
        Some(CheckpointOutcome::Unknown { .. }) => (proto::CheckpointOutcome::Unknown, 0),
    };
    proto::CompleteRunResponse {
        result: completion(completed.completion).into(),
        retry_at: completed.retry_at.map(timestamp),
        next_at: completed.next_at.map(timestamp),
        checkpoint_outcome: saved.into(),
        checkpoint_version,
    }
}

pub(super) const fn completion(completion: Completion) -> proto::CompletionResult {
    match completion {
        Completion::Recorded => proto::CompletionResult::Recorded,
        Completion::RecordedLate => proto::CompletionResult::RecordedLate,
        Completion::Superseded => proto::CompletionResult::Superseded,
    }
}

/// A schedule of its own, with the lock's record.
pub(super) fn schedule(info: ScheduleInfo, namespace: &Namespace) -> proto::Schedule {
    let record = to_proto::record(info.record.clone(), namespace);
    proto::Schedule { record: Some(record), ..listed(info, namespace) }
}

/// A schedule in a list.
pub(crate) fn listed(info: ScheduleInfo, namespace: &Namespace) -> proto::Schedule {
    let (plan, problem) = match info.plan {
        Some(Ok(plan)) => (Some(plan), String::new()),
        Some(Err(problem)) => (None, problem),
        None => {
            let problem = "the schedule's plan was deleted: subscribe to it again to continue it";
            (None, problem.to_owned())
        }
    };
    let stored = info.state.as_deref();
    let next = match &plan {
        Some(plan) => waited_for(plan, stored),
        None => stored.and_then(|state| state.next),
    };
    let in_force = plan.as_deref().filter(|plan| plan.removed().is_none());
    // T25: what was before a reset does not count, also before anything was written since.
    let counts = stored.map(|stored| match in_force {
        Some(plan) => starting(plan, Some(stored)),
        None => stored.clone(),
    });
    let has_run = counts.as_ref().is_some_and(|state| state.run.is_some());
    let is_abandoned = has_run && info.record.state == LockState::Available;
    let by_hand_done = counts.as_ref().map_or(0, |state| state.by_hand_done);
    let understood = plan.as_ref().map(|plan| understood(plan.definition())).unwrap_or_default();
    let waiting = plan.iter().flat_map(|plan| plan.requests());
    let waiting = waiting.filter(|request| request.number > by_hand_done);
    proto::Schedule {
        lock_path: info.path.to_string(),
        run_abandoned: is_abandoned,
        key: to_proto::record(info.record, namespace).key,
        spec: plan.as_ref().map(|plan| spec(plan.definition())),
        expression: understood.expression,
        description: understood.description,
        zone_data: plan.as_ref().map(|plan| plan.zone_data().to_owned()).unwrap_or_default(),
        paused: plan.as_ref().is_some_and(|plan| Plan::is_paused(plan)),
        waiting_request_ids: waiting.map(|request| request.request_id.clone()).collect(),
        state: counts.as_ref().map(state),
        record: None,
        subscribers_here: u32::try_from(info.subscribers_here).unwrap_or(u32::MAX),
        problem,
        next_at: next.map(timestamp),
        removed: plan.as_ref().and_then(|plan| plan.removed()).map(intervention),
        reset: plan.as_ref().and_then(|plan| plan.was_reset()).map(intervention),
    }
}

fn intervention(by: &Intervention) -> proto::ScheduleIntervention {
    proto::ScheduleIntervention {
        at: Some(timestamp(by.at)),
        reason: by.reason.clone(),
        caller: by.caller.clone(),
    }
}

/// A definition as it was given: subscribing with it changes nothing.
fn spec(definition: &Definition) -> proto::ScheduleSpec {
    let (catch_up, catch_up_max) = match definition.catch_up {
        CatchUp::Latest => (proto::CatchUp::Latest, 0),
        CatchUp::None => (proto::CatchUp::None, 0),
        CatchUp::All(most) => (proto::CatchUp::All, most),
    };
    let overlap = match definition.overlap {
        Overlap::Follow => proto::Overlap::Follow,
        Overlap::Skip => proto::Overlap::Skip,
    };
    let timeout = match definition.run_timeout {
        RunTimeout::NextDue => None,
        RunTimeout::None => Some(schedule_spec::Timeout::NoRunTimeout(true)),
        RunTimeout::Duration(timeout) => {
            Some(schedule_spec::Timeout::RunTimeout(duration(timeout)))
        }
    };
    let cron = definition.timetable.canonical().to_owned();
    proto::ScheduleSpec {
        timetable: Some(schedule_spec::Timetable::Cron(cron)),
        time_zone: definition.timetable.zone().to_owned(),
        revision: definition.revision,
        catch_up: catch_up.into(),
        catch_up_max,
        catch_up_window: definition.catch_up_window.map(duration),
        grace: definition.grace.map(duration),
        overlap: overlap.into(),
        max_attempts: definition.max_attempts.unwrap_or_default(),
        backoff: definition.backoff.map(duration),
        timeout,
        spread: Some(duration(definition.spread)),
        takeover_check: definition.takeover_check.map(duration),
        lease_duration: definition.lease_duration.map(duration),
        stop_grace: definition.stop_grace.map(duration),
        progress_timeout: definition.progress_timeout.map(duration),
    }
}

/// The occurrences after `now`, unless the request says after what. `path` is that of its key.
pub(super) fn preview(
    preview: &Preview,
    path: Option<&LockPath>,
    now: UtcSecond,
) -> proto::PreviewScheduleResponse {
    let definition = &preview.definition;
    let timetable = &definition.timetable;
    let after = preview.after.unwrap_or(now);
    let occurrence = |at: UtcSecond| {
        let starts_at = path.map(|path| {
            let name = path.as_str().as_bytes();
            let offset = timetable.spread_offset(name, definition.spread, at);
            UtcSecond(at.0.saturating_add_unsigned(offset.as_secs()))
        });
        proto::Occurrence {
            at: Some(timestamp(at)),
            local_time: timetable.local_time(at),
            starts_at: starts_at.map(timestamp),
        }
    };
    let occurrences = timetable.occurrences_after(after).take(preview.count);
    proto::PreviewScheduleResponse {
        understood: Some(understood(definition)),
        occurrences: occurrences.map(occurrence).collect(),
    }
}
