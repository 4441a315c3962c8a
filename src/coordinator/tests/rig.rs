//! Sidecars over one store in memory, each with a link to it that is counted and can be broken.

use std::sync::Arc;
use std::time::Duration;

use crate::coordinator::{
    BusyAnswer, CallError, Concluding, Coordinator, Entropy, Grant, HeldEvent, HoldEvent,
    HoldRequest, HoldStream, Host, KeyRequest, LockSelector, NoObserver, Observer, Outcome,
    Settings,
};
use crate::host_id::{FromHostType, Provider};
use crate::lock::{
    Container, HostId, HostType, Layout, LeaseId, LockKey, LockMode, LockPath, Namespace, Permit,
    Prefix,
};
use crate::record::CheckpointValue;
use crate::scheduler::Scheduler;
use crate::store::{LeaseState, LeaseStoreExt as _, MemoryStore, Operation};
use crate::testing::{CountingStore, Counts, FaultPlan, FaultyStore, SimClock};
use crate::time::{Clock as _, Instant};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// D, if a test does not say.
pub(crate) const LEASE: Duration = MINUTE;

/// A sidecar's way to the store.
pub(crate) type Link = CountingStore<FaultyStore<MemoryStore>>;

/// One storage account, to which several sidecars may be.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) clock: Arc<SimClock>,
    pub(crate) store: Arc<MemoryStore>,
}

/// A sidecar with its link to the store.
#[derive(Clone, Debug)]
pub(crate) struct Sidecar {
    pub(crate) coordinator: Coordinator,
    pub(crate) scheduler: Scheduler,
    pub(crate) link: Arc<Link>,
}

impl Account {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(SimClock::following_tokio());
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
        Self { clock, store }
    }

    pub(crate) fn sidecar(&self) -> Sidecar {
        self.sidecar_with(Arc::new(NoObserver), 1, |_| {})
    }

    pub(crate) fn sidecar_with(
        &self,
        observer: Arc<dyn Observer>,
        seed: u64,
        change: impl FnOnce(&mut Settings),
    ) -> Sidecar {
        let link = self.link(seed);
        let mut settings = settings();
        change(&mut settings);
        let clock = Arc::clone(&self.clock);
        let coordinator = Coordinator::new(Arc::clone(&link) as _, clock as _, observer, settings);
        Sidecar::over(coordinator, link)
    }

    /// A sidecar on a machine of its own: a pause there may be counted elsewhere only.
    pub(crate) fn sidecar_on(&self, clock: &Arc<SimClock>, seed: u64) -> Sidecar {
        let link = self.link(seed);
        let (store, clock) = (Arc::clone(&link) as _, Arc::clone(clock) as _);
        let coordinator = Coordinator::new(store, clock, Arc::new(NoObserver), settings());
        Sidecar::over(coordinator, link)
    }

    fn link(&self, seed: u64) -> Arc<Link> {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let faulty = FaultyStore::new(store, clock as _, seed, FaultPlan::default());
        Arc::new(CountingStore::new(faulty))
    }

    /// A sidecar of this name, whose own randomness is given too.
    pub(crate) fn seeded(&self, seed: u64, entropy: Arc<dyn Entropy>, name: &str) -> Sidecar {
        let link = self.link(seed);
        let settings = Settings { sidecar: name.into(), ..settings() };
        let (clock, observer) = (Arc::clone(&self.clock), Arc::new(NoObserver));
        let coordinator = Coordinator::with_entropy(
            Arc::clone(&link) as _,
            clock as _,
            observer,
            settings,
            entropy,
        );
        Sidecar::over(coordinator, link)
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Until this field is in the record: the answer to its write, and all others, come late from now on.
    pub(crate) async fn answers_late(&self, sidecar: &Sidecar, field: &str) {
        let (answers_late, longest_delay) = (1_000, SECOND);
        let slow = FaultPlan { delay_answer: answers_late, longest_delay, ..FaultPlan::default() };
        sidecar.faults().set_plan(slow);
        let path = path("nightly");
        loop {
            let stored = self.store.read_record(&path).await;
            if stored.is_ok_and(|lock| lock.fields.contains_key(field)) {
                break;
            }
            pass(SECOND / 100).await;
        }
    }

    /// The machine sleeps over the validity of a lease, between the write under it that puts this field in
    /// the record and the answer.
    pub(crate) async fn sleep_over_a_write(&self, sidecar: &Sidecar, field: &str) {
        self.answers_late(sidecar, field).await;
        self.clock.advance(LEASE);
        sidecar.faults().set_plan(FaultPlan::default());
    }

    /// What the store says of the lease.
    pub(crate) async fn lease(&self, function: &str) -> LeaseState {
        self.store.read_record(&path(function)).await.unwrap().lease
    }
}

impl Sidecar {
    fn over(coordinator: Coordinator, link: Arc<Link>) -> Self {
        Self { scheduler: Scheduler::new(coordinator.clone()), coordinator, link }
    }

    pub(crate) fn faults(&self) -> &FaultyStore<MemoryStore> {
        self.link.store()
    }

    /// Each request and each answer is late by up to 10 ms.
    pub(crate) fn delay_everything(&self) {
        self.faults().set_plan(FaultPlan {
            delay_request: 1_000,
            delay_answer: 1_000,
            longest_delay: Duration::from_millis(10),
            ..FaultPlan::default()
        });
    }

