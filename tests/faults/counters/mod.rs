//! A storm of counters: jobs in every language count through the checkpoints of locks while their sidecars
//! and they themselves are killed, stopped and cut off, and locks are broken. A journal outside of them says
//! afterwards whether each acknowledged save stands (S23 to S27), and the model whether no two held a lock,
//! or a permit, at once (S1, S28).
//!
//! The control: at each turn the same job adds one to a counter of the same lock that takes every write. That
//! one must lose some, or the storm was too gentle to prove anything.
//!
//! `LEASEHOLD_TEST_COUNTERS_KILLS` makes it longer; `LEASEHOLD_TEST_STORM_SEED` repeats its choices (what
//! processes make of them is never twice the same); `LEASEHOLD_TEST_CLIENTS` names the languages, all if none
//! are.

mod cast;
mod faults;
mod journal;
mod plan;
mod turns;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::testing::{Azurite, SeededRandom, accepts};
use tokio::task::JoinSet;

use crate::faults::gate::Gate;
use crate::faults::moving::{Clocks, Shift};
use crate::faults::process::{PATIENCE, Sidecar, number, patient};
use crate::faults::proxy::Proxy;
use crate::faults::statistics::Statistics;
use crate::faults::storm::traces;
use cast::Handle;
use faults::Passing;
use journal::{Counter, Read};
use plan::Fault;
use turns::{Job, Shared, Stage};

/// The languages that have a client, by the names of their folders.
const LANGUAGES: [&str; 5] = ["go", "java", "python", "rust", "typescript"];
/// Sidecars with jobs on their own machine.
const LOCAL: usize = 2;
/// Sidecars on machines of their own, which jobs elsewhere move between.
const REMOTE: usize = 2;
const SIDECARS: usize = LOCAL + REMOTE;
/// Each lock with its number of permits.
const LOCKS: [(&str, u32); 4] = [("orders", 1), ("cursor", 1), (BROKEN_AT_ONCE, 1), (POOL, 2)];
/// The lock whose lease an operator ends at once: two holders are possible then (S17), and saves still must
/// not be lost.
const BROKEN_AT_ONCE: &str = "invoices";
/// The lock that two may hold at once (S28); each permit has a counter of its own.
const POOL: &str = "workers";
/// Processes killed in the run by default.
const KILLS: u64 = 12;
/// One step of the storm's schedule.
const TICK: Duration = Duration::from_millis(100);
const TICKS_A_SECOND: u64 = 10;

/// Now, on the boot clock.
fn boot_nanos() -> u64 {
    u64::try_from(leasehold_client::BootInstant::now().since_boot().as_nanos()).unwrap()
}

/// The languages that were asked for; all, if none were.
fn languages() -> Vec<&'static str> {
    let asked = std::env::var("LEASEHOLD_TEST_CLIENTS").unwrap_or_default();
    let is_asked = |name: &&str| asked.is_empty() || asked.split(',').any(|one| one == *name);
    let chosen: Vec<_> = LANGUAGES.into_iter().filter(is_asked).collect();
    assert!(!chosen.is_empty(), "LEASEHOLD_TEST_CLIENTS names none of {LANGUAGES:?}: {asked:?}");
    chosen
}

/// A job as the storm sees it.
struct Seat {
    handle: Handle,
    stage: Arc<Mutex<Stage>>,
    /// Its sidecar, or its gate if it is elsewhere.
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Beside(usize),
    Elsewhere(usize),
}

struct Storm {
    random: SeededRandom,
    statistics: Statistics,
    proxy: Proxy,
    sidecars: Vec<Sidecar>,
    /// Where the remote sidecars listen.
    addresses: Vec<SocketAddr>,
    gates: Vec<Gate>,
    seats: Vec<Seat>,
    shared: Arc<Shared>,
    jobs: JoinSet<()>,
    /// What goes on, and at which tick it ends.
    passing: Vec<(u64, Passing)>,
    /// What is done as soon as it can act, one after the other.
    due: Vec<Fault>,
    tick: u64,
    /// Of the remote sidecars, on machines of their own.
    clocks: Vec<Clocks>,
}

impl Storm {
    async fn start(seed: u64, azurite: &Azurite) -> Self {
        for language in languages() {
            cast::prepare(language).await;
        }
        let statistics = Statistics::default();
        let proxy = Proxy::start(azurite, seed, statistics.clone()).await;
        let shared = Arc::new(Shared {
            journal: Mutex::default(),
            statistics: statistics.clone(),
            is_over: false.into(),
            folder: tempfile::tempdir().unwrap(),
            locks: LOCKS.to_vec(),
        });
        let mut storm = Self {
            random: SeededRandom::new(seed),
            statistics,
            proxy,
            sidecars: Vec::new(),
            addresses: Vec::new(),
            gates: Vec::new(),
            seats: Vec::new(),
            shared,
            jobs: JoinSet::new(),
            passing: Vec::new(),
            due: plan::FIRST.to_vec(),
            tick: 0,
            clocks: Vec::new(),
        };
        storm.start_sidecars(azurite).await;
        for language in languages() {
            storm.start_jobs(language).await;
        }
        storm
    }

