//! The real binary under callers that say nothing, say half, or ask for all there is (S38): others are served, and its
//! memory stays within its limit. `LEASEHOLD_TEST_DOOR_SECONDS=120` is the long form.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold::time::{BootClock, Clock as _};
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    HoldLeaseRequest, LeaseSpec, LockKey, ResolvePathRequest, WatchLocksRequest, hold_lease_request,
};
use rustix::process::{Resource, Rlimit, Signal};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::process::{BINARY, PATIENCE, number, until};

/// Silent connections a second.
const RATE: u64 = 500;
/// An answer that comes later than this is late.
const IN_TIME: Duration = Duration::from_secs(1);
const MIB: u64 = 1024 * 1024;

/// A sidecar with an address, a socket, and a socket for probes.
struct Sidecar {
    folder: tempfile::TempDir,
    child: Child,
    address: SocketAddr,
}

impl Sidecar {
    async fn start(settings: &[&str]) -> Self {
        Self::start_by(Command::new(BINARY), settings).await
    }

    /// The same by a command that becomes it.
    async fn start_by(mut command: Command, settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        command.arg("serve");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let ours = [
            format!("listen.tcp={address}"),
            format!("listen.unix={}", at("s")),
            format!("listen.probes={}", at("p")),
            "admin.listen=".to_owned(),
            "store.kind=memory".to_owned(),
            "host_id.host_type=door".to_owned(),
        ];
        for setting in ours.iter().map(String::as_str).chain(settings.iter().copied()) {
            command.args(["--set", setting]);
        }
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = child.spawn().unwrap();
        let sidecar = Self { folder, child, address };
        let probe = || {
            let mut probe = Command::new(BINARY);
            let endpoint = format!("unix://{}", sidecar.socket("p").display());
            probe.args(["probe", "--endpoint", &endpoint]).stderr(Stdio::null());
            probe.stdout(Stdio::null()).status().unwrap().success().then_some(())
        };
        until("the sidecar is up", || sidecar.log(), probe).await;
        sidecar
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A line of its status, in bytes.
    fn memory(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        let kib: u64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().unwrap();
        kib * 1024
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("a sidecar wrote:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone, Debug)]
enum Way {
    Tcp { from: Ipv4Addr, to: SocketAddr },
    Unix(PathBuf),
}

enum Line {
    Tcp(#[expect(dead_code, reason = "held")] TcpStream),
    Unix(#[expect(dead_code, reason = "held")] UnixStream),
}

impl Way {
    async fn silent(&self) -> std::io::Result<Line> {
        Ok(match self {
            Self::Tcp { from, to } => Line::Tcp(tcp(*from, *to).await?),
            Self::Unix(path) => Line::Unix(UnixStream::connect(path).await?),
        })
    }

    async fn channel(&self) -> Result<Channel, tonic::transport::Error> {
        let way = self.clone();
        let endpoint = Endpoint::from_static("http://sidecar");
        let connector = tower::service_fn(move |_| {
            let way = way.clone();
            async move {
                Ok::<_, std::io::Error>(match way {
                    Self::Tcp { from, to } => TokioIo::new(Either::Tcp(tcp(from, to).await?)),
                    Self::Unix(path) => {
                        TokioIo::new(Either::Unix(UnixStream::connect(path).await?))
                    }
                })
            }
        });
        endpoint.connect_with_connector(connector).await
    }
}

async fn tcp(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(from), 0))?;
    socket.connect(to).await
}

/// A stream of either kind.
enum Either {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Either::Tcp($stream) => $call,
            Either::Unix($stream) => $call,
        }
    };
}

impl tokio::io::AsyncRead for Either {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl tokio::io::AsyncWrite for Either {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}

fn key(function: &str) -> LockKey {
    LockKey { function: function.to_owned(), ..LockKey::default() }
}

async fn ask(channel: Channel) -> Result<(), Status> {
    let request = ResolvePathRequest { key: Some(key("honest")) };
    LeaseServiceClient::new(channel).resolve_path(request).await.map(drop)
}

async fn ask_anew(way: &Way) -> Result<(), String> {
    let channel = way.channel().await.map_err(|error| format!("{error:?}"))?;
    ask(channel).await.map_err(|status| status.to_string())
}

async fn probe_anew(way: &Way) -> Result<(), String> {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    let channel = way.channel().await.map_err(|error| format!("{error:?}"))?;
    let asked = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    asked.map(drop).map_err(|status| status.to_string())
}

/// Silent connections by these ways, at the rate, each kept for as long as it is left open. Returns how many came.
async fn flood(ways: Vec<Way>, over: Arc<AtomicBool>) -> u64 {
    /// As many as 6 s have: by then a sidecar has closed them.
    const KEPT: usize = 3_000;
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let (mut open, mut came) = (VecDeque::new(), 0);
    let mut next = ways.iter().cycle();
    while !over.load(Ordering::Relaxed) {
        ticks.tick().await;
        for way in next.by_ref().take(usize::try_from(RATE / 50).unwrap()) {
            let connected = tokio::time::timeout(Duration::from_secs(5), way.silent()).await;
            if let Ok(Ok(line)) = connected {
                open.push_back(line);
                came += 1;
            }
        }
        while open.len() > KEPT {
            open.pop_front();
        }
    }
    came
}

/// How the honest fare: the longest time to an answer, which all get.
async fn honest(
    what: &'static str,
    over: Arc<AtomicBool>,
    mut call: impl AsyncFnMut() -> Result<(), String>,
) -> (Duration, u64) {
    let clock = BootClock::new();
    let (mut longest, mut calls) = (Duration::ZERO, 0);
    while !over.load(Ordering::Relaxed) {
        let begun = clock.now();
        let answered = tokio::time::timeout(PATIENCE, call()).await;
        answered
            .unwrap_or_else(|_| panic!("{what}: no answer"))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        longest = longest.max(clock.now() - begun);
        calls += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    (longest, calls)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_silent_connections_at_every_listener_keep_nobody_waiting() {
    let seconds = number("LEASEHOLD_TEST_DOOR_SECONDS", 4);
    let sidecar = Sidecar::start(&[]).await;
    let to = sidecar.address;
    let from = |last: u8| Way::Tcp { from: Ipv4Addr::new(127, 0, 0, last), to };
    let unix = |name: &str| Way::Unix(sidecar.socket(name));
    let crowds: [(&str, Vec<Way>); 4] = [
        ("TCP from one address", vec![from(1)]),
        ("TCP from fifty", (10..60).map(from).collect()),
        ("the socket", vec![unix("s")]),
        ("the socket for probes", vec![unix("p")]),
    ];
    for (name, ways) in crowds {
        let early = [from(2).channel().await.unwrap(), unix("s").channel().await.unwrap()];
        let used = unix("s").channel().await.unwrap();
        ask(used.clone()).await.unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let flood = tokio::spawn(flood(ways, Arc::clone(&over)));
        let stop = async {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            over.store(true, Ordering::Relaxed);
        };
        let (far, near, probes) = (from(3), unix("s"), unix("p"));
        let ((), by_tcp, by_unix, probed) = tokio::join!(
            stop,
            honest("a caller by TCP", Arc::clone(&over), async || ask_anew(&far).await),
            honest("a caller by the socket", Arc::clone(&over), async || ask_anew(&near).await),
            honest("a probe", Arc::clone(&over), async || probe_anew(&probes).await),
        );
        let came = flood.await.unwrap();
        let resident = sidecar.memory("VmRSS") / MIB;
        println!(
            "{name}: {came} silent connections in {seconds} s; the longest answers: TCP {:?} of {}, socket {:?} of {}, probe \
             {:?} of {}; resident {resident} MiB",
            by_tcp.0, by_tcp.1, by_unix.0, by_unix.1, probed.0, probed.1
        );
        assert!(came > seconds * RATE / 4, "{name}: {came} came");
        for channel in early.into_iter().chain([used]) {
            ask(channel).await.unwrap();
        }
        if seconds >= 60 {
            // Only where somebody asked for the long form: a busy machine is late on its own.
            assert!(by_tcp.0.max(by_unix.0).max(probed.0) < IN_TIME, "{name}: late");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_running_out_of_descriptors_is_told_and_callers_still_get_in() {
    let sidecar = Sidecar::start(&[]).await;
    let pid = Some(rustix::process::Pid::from_child(&sidecar.child));
    let open = std::fs::read_dir(format!("/proc/{}/fd", sidecar.child.id())).unwrap().count();
    let before = rustix::process::getrlimit(Resource::Nofile);
    let few = Rlimit { current: Some(open as u64 + 8), ..before };
    rustix::process::prlimit(pid, Resource::Nofile, few).unwrap();
    let way = Way::Tcp { from: Ipv4Addr::LOCALHOST, to: sidecar.address };
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(way.silent().await.unwrap());
    }
    let told = || sidecar.log().contains("no file descriptor is left").then_some(());
    until("the log says so", || sidecar.log(), told).await;
    // Whoever has just come may be the one that is spared: it comes again.
    while ask_anew(&way).await.is_err() {}
    while probe_anew(&Way::Unix(sidecar.socket("p"))).await.is_err() {}
    rustix::process::prlimit(pid, Resource::Nofile, before).unwrap();
    drop(silent);
    ask_anew(&way).await.unwrap();
}

#[tokio::test]
async fn s38_places_fit_below_a_small_limit_of_descriptors() {
    let mut command = Command::new("prlimit");
    command.args(["--nofile=200:200", BINARY]);
    let sidecar = Sidecar::start_by(command, &[]).await;
    assert!(sidecar.log().contains("limit of open files is too small"), "{}", sidecar.log());
    let (tcp, unix) = (
        Way::Tcp { from: Ipv4Addr::LOCALHOST, to: sidecar.address },
        Way::Unix(sidecar.socket("s")),
    );
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tcp.silent().await.unwrap());
        silent.push(unix.silent().await.unwrap());
    }
    ask_anew(&tcp).await.unwrap();
    ask_anew(&unix).await.unwrap();
    probe_anew(&Way::Unix(sidecar.socket("p"))).await.unwrap();
    assert!(!sidecar.log().contains("no file descriptor is left"), "{}", sidecar.log());
}

/// Lets the process run a tenth of the time, until it is dropped.
struct Slowed {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Slowed {
    fn new(child: &Child) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let pid = rustix::process::Pid::from_child(child);
        let stop = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let wait = |millis: u32| {
                let (reader, _writer) = std::io::pipe().unwrap();
                let mut fds = [rustix::event::PollFd::new(&reader, rustix::event::PollFlags::IN)];
                let span =
                    rustix::event::Timespec { tv_sec: 0, tv_nsec: i64::from(millis) * 1_000_000 };
                let _ = rustix::event::poll(&mut fds, Some(&span));
            };
            while !stop.load(Ordering::Relaxed) {
                rustix::process::kill_process(pid, Signal::STOP).unwrap();
                wait(45);
                rustix::process::kill_process(pid, Signal::CONT).unwrap();
                wait(5);
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_a_fleet_that_reconnects_to_a_sidecar_of_a_tenth_of_a_core_gets_in() {
    let clients = number("LEASEHOLD_TEST_DOOR_CLIENTS", 300);
    let sidecar = Sidecar::start(&[]).await;
    let way = Way::Tcp { from: Ipv4Addr::LOCALHOST, to: sidecar.address };
    let slowed = Slowed::new(&sidecar.child);
    let clock = BootClock::new();
    let begun = clock.now();
    let tries = Arc::new(AtomicU64::new(0));
    let mut fleet = JoinSet::new();
    for _ in 0..clients {
        let (way, tries) = (way.clone(), Arc::clone(&tries));
        fleet.spawn(async move {
            loop {
                tries.fetch_add(1, Ordering::Relaxed);
                if let Ok(channel) = way.channel().await
                    && ask(channel.clone()).await.is_ok()
                {
                    return channel;
                }
            }
        });
    }
    let all = tokio::time::timeout(PATIENCE, fleet.join_all()).await.expect("all get in");
    println!("{clients} clients were in after {:?}, with {tries:?} tries", clock.now() - begun);
    drop(slowed);
    for channel in all {
        ask(channel).await.unwrap();
    }
}

/// A request that begins with nearly all of a message, and never goes on.
struct Half(Option<Bytes>);

impl Body for Half {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

/// So many halves of messages over each of so many connections, for as long as the answer is kept.
async fn halves(
    socket: &Path,
    (connections, streams): (usize, usize),
    refused: &Arc<AtomicU64>,
) -> JoinSet<()> {
    const SIZE: usize = 65_000;
    let mut message = vec![0; SIZE + 5];
    message[1..5].copy_from_slice(&u32::try_from(SIZE + 100).unwrap().to_be_bytes());
    let message = Bytes::from(message);
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let stream = UnixStream::connect(socket).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tasks.spawn(async move { drop(connection.await) });
        for _ in 0..streams {
            let request =
                hyper::Request::post("http://sidecar/leasehold.v1.LeaseService/ResolvePath")
                    .header("content-type", "application/grpc")
                    .header("te", "trailers")
                    .body(Half(Some(message.clone())))
                    .unwrap();
            let sent = sender.send_request(request);
            let refused = Arc::clone(refused);
            tasks.spawn(async move {
                let answer = sent.await;
                let status = answer.as_ref().ok().and_then(|it| it.headers().get("grpc-status"));
                if status.is_some_and(|status| status == "8") {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
    tasks
}

fn long(number: usize) -> LeaseSpec {
    let label = |label: u32| (format!("label-{label}-{}", "l".repeat(40)), "v".repeat(60));
    LeaseSpec {
        key: Some(LockKey {
            scope: "s".repeat(180),
            ..key(&format!("job-{number}-{}", "f".repeat(180)))
        }),
        holder: "h".repeat(256),
        labels: (0..8).map(label).collect(),
        ..LeaseSpec::default()
    }
}

/// Opens a stream each, until so many were refused in a row or all are open.
async fn streams(
    way: &Way,
    count: usize,
    start: impl Fn(usize) -> LeaseSpec,
) -> (Vec<tonic::Streaming<leasehold_client::proto::HoldLeaseResponse>>, Vec<Status>) {
    let (mut open, mut refused) = (Vec::new(), Vec::new());
    let mut channel = way.channel().await.unwrap();
    for number in 0..count {
        if number % 200 == 199 {
            channel = way.channel().await.unwrap();
        }
        let start = hold_lease_request::Start::Spec(start(number));
        let request = HoldLeaseRequest { start: Some(start) };
        let mut stream = match LeaseServiceClient::new(channel.clone()).hold_lease(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => {
                refused.push(status);
                continue;
            }
        };
        match stream.message().await {
            Ok(_) => open.push(stream),
            Err(status) => refused.push(status),
        }
        if refused.len() > 50 {
            break;
        }
    }
    (open, refused)
}

/// What one more of a load costs, and whether the sidecar stayed within its limit.
fn within(sidecar: &Sidecar, what: &str, count: usize, before: u64, limit: u64) {
    let (now, most) = (sidecar.memory("VmRSS"), sidecar.memory("VmHWM"));
    println!(
        "{what}: {count}, resident {} MiB (before {}), at most {}, each {} bytes",
        now / MIB,
        before / MIB,
        most / MIB,
        now.saturating_sub(before) / u64::try_from(count.max(1)).unwrap()
    );
    assert!(most < limit, "{what}: {most} bytes are over the limit of {limit}");
}

fn names_a_limit(refused: &[Status]) {
    assert!(!refused.is_empty(), "nothing was refused");
    for status in refused {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.message().contains("limits."), "{status}");
    }
}

/// A sidecar that may use so much, in bytes, and has answered: what the first calls build is no part of what each further one
/// costs.
async fn of_little_memory() -> (Sidecar, u64, Way) {
    let mib = number("LEASEHOLD_TEST_DOOR_MEMORY", 128);
    let sidecar = Sidecar::start(&[&format!("limits.memory={mib}MiB")]).await;
    let way = Way::Unix(sidecar.socket("s"));
    for _ in 0..3 {
        ask_anew(&way).await.unwrap();
        ask_anew(&Way::Tcp { from: Ipv4Addr::LOCALHOST, to: sidecar.address }).await.unwrap();
    }
    (sidecar, mib * MIB, way)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_connections_cost_little_until_they_speak() {
    let (sidecar, limit, way) = of_little_memory().await;
    let before = sidecar.memory("VmRSS");
    let tcp = Way::Tcp { from: Ipv4Addr::LOCALHOST, to: sidecar.address };
    let mut silent = Vec::new();
    for _ in 0..1_000 {
        silent.push(tcp.silent().await.unwrap());
    }
    ask_anew(&way).await.unwrap();
    within(&sidecar, "silent connections", silent.len(), before, limit);
    drop(silent);

    let (sidecar, limit, way) = of_little_memory().await;
    let before = sidecar.memory("VmRSS");
    let mut used = Vec::new();
    for _ in 0..150 {
        used.push(way.channel().await.unwrap());
    }
    for channel in &used {
        ask(channel.clone()).await.unwrap();
    }
    within(&sidecar, "connections with a call", used.len(), before, limit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_halves_of_messages_do_not_fill_more_memory_than_the_limit() {
    let (sidecar, limit, _) = of_little_memory().await;
    let before = sidecar.memory("VmRSS");
    let refused = Arc::default();
    let tasks = halves(&sidecar.socket("s"), (64, 250), &refused).await;
    for _ in 0..20 {
        // Callers may be refused, by the name of the limit; probes are not.
        let way = Way::Tcp { from: Ipv4Addr::LOCALHOST, to: sidecar.address };
        if let Err(error) = ask_anew(&way).await {
            assert!(error.contains("limits.memory"), "{error}");
        }
        probe_anew(&Way::Unix(sidecar.socket("p"))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(refused.load(Ordering::Relaxed) > 1_000, "{refused:?} were refused");
    within(&sidecar, "halves of messages", 64 * 250, before, limit);
    drop(tasks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_holds_with_long_names_do_not_fill_more_memory_than_the_limit() {
    let (sidecar, limit, way) = of_little_memory().await;
    let before = sidecar.memory("VmRSS");
    let (held, refused) = streams(&way, 25_000, long).await;
    within(&sidecar, "holds with long names", held.len(), before, limit);
    names_a_limit(&refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_waits_do_not_fill_more_memory_than_the_limit() {
    let (sidecar, limit, way) = of_little_memory().await;
    let (_held, _) = streams(&way, 1, |_| long(1)).await;
    let before = sidecar.memory("VmRSS");
    let waits =
        |_| LeaseSpec { wait: Some(prost_types::Duration { seconds: 3_600, nanos: 0 }), ..long(1) };
    let (waiting, refused) = streams(&way, 25_000, waits).await;
    within(&sidecar, "waits", waiting.len(), before, limit);
    names_a_limit(&refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_watches_that_nobody_reads_do_not_fill_more_memory_than_the_limit() {
    let (sidecar, limit, way) = of_little_memory().await;
    let (_held, _) = streams(&way, 400, long).await;
    let before = sidecar.memory("VmRSS");
    let (mut watches, mut refused) = (Vec::new(), Vec::new());
    let mut channel = way.channel().await.unwrap();
    for number in 0..5_000 {
        if number % 200 == 199 {
            channel = way.channel().await.unwrap();
        }
        let mut client = LeaseServiceClient::new(channel.clone());
        match client.watch_locks(WatchLocksRequest::default()).await {
            Ok(watch) => watches.push(watch),
            Err(status) => refused.push(status),
        }
        if refused.len() > 50 {
            break;
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    within(&sidecar, "watches that nobody reads", watches.len(), before, limit);
    names_a_limit(&refused);
}
