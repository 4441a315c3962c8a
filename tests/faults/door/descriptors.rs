//! A sidecar that has no file descriptor left, or few to begin with.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::testing::Azurite;
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    AcquireLeaseRequest, AcquireLeaseResponse, LeaseSpec, acquire_lease_response::Outcome,
};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{Sidecar, ask, ask_anew, get, hold_over, key, probe_anew};
use crate::faults::process::{PATIENCE, program, until};
use crate::faults::proxy::{Proxy, Weather};
use crate::faults::statistics::Statistics;

/// So few file descriptors that the process can open no other.
const NONE: u64 = 1;
/// What the log says of a request that needed one.
const NOT_SENT: &str = "a request to the store was not sent";

/// Leaves a sidecar so many file descriptors; answers what it had.
fn limit(sidecar: &Sidecar, descriptors: Option<u64>) -> Option<u64> {
    let few = Rlimit { current: descriptors, ..getrlimit(Resource::Nofile) };
    let before = prlimit(Some(Pid::from_child(&sidecar.child)), Resource::Nofile, few).unwrap();
    before.current
}

/// Does it until it comes out as it must.
async fn again<T>(sidecar: &Sidecar, what: &str, mut step: impl AsyncFnMut() -> Option<T>) -> T {
    let done = async {
        loop {
            if let Some(done) = step().await {
                return done;
            }
        }
    };
    match tokio::time::timeout(PATIENCE, done).await {
        Ok(done) => done,
        Err(_) => panic!("not {what}; {}", sidecar.log()),
    }
}

/// A caller whose connection is open.
struct Connected(Channel);

impl Connected {
    async fn to(sidecar: &Sidecar) -> Self {
        let channel = sidecar.unix().channel().await.unwrap();
        // The sidecar has its descriptor once it has answered.
        ask(channel.clone()).await.unwrap();
        Self(channel)
    }

    async fn acquire(&self, function: &str) -> Result<AcquireLeaseResponse, Status> {
        let spec = LeaseSpec { key: Some(key(function)), ..LeaseSpec::default() };
        let request = AcquireLeaseRequest { spec: Some(spec), needs: 0 };
        let mut client = LeaseServiceClient::new(self.0.clone());
        client.acquire_lease(request).await.map(tonic::Response::into_inner)
    }

    /// Takes a lock that nobody has had, of which no sidecar knows anything.
    async fn acquire_another(&self) -> Result<(), Status> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("job-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let outcome = self.acquire(&name).await?.outcome.unwrap();
        assert!(matches!(outcome, Outcome::Granted(_)), "{outcome:?}");
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        let asked = HealthClient::new(self.0.clone()).check(HealthCheckRequest::default()).await;
        asked.unwrap().into_inner().status() == ServingStatus::Serving
    }

