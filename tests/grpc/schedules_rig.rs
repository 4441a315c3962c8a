//! Subscribers and operators of schedules.

use leasehold::grpc;
use leasehold_client::proto::schedule_service_client::ScheduleServiceClient;
use leasehold_client::proto::{
    CompleteRunRequest, CompleteRunResponse, GetScheduleRequest, Run, RunOutcome, Schedule,
    ScheduleSpec, Standby, SubscribeScheduleRequest, SubscribeScheduleResponse,
    TriggerScheduleRequest, schedule_spec::Timetable, subscribe_schedule_response,
};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::grpc::rig::{LIMITS, Sidecar, by_key, key};

pub(crate) type Schedules = ScheduleServiceClient<Channel>;
pub(crate) type Stream = Streaming<SubscribeScheduleResponse>;
pub(crate) type Event = subscribe_schedule_response::Event;

/// The schedules of a sidecar, inside the process.
pub(crate) fn schedules<S>(sidecar: &Sidecar<S>) -> Schedules {
    Schedules::new(grpc::in_process(sidecar.scheduler.clone(), LIMITS))
}

pub(crate) fn spec(cron: &str) -> ScheduleSpec {
    let timetable = Some(Timetable::Cron(cron.to_owned()));
    ScheduleSpec { timetable, ..ScheduleSpec::default() }
}

/// A subscription to the schedule `nightly`.
pub(crate) fn subscription(cron: &str) -> SubscribeScheduleRequest {
    SubscribeScheduleRequest {
        key: Some(key("nightly")),
        spec: Some(spec(cron)),
        ..SubscribeScheduleRequest::default()
    }
}

pub(crate) async fn subscribe(client: &Schedules, request: SubscribeScheduleRequest) -> Stream {
    client.clone().subscribe_schedule(request).await.unwrap().into_inner()
}

/// The next event, or how the stream ended.
pub(crate) async fn event(stream: &mut Stream) -> Result<Event, Status> {
    let message = stream.message().await?.expect("the stream says how it ends");
    Ok(message.event.expect("an event is always set"))
}

pub(crate) async fn standby(stream: &mut Stream) -> Standby {
    match event(stream).await.unwrap() {
        Event::Standby(standby) => standby,
        other => panic!("{other:?}"),
    }
}

/// The next event that is not one of those that are repeated.
pub(crate) async fn news(stream: &mut Stream) -> Result<Event, Status> {
    loop {
        match event(stream).await? {
            Event::Standby(_) | Event::Renewed(_) => {}
            other => return Ok(other),
        }
    }
}

pub(crate) async fn run(stream: &mut Stream) -> Run {
    match news(stream).await.unwrap() {
        Event::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn completion(run: &Run, outcome: RunOutcome) -> CompleteRunRequest {
    let grant = run.grant.clone().unwrap();
    CompleteRunRequest {
        lease_id: grant.lease_id,
        run_id: run.run_id.clone(),
        outcome: outcome.into(),
        generation: grant.generation,
        ..CompleteRunRequest::default()
    }
}

pub(crate) async fn complete(
    client: &Schedules,
    run: &Run,
    outcome: RunOutcome,
) -> CompleteRunResponse {
    client.clone().complete_run(completion(run, outcome)).await.unwrap().into_inner()
}

pub(crate) fn trigger(request_id: &str) -> TriggerScheduleRequest {
    TriggerScheduleRequest { lock: by_key("nightly"), request_id: request_id.to_owned() }
}

pub(crate) async fn shown(client: &Schedules) -> Schedule {
    let request = GetScheduleRequest { lock: by_key("nightly") };
    client.clone().get_schedule(request).await.unwrap().into_inner().schedule.unwrap()
}
