//! Who stands at the door: connections that say nothing, or little, keep nobody out (S38).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use leasehold::grpc::{Connections, RELOAD_INTERVAL, Server, Settings, Tls, UnixSettings};
use leasehold_client::proto::ResolvePathRequest;
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::grpc::certificates::{authority, issued, write};
use crate::grpc::listeners::{Running, connect, loopback, run};
use crate::grpc::rig::{Account, Sidecar, key, reason};

const BOUND: Duration = Duration::from_secs(60);
/// More than a listener has places for.
const CROWD: usize = 1_500;
const PREFACE_AND_SETTINGS: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

struct Door {
    running: Running,
    connections: Connections,
    address: SocketAddr,
}

impl Door {
    /// A sidecar with a TCP address, a socket, and one for probes.
    async fn open(sidecar: &Sidecar, change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let unix = UnixSettings { path: folder.path().join("s"), allowed_uids: Vec::new() };
        let mut settings = Settings {
            tcp: Some(loopback()),
            unix: Some(unix),
            probes: Some(folder.path().join("p")),
            ..Settings::default()
        };
        change(&mut settings);
        let server = Server::bind(settings).await.unwrap();
        let (connections, address) = (server.connections(), server.address().unwrap());
        let stop = CancellationToken::new();
        let running = run(server, &sidecar.scheduler, folder, stop).await;
        Self { running, connections, address }
    }

    fn socket(&self, name: &str) -> String {
        format!("unix://{}", self.running.folder.path().join(name).display())
    }

    fn open_at(&self, listener: &str, stage: &str) -> usize {
        let open = self.connections.open();
        open.iter().find(|(labels, _)| *labels == [listener, stage]).unwrap().1
    }

    fn closed_for(&self, listener: &str, reason: &str) -> u64 {
        let closed = self.connections.closed();
        closed.iter().find(|(labels, _)| *labels == [listener, reason]).unwrap().1
    }
}

/// A connection from an address of this machine.
async fn from(source: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(source), 0)).unwrap();
    socket.connect(to).await.unwrap()
}

async fn channel_from(source: Ipv4Addr, to: SocketAddr) -> Channel {
    let connector = tower::service_fn(move |_| async move {
        Ok::<_, std::io::Error>(TokioIo::new(from(source, to).await))
    });
    Endpoint::from_static("http://sidecar").connect_with_connector(connector).await.unwrap()
}

pub(super) async fn serves(channel: &Channel) {
    let request = ResolvePathRequest { key: Some(key("honest")) };
    let mut client = LeaseServiceClient::new(channel.clone());
    tokio::time::timeout(BOUND, client.resolve_path(request)).await.unwrap().unwrap();
}

async fn is_healthy(endpoint: &str) {
    let mut client = HealthClient::new(connect(endpoint).await);
    let asked = client.check(HealthCheckRequest::default());
    tokio::time::timeout(BOUND, asked).await.unwrap().unwrap();
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let reached = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, reached).await.unwrap_or_else(|_| panic!("not reached: {what}"));
}

#[tokio::test]
async fn s38_connections_that_say_nothing_keep_nobody_out_of_any_listener() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let door = Door::open(&sidecar, |_| {}).await;
    let (near, far) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2));
    // Connected early, and without a call yet, each with the same neighbour as the crowd.
    let early_by_tcp = channel_from(near, door.address).await;
    let early_by_unix = connect(&door.socket("s")).await;
    let mut crowd = Vec::new();
    let mut sockets = Vec::new();
    for _ in 0..CROWD {
        crowd.push(from(near, door.address).await);
        for socket in ["s", "p"] {
            let path = door.running.folder.path().join(socket);
            sockets.push(UnixStream::connect(path).await.unwrap());
        }
    }
    for listener in ["tcp", "unix", "probes"] {
        until("the crowd is there", || door.closed_for(listener, "no_place") > 0).await;
        assert!(door.open_at(listener, "silent") <= 1_024);
    }
    serves(&channel_from(far, door.address).await).await;
    serves(&channel_from(near, door.address).await).await;
    serves(&connect(&door.socket("s")).await).await;
    is_healthy(&door.socket("p")).await;
    is_healthy(&door.socket("s")).await;
    serves(&early_by_tcp).await;
    serves(&early_by_unix).await;
    drop((crowd, sockets));
    for listener in ["tcp", "unix", "probes"] {
        until("the crowd is gone", || door.open_at(listener, "silent") == 0).await;
    }
}

#[tokio::test]
async fn s38_connections_without_a_call_go_by_whoever_has_most_and_those_with_calls_stay() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let door = Door::open(&sidecar, |_| {}).await;
    let (near, far) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2));
    let idle = channel_from(far, door.address).await;
    let with_a_call = channel_from(near, door.address).await;
    serves(&with_a_call).await;
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut hostile = from(near, door.address).await;
        hostile.write_all(PREFACE_AND_SETTINGS).await.unwrap();
        crowd.push(hostile);
    }
    until("some had to go", || door.closed_for("tcp", "no_place") > 0).await;
    assert!(door.open_at("tcp", "idle") <= 1_024);
    serves(&channel_from(near, door.address).await).await;
    serves(&with_a_call).await;
    serves(&idle).await;
}

