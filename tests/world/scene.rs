//! What a world is about: holds of locks, or schedules; and the mistake that is planted in it.

use crate::kit::{self, Only, Outcome};
use crate::world::planted::Bug;
use crate::world::run::run;
use crate::world::schedules;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    Holds(Option<Bug>),
    Schedules(Option<schedules::Bug>),
}

impl Scene {
    /// Whether everybody does all that they can in worlds with schedules. Mistakes that were planted before
    /// some of it was thought of are found where they were.
    pub(crate) fn is_whole(self) -> bool {
        match self {
            Self::Holds(_) => false,
            Self::Schedules(bug) => bug.is_none_or(schedules::Bug::needs_all),
        }
    }
}

/// The worlds of holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holds;

impl kit::World for Holds {
    type Bug = Bug;

    const NAME: &'static str = "WORLD";
    const TESTS: &'static str = "world";

    fn run(self, seed: u64, bug: Option<Bug>, only: Only, tell: bool) -> Outcome {
        run(seed, Scene::Holds(bug), only, tell)
    }
}

/// The worlds with schedules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedules;

impl kit::World for Schedules {
    type Bug = schedules::Bug;

    const NAME: &'static str = "WORLD_WITH";
    const TESTS: &'static str = "world::schedules";
    const BUG_SCHEDULES: u64 = 1_000;

    fn run(self, seed: u64, bug: Option<schedules::Bug>, only: Only, tell: bool) -> Outcome {
        run(seed, Scene::Schedules(bug), only, tell)
    }
}
