//! The simulator of priorities and shares (S33 to S36): the real machines and the real shares of some
//! sidecars against the store's contract, with callers that wait, hold, let go when they are asked to, and
//! come again. Everything comes from one seed. What one lock does by itself is the business of
//! `tests/simulation`.
//!
//! - `LEASEHOLD_TEST_SHARES_SEEDS=N` says how many seeds each scenario has.
//! - `LEASEHOLD_TEST_SHARES_SEED=N` replays one and prints its timeline, with
//!   `LEASEHOLD_TEST_SHARES_SCENARIO=Crash` that scenario, with `LEASEHOLD_TEST_SHARES_LOCKS=N` so many locks
//!   (sidecars of low priority in TakeOver), and with `LEASEHOLD_TEST_SHARES_BUG=NoPatience` a planted bug.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that fails says where"
)]

mod checks;
mod clients;
mod directed;
mod planted;
mod sharing;
mod sidecar;
mod spread;
mod store;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kit::{self, Only, Outcome, asked, chosen, variable};
use planted::Bug;
use spread::{SIZES, Scenario};
use world::World;

/// The world of shares, as planted mistakes are looked for in it.
#[derive(Clone, Copy, Debug)]
struct Shares;

impl kit::World for Shares {
    type Bug = Bug;

    const NAME: &'static str = "SHARES";
    const TESTS: &'static str = "shares";

    fn run(self, seed: u64, bug: Option<Bug>, _: Only, _: bool) -> Outcome {
        let violation = match bug {
            Some(bug) => bug.shows(seed),
            None => directed::mixed(seed, None).checks.violation,
        };
        let violation = violation.map(|what| (what, Duration::ZERO));
        Outcome { violation, ..Outcome::default() }
    }
}

/// Seeds of a scenario: so many in the test command.
fn seeds(default: u64) -> u64 {
    asked::<Shares>("SEEDS").unwrap_or(default)
}

fn bug() -> Option<Bug> {
    chosen::<Shares>()
}

/// Whether `name` is asked for, by itself or among all.
fn is_asked(variable_name: &str, name: &str) -> bool {
    variable::<Shares>(variable_name).is_none_or(|asked| asked == name)
}

/// Fails with what replays the seed.
fn assert_sound(world: &World, scenario: &str, seed: u64) {
    assert_eq!(
        world.checks.violation, None,
        "{scenario}: LEASEHOLD_TEST_SHARES_SCENARIO={scenario} LEASEHOLD_TEST_SHARES_SEED={seed} replays it"
    );
}

/// Of `seeds`, how many may miss a figure that is to be met in 99 of 100.
fn may_miss(seeds: u64) -> u64 {
    seeds.div_ceil(100)
}

#[test]
fn s34_locks_of_a_share_are_spread_evenly() {
    for scenario in Scenario::ALL {
        for size in SIZES {
            if !is_asked("SCENARIO", &format!("{scenario:?}"))
                || !is_asked("LOCKS", &size.locks.to_string())
            {
                continue;
            }
            let mut spreads = BTreeMap::<Option<usize>, u64>::new();
            for seed in 0..seeds(scenario.seeds(size)) {
                let world = spread::run(seed, size, scenario, bug(), false);
                assert_sound(&world, &format!("{scenario:?}"), seed);
                *spreads.entry(world.spread(size.locks)).or_default() += 1;
            }
            println!("{scenario:?} {size:?}: {spreads:?}");
            let all: u64 = spreads.values().sum();
            let even: u64 =
                [Some(0), Some(1)].iter().filter_map(|spread| spreads.get(spread)).sum();
            assert!(all - even <= may_miss(all), "{scenario:?} {size:?}: {spreads:?}");
        }
    }
}

/// How long nobody has a lock that moves, in 99 of 100 moves of a calm rolling restart of three: it is found
/// free within a poll cap, and the last of four is acquired two seconds later.
const MOVED: Duration = Duration::from_secs(7);

#[test]
fn s34_a_rolling_restart_leaves_no_lock_alone_for_long() {
    let mut gaps = Vec::new();
    for seed in 0..seeds(3) {
        let world = spread::gaps(seed, SIZES[0], bug());
        assert_sound(&world, "RollingRestart", seed);
        gaps.extend(world.checks.gaps);
    }
    gaps.sort();
    let late = gaps.iter().filter(|gap| **gap > MOVED).count() as u64;
    let [half, most] = [gaps[gaps.len() / 2], gaps[gaps.len() - 1]];
    println!(
        "{} moves: {half:?} in half of them, {late} took longer than {MOVED:?}, {most:?} at the most",
        gaps.len()
    );
    assert!(late <= may_miss(gaps.len() as u64), "{gaps:?}");
}

