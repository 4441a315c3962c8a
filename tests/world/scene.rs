//! What a world is about: holds of locks, or schedules; and the mistake that is planted in it.

use crate::world::planted::Bug;
use crate::world::schedules;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    Holds(Option<Bug>),
    Schedules(Option<schedules::Bug>),
}

impl From<Option<Bug>> for Scene {
    fn from(bug: Option<Bug>) -> Self {
        Self::Holds(bug)
    }
}

impl From<Option<schedules::Bug>> for Scene {
    fn from(bug: Option<schedules::Bug>) -> Self {
        Self::Schedules(bug)
    }
}

impl Scene {
    /// The rules that speak against the planted mistake; none without one.
    pub(crate) fn rules(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Holds(bug) => bug.map(Bug::rules),
            Self::Schedules(bug) => bug.map(schedules::Bug::rules),
        }
    }

    /// Whether everybody does all that they can in worlds with schedules. Mistakes that were planted before
    /// some of it was thought of are found where they were.
    pub(crate) fn is_whole(self) -> bool {
        match self {
            Self::Holds(_) => false,
            Self::Schedules(bug) => bug.is_none_or(schedules::Bug::needs_all),
        }
    }

    /// What the environment says in a replay.
    pub(crate) fn variables(self) -> String {
        let bug = match self {
            Self::Holds(bug) => bug.map(|bug| format!("{bug:?}")),
            Self::Schedules(bug) => bug.map(|bug| format!("{bug:?}")),
        };
        let scene = match self {
            Self::Holds(_) => "",
            Self::Schedules(_) => "LEASEHOLD_TEST_WORLD_SCENE=schedules ",
        };
        let bug = bug.map(|bug| format!("LEASEHOLD_TEST_WORLD_BUG={bug} ")).unwrap_or_default();
        format!("{scene}{bug}")
    }
}