#[tokio::test]
async fn s38_handshakes_that_are_begun_and_left_keep_nobody_out() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let issuer = authority();
    let (certificate, key) = issued(&issuer);
    let folder = tempfile::tempdir().unwrap();
    let tls = Tls {
        certificate: write(folder.path(), "certificate", &certificate),
        key: write(folder.path(), "key", &key),
        client_ca: Some(write(folder.path(), "clients", &issuer.pem())),
        crl: None,
        reload_interval: RELOAD_INTERVAL,
    };
    let settings = Settings { connections: 1_024, ..crate::grpc::certificates::settings(tls) };
    let server = Server::bind(settings).await.unwrap();
    let (connections, address) = (server.connections(), server.address().unwrap());
    let scheduler = sidecar.scheduler.clone();
    tokio::spawn(async move {
        server.run(scheduler, crate::grpc::rig::LIMITS, CancellationToken::new()).await
    });
    // A record of a handshake, of which the rest does not come.
    const BEGINNING: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let mut crowd = Vec::new();
    for number in 0..CROWD {
        let mut hostile = from(Ipv4Addr::LOCALHOST, address).await;
        if number % 2 == 0 {
            hostile.write_all(BEGINNING).await.unwrap();
        }
        crowd.push(hostile);
    }
    let (certificate, key) = issued(&issuer);
    let tls = leasehold_client::Tls::new(issuer.pem()).with_certificate(certificate, key);
    let client = leasehold_client::Client::builder(format!("https://{address}")).tls(tls);
    let client = tokio::time::timeout(BOUND, client.connect()).await.unwrap().unwrap();
    let key = leasehold_client::LockKey::new("honest", "");
    tokio::time::timeout(BOUND, client.resolve_path(key)).await.unwrap().unwrap();
    let greeting = connections.open().into_iter().find(|(labels, _)| labels[1] == "greeting");
    assert!(greeting.unwrap().1 <= 1_024);
}

/// The time is the test's own, and passes while nothing else happens.
#[tokio::test(start_paused = true)]
async fn s38_whoever_owes_its_preface_for_five_seconds_is_cut_and_whoever_has_sent_it_is_not() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let door = Door::open(&sidecar, |_| {}).await;
    let mut silent = from(Ipv4Addr::LOCALHOST, door.address).await;
    let mut halting = from(Ipv4Addr::LOCALHOST, door.address).await;
    halting.write_all(b"PRI * HTTP").await.unwrap();
    // What can come no more is not waited for; and nothing is no other language.
    let mut half = from(Ipv4Addr::LOCALHOST, door.address).await;
    half.write_all(b"P").await.unwrap();
    half.shutdown().await.unwrap();
    assert_eq!(half.read(&mut [0; 8]).await.unwrap_or_default(), 0);
    assert_eq!(door.closed_for("tcp", "not_http2"), 1);
    from(Ipv4Addr::LOCALHOST, door.address).await.shutdown().await.unwrap();
    let early = connect(&door.socket("s")).await;
    for cut in [&mut silent, &mut halting] {
        assert_eq!(cut.read(&mut [0; 8]).await.unwrap_or_default(), 0);
    }
    assert_eq!(door.closed_for("tcp", "overdue"), 2);
    assert_eq!(door.closed_for("tcp", "not_http2"), 1);
    tokio::time::sleep(Duration::from_secs(24 * 3_600)).await;
    serves(&early).await;
    assert_eq!(door.closed_for("unix", "overdue"), 0);
}

#[tokio::test]
async fn s38_over_the_limit_of_connections_calls_are_told_its_name_and_those_that_are_there_are_served()
 {
    let account = Account::new();
    let sidecar = account.sidecar();
    let door = Door::open(&sidecar, |settings| settings.connections = 2).await;
    let (first, second, third) = (
        connect(&door.socket("s")).await,
        connect(&door.socket("s")).await,
        connect(&door.socket("s")).await,
    );
    serves(&first).await;
    serves(&second).await;
    let ask = || ResolvePathRequest { key: Some(key("honest")) };
    let refused = LeaseServiceClient::new(third.clone()).resolve_path(ask()).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::ResourceExhausted, "LIMIT_REACHED".to_owned()));
    assert!(refused.message().contains("limits.connections"), "{refused}");
    serves(&first).await;
    // Health is asked all the same, and another listener has places of its own.
    HealthClient::new(third.clone()).check(HealthCheckRequest::default()).await.unwrap();
    serves(&channel_from(Ipv4Addr::LOCALHOST, door.address).await).await;
    drop(second);
    until("a place is free", || door.open_at("unix", "serving") == 1).await;
    serves(&third).await;
}

