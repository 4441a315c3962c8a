//! What is seen of schedules: each write of a record and of a plan, as the service takes it, and what runners
//! have said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::schedule::{
    Definition, MAX_RECORD_BYTES, Occasion, Outcome, Plan, Report, RunId, ScheduleRecord,
};
use leasehold::testing::Asked;
use leasehold::timetable::UtcSecond;

use super::anew::Interventions;
use super::{plans, records};
use crate::kit::Counts;
use crate::world::service::{Answer, Blob};
use crate::world::shared::{State, World};

/// A run: its occasion and its token.
pub(super) type RunKey = (Occasion, u64);

/// The schedules of a world.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// By the names of their locks' blobs.
    seen: BTreeMap<String, Seen>,
    counts: Counts,
    streams: u64,
}

/// A run that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) attempt: u32,
    pub(super) deadline: Option<UtcSecond>,
    pub(super) ended: Option<Outcome>,
    /// The reset number that it was begun under (T25).
    pub(super) reset: u64,
}

/// What was seen of one schedule.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// All definitions that runners come with, by their hash.
    pub(super) definitions: BTreeMap<String, Definition>,
    /// When the lock's blob was made, and what stands in it.
    pub(super) made: Option<Duration>,
    pub(super) record: Option<ScheduleRecord>,
    pub(super) runs: BTreeMap<RunKey, Written>,
    /// Occasions whose outcome is stored for good: they are never run again (T2).
    pub(super) is_final: BTreeMap<Occasion, u64>,
    /// What runners have said, before it was on its way.
    pub(super) reported: BTreeMap<RunKey, Vec<Report>>,
    /// When the plan's blob was made, and what stands in it.
    pub(super) plan_made: Option<Duration>,
    pub(super) plan: Option<Plan>,
    /// From when to when the stored plan was paused.
    pub(super) pauses: Vec<(UtcSecond, Option<UtcSecond>)>,
    /// There were others, before it was reset or begun anew.
    pub(super) was_paused: bool,
    /// Pauses and resumes that people asked for, and those that were stored.
    pub(super) asked: [u32; 2],
    pub(super) stored: [u32; 2],
    /// Runs by hand whose request was answered as stored.
    pub(super) by_hand: BTreeSet<String>,
    /// Those that went with their schedule (T25).
    pub(super) gone: BTreeSet<String>,
    /// The occurrences that were due at once.
    pub(super) firsts: BTreeSet<UtcSecond>,
    /// The life of the sidecar that has told each run last.
    pub(super) told_by: BTreeMap<RunKey, (usize, u32)>,
    /// What was due last under timetables that were replaced, how many were missed before it, and the hash of
    /// that timetable (T16).
    pub(super) dues: BTreeSet<(UtcSecond, u64, String)>,
    pub(super) anew: Interventions,
    /// The subscribers that each life of a sidecar has, as the world sees them.
    pub(super) present: BTreeMap<(usize, u32), BTreeSet<u64>>,
    /// The lock or the plan was deleted: what was known may be known no more (T2).
    pub(super) was_lost: bool,
    /// Requests about the lock and its plan.
    pub(super) requests: u64,
}

impl Seen {
    /// Whether it was to be due at once (T25).
    pub(super) fn is_first(&self, at: UtcSecond) -> bool {
        self.firsts.contains(&at)
    }

    /// What was paused before may run now (T25); but a plan that is reset keeps a pause that goes on.
    pub(super) fn forget_pauses(&mut self, keeps_open: bool) {
        let last = self.pauses.pop();
        self.was_paused |= last.is_some();
        self.pauses = last.into_iter().filter(|(_, to)| keeps_open && to.is_none()).collect();
    }
}

impl Judge {
    pub(super) fn seen(&mut self, lock: &str) -> &mut Seen {
        self.seen.entry(lock.to_owned()).or_default()
    }

    /// A number for a stream.
    pub(super) fn stream(&mut self) -> u64 {
        self.streams += 1;
        self.streams
    }

