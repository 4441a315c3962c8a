//! How evenly the locks of a share are spread (S34): after a cold start, a crash, a rolling restart.

use std::time::Duration;

use crate::shares::checks::settles;
use crate::shares::clients::Profile;
use crate::shares::planted::Bug;
use crate::shares::world::World;

/// How many sidecars share how many locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) sidecars: usize,
    pub(crate) locks: usize,
}

pub(crate) const SIZES: [Size; 2] =
    [Size { sidecars: 3, locks: 12 }, Size { sidecars: 4, locks: 25 }];

/// How long the world is left alone before it is looked at.
pub(crate) const REST: Duration = Duration::from_secs(180);

/// What is done to the sidecars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// All start within a second.
    ColdStart,
    /// One of them crashes, once the world is at rest.
    Crash,
    /// Each is replaced, one after the other: the new one is there before the old one drains.
    RollingRestart,
    /// The same, and each is gone before its replacement comes; with rebalance.
    Replaced,
}

impl Scenario {
    pub(crate) const ALL: [Self; 4] =
        [Self::ColdStart, Self::Crash, Self::RollingRestart, Self::Replaced];

    /// Seeds in the test command: long worlds have few.
    pub(crate) const fn seeds(self, size: Size) -> u64 {
        match self {
            _ if size.locks > 12 => 1,
            Self::ColdStart => 8,
            Self::Crash | Self::RollingRestart => 3,
            Self::Replaced => 1,
        }
    }
}

/// Listeners of all locks at one sidecar.
pub(crate) fn listeners(locks: usize, lease_duration: Duration, rebalances: bool) -> Vec<Profile> {
    let listener = |lock| Profile { rebalances, ..Profile::listener(lock, lease_duration) };
    (0..locks).map(listener).collect()
}

/// One of the durations of a lease that there are.
pub(crate) fn lease_duration(world: &mut World) -> Duration {
    Duration::from_secs([15, 30, 60][usize::try_from(world.random.below(3)).unwrap()])
}

/// For how long nobody had a lock, at each move of a rolling restart in which the store answers everything.
pub(crate) fn gaps(seed: u64, size: Size, bug: Option<Bug>) -> World {
    let mut world = World::new(seed, bug);
    world.losses = 0;
    after(world, size, Scenario::RollingRestart)
}

/// The world after it has come to rest.
pub(crate) fn run(
    seed: u64,
    size: Size,
    scenario: Scenario,
    bug: Option<Bug>,
    traced: bool,
) -> World {
    let mut world = World::new(seed, bug);
    if traced {
        world.timeline = Some(Vec::new());
    }
    after(world, size, scenario)
}

fn after(mut world: World, size: Size, scenario: Scenario) -> World {
    let rebalances = scenario == Scenario::Replaced;
    let lease = lease_duration(&mut world);
    let new = |world: &mut World, begins: Duration| {
        world.add(begins, listeners(size.locks, lease, rebalances))
    };
    let first: Vec<usize> = (0..size.sidecars)
        .map(|_| {
            let begins = world.random.span(Duration::from_secs(1));
            new(&mut world, begins)
        })
        .collect();
    world.run_for(REST);
    match scenario {
        Scenario::ColdStart => {}
        Scenario::Crash => {
            let crashes = usize::try_from(world.random.below(size.sidecars as u64)).unwrap();
            world.crash_now(first[crashes]);
            world.run_for(settles(lease) + REST);
        }
        Scenario::RollingRestart => {
            world.checks.gaps.clear();
            for old in first {
                let begins = world.now;
                new(&mut world, begins);
                world.run_for(Duration::from_secs(10));
                world.drain_now(old);
                world.run_for(Duration::from_secs(25));
            }
            world.run_for(REST);
        }
        Scenario::Replaced => {
            world.run_for(Duration::from_secs(900));
            for old in first {
                world.drain_now(old);
                world.run_for(Duration::from_secs(30));
                let begins = world.now;
                new(&mut world, begins);
                world.run_for(Duration::from_secs(30));
            }
            world.run_for(Duration::from_secs(1_800));
        }
    }
    world
}
