//! Each rpc of LeaseService: in through `from_proto`, to the coordinator, out through `to_proto` and
//! `status`.

use futures_util::stream::BoxStream;
use tonic::{Request, Response, Status};

use crate::access::Right;
use crate::coordinator::{HoldRequest, LockRecord, Outcome, ResumeRequest};
use crate::grpc::auth::caller::Caller;
use crate::grpc::lease::from_proto::{self, HoldStart};
use crate::grpc::lease::occurrence;
use crate::grpc::lease::occurrence::Release;
use crate::grpc::lease::streams::{self, HoldEvents};
use crate::grpc::lease::to_proto;
use crate::grpc::proto::lease_service_server::LeaseService;
use crate::grpc::proto::{
    AcquireLeaseRequest, AcquireLeaseResponse, BreakLockRequest, BreakLockResponse,
    CheckTokenRequest, CheckTokenResponse, ExtendLeaseRequest, ExtendLeaseResponse, GetHoldRequest,
    GetHoldResponse, GetLockRequest, GetLockResponse, GetServerInfoRequest, GetServerInfoResponse,
    HoldLeaseRequest, ListLocksRequest, ListLocksResponse, ReleaseLeaseRequest,
    ReleaseLeaseResponse, ReportProgressRequest, ReportProgressResponse, ResolvePathRequest,
    ResolvePathResponse, SaveCheckpointRequest, SaveCheckpointResponse, WatchLockRequest,
    WatchLockResponse, WatchLocksRequest, WatchLocksResponse, acquire_lease_response,
};
use crate::grpc::status;
use crate::grpc::trace;

use crate::grpc::service::{Reply, Service, answered};

#[tonic::async_trait]
impl LeaseService for Service {
    type HoldLeaseStream = HoldEvents;
    type WatchLockStream = BoxStream<'static, Result<WatchLockResponse, Status>>;
    type WatchLocksStream = BoxStream<'static, Result<WatchLocksResponse, Status>>;

    async fn acquire_lease(
        &self,
        request: Request<AcquireLeaseRequest>,
    ) -> Reply<AcquireLeaseResponse> {
        let (caller, context) = (Caller::of(&request)?, trace::context(request.metadata()));
        let request = request.into_inner();
        self.check_needs(request.needs)?;
        let mut request = from_proto::hold_request(request.spec, &self.limits, true)?;
        self.permit_key(&caller, Right::Acquire, &request.key)?;
        request.request_id = caller.request_id(request.request_id);
        request.trace_context = context;
        let outcome = match answered(self.coordinator.acquire(request).await)? {
            Outcome::Granted(grant) => {
                acquire_lease_response::Outcome::Granted(to_proto::grant(*grant))
            }
            Outcome::Busy(busy) => {
                let busy = to_proto::busy(*busy, self.namespace());
                acquire_lease_response::Outcome::Busy(busy)
            }
            Outcome::AlreadyDone(ended) => {
                let done = to_proto::already_done(&ended);
                acquire_lease_response::Outcome::AlreadyDone(done)
            }
            Outcome::Skipped { watermark } => {
                acquire_lease_response::Outcome::Skipped(to_proto::skipped(watermark))
            }
            Outcome::Settled { .. } => return Err(status::settled()),
        };
        Ok(Response::new(AcquireLeaseResponse { outcome: Some(outcome) }))
    }

    async fn release_lease(
        &self,
        request: Request<ReleaseLeaseRequest>,
    ) -> Reply<ReleaseLeaseResponse> {
        let Release { lease_id, generation, outcome, checkpoint } =
            occurrence::release(request.get_ref())?;
        self.permit_holder(&Caller::of(&request)?)?;
        let concluding =
            self.coordinator.release_concluding(lease_id, generation, outcome, checkpoint).await;
        let result = Some(to_proto::concluded(answered(concluding)?));
        Ok(Response::new(ReleaseLeaseResponse { result }))
    }

