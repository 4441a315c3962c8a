//! Runs a schedule: until its length is over, and then until all has come to rest.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::coordinator::{HoldEvent, HoldRequest};

use crate::kit::{Only, Outcome, panic_of};
use crate::world::chance::Chance;
use crate::world::client::Client;
use crate::world::lease::State as LeaseState;
use crate::world::link::LATEST;
use crate::world::scene::Scene;
use crate::world::schedules;
use crate::world::shared::World;
use crate::world::sidecar::{End, SECOND, key};
use crate::world::story::Story;
use crate::world::trouble;

/// How long the clients may take to end what they began.
const ENDING: Duration = Duration::from_secs(400);
/// How long those who come when all is calm wait at the most: for a lease that somebody left behind, a
/// container that was made again, a rest, a stand-back; and then for one another.
const CALM_WAIT: Duration = Duration::from_secs(60 + 60 + 10);
const EACH: Duration = Duration::from_secs(12);

/// In ten seconds and in a minute; and of these, what nothing called for.
pub(super) const REQUESTS: [[&str; 2]; 2] = [
    ["requests in 10 s", "requests in a minute"],
    ["uncalled for in 10 s", "uncalled for in a minute"],
];
/// The longest wait when all was calm.
pub(super) const LONGEST_WAIT: &str = "the longest wait when all was calm";

/// Runs the schedule of `seed`.
pub(super) fn run(seed: u64, scene: Scene, only: Only, tell: bool) -> Outcome {
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
    let costs = &state.checks.costs;
    let requests = [costs.most, costs.most_uncalled].into_iter().flatten();
    let requests = requests.map(|most| u64::try_from(most).unwrap());
    let most = REQUESTS.into_iter().flatten().zip(requests).collect();
    Outcome {
        violation: state.checks.violation.take(),
        faults: std::mem::take(&mut state.chance.happened),
        counts,
        timeline: state.story.lines.take().unwrap_or_default(),
        trace: Vec::new(),
        most,
        longest: BTreeMap::from([(LONGEST_WAIT, longest_wait)]),
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
    nothing_is_kept(world);
    for (path, lease) in leases(world) {
        match lease {
            LeaseState::Available => {}
            LeaseState::Leased | LeaseState::Breaking => {
                world.fail(format!("S6: a lease of {path} is left over"));
            }
            // Whoever came last went with a word.
            LeaseState::Expired | LeaseState::Broken => {
                world.fail(format!("S6: a lease of {path} is not given back"));
            }
        }
    }
    if plan.is_faultless() {
        let mut state = world.state();
        state.story.count("faultless");
        let wrong = state.unreturned.wrong(&state.service);
        let wrong = wrong.map(|given| format!("S6: {given:?} ran out, and is not given back"));
        drop(state);
        world.fail_if(wrong);
    }
    waited
}

/// No sidecar knows of a caller, or has a task for one.
pub(super) fn nothing_is_kept(world: &World) {
    for place in 0..world.plan().sidecars {
        let gauges = world.sidecar(place).coordinator.gauges();
        let left = (gauges.holds, gauges.waiters, gauges.at_risk, gauges.paths);
        if left != (0, 0, 0, 0) {
            world.fail(format!("S18: {place} keeps (holds, waiters, at risk, paths) {left:?}"));
        }
    }
}

/// What the leases of all locks are now.
pub(super) fn leases(world: &World) -> Vec<(String, LeaseState)> {
    let (sidecar, now) = (world.sidecar(0), world.now());
    let lease = |lock| {
        let path = sidecar.path(&key(lock)).to_string();
        let lease = world.state().service.blob(&path)?.lease.state(now);
        Some((path, lease))
    };
    (0..world.plan().locks).filter_map(lease).collect()
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

/// A caller that waits for a lock for long, on the terms of those who do not say.
pub(crate) fn waiting(lock: usize) -> HoldRequest {
    HoldRequest { wait: Duration::from_secs(3_600), ..HoldRequest::new(key(lock)) }
}
