//! Schedules of real processes: each occurrence is recorded once, and its effect made once, whatever dies
//! meanwhile.
//!
//! `LEASEHOLD_TEST_SCHEDULES_MINUTES` makes it longer, with 20 schedules instead of 5;
//! `LEASEHOLD_TEST_STORM_SEED` repeats its choices. As in the storm, every fault proves that it acted. The
//! negative control is the same jobs by clocks under the lock alone: it repeats occurrences, which shows that
//! the checks see it.

mod cast;
mod quiet;
mod reported;
mod reported_cast;
mod reported_ends;
mod table;
mod trouble;

use std::process::Command;
use std::time::{Duration, SystemTime};

use leasehold::testing::{Azurite, SeededRandom};

use crate::faults::moving::{Clocks, wall};
use crate::faults::process::{Environment, Sidecar, number, program, until};
use crate::faults::proxy::Proxy;
use crate::faults::statistics::Statistics;
use cast::{Replica, Timer, problems};

const REPLICAS: usize = 3;
/// What the wall clocks of the sidecars show more than the store's, in milliseconds.
const WALLS: [i64; REPLICAS] = [0, 3_600_000, -3_600_000];
/// Periods in seconds, and how many tenths of a second the work takes.
const SHORT: [(u64, u64); 5] = [(10, 10), (10, 35), (15, 20), (20, 60), (30, 5)];
const LONG: u64 = 20;

/// Unix seconds of the clock that the store emulator's dates come from.
fn now() -> u64 {
    u64::try_from(wall()).unwrap() / 1_000
}

fn timers(minutes: u64) -> Vec<Timer> {
    let of = |index: u64, (period, tenths): (u64, u64)| {
        Timer::new(&format!("timer-{index}"), period, Duration::from_millis(tenths * 100))
    };
    if minutes == 0 {
        return (0..).zip(SHORT).map(|(index, timer)| of(index, timer)).collect();
    }
    // From 10 s to 60 s.
    (0..LONG).map(|index| of(index, (10 + index * 50 / (LONG - 1), 5 + index % 5 * 10))).collect()
}

/// The sidecars, each with a wall clock of its own and the same way to the store, and a replica of each
/// schedule at each.
struct Stage {
    random: SeededRandom,
    statistics: Statistics,
    proxy: Proxy,
    clocks: Vec<Clocks>,
    sidecars: Vec<Sidecar>,
    timers: Vec<Timer>,
    /// Of each schedule, those at each sidecar.
    replicas: Vec<Vec<Replica>>,
}

