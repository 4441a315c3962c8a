//! What a fenced grant costs over the storage calls that it is made of.

use std::sync::Arc;
use std::time::Duration;

use leasehold::lock::{Container, LeaseId, LockPath};
use leasehold::record::{ETag, Fields};
use leasehold::store::Secret;
use leasehold::store::azure::{AzureCredential, AzureSettings, AzureStore};
use leasehold::store::{Acquire, LeaseStoreExt as _, Write};
use leasehold::testing::Azurite;
use leasehold::time::BootClock;
use uuid::Uuid;

use crate::fake_service;
use crate::figure::{Figures, Stopwatch, median, typical};
use crate::sidecar::{self, Client, acquire, connect, release, runtime};

const WARM_UP: usize = 50;
const ROUNDS: usize = 200;

pub(crate) fn measure(figures: &mut Figures) {
    let fake = fake_service::start();
    let [ratio, limit] = typical(|| {
        let (grant, _, call, _) = runtime().block_on(compare(&fake));
        [grant / call, (2.15 * call + 0.000_2) / call]
    });
    let name = "AcquireLease, warm, over one raw storage call (fake service)";
    figures.at_most(name, ratio, limit, " ×");
    let azurite = Azurite::start().unwrap();
    let [ratio] = typical(|| {
        let (_, cycle, _, direct) = runtime().block_on(compare(&azurite.connection_string()));
        [cycle / direct]
    });
    let name = "AcquireLease + ReleaseLease over the same storage calls (Azurite)";
    figures.at_most(name, ratio, 1.15, " ×");
}

/// Medians in seconds: AcquireLease; with ReleaseLease; one raw call; the same storage calls made directly.
async fn compare(connection: &str) -> (f64, f64, f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    sidecar::start(&socket, store(connection));
    let mut client = Client::new(connect(&socket).await);
    // One of its own for each run: what was used before has its lease.
    let lock = format!("warm-{}", Uuid::new_v4());
    let warm = acquire(&mut client, &lock, 0).await;
    let mut direct = Direct::of(store(connection), &warm.lock_path).await;
    release(&mut client, warm.lease_id).await;
    let watch = Stopwatch::new();
    let mut times: [Vec<Duration>; 4] = Default::default();
    for round in 0..WARM_UP + ROUNDS {
        let (grant, acquiring) = watch.time(acquire(&mut client, &lock, 0)).await;
        let ((), releasing) = watch.time(release(&mut client, grant.lease_id)).await;
        let (call, cycle) = direct.cycle(&watch).await;
        if round >= WARM_UP {
            let measured = [acquiring, acquiring + releasing, call, cycle];
            times.iter_mut().zip(measured).for_each(|(times, time)| times.push(time));
        }
    }
    let [grant, cycle, call, direct] = times.map(median);
    (grant, cycle, call, direct)
}

pub(crate) fn store(connection: &str) -> Arc<AzureStore> {
    let credential = AzureCredential::ConnectionString(Secret::new(connection));
    let settings = AzureSettings { create_container: true, ..AzureSettings::new(credential) };
    Arc::new(AzureStore::new(&settings, Arc::new(BootClock::new())).unwrap())
}

/// The storage calls of a grant and its release, by the same SDK and nothing else.
pub(crate) struct Direct {
    store: Arc<AzureStore>,
    path: LockPath,
    /// What the sidecar writes.
    fields: Fields,
    /// The version that a sidecar would know.
    etag: Option<ETag>,
}

impl Direct {
    /// The calls that the sidecar makes for the lock `like`, made for one beside it.
    pub(crate) async fn of(store: Arc<AzureStore>, like: &str) -> Self {
        let (container, name) = like.split_once('/').unwrap();
        let container = Container::parse(container).unwrap();
        let like = store.read_record(&LockPath::from_parts(&container, name)).await.unwrap();
        let path = LockPath::from_parts(&container, &format!("{name}-direct"));
        Self { store, path, fields: like.fields, etag: None }
    }

    /// How long one call takes, and all of them.
    async fn cycle(&mut self, watch: &Stopwatch) -> (Duration, Duration) {
        let [call, writing, releasing] = self.calls(watch).await;
        (call, call + writing + releasing)
    }

    /// How long an acquire takes, a write, and a release.
    pub(crate) async fn calls(&mut self, watch: &Stopwatch) -> [Duration; 3] {
        let (lease_id, if_match) = (LeaseId::from_uuid(Uuid::new_v4()), self.etag.take());
        let request = Acquire { lease_id, duration: Duration::from_secs(60), if_match };
        let (acquired, call) = watch.time(self.store.acquire(&self.path, request)).await;
        let if_match = Some(acquired.unwrap().etag);
        let write = Write { lease_id, if_match, fields: self.fields.clone() };
        let (written, writing) = watch.time(self.store.write_record(&self.path, write)).await;
        let etag = written.unwrap().etag;
        let released = self.store.release(&self.path, lease_id, Some(etag.clone()));
        let (released, releasing) = watch.time(released).await;
        released.unwrap();
        self.etag = Some(etag);
        [call, writing, releasing]
    }
}