    async fn start_sidecars(&mut self, azurite: &Azurite) {
        let connection = self.proxy.connection_string(azurite);
        for index in 0..SIDECARS {
            let mut environment =
                vec![("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection.clone())];
            let mut settings =
                ["drain.hand_over=true", "admin.allow_break=true"].map(str::to_owned).to_vec();
            settings.push("locks.poll_cap=1s".to_owned());
            if index >= LOCAL {
                // A kernel of its own.
                let boot_id = Some(format!("00000000-0000-4000-8000-00000000000{index}"));
                let clocks = Clocks::new();
                clocks.set(&Shift { boot_id, ..Shift::default() });
                environment.push(clocks.variable());
                self.clocks.push(clocks);
                let address = free_address();
                settings.push(format!("listen.tcp={address}"));
                self.addresses.push(address);
            }
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            self.sidecars.push(Sidecar::start("Counters", &settings, environment).await);
        }
    }

    /// One beside a sidecar, and one elsewhere.
    async fn start_jobs(&mut self, language: &'static str) {
        let beside = self.seats.len() / 2 % LOCAL;
        let gate = Gate::start(self.addresses[self.gates.len() % REMOTE]).await;
        let elsewhere = (Place::Elsewhere(self.gates.len()), gate.endpoint());
        self.gates.push(gate);
        for (place, endpoint) in
            [(Place::Beside(beside), self.sidecars[beside].endpoint()), elsewhere]
        {
            let (handle, stage) = (Handle::default(), Arc::default());
            let job = Job {
                name: format!("{language}-{}", self.seats.len()),
                language,
                endpoint,
                handle: handle.clone(),
                stage: Arc::clone(&stage),
                random: SeededRandom::new(self.random.next_u64()),
                shared: Arc::clone(&self.shared),
            };
            self.jobs.spawn(job.run());
            self.seats.push(Seat { handle, stage, place });
        }
    }

    /// Lets the jobs end their turns, and reads the counters at last.
    async fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        let jobs = std::mem::take(&mut self.jobs).join_all();
        tokio::time::timeout(PATIENCE, jobs).await.expect("every job ends its turn");
        self.sidecars[0].wait_until_up().await;
        for (lock, permits) in LOCKS {
            let mut streams = Vec::new();
            for _ in 0..permits {
                let spec = patient(lock).with_permits(permits);
                let (grant, stream) = self.sidecars[0].hold(spec).await;
                // Kept, so that the next one is another permit.
                streams.push(stream);
                let text =
                    grant.checkpoint.map(|checkpoint| String::from_utf8(checkpoint.value).unwrap());
                let counter = Counter::read(text.as_deref());
                let lock = format!("{lock}~{}", grant.permit);
                let token = grant.fencing_token;
                self.shared.journal(|journal| journal.reads.push(Read { lock, token, counter }));
            }
        }
    }
}

/// A port of the loopback that is free, and is again after a sidecar on it was killed.
fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// One storm, checked.
async fn storm(seed: u64, kills: u64) {
    let azurite = Azurite::start().unwrap();
    let mut storm = Storm::start(seed, &azurite).await;
    storm.rage(kills).await;
    storm.end().await;
    let seconds = storm.tick / TICKS_A_SECOND;
    println!("seed {seed}, {seconds} s of faults\n{}", storm.statistics);
    storm.shared.journal(|journal| {
        println!("{}", journal.figures());
        let problems = journal::problems(&journal.reads, &journal.saves);
        assert!(problems.is_empty(), "{problems:#?}");
        for (lock, permits) in LOCKS {
            let of_it = |path: &str| path.split('~').next() == Some(lock);
            let traced: Vec<_> =
                journal.traced.iter().filter(|event| of_it(&event.path)).cloned().collect();
            assert_eq!(journal::beyond(&traced, permits), [""; 0]);
            match lock {
                BROKEN_AT_ONCE => {}
                // Each permit is a lock of its own, and a second one is granted only while the first is
                // taken.
                POOL => assert_eq!(accepts(&traced), Ok(()), "{lock}"),
                _ => assert!(traces::check(&traced) > 0, "{lock} was never granted"),
            }
        }
    });
    assert!(storm.statistics.sum("killed: ") >= kills);
    assert_eq!(storm.missing(), [""; 0], "never occurred");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s23_s24_s25_s27_s28_no_acknowledged_save_is_lost_while_an_unchecked_write_is() {
    let kills = number("LEASEHOLD_TEST_COUNTERS_KILLS", KILLS);
    storm(number("LEASEHOLD_TEST_STORM_SEED", 1), kills).await;
}
