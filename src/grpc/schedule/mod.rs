//! ScheduleService: each rpc in through `from_proto` and `spec`, to the scheduler, out through `to_proto` and
//! `events`. How to add one is in the head of `grpc/mod.rs`.

mod events;
mod from_proto;
mod run_name;
mod spec;
#[cfg(test)]
mod tests;
mod to_proto;

use tonic::{Request, Response, Status};

use self::events::ScheduleEvents;
use self::run_name::RunKey;
use crate::access::Right;
use crate::coordinator::{CallError, LockRecord, LockSelector};
use crate::grpc::auth::caller::Caller;
use crate::grpc::proto::schedule_service_server::ScheduleService;
use crate::grpc::proto::{
    CompleteRunRequest, CompleteRunResponse, GetScheduleRequest, GetScheduleResponse,
    ListSchedulesRequest, ListSchedulesResponse, PauseScheduleRequest, PauseScheduleResponse,
    PreviewScheduleRequest, PreviewScheduleResponse, RemoveScheduleRequest, RemoveScheduleResponse,
    ResetScheduleRequest, ResetScheduleResponse, ResumeScheduleRequest, ResumeScheduleResponse,
    Schedule, SubscribeScheduleRequest, TriggerScheduleRequest, TriggerScheduleResponse,
};
use crate::grpc::service::{Reply, Service, answered};
use crate::grpc::status;
use crate::lock::LockPath;
use crate::scheduler::{ScheduleChange, SubscribeRequest};

pub(crate) use to_proto::listed;

impl Service {
    /// In the layout that is shared with WebJobs, the store must be one that their hosts can share too (T22).
    fn with_schedules(&self) -> Result<(), Status> {
        if self.has_schedules() {
            return Ok(());
        }
        let layout = self.namespace().layout.as_str();
        Err(status::unsupported(&format!(
            "schedules are not available in the layout `{layout}` with the store {}, which no host of .NET can share: use a \
             storage account, or paths.layout = \"readable\" or \"hashed\"",
            self.limits.store
        )))
    }

    /// A resumed run is one of the lock that the request names.
    fn check_resumed(&self, caller: &Caller, request: &SubscribeRequest) -> Result<(), Status> {
        let Some(resume) = &request.resume else { return Ok(()) };
        let path = answered(self.coordinator.host().resolve(&request.key))?.path;
        let problem = |field: &str, of: &str| {
            let problem = format!("is of the lock {of}, and key is of {path}");
            status::of_violations(&[(field, problem)])
        };
        if resume.run_id.path != path {
            return Err(problem("run_id", resume.run_id.path.as_str()));
        }
        let resumed = answered(self.coordinator.resumed(&resume.hold))?.path;
        if resumed != path {
            return Err(problem("resume.resume_token", resumed.as_str()));
        }
        self.permit_resume(caller, &resume.hold)
    }

    /// The run id is not signed, and its path may hide the function: then the key beside it says which one
    /// that is.
    fn permit_completion(
        &self,
        caller: &Caller,
        path: &LockPath,
        key: Option<&RunKey>,
    ) -> Result<(), Status> {
        let own = &self.coordinator.host().host_type;
        let target = key.map(|key| key.target(path, self.namespace(), own));
        if matches!(target, Some(None)) {
            let problem = "names another lock than its key".to_owned();
            return Err(status::of_violations(&[("run_id", problem)]));
        }
        self.permit_run(caller, path, target.flatten().as_ref())
    }

    /// T18: what an operator says, as `read` reads it. The answer is empty for a caller that may not read the
    /// schedule.
    async fn change<Asked>(
        &self,
        request: Request<Asked>,
        read: impl FnOnce(Asked) -> Result<(LockSelector, ScheduleChange), Status>,
    ) -> Result<Option<Schedule>, Status> {
        self.with_schedules()?;
        let caller = Caller::of(&request)?;
        let (lock, change) = read(request.into_inner())?;
        self.permit_selected(&caller, Right::Schedule, &lock)?;
        let changed = self.scheduler.change_schedule(&lock, change, &caller.with_address()).await;
        let info = answered(changed)?;
        let shown = self.may_read(&caller, &lock);
        Ok(shown.then(|| to_proto::schedule(info, self.namespace())))
    }
}

#[tonic::async_trait]
impl ScheduleService for Service {
    type SubscribeScheduleStream = ScheduleEvents;

