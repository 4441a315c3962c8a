//! What a second worker thread brings: a `leasehold serve` with one against one with two, in turns.
//!
//! The load is one thread of this program, so that on two cores a second worker has what that thread leaves
//! of a core.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use tempfile::TempDir;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::figure::{Figures, Stopwatch, median, typical};
use crate::process::program;
use crate::sidecar::{Client, acquire, release, runtime};

/// Each with a connection of its own.
const CLIENTS: usize = 64;
/// They share connections.
const WAITERS: usize = 1_000;
const CONNECTIONS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_secs(1);

pub(crate) fn measure(figures: &mut Figures) {
    for (name, tls) in [("plain", false), ("TLS", true)] {
        let ratio = second_over_first(|sidecar| runtime().block_on(rate(sidecar)), tls);
        let name = format!("64 clients over TCP, {name}: cycles with 2 workers over 1");
        figures.at_least(&name, ratio, 1.0, " ×");
    }
    let ratio = second_over_first(|sidecar| runtime().block_on(one_by_one(sidecar)), false);
    figures.at_most("One client over TCP: median cycle with 2 workers over 1", ratio, 1.1, " ×");
    let ratio = second_over_first(|sidecar| runtime().block_on(hand_offs(sidecar)), false);
    figures.at_least("1,000 waiters: hand-offs with 2 workers over 1", ratio, 0.8, " ×");
}

/// What `measured` finds with two workers, over what it finds with one.
fn second_over_first(measured: impl Fn(&Sidecar) -> f64, tls: bool) -> f64 {
    let [ratio] = typical(|| {
        let [one, two] = [1, 2].map(|workers| measured(&Sidecar::start(workers, tls)));
        [two / one]
    });
    ratio
}

/// Cycles a second of many clients: an acquire of a lock that nobody used before, and its release.
async fn rate(sidecar: &Sidecar) -> f64 {
    let channels = join_all((0..CLIENTS).map(|_| sidecar.connect())).await;
    let watch = Stopwatch::new();
    let begin = watch.now();
    let cycles = join_all(channels.into_iter().enumerate().map(|(number, channel)| {
        let (mut client, watch) = (Client::new(channel), &watch);
        async move {
            let mut measured = 0;
            for turn in 0_u64.. {
                cycle(&mut client, &format!("job-{number}-{turn}"), 0).await;
                let passed = watch.since(begin);
                if passed > WARM_UP + MEASURED {
                    break;
                }
                measured += u32::from(passed > WARM_UP);
            }
            measured
        }
    }));
    f64::from(cycles.await.iter().sum::<u32>()) / MEASURED.as_secs_f64()
}

/// The median of cycles that follow one another, in seconds.
async fn one_by_one(sidecar: &Sidecar) -> f64 {
    let mut client = Client::new(sidecar.connect().await);
    let watch = Stopwatch::new();
    let mut times = Vec::new();
    for turn in 0..1_000 {
        let lock = format!("job-{turn}");
        times.push(watch.time(cycle(&mut client, &lock, 0)).await.1);
    }
    median(times)
}

/// Hand-offs a second between many callers, each of which releases at once.
async fn hand_offs(sidecar: &Sidecar) -> f64 {
    let channels = join_all((0..CONNECTIONS).map(|_| sidecar.connect())).await;
    let watch = Stopwatch::new();
    let waiting = (0..WAITERS).map(|number| {
        let mut client = Client::new(channels[number % CONNECTIONS].clone());
        async move { cycle(&mut client, "crowded", 3_600).await }
    });
    let (_, time) = watch.time(join_all(waiting)).await;
    WAITERS as f64 / time.as_secs_f64()
}

async fn cycle(client: &mut Client, lock: &str, wait: i64) {
    let grant = acquire(client, lock, wait).await;
    release(client, grant.lease_id).await;
}

/// A process with a store in memory.
struct Sidecar {
    process: Child,
    port: u16,
    /// The certificate that its clients trust.
    authority: Option<String>,
    _folder: TempDir,
}

impl Sidecar {
    fn start(workers: usize, tls: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program());
        command.args(["serve", "--store", "memory", "--set", "listen.tcp=127.0.0.1:0"]);
        command.args(["--set", "admin.listen=", "--set", "log.format=json"]);
        command.args(["--set", "log.filter=warn,leasehold::cli=info"]);
        command.args(["--set", &format!("limits.worker_threads={workers}")]);
        let authority = tls.then(|| {
            let (authority, certificate, key) = certificates();
            for (setting, text) in [("certificate", certificate), ("key", key)] {
                let file = folder.path().join(setting);
                std::fs::write(&file, text).unwrap();
                command.args(["--set", &format!("listen.tls.{setting}={}", file.display())]);
            }
            authority
        });
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let port = lines.find_map(|line| port(&line.unwrap())).unwrap();
        Self { process, port, authority, _folder: folder }
    }

    async fn connect(&self) -> Channel {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        let endpoint = format!("{scheme}://127.0.0.1:{}", self.port);
        let mut endpoint = Endpoint::from_shared(endpoint).unwrap().tcp_nodelay(true);
        if let Some(authority) = &self.authority {
            let authority = Certificate::from_pem(authority);
            let tls = ClientTlsConfig::new().ca_certificate(authority);
            endpoint = endpoint.tls_config(tls).unwrap();
        }
        endpoint.connect().await.unwrap()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The port in the line of the log that says where it listens.
fn port(line: &str) -> Option<u16> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line["tcp"].as_str()?.rsplit(':').next()?.parse().ok()
}

/// The certificate of an authority, and one for the loopback address with its key.
fn certificates() -> (String, String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    (authority.pem(), certificate.pem(), key.serialize_pem())
}
