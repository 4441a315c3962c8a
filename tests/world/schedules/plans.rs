//! What a write of a plan may change (T3, T16, T18); `anew` has what removals and resets may (T25).

use std::time::Duration;

use leasehold::schedule::Plan;
use leasehold::timetable::UtcSecond;

use super::anew;
use super::judge::{Seen, earliest, latest};
use crate::world::shared::World;

/// A plan was written, and this is what it says now.
pub(super) fn written(
    world: &World,
    seen: &mut Seen,
    (made, after, begins): (Duration, Plan, UtcSecond),
) -> Option<String> {
    seen.firsts.extend(after.first());
    if seen.plan_made != Some(made) {
        seen.was_lost |= seen.plan_made.is_some();
        // Whether it is paused is what this one says.
        seen.pauses.clear();
        seen.plan_made = Some(made);
        seen.plan = None;
        seen.anew.begins.insert(after.reset(), begins);
        seen.anew.at = world.now();
    }
    let before = seen.plan.replace(after.clone());
    if let (Some(before), Some((due, missed))) = (&before, after.due())
        && before.due() != after.due()
    {
        seen.dues.insert((due, missed, before.version().hash));
    }
    if let Some(before) = before.as_ref().filter(|before| anew::differ(before, &after)) {
        return anew::intervened(world, seen, (before, &after), begins);
    }
    let was_paused = before.as_ref().is_some_and(Plan::is_paused);
    if was_paused != after.is_paused() {
        seen.stored[usize::from(was_paused)] += 1;
        match seen.pauses.last_mut() {
            Some((_, to)) if was_paused => *to = Some(earliest(world)),
            Some(_) | None => seen.pauses.push((latest(world), None)),
        }
    }
    // The plan of a container that went is written again as somebody knew it.
    let before = before?;
    let is_lost = |what: &str| Some(format!("T3: {what}: {before:?} becomes {after:?}"));
    if (0..2).any(|which| seen.stored[which] > seen.asked[which]) && !seen.was_lost {
        return is_lost("a pause or a resume that nobody asked for");
    }
    let done = seen.record.as_ref().map_or(0, |record| record.by_hand_done);
    let waits = before.requests().iter().filter(|request| request.number > done);
    let mut lost = waits.filter(|request| !after.requests().contains(request));
    if lost.next().is_some() {
        return is_lost("a request for a run by hand is lost");
    }
    let (old, new) = (before.version(), after.version());
    if new.number < old.number || new.number == old.number && new.hash != old.hash {
        return is_lost("a definition is lost");
    }
    let revision = |plan: &Plan| plan.definition().revision;
    if revision(&after) < revision(&before) {
        return Some(format!("T16: revision {} replaces {}", revision(&after), revision(&before)));
    }
    None
}
