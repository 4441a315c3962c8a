//! Crowds at each listener: probes and callers from elsewhere are answered meanwhile, early connections stay,
//! and a hold goes on to its release.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::time::{BootClock, Clock as _};
use leasehold_client::proto::{HoldLeaseResponse, LeaseSpec, hold_lease_response};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tonic::Streaming;

use super::crowd::{Fared, Manner, RATE, SILENT, flood, honest};
use super::{Held, MIB, Sidecar, Way, ask, ask_anew, get, hold, key, probe_anew};
use crate::faults::process::{PATIENCE, number};

/// An answer that comes later than this is late.
const IN_TIME: Duration = Duration::from_secs(1);
/// What the chart's container leaves the sidecar.
const MEMORY: u64 = 192 * MIB;

/// A job that holds a lock with the shortest lease.
struct Job {
    held: Held,
    stream: Streaming<HoldLeaseResponse>,
}

impl Job {
    async fn start(way: &Way, function: &str) -> Self {
        let spec = LeaseSpec {
            key: Some(key(function)),
            lease_duration: Some(prost_types::Duration { seconds: 15, nanos: 0 }),
            ..LeaseSpec::default()
        };
        let (held, stream) = hold(way, spec).await;
        Self { held, stream }
    }

    /// Looks on until `over`: how many renewals were told, and nothing else.
    async fn look_on(&mut self, over: &AtomicBool) -> u64 {
        let mut renewals = 0;
        while !over.load(Ordering::Relaxed) {
            let next = self.stream.message();
            let Ok(told) = tokio::time::timeout(Duration::from_millis(100), next).await else {
                continue;
            };
            match told.unwrap().unwrap().event.unwrap() {
                hold_lease_response::Event::Renewed(_) => renewals += 1,
                other => panic!("{other:?}"),
            }
        }
        renewals
    }

    async fn release(self) -> Duration {
        let clock = BootClock::new();
        let begun = clock.now();
        tokio::time::timeout(PATIENCE, self.held.release()).await.unwrap();
        clock.now() - begun
    }
}

/// Keeps a crowd at one listener, and looks at how all others fare.
async fn keep(sidecar: &Sidecar, name: &str, ways: Vec<Way>, manner: Manner) {
    let seconds = number("LEASEHOLD_TEST_DOOR_SECONDS", 4);
    let early = [sidecar.tcp(2).channel().await.unwrap(), sidecar.unix().channel().await.unwrap()];
    let used = sidecar.unix().channel().await.unwrap();
    ask(used.clone()).await.unwrap();
    let mut jobs = [
        Job::start(&sidecar.tcp(4), &format!("{name} by TCP")).await,
        Job::start(&sidecar.unix(), &format!("{name} by the socket")).await,
    ];
    let over = Arc::new(AtomicBool::new(false));
    let flooding = Arc::new(AtomicBool::new(false));
    let flood = tokio::spawn(flood(ways, manner, Arc::clone(&flooding)));
    let stop = async {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        over.store(true, Ordering::Relaxed);
    };
    let (far, near, probes) = (sidecar.tcp(3), sidecar.unix(), sidecar.probes());
    let [first, second] = &mut jobs;
    let ((), by_tcp, by_unix, probed, admin, renewed, renewed_too) = tokio::join!(
        stop,
        honest("TCP", Arc::clone(&over), async || ask_anew(&far).await),
        honest("socket", Arc::clone(&over), async || ask_anew(&near).await),
        honest("probe", Arc::clone(&over), async || probe_anew(&probes).await),
        honest("admin", Arc::clone(&over), async || {
            get(sidecar.admin, 3, "/livez").await.map(drop)
        }),
        first.look_on(&over),
        second.look_on(&over),
    );
    let mut released = Duration::ZERO;
    for job in jobs {
        released = released.max(job.release().await);
    }
    flooding.store(true, Ordering::Relaxed);
    let came = flood.await.unwrap();
    let (resident, most) = (sidecar.memory("VmRSS") / MIB, sidecar.memory("VmHWM"));
    let fared = [by_tcp, by_unix, probed, admin];
    let told = fared.map(|Fared { what, longest, calls }| {
        format!("{what} {} ms of {calls}", longest.as_millis())
    });
    println!(
        "{name}: {came} connections in {seconds} s; the longest answers: {}; renewals {}, releases within {} ms; resident \
         {resident} MiB, at most {}",
        told.join(", "),
        renewed + renewed_too,
        released.as_millis(),
        most / MIB,
    );
    assert!(came > seconds * RATE / 10, "{name}: {came} came");
    assert!(most < MEMORY, "{name}: {most} bytes");
    for channel in early.into_iter().chain([used]) {
        ask(channel).await.unwrap();
    }
    if seconds >= 60 {
        // Only where somebody asked for the long form: a busy machine is late on its own.
        for fared in fared {
            assert!(fared.longest < IN_TIME, "{name}: {fared:?}");
        }
        assert!(released < IN_TIME, "{name}: releases {released:?}");
        assert!(renewed > 0 && renewed_too > 0, "{name}: no renewal");
    }
}

