//! Runs schedules: one, many at once, or the shortest that still fails.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::coordinator::{HoldEvent, HoldRequest};
use leasehold::lock::Permits;
use leasehold::record::{Labels, Sharing};

use crate::caught::panic_of;
use crate::world::chance::{Chance, Fault, Only};
use crate::world::client::Client;
use crate::world::lease::State as LeaseState;
use crate::world::link::LATEST;
use crate::world::scene::Scene;
use crate::world::schedules;
use crate::world::shared::World;
use crate::world::sidecar::{End, SECOND, key};
use crate::world::story::{Counts, Story};
use crate::world::trouble;

/// How long the clients may take to end what they began.
const ENDING: Duration = Duration::from_secs(400);
/// How long those who come when all is calm wait at the most: for a lease that somebody left behind, a
/// container that was made again, a rest, a stand-back; and then for one another.
const CALM_WAIT: Duration = Duration::from_secs(60 + 60 + 10);
const EACH: Duration = Duration::from_secs(12);

/// What came of a schedule.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The rule that was broken, and when.
    pub(crate) violation: Option<(String, Duration)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) counts: Counts,
    pub(crate) timeline: Vec<String>,
    /// In ten seconds and in a minute; and of these, what nothing called for.
    pub(crate) most_requests: [[usize; 2]; 2],
    /// The longest wait when all was calm.
    pub(crate) longest_wait: Duration,
}

/// Runs the schedule of `seed`.
pub(crate) fn run(seed: u64, scene: impl Into<Scene>, only: Only, tell: bool) -> Outcome {
    let scene = scene.into();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let story = if tell { Story::told() } else { Story::default() };
    let chance = Chance::new(seed, only);
    let world = runtime.block_on(async { World::new(chance, scene, story) });
    let mut longest_wait = Duration::ZERO;
    let panicked = panic_of(|| {
        longest_wait = runtime.block_on(async {
            match scene {
                Scene::Holds(_) => play(&world).await,
                Scene::Schedules(_) => schedules::play(&world).await,
            }
        });
    });
    if let Some(what) = panicked {
        world.state().checks.fail(format!("panicked: {what}"), Duration::ZERO);
    }
    // What is left of the sidecars goes with its runtime.
    world.end();
    drop(runtime);
    let mut state = world.state();
    let mut counts = std::mem::take(&mut state.story.counts);
    for (about, count) in &state.chance.counts {
        counts.insert(format!("fault: {about:?}"), *count);
    }
    counts.extend(state.service.saves.counts());
    counts.extend(state.schedules.counts());
    counts.insert("grants".to_owned(), state.checks.grants);
    counts.insert("writes".to_owned(), state.checks.writes);
    counts.insert("writes with an older token".to_owned(), state.checks.stale_writes);
    Outcome {
        violation: state.checks.violation.take(),
        faults: std::mem::take(&mut state.chance.happened),
        counts,
        timeline: state.story.lines.take().unwrap_or_default(),
        most_requests: [state.checks.costs.most, state.checks.costs.most_uncalled],
        longest_wait,
    }
}

pub(crate) fn has_failed(world: &World) -> bool {
    world.state().checks.violation.is_some()
}

async fn play(world: &World) -> Duration {
    let plan = world.plan().clone();
    let clients: Vec<_> = (0..plan.clients)
        .map(|index| {
            // One in three is elsewhere; the others share a machine with a sidecar.
            let home = (index % 3 != 2).then_some(index % plan.sidecars);
            tokio::spawn(Client { world: world.clone(), index, home }.live())
        })
        .collect();
    let troubles = tokio::spawn(trouble::happen(world.clone()));
    while world.now() < plan.length && !has_failed(world) {
        tokio::time::sleep(SECOND).await;
    }
    trouble::calm_down(world);
    let over = async {
        for client in clients {
            let _ = client.await;
        }
        let _ = troubles.await;
    };
    if has_failed(world) {
        return Duration::ZERO;
    }
    if tokio::time::timeout(ENDING, over).await.is_err() {
        world.fail(format!("S12: a client has not come to an end within {ENDING:?} of calm"));
    }
    // What was sent before may come late.
    tokio::time::sleep(LATEST + trouble::SLOWEST).await;
    if has_failed(world) { Duration::ZERO } else { come_to_rest(world).await }
}

