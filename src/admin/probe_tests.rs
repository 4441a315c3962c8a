use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::connection::SIZES;
use super::*;
use crate::coordinator::{CallError, Observer};
use crate::telemetry::rig::{Rig, request};
use crate::testing::{FaultPlan, SimClock};

pub(super) const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An admin server over a coordinator whose store can be made to fail.
pub(super) struct Server {
    pub(super) rig: Rig,
    pub(super) address: SocketAddr,
    pub(super) stop: oneshot::Sender<()>,
    pub(super) running: JoinHandle<()>,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Server {
    async fn start(clock: SimClock) -> Self {
        Self::showing(clock, None).await
    }

    /// The same with a page, for those who may look.
    pub(super) async fn showing(clock: SimClock, look: Option<Look>) -> Self {
        let events = look.as_ref().map(|look| Arc::clone(&look.events) as Arc<dyn Observer>);
        let rig = Rig::observed(clock, events);
        let admin = Admin::bind(ANY_PORT, None).await.unwrap();
        let address = admin.address();
        assert_ne!(address.port(), 0, "the system chose one");
        let (stop, stopped) = oneshot::channel::<()>();
        let (scheduler, metrics) = (rig.scheduler.clone(), rig.metrics.clone());
        let running = tokio::spawn(admin.run(scheduler, metrics, look, async {
            let _ = stopped.await;
        }));
        Self { rig, address, stop, running }
    }

    pub(super) async fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        read_answer(&mut stream).await
    }

    pub(super) async fn ask(&self, method: &str, page: &str, headers: &str) -> Answer {
        self.send(&format!("{method} {page} HTTP/1.1\r\nhost: admin\r\n{headers}\r\n")).await
    }

    pub(super) async fn get(&self, page: &str) -> Answer {
        self.ask("GET", page, "").await
    }
}

/// Reads to the end of the connection, which carries one answer.
pub(super) async fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("answered {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

#[tokio::test]
async fn s18_readiness_flips_with_a_store_that_fails_and_comes_back() {
    let server = Server::start(SimClock::new()).await;
    let Rig { clock, store, coordinator, .. } = &server.rig;
    let answer = server.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body, "not ready: the store has not answered yet\n");
    coordinator.check().await;
    let answer = server.get("/readyz").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "ready\n"));
    store.go_down(Duration::MAX);
    coordinator.check().await;
    clock.advance(Duration::from_millis(90_500));
    coordinator.check().await;
    let answer = server.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.body.starts_with("not ready: for 1m 30s: the store is unavailable: "),
        "{}",
        answer.body
    );
    assert_eq!(answer.body.lines().count(), 1);
    store.go_down(Duration::ZERO);
    coordinator.check().await;
    assert_eq!(server.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn s18_liveness_never_depends_on_the_store() {
    let server = Server::start(SimClock::new()).await;
    server.rig.store.go_down(Duration::MAX);
    server.rig.coordinator.check().await;
    assert_eq!(server.get("/readyz").await.status, 503);
    let answer = server.get("/livez").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "alive\n"));
}

#[tokio::test]
async fn s18_readiness_names_a_container_that_is_missing() {
    let server = Server::start(SimClock::new()).await;
    server.rig.store.store().locks().require_containers();
    let refused = server.rig.coordinator.acquire(request("f", "")).await;
    assert!(matches!(refused, Err(CallError::StoreFailure(_))), "{refused:?}");
    let answer = server.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("the container \"leasehold\" does not exist"), "{}", answer.body);
}

#[tokio::test]
async fn s15_a_sidecar_that_shuts_down_is_alive_and_not_ready() {
    let server = Server::start(SimClock::new()).await;
    server.rig.coordinator.check().await;
    server.rig.coordinator.drain(Duration::from_secs(1)).await;
    let answer = server.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body, "not ready: the sidecar is shutting down\n");
    assert_eq!(server.get("/livez").await.status, 200);
}

#[tokio::test]
async fn metrics_come_in_the_format_that_is_asked_for() {
    let server = Server::start(SimClock::new()).await;
    let answer = server.ask("GET", "/metrics", "accept: application/openmetrics-text\r\n").await;
    assert_eq!(answer.status, 200);
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(answer.head.contains(kind), "{}", answer.head);
    assert!(answer.body.contains("# TYPE leasehold_acquires counter\n"), "{}", answer.body);
    assert!(answer.body.ends_with("# EOF\n"));
    // Who names none, as curl, gets what every program reads.
    let answer = server.get("/metrics").await;
    let kind = "content-type: text/plain; version=0.0.4; charset=utf-8";
    assert!(answer.head.contains(kind), "{}", answer.head);
    assert!(answer.body.contains("# TYPE leasehold_acquires_total counter\n"), "{}", answer.body);
    assert!(!answer.body.contains("# EOF"));
}

#[tokio::test]
async fn metrics_show_what_happens_between_two_looks() {
    let server = Server::start(SimClock::new()).await;
    let granted = "\nleasehold_acquires_total{result=\"granted\"}";
    assert!(server.get("/metrics").await.body.contains(&format!("{granted} 0\n")));
    server.rig.granted(request("f", "")).await;
    let body = server.get("/metrics").await.body;
    assert!(body.contains(&format!("{granted} 1\n")), "{body}");
    assert!(body.contains("\nleasehold_holds 1\n"), "{body}");
}

