//! The request budget, counted on a clock that tests set: an hour passes in no time.

use std::sync::Arc;
use std::time::Duration;

use leasehold::coordinator::{Coordinator, HoldRequest, KeyRequest, NoObserver, Outcome};
use leasehold::lock::{LockKey, LockMode};
use leasehold::store::{MemoryStore, Operation};
use leasehold::testing::{CountingStore, FaultyStore, SimClock};

use crate::figure::Figures;
use crate::sidecar::{coordinator_on, wire};

pub(crate) fn measure(figures: &mut Figures) {
    let mut paused = tokio::runtime::Builder::new_current_thread();
    paused.enable_all().start_paused(true).build().unwrap().block_on(count(figures));
}

struct Counted {
    store: Arc<CountingStore<FaultyStore<MemoryStore>>>,
    coordinator: Coordinator,
}

impl Counted {
    fn new(memory: &Arc<MemoryStore>, clock: &Arc<SimClock>) -> Self {
        let store = Arc::new(CountingStore::new(wire(memory, Arc::clone(clock) as _)));
        let coordinator =
            coordinator_on(Arc::clone(&store) as _, Arc::new(NoObserver), Arc::clone(clock) as _);
        Self { store, coordinator }
    }

    async fn ask(&self, wait: Duration) -> Outcome {
        let key = LockKey::new("counted", "", LockMode::Function).unwrap();
        let key = KeyRequest { key, host_id: None, host_type: None };
        let max_hold = Some(Duration::from_secs(86_400));
        let request = HoldRequest { wait, max_hold, ..HoldRequest::new(key) };
        self.coordinator.acquire(request).await.unwrap()
    }

    async fn cycle(&self) {
        let Outcome::Granted(grant) = self.ask(Duration::ZERO).await else { panic!("busy") };
        self.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    }

    fn take(&self) -> f64 {
        self.store.take_counts().total() as f64
    }
}

async fn count(figures: &mut Figures) {
    let clock = Arc::new(SimClock::following_tokio());
    let memory = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
    let here = Counted::new(&memory, &clock);
    let there = Counted::new(&memory, &clock);
    here.cycle().await;
    figures.at_most("Requests: first acquire ever, and its release", here.take(), 5.0, "");
    here.cycle().await;
    figures.at_most(
        "Requests: acquire, lock known and unchanged, and release",
        here.take(),
        3.0,
        "",
    );
    there.cycle().await;
    figures.at_most("Requests: acquire, lock exists, and release", there.take(), 4.0, "");
    let Outcome::Granted(grant) = here.ask(Duration::ZERO).await else { panic!("busy") };
    here.take();
    assert!(matches!(there.ask(Duration::ZERO).await, Outcome::Busy(_)));
    figures.at_most("Requests: first try on a lock held elsewhere", there.take(), 2.0, "");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let counts = here.store.take_counts();
    let ideal = 3_600.0 / 20.0;
    let name = "Requests: renewals in an hour at D = 60 s, over the ideal 3/D";
    figures.at_most(name, counts.of(Operation::Renew) as f64 / ideal, 1.02, " ×");
    assert_eq!(counts.total(), counts.of(Operation::Renew), "a hold is renewed and nothing else");
    let waiting = here.ask(Duration::from_secs(60));
    let handing = async {
        tokio::task::yield_now().await;
        here.take();
        here.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    };
    let (Outcome::Granted(second), ()) = tokio::join!(waiting, handing) else { panic!("busy") };
    figures.at_most("Requests: hand-off between local callers", here.take(), 0.0, "");
    here.coordinator.release(second.lease_id, Some(second.generation)).await.unwrap();
    figures.at_most("Requests: release", here.take(), 1.0, "");
}
