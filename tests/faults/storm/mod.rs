//! A storm: several sidecars and many jobs on one storage account, while everything that can fail does.
//! Afterwards a checker proves from the jobs' logs that nothing went wrong.
//!
//! `LEASEHOLD_TEST_STORM_COUNT` runs several, one after another, each with the seed after the one before;
//! `LEASEHOLD_TEST_STORM_MINUTES` makes it longer; `LEASEHOLD_TEST_STORM_SEED` repeats its choices (what
//! processes make of them is never twice the same). `LEASEHOLD_TEST_STORM_LOGS` names a folder that keeps the
//! jobs' logs, in the format that `worker.rs` describes.
//!
//! Every fault proves that it acted: a stop by the state of the process's threads, a kill by how the process
//! ended, a cut by what the proxy and the gates counted, a stepped clock by a grant that shows it. A fault
//! that has not acted yet goes on; one that never does fails the run.

mod cast;
mod checker;
mod faults;
mod names;
pub(crate) mod traces;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use leasehold::testing::{Azurite, SeededRandom};

use crate::faults::gate::Gate;
use crate::faults::moving::{Clocks, Shift};
use crate::faults::process::{Sidecar, number, until};
use crate::faults::proxy::Proxy;
use crate::faults::statistics::Statistics;
use cast::{Resource, Worker};
use checker::Logs;
use faults::{Passing, Step};
use names::Names;

/// For a machine that has more to do.
const SLACK: Duration = Duration::from_secs(10);
/// Sidecars with jobs on their own machine.
const LOCAL: usize = 3;
/// Sidecars on machines of their own, which jobs elsewhere move between.
const REMOTE: usize = 2;
const SIDECARS: usize = LOCAL + REMOTE;
const WORKERS: usize = 18;
/// As many of the workers are elsewhere.
const MOVING: usize = 6;
const LOCKS: [&str; 8] =
    ["nightly", "orders", "cleanup", "mail", "billing", "export", "import", "index"];
/// One step of the storm's schedule.
const TICK: Duration = Duration::from_millis(100);
const TICKS_A_SECOND: u64 = 10;

struct Storm {
    random: SeededRandom,
    statistics: Statistics,
    proxy: Proxy,
    names: Names,
    sidecars: Vec<Sidecar>,
    clocks: Vec<Clocks>,
    workers: Vec<Worker>,
    /// Where the remote sidecars listen.
    addresses: Vec<SocketAddr>,
    /// Those of the last workers.
    gates: Vec<Gate>,
    /// What goes on, and at which tick it ends.
    passing: Vec<(u64, Passing)>,
    /// The steps of wall clocks.
    steps: Vec<Step>,
    tick: u64,
    /// When faults were to end that had done nothing by then.
    late: BTreeMap<String, u64>,
    /// Faults that did nothing.
    idle: Vec<String>,
}

/// A port of the loopback that is free, and is again after a sidecar on it was killed.
fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// What the clocks of a sidecar show while nothing moves them: a remote one is on a machine of its own.
fn unmoved(sidecar: usize) -> Shift {
    let boot_id =
        (sidecar >= LOCAL).then(|| format!("00000000-0000-4000-8000-00000000000{sidecar}"));
    Shift { boot_id, ..Shift::default() }
}

