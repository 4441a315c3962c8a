//! What the end of a holder's stream means: whether its client or something in between ended it (S14).

use std::time::Duration;

use leasehold::grpc::{Server, Settings, TcpSettings, UnixSettings};
use leasehold::time::Clock as _;
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    AcquireLeaseRequest, Grant, HoldLeaseRequest, HoldLeaseResponse, Resume, SaveCheckpointRequest,
    hold_lease_request::Start,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::grpc::listeners::{Running, connect, loopback, run};
use crate::grpc::rig::{Account, Sidecar, granted, seconds, spec};

/// The boot id of the kernel that the test's clock plays.
const HERE: (&str, &str) = ("leasehold-boot-id", "sim-boot");
/// Longer than any of these tests; what it bounds would hang otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

type Headers = &'static [(&'static str, &'static str)];

/// A proxy on loopback, as a mesh puts one into a pod: it opens a connection of its own for each that comes.
struct Proxy {
    endpoint: String,
    accepting: JoinHandle<()>,
    last: tokio::sync::watch::Receiver<Option<AbortHandle>>,
}

impl Proxy {
    async fn before(endpoint: &str) -> Self {
        let server = endpoint.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (relays, last) = tokio::sync::watch::channel(None);
        let accepting = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut server = TcpStream::connect(&server).await.unwrap();
                let relay = tokio::spawn(async move {
                    // The proxy's end is the test's doing.
                    let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
                relays.send_replace(Some(relay.abort_handle()));
            }
        });
        Self { endpoint, accepting, last }
    }

    /// Closes the newest connection, on both sides, though the client is alive.
    fn close(&self) {
        self.last.borrow().as_ref().unwrap().abort();
        self.accepting.abort();
    }
}

/// One connection at a time, so that a second one that is served says that the server has seen the end of the
/// first.
async fn serve(sidecar: &Sidecar, tcp: TcpSettings) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        tcp: Some(tcp),
        unix: None,
        connections: 1,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
        ..Settings::default()
    };
    let server = Server::bind(settings).await.unwrap();
    run(server, &sidecar.scheduler, folder, CancellationToken::new()).await
}

async fn start(
    channel: &Channel,
    headers: Headers,
    start: Start,
) -> Result<Streaming<HoldLeaseResponse>, tonic::Status> {
    let mut request = Request::new(HoldLeaseRequest { start: Some(start), needs: 0 });
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    Ok(LeaseServiceClient::new(channel.clone()).hold_lease(request).await?.into_inner())
}