    pub(crate) async fn ask(&self, request: HoldRequest) -> Result<Outcome, CallError> {
        self.coordinator.acquire(request).await
    }

    pub(crate) async fn acquire(&self, request: HoldRequest) -> Grant {
        match self.ask(request).await.unwrap() {
            Outcome::Granted(grant) => *grant,
            other @ (Outcome::Busy(_)
            | Outcome::Settled { .. }
            | Outcome::AlreadyDone(_)
            | Outcome::Skipped { .. }) => panic!("{other:?}"),
        }
    }

    pub(crate) async fn busy(&self, request: HoldRequest) -> BusyAnswer {
        match self.ask(request).await.unwrap() {
            other @ (Outcome::Granted(_)
            | Outcome::Settled { .. }
            | Outcome::AlreadyDone(_)
            | Outcome::Skipped { .. }) => panic!("{other:?}"),
            Outcome::Busy(busy) => *busy,
        }
    }

    pub(crate) async fn release(&self, grant: &Grant) {
        self.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    }

    /// The same by its lease id, with a checkpoint to be saved before (S26).
    pub(crate) async fn release_saving(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        value: CheckpointValue,
    ) -> Result<Concluding, CallError> {
        self.coordinator.release_concluding(lease_id, generation, None, Some(value)).await
    }

    /// A hold by stream that is granted at once.
    pub(crate) async fn hold(&self, request: &HoldRequest) -> (HoldStream, Grant) {
        let mut stream = self.coordinator.hold(request).unwrap();
        let grant = granted(&mut stream).await;
        (stream, grant)
    }

    /// What was asked of the store since this was called last.
    pub(crate) fn counts(&self) -> Counts {
        self.link.take_counts()
    }

    /// Nobody holds, nobody waits, and no task is left.
    pub(crate) fn assert_idle(&self) {
        let gauges = self.coordinator.gauges();
        let all = (gauges.holds, gauges.waiters, gauges.at_risk, gauges.paths);
        assert_eq!(all, (0, 0, 0, 0), "holds, waiters, at risk, paths");
    }
}

pub(crate) fn settings() -> Settings {
    let host_type = HostType::parse("Keeper-A").unwrap();
    let provider = Provider::HostType(FromHostType::new(host_type.clone()));
    Settings {
        host: Host {
            namespace: Namespace {
                container: Container::parse("leasehold").unwrap(),
                prefix: Prefix::parse("locks").unwrap(),
                layout: Layout::Readable,
            },
            host_id: HostId::parse("739df1faf6c08e78a883736d006f2964").unwrap(),
            host_type,
            provider: "host-type".to_owned(),
            allow_override: true,
            host_id_of: provider.host_id_of(),
        },
        hold: crate::hold::Settings { poll_cap: 5 * SECOND, hand_off: 5 * SECOND },
        lease_duration: LEASE,
        max_hold_default: 10 * MINUTE,
        holder: "the-pod".to_owned(),
        sidecar: "sidecar".into(),
        max_holds: 1_000,
        max_waiters: 1_000,
        max_resumes: 1_000,
        remembered_locks: 1_000,
        followed_bytes: 64 * 1024 * 1024,
        starts_per_second: 50,
        allow_break: true,
        allow_schedule_changes: true,
        revision: crate::coordinator::REVISION,
        function_instance: false,
    }
}

pub(crate) fn key(function: &str) -> KeyRequest {
    let key = LockKey::new(function, "", LockMode::Function).unwrap();
    KeyRequest { key, host_id: None, host_type: None }
}

pub(crate) fn by_key(function: &str) -> LockSelector {
    LockSelector::Key(key(function), Permit::FIRST)
}

pub(crate) fn path(function: &str) -> LockPath {
    let host = settings().host;
    host.namespace.lock_path(&host.host_id, &host.host_type, &key(function).key).unwrap()
}

/// One try for a lock, on the terms that callers have who do not say.
pub(crate) fn request(function: &str) -> HoldRequest {
    HoldRequest::new(key(function))
}

pub(crate) fn waiting(function: &str, wait: Duration) -> HoldRequest {
    HoldRequest { wait, ..request(function) }
}

pub(crate) async fn next(stream: &mut HoldStream) -> HoldEvent {
    stream.next().await.expect("the stream goes on")
}

/// The grant, after what is told to who waits.
pub(crate) async fn granted(stream: &mut HoldStream) -> Grant {
    loop {
        match next(stream).await {
            HoldEvent::Waiting { .. } => {}
            HoldEvent::Granted(grant) => return *grant,
            other => panic!("{other:?}"),
        }
    }
}

/// The first event that is no renewal.
pub(crate) async fn next_but_renewals(stream: &mut HoldStream) -> HoldEvent {
    loop {
        match next(stream).await {
            HoldEvent::Held(HeldEvent::Renewed(_)) => {}
            other => return other,
        }
    }
}

/// Lets this much of the paused time pass.
pub(crate) async fn pass(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Lets everything that is ready run.
pub(crate) async fn settle() {
    pass(Duration::from_millis(5)).await;
}

pub(crate) fn counts<const N: usize>(expected: [(Operation, u64); N]) -> Counts {
    Counts::from(expected)
}