impl Storm {
    async fn start(seed: u64, azurite: &Azurite, resources: &[Resource]) -> Self {
        let statistics = Statistics::default();
        let proxy = Proxy::start(azurite, seed, statistics.clone()).await;
        let names = Names::new();
        let connection = proxy.connection_string(azurite).replace("127.0.0.1", names::NAME);
        let (mut sidecars, mut clocks, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..SIDECARS {
            let clock = Clocks::new();
            clock.set(&unmoved(index));
            let mut environment = names.environment();
            environment.push(("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection.clone()));
            environment.push(clock.variable());
            let mut settings =
                vec!["drain.hand_over=true".to_owned(), "admin.allow_break=true".to_owned()];
            settings.push("locks.poll_cap=2s".to_owned());
            if index >= LOCAL {
                let address = free_address();
                settings.push(format!("listen.tcp={address}"));
                addresses.push(address);
            }
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            sidecars.push(Sidecar::start("Storm", &settings, environment).await);
            clocks.push(clock);
        }
        let urls: Vec<&str> = resources.iter().map(Resource::url).collect();
        let urls = urls.join(",");
        let (mut workers, mut gates) = (Vec::new(), Vec::new());
        for index in 0..WORKERS - MOVING {
            let sidecar = index % LOCAL;
            let endpoint = sidecars[sidecar].endpoint();
            workers.push(Worker::start(index, Some(sidecar), &endpoint, &urls, &LOCKS));
        }
        for index in WORKERS - MOVING..WORKERS {
            let gate = Gate::start(addresses[index % REMOTE]).await;
            workers.push(Worker::start(index, None, &gate.endpoint(), &urls, &LOCKS));
            gates.push(gate);
        }
        Self {
            random: SeededRandom::new(seed),
            statistics,
            proxy,
            names,
            sidecars,
            clocks,
            workers,
            addresses,
            gates,
            passing: Vec::new(),
            steps: Vec::new(),
            tick: 0,
            late: BTreeMap::new(),
            idle: Vec::new(),
        }
    }

    fn logs(&self) -> Logs {
        self.workers
            .iter()
            .map(|worker| (worker.name.clone(), checker::read(&worker.log())))
            .collect()
    }

    fn story(&self) -> String {
        let workers: String = self.workers.iter().map(Worker::story).collect();
        format!("{}\n{workers}", self.statistics)
    }

    /// For the model to read, and people.
    fn keep_logs(&self, seed: u64) {
        let Some(folder) = std::env::var_os("LEASEHOLD_TEST_STORM_LOGS").map(PathBuf::from) else {
            return;
        };
        let folder = folder.join(format!("seed-{seed}"));
        std::fs::create_dir_all(&folder).unwrap();
        for worker in &self.workers {
            let name = format!("{}.jsonl", worker.name.replace(' ', "-"));
            std::fs::write(folder.join(name), worker.log()).unwrap();
        }
    }

    /// Once faults have stopped, every lock is granted again.
    async fn wait_for_grants(&self) {
        let over = cast::boot_nanos();
        for lock in LOCKS {
            let granted = || {
                let logs = self.logs();
                let mut lines = logs.values().flatten();
                lines
                    .any(|line| line.event == "granted" && line.lock == lock && line.at > over)
                    .then_some(())
            };
            until(&format!("{lock} is granted again"), || self.story(), granted).await;
        }
    }
}

/// What must have happened, or the storm was too gentle to prove anything.
const MUST_OCCUR: [&str; 24] = [
    "fault: weather Stormy",
    "fault: weather Nameless",
    "fault: a sidecar was killed",
    "fault: a sidecar was replaced",
    "fault: a sidecar was stopped",
    "fault: a job was stopped",
    "fault: a job was killed",
    "fault: a job was moved",
    "fault: a holder was moved",
    "fault: a wall clock was moved",
    "fault: a machine was stopped",
    "fault: a holder was stopped and a clock moved",
    "request: cut before it was applied",
    "request: cut after it was applied",
    "request: late",
    "request: answered late",
    "request: sent twice",
    "request: refused before it was applied",
    "request: refused after it was applied",
    "granted",
    "granted: resumed",
    "released",
    "lost: ",
    "resource without a check: stale",
];

impl Storm {
    /// What the jobs noted and the resources counted.
    async fn outcome(&self, resources: &[Resource]) -> Statistics {
        let statistics = Statistics::default();
        for line in self.logs().values().flatten() {
            match line.event.as_str() {
                "lost" => statistics.count(&format!("lost: {}", line.reason)),
                "released" => statistics.count(&format!("released: {}", line.outcome)),
                "wrote" => statistics.count(&format!("wrote: {}", line.status)),
                "granted" if line.resumed => statistics.count("granted: resumed"),
                other => statistics.count(other),
            }
        }
        for resource in resources {
            let counted = resource.count().await;
            for what in ["accepted", "refused", "stale"] {
                let name = format!("resource {}: {what}", resource.name);
                statistics.add(&name, counted[what].as_u64().unwrap());
            }
        }
        statistics
    }

    async fn missing(&self, resources: &[Resource]) -> Vec<&'static str> {
        let outcome = self.outcome(resources).await;
        let occurred = |name: &&str| self.statistics.sum(name) + outcome.sum(name) > 0;
        MUST_OCCUR.into_iter().filter(|name| !occurred(name)).collect()
    }
}

/// One storm, checked. The number of traces that the model accepts.
async fn storm(seed: u64, ticks: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("documents.db");
    let resources = [
        Resource::start("in memory", &["memory"]).await,
        Resource::start("in SQL", &["sql", file.to_str().unwrap()]).await,
        Resource::start("without a check", &["nothing"]).await,
    ];
    let azurite = Azurite::start().unwrap();
    let mut storm = Storm::start(seed, &azurite, &resources).await;
    storm.rage(ticks, &resources).await;
    storm.wait_for_grants().await;
    let stops = storm.workers.iter_mut().map(Worker::end).collect();
    storm.keep_logs(seed);
    let logs = storm.logs();
    let outcome = storm.outcome(&resources).await;
    println!("seed {seed}, {} s\n{}{outcome}", storm.tick / TICKS_A_SECOND, storm.statistics);

    let texts = storm.workers.iter().map(|worker| (worker.name.clone(), worker.log())).collect();
    let accepted = traces::check(&traces::traces(&texts));
    assert_eq!(accepted, LOCKS.len(), "a lock was never granted");
    let promises = checker::promises(&logs);
    let mut problems = checker::overlaps(&promises);
    problems.extend(checker::late_beliefs(&logs, &promises));
    problems.extend(checker::false_releases(&logs));
    problems.extend(checker::granted_twice(&logs));
    problems.extend(checker::late_losses(&logs, &stops, SLACK));
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(storm.idle.is_empty(), "faults that did nothing: {:#?}", storm.idle);
    for checked in ["in memory", "in SQL"] {
        assert_eq!(outcome.sum(&format!("resource {checked}: stale")), 0, "{checked}");
        assert!(outcome.sum(&format!("resource {checked}: refused")) > 0, "nobody wrote late");
    }
    assert_eq!(storm.missing(&resources).await, [""; 0], "never occurred");
    accepted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_s4_s5_hold_in_a_storm_and_a_resource_that_checks_tokens_takes_nothing_late() {
    let first = number("LEASEHOLD_TEST_STORM_SEED", 1);
    let storms = number("LEASEHOLD_TEST_STORM_COUNT", 1);
    let minutes = number("LEASEHOLD_TEST_STORM_MINUTES", 2);
    let mut accepted = 0;
    for seed in first..first + storms {
        accepted += storm(seed, minutes * 60 * TICKS_A_SECOND).await;
        println!("{accepted} traces are accepted by the model");
    }
}
