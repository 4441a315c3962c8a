//! Schedules that are removed, reset, and begun anew (T25).

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::schedule::{Occasion, Plan, ScheduleRecord};
use leasehold::timetable::UtcSecond;

use super::judge::{Seen, latest};
use super::records::APART;
use crate::world::link::LATEST;
use crate::world::shared::World;
use crate::world::trouble::SLOWEST;

/// A start may have read the plan so long before it is written, and a subscription may take so long to write
/// its own.
const UNDER_WAY: Duration = Duration::from_secs(LATEST.as_secs() + SLOWEST.as_secs());

/// A reset that somebody has asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reset {
    pub(super) asked: UtcSecond,
    pub(super) watermark: Option<UtcSecond>,
    pub(super) revision: Option<u64>,
}

/// What operators have asked for, and what was stored of it.
#[derive(Debug, Default)]
pub(super) struct Interventions {
    pub(super) removals_asked: u32,
    removals_stored: u32,
    pub(super) resets_asked: Vec<Reset>,
    resets_stored: usize,
    /// When somebody came last who is no reconnect, by the hash of its definition.
    pub(super) came: BTreeMap<String, Duration>,
    /// Where the schedule begins under each reset number.
    pub(super) begins: BTreeMap<u64, UtcSecond>,
    /// When the plan was last removed or reset, or begun after a removal.
    pub(super) at: Duration,
}

impl Interventions {
    /// Whether a start that is written now cannot have read the plan before it was last removed or reset.
    fn is_known(&self, now: Duration) -> bool {
        now > self.at + UNDER_WAY
    }
}

/// Whether one of these two plans is of another schedule than the other, as far as T25 goes.
pub(super) fn differ(before: &Plan, after: &Plan) -> bool {
    (before.reset(), before.removed()) != (after.reset(), after.removed())
}

/// A plan was written that is removed or reset, or begins after a removal.
pub(super) fn intervened(
    world: &World,
    seen: &mut Seen,
    (before, after): (&Plan, &Plan),
    begins: UtcSecond,
) -> Option<String> {
    let now = world.now();
    let since = seen.anew.at;
    seen.anew.at = now;
    seen.anew.begins.insert(after.reset(), begins);
    let is_next = after.reset() == before.reset() + 1;
    let wrong = if after.reset() < before.reset() {
        Some("the reset number goes back")
    } else if after.removed().is_some() {
        // What waits goes with the schedule.
        seen.gone.extend(before.requests().iter().map(|request| request.request_id.clone()));
        seen.anew.removals_stored += 1;
        let is_asked = seen.anew.removals_stored <= seen.anew.removals_asked;
        (!is_asked || !is_next).then_some("nobody has asked for that removal")
    } else if before.removed().is_some() {
        seen.forget_pauses(false);
        let came = seen.anew.came.get(after.hash());
        let is_new = came.is_some_and(|came| since <= *came + UNDER_WAY);
        (!is_new).then_some("a removed schedule begins again, and nobody new has come")
    } else {
        seen.forget_pauses(true);
        seen.anew.resets_stored += 1;
        let is_asked = seen.anew.resets_stored <= seen.anew.resets_asked.len();
        let is_it = |reset: &Reset| is_reset(world, reset, (before, after), begins);
        let is_it = is_next && seen.anew.resets_asked.iter().any(is_it);
        (!is_asked || !is_it).then_some("nobody has asked for that reset")
    };
    let wrong = wrong.filter(|_| !seen.was_lost)?;
    Some(format!("T25: {wrong}: {before:?} becomes {after:?}"))
}

fn is_reset(
    world: &World,
    reset: &Reset,
    (before, after): (&Plan, &Plan),
    begins: UtcSecond,
) -> bool {
    let revision = reset.revision.unwrap_or_else(|| before.definition().revision);
    let is_begin = match reset.watermark {
        Some(watermark) => begins == watermark,
        None => reset.asked.0 - APART <= begins.0 && begins <= latest(world),
    };
    is_begin && after.definition().revision == revision && after.version() == before.version()
}

/// A record is written that has taken in another reset: it begins where the plan says. None if it has taken
/// in none.
pub(super) fn taken_in(
    seen: &mut Seen,
    before: Option<&ScheduleRecord>,
    after: &ScheduleRecord,
) -> Option<String> {
    let (old, new) = (before.map_or(0, |before| before.reset), after.reset);
    let known = seen.plan.as_ref().map_or(0, Plan::reset);
    if old == new {
        return None;
    }
    // What was final before may run again.
    seen.is_final.retain(|occasion, _| matches!(occasion, Occasion::ByHand { .. }));
    let wrong = if new < old {
        Some("goes back")
    } else if new > known {
        Some("is of no plan")
    } else {
        None
    };
    let wrong = wrong.filter(|_| !seen.was_lost)?;
    Some(format!(
        "T25: the reset number {new} after {old} {wrong}, the plan has {known}: {after:?}"
    ))
}

/// A run was begun: not of a schedule that was removed, nor of one as it was before its reset.
pub(super) fn began(world: &World, seen: &Seen, after: &ScheduleRecord) -> Option<String> {
    let plan = seen.plan.as_ref().filter(|_| !seen.was_lost && seen.anew.is_known(world.now()))?;
    let is_old = after.reset < plan.reset() || plan.removed().is_some();
    is_old.then(|| {
        format!(
            "T25: a run begins since {:?} as if nothing were: {plan:?}, {after:?}",
            seen.anew.at
        )
    })
}