    async fn extend_lease(
        &self,
        request: Request<ExtendLeaseRequest>,
    ) -> Reply<ExtendLeaseResponse> {
        let (lease_id, max_hold) = from_proto::extend(request.get_ref(), &self.limits)?;
        self.permit_holder(&Caller::of(&request)?)?;
        let ends_at = self.coordinator.clock().wall() + max_hold;
        let generation = from_proto::generation(request.get_ref().generation);
        let extended = answered(self.coordinator.extend(lease_id, generation, max_hold).await)?;
        Ok(Response::new(ExtendLeaseResponse {
            validity: Some(to_proto::validity(extended.validity)),
            max_hold_ends_at: Some(to_proto::timestamp(ends_at)),
            resume_token: extended.resume_token,
            max_hold_ends: extended.max_hold_ends.map(to_proto::deadline),
        }))
    }

    async fn hold_lease(&self, request: Request<HoldLeaseRequest>) -> Reply<HoldEvents> {
        let (life_line, caller) = (self.life_line(&request), Caller::of(&request)?);
        let trace_context = trace::context(request.metadata());
        let request = request.into_inner();
        self.check_needs(request.needs)?;
        let hold = match from_proto::hold_start(request, &self.limits)? {
            HoldStart::New(request) => {
                let request = HoldRequest { trace_context, ..*request };
                self.permit_key(&caller, Right::Acquire, &request.key)?;
                self.coordinator.hold(&request)
            }
            HoldStart::Resume(request) => {
                let request = ResumeRequest { trace_context, ..request };
                self.permit_holder(&caller)?;
                self.permit_resume(&caller, &request)?;
                self.coordinator.resume(&request)
            }
        };
        let hold = answered(hold)?;
        Ok(Response::new(HoldEvents::new(hold, life_line, &self.coordinator)))
    }

