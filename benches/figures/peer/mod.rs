//! Leasehold on the embedded store beside etcd, both with their data on a disk that is synced: locks and unlocks over
//! TCP loopback by the same program, in turns.

mod etcd;
mod leasehold;

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;

use crate::figure::{Figures, Stopwatch, median, typical};
use crate::process::resident_mib;
use crate::sidecar::runtime;
use etcd::{Etcd, EtcdClient};
use leasehold::{Leasehold, LeaseholdClient};

/// Each with a connection of its own.
const CLIENTS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(2);
/// Cycles one after the other.
const SEQUENTIAL: usize = 1_000;

pub(crate) fn measure(figures: &mut Figures) {
    let program = match Etcd::install() {
        Ok(program) => program,
        Err(problem) => {
            eprintln!("etcd is not measured, it could not be installed: {problem}");
            return;
        }
    };
    let [distinct, one, sequential, resident, ours, theirs, our_p50, their_p50] =
        typical(|| runtime().block_on(compare(&program)));
    let of =
        |ours: f64, theirs: f64, unit| format!("Leasehold {ours:.0}{unit}, etcd {theirs:.0}{unit}");
    eprintln!("64 clients: {}", of(ours, theirs, "/s"));
    eprintln!("one after the other: {}", of(our_p50 * 1e6, their_p50 * 1e6, " µs"));
    let name = "64 clients, distinct new locks, embedded store: cycles over etcd's";
    figures.at_least(name, distinct, 1.2, " ×");
    let name = "64 clients, one lock, embedded store: cycles over etcd's";
    figures.at_least(name, one, 10.0, " ×");
    let name = "New locks one after the other, embedded store: median over etcd's";
    figures.at_most(name, sequential, 1.0, " ×");
    let name = "After these, embedded store: resident memory over etcd's";
    figures.at_most(name, resident, 0.25, " ×");
}

/// Ratios of Leasehold's figures to etcd's, then what the first and third are of.
async fn compare(program: &Path) -> [f64; 8] {
    // On the disk that the build is on: what a system keeps in memory for temporary files is synced for nothing.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let theirs = Etcd::start(program, folder.path()).await;
    let ours = Leasehold::start(folder.path()).await;
    let mut clients = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        clients.0.push(Peer::Leasehold(ours.client().await));
        clients.1.push(Peer::Etcd(theirs.client().await));
    }
    let (our_distinct, their_distinct) =
        (throughput(&clients.0, Locks::New).await, throughput(&clients.1, Locks::New).await);
    let (our_one, their_one) =
        (throughput(&clients.0, Locks::One).await, throughput(&clients.1, Locks::One).await);
    let (our_p50, their_p50) = latency(&mut clients.0[0], &mut clients.1[0]).await;
    let resident = resident_mib(ours.pid()) / resident_mib(theirs.pid());
    let distinct = our_distinct / their_distinct;
    let ratios = [distinct, our_one / their_one, our_p50 / their_p50, resident];
    let [one, two, three, four] = ratios;
    [one, two, three, four, our_distinct, their_distinct, our_p50, their_p50]
}

#[derive(Clone)]
enum Peer {
    Leasehold(LeaseholdClient),
    Etcd(EtcdClient),
}

impl Peer {
    /// Acquires the lock, waiting for it if need be, and releases it.
    async fn cycle(&mut self, lock: &str) {
        match self {
            Self::Leasehold(client) => client.cycle(lock).await,
            Self::Etcd(client) => client.cycle(lock).await,
        }
    }
}

#[derive(Clone, Copy)]
enum Locks {
    /// Each cycle has a lock that never was before.
    New,
    /// All cycles are of one lock.
    One,
}

/// Cycles a second of all clients together.
async fn throughput(clients: &[Peer], locks: Locks) -> f64 {
    let watch = Stopwatch::new();
    let start = watch.now();
    let cycles = join_all(clients.iter().enumerate().map(|(number, client)| {
        let (mut client, watch) = (client.clone(), &watch);
        async move {
            let mut measured: u32 = 0;
            for cycle in 0_u32.. {
                let begun = watch.since(start);
                if begun >= WARM_UP + MEASURED {
                    break;
                }
                match locks {
                    Locks::New => client.cycle(&format!("new-{number}-{cycle}")).await,
                    Locks::One => client.cycle("one").await,
                }
                let done = watch.since(start);
                measured += u32::from(done >= WARM_UP && done < WARM_UP + MEASURED);
            }
            measured
        }
    }))
    .await;
    f64::from(cycles.into_iter().sum::<u32>()) / MEASURED.as_secs_f64()
}

/// Medians of a cycle's time in seconds, cycle by cycle in turns.
async fn latency(ours: &mut Peer, theirs: &mut Peer) -> (f64, f64) {
    let watch = Stopwatch::new();
    let mut times: [Vec<Duration>; 2] = Default::default();
    for cycle in 0..SEQUENTIAL {
        let lock = format!("sequential-{cycle}");
        times[0].push(watch.time(ours.cycle(&lock)).await.1);
        times[1].push(watch.time(theirs.cycle(&lock)).await.1);
    }
    let [ours, theirs] = times.map(median);
    (ours, theirs)
}