/// The holder is alive: it goes on with its hold, which nobody else got in between.
async fn goes_on(endpoint: &str, grant: &Grant) {
    let resume = Resume {
        resume_token: grant.resume_token.clone(),
        told_valid_until: grant.validity.clone().and_then(|validity| validity.valid_until),
        attempt_id: "attempt-1".to_owned(),
    };
    let resuming = async {
        loop {
            let channel = connect(endpoint).await;
            // Other calls first, so that what the end of the stream does has been done.
            let others = async {
                for number in 0..10 {
                    let other = Start::Spec(spec(&format!("other-{number}")));
                    granted(&mut start(&channel, &[HERE], other).await.ok()?).await;
                }
                Some(())
            };
            if others.await.is_some() {
                break start(&channel, &[], Start::Resume(resume.clone())).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    let mut stream = tokio::time::timeout(PATIENCE, resuming).await.unwrap();
    assert_eq!(granted(&mut stream).await.fencing_token, grant.fencing_token);
}

#[tokio::test]
async fn s14_a_proxy_that_closes_its_connection_frees_no_lock_of_a_living_holder() {
    let cases: [Headers; 4] = [
        // A client elsewhere, or one that does not say where it is.
        &[],
        &[("leasehold-boot-id", "another-kernel")],
        // A client of another pod on this very machine.
        &[HERE, ("x-forwarded-for", "10.0.0.7")],
        &[HERE, ("l5d-client-id", "batch.default.serviceaccount.identity.linkerd")],
    ];
    for headers in cases {
        let account = Account::new();
        let sidecar = account.sidecar();
        let running = serve(&sidecar, loopback()).await;
        drop(running.channel);
        let proxy = Proxy::before(&running.endpoint).await;
        let client = connect(&proxy.endpoint).await;
        let first = async {
            loop {
                if let Ok(stream) = start(&client, headers, Start::Spec(spec("nightly"))).await {
                    break stream;
                }
            }
        };
        let mut stream = tokio::time::timeout(PATIENCE, first).await.unwrap();
        let grant = granted(&mut stream).await;
        let mut patient = spec("nightly");
        patient.wait = seconds(600);
        let _waiter = sidecar.hold(patient).await;
        proxy.close();
        goes_on(&running.endpoint, &grant).await;
        assert_eq!(sidecar.coordinator.gauges().waiters, 1, "{headers:?}");
        running.stop.cancel();
    }
}

#[tokio::test]
async fn s14_a_stream_cancelled_over_the_network_frees_its_lock_only_where_callers_come_directly() {
    for direct in [false, true] {
        let account = Account::new();
        let sidecar = account.sidecar();
        let tcp = TcpSettings { direct, ..loopback() };
        let running = crate::grpc::listeners::on_tcp(&sidecar, tcp).await;
        let mut stream = start(&running.channel, &[], Start::Spec(spec("nightly"))).await.unwrap();
        let grant = granted(&mut stream).await;
        let mut patient = spec("nightly");
        patient.wait = seconds(600);
        let mut waiter = sidecar.hold(patient).await;
        drop(stream);
        // On the same connection, and so after the cancel.
        start(&running.channel, &[], Start::Spec(spec("other"))).await.unwrap();
        if direct {
            let freed = async {
                while !matches!(
                    crate::grpc::rig::next(&mut waiter).await,
                    crate::grpc::rig::Event::Granted(_)
                ) {}
            };
            tokio::time::timeout(PATIENCE, freed).await.unwrap();
        } else {
            goes_on(&running.endpoint, &grant).await;
        }
    }
}

/// The client's process dies, so its kernel closes the socket, and the next waiter has the lock.
#[tokio::test]
async fn s14_a_local_client_that_is_gone_gives_the_lock_back_at_once() {
    let cases: [(bool, Headers); 3] = [(false, &[HERE]), (true, &[HERE]), (true, &[])];
    for (unix, headers) in cases {
        let account = Account::new();
        let sidecar = account.sidecar();
        let running = on_either(&sidecar, unix).await;
        let dying = connect(&running.endpoint).await;
        let mut stream = start(&dying, headers, Start::Spec(spec("nightly"))).await.unwrap();
        granted(&mut stream).await;
        let mut patient = spec("nightly");
        patient.wait = seconds(60);
        let waiting = sidecar.acquire(patient);
        let dies = async {
            while sidecar.coordinator.gauges().waiters == 0 {
                tokio::task::yield_now().await;
            }
            drop(dying);
            drop(stream);
        };
        tokio::time::timeout(PATIENCE, async { tokio::join!(waiting, dies) }).await.unwrap();
    }
}

/// It was told that its hold is lost, and its process ends before anybody knows whether it has read that.
#[tokio::test]
async fn s13_a_local_client_that_was_told_lost_and_is_gone_frees_the_lock() {
    for unix in [false, true] {
        let account = Account::new();
        let sidecar = account.sidecar();
        let running = on_either(&sidecar, unix).await;
        let dying = connect(&running.endpoint).await;
        let mut stream = start(&dying, &[HERE], Start::Spec(spec("nightly"))).await.unwrap();
        let grant = granted(&mut stream).await;
        // Another tool, which leaves no note; a save meets that at once.
        let path = grant.lock_path.parse().unwrap();
        let now = account.clock.now();
        account.store.locks().break_without_note(&path, Duration::ZERO, now).unwrap();
        let save = SaveCheckpointRequest {
            lease_id: grant.lease_id.clone(),
            generation: grant.generation,
            value: b"row 7".to_vec(),
        };
        sidecar.client.clone().save_checkpoint(save).await.unwrap_err();
        let mut patient = spec("nightly");
        patient.wait = seconds(60);
        let waiting = sidecar.acquire(patient);
        let dies = async {
            while sidecar.coordinator.gauges().waiters == 0 {
                tokio::task::yield_now().await;
            }
            let told = crate::grpc::rig::next(&mut stream).await;
            assert!(matches!(told, crate::grpc::rig::Event::Lost(_)), "{told:?}");
            drop(dying);
            drop(stream);
        };
        tokio::time::timeout(PATIENCE, async { tokio::join!(waiting, dies) }).await.unwrap();
    }
}

async fn on_either(sidecar: &Sidecar, unix: bool) -> Running {
    if !unix {
        return crate::grpc::listeners::on_tcp(sidecar, loopback()).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixSettings { path: folder.path().join("s"), allowed_uids: Vec::new() };
    let settings = Settings {
        tcp: None,
        unix: Some(socket),
        connections: 8,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
        ..Settings::default()
    };
    let server = Server::bind(settings).await.unwrap();
    run(server, &sidecar.scheduler, folder, CancellationToken::new()).await
}

/// Nothing is held yet, so nothing can be freed too early.
#[tokio::test]
async fn s12_a_call_that_waits_and_is_cancelled_leaves_the_queue_wherever_it_came_from() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = crate::grpc::listeners::on_tcp(&sidecar, loopback()).await;
    let mut holding = sidecar.hold(spec("nightly")).await;
    granted(&mut holding).await;
    let mut patient = spec("nightly");
    patient.wait = seconds(600);
    let mut client = LeaseServiceClient::new(running.channel.clone());
    let waiting = tokio::spawn(async move {
        client.acquire_lease(AcquireLeaseRequest { spec: Some(patient), needs: 0 }).await
    });
    let waiters = async |count| {
        while sidecar.coordinator.gauges().waiters != count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiters(1)).await.unwrap();
    waiting.abort();
    tokio::time::timeout(PATIENCE, waiters(0)).await.unwrap();
}
