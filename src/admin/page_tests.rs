use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};

use super::connection::SIZES;
use super::probe_tests::{ANY_PORT, Answer, Server};
use super::*;
use crate::coordinator::{BreakPeriod, BreakRequest, LockSelector};
use crate::record::CheckpointValue;
use crate::telemetry::rig::request;
use crate::testing::SimClock;

const DATA: [&str; 6] =
    ["/", "/api/sidecar", "/api/locks", "/api/schedules", "/api/events", "/api/live"];

fn look(readers: Readers) -> Option<Look> {
    let hosts = vec!["Locks.Example".to_owned()];
    let about = About { version: "1.2.3".to_owned(), ..About::default() };
    let events = Arc::new(EventLog::new(Arc::new(SimClock::new())));
    Some(Look { readers, hosts, about, events })
}

async fn showing() -> Server {
    Server::showing(SimClock::new(), look(Readers::ThisMachine)).await
}

impl Server {
    async fn look_as(&self, host: &str, page: &str, headers: &str) -> Answer {
        self.send(&format!("GET {page} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n")).await
    }

    async fn json(&self, page: &str) -> Value {
        let answer = self.look_as("localhost", page, "").await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
        assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
        serde_json::from_str(&whole(&answer)).unwrap()
    }

    /// Follows what changes.
    async fn live(&self) -> Live {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(b"GET /api/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        Live { lines: BufReader::new(stream).lines(), name: String::new(), kept: Vec::new() }
    }
}

/// The body, if it was sent in parts.
fn whole(answer: &Answer) -> String {
    if !answer.head.contains("transfer-encoding: chunked") {
        return answer.body.clone();
    }
    let (mut rest, mut body) = (answer.body.as_str(), String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    body
}

/// A stream of the page, and its events that nobody has asked for yet.
struct Live {
    lines: Lines<BufReader<TcpStream>>,
    name: String,
    kept: Vec<(String, Value)>,
}

impl Live {
    /// The data of the next event of this name for which `is_it` holds; those of other names are kept.
    async fn next(&mut self, name: &str, is_it: impl Fn(&Value) -> bool + Send + Sync) -> Value {
        let fits = |(of, data): &(String, Value)| of == name && is_it(data);
        if let Some(place) = self.kept.iter().position(fits) {
            return self.kept.remove(place).1;
        }
        while let Some(line) = self.lines.next_line().await.unwrap() {
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut self.name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let event = (self.name.clone(), serde_json::from_str(data).unwrap());
                if fits(&event) {
                    return event.1;
                }
                self.kept.push(event);
            }
        }
        panic!("the stream has ended before {name}")
    }
}

fn kinds(events: &Value) -> Vec<String> {
    let events = events.as_array().unwrap().iter();
    events.map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn nothing_of_the_page_is_there_unless_it_is_on() {
    let server = Server::showing(SimClock::new(), None).await;
    for page in DATA {
        let answer = server.look_as("localhost", page, "").await;
        assert_eq!(answer.status, 404, "{page}");
        assert!(!answer.body.contains("/api"), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_page_from_elsewhere_cannot_read_it() {
    let server = showing().await;
    for page in DATA {
        for host in ["evil.example", "localhost.evil.example:80", ""] {
            let answer = server.look_as(host, page, "").await;
            assert_eq!(answer.status, 403, "{page} as {host:?}");
            assert!(answer.body.contains("admin.page_hosts"), "{}", answer.body);
            assert!(!answer.body.contains("evil"), "{}", answer.body);
        }
        let two = server.look_as("localhost", page, "host: evil.example\r\n").await;
        assert!(matches!(two.status, 400 | 403), "{page}: {}", two.status);
        let whole = format!("GET http://evil.example{page} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert_eq!(server.send(&whole).await.status, 403, "{page}");
        for word in [
            "x-forwarded-for: 192.0.2.1",
            "forwarded: for=192.0.2.1",
            "x-real-ip: 192.0.2.1",
            "via: 1.1 proxy",
            "x-envoy-external-address: 192.0.2.1",
        ] {
            let proxied = server.look_as("localhost", page, &format!("{word}\r\n")).await;
            assert_eq!(proxied.status, 403, "{page}: {word}");
        }
    }
    for page in ["/livez", "/metrics"] {
        assert_eq!(server.look_as("evil.example", page, "").await.status, 200, "not the page");
    }
    for host in ["localhost", "127.0.0.1:1", "locks.example", "[::1]:1"] {
        let answer = server.look_as(host, "/", "").await;
        assert_eq!(answer.status, 200, "{host}");
        assert!(!answer.head.contains("access-control"), "{}", answer.head);
    }
}

#[tokio::test]
async fn callers_from_elsewhere_are_refused_unless_everyone_may_look() {
    // This machine's own address, where it has one that is not loopback's.
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let outside = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr());
    let Ok(address) = outside.map(|address| address.ip()) else {
        eprintln!(
            "this machine has no address but loopback's: callers from elsewhere are not tried"
        );
        return;
    };
    for (readers, status) in [(Readers::ThisMachine, 403), (Readers::Everyone, 200)] {
        let mut server = Server::showing(SimClock::new(), look(readers)).await;
        server.stop.send(()).unwrap();
        server.running.await.unwrap();
        let admin = Admin::bind(SocketAddr::new(address, 0), None).await.unwrap();
        server.address = admin.address();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (scheduler, metrics) = (server.rig.scheduler.clone(), server.rig.metrics.clone());
        server.stop = stop;
        server.running = tokio::spawn(admin.run(scheduler, metrics, look(readers), async {
            let _ = stopped.await;
        }));
        for page in ["/", "/api/sidecar"] {
            assert_eq!(server.look_as("localhost", page, "").await.status, status, "{page}");
        }
        assert_eq!(server.look_as("localhost", "/livez", "").await.status, 200);
    }
    assert_eq!(ANY_PORT.port(), 0);
}

#[tokio::test]
async fn what_is_answered_is_kept_by_nobody_and_runs_nothing_from_elsewhere() {
    let server = showing().await;
    let files = ["/", "/page.css", "/page.js", "/known.js", "/parts.js", "/icon.svg"];
    for page in files.into_iter().chain(["/api/sidecar", "/api/events"]) {
        let answer = server.look_as("localhost", page, "").await;
        assert_eq!(answer.status, 200, "{page}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(answer.head.contains(header), "{page}: {}", answer.head);
        }
    }
    for file in [
        include_str!("page/index.html"),
        include_str!("page/page.css"),
        include_str!("page/page.js"),
        include_str!("page/known.js"),
        include_str!("page/parts.js"),
    ] {
        // Where a client finds a sidecar is said, and not loaded.
        let file = file.replace("\"http://127.0.0.1:50951\"", "");
        for foreign in ["http:", "https:", "//cdn", "innerHTML", "eval(", "style="] {
            assert!(!file.contains(foreign), "{foreign}");
        }
    }
}

#[test]
fn the_page_is_small() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/page");
    let files = std::fs::read_dir(folder).unwrap();
    let whole: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(whole <= 60 * 1024, "{whole} bytes");
}

#[tokio::test]
async fn a_lock_is_shown_with_what_happened_to_it() {
    let server = showing().await;
    let grant = server.rig.granted(request("nightly", "eu")).await;
    server.rig.coordinator.acquire(request("nightly", "eu")).await.unwrap();
    server.rig.coordinator.acquire(request("nightly", "eu")).await.unwrap();
    let locks = server.json("/api/locks").await;
    let [lock] = locks["locks"].as_array().unwrap().as_slice() else { panic!("{locks}") };
    assert_eq!(lock["lock_path"], grant.path.as_str());
    let key = serde_json::json!({ "function": "nightly", "scope": "eu", "mode": "function" });
    assert_eq!(lock["key"], key);
    assert_eq!((&lock["state"], &lock["held_here"]), (&"held".into(), &true.into()));
    assert_eq!(lock["fencing_token"], grant.token.value());
    let left = lock["validity"]["valid_for_seconds"].as_f64().unwrap();
    assert!(left > 0.0 && left <= 60.0, "{left}");
    assert!(locks["listed_at"].is_string(), "{locks}");
    // The fields of `leasehold show`, and more.
    let shapes = include_str!("../../tests/cli/json_shapes.json");
    let shapes: Value = serde_json::from_str(shapes).unwrap();
    for field in shapes["show"].as_object().unwrap().keys() {
        assert!(lock.get(field).is_some(), "{field}: {lock}");
    }

    let one = server.json(&format!("/api/locks/{}", grant.path)).await;
    assert_eq!(one["lock"]["lock_path"], grant.path.as_str());
    assert_eq!(kinds(&one["history"]), ["granted", "refused"]);
    assert_eq!(one["history"][1]["times"], 2);
    let events = server.json("/api/events").await;
    assert_eq!(kinds(&events["events"]), ["granted", "refused"]);
    let whole = format!("{locks}{one}{events}");
    assert!(!whole.contains(&grant.lease_id.to_string()), "S20: a lease id ends a hold");
    assert_eq!(server.look_as("localhost", "/api/locks/else/where", "").await.status, 404);
}

#[tokio::test]
async fn s20_of_a_checkpoint_the_version_the_size_and_the_time_are_shown() {
    let server = showing().await;
    let grant = server.rig.granted(request("nightly", "")).await;
    let value = CheckpointValue::new(b"page 7").unwrap();
    let saved = server.rig.coordinator.save(grant.lease_id, None, value).await.unwrap();
    let lock = server.json("/api/locks").await["locks"][0].take();
    assert_eq!(lock["checkpoint_version"], saved.version);
    assert_eq!(lock["checkpoint_size"], 6);
    assert!(lock["checkpoint_saved_at"].is_string(), "{lock}");
    assert!(!lock.to_string().contains("page 7") && lock.get("checkpoint").is_none(), "{lock}");
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_told_of_by_name_in_the_order_of_their_arrival() {
    let server = Server::showing(SimClock::following_tokio(), look(Readers::ThisMachine)).await;
    let grant = server.rig.granted(request("nightly", "")).await;
    let mut live = server.live().await;
    let path = grant.path.as_str();
    let names: Vec<String> = (0..10).map(|number| format!("worker-{number}")).collect();
    let mut waiting = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let mut waits = request("nightly", "");
        (waits.holder, waits.wait) = (Some(name.clone()), Duration::from_secs(3_600));
        let coordinator = server.rig.coordinator.clone();
        waiting.push(tokio::spawn(async move { coordinator.acquire(waits).await }));
        let arrived = |locks: &Value| locks["changed"][0]["waiters_here"] == place + 1;
        let told = live.next("locks", arrived).await;
        assert_eq!(
            told["changed"][0]["waiting_here"].as_array().unwrap().len(),
            (place + 1).min(8)
        );
    }
    let lock = server.json(&format!("/api/locks/{path}")).await["lock"].take();
    assert_eq!(
        (&lock["waiters_here"], &lock["waiting_here"]),
        (&10.into(), &Value::from(&names[..8]))
    );
    // The one that has waited for the longest leaves, and the next ones are told of.
    waiting.remove(0).abort();
    let told = live.next("locks", |locks| locks["changed"][0]["waiters_here"] == 9).await;
    assert_eq!(told["changed"][0]["waiting_here"], Value::from(&names[1..9]));
}

#[tokio::test]
async fn who_follows_is_told_of_each_change() {
    let server = showing().await;
    let mut live = server.live().await;
    let sidecar = live.next("sidecar", |_| true).await;
    assert_eq!((&sidecar["version"], &sidecar["ready"]), (&"1.2.3".into(), &false.into()));
    live.next("locks", |locks| locks["listed_at"].is_string()).await;
    let grant = server.rig.granted(request("nightly", "")).await;
    let path = grant.path.as_str();
    live.next("locks", |locks| locks["changed"][0]["state"] == "held").await;
    let events = live.next("events", |_| true).await;
    assert_eq!((&events[0]["kind"], &events[0]["lock_path"]), (&"granted".into(), &path.into()));
    let holds = live.next("holds", |_| true).await;
    assert_eq!((&holds[0]["lock_path"], &holds[0]["at_risk"]), (&path.into(), &false.into()));

    let lock = LockSelector::Path(grant.path.clone());
    let breaking = BreakRequest {
        token: None,
        lock,
        period: BreakPeriod::Now,
        reason: "stuck <b>since</b> noon".to_owned(),
        by: Some("ops".to_owned()),
        caller: String::new(),
    };
    server.rig.coordinator.break_lock(breaking).await.unwrap();
    let is_broken = |events: &Value| kinds(events).contains(&"broken".to_owned());
    let events = live.next("events", is_broken).await;
    let broken = events.as_array().unwrap().iter().find(|event| event["kind"] == "broken").unwrap();
    assert_eq!(
        (&broken["holder"], &broken["detail"]),
        (&"ops".into(), &"stuck <b>since</b> noon".into())
    );
}

#[tokio::test]
async fn those_who_follow_keep_no_probe_out_and_are_few() {
    let server = showing().await;
    let mut streams = Vec::new();
    for _ in 0..SIZES.serving {
        let mut live = server.live().await;
        live.next("sidecar", |_| true).await;
        streams.push(live);
    }
    for page in ["/api/live", "/api/locks"] {
        let refused = server.look_as("localhost", page, "").await;
        assert_eq!(refused.status, 503, "{page}: {}", refused.body);
    }
    for _ in 0..SIZES.greeting * 2 {
        assert_eq!(server.get("/livez").await.status, 200);
    }
    drop(streams.pop());
    // Its place is free once the server has noticed.
    loop {
        if server.look_as("localhost", "/api/locks", "").await.status == 200 {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_follows_stays_longer_than_an_answer_may_take_and_until_the_server_ends() {
    let server = Server::showing(SimClock::following_tokio(), look(Readers::ThisMachine)).await;
    let mut live = server.live().await;
    live.next("sidecar", |_| true).await;
    tokio::time::sleep(CONNECTION_TIMEOUT * 20).await;
    server.rig.granted(request("late", "")).await;
    live.next("locks", |locks| locks["changed"][0]["key"]["function"] == "late").await;
    server.stop.send(()).unwrap();
    while live.lines.next_line().await.is_ok_and(|line| line.is_some()) {}
    server.running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_follows_is_told_each_time_that_the_store_was_listed() {
    let server = Server::showing(SimClock::following_tokio(), look(Readers::ThisMachine)).await;
    let mut live = server.live().await;
    let clock = server.rig.coordinator.clock();
    let is_listed = |locks: &Value| locks["listed_at"].is_string();
    let first = live.next("locks", is_listed).await;
    let begun = clock.now();
    let second = live.next("locks", is_listed).await;
    assert_ne!(first["listed_at"], second["listed_at"]);
    let took = clock.now().saturating_since(begun);
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[tokio::test]
async fn a_store_that_cannot_be_listed_is_an_error_and_not_an_empty_list() {
    let server = showing().await;
    server.rig.store.go_down(Duration::MAX);
    for page in ["/api/locks", "/api/schedules"] {
        let answer = server.look_as("localhost", page, "").await;
        assert_eq!(answer.status, 503, "{page}: {}", answer.body);
        assert!(answer.body.contains("the store is unavailable"), "{}", answer.body);
    }
    let mut live = server.live().await;
    let failure = live.next("failure", |_| true).await;
    assert!(failure["message"].as_str().unwrap().contains("unavailable"), "{failure}");
    server.rig.store.go_down(Duration::ZERO);
    live.next("locks", |locks| locks["listed_at"].is_string()).await;
}