    pub(super) fn count(&mut self, what: &str) {
        *self.counts.entry(format!("schedules: {what}")).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// The reset number of a lock's plan.
    pub(super) fn plans_reset(&mut self, lock: &str) -> u64 {
        self.seen(lock).plan.as_ref().map_or(0, Plan::reset)
    }

    /// A runner is about to say how its run ended.
    pub(super) fn reports(&mut self, id: &RunId, report: Report) {
        let reported = &mut self.seen(id.path.as_str()).reported;
        reported.entry((id.occasion.clone(), id.token.value())).or_default().push(report);
    }
}

/// The whole second that a front end shows at the most now.
pub(super) fn latest(world: &World) -> UtcSecond {
    let ahead = world.plan().front_ends.iter().max().copied().unwrap_or_default();
    world.wall(ahead).into()
}

/// The same at the least.
pub(super) fn earliest(world: &World) -> UtcSecond {
    world.wall(Duration::ZERO).into()
}

const PLANS: &str = "/leasehold-plans/";

/// The lock that a blob is about, and whether it is the lock's plan.
fn lock_of(name: &str) -> Option<(String, bool)> {
    if name.contains(PLANS) {
        return Some((name.replace(PLANS, "/"), true));
    }
    name.contains("/locks/")
        .then(|| (name.to_owned(), false))
        .filter(|_| !name.contains("-breaks/"))
}

/// A request has come to the service and was answered so.
pub(crate) fn arrived(
    world: &World,
    state: &mut State,
    (asked, name): (&Asked, &str),
    answer: &Answer,
) {
    if !matches!(world.scene(), crate::world::scene::Scene::Schedules(_)) {
        return;
    }
    let Some((lock, is_plan)) = lock_of(name) else { return };
    state.schedules.seen(&lock).requests += 1;
    let writes = asked.method == "PUT" && !asked.target.contains("comp=lease");
    if !writes || !matches!(answer.status, 200 | 201) {
        return;
    }
    let Some(blob) = state.service.blob(name) else { return };
    let wrong = if is_plan {
        let plan = Plan::from_text(&blob.content).map_err(|error| error.to_string());
        let (made, paths) = (blob.made, &mut state.schedules);
        match plan {
            Ok(plan) => {
                let begins = begins(&blob.content);
                plans::written(world, paths.seen(&lock), (made, plan, begins))
            }
            Err(error) => Some(format!("T3: a plan that cannot be read is written: {error}")),
        }
    } else {
        let (made, record) = (blob.made, record_of(blob));
        too_long(blob)
            .or_else(|| records::written(world, &mut state.schedules, &lock, (made, record)))
    };
    if let Some(what) = wrong {
        let now = world.now();
        state.fail(what, now);
    }
}

/// After what a plan's schedule begins.
fn begins(plan: &str) -> UtcSecond {
    let plan: serde_json::Value = serde_json::from_str(plan).unwrap();
    plan["subscribed"].as_str().unwrap().parse().unwrap()
}

/// T3: what a schedule may take of a record.
fn too_long(blob: &Blob) -> Option<String> {
    let name = |name: &str| name.strip_prefix("x-ms-meta-leasehold_schedule_").map(str::len);
    let sizes = blob.metadata.iter().filter_map(|(key, value)| Some(name(key)? + value.len()));
    // Each name begins with as much again.
    let size: usize = sizes.map(|size| size + "leasehold_schedule_".len()).sum();
    (size > MAX_RECORD_BYTES).then(|| format!("T3: a schedule takes {size} bytes of its record"))
}

/// What the blob of a lock says of its schedule.
pub(super) fn record_of(blob: &Blob) -> Option<ScheduleRecord> {
    let field = |name: &str| blob.metadata.get(&format!("x-ms-meta-{name}")).map(String::as_str);
    ScheduleRecord::from_lookup(field).unwrap()
}