/// Once faults stop, everybody is served, and then nothing is left over.
async fn come_to_rest(world: &World) -> Duration {
    let plan = world.plan().clone();
    let begun = world.now();
    let most = CALM_WAIT + EACH * u32::try_from(plan.sidecars * plan.locks).unwrap();
    let places =
        (0..plan.sidecars).flat_map(|place| (0..plan.locks).map(move |lock| (place, lock)));
    let waiters: Vec<_> =
        places.map(|(place, lock)| tokio::spawn(wait_once(world.clone(), place, lock))).collect();
    let served = async {
        for waiter in waiters {
            let _ = waiter.await;
        }
    };
    if tokio::time::timeout(most, served).await.is_err() {
        world.fail(format!("S12: somebody is not served within {most:?} of calm"));
        return most;
    }
    let waited = world.now() - begun;
    tokio::time::sleep(Duration::from_secs(70)).await;
    for place in 0..plan.sidecars {
        let gauges = world.sidecar(place).coordinator.gauges();
        let left = (gauges.holds, gauges.waiters, gauges.at_risk, gauges.paths);
        if left != (0, 0, 0, 0) {
            world.fail(format!("S18: {place} keeps (holds, waiters, at risk, paths) {left:?}"));
        }
    }
    for lock in 0..plan.locks {
        let path = world.sidecar(0).path(&key(lock)).to_string();
        let now = world.now();
        let is_leased = world.state().service.blob(&path).is_some_and(|blob| {
            matches!(blob.lease.state(now), LeaseState::Leased | LeaseState::Breaking)
        });
        if is_leased {
            world.fail(format!("S6: a lease of {path} is left over"));
        }
    }
    waited
}

/// Takes the lock once, for a second.
async fn wait_once(world: World, place: usize, lock: usize) {
    let request = waiting(lock);
    loop {
        if let Ok(mut stream) = world.sidecar(place).hold(&request) {
            while let Some(event) = stream.next().await {
                match event {
                    HoldEvent::Granted(_) => {
                        tokio::time::sleep(SECOND).await;
                        return stream.end(End::Closed);
                    }
                    event if event.is_last() => break,
                    _ => {}
                }
            }
        }
        tokio::time::sleep(SECOND).await;
    }
}

/// The sums of many schedules.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) schedules: u64,
    pub(crate) counts: Counts,
    /// In ten seconds and in a minute; and of these, what nothing called for.
    pub(crate) most_requests: [[usize; 2]; 2],
    pub(crate) longest_wait: Duration,
    /// The first seed that failed.
    pub(crate) failed: Option<u64>,
    /// All that failed, and why.
    pub(crate) failures: Vec<(u64, String)>,
}

impl Sums {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        let failed = outcome.violation.is_some().then_some(seed);
        let failures = outcome.violation.into_iter().map(|(what, _)| (seed, what)).collect();
        self.join(Self {
            schedules: 1,
            counts: outcome.counts,
            most_requests: outcome.most_requests,
            longest_wait: outcome.longest_wait,
            failed,
            failures,
        });
    }

    fn join(&mut self, other: Self) {
        self.schedules += other.schedules;
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        let both = self.most_requests.as_flattened_mut().iter_mut();
        for (most, other) in both.zip(other.most_requests.as_flattened()) {
            *most = (*other).max(*most);
        }
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.failures.extend(other.failures);
        self.failed = self.failed.into_iter().chain(other.failed).min();
    }
}

/// Runs the schedules of these seeds on all cores, until one fails.
pub(crate) fn run_many(seeds: std::ops::Range<u64>, scene: impl Into<Scene>) -> Sums {
    let scene = scene.into();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let mut sums = Sums::default();
    let goes_on = crate::world::variable("GO_ON").is_some();
    let work = || {
        let mut own = Sums::default();
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let mut outcome = run(seed, scene, None, false);
            if let Some(rules) = scene.rules() {
                let by = |(what, _): &(String, Duration)| {
                    rules.iter().any(|rule| what.starts_with(rule))
                };
                outcome.violation = outcome.violation.filter(by);
            }
            own.add(seed, outcome);
            if own.failed.is_some() && !goes_on {
                stop.store(true, Ordering::Relaxed);
            }
        }
        own
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            sums.join(worker.join().unwrap());
        }
    });
    sums
}

/// The fewest faults found with which `seed` still fails (delta debugging: Zeller and Hildebrandt, 2002).
pub(crate) fn shrink(seed: u64, scene: impl Into<Scene>) -> Vec<Fault> {
    let scene = scene.into();
    let fails = |faults: &[Fault]| {
        let only = faults.iter().map(|fault| fault.key()).collect();
        run(seed, scene, Some(only), false).violation.is_some()
    };
    let mut faults = run(seed, scene, None, false).faults;
    let mut pieces = 2;
    while faults.len() > 1 {
        let size = faults.len().div_ceil(pieces);
        let rest = faults.chunks(size).enumerate().find_map(|(index, _)| {
            let rest: Vec<Fault> = faults
                .iter()
                .enumerate()
                .filter(|(number, _)| number / size != index)
                .map(|(_, fault)| *fault)
                .collect();
            fails(&rest).then_some(rest)
        });
        match rest {
            Some(rest) => {
                faults = rest;
                pieces = pieces.saturating_sub(1).max(2);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(faults.len()),
        }
    }
    faults
}

/// A caller that waits for a lock for long, on the terms of those who do not say.
pub(crate) fn waiting(lock: usize) -> HoldRequest {
    HoldRequest {
        key: key(lock),
        lease_duration: None,
        wait: Duration::from_secs(3_600),
        permits: Permits::ONE,
        max_hold: None,
        min_hold: Duration::ZERO,
        progress_timeout: None,
        auto_renew: true,
        request_id: String::new(),
        sharing: Sharing::default(),
        rebalance: false,
        holder: None,
        labels: Labels::default(),
        occurrence: None,
        trace_context: None,
    }
}
