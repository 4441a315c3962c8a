//! Sidecars over one store in memory, each with a link to it that is counted and can be broken.

use std::sync::Arc;
use std::time::Duration;

use crate::coordinator::{
    BusyAnswer, CallError, Coordinator, Entropy, Grant, HeldEvent, HoldEvent, HoldRequest,
    HoldStream, Host, KeyRequest, LockSelector, NoObserver, Observer, Outcome, Settings,
};
use crate::host_id::{FromHostType, Provider};
use crate::lock::{
    Container, HostId, HostType, Labels, Layout, LockKey, LockMode, LockPath, Namespace, Permit,
    Permits, Prefix, Sharing,
};
use crate::store::{LeaseState, LeaseStoreExt as _, MemoryStore, Operation};
use crate::testing::{CountingStore, Counts, FaultPlan, FaultyStore, SimClock};
use crate::time::{Clock as _, Instant};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// D, if a test does not say.
pub(super) const LEASE: Duration = MINUTE;

/// One storage account, to which several sidecars may be.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) clock: Arc<SimClock>,
    pub(super) store: Arc<MemoryStore>,
}

/// A sidecar with its link to the store.
#[derive(Clone, Debug)]
pub(super) struct Sidecar {
    pub(super) coordinator: Coordinator,
    pub(super) link: Arc<CountingStore<FaultyStore<MemoryStore>>>,
}

impl Account {
    pub(super) fn new() -> Self {
        let clock = Arc::new(SimClock::following_tokio());
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
        Self { clock, store }
    }

    pub(super) fn sidecar(&self) -> Sidecar {
        self.sidecar_with(Arc::new(NoObserver), 1, |_| {})
    }

    pub(super) fn sidecar_with(
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
        Sidecar { coordinator, link }
    }

    /// A sidecar on a machine of its own: a pause there may be counted elsewhere only.
    pub(super) fn sidecar_on(&self, clock: &Arc<SimClock>, seed: u64) -> Sidecar {
        let link = self.link(seed);
        let (store, clock) = (Arc::clone(&link) as _, Arc::clone(clock) as _);
        let coordinator = Coordinator::new(store, clock, Arc::new(NoObserver), settings());
        Sidecar { coordinator, link }
    }

    fn link(&self, seed: u64) -> Arc<CountingStore<FaultyStore<MemoryStore>>> {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let faulty = FaultyStore::new(store, clock as _, seed, FaultPlan::default());
        Arc::new(CountingStore::new(faulty))
    }

    /// A sidecar of this name, whose own randomness is given too.
    pub(super) fn seeded(&self, seed: u64, entropy: Arc<dyn Entropy>, name: &str) -> Sidecar {
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
        Sidecar { coordinator, link }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// What the store says of the lease.
    pub(super) async fn lease(&self, function: &str) -> LeaseState {
        self.store.read_record(&path(function)).await.unwrap().lease
    }
}

impl Sidecar {
    pub(super) fn faults(&self) -> &FaultyStore<MemoryStore> {
        self.link.store()
    }

    /// Each request and each answer is late by up to 10 ms.
    pub(super) fn delay_everything(&self) {
        self.faults().set_plan(FaultPlan {
            delay_request: 1_000,
            delay_answer: 1_000,
            longest_delay: Duration::from_millis(10),
            ..FaultPlan::default()
        });
    }

    pub(super) async fn ask(&self, request: HoldRequest) -> Result<Outcome, CallError> {
        self.coordinator.acquire(request).await
    }

    pub(super) async fn acquire(&self, request: HoldRequest) -> Grant {
        match self.ask(request).await.unwrap() {
            Outcome::Granted(grant) => *grant,
            other @ (Outcome::Busy(_)
            | Outcome::Settled { .. }
            | Outcome::AlreadyDone(_)
            | Outcome::Skipped { .. }) => panic!("{other:?}"),
        }
    }

    pub(super) async fn busy(&self, request: HoldRequest) -> BusyAnswer {
        match self.ask(request).await.unwrap() {
            other @ (Outcome::Granted(_)
            | Outcome::Settled { .. }
            | Outcome::AlreadyDone(_)
            | Outcome::Skipped { .. }) => panic!("{other:?}"),
            Outcome::Busy(busy) => *busy,
        }
    }

    pub(super) async fn release(&self, grant: &Grant) {
        self.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    }

    /// A hold by stream that is granted at once.
    pub(super) async fn hold(&self, request: &HoldRequest) -> (HoldStream, Grant) {
        let mut stream = self.coordinator.hold(request).unwrap();
        let grant = granted(&mut stream).await;
        (stream, grant)
    }

    /// What was asked of the store since this was called last.
    pub(super) fn counts(&self) -> Counts {
        self.link.take_counts()
    }

    /// Nobody holds, nobody waits, and no task is left.
    pub(super) fn assert_idle(&self) {
        let gauges = self.coordinator.gauges();
        let all = (gauges.holds, gauges.waiters, gauges.at_risk, gauges.paths);
        assert_eq!(all, (0, 0, 0, 0), "holds, waiters, at risk, paths");
    }
}

pub(super) fn settings() -> Settings {
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

pub(super) fn key(function: &str) -> KeyRequest {
    let key = LockKey::new(function, "", LockMode::Function).unwrap();
    KeyRequest { key, host_id: None, host_type: None }
}

pub(super) fn by_key(function: &str) -> LockSelector {
    LockSelector::Key(key(function), Permit::FIRST)
}

pub(super) fn path(function: &str) -> LockPath {
    let host = settings().host;
    host.namespace.lock_path(&host.host_id, &host.host_type, &key(function).key).unwrap()
}

/// One try for a lock, on the terms that callers have who do not say.
pub(super) fn request(function: &str) -> HoldRequest {
    HoldRequest {
        key: key(function),
        lease_duration: None,
        wait: Duration::ZERO,
        permits: Permits::ONE,
        max_hold: None,
        min_hold: Duration::ZERO,
        progress_timeout: None,
        auto_renew: true,
        request_id: String::new(),
        sharing: Sharing::default(),
        rebalance: false,
        holder: None,
        labels: Labels::default(),
        occurrence: None,
        trace_context: None,
    }
}

pub(super) fn waiting(function: &str, wait: Duration) -> HoldRequest {
    HoldRequest { wait, ..request(function) }
}

pub(super) async fn next(stream: &mut HoldStream) -> HoldEvent {
    stream.next().await.expect("the stream goes on")
}

/// The grant, after what is told to who waits.
pub(super) async fn granted(stream: &mut HoldStream) -> Grant {
    loop {
        match next(stream).await {
            HoldEvent::Waiting { .. } => {}
            HoldEvent::Granted(grant) => return *grant,
            other => panic!("{other:?}"),
        }
    }
}

/// The first event that is no renewal.
pub(super) async fn next_but_renewals(stream: &mut HoldStream) -> HoldEvent {
    loop {
        match next(stream).await {
            HoldEvent::Held(HeldEvent::Renewed(_)) => {}
            other => return other,
        }
    }
}

/// Lets this much of the paused time pass.
pub(super) async fn pass(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Lets everything that is ready run.
pub(super) async fn settle() {
    pass(Duration::from_millis(5)).await;
}

pub(super) fn counts<const N: usize>(expected: [(Operation, u64); N]) -> Counts {
    Counts::from(expected)
}
