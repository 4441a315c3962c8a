//! Callers that ask for all the memory there is: the sidecar stays within its limit, and says what it
//! refuses.

use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    HoldLeaseRequest, HoldLeaseResponse, LeaseSpec, LockKey, WatchLocksRequest, WatchLocksResponse,
    hold_lease_request, watch_locks_request, watch_locks_response,
};
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tonic::{Code, Status, Streaming};

use super::{
    Certificates, Line, MIB, Sidecar, Way, ask, ask_anew, hold, hold_over, key, probe_anew,
};
use crate::faults::process::{number, program};

const BRIEF: &str = "/leasehold.v1.LeaseService/ResolvePath";
const LASTING: &str = "/leasehold.v1.LeaseService/HoldLease";

/// A request that begins with nearly all of a message, or with none, and never goes on.
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
    way: &Way,
    (connections, streams): (usize, usize),
    (call, half): (&'static str, Option<Bytes>),
    refused: &Arc<AtomicU64>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let stream = way.connect().await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tasks.spawn(async move { drop(connection.await) });
        for _ in 0..streams {
            let request = hyper::Request::post(format!("http://sidecar{call}"))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(Half(half.clone()))
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

/// Nearly all of the largest message that there may be.
fn half() -> Bytes {
    const SIZE: usize = 65_000;
    let mut message = vec![0; SIZE + 5];
    message[1..5].copy_from_slice(&u32::try_from(SIZE + 100).unwrap().to_be_bytes());
    Bytes::from(message)
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

/// Opens a stream each, until many were refused, or all were tried if somebody has said how many.
async fn streams(
    way: &Way,
    start: impl Fn(usize) -> LeaseSpec,
) -> (Vec<Streaming<HoldLeaseResponse>>, Vec<Status>) {
    let (mut open, mut refused) = (Vec::new(), Vec::new());
    let mut channel = way.channel().await.unwrap();
    let tried = std::env::var("LEASEHOLD_TEST_DOOR_CALLS").ok().map(|tried| tried.parse().unwrap());
    for number in 0..tried.unwrap_or(25_000) {
        if number % 200 == 199 {
            channel = way.channel().await.unwrap();
        }
        let start = hold_lease_request::Start::Spec(start(number));
        let request = HoldLeaseRequest { start: Some(start), needs: 0 };
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
        if refused.len() > 50 && tried.is_none() {
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

/// Whether the callers, the metrics and the log have been told by which limit.
async fn names_the_limit(sidecar: &Sidecar, limit: &str, refused: &[Status]) {
    assert!(!refused.is_empty(), "nothing was refused");
    for status in refused {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.message().contains(&format!("limits.{limit}")), "{status}");
    }
    says(sidecar, limit, refused.len()).await;
}

async fn says(sidecar: &Sidecar, limit: &str, refused: usize) {
    let series = format!("leasehold_calls_refused_total{{limit=\"{limit}\"}}");
    let counted = sidecar.metric(&series).await;
    assert!(counted >= refused as u64, "{counted} of {refused} are counted");
    let log = sidecar.log();
    let line = log.lines().find(|line| line.contains("calls are refused at a limit"));
    assert!(line.is_some_and(|line| line.contains(&format!("limits.{limit}"))), "{log}");
    println!("{limit}: {refused} were refused, {counted} are counted");
}

/// A sidecar that may use so much, in bytes, and has answered: what the first calls build is no part of what
/// each further one costs.
async fn of_little_memory() -> (Sidecar, u64, Way) {
    of_little_memory_by(|_| None).await
}

/// The same, whose clients by TCP are known by these certificates.
async fn of_little_memory_by(tls: impl Fn(&Path) -> Option<Certificates>) -> (Sidecar, u64, Way) {
    let mib = number("LEASEHOLD_TEST_DOOR_MEMORY", 192);
    let folder = tempfile::tempdir().unwrap();
    // The store of a default install, outside of the process's memory.
    let store = format!("store.embedded.path={}", folder.path().join("locks.db").display());
    let settings = [
        "store.kind=embedded",
        &store,
        "store.embedded.max_locks=40000",
        &format!("limits.memory={mib}MiB"),
    ];
    let tls = tls(folder.path());
    let sidecar = Sidecar::start_in(folder, Command::new(program()), &settings, tls).await;
    let way = sidecar.unix();
    for _ in 0..3 {
        ask_anew(&way).await.unwrap();
        ask_anew(&sidecar.tcp(1)).await.unwrap();
    }
    (sidecar, mib * MIB, way)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_connections_cost_little_until_they_speak() {
    let (sidecar, limit, way) = of_little_memory().await;
    let before = sidecar.memory("VmRSS");
    let tcp = sidecar.tcp(1);
    let mut silent = Vec::new();
    for _ in 0..1_000 {
        silent.push(tcp.connect().await.unwrap());
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

/// What others meet while callers fill what there is for calls: callers may be refused, by the name of the
/// limit; probes are not.
async fn others_are_answered(sidecar: &Sidecar) {
    for _ in 0..20 {
        if let Err(error) = ask_anew(&sidecar.tcp(1)).await {
            assert!(error.contains("limits.memory"), "{error}");
        }
        probe_anew(&sidecar.probes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_halves_of_messages_do_not_fill_more_memory_than_the_limit() {
    let (sidecar, limit, way) = of_little_memory().await;
    let (held, _stream) = hold(&way, long(0)).await;
    let before = sidecar.memory("VmRSS");
    let refused = Arc::default();
    let tasks = halves(&way, (64, 250), (BRIEF, Some(half())), &refused).await;
    others_are_answered(&sidecar).await;
    held.release().await;
    assert!(refused.load(Ordering::Relaxed) > 1_000, "{refused:?} were refused");
    within(&sidecar, "halves of messages", 64 * 250, before, limit);
    says(&sidecar, "memory", 1_000).await;
    drop(tasks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_calls_that_say_nothing_do_not_fill_more_memory_than_the_limit() {
    let callers = usize::try_from(number("LEASEHOLD_TEST_DOOR_CALLERS", 200)).unwrap();
    for call in [LASTING, BRIEF] {
        let (sidecar, limit, way) = of_little_memory().await;
        let (held, _stream) = hold(&way, long(0)).await;
        let before = sidecar.memory("VmRSS");
        let refused = Arc::default();
        let tasks = halves(&way, (callers, 250), (call, None), &refused).await;
        others_are_answered(&sidecar).await;
        held.release().await;
        let refused = refused.load(Ordering::Relaxed);
        within(&sidecar, call, callers * 250, before, limit);
        says(&sidecar, "memory", usize::try_from(refused).unwrap().min(1_000)).await;
        drop(tasks);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_a_caller_with_a_certificate_fills_no_more_memory_than_one_without() {
    let (sidecar, limit, _) = of_little_memory_by(|folder| Some(Certificates::new(folder))).await;
    let way = sidecar.tcp(1);
    let (held, _stream) = hold(&way, long(0)).await;
    let before = sidecar.memory("VmRSS");
    let refused = Arc::default();
    let messages = halves(&way, (32, 250), (BRIEF, Some(half())), &refused).await;
    let calls = halves(&way, (100, 250), (LASTING, None), &refused).await;
    others_are_answered(&sidecar).await;
    held.release().await;
    within(&sidecar, "calls with a certificate", 132 * 250, before, limit);
    let refused = refused.load(Ordering::Relaxed);
    says(&sidecar, "memory", usize::try_from(refused).unwrap().min(1_000)).await;
    drop((messages, calls));
}

/// The first message of a handshake, and as much of it as may be without its end.
fn endless_hello() -> Vec<u8> {
    const PLAIN: usize = 16 * 1024;
    let mut message = vec![0; 65_000];
    message[..4].copy_from_slice(&[1, 0, 0xff, 0xfe]);
    let record = |part: &[u8]| {
        let length = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[22, 3, 3][..], &length, part].concat()
    };
    message.chunks(PLAIN).flat_map(record).collect()
}

/// What a client says first, after which it says nothing.
fn hello(tls: &Certificates) -> Vec<u8> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::clone(&tls.unknown), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_handshakes_that_stop_halfway_do_not_fill_more_memory_than_the_limit() {
    for what in ["one byte", "a hello", "a hello without an end"] {
        let (sidecar, limit, way) =
            of_little_memory_by(|folder| Some(Certificates::new(folder))).await;
        let said = match what {
            "one byte" => vec![22],
            "a hello" => hello(sidecar.tls.as_ref().unwrap()),
            _ => endless_hello(),
        };
        let before = sidecar.memory("VmRSS");
        let (mut most, mut open): (_, Vec<Box<dyn Line>>) = (0, Vec::new());
        for number in 0..1_500 {
            let mut line = sidecar.bare(2, false).connect().await.unwrap();
            // Whoever is cut meanwhile has had its place taken.
            let _ = line.write_all(&said).await;
            open.push(line);
            if number % 100 == 99 {
                ask_anew(&way).await.unwrap();
                most = most.max(sidecar.memory("VmRSS"));
            }
        }
        ask_anew(&sidecar.tcp(1)).await.unwrap();
        probe_anew(&sidecar.probes()).await.unwrap();
        let greeting = sidecar.metric("leasehold_connections{listener=\"tcp\",stage=\"greeting\"}");
        println!("{what}: at most {} MiB, {} in a handshake", most / MIB, greeting.await);
        within(&sidecar, what, open.len(), before, limit);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_holds_with_long_names_do_not_fill_more_memory_than_the_limit() {
    let (sidecar, limit, way) = of_little_memory().await;
    let before = sidecar.memory("VmRSS");
    let (held, refused) = streams(&way, long).await;
    within(&sidecar, "holds with long names", held.len(), before, limit);
    names_the_limit(&sidecar, "holds", &refused).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_waits_do_not_fill_more_memory_than_the_limit() {
    let (sidecar, limit, way) = of_little_memory().await;
    let _held = hold(&way, long(1)).await;
    let before = sidecar.memory("VmRSS");
    let waits =
        |_| LeaseSpec { wait: Some(prost_types::Duration { seconds: 3_600, nanos: 0 }), ..long(1) };
    let (waiting, refused) = streams(&way, waits).await;
    within(&sidecar, "waits", waiting.len(), before, limit);
    names_the_limit(&sidecar, "waiters", &refused).await;
}

/// Locks that were held, and are known.
async fn locks(way: &Way, count: usize) {
    let mut tasks = JoinSet::new();
    for at_once in 0..40 {
        let channel = way.channel().await.unwrap();
        tasks.spawn(async move {
            for number in (at_once..count).step_by(40) {
                let (held, _stream) = hold_over(channel.clone(), long(number)).await;
                held.release().await;
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_watches_that_nobody_reads_do_not_fill_more_memory_than_the_limit() {
    let (sidecar, limit, way) = of_little_memory().await;
    let known = usize::try_from(number("LEASEHOLD_TEST_DOOR_LOCKS", 400)).unwrap();
    locks(&way, known).await;
    let before = sidecar.memory("VmRSS");
    let (mut watches, mut refused) = (Vec::new(), Vec::new());
    let mut channel = way.channel().await.unwrap();
    for number in 0..800 {
        if number % 200 == 199 {
            channel = way.channel().await.unwrap();
        }
        let mut client = LeaseServiceClient::new(channel.clone());
        match client.watch_locks(WatchLocksRequest::default()).await {
            Ok(watch) => watches.push(watch),
            Err(status) => refused.push(status),
        }
    }
    for _ in 0..50 {
        probe_anew(&sidecar.probes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let what = format!("watches of {known} locks that nobody reads");
    within(&sidecar, &what, watches.len(), before, limit);
    names_the_limit(&sidecar, "watchers", &refused).await;
}

/// What a watch of the locks under this prefix is told first, up to the end of the first listing.
async fn watch_under(
    way: &Way,
    prefix: &str,
) -> Result<(usize, Streaming<WatchLocksResponse>), Status> {
    let under = Some(watch_locks_request::Under::Prefix(prefix.to_owned()));
    let request = WatchLocksRequest { under, ..WatchLocksRequest::default() };
    let mut client = LeaseServiceClient::new(way.channel().await.unwrap());
    let mut watch = client.watch_locks(request).await?.into_inner();
    let mut changed = 0;
    loop {
        let told = watch.message().await?.expect("the watch lasts");
        match told.event {
            Some(watch_locks_response::Event::Changed(_)) => changed += 1,
            Some(watch_locks_response::Event::Listed(_)) => return Ok((changed, watch)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_watches_of_many_prefixes_do_not_fill_more_memory_than_the_limit() {
    let (sidecar, limit, way) = of_little_memory().await;
    let known = usize::try_from(number("LEASEHOLD_TEST_DOOR_LOCKS", 500)).unwrap();
    locks(&way, known).await;
    let (held, _stream) = hold(&way, long(0)).await;
    let path = held.grant.lock_path.clone();
    let before = sidecar.memory("VmRSS");
    // Each of them is what all locks begin with, and a prefix of its own.
    let whole = path.find("job-").unwrap() + "job-".len();
    let prefixes = (whole - 24..=whole).map(|end| &path[..end]);
    let (mut watches, mut refused) = (Vec::new(), Vec::new());
    for prefix in prefixes {
        match watch_under(&way, prefix).await {
            Ok((told, watch)) => {
                assert_eq!(told, known);
                watches.push(watch);
            }
            Err(status) => refused.push(status),
        }
    }
    probe_anew(&sidecar.probes()).await.unwrap();
    within(&sidecar, "prefixes that are watched", watches.len(), before, limit);
    names_the_limit(&sidecar, "memory", &refused).await;
    assert!(!watches.is_empty(), "nothing can be watched");
    held.release().await;
}
