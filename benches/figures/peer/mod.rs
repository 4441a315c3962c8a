//! Leasehold on the embedded store beside etcd, both with their data on a disk that is synced: locks and
//! unlocks over TCP loopback by the same program, in turns.

mod etcd;
mod leasehold;

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;

use crate::figure::{Figures, Stopwatch, median, typical};
use crate::process::{processor_time, resident_mib};
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
    let [new, one, sequential, resident, of @ ..] =
        typical(|| runtime().block_on(compare(&program)));
    say("64 clients, new locks, cycles a second", [of[0], of[1]]);
    say("64 clients, new locks, µs of processor time for a cycle", [of[2], of[3]]);
    say("64 clients, one lock, cycles a second", [of[4], of[5]]);
    say("64 clients, one lock, µs of processor time for a cycle", [of[6], of[7]]);
    say("one after the other, µs", [of[8], of[9]]);
    let name = "64 clients, distinct new locks, embedded store: cycles over etcd's";
    figures.at_least(name, new, 1.2, " ×");
    let name = "64 clients, one lock, embedded store: cycles over etcd's";
    figures.at_least(name, one, 12.0, " ×");
    let name = "New locks one after the other, embedded store: median over etcd's";
    figures.at_most(name, sequential, 1.0, " ×");
    let name = "After these, embedded store: resident memory over etcd's";
    figures.at_most(name, resident, 0.25, " ×");
}

fn say(what: &str, [ours, theirs]: [f64; 2]) {
    eprintln!("{what}: Leasehold {ours:.0}, etcd {theirs:.0}");
}

/// Ratios of Leasehold's figures to etcd's, and then pairs of what they are of.
async fn compare(program: &Path) -> [f64; 14] {
    // On the disk that the build is on: what a system keeps in memory for temporary files is synced for
    // nothing.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let theirs = Etcd::start(program, folder.path()).await;
    let ours = Leasehold::start(folder.path()).await;
    let mut clients = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        clients.0.push(Peer::Leasehold(ours.client().await));
        clients.1.push(Peer::Etcd(theirs.client().await));
    }
    let our_new = throughput(&clients.0, Locks::New, ours.pid()).await;
    let their_new = throughput(&clients.1, Locks::New, theirs.pid()).await;
    let our_one = throughput(&clients.0, Locks::One, ours.pid()).await;
    let their_one = throughput(&clients.1, Locks::One, theirs.pid()).await;
    let (our_p50, their_p50) = latency(&mut clients.0[0], &mut clients.1[0]).await;
    let resident = resident_mib(ours.pid()) / resident_mib(theirs.pid());
    [
        our_new.rate / their_new.rate,
        our_one.rate / their_one.rate,
        our_p50 / their_p50,
        resident,
        our_new.rate,
        their_new.rate,
        our_new.processor_micros,
        their_new.processor_micros,
        our_one.rate,
        their_one.rate,
        our_one.processor_micros,
        their_one.processor_micros,
        our_p50 * 1e6,
        their_p50 * 1e6,
    ]
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

/// Cycles of all clients together.
struct Throughput {
    /// A second.
    rate: f64,
    /// Processor time of the server for one: what a busy machine changes less.
    processor_micros: f64,
}

async fn throughput(clients: &[Peer], locks: Locks, server: u32) -> Throughput {
    let watch = Stopwatch::new();
    let start = watch.now();
    let before = processor_time(server);
    let cycles = join_all(clients.iter().enumerate().map(|(number, client)| {
        let (mut client, watch) = (client.clone(), &watch);
        async move {
            let (mut measured, mut all): (u32, u32) = (0, 0);
            while watch.since(start) < WARM_UP + MEASURED {
                match locks {
                    Locks::New => client.cycle(&format!("new-{number}-{all}")).await,
                    Locks::One => client.cycle("one").await,
                }
                let done = watch.since(start);
                measured += u32::from(done >= WARM_UP && done < WARM_UP + MEASURED);
                all += 1;
            }
            (measured, all)
        }
    }))
    .await;
    let took = processor_time(server).saturating_sub(before);
    let (measured, all) =
        cycles.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Throughput {
        rate: f64::from(measured) / MEASURED.as_secs_f64(),
        processor_micros: took.as_secs_f64() * 1e6 / f64::from(all),
    }
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
