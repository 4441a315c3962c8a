//! On which terms schedules are: drawn from the seed.

use std::time::Duration;

use leasehold::schedule::{CatchUp, Definition, Overlap, RunTimeout, Spec};
use leasehold::testing::SeededRandom;
use leasehold::timetable::Timetable;

use crate::kit::one_of;
use crate::world::shared::World;

/// The most attempts of any definition here.
pub(super) const MOST_ATTEMPTS: u32 = 3;
/// `catch_up` ALL of all that can be due here.
pub(super) const ALL: CatchUp = CatchUp::All(100);
/// The longest gap between two occurrences.
pub(super) const LONGEST_GAP: Duration = Duration::from_secs(60);

/// What a world allows of its schedules.
pub(super) struct Terms {
    /// The longest lease, in seconds.
    lease: u64,
    /// Some runs have to report progress.
    watches: bool,
}

impl Terms {
    pub(super) fn of(world: &World) -> Self {
        Self { lease: world.plan().lease, watches: world.scene().is_whole() }
    }
}

/// A definition by chance.
pub(super) fn definition(random: &mut SeededRandom, terms: &Terms) -> Definition {
    Definition::new(spec(random, terms)).unwrap()
}

/// Other policies for the timetable of this one, at the same revision (T16).
pub(super) fn other_policies(
    random: &mut SeededRandom,
    terms: &Terms,
    of: &Definition,
) -> Definition {
    let (timetable, revision) = (of.timetable.clone(), of.revision);
    Definition::new(Spec { timetable, revision, ..spec(random, terms) }).unwrap()
}

fn spec(random: &mut SeededRandom, terms: &Terms) -> Spec {
    let expression = one_of(
        random,
        &["@every 10s", "@every 20s", "@every 35s", "@every 60s", "*/15 * * * * *", "* * * * *"],
    );
    let attempts = 1 + random.below(u64::from(MOST_ATTEMPTS));
    let lease_duration = Duration::from_secs(15 + random.below(terms.lease - 14));
    let drawn = Spec {
        catch_up: one_of(random, &[CatchUp::Latest, CatchUp::None, ALL]),
        overlap: if random.chance(300) { Overlap::Skip } else { Overlap::Follow },
        max_attempts: Some(u32::try_from(attempts).unwrap()),
        backoff: Some(Duration::from_secs(1 + random.below(20))),
        run_timeout: match random.below(3) {
            0 => RunTimeout::NextDue,
            1 => RunTimeout::Duration(Duration::from_secs(20 + random.below(60))),
            _ => RunTimeout::None,
        },
        spread: Duration::from_secs(random.below(2) * random.below(4)),
        takeover_check: random.chance(500).then(|| Duration::from_secs(1 + random.below(60))),
        revision: random.below(3),
        lease_duration: Some(lease_duration),
        ..Spec::new(Timetable::parse(expression, "UTC").unwrap())
    };
    // T24: some runs hang before their deadline.
    let is_watched = terms.watches && random.chance(300);
    let progress_timeout = is_watched.then(|| Duration::from_secs(10 + random.below(30)));
    // A grace that changes with it: a run keeps the one that it began with (T12).
    Spec { progress_timeout, stop_grace: progress_timeout, ..drawn }
}
