//! The simulator of pools (S28 to S32): the real pools of some sidecars against the store's contract, with
//! callers that name different numbers of permits, on a network that loses, delays and repeats. Everything
//! comes from one seed. What one permit does by itself, clocks that disagree and resumes are the business of
//! `tests/simulation`. Its variables are
//! those of the kit, with the name POOLS.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that fails says where"
)]

mod checks;
mod exhaustive;
mod mixed;
mod network;
mod planted;
mod rig;
mod rules;
mod store;
mod world;

use crate::kit::{self, Only, Outcome, asked};
use planted::Bug;
use world::World;

/// Schedules of a run in the test command.
const SCHEDULES: u64 = 4_000;

/// The world of pools.
#[derive(Clone, Copy, Debug)]
struct Pools;

impl kit::World for Pools {
    type Bug = Bug;

    const NAME: &'static str = "POOLS";
    const TESTS: &'static str = "pools";

    fn run(self, seed: u64, bug: Option<Bug>, _: Only, _: bool) -> Outcome {
        World::run(seed, bug)
    }
}

/// What must have occurred, or the schedules say nothing.
const MUST_OCCUR: [&str; 11] = [
    "a grant of permit 0",
    "a grant of another permit",
    "a grant to a plain caller",
    "a hand-off",
    "busy",
    "a caller was told that it waits",
    "a caller left",
    "a request lost",
    "a renewal held back",
    "a sidecar crashed",
    "numbers differ",
];

#[test]
fn s28_s29_s32_hold_whatever_happens() {
    let schedules = asked::<Pools>("SCHEDULES").unwrap_or(SCHEDULES);
    let sums = kit::assert_sound(Pools, 0, schedules);
    println!("{schedules} schedules: {:?}", sums.counts);
    sums.assert_occurred(&MUST_OCCUR);
}

#[test]
fn every_planted_bug_is_found() {
    kit::assert_planted_are_found(Pools);
}

#[test]
fn the_same_seed_gives_the_same_timeline() {
    kit::assert_same_timelines(Pools, 0..10);
}

#[test]
fn s1_s32_hold_in_every_order_of_2_sidecars_2_permits_and_3_callers() {
    println!("{}", exhaustive::explore().join("\n"));
}

#[test]
#[ignore = "replays a seed"]
fn replay() {
    kit::replay(Pools);
}
