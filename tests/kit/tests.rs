//! The tests that each world has: that its rules hold, that planted mistakes are found, that a seed repeats,
//! and that what fails is told as short as can be.

use crate::kit::chance::parse_faults;
use crate::kit::{Fault, Listed as _, Only, Planted as _, Sums, World, run_many};

pub(crate) fn variable<W: World>(name: &str) -> Option<String> {
    std::env::var(format!("LEASEHOLD_TEST_{}_{name}", W::NAME)).ok()
}

/// The number that a variable says.
pub(crate) fn asked<W: World>(name: &str) -> Option<u64> {
    variable::<W>(name).map(|number| number.parse().unwrap())
}

/// The planted mistake that a variable names.
pub(crate) fn chosen<W: World>() -> Option<W::Bug> {
    variable::<W>("BUG").map(|name| W::Bug::named(&name))
}

/// The fewest faults found with which `seed` still fails (delta debugging: Zeller and Hildebrandt, 2002).
fn shrink<W: World>(world: W, seed: u64, bug: Option<W::Bug>) -> Vec<Fault> {
    let fails = |faults: &[Fault]| {
        let only = faults.iter().copied().collect();
        world.run(seed, bug, Some(only), false).violation.is_some()
    };
    let mut faults = world.run(seed, bug, None, false).faults;
    let mut pieces = 2;
    while faults.len() > 1 {
        let size = faults.len().div_ceil(pieces);
        let rest = faults.chunks(size).enumerate().find_map(|(index, _)| {
            let others = faults.iter().enumerate().filter(|(number, _)| number / size != index);
            let rest: Vec<Fault> = others.map(|(_, fault)| *fault).collect();
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

/// Everything that a person needs to understand a seed that fails.
fn report<W: World>(world: W, seed: u64, bug: Option<W::Bug>) -> String {
    let faults = shrink(world, seed, bug);
    let outcome = world.run(seed, bug, Some(faults.iter().copied().collect()), true);
    let (what, at) = outcome.violation.unwrap_or_default();
    let (name, tests, timeline) = (W::NAME, W::TESTS, outcome.timeline.join("\n"));
    let bug = bug.map(|bug| format!("LEASEHOLD_TEST_{name}_BUG={bug:?} ")).unwrap_or_default();
    let (count, at) = (faults.len(), at.as_secs_f64());
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let only = faults.join(",");
    format!(
        "{timeline}\nseed {seed} after {at:.3} s, with {count} faults: {what}\nreplay: LEASEHOLD_TEST_{name}_SEED={seed} \
         LEASEHOLD_TEST_{name}_ONLY={only} {bug}cargo test --profile dev --test worlds {tests}::replay -- --ignored --nocapture"
    )
}

/// Runs so many schedules, or as many as the variable says, from `first`: every rule holds.
pub(crate) fn assert_sound<W: World>(world: W, first: u64, schedules: u64) -> Sums {
    let first = first + asked::<W>("FROM").unwrap_or_default();
    let sums = run_many(world, first..first + schedules, None);
    for (seed, what) in &sums.failures {
        println!("seed {seed}: {what}");
    }
    if let Some(seed) = sums.failed() {
        panic!("{}", report(world, seed, None));
    }
    sums
}

/// Every planted mistake is found in time, or the one that the variable names.
pub(crate) fn assert_planted_are_found<W: World>(world: W) {
    let chosen = chosen::<W>();
    let mut missed = Vec::new();
    for bug in W::Bug::ALL.iter().copied() {
        if chosen.is_some_and(|chosen| chosen != bug) {
            continue;
        }
        match world.finds(bug, chosen.is_some()) {
            Some(found) => println!("{bug:?}: {found}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found in {} schedules: {missed:?}", W::BUG_SCHEDULES);
}

/// The schedule that chance makes in which a planted mistake is found, if it is.
pub(crate) fn finds_by_chance<W: World>(world: W, bug: W::Bug, in_full: bool) -> Option<String> {
    let first = asked::<W>("FROM").unwrap_or_else(|| bug.first_seed());
    let sums = run_many(world, first..first + W::BUG_SCHEDULES, Some(bug));
    let seed = sums.failed()?;
    if in_full {
        return Some(report(world, seed, Some(bug)));
    }
    let outcome = world.run(seed, Some(bug), None, false);
    if let Some(name) = W::Bug::ACTED {
        let acted = outcome.counts.get(name).is_some_and(|times| *times > 0);
        assert!(acted, "{bug:?} is found at seed {seed}, and has done nothing");
    }
    let (what, _) = outcome.violation.unwrap_or_default();
    Some(format!("{} schedules, seed {seed}: {what}", sums.schedules))
}

/// The same seed gives the same timeline to the byte.
pub(crate) fn assert_same_timelines<W: World>(world: W, seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        let timeline = || world.run(seed, None, None, true).timeline;
        let (first, second) = (timeline(), timeline());
        assert!(!first.is_empty());
        let differs = first.iter().zip(&second).find(|(one, two)| one != two);
        assert_eq!((differs, first.len()), (None, second.len()), "seed {seed}");
    }
}

/// The first schedule that fails with this mistake is told with fewer faults than it has.
pub(crate) fn assert_one_is_shrunk_and_told<W: World>(world: W, bug: W::Bug, told: &str) {
    let seed = run_many(world, 0..W::BUG_SCHEDULES, Some(bug)).failed().unwrap();
    let all = world.run(seed, Some(bug), None, false).faults.len();
    let shrunk = shrink(world, seed, Some(bug)).len();
    let report = report(world, seed, Some(bug));
    assert!(shrunk < all, "{shrunk} of {all} faults");
    assert!(report.contains("replay: ") && report.contains(told), "{report}");
}

/// Runs the schedule that the variables name, and prints what happens.
pub(crate) fn replay<W: World>(world: W) {
    let only: Only = variable::<W>("ONLY").map(|text| parse_faults(&text));
    let outcome = world.run(asked::<W>("SEED").unwrap(), chosen::<W>(), only, true);
    println!("{}", outcome.timeline.join("\n"));
    println!("{} faults; {:?}", outcome.faults.len(), outcome.violation);
}
