//! The simulator: the real machines of some sidecars against the store's contract, with clients that act by
//! their validity, on a network that loses, delays and repeats, with clocks that disagree and processes that
//! freeze and die. Everything comes from one seed.
//!
//! What is the product's own here: the machines of `hold`, the records and tokens of `lock`, what is decided
//! for callers that name occurrences (`schedule::claim_over`, `conclude_over`), the memory store, and what
//! makes suspicions of other clocks (`time::Suspicions`). What the world abstracts away, and where that is
//! tested:
//!
//! | here | in truth | tested in |
//! | --- | --- | --- |
//! | a sidecar has one lock path and one queue | registry, limits, repeats, resume tokens as text | `tests/world` |
//! | a resume token is its content (`kept.rs`) | `coordinator::resume_token` | its own tests, `tests/world` |
//! | a call names the caller that the sidecar knows | it names a lease id | `tests/world`, `tests/grpc` |
//! | a request is lost, late, repeated or refused as a whole | HTTP, and its error codes | `tests/world`, `tests/store_conformance` |
//! | what a stream's end means is decided (S14) | `grpc` decides it | `tests/grpc`, `tests/faults` |
//! | what schedules and imports decide | the same deciders, of other records | `tests/fuzz`, `tests/schedule`, `tests/world` |
//! | who has the answer to a repeated call (`repeats.rs`) | `coordinator::repeats` | its own tests, `tests/world` |
//! | clocks are numbers | CLOCK_BOOTTIME and what sets the wall clock | `tests/faults` |
//!
//! A pause that no clock counted is outside S1 for what was granted before another clock shows it; what is
//! granted after that, to whatever event, is not. That it is found, and ends the validity, is a schedule of
//! its own (`long.rs`).
//!
//! `make simulate` runs 1,000,000 schedules. Its variables are those of the kit, with the name SIMULATION;
//! and `LEASEHOLD_TEST_SIMULATION_SURVEY=N` counts the ways in which the first N fail,
//! `LEASEHOLD_TEST_SIMULATION_STATES=N` says how far the exhaustive exploration goes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that fails says where"
)]

mod acting;
mod breaking;
mod chance;
mod checks;
mod client;
mod clock;
mod counters;
mod due;
mod exhaustive;
mod found;
mod ghosts;
mod hand_over;
mod idle;
mod kept;
pub(crate) mod ledger;
mod long;
mod machine;
mod moved;
mod moving;
mod network;
mod notices;
mod occurrences;
mod places;
mod plan;
mod planted;
mod promises;
mod repeats;
mod rivals;
mod run;
mod saving;
mod sidecar;
mod spoilt;
mod storage;
mod story;
mod traced;
mod trouble;
mod truth;
mod turns;
mod world;

use std::time::Duration;

use crate::kit::chance::parse_faults;
use crate::kit::{self, Outcome, asked};
use planted::Bug;
use run::Machines;

/// Schedules of a run in the test command.
const SCHEDULES: u64 = 14_000;
/// Schedules whose traces the model's monitor judges.
const TRACED: u64 = 600;
/// Schedules whose callers have priorities, of each ten.
const RIVAL_SCHEDULES: u64 = SCHEDULES / 10;
/// A schedule that is told.
fn told(seed: u64, bug: Option<Bug>) -> Outcome {
    run::run(seed, bug, None, true)
}

#[test]
fn s1_s4_s5_s6_s12_s13_hold_whatever_happens() {
    let schedules = asked::<Machines>("SCHEDULES").unwrap_or(SCHEDULES);
    let sums = kit::assert_sound(Machines, 0, schedules);
    sums.tell("");
    println!(
        "{} schedules; once faults had stopped, the first grant came after {:.1} s at the latest; a lease was had by nobody \
         for {:.1} s at the most",
        sums.schedules,
        sums.longest[run::FIRST_GRANT].as_secs_f64(),
        sums.longest[run::IDLE].as_secs_f64()
    );
    sums.assert_occurred(found::MUST_OCCUR);
}

#[test]
fn s33_s34_nothing_else_is_harmed_where_callers_have_priorities() {
    let schedules = asked::<Machines>("SCHEDULES").map_or(RIVAL_SCHEDULES, |number| number / 10);
    let sums = kit::assert_sound(Machines, rivals::RIVALS, schedules);
    let breaks = sums.counts["breaks for a rival"];
    println!("{breaks} breaks for a rival in {} schedules", sums.schedules);
    assert!(breaks > 0);
}

#[test]
fn every_planted_bug_is_found() {
    kit::assert_planted_are_found(Machines);
}

#[test]
fn the_same_seed_gives_the_same_timeline_to_the_byte() {
    kit::assert_same_timelines(Machines, 0..20);
}

#[test]
fn a_failing_schedule_is_shrunk_and_told() {
    kit::assert_one_is_shrunk_and_told(Machines, Bug::BreakNowByDefault, "believes beside");
}

#[test]
fn s1_s5_hold_in_every_order_of_a_bounded_world() {
    let most = asked::<Machines>("STATES").unwrap_or(exhaustive::STATES);
    let none = exhaustive::Bounds {
        losses: 0,
        duplicates: 0,
        steps: 1,
        suspicions: 0,
        moves: 0,
        occurrence: false,
    };
    let worlds = [
        exhaustive::Bounds { steps: 2, ..none },
        exhaustive::Bounds { losses: 1, ..none },
        exhaustive::Bounds { duplicates: 1, ..none },
        exhaustive::Bounds { duplicates: 1, suspicions: 1, ..none },
        exhaustive::Bounds { moves: 1, ..none },
        exhaustive::Bounds { duplicates: 1, moves: 1, suspicions: 1, steps: 2, ..none },
        exhaustive::Bounds { losses: 1, duplicates: 1, occurrence: true, ..none },
        exhaustive::Bounds { losses: 1, moves: 1, occurrence: true, ..none },
    ];
    for bounds in worlds {
        let seen = exhaustive::explore(bounds, most);
        println!("{seen:?} within {bounds:?}");
        assert_eq!(seen.explored.violation, None);
        let went_on = seen.grants + seen.settled >= 2 || !seen.explored.complete;
        assert!(seen.grants >= 1 && went_on, "the lock never went from one to the other");
    }
}

