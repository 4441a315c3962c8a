//! The coordinator with a clock and a store in the test's hands.

mod budget;
mod cancelling;
mod drive;

use std::sync::Arc;
use std::time::Duration;

use super::{Coordinator, Grant, HoldRequest, Host, KeyRequest, NoObserver, Outcome, Settings};
use crate::host_id::{FromHostType, Provider};
use crate::lock::{
    Container, HostId, HostType, Labels, Layout, LockKey, LockMode, Namespace, Prefix,
};
use crate::store::{
    CountingStore, FaultPlan, FaultyStore, LeaseState, LeaseStore as _, MemoryStore,
};
use crate::testing::SimClock;
use crate::time::Clock;

/// The way of one sidecar to the store: counted, and as bad as a test wants it.
type Link = CountingStore<FaultyStore<MemoryStore>>;

/// A storage account, on tokio's paused clock.
struct Account {
    clock: Arc<SimClock>,
    memory: Arc<MemoryStore>,
}

struct Sidecar {
    coordinator: Coordinator,
    link: Arc<Link>,
}

impl Account {
    fn new() -> Self {
        let clock = Arc::new(SimClock::following_tokio());
        let memory = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
        Self { clock, memory }
    }

    fn sidecar(&self) -> Sidecar {
        self.sidecar_with(0, FaultPlan::default())
    }

    fn sidecar_with(&self, seed: u64, plan: FaultPlan) -> Sidecar {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let faulty = FaultyStore::new(Arc::clone(&self.memory), Arc::clone(&clock), seed, plan);
        let link = Arc::new(CountingStore::new(faulty));
        let store = Arc::clone(&link) as _;
        let coordinator = Coordinator::new(store, clock, Arc::new(NoObserver), settings());
        Sidecar { coordinator, link }
    }

    /// Whether somebody has the lease of `function`'s lock.
    async fn is_leased(&self, sidecar: &Sidecar, function: &str) -> bool {
        let path = sidecar.coordinator.resolve(&request(function).key).unwrap().path;
        let stored = self.memory.read_record(&path).await;
        stored.is_ok_and(|stored| stored.lease == LeaseState::Leased)
    }
}

fn settings() -> Settings {
    let host_type = HostType::parse("Test").unwrap();
    let provider = Provider::HostType(FromHostType::new(host_type.clone()));
    Settings {
        host: Host {
            namespace: Namespace {
                container: Container::parse("leasehold").unwrap(),
                prefix: Prefix::parse("locks").unwrap(),
                layout: Layout::Readable,
            },
            host_id: HostId::parse("tests").unwrap(),
            host_type,
            provider: "static".to_owned(),
            allow_override: true,
            host_id_of: provider.host_id_of(),
        },
        hold: crate::hold::Settings {
            poll_cap: Duration::from_secs(5),
            hand_off: Duration::from_secs(5),
        },
        lease_duration: Duration::from_secs(60),
        max_hold_default: Duration::from_secs(600),
        holder: "test".to_owned(),
        max_holds: 10_000,
        max_waiters: 10_000,
        allow_break: true,
        function_instance: false,
    }
}

fn request(function: &str) -> HoldRequest {
    HoldRequest {
        key: KeyRequest {
            key: LockKey::new(function, "", LockMode::Function).unwrap(),
            host_id: None,
            host_type: None,
        },
        lease_duration: None,
        wait: Duration::ZERO,
        max_hold: Some(Duration::from_secs(86_400)),
        min_hold: Duration::ZERO,
        progress_timeout: None,
        auto_renew: true,
        request_id: String::new(),
        holder: None,
        labels: Labels::default(),
    }
}

fn patient(function: &str, wait: Duration) -> HoldRequest {
    HoldRequest { wait, ..request(function) }
}

impl Sidecar {
    async fn granted(&self, request: HoldRequest) -> Grant {
        match self.coordinator.acquire(request).await.unwrap() {
            Outcome::Granted(grant) => *grant,
            Outcome::Busy(busy) => panic!("{busy:?}"),
        }
    }

    async fn release(&self, grant: &Grant) {
        self.coordinator.release(grant.lease_id).await.unwrap();
    }

    fn requests(&self) -> u64 {
        self.link.take_counts().total()
    }
}