#[tokio::test]
async fn s38_a_user_who_is_not_allowed_is_told_so_before_anything_is_built() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let own = rustix::process::getuid().as_raw();
    let allowed = vec![own + 1];
    let change = |settings: &mut Settings| {
        settings.unix.as_mut().unwrap().allowed_uids = allowed;
    };
    let door = Door::open(&sidecar, change).await;
    let mut refused = UnixStream::connect(door.running.folder.path().join("s")).await.unwrap();
    let mut told = Vec::new();
    let read = tokio::time::timeout(BOUND, refused.read_to_end(&mut told)).await;
    assert!(read.is_ok(), "it is left open");
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains(&format!("user id {own}")), "{told}");
    assert!(told.contains("listen.unix_allowed_uids"), "{told}");
    until("it is counted", || door.closed_for("unix", "user_not_allowed") == 1).await;
    assert_eq!(door.open_at("unix", "silent"), 0);
    // A client says it as its own error.
    let error = leasehold_client::Client::connect(door.socket("s")).await;
    let error = match error {
        Err(error) => error,
        Ok(client) => client.get_server_info().await.unwrap_err(),
    };
    println!("{error}");
}

#[tokio::test]
async fn s38_health_is_watched_by_callers_that_are_let_in_and_asked_by_everybody() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let folder = tempfile::tempdir().unwrap();
    let token_file = write(folder.path(), "tokens", "open-sesame\n");
    let door = Door::open(&sidecar, |settings| {
        settings.tcp.as_mut().unwrap().token_file = Some(token_file);
    })
    .await;
    let channel = connect(&format!("http://{}", door.address)).await;
    let mut client = HealthClient::new(channel);
    client.check(HealthCheckRequest::default()).await.unwrap();
    let refused = client.watch(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::Unauthenticated, "UNAUTHENTICATED".to_owned()));
    assert_eq!(door.open_at("tcp", "serving"), 0);
    let mut request = Request::new(HealthCheckRequest::default());
    request.metadata_mut().insert("authorization", "Bearer open-sesame".parse().unwrap());
    client.watch(request).await.unwrap().into_inner().message().await.unwrap().unwrap();
    assert_eq!(door.open_at("tcp", "serving"), 1);
}

#[tokio::test]
async fn s38_the_socket_for_probes_answers_health_and_nothing_else() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let door = Door::open(&sidecar, |_| {}).await;
    is_healthy(&door.socket("p")).await;
    let request = ResolvePathRequest { key: Some(key("honest")) };
    let channel = connect(&door.socket("p")).await;
    let refused = LeaseServiceClient::new(channel).resolve_path(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}

#[tokio::test]
async fn s38_a_release_goes_where_its_hold_is_and_needs_no_place_of_its_own() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let door = Door::open(&sidecar, |settings| settings.connections = 1).await;
    let client = leasehold_client::Client::connect(door.socket("s")).await.unwrap();
    let spec = leasehold_client::LeaseSpec::new("nightly");
    let leasehold_client::Outcome::Granted(guard) = client.hold(spec).await.unwrap() else {
        panic!("not granted");
    };
    assert_eq!(door.open_at("unix", "serving"), 1);
    guard.release().await.unwrap();
    assert_eq!(door.closed_for("unix", "full"), 0);
    assert_eq!(door.open_at("unix", "serving") + door.open_at("unix", "idle"), 1);
}

#[tokio::test]
async fn s14_s38_a_connection_takes_all_the_calls_at_once_that_it_may_have() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for streams in [Settings::default().streams_per_connection, 1_000] {
        let door = Door::open(&sidecar, |set| set.streams_per_connection = streams).await;
        let channel = channel_from(Ipv4Addr::LOCALHOST, door.address).await;
        futures_util::future::join_all((0..streams).map(|_| serves(&channel))).await;
        until("all of it is over", || door.open_at("tcp", "idle") == 1).await;
        serves(&channel).await;
    }
}

#[tokio::test]
async fn s14_s38_a_connection_outlives_calls_that_are_given_up_all_at_once() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let door = Door::open(&sidecar, |_| {}).await;
    let mut connection = from(Ipv4Addr::LOCALHOST, door.address).await;
    // As it stands there when the sidecar was held up for a while: each call, and that it is given up.
    let mut sent = PREFACE_AND_SETTINGS.to_vec();
    let calls = (0..Settings::default().streams_per_connection).map(|number| 2 * number + 1);
    for stream in calls.map(u32::to_be_bytes) {
        sent.extend([&[0, 0, 6, 1, 4], &stream[..], &[0x83, 0x86, 0x84, 0x41, 1, b'a']].concat());
        sent.extend([&[0, 0, 4, 3, 0], &stream[..], &[0, 0, 0, 8]].concat());
    }
    let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0], &b"are you?"[..]].concat();
    sent.extend(&ping);
    connection.write_all(&sent).await.unwrap();
    let mut came = Vec::new();
    let answered = async {
        while !came.windows(8).any(|bytes| bytes == b"are you?") {
            assert_ne!(connection.read_buf(&mut came).await.unwrap(), 0, "closed: {came:?}");
        }
    };
    tokio::time::timeout(BOUND, answered).await.unwrap();
}
