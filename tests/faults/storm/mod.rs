//! A storm: several sidecars and many jobs on one storage account, while everything that can fail does. Afterwards a
//! checker proves from the jobs' logs that nothing went wrong.
//!
//! `LEASEHOLD_TEST_STORM_MINUTES` makes it longer; `LEASEHOLD_TEST_STORM_SEED` repeats its choices (what processes make of them is
//! never twice the same).

mod cast;
mod checker;
mod traces;

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::testing::{Azurite, SeededRandom};
use rustix::process::Signal;

use crate::process::{Sidecar, until};
use crate::proxy::{Proxy, Weather};
use crate::statistics::Statistics;
use cast::{Resource, Worker};
use checker::Line;

/// Of the workers' leases.
const LEASE_NANOS: u64 = 15_000_000_000;
/// For a machine that has more to do.
const SLACK: Duration = Duration::from_secs(10);
const SIDECARS: usize = 3;
const WORKERS: usize = 18;
const LOCKS: [&str; 8] =
    ["nightly", "orders", "cleanup", "mail", "billing", "export", "import", "index"];
/// One step of the storm's schedule.
const TICK: Duration = Duration::from_millis(100);
const TICKS_A_SECOND: u64 = 10;

/// What passes again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Passing {
    Weather,
    SidecarStopped(usize),
    SidecarDead(usize),
    WorkerStopped(usize),
}

struct Storm {
    random: SeededRandom,
    statistics: Statistics,
    proxy: Proxy,
    sidecars: Vec<Sidecar>,
    workers: Vec<Worker>,
    /// What goes on, and at which tick it ends.
    passing: Vec<(u64, Passing)>,
    tick: u64,
}

/// A number of the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