#[tokio::test]
async fn s20_nothing_that_is_shown_says_what_callers_said() {
    let server = Server::start(SimClock::new()).await;
    let grant = server.rig.granted(request("said-function", "said-scope")).await;
    server.rig.store.set_plan(FaultPlan { deny: 1_000, ..FaultPlan::default() });
    server.rig.coordinator.acquire(request("said-other", "said-scope")).await.unwrap_err();
    for page in ["/livez", "/readyz", "/metrics", "/said-page?said=query"] {
        let answer = server.get(page).await;
        for word in ["said", grant.path.as_str(), &grant.lease_id.to_string()] {
            assert!(!answer.body.contains(word), "{page}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn only_get_and_head_are_answered() {
    let server = Server::start(SimClock::new()).await;
    for page in ["/livez", "/readyz", "/metrics"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
            let answer = server.ask(method, page, "content-length: 0\r\n").await;
            assert_eq!(answer.status, 405, "{method} {page}");
            let allowed = answer.head.lines().find(|line| line.starts_with("allow:"));
            assert_eq!(allowed, Some("allow: get,head"), "{method} {page}");
        }
        let (got, headed) = (server.get(page).await, server.ask("HEAD", page, "").await);
        assert_eq!((headed.status, headed.body.as_str()), (got.status, ""), "{page}");
        let length = format!("content-length: {}", got.body.len());
        assert!(page == "/metrics" || headed.head.contains(&length), "{}", headed.head);
    }
}

#[tokio::test]
async fn what_is_not_there_is_answered_with_what_is() {
    let server = Server::start(SimClock::new()).await;
    for page in ["/", "/healthz", "/quitquitquit", "/metrics/", "/livez/x"] {
        let answer = server.get(page).await;
        assert_eq!(answer.status, 404, "{page}");
        for there in ["/livez", "/readyz", "/metrics"] {
            assert!(answer.body.contains(there), "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_request_that_is_too_large_or_none_at_all_is_refused() {
    let server = Server::start(SimClock::new()).await;
    let padding = "x".repeat(BUFFER_BYTES);
    let answer = server.ask("GET", "/livez", &format!("padding: {padding}\r\n")).await;
    assert_eq!(answer.status, 431);
    assert_eq!(server.send("LOCK ME\r\n\r\n").await.status, 400);
    assert_eq!(server.get("/livez").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn clients_that_say_nothing_are_disconnected_and_keep_nobody_out() {
    let server = Server::start(SimClock::following_tokio()).await;
    let mut silent = Vec::new();
    for _ in 0..SIZES.greeting + 8 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost:").await.unwrap();
        silent.push(stream);
    }
    let answer = tokio::time::timeout(Duration::from_secs(600), server.get("/livez")).await;
    assert_eq!(answer.expect("an answer, once there is a place").status, 200);
    for mut stream in silent {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(600), stream.read_to_end(&mut rest));
        // Closed in order or reset, but not kept.
        let _ = ended.await.expect("an end of the connection");
    }
}

/// Those that opened first give way to who asks, and the others are left alone: no time has to pass.
#[tokio::test]
async fn s38_who_asks_is_answered_while_others_open_connections_and_say_nothing() {
    let server = Server::start(SimClock::new()).await;
    let mut silent = Vec::new();
    for _ in 0..2 * SIZES.greeting {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost:").await.unwrap();
        silent.push(stream);
    }
    assert_eq!(server.get("/metrics").await.status, 200);
    let newest = silent.pop().unwrap();
    let open = newest.try_read(&mut [0; 16]).unwrap_err();
    assert_eq!(open.kind(), io::ErrorKind::WouldBlock, "nobody's time was over");
    let mut oldest = silent.remove(0);
    let _ = oldest.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn it_ends_when_it_is_told_to_and_frees_its_address() {
    let server = Server::start(SimClock::new()).await;
    assert_eq!(server.get("/livez").await.status, 200);
    server.stop.send(()).unwrap();
    server.running.await.unwrap();
    Admin::bind(server.address, None).await.unwrap();
}

#[tokio::test]
async fn an_address_that_cannot_be_had_is_told_with_its_setting() {
    let there = Admin::bind(ANY_PORT, None).await.unwrap();
    let taken = Admin::bind(there.address(), None).await.unwrap_err();
    assert!(matches!(taken, AdminError::AddressInUse { .. }), "{taken:?}");
    // An address of the documentation's network, which no machine has.
    let foreign = Admin::bind(SocketAddr::from(([192, 0, 2, 1], 0)), None).await.unwrap_err();
    assert!(matches!(foreign, AdminError::Address { .. }), "{foreign:?}");
    let denied = AdminError::new(ANY_PORT, io::ErrorKind::PermissionDenied.into());
    assert!(matches!(denied, AdminError::NotPermitted { .. }), "{denied:?}");
    for (error, address) in [
        (taken, there.address().to_string()),
        (foreign, "192.0.2.1:0".to_owned()),
        (denied, ANY_PORT.to_string()),
    ] {
        let text = error.to_string();
        assert!(text.contains("admin.listen") && text.contains(&address), "{text}");
    }
}
