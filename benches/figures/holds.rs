//! Many holds of one sidecar, which is a process of its own here, with a store that takes 20 ms a call.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::coordinator::{LockEvent, LockEventKind, Observer};

use crate::figure::{Figures, Stopwatch, percentile};
use crate::process::{processor_time, resident_mib};
use crate::sidecar::{self, Client, acquire, connect, release, runtime};
use crate::slow_store::SlowStore;

/// The argument that makes this program the sidecar.
pub(crate) const CHILD: &str = "sidecar";
/// Two renewals of every hold at D = 60 s.
const WATCHED: Duration = Duration::from_secs(40);
const CONNECTIONS: usize = 50;

/// So many holds, and what they may cost.
struct Case {
    holds: usize,
    name: &'static str,
    /// Percent of a core.
    processor: f64,
    /// MiB.
    resident: Option<f64>,
    /// Calls under way on each connection while they are acquired: the faster, the more renewals are due
    /// together.
    at_once: usize,
    /// Whether other callers come and go meanwhile.
    probed: bool,
}

const FEW: [Case; 2] = [
    Case { holds: 1_000, name: "1,000", processor: 2.0, resident: None, at_once: 1, probed: false },
    Case {
        holds: 10_000,
        name: "10,000",
        processor: 20.0,
        resident: Some(40.0),
        at_once: 1,
        probed: false,
    },
];

const MANY: Case = Case {
    holds: 100_000,
    name: "100,000",
    processor: 100.0,
    // 250 MB.
    resident: Some(238.0),
    at_once: 10,
    probed: true,
};

pub(crate) fn measure(figures: &mut Figures) {
    measure_cases(figures, &FEW);
}

pub(crate) fn measure_many(figures: &mut Figures) {
    measure_cases(figures, &[MANY]);
}

fn measure_cases(figures: &mut Figures, cases: &[Case]) {
    for case in cases {
        let measured = runtime().block_on(watch(case));
        let title = format!("{} holds at D = 60 s, 20 ms a storage call", case.name);
        figures.at_most(&format!("{title}: of a core"), measured.processor, case.processor, " %");
        if let Some(resident) = case.resident {
            figures.at_most(&format!("{title}: resident"), measured.resident, resident, " MiB");
        }
        let late = measured.lateness.as_secs_f64();
        figures.at_most(&format!("{title}: latest renewal"), late, 3.0, " s");
        if let Some((idle, busy)) = measured.probes {
            let [grants, releases] = [busy.grants / idle.grants, busy.releases / idle.releases];
            figures.at_most(&format!("{title}: p99 of other grants, over idle"), grants, 3.0, " ×");
            let name = format!("{title}: p99 of other releases, over idle");
            figures.at_most(&name, releases, 3.0, " ×");
        }
    }
}

struct MeteredStore {
    processor: f64,
    resident: f64,
    lateness: Duration,
    /// Without the holds, and with them.
    probes: Option<(Probe, Probe)>,
}

async fn watch(case: &Case) -> MeteredStore {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([CHILD.as_ref(), socket.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let idle = if case.probed { Some(probe(&socket, IDLE).await) } else { None };
    take(&socket, case).await;
    let before = processor_time(child.id());
    let busy = if case.probed {
        Some(probe(&socket, WATCHED).await)
    } else {
        tokio::time::sleep(WATCHED).await;
        None
    };
    let used = processor_time(child.id()) - before;
    let resident = resident_mib(child.id());
    child.stdin.take().unwrap().write_all(b"report\n").unwrap();
    let lateness = Duration::from_millis(lines.next().unwrap().unwrap().parse().unwrap());
    child.wait().unwrap();
    let processor = 100.0 * used.as_secs_f64() / WATCHED.as_secs_f64();
    MeteredStore { processor, resident, lateness, probes: idle.zip(busy) }
}

/// Takes them with so many calls under way on each connection.
async fn take(socket: &Path, case: &Case) {
    let each = case.holds / CONNECTIONS / case.at_once;
    join_all((0..CONNECTIONS).map(|connection| async move {
        let client = Client::new(connect(socket).await);
        join_all((0..case.at_once).map(|caller| {
            let mut client = client.clone();
            async move {
                for number in 0..each {
                    let number = caller * each + number;
                    acquire(&mut client, &format!("job-{connection}-{number}"), 0).await;
                }
            }
        }))
        .await;
    }))
    .await;
}

/// How long other callers are watched before there is any hold.
const IDLE: Duration = Duration::from_secs(15);
/// One of them comes in each such time, whether or not those before it have gone.
const PACE: Duration = Duration::from_millis(10);
/// Locks that they take in turn: none comes again within the poll cap, after which a sidecar would stand back
/// (S10).
const OTHERS: usize = 1_000;

/// The 99th percentiles of acquires and releases, in seconds.
#[derive(Clone, Copy)]
struct Probe {
    grants: f64,
    releases: f64,
}

/// Acquires and releases locks that nobody wants, at a steady pace.
async fn probe(socket: &Path, watched: Duration) -> Probe {
    let client = Client::new(connect(socket).await);
    let mut pace = tokio::time::interval(PACE);
    let mut cycles = Vec::new();
    for number in 0..usize::try_from(watched.as_millis() / PACE.as_millis()).unwrap() {
        pace.tick().await;
        let mut client = client.clone();
        cycles.push(tokio::spawn(async move {
            let watch = Stopwatch::new();
            let name = format!("other-{}", number % OTHERS);
            let (grant, acquiring) = watch.time(acquire(&mut client, &name, 0)).await;
            let ((), releasing) = watch.time(release(&mut client, grant.lease_id)).await;
            (acquiring, releasing)
        }));
    }
    let times = join_all(cycles).await.into_iter().map(Result::unwrap);
    let (grants, releases): (Vec<_>, Vec<_>) = times.unzip();
    Probe { grants: percentile(99, grants), releases: percentile(99, releases) }
}

/// The latest renewal, in milliseconds.
#[derive(Debug, Default)]
struct Lateness(AtomicU64);

impl Observer for Lateness {
    fn observe(&self, event: &LockEvent<'_>) {
        if let LockEventKind::Renewal { lateness, .. } = event.kind {
            let lateness = u64::try_from(lateness.as_millis()).unwrap();
            self.0.fetch_max(lateness, Ordering::Relaxed);
        }
    }
}

/// Serves until it is asked for its report.
pub(crate) fn be_the_sidecar(socket: &str) {
    let lateness = Arc::new(Lateness::default());
    let observer = Arc::clone(&lateness);
    std::thread::spawn(move || {
        std::io::stdin().lines().next();
        println!("{}", lateness.0.load(Ordering::Relaxed));
        std::process::exit(0);
    });
    let store = SlowStore::new();
    let ready = || println!("ready");
    runtime().block_on(sidecar::serve(socket.into(), Arc::new(store), observer, ready));
}
