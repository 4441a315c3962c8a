//! Schedules in number: on all cores, and the ways in which they fail.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::kit::{Counts, Outcome, Planted as _, World, variable};

/// The sums of many schedules.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) schedules: u64,
    pub(crate) counts: Counts,
    pub(crate) most: BTreeMap<&'static str, u64>,
    pub(crate) longest: BTreeMap<&'static str, Duration>,
    /// The seeds that failed, and how.
    pub(crate) failures: BTreeMap<u64, String>,
}

impl Sums {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        let failures = outcome.violation.into_iter().map(|(what, _)| (seed, what)).collect();
        let Outcome { counts, most, longest, .. } = outcome;
        self.join(Self { schedules: 1, counts, most, longest, failures });
    }

    fn join(&mut self, other: Self) {
        self.schedules += other.schedules;
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for (name, most) in other.most {
            let known = self.most.entry(name).or_default();
            *known = most.max(*known);
        }
        for (name, longest) in other.longest {
            let known = self.longest.entry(name).or_default();
            *known = longest.max(*known);
        }
        self.failures.extend(other.failures);
    }

    /// The first seed that failed.
    pub(crate) fn failed(&self) -> Option<u64> {
        self.failures.keys().next().copied()
    }

    /// Prints how often things with names like this have happened.
    pub(crate) fn tell(&self, prefix: &str) {
        for (name, count) in self.counts.iter().filter(|(name, _)| name.starts_with(prefix)) {
            println!("{count:>12}  {name}");
        }
    }

    /// A run in which something never happened proves less than it seems to.
    pub(crate) fn assert_occurred(&self, names: &[&str]) {
        let occurred = |name: &str| self.counts.get(name).is_some_and(|count| *count > 0);
        let missing: Vec<_> = names.iter().filter(|name| !occurred(name)).collect();
        assert!(missing.is_empty(), "these never occurred, so they were not tested: {missing:?}");
    }
}

/// Runs the schedules of these seeds on all cores, until one fails.
pub(crate) fn run_many<W: World>(world: W, seeds: Range<u64>, bug: Option<W::Bug>) -> Sums {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let rules = bug.map_or(&[][..], W::Bug::rules);
    let speaks = |what: &str| rules.is_empty() || rules.iter().any(|rule| what.starts_with(rule));
    let goes_on = variable::<W>("GO_ON").is_some();
    let work = || {
        let mut own = Sums::default();
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let mut outcome = world.run(seed, bug, None, false);
            outcome.violation = outcome.violation.filter(|(what, _)| speaks(what));
            own.add(seed, outcome);
            if !own.failures.is_empty() && !goes_on {
                stop.store(true, Ordering::Relaxed);
            }
        }
        own
    };
    let mut sums = Sums::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            sums.join(worker.join().unwrap());
        }
    });
    sums
}

/// Every way in which schedules of these seeds fail: how often, and which seed first.
pub(crate) fn survey<W: World>(world: W, seeds: Range<u64>) -> BTreeMap<String, (u64, u64)> {
    let mut ways = BTreeMap::new();
    for seed in seeds {
        let Some((what, _)) = world.run(seed, None, None, false).violation else { continue };
        let way: String = what.chars().filter(|letter| !letter.is_ascii_digit()).take(60).collect();
        ways.entry(way).or_insert((0, seed)).0 += 1;
    }
    ways
}
