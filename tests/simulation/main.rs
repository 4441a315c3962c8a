//! The simulator: the real machines of some sidecars against the store's contract, with clients who believe, on a network
//! that loses, delays and repeats, with clocks that disagree and processes that freeze and die. Everything comes from
//! one seed.
//!
//! - `make simulate` runs 1,000,000 schedules; `LEASEHOLD_TEST_SIMULATION_SCHEDULES=N` says how many the test runs.
//! - `LEASEHOLD_TEST_SIMULATION_SEED=N` replays one and prints its timeline; with `LEASEHOLD_TEST_SIMULATION_ONLY=…`, with these
//!   faults only, as a failing run prints them; with `LEASEHOLD_TEST_SIMULATION_BUG=NoMargin`, with a planted bug.
//! - `LEASEHOLD_TEST_SIMULATION_STATES=N` says how far the exhaustive exploration goes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that fails says where"
)]

mod acting;
mod chance;
mod checks;
mod client;
mod clock;
mod due;
mod exhaustive;
mod found;
mod network;
mod planted;
mod run;
mod storage;
mod story;
mod traced;
mod world;

use planted::Bug;
use run::{Only, run, run_many, shrink};

/// Schedules of a run in the test command.
const SCHEDULES: u64 = 20_000;
/// Schedules whose traces the model's monitor judges.
const TRACED: u64 = 600;
/// Schedules within which a planted bug must be found.
const BUG_SCHEDULES: u64 = 10_000;

fn variable(name: &str) -> Option<String> {
    std::env::var(format!("LEASEHOLD_TEST_SIMULATION_{name}")).ok()
}

/// What panics inside a schedule is caught and told with its seed.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let done = work();
    std::panic::set_hook(hook);
    done
}

/// Everything that a person needs to understand a seed that fails.
fn report(seed: u64, bug: Option<Bug>) -> String {
    let (faults, outcome) = quietly(|| {
        let faults = shrink(seed, bug);
        let only: Only = Some(faults.iter().map(|fault| fault.key()).collect());
        (faults, run(seed, bug, only, true))
    });
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let (what, at) = outcome.violation.unwrap_or_default();
    let bug = bug.map(|bug| format!("LEASEHOLD_TEST_SIMULATION_BUG={bug:?} ")).unwrap_or_default();
    format!(
        "{}\nseed {seed} after {:.3} s, with {} faults: {what}\nreplay: LEASEHOLD_TEST_SIMULATION_SEED={seed} \
         LEASEHOLD_TEST_SIMULATION_ONLY={} {bug}cargo test --test simulation replay -- --nocapture",
        outcome.timeline.join("\n"),
        at.as_secs_f64(),
        faults.len(),
        faults.join(","),
    )
}

#[test]
fn s1_s4_s5_s6_s12_s13_hold_whatever_happens() {
    let asked = variable("SCHEDULES").map(|number| number.parse().unwrap());
    let first = variable("FROM").map_or(0, |number| number.parse().unwrap());
    let sums = quietly(|| run_many(first..first + asked.unwrap_or(SCHEDULES), None));
    if let Some(seed) = sums.failed {
        panic!("{}", report(seed, None));
    }
    for (name, count) in &sums.counts {
        println!("{count:>12}  {name}");
    }
    println!(
        "{} schedules; once faults had stopped, the first grant came after {:.1} s at the latest",
        sums.schedules,
        sums.longest_first_grant.as_secs_f64()
    );
    let missing: Vec<_> = found::MUST_OCCUR
        .iter()
        .filter(|name| sums.counts.get(**name).is_none_or(|count| *count == 0))
        .collect();
    assert!(missing.is_empty(), "these never occurred, so they were not tested: {missing:?}");
}

#[test]
fn every_planted_bug_is_found() {
    let chosen = variable("BUG");
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        if chosen.as_ref().is_some_and(|chosen| *chosen != format!("{bug:?}")) {
            continue;
        }
        let sums = quietly(|| run_many(0..BUG_SCHEDULES, Some(bug)));
        match sums.failed {
            None => missed.push(bug),
            Some(seed) => {
                let outcome = quietly(|| run(seed, Some(bug), None, false));
                let (what, _) = outcome.violation.unwrap();
                println!("{bug:?}: {} schedules, seed {seed}: {what}", sums.schedules);
            }
        }
    }
    assert!(missed.is_empty(), "not found in {BUG_SCHEDULES} schedules: {missed:?}");
}

