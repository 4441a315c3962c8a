//! The simulator of pools (S28 to S32): the real pools of some sidecars against the store's contract, with
//! callers that name different numbers of permits, on a network that loses, delays and repeats. Everything
//! comes from one seed. What one permit does by itself, clocks that disagree and resumes are the business of
//! `tests/simulation`.
//!
//! - `LEASEHOLD_TEST_POOLS_SCHEDULES=N` says how many schedules the test runs.
//! - `LEASEHOLD_TEST_POOLS_SEED=N` replays one and prints its timeline; with
//!   `LEASEHOLD_TEST_POOLS_BUG=DoubleGrant`, with a planted bug.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that fails says where"
)]

mod checks;
mod exhaustive;
mod mixed;
mod network;
mod planted;
mod rig;
mod rules;
mod store;
mod world;

use std::collections::BTreeMap;

use planted::Bug;
use world::World;

/// Schedules of a run in the test command.
const SCHEDULES: u64 = 4_000;
/// Schedules within which a planted bug must be found.
const BUG_SCHEDULES: u64 = 10_000;

fn variable(name: &str) -> Option<String> {
    std::env::var(format!("LEASEHOLD_TEST_POOLS_{name}")).ok()
}

/// What must have occurred, or the schedules say nothing.
const MUST_OCCUR: [&str; 11] = [
    "a grant of permit 0",
    "a grant of another permit",
    "a grant to a plain caller",
    "a hand-off",
    "busy",
    "a caller was told that it waits",
    "a caller left",
    "a request lost",
    "a renewal held back",
    "a sidecar crashed",
    "numbers differ",
];

#[test]
fn s28_s29_s32_hold_whatever_happens() {
    let schedules = variable("SCHEDULES").map_or(SCHEDULES, |number| number.parse().unwrap());
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..schedules {
        let world = World::run(seed, None);
        assert_eq!(world.violation(), None, "LEASEHOLD_TEST_POOLS_SEED={seed} replays it");
        for (name, count) in world.counts() {
            *counts.entry(name).or_default() += count;
        }
    }
    println!("{schedules} schedules: {counts:?}");
    let missing: Vec<_> = MUST_OCCUR.iter().filter(|name| !counts.contains_key(**name)).collect();
    assert!(missing.is_empty(), "these never occurred, so they were not tested: {missing:?}");
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let found = (0..BUG_SCHEDULES).find_map(|seed| {
            let world = World::run(seed, Some(bug));
            world.violation().map(|what| (seed, what.to_owned()))
        });
        match found {
            Some((seed, what)) => println!("{bug:?}: {} schedules: {what}", seed + 1),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found in {BUG_SCHEDULES} schedules: {missed:?}");
}

#[test]
fn the_same_seed_gives_the_same_timeline() {
    for seed in 0..10 {
        let (first, second) = (World::run(seed, None), World::run(seed, None));
        assert!(!first.timeline().is_empty());
        assert_eq!(first.timeline(), second.timeline(), "seed {seed}");
    }
}

#[test]
fn s1_s32_hold_in_every_order_of_2_sidecars_2_permits_and_3_callers() {
    println!("{}", exhaustive::explore().join("\n"));
}

#[test]
#[ignore = "replays a seed"]
fn replay() {
    let seed = variable("SEED").unwrap().parse().unwrap();
    let bug = variable("BUG");
    let bug = bug.map(|name| *Bug::ALL.iter().find(|bug| format!("{bug:?}") == name).unwrap());
    let world = World::run(seed, bug);
    println!("{}\n{:?}", world.timeline().join("\n"), world.violation());
}
