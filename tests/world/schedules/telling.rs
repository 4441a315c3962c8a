//! What runners are told and answered, held against what is stored (T2, T6, T8).

use std::time::Duration;

use leasehold::coordinator::{CallError, Extended, HeldEvent, LossReason};
use leasehold::schedule::{Occasion, Outcome, Report, RunId};
use leasehold::scheduler::{Completed, Completion, RunGrant, ScheduleEvent};

use super::judge::RunKey;
use crate::world::hand_over::TICK;
use crate::world::shared::{State, World};
use crate::world::sidecar::Sidecar;

/// The runs of a stream.
#[derive(Clone, Copy)]
pub(super) struct Runs<'a> {
    /// The one that it goes on with.
    pub(super) resumes: Option<&'a RunId>,
    /// The one that it was told last.
    pub(super) last: Option<&'a RunId>,
}

/// A stream is told this, before it is on its way.
pub(super) fn told(world: &World, sidecar: &Sidecar, runs: Runs<'_>, event: &ScheduleEvent) {
    let Runs { resumes, last } = runs;
    let now = world.now();
    let mut state = world.state();
    let state = &mut *state;
    let text = shortly(event);
    state.story.note(now, || format!("  {}   tells a subscriber {text}", sidecar.index));
    let name = text.split(':').next().unwrap_or_default();
    state.schedules.count(&format!("told {name}"));
    if let ScheduleEvent::Failed(CallError::ScheduleRemoved { .. }) = event {
        state.schedules.count("told removed");
    }
    if let ScheduleEvent::Held(HeldEvent::Lost { reason: LossReason::NoProgress, .. }) = event
        && let Some(run_id) = last.or(resumes)
        && is_told_here(state, run_id, (sidecar.index, sidecar.life))
        && let Some(what) = lost_without_progress(state, run_id, now)
    {
        state.fail(what, now);
    }
    let ScheduleEvent::Run(run) = event else { return };
    let goes_on = resumes == Some(&run.told.run_id);
    if goes_on {
        state.schedules.count("resumed");
    }
    let id = &run.told.run_id;
    let key: RunKey = (id.occasion.clone(), id.token.value());
    let seen = state.schedules.seen(id.path.as_str());
    seen.told_by.insert(key, (sidecar.index, sidecar.life));
    if let Occasion::Scheduled(at) = id.occasion
        && state.schedules.seen(id.path.as_str()).is_first(at)
    {
        state.schedules.count("told run at once");
    }
    if let Some(timeout) = run.told.progress_timeout.filter(|_| !goes_on) {
        let key = (id.path.clone(), id.token.value());
        state.checks.progress.insert(key, (timeout, now));
    }
    let wrong = told_run(state, run, goes_on).or_else(|| {
        let path = &run.grant.path;
        let made = state.service.blob(path.as_str()).map(|blob| blob.made);
        let granted = || state.checks.granted(path, run.grant.token.value(), (now, made));
        (!goes_on).then(granted).flatten()
    });
    if let Some(what) = wrong {
        state.fail(what, now);
    }
}

/// Whether the run has not gone on at another sidecar since: its reports of progress go there (S16).
fn is_told_here(state: &mut State, id: &RunId, place: (usize, u32)) -> bool {
    let key: RunKey = (id.occasion.clone(), id.token.value());
    state.schedules.seen(id.path.as_str()).told_by.get(&key) == Some(&place)
}

/// S11: a run is lost so only if no report of progress came for as long as its schedule says.
fn lost_without_progress(state: &State, id: &RunId, now: Duration) -> Option<String> {
    let key = (id.path.clone(), id.token.value());
    let progress = state.checks.progress.get(&key);
    let is_early = progress
        .is_none_or(|(timeout, reported)| now + TICK + *timeout / 100 < *reported + *timeout);
    is_early.then(|| format!("S11: {id:?} is lost for want of progress: {progress:?}"))
}

fn told_run(state: &mut State, run: &RunGrant, goes_on: bool) -> Option<String> {
    let id = &run.told.run_id;
    if id.token != run.grant.token || id.attempt != run.told.attempt {
        return Some(format!("T8: {id:?} is told with {}", run.grant.token));
    }
    let seen = state.schedules.seen(id.path.as_str());
    let key: RunKey = (id.occasion.clone(), id.token.value());
    match seen.runs.get(&key) {
        None => Some(format!("T6: {id:?} is told, and was never written")),
        Some(written) if written.attempt != id.attempt => {
            Some(format!("T6: {id:?} is told, and {} was written", written.attempt))
        }
        Some(_) if goes_on => None,
        Some(_) => {
            let by = seen.is_final.get(&id.occasion).filter(|by| **by != id.token.value());
            by.map(|by| format!("T2: {id:?} is told, and is final by {by}"))
        }
    }
}

/// A call that completes a run is answered, before the answer is on its way.
pub(super) fn answered(
    world: &World,
    id: &RunId,
    report: Report,
    answer: &Result<Completed, CallError>,
) {
    let now = world.now();
    let mut state = world.state();
    let state = &mut *state;
    state.story.note(now, || {
        format!("      {} of {}: {report:?} answered {answer:?}", id.occasion, id.token)
    });
    let Ok(completed) = answer else { return state.schedules.count("completion refused") };
    let made = state.service.blob(id.path.as_str()).map(|blob| blob.made);
    let seen = state.schedules.seen(id.path.as_str());
    // Who finds the lock deleted knows of no run (T2).
    let was_lost = seen.was_lost || seen.made != made;
    let written = seen.runs.get(&(id.occasion.clone(), id.token.value()));
    let stored = written.and_then(|written| written.ended);
    let is_stored = stored == Some(Outcome::from(report));
    let wrong = match completed.completion {
        Completion::Recorded | Completion::RecordedLate => !is_stored,
        Completion::Superseded => is_stored && !was_lost,
    };
    let name = match completed.completion {
        Completion::Recorded => "recorded",
        Completion::RecordedLate => "recorded late",
        Completion::Superseded => "superseded",
    };
    state.schedules.count(name);
    if wrong {
        let what = format!("T8: {id:?} {report:?} is told {name}, and {stored:?} is stored");
        state.fail(what, now);
    }
}

/// What an event says, shortly.
fn shortly(event: &ScheduleEvent) -> String {
    match event {
        ScheduleEvent::Standby(standby) => format!("standby: {standby:?}"),
        ScheduleEvent::Run(run) => {
            let id = &run.told.run_id;
            format!("run: {} as {} of {}", id.occasion, id.attempt, id.token)
        }
        ScheduleEvent::Held(
            HeldEvent::Renewed(validity) | HeldEvent::Extended(Extended { validity, .. }),
        ) => {
            format!("renewed: {:?}", validity.valid_for)
        }
        ScheduleEvent::Held(HeldEvent::AtRisk { detail, .. }) => format!("at risk: {detail}"),
        ScheduleEvent::Held(HeldEvent::Recovered(_)) => "recovered".to_owned(),
        ScheduleEvent::Held(HeldEvent::Revoked { .. }) => "revoked".to_owned(),
        ScheduleEvent::Held(HeldEvent::Lost { reason, detail, .. }) => {
            format!("lost {}: {detail}", reason.as_str())
        }
        ScheduleEvent::Recorded { run_id, report, completion } => {
            format!("what became of it: {} {report:?} {completion:?}", run_id.occasion)
        }
        ScheduleEvent::DefinitionInForce { conflict, .. } => format!("definition: {conflict}"),
        ScheduleEvent::Held(HeldEvent::Draining { .. }) => "draining".to_owned(),
        ScheduleEvent::Failed(error) => format!("failed: {error}"),
    }
}
