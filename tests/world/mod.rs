//! The second world: the real coordinator, its records, registry, resume tokens and repeats, over the real
//! Azure adapter with its sign-in, over a service of the lease protocol that loses, delays, repeats and
//! refuses. Everything runs in one process on tokio's paused clock and comes from one seed, to the byte.
//!
//! `make simulate` runs 20,000 schedules of holds, and 2,000 worlds whose clients are runners (`schedules`).
//! Their variables are those of the kit, with the names WORLD and WORLD_WITH; and
//! `LEASEHOLD_TEST_WORLD_WITHOUT=Policy,…` says what is left out.
//!
//! What it leaves out, and where that is tested: gRPC and its streams (tests/grpc, tests/faults), HTTP
//! itself, TLS and the time-outs of the HTTP client (tests/faults, with Azurite behind a proxy), listings
//! (tests/store_conformance), the order of callers in a queue and pauses of a whole sidecar
//! (tests/simulation, tests/faults), the kernel's clocks (tests/faults). A crashed sidecar is one that is cut
//! off for ever: its tasks run on, and nobody hears them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that fails says where"
)]

mod chance;
mod checks;
mod client;
mod cost;
mod found;
mod hand_over;
mod handed_on;
mod holding;
mod justice;
mod lease;
mod leasing;
mod link;
mod losses;
mod notices;
mod operator;
mod plan;
mod planted;
mod promises;
mod resuming;
mod run;
mod saves;
mod saving;
mod scene;
mod schedules;
mod service;
mod shared;
mod sidecar;
mod slow;
mod story;
mod trouble;
mod unreturned;
mod weather;

use crate::kit::{self, asked};
use planted::Bug;
use run::{LONGEST_WAIT, REQUESTS};
use scene::{Holds, Schedules};

/// Schedules of a run in the test command.
const SCHEDULES: u64 = 500;
/// The same of worlds with schedules, whose runners go on for longer.
const WITH_SCHEDULES: u64 = 60;

#[test]
fn s1_s5_s12_s13_s16_s18_s22_to_s27_hold_whatever_the_service_and_clients_do() {
    let schedules = asked::<Holds>("SCHEDULES").unwrap_or(SCHEDULES);
    let sums = kit::assert_sound(Holds, 0, schedules);
    sums.tell("");
    let [all, uncalled] = REQUESTS.map(|names| names.map(|name| sums.most[name]));
    println!(
        "{} schedules; at most {all:?} requests of a sidecar for a lock in 10 s and in a minute, {uncalled:?} of them not called \
         for; once calm, the last waited {:.1} s",
        sums.schedules,
        sums.longest[LONGEST_WAIT].as_secs_f64()
    );
    sums.assert_occurred(found::MUST_OCCUR);
}

#[test]
fn t1_to_t21_hold_whatever_the_service_runners_and_people_do() {
    let schedules = asked::<Schedules>("SCHEDULES").unwrap_or(WITH_SCHEDULES);
    let sums = kit::assert_sound(Schedules, 0, schedules);
    sums.tell("schedules");
    println!(
        "{} worlds with schedules; {} requests; once calm, the last schedule went on after {:.1} s",
        sums.schedules,
        sums.counts["requests"],
        sums.longest[LONGEST_WAIT].as_secs_f64()
    );
    sums.assert_occurred(schedules::MUST_OCCUR);
}

#[test]
fn every_mistake_with_schedules_is_found() {
    kit::assert_planted_are_found(Schedules);
}

#[test]
fn every_planted_bug_is_found() {
    kit::assert_planted_are_found(Holds);
}

#[test]
fn the_same_seed_gives_the_same_timeline_to_the_byte() {
    kit::assert_same_timelines(Holds, 0..14);
    kit::assert_same_timelines(Schedules, 14..20);
}

#[test]
fn a_failing_schedule_is_shrunk_and_told() {
    kit::assert_one_is_shrunk_and_told(Holds, Bug::RenewalAssumed, "VIOLATION");
}

#[test]
#[ignore = "replays a seed"]
fn replay() {
    kit::replay(Holds);
}
