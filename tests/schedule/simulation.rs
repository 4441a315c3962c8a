//! Many seeds; and each planted bug is found.
//!
//! - `LEASEHOLD_TEST_SCHEDULE_RUNS=N` says how many seeds the test runs.
//! - `LEASEHOLD_TEST_SCHEDULE_SEED=N` replays one and prints its timeline.

use std::collections::BTreeMap;

use crate::schedule::planted::Bug;
use crate::schedule::world::World;

/// Seeds of a run in the test command.
const RUNS: u64 = 1_000;
/// Seeds within which a planted bug must be found.
const BUG_RUNS: u64 = 3_000;

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(format!("LEASEHOLD_TEST_SCHEDULE_{name}")).ok();
    value.map(|value| value.parse().unwrap())
}

/// What must occur, or the seeds say nothing.
const MUST_OCCUR: [&str; 12] = [
    "a grant",
    "a grant of another attempt",
    "a record was settled",
    "a write was lost",
    "an answer was lost",
    "a lease was lost",
    "a sidecar crashed",
    "a job died",
    "a definition changed",
    "a pause or a resume",
    "a run by hand was asked for",
    "a late report",
];

#[test]
fn t2_t8_t9_t11_t16_hold_whatever_happens() {
    let runs = variable("RUNS").unwrap_or(RUNS);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..runs {
        let world = World::run(seed, None);
        assert_eq!(world.store.violation, None, "LEASEHOLD_TEST_SCHEDULE_SEED={seed} replays it");
        for (name, count) in world.counts {
            *counts.entry(name).or_default() += count;
        }
    }
    println!("{runs} seeds: {counts:?}");
    let missing: Vec<_> = MUST_OCCUR.iter().filter(|name| !counts.contains_key(**name)).collect();
    assert!(missing.is_empty(), "these never occurred, so they were not tested: {missing:?}");
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let found = (0..BUG_RUNS).find_map(|seed| {
            let violation = World::run(seed, Some(bug)).store.violation;
            violation.map(|what| (seed, what))
        });
        match found {
            Some((seed, what)) => println!("{bug:?}: {} seeds: {what}", seed + 1),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found in {BUG_RUNS} seeds: {missed:?}");
}

#[test]
#[ignore = "replays a seed"]
fn replay() {
    let seed = variable("SEED").unwrap();
    let world = World::run(seed, None);
    println!("{}\n{:?}", world.timeline.join("\n"), world.store.violation);
}
