//! People who pause and resume schedules, and run them by hand (T18).

use leasehold::coordinator::{LockSelector, ScheduleChange};
use leasehold::lock::Permit;

use crate::world::chance::{About, millis};
use crate::world::cost::Cause;
use crate::world::shared::World;
use crate::world::sidecar::{SECOND, key};

/// They are no client of any number.
const OPERATOR: usize = 60;

/// Does this and that until the trouble is over.
pub(super) async fn operate(world: World) {
    let may_pause = world.draw(About::Plan, 98).chance(600);
    let mut number = 0;
    while world.now() < world.plan().length {
        let mut random = world.draw(About::Act, OPERATOR);
        tokio::time::sleep(millis(&mut random, 1_000, 60_000)).await;
        let mut below = |most: usize| usize::try_from(random.below(most as u64)).unwrap();
        let (place, lock) = (below(world.plan().sidecars), below(world.plan().locks));
        let change = match below(4) {
            0 if may_pause => ScheduleChange::Pause,
            1 => ScheduleChange::Resume,
            _ => {
                number += 1;
                ScheduleChange::Trigger { request_id: format!("ticket-{number}") }
            }
        };
        ask(&world, (place, lock), &change).await;
    }
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
    {
        let mut state = world.state();
        let asked = &mut state.schedules.seen(path.as_str()).asked;
        match change {
            ScheduleChange::Pause => asked[0] += 1,
            ScheduleChange::Resume => asked[1] += 1,
            ScheduleChange::Trigger { .. }
            | ScheduleChange::Remove { .. }
            | ScheduleChange::Reset { .. } => {}
        }
    }
    let selector = LockSelector::Key(key(lock), Permit::FIRST);
    let work = async {
        let answer = sidecar.coordinator.change_schedule(&selector, change.clone(), "").await;
        let mut state = world.state();
        state.story.note(world.now(), || format!("            {change:?} of {path}: {answer:?}"));
        if answer.is_ok() {
            state.schedules.count(&format!("changed by {}", change.as_str().to_uppercase()));
            if let ScheduleChange::Trigger { request_id } = change {
                state.schedules.seen(path.as_str()).by_hand.insert(request_id.clone());
            }
        }
        answer.is_ok()
    };
    sidecar.call_surely(OPERATOR, work).await.unwrap_or(false)
}