    async fn subscribe_schedule(
        &self,
        request: Request<SubscribeScheduleRequest>,
    ) -> Reply<ScheduleEvents> {
        self.with_schedules()?;
        let (life_line, caller) = (self.life_line(&request), Caller::of(&request)?);
        let request = request.into_inner();
        self.check_needs(request.needs)?;
        let request = from_proto::subscribe(request)?;
        self.permit_key(&caller, Right::Acquire, &request.key)?;
        self.check_resumed(&caller, &request)?;
        let definition = request.definition.clone();
        let target = answered(self.coordinator.host().resolve(&request.key))?;
        let key = RunKey::of(&target, self.namespace());
        let stream = answered(self.scheduler.subscribe(request))?;
        Ok(Response::new(ScheduleEvents::new(stream, life_line, &definition, key)))
    }

    async fn complete_run(
        &self,
        request: Request<CompleteRunRequest>,
    ) -> Reply<CompleteRunResponse> {
        self.with_schedules()?;
        let caller = Caller::of(&request)?;
        let (request, key) = from_proto::complete(request.into_inner())?;
        self.permit_completion(&caller, &request.run_id.path, key.as_ref())?;
        let completed = self.scheduler.complete_run(request).await;
        if let Err(error @ CallError::ForeignPath { .. }) = &completed {
            return Err(status::of_violations(&[("run_id", error.to_string())]));
        }
        Ok(Response::new(to_proto::completed(answered(completed)?)))
    }

    async fn get_schedule(
        &self,
        request: Request<GetScheduleRequest>,
    ) -> Reply<GetScheduleResponse> {
        self.with_schedules()?;
        let caller = Caller::of(&request)?;
        let lock = from_proto::selector(request.into_inner().lock)?;
        self.permit_selected(&caller, Right::Read, &lock)?;
        let info = answered(self.scheduler.schedule(&lock).await)?;
        let schedule = Some(to_proto::schedule(info, self.namespace()));
        Ok(Response::new(GetScheduleResponse { schedule }))
    }

    async fn list_schedules(
        &self,
        request: Request<ListSchedulesRequest>,
    ) -> Reply<ListSchedulesResponse> {
        self.with_schedules()?;
        let caller = Caller::of(&request)?;
        let request = from_proto::list(request.into_inner())?;
        self.permit_list(&caller, &request.under)?;
        let visible = |record: &LockRecord| self.may_see(&caller, record);
        let page = answered(self.scheduler.list_schedules(request, visible).await)?;
        let schedules = page.schedules.into_iter();
        Ok(Response::new(ListSchedulesResponse {
            schedules: schedules.map(|info| listed(info, self.namespace())).collect(),
            next_page_token: page.next_page_token.unwrap_or_default(),
        }))
    }

    async fn preview_schedule(
        &self,
        request: Request<PreviewScheduleRequest>,
    ) -> Reply<PreviewScheduleResponse> {
        // Says nothing of any lock: whoever is let in may ask.
        Caller::of(&request)?;
        let request = request.into_inner();
        self.check_needs(request.needs)?;
        let preview = from_proto::preview(request)?;
        let target = preview.key.as_ref().map(|key| self.coordinator.host().resolve(key));
        let path = answered(target.transpose())?.map(|target| target.path);
        let now = self.coordinator.clock().wall().into();
        Ok(Response::new(to_proto::preview(&preview, path.as_ref(), now)))
    }

    async fn pause_schedule(
        &self,
        request: Request<PauseScheduleRequest>,
    ) -> Reply<PauseScheduleResponse> {
        let read = |asked: PauseScheduleRequest| {
            Ok((from_proto::selector(asked.lock)?, ScheduleChange::Pause))
        };
        let schedule = self.change(request, read).await?;
        Ok(Response::new(PauseScheduleResponse { schedule }))
    }

    async fn resume_schedule(
        &self,
        request: Request<ResumeScheduleRequest>,
    ) -> Reply<ResumeScheduleResponse> {
        let read = |asked: ResumeScheduleRequest| {
            Ok((from_proto::selector(asked.lock)?, ScheduleChange::Resume))
        };
        let schedule = self.change(request, read).await?;
        Ok(Response::new(ResumeScheduleResponse { schedule }))
    }

    async fn trigger_schedule(
        &self,
        request: Request<TriggerScheduleRequest>,
    ) -> Reply<TriggerScheduleResponse> {
        let schedule = self.change(request, from_proto::trigger).await?;
        Ok(Response::new(TriggerScheduleResponse { schedule }))
    }

    async fn remove_schedule(
        &self,
        request: Request<RemoveScheduleRequest>,
    ) -> Reply<RemoveScheduleResponse> {
        let schedule = self.change(request, from_proto::remove).await?;
        Ok(Response::new(RemoveScheduleResponse { schedule }))
    }

    async fn reset_schedule(
        &self,
        request: Request<ResetScheduleRequest>,
    ) -> Reply<ResetScheduleResponse> {
        let schedule = self.change(request, from_proto::reset).await?;
        Ok(Response::new(ResetScheduleResponse { schedule }))
    }
}
