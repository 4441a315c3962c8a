//! Runs schedules: one, many at once, or the shortest that still fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::caught::panic_of;
use crate::simulation::chance::{About, Chance, Fault, one_of};
use crate::simulation::network::LATEST;
use crate::simulation::plan::plain_terms;
use crate::simulation::planted::Bug;
use crate::simulation::story::{Counts, Story};
use crate::simulation::world::World;
use leasehold::testing::TraceEvent;

/// The faults that may happen; all that the seed says if none.
pub(crate) type Only = Option<BTreeSet<[u32; 3]>>;

/// Two round trips of a calm network.
const ROUND_TRIPS: Duration = Duration::from_millis(200);
/// The longest lease.
const LONGEST_LEASE: Duration = Duration::from_secs(60);
/// The longest `min_hold`: a rest, counted from when a sidecar sees it for the first time, if the store's
/// clock went back (S11).
const LONGEST_REST: Duration = Duration::from_secs(20);
/// The longest that anything else may keep a lock: a pause, a rest after `min_hold`.
const LONGEST_PAUSE: Duration = Duration::from_secs(90);

/// What came of a schedule.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The rule that was broken, and when.
    pub(crate) violation: Option<(String, Duration)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) counts: Counts,
    pub(crate) timeline: Vec<String>,
    /// Of a run that is told.
    pub(crate) trace: Vec<TraceEvent>,
    /// How long the first of those who came when faults had stopped waited.
    pub(crate) first_grant: Duration,
    /// How long a lease was had by nobody, at the most (S6).
    pub(crate) idle: Duration,
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
    Outcome {
        violation: world.checks.violation.map(|what| (what, world.now)),
        faults: world.chance.happened,
        counts,
        timeline: world.story.lines.unwrap_or_default(),
        trace: world.story.trace.unwrap_or_default(),
        first_grant,
        idle: world.checks.idle.longest,
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

/// The sums of many schedules.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) schedules: u64,
    pub(crate) counts: Counts,
    pub(crate) longest_first_grant: Duration,
    pub(crate) longest_idle: Duration,
    /// The first seed that failed.
    pub(crate) failed: Option<u64>,
}

impl Sums {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.schedules += 1;
        for (name, count) in outcome.counts {
            *self.counts.entry(name).or_default() += count;
        }
        self.longest_first_grant = self.longest_first_grant.max(outcome.first_grant);
        self.longest_idle = self.longest_idle.max(outcome.idle);
        if outcome.violation.is_some() {
            self.failed = Some(self.failed.map_or(seed, |other| other.min(seed)));
        }
    }

    fn join(&mut self, other: Self) {
        self.schedules += other.schedules;
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        self.longest_first_grant = self.longest_first_grant.max(other.longest_first_grant);
        self.longest_idle = self.longest_idle.max(other.longest_idle);
        self.failed = self.failed.into_iter().chain(other.failed).min();
    }
}

/// Runs the schedules of these seeds on all cores, until one fails.
pub(crate) fn run_many(seeds: std::ops::Range<u64>, bug: Option<Bug>) -> Sums {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let mut sums = Sums::default();
    let work = || {
        let mut own = Sums::default();
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            own.add(seed, run(seed, bug, None, false));
            if own.failed.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        own
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            sums.join(worker.join().unwrap());
        }
    });
    sums
}

/// Every way in which schedules of these seeds fail: how often, and which seed first.
pub(crate) fn survey(seeds: std::ops::Range<u64>) -> BTreeMap<String, (u64, u64)> {
    let mut ways = BTreeMap::new();
    for seed in seeds {
        let Some((what, _)) = run(seed, None, None, false).violation else { continue };
        let way: String = what.chars().filter(|letter| !letter.is_ascii_digit()).take(60).collect();
        ways.entry(way).or_insert((0, seed)).0 += 1;
    }
    ways
}

/// The fewest faults found with which `seed` still fails (delta debugging: Zeller and Hildebrandt, 2002).
pub(crate) fn shrink(seed: u64, bug: Option<Bug>) -> Vec<Fault> {
    let fails = |faults: &[Fault]| {
        let only = faults.iter().map(|fault| fault.key()).collect();
        run(seed, bug, Some(only), false).violation.is_some()
    };
    let mut faults = run(seed, bug, None, false).faults;
    let mut pieces = 2;
    while faults.len() > 1 {
        let size = faults.len().div_ceil(pieces);
        let rest = faults.chunks(size).enumerate().find_map(|(index, _)| {
            let rest: Vec<Fault> = faults
                .iter()
                .enumerate()
                .filter(|(number, _)| number / size != index)
                .map(|(_, fault)| *fault)
                .collect();
            fails(&rest).then_some(rest)
        });
        match rest {
            Some(rest) => {
                faults = rest;
                pieces = pieces.saturating_sub(1).max(2);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(faults.len()),
        }
    }
    faults
}
