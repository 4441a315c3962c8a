//! A sidecar in a thread of its own, with the runtime that `leasehold serve` has, and ways to it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use leasehold::coordinator::{Coordinator, Host, NoObserver, Observer, Settings};
use leasehold::grpc::{self, Limits, Server, UnixSettings};
use leasehold::host_id::{FromHostType, Provider};
use leasehold::lock::{Container, HostType, Layout, Namespace, Prefix};
use leasehold::scheduler::Scheduler;
use leasehold::store::{LeaseStore, MemoryStore};
use leasehold::testing::{FaultPlan, FaultyStore};
use leasehold::time::{BootClock, Clock};
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    AcquireLeaseRequest, Grant, LeaseSpec, LockKey, ReleaseLeaseRequest, SaveCheckpointRequest,
    acquire_lease_response,
};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

pub(crate) type Client = LeaseServiceClient<Channel>;

const DAY: Duration = Duration::from_secs(86_400);

/// Runs `work` on a runtime of its own until the process ends; comes back when it is ready.
pub(crate) fn in_thread<F: Future<Output = ()>>(
    work: impl FnOnce(mpsc::Sender<()>) -> F + Send + 'static,
) {
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || runtime().block_on(work(ready)));
    is_ready.recv().unwrap();
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn coordinator(store: Arc<dyn LeaseStore>, observer: Arc<dyn Observer>) -> Coordinator {
    coordinator_on(store, observer, Arc::new(BootClock::new()))
}

pub(crate) fn coordinator_on(
    store: Arc<dyn LeaseStore>,
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
) -> Coordinator {
    let host_type = HostType::parse("Bench").unwrap();
    let provider = Provider::HostType(FromHostType::new(host_type.clone()));
    let settings = Settings {
        host: Host {
            namespace: Namespace {
                container: Container::parse("leasehold").unwrap(),
                prefix: Prefix::parse("locks").unwrap(),
                layout: Layout::Readable,
            },
            host_id: provider.as_dyn().provide().unwrap().host_id,
            host_type,
            provider: "host-type".to_owned(),
            allow_override: true,
            host_id_of: provider.host_id_of(),
        },
        hold: leasehold::hold::Settings {
            poll_cap: Duration::from_secs(5),
            hand_off: Duration::from_secs(5),
        },
        lease_duration: Duration::from_secs(60),
        max_hold_default: Duration::from_secs(3_600),
        holder: "bench".to_owned(),
        sidecar: "sidecar".into(),
        max_holds: 200_000,
        max_waiters: 20_000,
        max_resumes: 20_000,
        starts_per_second: 50,
        remembered_locks: 1_000,
        followed_bytes: 1024 * 1024 * 1024,
        allow_break: false,
        allow_schedule_changes: false,
        revision: leasehold::coordinator::REVISION,
        function_instance: false,
    };
    Coordinator::new(store, clock, observer, settings)
}

/// One of several ways to one store, without faults.
pub(crate) fn wire(memory: &Arc<MemoryStore>, clock: Arc<dyn Clock>) -> FaultyStore<MemoryStore> {
    FaultyStore::new(Arc::clone(memory), clock, 0, FaultPlan::default())
}

/// Serves `store` on `socket` until the process ends.
pub(crate) async fn serve(
    socket: PathBuf,
    store: Arc<dyn LeaseStore>,
    observer: Arc<dyn Observer>,
    ready: impl FnOnce(),
) {
    let settings = grpc::Settings {
        tcp: None,
        unix: Some(UnixSettings { path: socket, allowed_uids: Vec::new() }),
        connections: 128,
        streams_per_connection: 256,
        header_list_bytes: 16_384,
        ..grpc::Settings::default()
    };
    let server = Server::bind(settings).await.unwrap();
    ready();
    let limits = Limits {
        max_hold_ceiling: DAY,
        max_hold_default: DAY,
        wait_ceiling: DAY,
        store: "memory",
        hand_over: false,
    };
    server
        .run(Scheduler::new(coordinator(store, observer)), limits, CancellationToken::new())
        .await
        .unwrap();
}

/// The same, in a thread.
pub(crate) fn start(socket: &Path, store: Arc<dyn LeaseStore>) {
    let socket = socket.to_owned();
    in_thread(move |ready| async move {
        serve(socket, store, Arc::new(NoObserver), move || ready.send(()).unwrap()).await;
    });
}

pub(crate) async fn connect(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://socket").connect_with_connector(connector).await.unwrap()
}

pub(crate) async fn acquire(client: &mut Client, function: &str, wait: i64) -> Grant {
    acquire_one_of(client, function, wait, 1).await
}

/// One of so many permits of a lock.
pub(crate) async fn acquire_one_of(
    client: &mut Client,
    function: &str,
    wait: i64,
    permits: u32,
) -> Grant {
    let spec = LeaseSpec {
        key: Some(LockKey { function: function.to_owned(), ..LockKey::default() }),
        wait: Some(prost_types::Duration { seconds: wait, nanos: 0 }),
        permits: Some(permits),
        ..LeaseSpec::default()
    };
    let answer =
        client.acquire_lease(AcquireLeaseRequest { spec: Some(spec), needs: 0 }).await.unwrap();
    match answer.into_inner().outcome.unwrap() {
        acquire_lease_response::Outcome::Granted(grant) => grant,
        other @ (acquire_lease_response::Outcome::Busy(_)
        | acquire_lease_response::Outcome::AlreadyDone(_)
        | acquire_lease_response::Outcome::Skipped(_)) => panic!("{other:?}"),
    }
}

pub(crate) async fn save(client: &mut Client, grant: &Grant, value: &[u8]) {
    let (lease_id, generation) = (grant.lease_id.clone(), grant.generation);
    let request = SaveCheckpointRequest { lease_id, generation, value: value.to_vec() };
    client.save_checkpoint(request).await.unwrap();
}

pub(crate) async fn release(client: &mut Client, lease_id: String) {
    client
        .release_lease(ReleaseLeaseRequest { lease_id, ..ReleaseLeaseRequest::default() })
        .await
        .unwrap();
}
