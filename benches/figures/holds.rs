//! Many holds of one sidecar, which is a process of its own here, with a store that takes 20 ms a call.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::coordinator::{Observation, Observer};

use crate::figure::Figures;
use crate::process::{processor_time, resident_mib};
use crate::sidecar::{self, Client, acquire, connect, runtime};
use crate::slow_store::SlowStore;

/// The argument that makes this program the sidecar.
pub(crate) const CHILD: &str = "sidecar";
/// Two renewals of every hold at D = 60 s.
const WATCHED: Duration = Duration::from_secs(40);
const CONNECTIONS: usize = 50;

pub(crate) fn measure(figures: &mut Figures) {
    for (holds, name, processor) in [(1_000, "1,000", 2.0), (10_000, "10,000", 20.0)] {
        let measured = runtime().block_on(watch(holds));
        let title = format!("{name} holds at D = 60 s, 20 ms a storage call");
        figures.at_most(&format!("{title}: of a core"), measured.processor, processor, " %");
        if holds == 10_000 {
            figures.at_most(&format!("{title}: resident"), measured.resident, 40.0, " MiB");
        }
        let late = measured.lateness.as_secs_f64();
        figures.at_most(&format!("{title}: latest renewal"), late, 3.0, " s");
    }
}

struct Measured {
    processor: f64,
    resident: f64,
    lateness: Duration,
}

async fn watch(holds: usize) -> Measured {
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
    take(&socket, holds).await;
    let before = processor_time(child.id());
    tokio::time::sleep(WATCHED).await;
    let used = processor_time(child.id()) - before;
    let resident = resident_mib(child.id());
    child.stdin.take().unwrap().write_all(b"report\n").unwrap();
    let lateness = Duration::from_millis(lines.next().unwrap().unwrap().parse().unwrap());
    child.wait().unwrap();
    let processor = 100.0 * used.as_secs_f64() / WATCHED.as_secs_f64();
    Measured { processor, resident, lateness }
}

/// Takes them with as many calls under way as there are connections.
async fn take(socket: &Path, holds: usize) {
    let each = holds / CONNECTIONS;
    join_all((0..CONNECTIONS).map(|connection| async move {
        let mut client = Client::new(connect(socket).await);
        for number in 0..each {
            acquire(&mut client, &format!("job-{connection}-{number}"), 0).await;
        }
    }))
    .await;
}

/// The latest renewal, in milliseconds.
#[derive(Debug, Default)]
struct Lateness(AtomicU64);

impl Observer for Lateness {
    fn observe(&self, observation: &Observation) {
        if let Observation::Renewal { lateness, .. } = observation {
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
