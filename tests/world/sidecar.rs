//! A sidecar: the real coordinator over the real Azure adapter, and what gRPC does between it and its
//! clients.

use std::future::Future;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::coordinator::{
    CallError, Coordinator, Entropy, HeldEvent, HoldEvent, HoldRequest, HoldStream, Host,
    KeyRequest, NoObserver, ResumeRequest, Settings,
};
use leasehold::host_id::{FromHostType, Provider};
use leasehold::lock::{
    Container, HostId, HostType, Layout, LockKey, LockMode, LockPath, Namespace, Prefix,
};
use leasehold::scheduler::Scheduler;
use leasehold::store::LeaseStore;
use leasehold::store::Secret;
use leasehold::store::azure::{AzureCredential, AzureSettings, AzureStore};
use leasehold::testing::SeededRandom;
use tokio::sync::{mpsc, oneshot, watch};

use crate::kit::millis;
use crate::world::chance::About;
use crate::world::cost::Cause;
use crate::world::handed_on;
use crate::world::justice::{self, Told};
use crate::world::link::Link;
use crate::world::notices;
use crate::world::planted::{Bug, Life, Planted};
use crate::world::promises::Wants;
use crate::world::shared::{MachineClock, World};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// `max_hold` of unary calls that do not say.
pub(crate) const MAX_HOLD: Duration = Duration::from_secs(30);
pub(crate) const POLL_CAP: Duration = Duration::from_secs(5);

/// What is added to the number of a sidecar whose way to the service goes on for ever (`planted.rs`).
const ENDLESS: u32 = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct Sidecar {
    pub(crate) index: usize,
    pub(crate) life: u32,
    pub(crate) coordinator: Coordinator,
    pub(crate) scheduler: Scheduler,
    pub(crate) clock: MachineClock,
    world: World,
    alive: Arc<AtomicBool>,
    died: Arc<watch::Sender<bool>>,
}

/// Lease ids and jitter from the seed.
#[derive(Debug)]
struct Seeded(Mutex<SeededRandom>);

impl Entropy for Seeded {
    fn bits(&self) -> u128 {
        let mut random = self.0.lock().unwrap();
        u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
    }
}

impl Sidecar {
    pub(crate) fn start(world: &World, index: usize, life: u32) -> Self {
        let alive = Arc::new(AtomicBool::new(true));
        let clock = MachineClock::new(world, index);
        let wires = [
            Arc::new(Link::new(world, index, life, Arc::clone(&alive))),
            Arc::new(Link::new(world, index, ENDLESS + life, Arc::new(AtomicBool::new(true)))),
        ];
        let shared_clock: Arc<MachineClock> = Arc::new(clock.clone());
        let of = Arc::clone(&shared_clock);
        let connect = move |life: Life| {
            let wire = Arc::clone(&wires[usize::from(life == Life::Endless)]);
            let store = AzureStore::over(wire as _, &azure_settings(), Arc::clone(&of) as _);
            Arc::new(store.unwrap()) as Arc<dyn LeaseStore>
        };
        let store = Planted::wrap(world, index, connect);
        let random = world.state().chance.of(About::Plan, 1 + index, u64::from(life));
        let coordinator = Coordinator::with_entropy(
            store,
            shared_clock,
            Arc::new(NoObserver),
            settings(world),
            Arc::new(Seeded(Mutex::new(random))),
        );
        let died = Arc::new(watch::Sender::new(false));
        let scheduler = Scheduler::new(coordinator.clone());
        Self { index, life, coordinator, scheduler, clock, world: world.clone(), alive, died }
    }

