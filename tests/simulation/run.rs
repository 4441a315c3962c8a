//! Runs a schedule: until its length is over, and then until all has come to rest.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kit::{self, Only, Outcome, finds_by_chance, one_of, panic_of};
use crate::simulation::chance::{About, Chance};
use crate::simulation::long;
use crate::simulation::network::LATEST;
use crate::simulation::plan::plain_terms;
use crate::simulation::planted::{Bug, Hunt};
use crate::simulation::story::Story;
use crate::simulation::world::World;

/// Two round trips of a calm network.
const ROUND_TRIPS: Duration = Duration::from_millis(200);
/// The longest lease.
const LONGEST_LEASE: Duration = Duration::from_secs(60);
/// The longest `min_hold`: a rest, counted from when a sidecar sees it for the first time, if the store's
/// clock went back (S11).
const LONGEST_REST: Duration = Duration::from_secs(20);
/// The longest that anything else may keep a lock: a pause, a rest after `min_hold`.
const LONGEST_PAUSE: Duration = Duration::from_secs(90);

/// How long the first of those who came when faults had stopped waited.
pub(super) const FIRST_GRANT: &str = "the first grant once faults had stopped";
/// How long a lease was had by nobody, at the most (S6).
pub(super) const IDLE: &str = "a lease had by nobody";

/// The world of machines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machines;

impl kit::World for Machines {
    type Bug = Bug;

    const NAME: &'static str = "SIMULATION";
    const TESTS: &'static str = "simulation";

    fn run(self, seed: u64, bug: Option<Bug>, only: Only, tell: bool) -> Outcome {
        run(seed, bug, only, tell)
    }

    fn finds(self, bug: Bug, in_full: bool) -> Option<String> {
        match bug.hunt() {
            Hunt::Chance => finds_by_chance(self, bug, in_full),
            Hunt::Long => long::find(bug).map(|what| format!("in a long schedule: {what}")),
        }
    }
}

/// Runs the schedule of `seed`.
pub(crate) fn run(seed: u64, bug: Option<Bug>, only: Only, tell: bool) -> Outcome {
    let story = if tell { Story::told() } else { Story::default() };
    let mut world = World::new(Chance::new(seed, only), bug, story);
    let mut first_grant = Duration::ZERO;
    if let Some(what) = panic_of(|| first_grant = play(&mut world)) {
        world.checks.fail(format!("panicked: {what}"));
    }
    let mut counts = world.story.counts();
    for (about, count) in &world.chance.counts {
        counts.insert(format!("fault: {about:?}"), *count);
    }
    counts.insert("grants".to_owned(), world.checks.grants);
    counts.insert("writes".to_owned(), world.checks.writes);
    counts.insert("writes with an older token".to_owned(), world.checks.stale_writes);
    counts.insert("resumed after a hand-over".to_owned(), world.checks.hand_overs.resumed);
    counts.insert("clients".to_owned(), world.clients.len() as u64);
    counts.insert("breaks for a rival".to_owned(), world.storage.rivals.breaks);
    let promises = &world.checks.promises;
    counts.insert("renewals that overlap".to_owned(), promises.overlapping);
    counts.insert("calls where the hold has left".to_owned(), promises.calls_at_left);
    counts.insert("cancels where the hold has left".to_owned(), promises.cancels_at_left);
    counts.insert("ends learned after a notice".to_owned(), world.checks.notices.learned);
    counts.insert("renewals that waited for their turn".to_owned(), world.checks.turns.waited);
    counts.insert("renewals whose turn has come".to_owned(), world.checks.turns.came);
    counts.insert("notices by another's break".to_owned(), world.checks.notices.by_another);
    let saves = &world.checks.counters.ledger.counts;
    let occurrences = &world.checks.occurrences.counts;
    for (what, count) in world.repeats.counts.iter().chain(saves).chain(occurrences) {
        counts.insert((*what).to_owned(), *count);
    }
    for (what, count) in &world.checks.idle.late {
        counts.insert(format!("late write across a {what}"), *count);
    }
    let longest = [(FIRST_GRANT, first_grant), (IDLE, world.checks.idle.longest)];
    Outcome {
        violation: world.checks.violation.map(|what| (what, world.now)),
        faults: world.chance.happened,
        counts,
        timeline: world.story.lines.unwrap_or_default(),
        trace: world.story.trace.unwrap_or_default(),
        most: BTreeMap::new(),
        longest: BTreeMap::from(longest),
    }
}

fn play(world: &mut World) -> Duration {
    world.run_until(world.plan.length);
    if world.checks.violation.is_some() {
        return Duration::ZERO;
    }
    come_to_rest(world)
}

/// Once faults stop, somebody is served soon, then everybody, and then nothing is left over.
fn come_to_rest(world: &mut World) -> Duration {
    world.calm = true;
    world.all_leave();
    // What was sent before may come late, and whoever is frozen goes on.
    world.run_until(world.now + LATEST + LONGEST_PAUSE);
    // A sidecar dies with its client, and leaves a lease behind.
    let lease = one_of(&mut world.chance.of(About::Plan, 1, 0), &[15, 15, 15, 30, 60]);
    world.arrive((0, 0), plain_terms(lease, Duration::ZERO));
    world.run_until(world.now + ROUND_TRIPS);
    world.all_leave();
    world.restart(0);
    let (from, before) = (world.now, world.clients.len());
    for sidecar in 0..2 {
        world.arrive((sidecar, sidecar), plain_terms(15, Duration::from_secs(3_600)));
    }
    let rest = if world.storage.was_set_back() { LONGEST_REST } else { Duration::ZERO };
    let soon = Duration::from_secs(lease) + rest + world.settings().poll_cap + ROUND_TRIPS;
    world.run_until(from + soon);
    let granted = |world: &World| {
        world.clients[before..].iter().map(|client| client.first_granted).collect::<Vec<_>>()
    };
    let first = granted(world).into_iter().flatten().min();
    let Some(first) = first else {
        world.checks.fail(format!("S12: nobody is granted within {soon:?} of calm"));
        return soon;
    };
    let patience = from + Duration::from_secs(400);
    let waits = |world: &World| world.checks.violation.is_none() && world.now < patience;
    while granted(world).contains(&None) && waits(world) {
        world.run_until(world.now + Duration::from_secs(5));
    }
    if granted(world).contains(&None) {
        world.checks.fail("S12: somebody who waits is never served".to_owned());
    }
    world.all_leave();
    world.run_until(world.now + LONGEST_LEASE + Duration::from_secs(10));
    world.checks.ended();
    if !world.is_quiet() {
        world.checks.fail("S6: a machine is not idle though nobody wants anything".to_owned());
    }
    if world.storage.is_leased(world.now) {
        world.checks.fail("S6: a lease is left over".to_owned());
    }
    first - from
}
