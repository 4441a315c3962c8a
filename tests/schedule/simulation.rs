//! Many seeds; and each planted bug is found. The variables are those of the kit, with the name SCHEDULE.

use crate::kit::{self, Only, Outcome, asked};
use crate::schedule::planted::Bug;
use crate::schedule::world::World;

/// Seeds of a run in the test command.
const SCHEDULES: u64 = 1_000;

/// The world of schedules.
#[derive(Clone, Copy, Debug)]
struct Schedules;

impl kit::World for Schedules {
    type Bug = Bug;

    const NAME: &'static str = "SCHEDULE";
    const TESTS: &'static str = "schedule::simulation";
    const BUG_SCHEDULES: u64 = 3_000;

    fn run(self, seed: u64, bug: Option<Bug>, _: Only, _: bool) -> Outcome {
        World::run(seed, bug)
    }
}

/// What must occur, or the seeds say nothing.
const MUST_OCCUR: [&str; 13] = [
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
    "a reset",
    "a run by hand was asked for",
    "a late report",
];

#[test]
fn t2_t8_t9_t11_t16_hold_whatever_happens() {
    let sums =
        kit::assert_sound(Schedules, 0, asked::<Schedules>("SCHEDULES").unwrap_or(SCHEDULES));
    println!("{} seeds: {:?}", sums.schedules, sums.counts);
    sums.assert_occurred(&MUST_OCCUR);
}

#[test]
fn every_planted_bug_is_found() {
    kit::assert_planted_are_found(Schedules);
}

#[test]
#[ignore = "replays a seed"]
fn replay() {
    kit::replay(Schedules);
}