/// Seeds of each long schedule.
const LONG: u64 = 6;

#[test]
fn s10_nobody_starves_beside_a_caller_that_loops() {
    let millis = Duration::from_millis;
    let ways = [(200, 2), (1_000, 2), (5_000, 2), (30_000, 2), (30_000, 100)];
    let mut starved = Vec::new();
    for (holds, away) in ways.map(|(holds, away)| (millis(holds), millis(away))) {
        for waiters in 1..=3 {
            let mut turns = Vec::new();
            for seed in 0..LONG {
                match long::longest_wait(seed, (holds, away), waiters, None) {
                    Ok(longest) => turns.push(longest),
                    Err(what) => starved.push(what),
                }
            }
            println!("holds {holds:?}, away {away:?}, {waiters} waiters, in turns: {turns:.1?}");
        }
    }
    assert!(starved.is_empty(), "{starved:#?}");
}

#[test]
fn s12_a_waiter_costs_so_many_requests_and_no_more() {
    for others in [false, true] {
        let hours: Result<Vec<u64>, String> =
            (0..LONG).map(|seed| long::requests_an_hour(seed, others, None)).collect();
        println!("requests an hour, others come and go {others}: {:?}", hours.unwrap());
    }
}

#[test]
fn s5_tokens_keep_up_with_the_clock() {
    for seed in 0..2 {
        println!("tokens ran ahead by {:?}", long::tokens_keep_up(seed, None).unwrap());
    }
}

#[test]
fn s3_a_pause_that_no_clock_counted_is_found() {
    for seed in 0..LONG {
        for auto_renew in [true, false] {
            let longer = long::moved_machine(seed, auto_renew, None).unwrap();
            println!("believed {longer:?} longer, renewed by itself: {auto_renew}");
        }
    }
}

#[test]
fn s10_s16_s17_what_comes_late_of_a_former_holder_ends_no_hold_that_has_lasted() {
    for seed in 0..LONG {
        for late in ghosts::DELAYS.map(Duration::from_millis) {
            let both = ghosts::former_resumes(seed, late, None).unwrap();
            ghosts::late_break(seed, late, None).unwrap();
            for given_up in [false, true] {
                ghosts::late_break_here(seed, (late, given_up), None).unwrap();
            }
            println!("{late:?} after the hand-off: both believed for {both:?}");
        }
    }
}

#[test]
fn s1_s3_whatever_a_sidecar_is_told_first_after_a_pause_that_shows_grants_nothing() {
    for seed in 0..LONG {
        long::each_first_after(seed, None).unwrap();
    }
}

#[test]
#[ignore = "counts the ways in which seeds fail"]
fn survey() {
    let count = asked::<Machines>("SURVEY").unwrap();
    for (what, (times, seed)) in kit::survey(Machines, 0..count) {
        println!("{times:>8}  seed {seed:>6}  {what}");
    }
}

/// Of schedules in which the store honours its leases: else the clients of a lost lease are excused (S17).
#[test]
fn s1_s4_s5_s13_the_model_allows_what_clients_were_told() {
    let excused = [
        "! BreakNow",
        "! BreakTwice",
        "! BreakHere",
        "! ForeignBreak",
        "! Deletion",
        "! OlderCopy",
        "! MachineMoved",
        "! TokenGarbled",
    ];
    let (mut schedules, mut events) = (0, 0);
    for seed in 0..TRACED {
        let outcome = told(seed, None);
        if excused.iter().any(|name| outcome.counts.get(*name).is_some_and(|count| *count > 0)) {
            continue;
        }
        assert_eq!(leasehold::testing::accepts(&outcome.trace), Ok(()), "seed {seed}");
        schedules += 1;
        events += outcome.trace.len();
    }
    println!("{schedules} traces with {events} events are accepted");
    assert!(schedules >= 100 && events > 1_000, "too little was seen");
}

#[test]
fn s1_the_model_allows_no_trace_of_a_planted_bug_that_frees_a_lock_too_early() {
    let rejected = |seed| {
        let outcome = told(seed, Some(Bug::SilenceIsLeaving));
        outcome.violation.is_some_and(|(what, _)| what.starts_with("S1"))
            && leasehold::testing::accepts(&outcome.trace).is_err()
    };
    assert!((0..TRACED).any(rejected), "every trace was accepted");
}

#[test]
#[ignore = "replays a seed"]
fn replay() {
    kit::replay(Machines);
}

#[test]
fn what_was_found_once_stays_fixed() {
    for found in found::FOUND {
        let only = Some(parse_faults(found.faults)).filter(|only| !only.is_empty());
        let outcome = run::run(found.seed, None, only.clone(), false);
        assert_eq!(outcome.violation, None, "{}", found.what);
        if let Some(bug) = found.shown_by {
            let violation = run::run(found.seed, Some(bug), only, false).violation;
            assert!(violation.is_some(), "it shows this no more: {}", found.what);
        }
    }
}