fn limit() -> String {
    format!("limits.memory={}MiB", MEMORY / MIB)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_silent_connections_at_every_listener_keep_nobody_waiting() {
    let sidecar = Sidecar::start(&[&limit()]).await;
    let fifty = (10..60).map(|last| sidecar.tcp(last)).collect();
    keep(&sidecar, "TCP from one address", vec![sidecar.tcp(1)], SILENT).await;
    keep(&sidecar, "TCP from fifty", fifty, SILENT).await;
    keep(&sidecar, "the socket", vec![sidecar.unix()], SILENT).await;
    keep(&sidecar, "the socket for probes", vec![sidecar.probes()], SILENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_silent_connections_at_admin_http_keep_nobody_waiting() {
    let sidecar = Sidecar::start(&[&limit()]).await;
    let half = Manner { says: b"GET /livez HTTP/1.1\r\nhost:", leaves: false };
    let one = || vec![sidecar.bare(1, true)];
    let fifty = || (10..60).map(|last| sidecar.bare(last, true)).collect();
    keep(&sidecar, "admin HTTP from one address", one(), SILENT).await;
    keep(&sidecar, "admin HTTP from fifty", fifty(), SILENT).await;
    keep(&sidecar, "halves of admin requests from one", one(), half).await;
    keep(&sidecar, "halves of admin requests from fifty", fifty(), half).await;
}

/// The first words of a client of TLS, which cost the sidecar a signature.
fn client_hello(sidecar: &Sidecar) -> &'static [u8] {
    let config = Arc::clone(&sidecar.tls.as_ref().unwrap().unknown);
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut bytes = Vec::new();
    ClientConnection::new(config, name).unwrap().write_tls(&mut bytes).unwrap();
    bytes.leak()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_connections_that_do_not_finish_tls_keep_nobody_waiting() {
    let sidecar = Sidecar::with_certificates(&[&limit()]).await;
    let one = || vec![sidecar.bare(1, false)];
    let fifty = || (10..60).map(|last| sidecar.bare(last, false)).collect();
    keep(&sidecar, "TLS, silent, from one address", one(), SILENT).await;
    keep(&sidecar, "TLS, silent, from fifty", fifty(), SILENT).await;
    let stays = Manner { says: client_hello(&sidecar), leaves: false };
    keep(&sidecar, "TLS, half a handshake, from one", one(), stays).await;
    keep(&sidecar, "TLS, half a handshake, from fifty", fifty(), stays).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_clients_without_a_certificate_that_come_again_keep_nobody_waiting() {
    let sidecar = Sidecar::with_certificates(&[&limit()]).await;
    let unknown = |last: u8| {
        let config = Arc::clone(&sidecar.tls.as_ref().unwrap().unknown);
        Way::Tls(Box::new(sidecar.bare(last, false)), config)
    };
    let leaves = Manner { says: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", leaves: true };
    keep(&sidecar, "TLS without a certificate, from one", vec![unknown(1)], leaves).await;
    let fifty = (10..60).map(unknown).collect();
    keep(&sidecar, "TLS without a certificate, from fifty", fifty, leaves).await;
}