#[test]
fn s35_a_new_sidecar_has_its_part_in_time() {
    for (locks, most, default) in [(10, 10, 8), (75, 30, 1)] {
        let mut longest = Duration::ZERO;
        let mut late = 0;
        for seed in 0..seeds(default) {
            let shown = directed::scale_out(seed, locks, bug());
            assert_sound(&shown.world, "ScaleOut", seed);
            let after = shown.after.unwrap_or(Duration::MAX);
            late += u64::from(after > Duration::from_secs(most * 60));
            longest = longest.max(after);
        }
        println!("{locks} locks: {late} late, {longest:?} at the most");
        assert!(late <= may_miss(seeds(default)), "{locks} locks: {late} late, {longest:?}");
    }
}

#[test]
fn s33_the_one_that_asked_has_the_lock_and_nothing_goes_back() {
    for low in [10, 50] {
        let mut longest = Duration::ZERO;
        for seed in 0..seeds(2) {
            let shown = directed::take_over(seed, low, bug());
            assert_sound(&shown.world, "TakeOver", seed);
            let after = shown.after;
            longest = longest.max(after.expect("the one of greatest priority never had it"));
            assert!(shown.world.counts.contains_key("taken over"), "seed {seed}");
        }
        println!("{low} sidecars of low priority: taken over after {longest:?} at the most");
    }
}

#[test]
fn s33_a_crash_looping_build_breaks_once_in_two_lease_durations() {
    let mut breaks = 0;
    for seed in 0..seeds(4) {
        let world = directed::crash_loop(seed, bug());
        assert_sound(&world, "CrashLoop", seed);
        breaks += world.checks.breaks.len();
    }
    println!("{breaks} breaks");
    assert!(breaks > 0, "it never broke, so nothing was tested");
}

/// What must have occurred, or the seeds say nothing.
const MUST_OCCUR: [&str; 9] = [
    "a break by priority",
    "a break to move",
    "a notice",
    "a request lost",
    "an answer lost",
    "a sidecar crashed",
    "a sidecar drained",
    "busy",
    "taken over",
];

#[test]
fn s1_s5_s33_s35_hold_whatever_happens() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..seeds(12) {
        let world = directed::mixed(seed, bug());
        assert_sound(&world, "Mixed", seed);
        for (name, count) in &world.counts {
            *counts.entry(name).or_default() += count;
        }
    }
    println!("{counts:?}");
    let missing: Vec<_> = MUST_OCCUR.iter().filter(|name| !counts.contains_key(**name)).collect();
    assert!(missing.is_empty(), "these never occurred, so they were not tested: {missing:?}");
}

#[test]
fn s34_a_share_costs_a_few_reads_a_grant_and_nothing_else() {
    let reads = |shares| {
        let world = directed::alone(1, shares, 5, None);
        assert_eq!(world.held(0), 5);
        assert_eq!(world.checks.violation, None);
        (world.store.requests()["read"], world.store.requests()["acquire"])
    };
    let ((plain, acquires), (shared, acquires_shared)) = (reads(false), reads(true));
    assert_eq!(acquires, acquires_shared);
    // One for each but the first, and at each poll while it ripens: what others took meanwhile has to show.
    assert!((4..=24).contains(&(shared - plain)), "{shared} reads, {plain} without a share");
}

#[test]
fn the_same_seed_gives_the_same_timeline() {
    for seed in 0..2 {
        let run = || spread::run(seed, SIZES[0], Scenario::ColdStart, None, true).timeline;
        let (first, second) = (run(), run());
        assert!(first.as_ref().is_some_and(|lines| !lines.is_empty()));
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn every_planted_bug_is_found() {
    kit::assert_planted_are_found(Shares);
}

#[test]
#[ignore = "replays a seed"]
fn replay() {
    let seed = asked::<Shares>("SEED").unwrap();
    let locks = asked::<Shares>("LOCKS").map(|number| usize::try_from(number).unwrap());
    let size = SIZES.into_iter().find(|size| Some(size.locks) == locks).unwrap_or(SIZES[0]);
    let named = |scenario: &Scenario| is_asked("SCENARIO", &format!("{scenario:?}"));
    let world = match variable::<Shares>("SCENARIO").as_deref() {
        Some("ScaleOut") => directed::scale_out(seed, locks.unwrap_or(10), bug()).world,
        Some("TakeOver") => directed::take_over(seed, locks.unwrap_or(10), bug()).world,
        Some("CrashLoop") => directed::crash_loop(seed, bug()),
        Some("Mixed") => directed::mixed(seed, bug()),
        _ => spread::run(seed, size, Scenario::ALL.into_iter().find(named).unwrap(), bug(), true),
    };
    println!("{}\n{:?}", world.timeline.unwrap().join("\n"), world.checks.violation);
}
