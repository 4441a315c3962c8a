//! Worlds that are made for one rule each: priorities that take over (S33), and a share that is rebalanced
//! (S35).

use std::time::Duration;

use crate::shares::clients::{FOREVER, Profile};
use crate::shares::planted::Bug;
use crate::shares::spread::{lease_duration, listeners};
use crate::shares::world::World;

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// What is shown of a run.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) world: World,
    /// How long it took until the world was as it is to be; none if it never was.
    pub(crate) after: Option<Duration>,
}

/// Lets the world go on until it is as it is to be, for `most` at most.
fn settle(mut world: World, most: Duration, is_settled: impl Fn(&World) -> bool) -> Shown {
    let begun = world.now;
    while world.now < begun + most && world.checks.violation.is_none() {
        world.run_for(Duration::from_secs(5));
        if is_settled(&world) {
            let after = Some(world.now - begun);
            return Shown { world, after };
        }
    }
    Shown { world, after: None }
}

/// S35: three sidecars have `locks`, and one more starts.
pub(crate) fn scale_out(seed: u64, locks: usize, bug: Option<Bug>) -> Shown {
    let mut world = World::new(seed, bug);
    let lease = lease_duration(&mut world);
    for _ in 0..3 {
        let begins = world.random.span(Duration::from_secs(1));
        world.add(begins, listeners(locks, lease, true));
    }
    world.run_for(minutes(11));
    let begins = world.now;
    let new = world.add(begins, listeners(locks, lease, true));
    let mut shown = settle(world, minutes(40), |world| {
        world.held(new) >= locks / 4 && world.spread(locks).is_some_and(|spread| spread <= 1)
    });
    // It stays so.
    let moved = shown.world.checks.breaks.len();
    shown.world.run_for(minutes(15));
    if shown.after.is_some() && shown.world.checks.breaks.len() != moved {
        shown.world.checks.violate("S35: it swings".to_owned());
    }
    shown
}

/// S33: `low` sidecars wait for one lock that one of them holds, some holders of it busy for a while; one of
/// great priority asks.
pub(crate) fn take_over(seed: u64, low: usize, bug: Option<Bug>) -> Shown {
    let mut world = World::new(seed, bug);
    let lease = lease_duration(&mut world);
    let plain = Profile { shares: false, ..Profile::listener(0, lease) };
    for _ in 0..low {
        let begins = world.random.span(Duration::from_secs(5));
        world.add(begins, vec![plain.clone()]);
    }
    world.run_for(minutes(2));
    let begins = world.now;
    let great = world.add(begins, vec![Profile { priority: 5, ..plain }]);
    let mut shown = settle(world, lease * 6 + minutes(1), |world| world.held(great) == 1);
    // Nothing goes back.
    shown.world.run_for(minutes(5));
    if shown.after.is_some() && shown.world.held(great) == 0 {
        shown.world.checks.violate("S33: it goes back".to_owned());
    }
    shown
}

/// S33: a new build comes, waits until it has the old one's lock broken, crashes, and comes again.
pub(crate) fn crash_loop(seed: u64, bug: Option<Bug>) -> World {
    let mut world = World::new(seed, bug);
    let lease = lease_duration(&mut world);
    let plain = Profile { shares: false, ..Profile::listener(0, lease) };
    world.add(Duration::ZERO, vec![plain.clone()]);
    world.run_for(minutes(1));
    let ends = world.now + minutes(20);
    while world.now < ends && world.checks.violation.is_none() {
        let begins = world.now + world.random.span(Duration::from_secs(5));
        let new = world.add(begins, vec![Profile { priority: 9, ..plain.clone() }]);
        let breaks = world.checks.breaks.len();
        let until = world.now + lease * 4;
        while world.now < until
            && world.checks.breaks.len() == breaks
            && world.checks.violation.is_none()
        {
            world.run_for(Duration::from_secs(1));
        }
        world.crash_now(new);
        world.run_for(Duration::from_secs(1));
    }
    world
}

/// S33, S35: callers of all kinds at two to five sidecars: priorities, some that do not yield, some that try
/// once, that hold for a while and come again, beside listeners of a share that some want rebalanced;
/// sidecars crash and drain, and others start; one may be an older build.
pub(crate) fn mixed(seed: u64, bug: Option<Bug>) -> World {
    let mut world = World::new(seed, bug);
    let lease = lease_duration(&mut world);
    let sidecars = 2 + world.random.below(4);
    let locks = 1 + usize::try_from(world.random.below(6)).unwrap();
    // Only among those of one priority are locks moved.
    let peers = world.random.chance(500).then(|| u32::try_from(world.random.below(3)).unwrap());
    let mut running = Vec::new();
    for _ in 0..sidecars {
        let begins = world.random.span(Duration::from_secs(30));
        running.push(start(&mut world, begins, locks, lease, peers));
    }
    for _ in 0..world.random.below(6) {
        let rest = world.random.span(minutes(4));
        world.run_for(rest);
        let begins = world.now + world.random.span(Duration::from_secs(20));
        let place = usize::try_from(world.random.below(running.len() as u64)).unwrap();
        let old = running[place];
        if world.random.chance(500) {
            world.crash_now(old)
        } else {
            world.drain_now(old)
        }
        running[place] = start(&mut world, begins, locks, lease, peers);
    }
    world.run_for(minutes(12));
    if peers.is_some() {
        let begins = world.now;
        start(&mut world, begins, locks, lease, peers);
        world.run_for(minutes(8));
    }
    world
}

fn start(
    world: &mut World,
    begins: Duration,
    locks: usize,
    lease: Duration,
    peers: Option<u32>,
) -> usize {
    // An older build knows nothing of priorities and shares.
    let is_old = world.random.chance(200);
    let any = u32::try_from(world.random.below(3)).unwrap();
    let priority = if is_old { 0 } else { peers.unwrap_or(any) };
    let rebalances = !is_old && (peers.is_some() || world.random.chance(500));
    let mut profiles = Vec::new();
    for lock in 0..locks {
        let (yields, shares) = (!is_old, !is_old);
        let listener =
            Profile { priority, yields, shares, rebalances, ..Profile::listener(lock, lease) };
        let other = Profile {
            priority: if is_old { 0 } else { u32::try_from(world.random.below(3)).unwrap() },
            yields: !is_old && world.random.chance(700),
            shares: false,
            rebalances: false,
            wait: if world.random.chance(300) { Duration::ZERO } else { FOREVER },
            holds: Some(Duration::from_secs(20)),
            again: Some(Duration::from_secs(20)),
            ..listener.clone()
        };
        profiles.push(listener);
        if world.random.chance(300) {
            profiles.push(other);
        }
    }
    let at = world.add(begins, profiles);
    world.sidecars[at].is_old = is_old;
    at
}

/// S34: three listeners at one sidecar, alone, with requests that are answered.
pub(crate) fn alone(seed: u64, shares: bool, locks: usize, bug: Option<Bug>) -> World {
    let mut world = World::new(seed, bug);
    world.losses = 0;
    world.checks.strict = true;
    let lease = lease_duration(&mut world);
    let profiles = listeners(locks, lease, false).into_iter();
    world.add(Duration::ZERO, profiles.map(|profile| Profile { shares, ..profile }).collect());
    world.run_for(minutes(2));
    world
}
