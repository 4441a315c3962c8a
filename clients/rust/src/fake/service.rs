//! The fake sidecar's calls.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::numbered::number_of;
use super::{HoldCall, OURS, Script, Scripted, validity};
use crate::proto::lease_service_server::LeaseService;
use crate::proto::*;

pub(super) struct Service {
    pub(super) script: Arc<Mutex<Script>>,
    pub(super) calls: mpsc::UnboundedSender<HoldCall>,
}

impl Service {
    fn note(&self, what: impl Into<String>) {
        self.script.lock().unwrap().asked.push(what.into());
    }

    fn scripted(&self) -> Option<Arc<Scripted>> {
        self.script.lock().unwrap().scripted.clone()
    }

    fn reported(&self) -> Result<Validity, Status> {
        let script = self.script.lock().unwrap().report.clone();
        script.unwrap_or_else(|| Err(Status::unavailable("not now")))
    }
}

type Answer<T> = Result<Response<T>, Status>;
type Stream<T> = Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;
type Records = Stream<WatchLockResponse>;
type ManyRecords = Stream<WatchLocksResponse>;

fn record(lock: Option<LockSelector>) -> Option<LockRecord> {
    match lock?.lock? {
        lock_selector::Lock::LockPath(lock_path) => {
            Some(LockRecord { lock_path, ..LockRecord::default() })
        }
        lock_selector::Lock::Key(key) => Some(LockRecord {
            lock_path: format!("{}/{}", key.function, key.scope),
            ..LockRecord::default()
        }),
    }
}

#[tonic::async_trait]
impl LeaseService for Service {
    type HoldLeaseStream = ReceiverStream<Result<HoldLeaseResponse, Status>>;
    type WatchLockStream = Records;
    type WatchLocksStream = ManyRecords;

