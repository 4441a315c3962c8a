//! What a world is to the kit: a schedule is run from its seed, and something comes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::testing::TraceEvent;

use crate::kit::{Fault, Listed, Only, finds_by_chance};

/// How often things have happened, by name.
pub(crate) type Counts = BTreeMap<String, u64>;

/// The same of names that do not change.
pub(crate) fn named(counts: BTreeMap<&'static str, u64>) -> Counts {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// What came of a schedule.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The rule that was broken, and when.
    pub(crate) violation: Option<(String, Duration)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) counts: Counts,
    /// Of a run that is told.
    pub(crate) timeline: Vec<String>,
    /// What clients were told, for the model's monitor, if it is told.
    pub(crate) trace: Vec<TraceEvent>,
    /// Figures whose greatest of all schedules is wanted.
    pub(crate) most: BTreeMap<&'static str, u64>,
    pub(crate) longest: BTreeMap<&'static str, Duration>,
}

/// A mistake that somebody could make, planted in a world: a check that finds none of these proves nothing.
pub(crate) trait Planted: Listed + Sync {
    /// What is counted each time that it acts, if that is counted.
    const ACTED: Option<&'static str> = None;

    /// Where the search for it begins: those that are rare are looked for near where they show, for the sake
    /// of time.
    fn first_seed(self) -> u64 {
        0
    }

    /// The rules that speak against it: it counts as found by these only, if there are any.
    fn rules(self) -> &'static [&'static str] {
        &[]
    }
}

pub(crate) trait World: Copy + Sync {
    type Bug: Planted;

    /// Begins the names of its variables.
    const NAME: &'static str;
    /// The module in which its test `replay` is.
    const TESTS: &'static str;
    /// Schedules within which a planted mistake must be found.
    const BUG_SCHEDULES: u64 = 10_000;

    /// Runs the schedule of `seed`.
    fn run(self, seed: u64, bug: Option<Self::Bug>, only: Only, tell: bool) -> Outcome;

    /// What finds a planted mistake, if it is found; in full if that is asked for.
    fn finds(self, bug: Self::Bug, in_full: bool) -> Option<String> {
        finds_by_chance(self, bug, in_full)
    }
}