    /// The process is gone: nothing that it sends arrives, and nobody hears it. Its tasks run on, unheard.
    pub(crate) fn die(&self) {
        self.alive.store(false, Ordering::Relaxed);
        self.died.send_replace(true);
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    pub(crate) async fn dead(&self) {
        let mut died = self.died.subscribe();
        let _ = died.wait_for(|died| *died).await;
    }

    /// A call over the network; none if its answer never comes.
    pub(crate) async fn call<T>(&self, client: usize, work: impl Future<Output = T>) -> Option<T> {
        let done = self.call_surely(client, work).await;
        match self.loses_reply(client) {
            Some(after) => {
                tokio::time::sleep(after).await;
                None
            }
            None => done,
        }
    }

    /// Whether the answer of a call is lost, and how long its client waits for it.
    pub(crate) fn loses_reply(&self, client: usize) -> Option<Duration> {
        let faults = self.world.plan().client_faults;
        let lost = self.world.fault(About::LoseReply, client, faults);
        lost.map(|mut random| millis(&mut random, 0, 5_000))
    }

    /// A call whose answer comes unless the sidecar dies.
    pub(crate) async fn call_surely<T>(
        &self,
        client: usize,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut random = self.world.draw(About::Delay, 100 + client);
        tokio::time::sleep(millis(&mut random, 1, 20)).await;
        if !self.is_alive() {
            return None;
        }
        let done = tokio::select! {
            biased;
            () = self.dead() => None,
            done = work => Some(done),
        };
        tokio::time::sleep(millis(&mut random, 1, 20)).await;
        done
    }

    pub(crate) fn hold(&self, request: &HoldRequest) -> Result<Stream, CallError> {
        let path = self.path(&request.key);
        self.calls_for(&path, Cause::Caller);
        let stream = self.coordinator.hold(request)?;
        Ok(self.pumped(stream, path, (None, Wants::of(request))))
    }

    pub(crate) fn resume(
        &self,
        request: &ResumeRequest,
        path: &LockPath,
        token: u64,
    ) -> Result<Stream, CallError> {
        if self.world.has(Bug::LimitsRefuseResumes)
            && self.coordinator.gauges().holds >= self.world.plan().max_holds
        {
            return Err(CallError::TooManyHolds { limit: self.world.plan().max_holds });
        }
        self.calls_for(path, Cause::Resume);
        self.world.state().unreturned.hold(path, token);
        let stream = self.coordinator.resume(request)?;
        Ok(self.pumped(stream, path.clone(), (Some(token), Wants::default())))
    }

    /// What a client asks for calls for requests.
    pub(crate) fn calls_for(&self, path: &LockPath, cause: Cause) {
        let spans = (self.world.plan().shortest_lease(), self.world.now());
        self.world.state().checks.costs.calls_for((self.index, path.as_str()), cause, spans);
    }

    pub(crate) fn path(&self, key: &KeyRequest) -> LockPath {
        self.coordinator.host().resolve(key).unwrap().path
    }

    fn pumped(
        &self,
        stream: HoldStream,
        path: LockPath,
        (resumes, wants): (Option<u64>, Wants),
    ) -> Stream {
        let (told, events, ended) = Stream::new();
        let key = resumes.map(|token| (path.clone(), token));
        let number = self.world.state().checks.new_stream(key);
        let pump = Pump { sidecar: self.clone(), number, path, resumes, wants, events };
        tokio::spawn(pump.run(stream, ended));
        told
    }
}

/// How a stream ends on the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Seen to be closed by a client that knows.
    Closed,
    /// Nobody on the other end, which may not know.
    Silent,
}

/// A stream, as its client has it. Dropped without a word it is closed.
#[derive(Debug)]
pub(crate) struct Stream<Event = HoldEvent> {
    told: mpsc::UnboundedReceiver<Event>,
    end: Option<oneshot::Sender<End>>,
}

impl<Event: Send + 'static> Stream<Event> {
    /// A stream, where its events come in, and how it is ended.
    pub(crate) fn new() -> (Self, mpsc::UnboundedSender<Event>, oneshot::Receiver<End>) {
        let (events, told) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        (Self { told, end: Some(end) }, events, ended)
    }

    /// The next that is told; none when the connection is over.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        self.told.recv().await
    }

    pub(crate) fn end(mut self, how: End) {
        if let Some(end) = self.end.take() {
            let _ = end.send(how);
        }
    }

    /// The connection is broken; the sidecar notices later.
    pub(crate) fn breaks(self, noticed_after: Duration) {
        tokio::spawn(async move {
            tokio::time::sleep(noticed_after).await;
            self.end(End::Silent);
        });
    }
}

/// Brings what is told from the coordinator to the client, and shows it to the checks first.
struct Pump {
    sidecar: Sidecar,
    number: u64,
    path: LockPath,
    /// The token of the hold that this stream goes on with.
    resumes: Option<u64>,
    wants: Wants,
    events: mpsc::UnboundedSender<HoldEvent>,
}

