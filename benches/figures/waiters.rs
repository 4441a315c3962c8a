//! A thousand callers of one sidecar that wait for one lock.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::{MemoryStore, Operation};
use leasehold::testing::CountingStore;
use leasehold::time::BootClock;

use crate::calls::echo;
use crate::echo;
use crate::figure::{Figures, Stopwatch, median};
use crate::sidecar::{self, Client, acquire, acquire_one_of, connect, release, runtime, wire};

const WAITERS: usize = 1_000;
const CONNECTIONS: usize = 5;
const PERMITS: u32 = 4;
/// While a lock is held elsewhere, its polls are counted for so long.
const POLLED: Duration = Duration::from_secs(20);

pub(crate) fn measure(figures: &mut Figures) {
    runtime().block_on(compare(figures));
}

async fn compare(figures: &mut Figures) {
    let folder = tempfile::tempdir().unwrap();
    let (ours, bare) = (folder.path().join("sidecar"), folder.path().join("echo"));
    let memory = Arc::new(MemoryStore::new(Arc::new(BootClock::new())));
    let store = Arc::new(CountingStore::new(wire(&memory, Arc::new(BootClock::new()))));
    sidecar::start(&ours, Arc::clone(&store) as _);
    let other = folder.path().join("other");
    sidecar::start(&other, Arc::clone(&memory) as _);
    echo::serve(&bare);
    let channel = connect(&bare).await;
    let watch = Stopwatch::new();
    let mut echoes = Vec::new();
    for _ in 0..2_000 {
        echoes.push(watch.time(echo(&channel)).await.1);
    }

    let mut elsewhere = Client::new(connect(&other).await);
    let held = acquire(&mut elsewhere, "crowded", 0).await;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Client::new(connect(&ours).await));
    }
    let crowd = crowd(&clients, &watch, ("crowded", 1));
    let store_counts = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        store.take_counts();
        tokio::time::sleep(POLLED).await;
        let polls = store.take_counts();
        release(&mut elsewhere, held.lease_id).await;
        polls
    };
    let (grants, polls) = tokio::join!(crowd, store_counts);
    // One poller at a cap of 5 s, with jitter from 250 ms: so many at the very most.
    let most = POLLED.as_secs_f64() / 0.25;
    let name = "1,000 local waiters: storage requests in 20 s, held elsewhere";
    figures.at_most(name, polls.total() as f64, most, "");
    let asked = polls.of(Operation::Acquire) + polls.of(Operation::ReadRecord);
    assert_eq!(polls.total(), asked, "a poll is an acquire, or now and then a read");
    let gaps = grants.windows(2).map(|pair| pair[1].saturating_since(pair[0])).collect();
    let span = grants[WAITERS - 1].saturating_since(grants[0]).as_secs_f64();
    let pooled = crowd_of_a_pool(&clients, &watch).await;
    let name = "1,000 local waiters: hand-off, median over a bare tonic echo";
    figures.at_most(name, median(gaps) / median(echoes), 4.0, " ×");
    let rate = (WAITERS - 1) as f64 / span;
    figures.at_least("1,000 local waiters: hand-offs", rate, 5_000.0, " /s");
    let name = "1,000 local waiters for 4 permits: hand-offs over those of a plain lock";
    figures.at_least(name, span / pooled, 0.4, " ×");
}

/// When each of a thousand callers was granted the lock, one after the other; each releases at once.
async fn crowd(
    clients: &[Client],
    watch: &Stopwatch,
    (lock, permits): (&str, u32),
) -> Vec<leasehold::time::Instant> {
    let callers = (0..WAITERS).map(|number| {
        let mut client = clients[number % CONNECTIONS].clone();
        async move {
            let grant = acquire_one_of(&mut client, lock, 3_600, permits).await;
            let granted = watch.now();
            release(&mut client, grant.lease_id).await;
            granted
        }
    });
    let mut grants = join_all(callers).await;
    grants.sort_unstable();
    grants
}

/// How long a thousand callers take who wait for one of four permits, all of which were held until then.
async fn crowd_of_a_pool(clients: &[Client], watch: &Stopwatch) -> f64 {
    let mut holder = clients[0].clone();
    let mut held = Vec::new();
    for _ in 0..PERMITS {
        held.push(acquire_one_of(&mut holder, "shared", 0, PERMITS).await.lease_id);
    }
    let releases = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        for lease_id in held {
            release(&mut holder, lease_id).await;
        }
    };
    let (grants, ()) = tokio::join!(crowd(clients, watch, ("shared", PERMITS)), releases);
    grants[WAITERS - 1].saturating_since(grants[0]).as_secs_f64()
}
