//! A sidecar whose store, clock and wire are in the test's hands.

use std::sync::Arc;
use std::time::Duration;

use leasehold::coordinator::{Coordinator, Host, Settings};
use leasehold::grpc::{self, Limits};
use leasehold::host_id::{FromHostType, Provider};
use leasehold::lock::{Container, HostId, HostType, Layout, Namespace, Prefix};
use leasehold::scheduler::Scheduler;
use leasehold::store::{LeaseStore, MemoryStore};
use leasehold::telemetry::EventLines;
use leasehold::testing::{FaultPlan, FaultyStore, SimClock};
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    AcquireLeaseRequest, Busy, GetLockRequest, Grant, HoldLeaseRequest, HoldLeaseResponse,
    LeaseSpec, LockKey, LockRecord, LockSelector, ReleaseLeaseRequest, ReleaseOutcome,
    acquire_lease_response, hold_lease_request, hold_lease_response, lock_selector,
};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

pub(crate) type Client = LeaseServiceClient<Channel>;
pub(crate) type Event = hold_lease_response::Event;

pub(crate) const LIMITS: Limits = Limits {
    max_hold_ceiling: Duration::from_secs(24 * 60 * 60),
    max_hold_default: Duration::from_secs(600),
    wait_ceiling: Duration::from_secs(24 * 60 * 60),
    store: "memory",
    hand_over: false,
};
pub(crate) const HOST_ID: &str = "739df1faf6c08e78a883736d006f2964";

/// One storage account, to which several sidecars may be.
#[derive(Debug)]
pub(crate) struct Account {
    pub clock: Arc<SimClock>,
    pub store: Arc<MemoryStore>,
}

/// A sidecar, with the way to its store, and a client.
#[derive(Debug)]
pub(crate) struct Sidecar<S = MemoryStore> {
    pub coordinator: Coordinator,
    pub scheduler: Scheduler,
    pub link: Arc<FaultyStore<S>>,
    pub client: Client,
}

impl Account {
    /// For tests with tokio's clock paused: timers and the clock of S3 agree.
    pub(crate) fn new() -> Self {
        let clock = Arc::new(SimClock::following_tokio());
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
        Self { clock, store }
    }

    pub(crate) fn sidecar(&self) -> Sidecar {
        self.sidecar_with(|_| {})
    }

    pub(crate) fn sidecar_with(&self, change: impl FnOnce(&mut Settings)) -> Sidecar {
        self.sidecar_on(Arc::clone(&self.store), change)
    }

    /// On another store than the account's.
    pub(crate) fn sidecar_on<S: LeaseStore + 'static>(
        &self,
        store: Arc<S>,
        change: impl FnOnce(&mut Settings),
    ) -> Sidecar<S> {
        let mut settings = settings();
        change(&mut settings);
        let clock = Arc::clone(&self.clock);
        let link = FaultyStore::new(store, clock as _, 7, FaultPlan::default());
        let link = Arc::new(link);
        let coordinator = Coordinator::new(
            Arc::clone(&link) as _,
            Arc::clone(&self.clock) as _,
            Arc::new(EventLines),
            settings,
        );
        let scheduler = Scheduler::new(coordinator.clone());
        let client = LeaseServiceClient::new(grpc::in_process(scheduler.clone(), LIMITS));
        Sidecar { coordinator, scheduler, link, client }
    }
}

pub(crate) fn settings() -> Settings {
    let host_type = HostType::parse("Keeper-A").unwrap();
    let host_id_of = Provider::HostType(FromHostType::new(host_type)).host_id_of();
    Settings {
        host: Host {
            namespace: Namespace {
                container: Container::parse("leasehold").unwrap(),
                prefix: Prefix::parse("locks").unwrap(),
                layout: Layout::Readable,
            },
            host_id: HostId::parse(HOST_ID).unwrap(),
            host_type: HostType::parse("Keeper-A").unwrap(),
            provider: "host-type".to_owned(),
            allow_override: true,
            host_id_of,
        },
        hold: leasehold::hold::Settings {
            poll_cap: Duration::from_secs(5),
            hand_off: Duration::from_secs(5),
        },
        lease_duration: Duration::from_secs(60),
        max_hold_default: LIMITS.max_hold_default,
        holder: "the-pod".to_owned(),
        sidecar: "sidecar".into(),
        max_holds: 100,
        max_waiters: 100,
        max_resumes: 100,
        remembered_locks: 1_000,
        followed_bytes: 1024 * 1024,
        starts_per_second: 50,
        allow_break: true,
        allow_schedule_changes: true,
        revision: leasehold::coordinator::REVISION,
        function_instance: false,
    }
}

