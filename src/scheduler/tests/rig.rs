//! Subscribers that run what they are given.

use std::time::Duration;

use crate::coordinator::tests::rig::{LEASE, Sidecar, by_key, key};
use crate::coordinator::{HeldEvent, ResumeRequest};
use crate::record::Labels;
use crate::schedule::{Definition, Report, RunId, ScheduleRecord, Spec};
use crate::scheduler::{
    CompleteRequest, Completed, ResumeRun, RunGrant, ScheduleEvent, ScheduleStream, Standby,
    SubscribeRequest,
};
use crate::timetable::{Timetable, UtcSecond};

/// The store's time when each test begins.
pub(super) const START: UtcSecond = UtcSecond(1_800_000_000);

pub(super) fn at(seconds: i64) -> UtcSecond {
    UtcSecond(START.0 + seconds)
}

pub(super) fn spec(expression: &str) -> Spec {
    let timetable = Timetable::parse(expression, "UTC").unwrap();
    Spec { lease_duration: Some(LEASE), ..Spec::new(timetable) }
}

pub(super) fn subscription(spec: Spec) -> SubscribeRequest {
    SubscribeRequest {
        key: key("nightly"),
        definition: Definition::new(spec).unwrap(),
        is_new: true,
        holder: None,
        labels: Labels::default(),
        runs_at_once: false,
        resume: None,
    }
}

/// Each minute, on the terms of those who say nothing else.
pub(super) fn minutely(sidecar: &Sidecar) -> ScheduleStream {
    subscribe(sidecar, spec("@every 60s"))
}

pub(super) fn subscribe(sidecar: &Sidecar, spec: Spec) -> ScheduleStream {
    sidecar.scheduler.subscribe(subscription(spec)).unwrap()
}

pub(super) fn resume(spec: Spec, run: &RunGrant) -> SubscribeRequest {
    let hold = ResumeRequest {
        resume_token: run.grant.resume_token.clone(),
        attempt_id: "again".to_owned(),
        told_valid_until: Some(run.grant.validity.valid_until.clone()),
        trace_context: None,
    };
    let resume = Some(ResumeRun { hold, run_id: run.told.run_id.clone() });
    SubscribeRequest { resume, is_new: false, ..subscription(spec) }
}

pub(super) async fn next(stream: &mut ScheduleStream) -> ScheduleEvent {
    stream.next().await.expect("the stream goes on")
}

/// The next run, after what is told to who waits.
pub(super) async fn run(stream: &mut ScheduleStream) -> RunGrant {
    loop {
        match next(stream).await {
            ScheduleEvent::Run(run) => return *run,
            ScheduleEvent::Standby(_)
            | ScheduleEvent::Recorded { .. }
            | ScheduleEvent::Held(HeldEvent::Renewed(_))
            | ScheduleEvent::DefinitionInForce { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The next run within this time, if there is one.
pub(super) async fn run_within(stream: &mut ScheduleStream, span: Duration) -> Option<RunGrant> {
    tokio::time::timeout(span, run(stream)).await.ok()
}

pub(super) async fn standby(stream: &mut ScheduleStream) -> Standby {
    match next(stream).await {
        ScheduleEvent::Standby(standby) => *standby,
        other => panic!("{other:?}"),
    }
}

/// The first event that is neither a renewal nor told to who waits.
pub(super) async fn news(stream: &mut ScheduleStream) -> ScheduleEvent {
    loop {
        match next(stream).await {
            ScheduleEvent::Held(HeldEvent::Renewed(_)) | ScheduleEvent::Standby(_) => {}
            other => return other,
        }
    }
}

pub(super) fn completion(run: &RunGrant, report: Report) -> CompleteRequest {
    CompleteRequest {
        lease_id: Some(run.grant.lease_id),
        run_id: run.told.run_id.clone(),
        report,
        detail: String::new(),
        generation: Some(run.grant.generation),
        checkpoint: None,
    }
}

pub(super) fn late(run_id: &RunId, report: Report) -> CompleteRequest {
    CompleteRequest {
        lease_id: None,
        run_id: run_id.clone(),
        report,
        detail: String::new(),
        generation: None,
        checkpoint: None,
    }
}

pub(super) async fn complete(sidecar: &Sidecar, run: &RunGrant, report: Report) -> Completed {
    sidecar.scheduler.complete_run(completion(run, report)).await.unwrap()
}

/// What the store says of the schedule.
pub(super) async fn state(sidecar: &Sidecar) -> ScheduleRecord {
    *sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap().state.unwrap()
}