    async fn hold_lease(
        &self,
        request: Request<HoldLeaseRequest>,
    ) -> Answer<Self::HoldLeaseStream> {
        let (events, stream) = mpsc::channel(8);
        let parent = request.metadata().get("traceparent");
        let traceparent = parent.map_or("", |value| value.to_str().unwrap()).to_owned();
        let connection = number_of(&request);
        let request = request.into_inner();
        assert_eq!(request.needs, 1, "S37");
        let start = request.start.unwrap();
        if let Some(scripted) = self.scripted() {
            scripted.opened(&start);
        }
        let _gone = self.calls.send(HoldCall { start, traceparent, connection, events });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn acquire_lease(
        &self,
        request: Request<AcquireLeaseRequest>,
    ) -> Answer<AcquireLeaseResponse> {
        let of_caller = ["authorization", "leasehold-boot-id", "of-a-test"].map(|name| {
            let value = request.metadata().get(name);
            value.map_or("none", |value| value.to_str().unwrap()).to_owned()
        });
        self.note(format!("acquire {}", of_caller.join(" ")));
        assert_eq!(request.get_ref().needs, 1, "S37");
        let mut script = self.script.lock().unwrap();
        script.connections.push(number_of(&request));
        if let Some(refused) = script.refused.pop() {
            return Err(refused);
        }
        let outcome = script.acquire.clone();
        Ok(Response::new(AcquireLeaseResponse { outcome }))
    }

    async fn release_lease(
        &self,
        request: Request<ReleaseLeaseRequest>,
    ) -> Answer<ReleaseLeaseResponse> {
        self.script.lock().unwrap().connections.push(number_of(&request));
        let request = request.into_inner();
        if let Some(scripted) = self.scripted() {
            return scripted.released(&request).await;
        }
        let saving = request.checkpoint.as_deref().map(String::from_utf8_lossy);
        let saving = saving.map(|value| format!(" saving {value:?}")).unwrap_or_default();
        let outcome = Some(request.outcome()).filter(|it| *it != RunOutcome::Unspecified);
        let outcome = outcome.map(|outcome| format!(" as {}", outcome.as_str_name()));
        let outcome = outcome.unwrap_or_default();
        let (lease_id, generation) = (request.lease_id, request.generation);
        self.note(format!("release {lease_id} of generation {generation}{saving}{outcome}"));
        if self.script.lock().unwrap().hang_release {
            return std::future::pending().await;
        }
        let script = self.script.lock().unwrap();
        if let Some(hook) = &script.on_release {
            hook();
        }
        let released =
            ReleaseResult { outcome: ReleaseOutcome::Released.into(), ..ReleaseResult::default() };
        let result = Some(script.release.clone().unwrap_or(released));
        Ok(Response::new(ReleaseLeaseResponse { result }))
    }

    async fn extend_lease(
        &self,
        request: Request<ExtendLeaseRequest>,
    ) -> Answer<ExtendLeaseResponse> {
        let request = request.into_inner();
        if let Some(scripted) = self.scripted() {
            return scripted.extended(&request).await;
        }
        self.note(format!("extend {} of generation {}", request.lease_id, request.generation));
        Ok(Response::new(ExtendLeaseResponse {
            resume_token: "resume-extended".to_owned(),
            validity: Some(validity(OURS, 1_090, 90)),
            ..ExtendLeaseResponse::default()
        }))
    }

    async fn report_progress(
        &self,
        request: Request<ReportProgressRequest>,
    ) -> Answer<ReportProgressResponse> {
        let generation = request.into_inner().generation;
        if let Some(scripted) = self.scripted() {
            return scripted.call("report_progress", generation.to_string()).await;
        }
        self.note(format!("report of generation {generation}"));
        let validity = Some(self.reported()?);
        Ok(Response::new(ReportProgressResponse { validity }))
    }

    async fn get_hold(&self, request: Request<GetHoldRequest>) -> Answer<GetHoldResponse> {
        let generation = request.into_inner().generation;
        if let Some(scripted) = self.scripted() {
            return scripted.call("get_hold", generation.to_string()).await;
        }
        self.note(format!("get hold of generation {generation}"));
        let validity = Some(self.reported()?);
        let held = self.script.lock().unwrap().held.clone();
        Ok(Response::new(GetHoldResponse { validity, ..held }))
    }

    async fn save_checkpoint(
        &self,
        request: Request<SaveCheckpointRequest>,
    ) -> Answer<SaveCheckpointResponse> {
        let SaveCheckpointRequest { lease_id, generation, value } = request.into_inner();
        let value = String::from_utf8_lossy(&value);
        if let Some(scripted) = self.scripted() {
            return scripted.call("save_checkpoint", format!("{generation} {value}")).await;
        }
        self.note(format!("save {value:?} of {lease_id}, generation {generation}"));
        let script = self.script.lock().unwrap().save.clone();
        script.unwrap_or_else(|| Err(Status::unavailable("not now"))).map(Response::new)
    }

    async fn get_lock(&self, request: Request<GetLockRequest>) -> Answer<GetLockResponse> {
        let request = request.into_inner();
        let checkpoint = self.script.lock().unwrap().checkpoint.clone();
        let checkpoint = checkpoint.filter(|_| request.with_checkpoint);
        let record = record(request.lock).map(|record| LockRecord { checkpoint, ..record });
        Ok(Response::new(GetLockResponse { record }))
    }

    async fn list_locks(&self, request: Request<ListLocksRequest>) -> Answer<ListLocksResponse> {
        let request = request.into_inner();
        self.script.lock().unwrap().asked.push(format!("list share {}", request.share));
        let next_page_token = request.page_token;
        Ok(Response::new(ListLocksResponse { records: Vec::new(), next_page_token }))
    }

    async fn watch_lock(&self, request: Request<WatchLockRequest>) -> Answer<Records> {
        let record = record(request.into_inner().lock);
        let script = self.script.lock().unwrap().watches.pop();
        let messages = script.unwrap_or_else(|| {
            vec![Ok(WatchLockResponse { record }), Ok(WatchLockResponse { record: None })]
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
    }

    async fn watch_locks(&self, request: Request<WatchLocksRequest>) -> Answer<ManyRecords> {
        let mut script = self.script.lock().unwrap();
        script.asked.push(format!("watch share {}", request.into_inner().share));
        let listing = script.listings.pop().unwrap_or_default();
        Ok(Response::new(Box::pin(tokio_stream::iter(listing))))
    }

    async fn get_server_info(
        &self,
        _request: Request<GetServerInfoRequest>,
    ) -> Answer<GetServerInfoResponse> {
        let (version, features) = ("9.8.7".to_owned(), vec!["notice".to_owned()]);
        let info = GetServerInfoResponse { version, features, ..GetServerInfoResponse::default() };
        Ok(Response::new(info))
    }

    async fn check_token(&self, request: Request<CheckTokenRequest>) -> Answer<CheckTokenResponse> {
        Ok(Response::new(CheckTokenResponse {
            status: TokenStatus::Stale.into(),
            newest_fencing_token: Some(request.into_inner().fencing_token + 1),
        }))
    }

    async fn break_lock(&self, request: Request<BreakLockRequest>) -> Answer<BreakLockResponse> {
        Ok(Response::new(BreakLockResponse {
            outcome: BreakOutcome::Breaking.into(),
            free_in: None,
            record: record(request.into_inner().lock),
        }))
    }

    async fn resolve_path(
        &self,
        request: Request<ResolvePathRequest>,
    ) -> Answer<ResolvePathResponse> {
        let lock_path = request.into_inner().key.unwrap_or_default().function;
        Ok(Response::new(ResolvePathResponse { lock_path, ..ResolvePathResponse::default() }))
    }
}
