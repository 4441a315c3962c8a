//! What a fenced grant costs over the storage calls that it is made of.

use std::sync::Arc;
use std::time::Duration;

use leasehold::lock::{Container, Fields, LeaseId, LockPath};
use leasehold::store::azure::{AzureCredential, AzureSettings, AzureStore, Secret};
use leasehold::store::{Acquire, LeaseStore, Write};
use leasehold::testing::Azurite;
use leasehold::time::BootClock;
use uuid::Uuid;

use crate::fake_service;
use crate::figure::{Figures, Stopwatch, median};
use crate::sidecar::{self, Client, acquire, connect, release, runtime};

const WARM_UP: usize = 50;
const ROUNDS: usize = 400;

pub(crate) fn measure(figures: &mut Figures) {
    let (grant, _, call, _) = runtime().block_on(compare(&fake_service::start()));
    let limit = 2.15 * call + 0.000_2;
    let name = "AcquireLease, warm, over one raw storage call (fake service)";
    figures.at_most(name, grant / call, limit / call, " ×");
    let azurite = Azurite::start().unwrap();
    let (_, cycle, _, direct) = runtime().block_on(compare(&azurite.connection_string()));
    let name = "AcquireLease + ReleaseLease over the same storage calls (Azurite)";
    figures.at_most(name, cycle / direct, 1.15, " ×");
}

/// Medians in seconds: AcquireLease; with ReleaseLease; one raw call; the same storage calls made directly.
async fn compare(connection: &str) -> (f64, f64, f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let store = || {
        let credential = AzureCredential::ConnectionString(Secret::new(connection));
        let settings = AzureSettings { create_container: true, ..AzureSettings::new(credential) };
        Arc::new(AzureStore::new(&settings, Arc::new(BootClock::new())).unwrap())
    };
    sidecar::start(&socket, store());
    let mut client = Client::new(connect(&socket).await);
    let direct = Direct { store: store(), path: path() };
    let watch = Stopwatch::new();
    let mut times: [Vec<Duration>; 4] = Default::default();
    for round in 0..WARM_UP + ROUNDS {
        let (grant, acquiring) = watch.time(acquire(&mut client, "warm", 0)).await;
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

/// The storage calls of a grant and its release, by the same SDK and nothing else.
struct Direct {
    store: Arc<AzureStore>,
    path: LockPath,
}

fn path() -> LockPath {
    LockPath::from_parts(&Container::parse("leasehold").unwrap(), "locks/direct")
}

impl Direct {
    /// How long one call takes, and all of them.
    async fn cycle(&self, watch: &Stopwatch) -> (Duration, Duration) {
        let lease_id = LeaseId::from_uuid(Uuid::new_v4());
        let request = Acquire { lease_id, duration: Duration::from_secs(60), if_match: None };
        let (acquired, call) = watch.time(self.store.acquire(&self.path, request)).await;
        let etag = acquired.unwrap().etag;
        let fields = Fields::from([
            ("leasehold_token".to_owned(), "117522489737216".to_owned()),
            ("leasehold_holder".to_owned(), "bench".to_owned()),
            ("leasehold_host_type".to_owned(), "Bench".to_owned()),
            ("leasehold_function".to_owned(), "direct".to_owned()),
        ]);
        let write = Write { lease_id, if_match: Some(etag), fields };
        let (written, writing) = watch.time(self.store.write_record(&self.path, write)).await;
        let etag = written.unwrap().etag;
        let released = self.store.release(&self.path, lease_id, Some(etag));
        let (released, releasing) = watch.time(released).await;
        released.unwrap();
        (call, call + writing + releasing)
    }
}
