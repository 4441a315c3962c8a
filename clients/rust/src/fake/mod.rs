//! For tests: a sidecar that does what a test says, and a clock that stands still.

mod numbered;
pub(crate) mod schedules;
mod scripted;
mod service;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::boot_clock::{BootInstant, Clock};
use crate::messages::wire_duration;
use crate::proto::hold_lease_response::Event;
use crate::proto::lease_service_server::LeaseServiceServer;
use crate::proto::schedule_service_server::ScheduleServiceServer;
use crate::proto::*;
use crate::{Client, ClientBuilder};
use numbered::Numbered;
use schedules::Schedules;
pub(crate) use scripted::{Scripted, base, in_memory, status};
use service::Service;

pub(crate) const OURS: &str = "kernel-a";
pub(crate) const ELSEWHERE: &str = "kernel-b";
/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Stands still until it is moved. Its kernel is [`OURS`], and it starts at 1,000 s.
#[derive(Debug)]
pub(crate) struct ManualClock(Mutex<Duration>);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(seconds(1_000))))
    }

    pub(crate) fn advance(&self, span: Duration) {
        *self.0.lock().unwrap() += span;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> BootInstant {
        BootInstant::from_boot(*self.0.lock().unwrap())
    }

    fn boot_id(&self) -> &str {
        OURS
    }
}

pub(crate) fn validity(boot_id: &str, until: u64, valid_for: u64) -> Validity {
    Validity {
        valid_until: Some(BootTime {
            boot_id: boot_id.to_owned(),
            since_boot: Some(wire_duration(seconds(until))),
        }),
        valid_for: Some(wire_duration(seconds(valid_for))),
    }
}

pub(crate) fn grant(validity: Validity) -> Event {
    Event::Granted(Grant {
        lease_id: "lease-1".to_owned(),
        resume_token: "resume-1".to_owned(),
        lock_path: "locks/p/h/f/s/FUNCTION".to_owned(),
        fencing_token: 65_536,
        generation: 1,
        validity: Some(validity),
        ..Grant::default()
    })
}

/// What a sidecar says that is too old for a request (S37).
pub(crate) fn too_old() -> Status {
    let numbers = [("needs", "2"), ("revision", "1")];
    let numbers = numbers.map(|(name, number)| (name.to_owned(), number.to_owned()));
    let metadata = HashMap::from(numbers);
    let details = ErrorDetails::with_error_info("UNSUPPORTED", "leasehold.dev", metadata);
    Status::with_error_details(tonic::Code::Unimplemented, "2 and 1", details)
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool + Send + Sync) {
    let poll = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, poll).await.is_ok(), "{what}");
}

/// A HoldLease call that the test answers.
pub(crate) struct HoldCall {
    pub(crate) start: hold_lease_request::Start,
    /// The trace that came with it, or nothing.
    pub(crate) traceparent: String,
    /// Over which connection it came, from 1.
    pub(crate) connection: usize,
    events: mpsc::Sender<Result<HoldLeaseResponse, Status>>,
}

impl HoldCall {
    pub(crate) async fn tell(&self, event: Event) {
        let event = Some(event);
        self.events.send(Ok(HoldLeaseResponse { event })).await.unwrap();
    }

    pub(crate) async fn fail(self, status: Status) {
        self.events.send(Err(status)).await.unwrap();
    }

    /// Waits until the client has ended the stream.
    pub(crate) async fn ended(&self) {
        let closed = tokio::time::timeout(PATIENCE, self.events.closed()).await;
        closed.expect("the client ends the stream");
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.events.is_closed()
    }
}

/// A SubscribeSchedule call that the test answers.
pub(crate) struct SubscribeCall {
    pub(crate) request: SubscribeScheduleRequest,
    /// Over which connection it came, from 1.
    pub(crate) connection: usize,
    events: mpsc::Sender<Result<SubscribeScheduleResponse, Status>>,
}

impl SubscribeCall {
    pub(crate) async fn tell(&self, event: subscribe_schedule_response::Event) {
        let event = Some(event);
        self.events.send(Ok(SubscribeScheduleResponse { event })).await.unwrap();
    }

    pub(crate) async fn fail(self, status: Status) {
        self.events.send(Err(status)).await.unwrap();
    }

    /// Waits until the client has ended the stream.
    pub(crate) async fn ended(&self) {
        let closed = tokio::time::timeout(PATIENCE, self.events.closed()).await;
        closed.expect("the client ends the stream");
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.events.is_closed()
    }
}

