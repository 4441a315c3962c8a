//! The fake sidecar's calls about schedules.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::numbered::number_of;
use super::{Script, SubscribeCall};
use crate::proto::schedule_service_server::ScheduleService;
use crate::proto::*;

pub(in crate::fake) struct Schedules {
    pub(super) script: Arc<Mutex<Script>>,
    pub(super) subscribers: mpsc::UnboundedSender<SubscribeCall>,
}

impl Schedules {
    fn note(&self, what: impl Into<String>) {
        self.script.lock().unwrap().asked.push(what.into());
    }
}

type Answer<T> = Result<Response<T>, Status>;

/// A schedule that says in its path what was asked for.
fn schedule(lock: Option<LockSelector>) -> Option<Schedule> {
    let lock_path = match lock?.lock? {
        lock_selector::Lock::LockPath(lock_path) => lock_path,
        lock_selector::Lock::Key(key) => format!("{}/{}", key.function, key.scope),
    };
    Some(Schedule { lock_path, ..Schedule::default() })
}

#[tonic::async_trait]
impl ScheduleService for Schedules {
    type SubscribeScheduleStream = ReceiverStream<Result<SubscribeScheduleResponse, Status>>;

    async fn subscribe_schedule(
        &self,
        request: Request<SubscribeScheduleRequest>,
    ) -> Answer<Self::SubscribeScheduleStream> {
        let (events, stream) = mpsc::channel(8);
        let (connection, request) = (number_of(&request), request.into_inner());
        let _gone = self.subscribers.send(SubscribeCall { request, connection, events });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn complete_run(
        &self,
        request: Request<CompleteRunRequest>,
    ) -> Answer<CompleteRunResponse> {
        self.script.lock().unwrap().connections.push(number_of(&request));
        let request = request.into_inner();
        let outcome = request.outcome().as_str_name().trim_start_matches("RUN_OUTCOME_");
        self.note(format!(
            "complete {} of {:?} generation {}: {outcome} {:?}",
            request.run_id, request.lease_id, request.generation, request.detail
        ));
        let scripted = self.script.lock().unwrap().completions.pop();
        let result = scripted.unwrap_or(Ok(CompletionResult::Recorded))?.into();
        let saved = request.checkpoint.is_some();
        let outcome = if saved { CheckpointOutcome::Saved } else { CheckpointOutcome::Unspecified };
        Ok(Response::new(CompleteRunResponse {
            result,
            next_at: Some(prost_types::Timestamp { seconds: 2_000, nanos: 0 }),
            checkpoint_outcome: outcome.into(),
            checkpoint_version: if saved { 5 } else { 0 },
            ..CompleteRunResponse::default()
        }))
    }

    async fn get_schedule(
        &self,
        request: Request<GetScheduleRequest>,
    ) -> Answer<GetScheduleResponse> {
        Ok(Response::new(GetScheduleResponse { schedule: schedule(request.into_inner().lock) }))
    }

    async fn list_schedules(
        &self,
        request: Request<ListSchedulesRequest>,
    ) -> Answer<ListSchedulesResponse> {
        let request = request.into_inner();
        self.note(format!("list {:?} by {}", request.under, request.page_size));
        let schedules = vec![Schedule { lock_path: "a".to_owned(), ..Schedule::default() }];
        let next_page_token = request.page_token;
        Ok(Response::new(ListSchedulesResponse { schedules, next_page_token }))
    }

    async fn preview_schedule(
        &self,
        request: Request<PreviewScheduleRequest>,
    ) -> Answer<PreviewScheduleResponse> {
        let request = request.into_inner();
        assert_eq!(request.needs, 1, "S37");
        let at = request.after;
        let occurrence = Occurrence { at, local_time: "02:30".to_owned(), starts_at: None };
        Ok(Response::new(PreviewScheduleResponse {
            understood: understood(),
            occurrences: vec![occurrence; request.count as usize],
        }))
    }

    async fn pause_schedule(
        &self,
        request: Request<PauseScheduleRequest>,
    ) -> Answer<PauseScheduleResponse> {
        let schedule = schedule(request.into_inner().lock);
        let schedule = schedule.map(|schedule| Schedule { paused: true, ..schedule });
        Ok(Response::new(PauseScheduleResponse { schedule }))
    }

    async fn resume_schedule(
        &self,
        request: Request<ResumeScheduleRequest>,
    ) -> Answer<ResumeScheduleResponse> {
        Ok(Response::new(ResumeScheduleResponse { schedule: schedule(request.into_inner().lock) }))
    }

    async fn remove_schedule(
        &self,
        request: Request<RemoveScheduleRequest>,
    ) -> Answer<RemoveScheduleResponse> {
        let request = request.into_inner();
        self.note(format!("remove because {:?}, force {}", request.reason, request.force));
        Ok(Response::new(RemoveScheduleResponse { schedule: schedule(request.lock) }))
    }

    async fn reset_schedule(
        &self,
        request: Request<ResetScheduleRequest>,
    ) -> Answer<ResetScheduleResponse> {
        let request = request.into_inner();
        let (watermark, revision) = (request.watermark.map(|at| at.seconds), request.revision);
        let reason = request.reason;
        self.note(format!("reset because {reason:?} to {watermark:?} at {revision:?}"));
        Ok(Response::new(ResetScheduleResponse { schedule: schedule(request.lock) }))
    }

    async fn trigger_schedule(
        &self,
        request: Request<TriggerScheduleRequest>,
    ) -> Answer<TriggerScheduleResponse> {
        let request = request.into_inner();
        let waiting_request_ids = vec![request.request_id];
        let schedule = schedule(request.lock);
        let schedule = schedule.map(|schedule| Schedule { waiting_request_ids, ..schedule });
        Ok(Response::new(TriggerScheduleResponse { schedule }))
    }
}

/// What a sidecar says that it has understood.
pub(crate) fn understood() -> Option<UnderstoodSchedule> {
    Some(UnderstoodSchedule {
        expression: "30 2 * * *".to_owned(),
        time_zone: "Europe/Copenhagen".to_owned(),
        description: "every day at 02:30, Europe/Copenhagen".to_owned(),
        zone_data: "2026b".to_owned(),
        warning: String::new(),
    })
}