impl Pump {
    async fn run(self, mut stream: HoldStream, mut ended: oneshot::Receiver<End>) {
        let mut over = false;
        loop {
            let event = tokio::select! {
                biased;
                () = self.sidecar.dead() => return,
                how = &mut ended => {
                    self.is_unheard(how == Ok(End::Silent) && !over);
                    match how {
                        Ok(End::Silent) => stream.disconnected(),
                        Ok(End::Closed) | Err(_) if over => stream.closed_by_client(),
                        Ok(End::Closed) | Err(_) => drop(stream),
                    }
                    return;
                }
                event = stream.next(), if !over => event,
            };
            match event {
                Some(event) => {
                    self.judge(&event);
                    over = event.is_last();
                    let _ = self.events.send(event);
                }
                None => over = true,
            }
        }
    }

    /// Nobody reads on, and perhaps the sidecar is not told whether its client knows.
    fn is_unheard(&self, is_silent: bool) {
        let mut state = self.sidecar.world.state();
        state.checks.unheard.insert(self.number);
        match state.checks.told.get(&self.number) {
            _ if !is_silent => {}
            Some(Told::Held { token, .. }) => {
                let token = *token;
                state.unreturned.hold(&self.path, token);
            }
            _ => state.unreturned.path(&self.path),
        }
    }

    fn judge(&self, event: &HoldEvent) {
        let world = &self.sidecar.world;
        let until = |validity: &leasehold::coordinator::Validity| {
            self.sidecar.clock.true_time(&validity.valid_until)
        };
        let now = world.now();
        let mut state = world.state();
        let state = &mut *state;
        let text = crate::world::story::told(event);
        state.story.note(now, || {
            format!("  {}   tells stream {} {text}", self.sidecar.index, self.number)
        });
        state.story.count(format!("told: {}", text.split(':').next().unwrap_or_default()));
        let sidecar = (self.sidecar.index, self.sidecar.life);
        let (number, path, resumes, wants) = (self.number, &self.path, self.resumes, self.wants);
        let stream = justice::Stream { number, sidecar, path, resumes, wants };
        if let (
            HoldEvent::Held(HeldEvent::Revoked { validity, .. }),
            Some(Told::Held { token, .. }),
        ) = (event, state.checks.told.get(&number))
        {
            notices::watch(world, &self.sidecar, number, (path, *token), until(validity));
        }
        if let HoldEvent::Granted(grant) = event {
            handed_on::watch(world, &self.sidecar, number, (path, grant));
        }
        if let Some(what) = justice::judge(state, stream, (event, &until), now) {
            state.fail(what, now);
        }
    }
}

pub(crate) fn key(lock: usize) -> KeyRequest {
    let name = ["nightly", "hourly"][lock];
    let key = LockKey::new(name, "", LockMode::Function).unwrap();
    KeyRequest { key, host_id: None, host_type: None }
}

fn azure_settings() -> AzureSettings {
    let credential = AzureCredential::ClientSecret {
        tenant_id: "tenant".to_owned(),
        client_id: "client".to_owned(),
        secret: Secret::new("secret"),
    };
    let endpoint = Some("https://world.blob.core.windows.net".to_owned());
    let authority_host = Some("https://sign-in.world".to_owned());
    let defaults = AzureSettings::new(credential);
    AzureSettings { endpoint, authority_host, create_container: true, ..defaults }
}

fn settings(world: &World) -> Settings {
    let host_type = HostType::parse("Keeper-A").unwrap();
    let provider = Provider::HostType(FromHostType::new(host_type.clone()));
    Settings {
        host: Host {
            namespace: Namespace {
                container: Container::parse("leasehold").unwrap(),
                prefix: Prefix::parse("locks").unwrap(),
                layout: world.plan().layout,
            },
            host_id: HostId::parse("739df1faf6c08e78a883736d006f2964").unwrap(),
            host_type,
            provider: "host-type".to_owned(),
            allow_override: true,
            host_id_of: provider.host_id_of(),
        },
        hold: leasehold::hold::Settings { poll_cap: POLL_CAP, hand_off: 5 * SECOND },
        lease_duration: Duration::from_secs(world.plan().lease),
        max_hold_default: MAX_HOLD,
        holder: "world".to_owned(),
        sidecar: "sidecar".into(),
        max_holds: world.plan().max_holds,
        max_waiters: 1_000,
        max_resumes: 1_000,
        remembered_locks: world.plan().remembered_locks,
        followed_bytes: 1024 * 1024,
        starts_per_second: 50,
        allow_break: true,
        allow_schedule_changes: true,
        revision: leasehold::coordinator::REVISION,
        function_instance: world.plan().layout == Layout::WebJobs
            && !world.has(Bug::LastRecordedHidden),
    }
}