pub(crate) fn key(function: &str) -> LockKey {
    LockKey { function: function.to_owned(), ..LockKey::default() }
}

pub(crate) fn spec(function: &str) -> LeaseSpec {
    LeaseSpec { key: Some(key(function)), ..LeaseSpec::default() }
}

pub(crate) fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

pub(crate) fn by_key(function: &str) -> Option<LockSelector> {
    Some(LockSelector { lock: Some(lock_selector::Lock::Key(key(function))), permit: 0 })
}

pub(crate) fn by_path(path: &str) -> Option<LockSelector> {
    Some(LockSelector { lock: Some(lock_selector::Lock::LockPath(path.to_owned())), permit: 0 })
}

/// What an AcquireLease was answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Granted(Box<Grant>),
    Busy(Box<Busy>),
}

impl Sidecar {
    pub(crate) async fn ask(&self, spec: LeaseSpec) -> Result<Answer, Status> {
        let request = AcquireLeaseRequest { spec: Some(spec), needs: 0 };
        let answer = self.client.clone().acquire_lease(request).await?;
        Ok(match answer.into_inner().outcome.expect("an outcome is always set") {
            acquire_lease_response::Outcome::Granted(grant) => Answer::Granted(Box::new(grant)),
            acquire_lease_response::Outcome::Busy(busy) => Answer::Busy(Box::new(busy)),
            other => panic!("{other:?}"),
        })
    }

    pub(crate) async fn acquire(&self, spec: LeaseSpec) -> Grant {
        match self.ask(spec).await.unwrap() {
            Answer::Granted(grant) => *grant,
            Answer::Busy(busy) => panic!("busy: {busy:?}"),
        }
    }

    pub(crate) async fn busy(&self, spec: LeaseSpec) -> Busy {
        match self.ask(spec).await.unwrap() {
            Answer::Granted(_) => panic!("granted"),
            Answer::Busy(busy) => *busy,
        }
    }

    pub(crate) async fn release(&self, lease_id: &str) -> ReleaseOutcome {
        let request =
            ReleaseLeaseRequest { lease_id: lease_id.to_owned(), ..ReleaseLeaseRequest::default() };
        let answer = self.client.clone().release_lease(request).await.unwrap().into_inner();
        answer.result.unwrap().outcome()
    }

    /// Releases as clients do, with the generation: so the lock is handed on here (S10, S16).
    pub(crate) async fn release_of(&self, grant: &Grant) -> ReleaseOutcome {
        let (lease_id, generation) = (grant.lease_id.clone(), grant.generation);
        let request =
            ReleaseLeaseRequest { lease_id, generation, ..ReleaseLeaseRequest::default() };
        let answer = self.client.clone().release_lease(request).await.unwrap().into_inner();
        answer.result.unwrap().outcome()
    }

    pub(crate) async fn record(&self, function: &str) -> LockRecord {
        let request = GetLockRequest { lock: by_key(function), ..GetLockRequest::default() };
        self.client.clone().get_lock(request).await.unwrap().into_inner().record.unwrap()
    }

    pub(crate) async fn hold(&self, spec: LeaseSpec) -> Streaming<HoldLeaseResponse> {
        self.start(hold_lease_request::Start::Spec(spec)).await.unwrap()
    }

    pub(crate) async fn start(
        &self,
        start: hold_lease_request::Start,
    ) -> Result<Streaming<HoldLeaseResponse>, Status> {
        let request = HoldLeaseRequest { start: Some(start), needs: 0 };
        Ok(self.client.clone().hold_lease(request).await?.into_inner())
    }
}

pub(crate) async fn next(stream: &mut Streaming<HoldLeaseResponse>) -> Event {
    let message = stream.message().await.unwrap().expect("the stream goes on");
    message.event.expect("an event is always set")
}

pub(crate) async fn granted(stream: &mut Streaming<HoldLeaseResponse>) -> Grant {
    match next(stream).await {
        Event::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

/// The code and the reason of a refusal.
pub(crate) fn reason(status: &Status) -> (Code, String) {
    let info = status.get_details_error_info().expect("every error has its reason");
    assert_eq!(info.domain, "leasehold.dev");
    (status.code(), info.reason)
}

/// The fields that a refusal names.
pub(crate) fn fields(status: &Status) -> Vec<String> {
    assert_eq!(reason(status), (Code::InvalidArgument, "INVALID_FIELD".to_owned()), "{status}");
    let request = status.get_details_bad_request().expect("the violations are listed");
    let fields = request.field_violations.into_iter();
    fields
        .map(|violation| {
            assert!(!violation.description.is_empty());
            assert!(status.message().contains(&violation.description), "{status}");
            violation.field
        })
        .collect()
}
