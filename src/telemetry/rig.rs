//! A measured coordinator over a store in memory that can be made to fail, for the tests of what is shown of
//! it.

use std::io;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use tracing::Subscriber;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::{EventLines, Exposition, Format, MeteredStore, Metrics, Observers, subscriber};
use crate::coordinator::{
    Coordinator, Grant, HoldRequest, Host, KeyRequest, NoObserver, Observer, Outcome,
    ResumeRequest, Settings,
};
use crate::lock::{Container, HostId, HostType, Layout, LockKey, LockMode, Namespace, Prefix};
use crate::scheduler::Scheduler;
use crate::store::{LeaseStore, MemoryStore};
use crate::testing::{FaultPlan, FaultyStore, SimClock};
use crate::time::{BootReading, Clock};

pub(crate) struct Rig {
    pub(crate) clock: Arc<SimClock>,
    pub(crate) store: Arc<FaultyStore<MemoryStore>>,
    pub(crate) metrics: Metrics,
    pub(crate) coordinator: Coordinator,
    pub(crate) scheduler: Scheduler,
}

impl Rig {
    pub(crate) fn new(clock: SimClock) -> Self {
        Self::with_settings(clock, |_| {})
    }

    pub(crate) fn with_settings(clock: SimClock, change: impl FnOnce(&mut Settings)) -> Self {
        Self::made(clock, change, None)
    }

    fn made(
        clock: SimClock,
        change: impl FnOnce(&mut Settings),
        observer: Option<Arc<dyn Observer>>,
    ) -> Self {
        let clock = Arc::new(clock);
        let of_stores: Arc<dyn Clock> = Arc::<SimClock>::clone(&clock);
        let memory = Arc::new(MemoryStore::new(Arc::clone(&of_stores)));
        let plan = FaultPlan::default();
        let store = Arc::new(FaultyStore::new(memory, of_stores, 1, plan));
        let mut settings = settings();
        change(&mut settings);
        Self::around(clock, store, settings, observer)
    }

    /// The same with one more observer, if there is one.
    pub(crate) fn observed(clock: SimClock, observer: Option<Arc<dyn Observer>>) -> Self {
        Self::made(clock, |_| {}, observer)
    }

    /// Another sidecar of the same store.
    pub(crate) fn beside(&self) -> Self {
        Self::around(Arc::clone(&self.clock), Arc::clone(&self.store), settings(), None)
    }

    fn around(
        clock: Arc<SimClock>,
        store: Arc<FaultyStore<MemoryStore>>,
        settings: Settings,
        observer: Option<Arc<dyn Observer>>,
    ) -> Self {
        let of_stores: Arc<dyn Clock> = Arc::<SimClock>::clone(&clock);
        let metrics = Metrics::new(clock.as_ref());
        let measured = measured(&store, &clock, &metrics);
        let mut observers: Vec<Arc<dyn Observer>> =
            vec![Arc::new(EventLines), Arc::new(metrics.clone())];
        observers.extend(observer);
        let observer = Arc::new(Observers::new(observers));
        let coordinator = Coordinator::new(Arc::new(measured), of_stores, observer, settings);
        let scheduler = Scheduler::new(coordinator.clone());
        Self { clock, store, metrics, coordinator, scheduler }
    }

    /// A coordinator over another store, unmeasured.
    pub(crate) fn over(store: Arc<dyn LeaseStore>, clock: &Arc<SimClock>) -> Coordinator {
        let clock = Arc::<SimClock>::clone(clock);
        Coordinator::new(store, clock, Arc::new(NoObserver), settings())
    }

    /// A rig whose clock is tokio's, which must be paused.
    pub(crate) fn paused() -> Self {
        Self::new(SimClock::following_tokio())
    }

    /// The store of this rig, measured, for who asks it without the coordinator.
    pub(crate) fn measured(&self) -> MeteredStore {
        measured(&self.store, &self.clock, &self.metrics)
    }

    pub(crate) async fn granted(&self, request: HoldRequest) -> Box<Grant> {
        match self.coordinator.acquire(request).await.unwrap() {
            Outcome::Granted(grant) => grant,
            other @ (Outcome::Busy(_)
            | Outcome::Settled { .. }
            | Outcome::AlreadyDone(_)
            | Outcome::Skipped { .. }) => panic!("{other:?}"),
        }
    }

    pub(crate) fn text(&self) -> String {
        self.metrics.encode(&self.scheduler, Exposition::OpenMetrics)
    }

    /// The value of the series that is written like this.
    pub(crate) fn value(&self, series: &str) -> f64 {
        let text = self.text();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(name, _)| *name == series);
        found.unwrap_or_else(|| panic!("no {series} in\n{text}")).1.parse().unwrap()
    }

    /// Lets time pass, in the small steps in which a machine that is awake lives through it.
    pub(crate) async fn pass(&self, seconds: u64) {
        for _ in 0..seconds * 10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn measured(
    store: &Arc<FaultyStore<MemoryStore>>,
    clock: &Arc<SimClock>,
    metrics: &Metrics,
) -> MeteredStore {
    let store = Arc::<FaultyStore<MemoryStore>>::clone(store);
    MeteredStore::new(store, Arc::<SimClock>::clone(clock), metrics.clone())
}

fn settings() -> Settings {
    let namespace = Namespace {
        container: Container::parse("leasehold").unwrap(),
        prefix: Prefix::parse("locks").unwrap(),
        layout: Layout::Readable,
    };
    Settings {
        host: Host {
            namespace,
            host_id: HostId::parse("0123456789abcdef").unwrap(),
            host_type: HostType::parse("Keeper-A").unwrap(),
            provider: "static".to_owned(),
            allow_override: true,
            host_id_of: |_| HostId::parse("fedcba9876543210").unwrap(),
        },
        hold: crate::hold::Settings {
            poll_cap: Duration::from_secs(5),
            hand_off: Duration::from_secs(5),
        },
        lease_duration: Duration::from_secs(60),
        max_hold_default: Duration::from_secs(600),
        holder: "keeper-a-0".to_owned(),
        sidecar: "sidecar".into(),
        max_holds: 100,
        max_waiters: 100,
        max_resumes: 100,
        remembered_locks: 1_000,
        followed_bytes: 1024 * 1024,
        starts_per_second: 50,
        allow_break: true,
        allow_schedule_changes: true,
        revision: crate::coordinator::REVISION,
        function_instance: false,
    }
}

/// Asks for the lock of `function` and `scope`, and does not wait.
pub(crate) fn request(function: &str, scope: &str) -> HoldRequest {
    HoldRequest::new(KeyRequest {
        key: LockKey::new(function, scope, LockMode::Function).unwrap(),
        host_id: None,
        host_type: None,
    })
}

/// A client that goes on with its hold, as it does for the first time after its stream broke.
pub(crate) fn resume(resume_token: String, told_valid_until: Option<BootReading>) -> ResumeRequest {
    ResumeRequest { resume_token, attempt_id: String::new(), told_valid_until, trace_context: None }
}

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Captured {
    pub(crate) fn subscriber(&self, format: Format, filter: &str) -> impl Subscriber + use<> {
        keep_callsites_open();
        let writer = self.clone();
        subscriber(format, &filter.parse().unwrap(), move || writer.clone())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// A callsite first used in another test's thread while a subscriber is made would stay shut for it; beside
/// this one none is.
fn keep_callsites_open() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::registry().with(dynamic_filter_fn(|_, _| false)).init();
    });
}