impl Storm {
    async fn start(seed: u64, azurite: &Azurite, resources: &[Resource]) -> Self {
        let statistics = Statistics::default();
        let proxy = Proxy::start(azurite, seed, statistics.clone()).await;
        let connection = proxy.connection_string(azurite);
        let mut sidecars = Vec::new();
        for _ in 0..SIDECARS {
            let environment = vec![("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection.clone())];
            sidecars.push(
                Sidecar::start(
                    "Storm",
                    &["drain.period=5s", "admin.allow_break=true", "locks.poll_cap=2s"],
                    environment,
                )
                .await,
            );
        }
        let urls: Vec<&str> = resources.iter().map(Resource::url).collect();
        let workers = (0..WORKERS)
            .map(|index| {
                let sidecar = index % SIDECARS;
                Worker::start(
                    index,
                    sidecar,
                    &sidecars[sidecar].endpoint(),
                    &urls.join(","),
                    &LOCKS,
                )
            })
            .collect();
        let random = SeededRandom::new(seed);
        Self { random, statistics, proxy, sidecars, workers, passing: Vec::new(), tick: 0 }
    }

    fn is_passing(&self, what: Passing) -> bool {
        self.passing.iter().any(|(_, passing)| *passing == what)
    }

    /// Lets it go on for so many seconds.
    fn last(&mut self, what: Passing, least: u64, most: u64) {
        let seconds = least + self.random.below(most - least + 1);
        self.passing.push((self.tick + seconds * TICKS_A_SECOND, what));
    }

    fn is_whole(&self, sidecar: usize) -> bool {
        !self.is_passing(Passing::SidecarStopped(sidecar))
            && !self.is_passing(Passing::SidecarDead(sidecar))
    }

    fn weather(&mut self, weather: Weather, least: u64, most: u64) {
        if !self.is_passing(Passing::Weather) {
            self.statistics.count(&format!("fault: weather {weather:?}"));
            self.proxy.set(weather);
            self.last(Passing::Weather, least, most);
        }
    }

    fn stop_sidecar(&mut self, sidecar: usize, least: u64, most: u64) {
        self.statistics.count("fault: a sidecar was stopped");
        self.sidecars[sidecar].signal(Signal::STOP);
        self.last(Passing::SidecarStopped(sidecar), least, most);
    }

    fn stop_worker(&mut self, worker: usize, least: u64, most: u64) {
        if !self.is_passing(Passing::WorkerStopped(worker)) {
            self.statistics.count("fault: a job was stopped");
            self.workers[worker].stop();
            self.last(Passing::WorkerStopped(worker), least, most);
        }
    }

    /// As when a virtual machine stands still: a sidecar and its jobs, past their leases, in the midst of work;
    /// nothing else fails meanwhile, so that others take their locks.
    fn stop_machine(&mut self) -> bool {
        if (0..SIDECARS).any(|sidecar| self.is_passing(Passing::SidecarStopped(sidecar))) {
            return false;
        }
        let holding = |machine: &usize| {
            let of_it = self.workers.iter().filter(|worker| worker.sidecar == *machine);
            of_it.filter(|worker| worker.is_deaf_at_work()).count()
        };
        let whole = (0..SIDECARS).filter(|sidecar| self.is_whole(*sidecar));
        let chosen = whole.max_by_key(holding).filter(|machine| holding(machine) > 0);
        let Some(machine) = chosen else { return false };
        self.statistics.count("fault: a machine was stopped");
        self.passing.retain(|(_, what)| *what != Passing::Weather);
        self.proxy.set(Weather::Calm);
        self.stop_sidecar(machine, 26, 30);
        for worker in 0..WORKERS {
            if self.workers[worker].sidecar == machine {
                self.stop_worker(worker, 26, 30);
            }
        }
        true
    }

    async fn fault(&mut self) {
        let sidecar = usize::try_from(self.random.below(SIDECARS as u64)).unwrap();
        let worker = usize::try_from(self.random.below(WORKERS as u64)).unwrap();
        match self.random.below(24) {
            0..=4 => self.weather(Weather::Stormy, 5, 15),
            5 => self.weather(Weather::Gone, 1, 12),
            6 => self.weather(Weather::Silent, 1, 12),
            7..=9 if self.is_whole(sidecar) => {
                self.statistics.count("fault: a sidecar was killed");
                self.sidecars[sidecar].signal(Signal::KILL);
                self.sidecars[sidecar].ended().await;
                self.last(Passing::SidecarDead(sidecar), 0, 4);
            }
            10 | 11 if self.is_whole(sidecar) => self.stop_sidecar(sidecar, 1, 20),
            12..=15 => self.stop_worker(worker, 1, 20),
            16..=18 if !self.is_passing(Passing::WorkerStopped(worker)) => {
                self.statistics.count("fault: a job was killed");
                self.workers[worker].kill_and_start();
            }
            20 | 21 if self.is_whole(sidecar) => {
                self.statistics.count("fault: a lock was broken");
                let lock = LOCKS[usize::try_from(self.random.below(LOCKS.len() as u64)).unwrap()];
                cast::break_lock(&self.sidecars[sidecar].endpoint(), lock).await;
            }
            _ => {}
        }
    }

    fn pass(&mut self, what: Passing) {
        match what {
            Passing::Weather => self.proxy.set(Weather::Calm),
            Passing::SidecarStopped(sidecar) => self.sidecars[sidecar].signal(Signal::CONT),
            Passing::SidecarDead(sidecar) => self.sidecars[sidecar].start_again(),
            Passing::WorkerStopped(worker) => self.workers[worker].go_on(),
        }
    }

    /// Faults for that long, one a second or so; then all of them pass.
    async fn rage(&mut self, ticks: u64) {
        let mut clock = tokio::time::interval(TICK);
        let mut next = 50;
        // In the shortest run, too.
        let mut machine_due = 100;
        while self.tick < ticks {
            clock.tick().await;
            self.tick += 1;
            let now = self.tick;
            let over: Vec<Passing> =
                self.passing.extract_if(.., |(end, _)| *end <= now).map(|(_, what)| what).collect();
            over.into_iter().for_each(|what| self.pass(what));
            if self.tick >= machine_due && self.stop_machine() {
                machine_due = self.tick + 600;
                next = self.tick + 300;
            }
            if self.tick >= next {
                next = self.tick + 4 + self.random.below(14);
                self.fault().await;
            }
        }
        let left = std::mem::take(&mut self.passing);
        left.into_iter().for_each(|(_, what)| self.pass(what));
    }

    fn logs(&self) -> BTreeMap<String, Vec<Line>> {
        self.workers
            .iter()
            .map(|worker| (worker.name.clone(), checker::read(&worker.log())))
            .collect()
    }

    fn story(&self) -> String {
        let workers: String = self.workers.iter().map(Worker::story).collect();
        format!("{}\n{workers}", self.statistics)
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
const MUST_OCCUR: [&str; 16] = [
    "fault: weather Stormy",
    "fault: a sidecar was killed",
    "fault: a sidecar was stopped",
    "fault: a job was stopped",
    "fault: a machine was stopped",
    "request: cut before it was applied",
    "request: cut after it was applied",
    "request: late",
    "request: answered late",
    "request: sent twice",
    "request: refused before it was applied",
    "request: refused after it was applied",
    "granted",
    "released",
    "lost: ",
    "resource without a check: stale",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_s4_s5_hold_in_a_storm_and_a_resource_that_checks_tokens_takes_nothing_late() {
    let seed = number("LEASEHOLD_TEST_STORM_SEED", 1);
    let minutes = number("LEASEHOLD_TEST_STORM_MINUTES", 0);
    let ticks = if minutes == 0 { 120 * TICKS_A_SECOND } else { minutes * 60 * TICKS_A_SECOND };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("documents.db");
    let resources = [
        Resource::start("in memory", &["memory"]).await,
        Resource::start("in SQL", &["sql", file.to_str().unwrap()]).await,
        Resource::start("without a check", &["nothing"]).await,
    ];
    let azurite = Azurite::start().unwrap();
    let mut storm = Storm::start(seed, &azurite, &resources).await;
    storm.rage(ticks).await;
    storm.wait_for_grants().await;
    let stops = storm.workers.iter_mut().map(Worker::end).collect();
    let logs = storm.logs();
    let statistics = storm.statistics.clone();
    for line in logs.values().flatten() {
        match line.event.as_str() {
            "lost" => {
                let reason = line.why.split(':').next().unwrap_or_default();
                statistics.count(&format!("lost: {reason}"));
            }
            "wrote" => statistics.count(&format!("wrote: {}", line.status)),
            other => statistics.count(other),
        }
    }
    for resource in &resources {
        let counted = resource.count().await;
        for what in ["accepted", "refused", "stale"] {
            statistics.add(
                &format!("resource {}: {what}", resource.name),
                counted[what].as_u64().unwrap(),
            );
        }
    }
    println!("seed {seed}\n{statistics}");

    let texts = storm.workers.iter().map(|worker| (worker.name.clone(), worker.log())).collect();
    let traced = traces::traces(&texts);
    assert_eq!(leasehold::testing::accepts(&traced), Ok(()), "the model does not allow it");
    println!("{} traces with {} events are accepted", LOCKS.len(), traced.len());
    let mut problems = checker::overlaps(&checker::beliefs(&logs));
    problems.extend(checker::granted_twice(&logs));
    problems.extend(checker::late_losses(&logs, &stops, SLACK));
    assert!(problems.is_empty(), "{problems:#?}");
    for checked in ["in memory", "in SQL"] {
        assert_eq!(statistics.sum(&format!("resource {checked}: stale")), 0, "{checked}");
        assert!(statistics.sum(&format!("resource {checked}: refused")) > 0, "nobody wrote late");
    }
    let missing: Vec<&str> =
        MUST_OCCUR.into_iter().filter(|name| statistics.sum(name) == 0).collect();
    assert!(missing.is_empty(), "never occurred: {missing:?}");
}