/// What the unary calls are answered with, and what was asked.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) report: Option<Result<Validity, Status>>,
    pub(crate) acquire: Option<acquire_lease_response::Outcome>,
    /// What an acquire is refused with before; the last one first.
    pub(crate) refused: Vec<Status>,
    pub(crate) release: Option<ReleaseResult>,
    pub(crate) save: Option<Result<SaveCheckpointResponse, Status>>,
    /// What else `GetHold` says.
    pub(crate) held: GetHoldResponse,
    /// The checkpoint of each lock.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// A release is never answered.
    pub(crate) hang_release: bool,
    /// What watches are answered with; the last one first.
    pub(crate) watches: Vec<Vec<Result<WatchLockResponse, Status>>>,
    /// The same of watches of many locks.
    pub(crate) listings: Vec<Vec<Result<WatchLocksResponse, Status>>>,
    pub(crate) on_release: Option<Box<dyn Fn() + Send>>,
    /// What completions are answered with; the last one first, and RECORDED when there is none.
    pub(crate) completions: Vec<Result<CompletionResult, Status>>,
    pub(crate) asked: Vec<String>,
    /// Over which connections releases, acquires and completions came.
    pub(crate) connections: Vec<usize>,
    /// Takes and answers the calls of a holder instead.
    pub(crate) scripted: Option<Arc<Scripted>>,
}

/// A sidecar on a Unix socket of its own, in a runtime of its own: dropped, it is gone as if killed.
pub(crate) struct FakeSidecar {
    runtime: Option<Runtime>,
    pub(crate) script: Arc<Mutex<Script>>,
    holds: mpsc::UnboundedReceiver<HoldCall>,
    subscriptions: mpsc::UnboundedReceiver<SubscribeCall>,
}

impl FakeSidecar {
    pub(crate) fn start(socket: &Path) -> Self {
        let _stale = std::fs::remove_file(socket);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (calls, holds) = mpsc::unbounded_channel();
        let script = Arc::new(Mutex::new(Script::default()));
        let service = Service { script: Arc::clone(&script), calls };
        let (subscribers, subscriptions) = mpsc::unbounded_channel();
        let schedules = Schedules { script: Arc::clone(&script), subscribers };
        let _in_runtime = runtime.enter();
        let mut number = 0;
        let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
        let incoming = incoming.map(move |stream| {
            number += 1;
            stream.map(|stream| Numbered { stream, number })
        });
        let server = tonic::transport::Server::builder()
            .add_service(LeaseServiceServer::new(service))
            .add_service(ScheduleServiceServer::new(schedules))
            .serve_with_incoming(incoming);
        runtime.spawn(async move { server.await.unwrap() });
        Self { runtime: Some(runtime), script, holds, subscriptions }
    }

    pub(crate) async fn subscription(&mut self) -> SubscribeCall {
        let call = tokio::time::timeout(PATIENCE, self.subscriptions.recv()).await;
        call.expect("SubscribeSchedule is called").unwrap()
    }

    pub(crate) async fn hold(&mut self) -> HoldCall {
        let call = tokio::time::timeout(PATIENCE, self.holds.recv()).await;
        call.expect("HoldLease is called").unwrap()
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.script.lock().unwrap().asked.clone()
    }
}

impl Drop for FakeSidecar {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A fake sidecar, a clock, and a client between them.
pub(crate) struct Bench {
    pub(crate) sidecar: FakeSidecar,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) client: Client,
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let sidecar = FakeSidecar::start(&socket(&folder));
        let client = Self::builder(&folder, &clock).connect().await.unwrap();
        Self { sidecar, clock, client, folder }
    }

    fn builder(folder: &tempfile::TempDir, clock: &Arc<ManualClock>) -> ClientBuilder {
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
        Client::builder(format!("unix://{}", socket(folder).display())).clock(clock)
    }

    /// The same, with a client that waits as `change` says.
    pub(crate) async fn with(change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        let mut bench = Self::new().await;
        bench.client = change(bench.another()).connect().await.unwrap();
        bench
    }

    pub(crate) fn another(&self) -> ClientBuilder {
        Self::builder(&self.folder, &self.clock)
    }

    /// Kills the sidecar; `start` makes a new one.
    pub(crate) fn kill(&mut self) {
        self.sidecar.runtime.take().unwrap().shutdown_background();
    }

    pub(crate) fn start(&mut self) {
        self.sidecar = FakeSidecar::start(&socket(&self.folder));
    }
}

fn socket(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("leasehold.sock")
}