#[test]
fn the_same_seed_gives_the_same_timeline_to_the_byte() {
    for seed in 0..20 {
        let (first, second) = (run(seed, None, None, true), run(seed, None, None, true));
        assert!(!first.timeline.is_empty());
        assert_eq!(first.timeline, second.timeline, "seed {seed}");
    }
}

#[test]
fn a_failing_schedule_is_shrunk_and_told() {
    let bug = Some(Bug::SilenceIsLeaving);
    let seed = quietly(|| run_many(0..BUG_SCHEDULES, bug)).failed.unwrap();
    let all = quietly(|| run(seed, bug, None, false)).faults.len();
    let report = report(seed, bug);
    let shrunk = quietly(|| shrink(seed, bug)).len();
    assert!(shrunk < all, "{shrunk} of {all} faults");
    assert!(report.contains("replay: ") && report.contains("believes beside"), "{report}");
}

#[test]
fn s1_s5_hold_in_every_order_of_a_bounded_world() {
    let most = variable("STATES").map_or(exhaustive::STATES, |number| number.parse().unwrap());
    for (losses, duplicates, steps) in [(0, 0, 2), (1, 0, 1), (0, 1, 1)] {
        let bounds = exhaustive::Bounds { losses, duplicates, steps };
        let explored = exhaustive::explore(bounds, most);
        println!("{explored:?} within {bounds:?}");
        assert_eq!(explored.violation, None);
        let went_on = explored.grants >= 2 || !explored.complete;
        assert!(explored.grants >= 1 && went_on, "the lock never went from one to the other");
    }
}

/// Of schedules in which the store honours its leases: else the clients of a lost lease are excused (S17).
#[test]
fn s1_s4_s5_s13_the_model_allows_what_clients_were_told() {
    let excused = ["! BreakNow", "! Deletion", "! OlderCopy"];
    let (mut schedules, mut events) = (0, 0);
    for seed in 0..TRACED {
        let outcome = quietly(|| run(seed, None, None, true));
        if excused.iter().any(|name| outcome.counts.get(*name).is_some_and(|count| *count > 0)) {
            continue;
        }
        assert_eq!(leasehold::testing::accepts(&outcome.trace), Ok(()), "seed {seed}");
        schedules += 1;
        events += outcome.trace.len();
    }
    println!("{schedules} traces with {events} events are accepted");
    assert!(schedules >= 100 && events > 1_000, "too little was seen");
}

#[test]
fn s1_the_model_allows_no_trace_of_a_planted_bug_that_frees_a_lock_too_early() {
    let rejected = |seed| {
        let outcome = quietly(|| run(seed, Some(Bug::SilenceIsLeaving), None, true));
        outcome.violation.is_some_and(|(what, _)| what.starts_with("S1"))
            && leasehold::testing::accepts(&outcome.trace).is_err()
    };
    assert!((0..TRACED).any(rejected), "every trace was accepted");
}

#[test]
fn replay() {
    let Some(seed) = variable("SEED").map(|number| number.parse().unwrap()) else { return };
    let only = variable("ONLY").map(|text| chance::parse_faults(&text).unwrap());
    let bug = variable("BUG");
    let bug = bug.map(|name| *Bug::ALL.iter().find(|bug| format!("{bug:?}") == name).unwrap());
    let outcome = quietly(|| run(seed, bug, only, true));
    println!("{}", outcome.timeline.join("\n"));
    println!("{} faults; {:?}", outcome.faults.len(), outcome.violation);
}

#[test]
fn what_was_found_once_stays_fixed() {
    for found in found::FOUND {
        let only =
            Some(chance::parse_faults(found.faults).unwrap()).filter(|only| !only.is_empty());
        let outcome = run(found.seed, None, only, false);
        assert_eq!(outcome.violation, None, "{}", found.what);
    }
}