impl Stage {
    async fn set(azurite: &Azurite, host: &str, timers: Vec<Timer>, seed: u64) -> Self {
        let statistics = Statistics::default();
        let proxy = Proxy::start(azurite, seed, statistics.clone()).await;
        let connection = proxy.connection_string(azurite);
        let (mut clocks, mut sidecars) = (Vec::new(), Vec::new());
        for wall in WALLS {
            let clock = Clocks::new();
            let environment: Environment = vec![
                ("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection.clone()),
                clock.variable(),
            ];
            let sidecar = Sidecar::start(host, &[], environment).await;
            clock.step_wall(&sidecar, wall).await;
            clocks.push(clock);
            sidecars.push(sidecar);
        }
        let replicas = timers.iter().map(|timer| {
            let at = |(index, sidecar): (usize, &Sidecar)| {
                let way = ["--endpoint", &sidecar.endpoint()];
                Replica::start(timer, &format!("replica-{index}"), &way, Vec::new())
            };
            sidecars.iter().enumerate().map(at).collect()
        });
        let replicas = replicas.collect();
        let random = SeededRandom::new(seed);
        Self { random, statistics, proxy, clocks, sidecars, timers, replicas }
    }

    /// When each schedule is due for the first time: what comes before is nobody's.
    async fn firsts(&self) -> Vec<u64> {
        let mut firsts = Vec::new();
        for timer in &self.timers {
            let next = || second(&show(&self.sidecars[0], &timer.function)?["next_at"]);
            let next = until("the schedule is there", || self.story(), next).await;
            // It may have been run for the first time already.
            firsts.push(timer.journal().first().map_or(next, |line| line.due.min(next)));
        }
        firsts
    }

    /// Waits until everything that was due by then is done and recorded.
    async fn wait_for(&self, until_then: u64) {
        for timer in &self.timers {
            let last = until_then - until_then % timer.period;
            let recorded = || {
                watermark(&self.sidecars[0], &timer.function).filter(|watermark| *watermark >= last)
            };
            let what = format!("{} is recorded up to {last}", timer.function);
            until(&what, || self.story(), recorded).await;
        }
    }

    fn story(&self) -> String {
        let of = |timer: &Timer| format!("{}: {:?}\n", timer.function, timer.journal().last());
        let timers: String = self.timers.iter().map(of).collect();
        format!("{}\n{timers}", self.statistics)
    }

    fn problems(&self, firsts: &[u64], until_then: u64) -> Vec<String> {
        let mut all = Vec::new();
        for ((timer, replicas), first) in self.timers.iter().zip(&self.replicas).zip(firsts) {
            let recorded: Vec<u64> = replicas.iter().flat_map(Replica::recorded).collect();
            let last = until_then - until_then % timer.period;
            all.extend(problems(timer, *first, last, &recorded));
            let missed = show(&self.sidecars[0], &timer.function)
                .and_then(|schedule| schedule["state"]["missed"].as_u64());
            if missed != Some(0) {
                all.push(format!("{}: T9: {missed:?} missed under `all`", timer.function));
            }
        }
        all
    }

    /// What the jobs noted.
    fn count_steps(&self) {
        for line in self.timers.iter().flat_map(Timer::journal) {
            let again = if line.attempt > 1 { ", tried again" } else { "" };
            self.statistics.count(&format!("job: {}{again}", line.step));
        }
        for notes in self.replicas.iter().flatten().map(Replica::notes) {
            for (said, name) in [
                ("ended: SUCCEEDED; ", "recorded"),
                ("recorded late", "recorded late"),
                ("does not count", "superseded"),
                ("ended: FAILED", "failed"),
                ("was lost", "lost"),
            ] {
                let times = u64::try_from(notes.matches(said).count()).unwrap();
                self.statistics.add(&format!("replica: {name}"), times);
            }
        }
    }
}

/// A schedule as the command line shows it; nothing while its sidecar cannot say.
fn show(sidecar: &Sidecar, function: &str) -> Option<serde_json::Value> {
    let mut command = Command::new(program());
    command.args(["schedule", "show", "--endpoint", &sidecar.endpoint(), "--function", function]);
    let output = command.args(["--output", "json"]).output().unwrap();
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// The newest occurrence that is final.
fn watermark(sidecar: &Sidecar, function: &str) -> Option<u64> {
    second(&show(sidecar, function)?["state"]["watermark"])
}

/// A moment, in Unix seconds.
fn second(shown: &serde_json::Value) -> Option<u64> {
    let at = humantime::parse_rfc3339(shown.as_str()?).unwrap();
    Some(at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t2_t8_t9_each_occurrence_is_recorded_once_and_its_effect_made_once_whatever_dies() {
    let minutes = number("LEASEHOLD_TEST_SCHEDULES_MINUTES", 0);
    let seed = number("LEASEHOLD_TEST_STORM_SEED", 1);
    let azurite = Azurite::start().unwrap();
    let mut stage = Stage::set(&azurite, "Timers", timers(minutes), seed).await;
    let firsts = stage.firsts().await;
    stage.trouble(Duration::from_secs(minutes * 60)).await;
    let last = now();
    stage.wait_for(last).await;
    stage.count_steps();
    let occurrences: usize = stage
        .timers
        .iter()
        .zip(&firsts)
        .map(|(timer, first)| timer.between(*first, last).len())
        .sum();
    println!("seed {seed}: {occurrences} occurrences\n{}", stage.statistics);
    let problems = stage.problems(&firsts, last);
    assert!(problems.is_empty(), "{problems:#?}");
    let never = stage.never_occurred();
    assert!(never.is_empty(), "never occurred: {never:?}");
}

/// The negative control: the same job at the same times in three replicas, under the lock alone.
#[tokio::test]
async fn t2_the_lock_alone_repeats_occurrences() {
    let azurite = Azurite::shared();
    let environment: Environment =
        vec![("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", azurite.connection_string())];
    let timer = Timer::new("by-clock", 10, Duration::from_millis(200));
    let due = now() / 10 * 10;
    let replicas: Vec<String> = (0..REPLICAS).map(|index| format!("replica-{index}")).collect();
    let start = |name: &String| timer.run_by_clock(due, name, &environment);
    for mut child in replicas.iter().map(start).collect::<Vec<_>>() {
        assert!(child.wait().unwrap().success());
    }
    let journal = timer.journal();
    let ends = journal.iter().filter(|line| line.step == "end").count();
    assert_eq!(ends, REPLICAS, "{journal:?}");
    assert!(journal.iter().all(|line| line.step != "overlap"), "the lock holds: {journal:?}");
    let tokens: Vec<u64> =
        journal.iter().filter(|line| line.step == "end").map(|line| line.token).collect();
    let found = problems(&timer, due, due, &tokens);
    assert!(found.iter().any(|problem| problem.contains("was recorded with tokens")), "{found:?}");
}