    /// Asks until it is told that a descriptor is missing, and the sidecar is not ready.
    async fn is_told(&self, sidecar: &Sidecar, operation: &str) {
        let missing = format!("no file descriptor is left to {operation}");
        let status = again(sidecar, "told", async || {
            self.acquire_another().await.err().filter(|status| status.message().contains(&missing))
        });
        let status = status.await;
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.message().contains("raise the limit of open files"), "{status}");
        let logged = || {
            let log = sidecar.log();
            let mut lines = log.lines().filter(|line| line.contains("WARN"));
            lines.any(|line| line.contains(NOT_SENT) && line.contains(&missing)).then_some(())
        };
        until("the log says so", || sidecar.log(), logged).await;
        let not_ready = async || {
            drop(self.acquire_another().await);
            (!self.is_ready().await).then_some(())
        };
        again(sidecar, "unready", not_ready).await;
    }

    /// Waits until locks can be acquired, and what was not sent is counted.
    async fn goes_on(&self, sidecar: &Sidecar) {
        again(sidecar, "granted", async || self.acquire_another().await.ok()).await;
        again(sidecar, "ready", async || self.is_ready().await.then_some(())).await;
        let metrics = get(sidecar.admin, 5, "/metrics").await.unwrap();
        let counted = |line: &str| {
            line.starts_with("leasehold_store_requests_total")
                && line.contains("outcome=\"no_descriptors\"")
                && !line.ends_with(" 0")
        };
        assert!(metrics.lines().any(counted), "{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s18_a_connection_to_the_store_without_a_descriptor_is_told_and_costs_no_hold() {
    let azurite = Azurite::start().unwrap();
    let proxy = Proxy::start(&azurite, 1, Statistics::default()).await;
    let mut command = Command::new(program());
    command
        .env("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", proxy.connection_string(&azurite))
        .env_remove("AzureWebJobsStorage");
    let settings = ["store.kind=azure", "store.azure.create_container=true"];
    let sidecar = Sidecar::start_by(command, &settings).await;
    let caller = Connected::to(&sidecar).await;
    let spec = LeaseSpec { key: Some(key("held")), ..LeaseSpec::default() };
    let (held, _stream) = hold_over(caller.0.clone(), spec).await;
    let before = limit(&sidecar, Some(NONE));
    // So that the connections which are there are of no use.
    proxy.set(Weather::Gone);
    caller.is_told(&sidecar, "connect to 127.0.0.1").await;
    proxy.set(Weather::Calm);
    limit(&sidecar, before);
    caller.goes_on(&sidecar).await;
    let outcome = caller.acquire("held").await.unwrap().outcome.unwrap();
    assert!(matches!(outcome, Outcome::Busy(_)), "{outcome:?}");
    held.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s18_an_open_file_of_locks_needs_no_other_descriptor_and_opening_one_without_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("locks.db");
    let store = format!("store.embedded.path={}", file.display());
    let sidecar = Sidecar::start(&["store.kind=embedded", &store]).await;
    let caller = Connected::to(&sidecar).await;
    let before = limit(&sidecar, Some(NONE));
    for _ in 0..200 {
        caller.acquire_another().await.unwrap();
    }
    assert!(caller.is_ready().await);
    // Another file has its name for a while, and must be opened.
    let [aside, other] = ["aside", "other"].map(|name| folder.path().join(name));
    std::fs::rename(&file, &aside).unwrap();
    std::fs::copy(&aside, &other).unwrap();
    std::fs::rename(&other, &file).unwrap();
    caller.is_told(&sidecar, "open the file").await;
    std::fs::rename(&aside, &file).unwrap();
    limit(&sidecar, before);
    caller.goes_on(&sidecar).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_running_out_of_descriptors_is_told_and_callers_still_get_in() {
    let sidecar = Sidecar::start(&[]).await;
    let open = std::fs::read_dir(format!("/proc/{}/fd", sidecar.child.id())).unwrap().count();
    let before = limit(&sidecar, Some(open as u64 + 8));
    let way = sidecar.tcp(1);
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(way.connect().await.unwrap());
    }
    let told = || sidecar.log().contains("no file descriptor is left").then_some(());
    until("the log says so", || sidecar.log(), told).await;
    // Whoever has just come may be the one that is spared: it comes again.
    while ask_anew(&way).await.is_err() {}
    while probe_anew(&sidecar.probes()).await.is_err() {}
    limit(&sidecar, before);
    drop(silent);
    ask_anew(&way).await.unwrap();
}

#[tokio::test]
async fn s38_places_fit_below_a_small_limit_of_descriptors() {
    let mut command = Command::new("prlimit");
    command.args(["--nofile=200:200", program()]);
    let sidecar = Sidecar::start_by(command, &[]).await;
    assert!(sidecar.log().contains("limit of open files is too small"), "{}", sidecar.log());
    let (tcp, unix) = (sidecar.tcp(1), sidecar.unix());
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tcp.connect().await.unwrap());
        silent.push(unix.connect().await.unwrap());
    }
    ask_anew(&tcp).await.unwrap();
    ask_anew(&unix).await.unwrap();
    probe_anew(&sidecar.probes()).await.unwrap();
    assert!(!sidecar.log().contains("no file descriptor is left"), "{}", sidecar.log());
}