    async fn get_lock(&self, request: Request<GetLockRequest>) -> Reply<GetLockResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let selector = from_proto::selector(request.lock)?;
        self.permit_selected(&caller, Right::Read, &selector)?;
        let record = if request.with_checkpoint {
            let record = answered(self.coordinator.get_with_checkpoint(&selector).await)?;
            to_proto::record_with_checkpoint(record, self.namespace())
        } else {
            let record = answered(self.coordinator.get(&selector).await)?;
            to_proto::record(record, self.namespace())
        };
        Ok(Response::new(GetLockResponse { record: Some(record) }))
    }

    async fn list_locks(&self, request: Request<ListLocksRequest>) -> Reply<ListLocksResponse> {
        let caller = Caller::of(&request)?;
        let request = from_proto::list(request.into_inner())?;
        self.permit_list(&caller, &request.under)?;
        let visible = |record: &LockRecord| self.may_see(&caller, record);
        let page = answered(self.coordinator.list(request, visible).await)?;
        let record = |record| to_proto::record(record, self.namespace());
        Ok(Response::new(ListLocksResponse {
            records: page.records.into_iter().map(record).collect(),
            next_page_token: page.next_page_token.unwrap_or_default(),
        }))
    }

    async fn watch_lock(&self, request: Request<WatchLockRequest>) -> Reply<Self::WatchLockStream> {
        let caller = Caller::of(&request)?;
        let selector = from_proto::selector(request.into_inner().lock)?;
        self.permit_selected(&caller, Right::Read, &selector)?;
        let place = self.watching()?;
        let watch = answered(self.coordinator.watch(&selector))?;
        let records = streams::watch(watch, &self.coordinator);
        Ok(Response::new(Box::pin(streams::in_place(records, place))))
    }

    async fn watch_locks(
        &self,
        request: Request<WatchLocksRequest>,
    ) -> Reply<Self::WatchLocksStream> {
        let caller = Caller::of(&request)?;
        let (under, labels, share) = from_proto::watch_locks(request.into_inner())?;
        self.permit_list(&caller, &under)?;
        let service = self.clone();
        let is_shown = move |record: &LockRecord| {
            record.has_labels(&labels)
                && share.as_ref().is_none_or(|share| record.is_of_share(share))
                && service.may_see(&caller, record)
        };
        let place = self.watching()?;
        let watch = answered(self.coordinator.watch_locks(&under, Box::new(is_shown)))?;
        let events = streams::watch_locks(watch, &self.coordinator);
        Ok(Response::new(Box::pin(streams::in_place(events, place))))
    }

    async fn report_progress(
        &self,
        request: Request<ReportProgressRequest>,
    ) -> Reply<ReportProgressResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let lease_id = from_proto::lease_id(&request.lease_id)?;
        self.permit_holder(&caller)?;
        let generation = from_proto::generation(request.generation);
        let reported = self.coordinator.report_progress(lease_id, generation).await;
        let validity = Some(to_proto::validity(answered(reported)?));
        Ok(Response::new(ReportProgressResponse { validity }))
    }

    async fn get_hold(&self, request: Request<GetHoldRequest>) -> Reply<GetHoldResponse> {
        let lease_id = from_proto::lease_id(&request.get_ref().lease_id)?;
        self.permit_holder(&Caller::of(&request)?)?;
        let generation = from_proto::generation(request.get_ref().generation);
        let held = answered(self.coordinator.get_hold(lease_id, generation).await)?;
        Ok(Response::new(to_proto::held_lock(held)))
    }

    async fn save_checkpoint(
        &self,
        request: Request<SaveCheckpointRequest>,
    ) -> Reply<SaveCheckpointResponse> {
        let lease_id = from_proto::lease_id(&request.get_ref().lease_id)?;
        let value = from_proto::checkpoint("value", &request.get_ref().value)?;
        self.permit_holder(&Caller::of(&request)?)?;
        let generation = from_proto::generation(request.get_ref().generation);
        let saved = answered(self.coordinator.save(lease_id, generation, value).await)?;
        let validity = Some(to_proto::validity(saved.validity));
        Ok(Response::new(SaveCheckpointResponse { version: saved.version, validity }))
    }

    async fn check_token(&self, request: Request<CheckTokenRequest>) -> Reply<CheckTokenResponse> {
        let caller = Caller::of(&request)?;
        let (selector, token) = from_proto::check_token(request.into_inner())?;
        self.permit_selected(&caller, Right::Check, &selector)?;
        let (status, newest) = answered(self.coordinator.check_token(&selector, token).await)?;
        Ok(Response::new(CheckTokenResponse {
            status: to_proto::token_status(status).into(),
            newest_fencing_token: newest.map(|newest| newest.value()),
        }))
    }

    async fn break_lock(&self, request: Request<BreakLockRequest>) -> Reply<BreakLockResponse> {
        let caller = Caller::of(&request)?;
        let request = from_proto::break_lock(request.into_inner(), caller.with_address())?;
        self.permit_selected(&caller, Right::Break, &request.lock)?;
        let selector = request.lock.clone();
        let (outcome, free_in) =
            to_proto::broken(answered(self.coordinator.break_lock(request).await)?);
        // The break has happened; that the record cannot be read now, or by this caller, does not undo it.
        let record = match self.may_read(&caller, &selector) {
            true => self.coordinator.get(&selector).await.ok(),
            false => None,
        };
        Ok(Response::new(BreakLockResponse {
            outcome: outcome.into(),
            free_in,
            record: record.map(|record| to_proto::record(record, self.namespace())),
        }))
    }

    async fn resolve_path(
        &self,
        request: Request<ResolvePathRequest>,
    ) -> Reply<ResolvePathResponse> {
        let caller = Caller::of(&request)?;
        let key = from_proto::key(request.into_inner().key)?;
        self.permit_key(&caller, Right::Read, &key)?;
        let target = answered(self.coordinator.host().resolve(&key))?;
        let host = self.coordinator.host();
        let overridden = key.host_id.is_some() || key.host_type.is_some();
        let provider = if overridden { "request" } else { &host.provider };
        Ok(Response::new(ResolvePathResponse {
            lock_path: target.path.to_string(),
            host_id: target.host_id.to_string(),
            host_type: target.host_type.to_string(),
            provider: provider.to_owned(),
            layout: host.namespace.layout.as_str().to_owned(),
        }))
    }

    async fn get_server_info(
        &self,
        request: Request<GetServerInfoRequest>,
    ) -> Reply<GetServerInfoResponse> {
        // Says nothing of any lock: whoever is let in may ask.
        Caller::of(&request)?;
        Ok(Response::new(self.about()))
    }
}
