//! People who pause and resume schedules, run them by hand (T18), remove and reset them (T25).

use leasehold::coordinator::{CallError, LockSelector};
use leasehold::lock::Permit;
use leasehold::scheduler::ScheduleChange;
use leasehold::testing::SeededRandom;
use leasehold::timetable::UtcSecond;

use super::anew::Reset;
use super::judge::earliest;
use crate::kit::millis;
use crate::world::chance::About;
use crate::world::cost::Cause;
use crate::world::shared::World;
use crate::world::sidecar::{SECOND, key};

/// They are no client of any number.
const OPERATOR: usize = 60;
/// How far a reset goes back at the most, in seconds.
const LONGEST_AGO: u64 = 300;

/// Does this and that until the trouble is over.
pub(super) async fn operate(world: World) {
    let may_pause = world.draw(About::Plan, 98).chance(600);
    let intervenes = world.scene().is_whole() && world.draw(About::Plan, 97).chance(500);
    let kinds = if intervenes { 6 } else { 4 };
    let mut number = 0;
    while world.now() < world.plan().length {
        let mut random = world.draw(About::Act, OPERATOR);
        tokio::time::sleep(millis(&mut random, 1_000, 60_000)).await;
        let mut below = |most: usize| usize::try_from(random.below(most as u64)).unwrap();
        let (place, lock) = (below(world.plan().sidecars), below(world.plan().locks));
        let change = match below(kinds) {
            0 if may_pause => ScheduleChange::Pause,
            1 => ScheduleChange::Resume,
            4 => {
                let force = random.chance(700);
                ScheduleChange::Remove { reason: "moved".to_owned(), force }
            }
            5 => reset(&world, &mut random),
            _ => {
                number += 1;
                ScheduleChange::Trigger { request_id: format!("ticket-{number}") }
            }
        };
        ask(&world, (place, lock), &change).await;
    }
}

/// A reset, to some time ago or to now.
fn reset(world: &World, random: &mut SeededRandom) -> ScheduleChange {
    let ago = random.below(LONGEST_AGO);
    let watermark = random.chance(600).then(|| UtcSecond(earliest(world).0 - ago.cast_signed()));
    let revision = random.chance(400).then(|| random.below(3));
    ScheduleChange::Reset { reason: "the clock was wrong".to_owned(), watermark, revision }
}

/// What was paused goes on.
pub(super) async fn resume_all(world: &World) {
    for lock in 0..world.plan().locks {
        let mut tries = 0;
        while !ask(world, (0, lock), &ScheduleChange::Resume).await {
            tries += 1;
            if tries > 60 {
                return world.fail(format!("T18: lock {lock} cannot be resumed"));
            }
            tokio::time::sleep(SECOND).await;
        }
    }
}

/// Asks for a change; whether it was answered as made.
async fn ask(world: &World, (place, lock): (usize, usize), change: &ScheduleChange) -> bool {
    let sidecar = world.sidecar(place);
    let path = sidecar.path(&key(lock));
    sidecar.calls_for(&path, Cause::Caller);
    let place = (sidecar.index, sidecar.life);
    let before = {
        let mut state = world.state();
        let seen = state.schedules.seen(path.as_str());
        match *change {
            ScheduleChange::Pause => seen.asked[0] += 1,
            ScheduleChange::Resume => seen.asked[1] += 1,
            ScheduleChange::Trigger { .. } => {}
            ScheduleChange::Remove { .. } => seen.anew.removals_asked += 1,
            ScheduleChange::Reset { watermark, revision, .. } => {
                let reset = Reset { asked: earliest(world), watermark, revision };
                seen.anew.resets_asked.push(reset);
            }
        }
        seen.present.get(&place).cloned().unwrap_or_default()
    };
    let selector = LockSelector::Key(key(lock), Permit::FIRST);
    let work = async {
        let answer = sidecar.scheduler.change_schedule(&selector, change.clone(), "").await;
        let mut state = world.state();
        state.story.note(world.now(), || format!("            {change:?} of {path}: {answer:?}"));
        if answer.is_ok() {
            state.schedules.count(&format!("changed by {}", change.as_str().to_uppercase()));
            let seen = state.schedules.seen(path.as_str());
            match change {
                ScheduleChange::Trigger { request_id } => {
                    seen.by_hand.insert(request_id.clone());
                }
                ScheduleChange::Remove { force: false, .. } => {
                    let there = seen.present.get(&place).cloned().unwrap_or_default();
                    let stayed: Vec<_> = before.intersection(&there).collect();
                    if !stayed.is_empty() {
                        let now = world.now();
                        let what = format!("T25: {path} is removed under {stayed:?}");
                        state.fail(what, now);
                    }
                }
                ScheduleChange::Pause
                | ScheduleChange::Resume
                | ScheduleChange::Remove { .. }
                | ScheduleChange::Reset { .. } => {}
            }
        }
        // What is no more is not paused either, and its plan may have been deleted since.
        let is_gone = matches!(
            answer,
            Err(CallError::ScheduleRemoved { .. } | CallError::NoSuchSchedule { .. })
        );
        answer.is_ok() || is_gone && *change == ScheduleChange::Resume
    };
    sidecar.call_surely(OPERATOR, work).await.unwrap_or(false)
}
