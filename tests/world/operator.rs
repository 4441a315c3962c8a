//! An operator, who breaks locks through a sidecar (S17).

use std::time::Duration;

use leasehold::coordinator::{BreakRequest, BreakResult, CallError, LockSelector};
use leasehold::lock::Permit;
use leasehold::store::BreakPeriod;
use leasehold::testing::SeededRandom;

use crate::kit::millis;
use crate::world::cost::Cause;
use crate::world::lease::State;
use crate::world::shared::{self, World};
use crate::world::sidecar::{Sidecar, key};

/// For what may happen is waited no longer than this.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(250);

async fn wait_for(world: &World, mut what: impl FnMut(&shared::State, Duration) -> bool) {
    let latest = world.now() + PATIENCE;
    while world.now() < latest && !what(&world.state(), world.now()) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Breaks a lock that somebody has, by letting it run out or at once, and says why; one that runs out is
/// broken at once a little after its holder was told, at times (S22).
pub(crate) async fn breaks(world: World, mut random: SeededRandom) {
    let number = |random: &mut SeededRandom, below: usize| {
        usize::try_from(random.below(below as u64)).unwrap()
    };
    let sidecar = world.sidecar(number(&mut random, world.plan().sidecars));
    let lock = number(&mut random, world.plan().locks);
    tokio::time::sleep(millis(&mut random, 0, 9_000)).await;
    let path = sidecar.path(&key(lock));
    wait_for(&world, |state, now| {
        state.service.blob(path.as_str()).is_some_and(|blob| blob.lease.state(now) == State::Leased)
    })
    .await;
    let period = if random.chance(700) { BreakPeriod::RunOut } else { BreakPeriod::Now };
    let told = world.state().checks.revoked.len();
    break_once(&world, &sidecar, (lock, period), &mut random).await;
    if period == BreakPeriod::RunOut && random.chance(500) {
        wait_for(&world, |state, _| state.checks.revoked.len() > told).await;
        tokio::time::sleep(millis(&mut random, 0, 3_000)).await;
        break_once(&world, &sidecar, (lock, BreakPeriod::Now), &mut random).await;
    }
}

async fn break_once(
    world: &World,
    sidecar: &Sidecar,
    (lock, period): (usize, BreakPeriod),
    random: &mut SeededRandom,
) {
    let path = sidecar.path(&key(lock));
    // Every break has its own reason, in characters that need no encoding.
    let reason = format!("reason-{}", random.below(1 << 40));
    let selector = LockSelector::Key(key(lock), Permit::FIRST);
    // S17: who breaks names what was shown, and may take long to decide.
    let token = if random.chance(600) {
        sidecar.calls_for(&path, Cause::Break);
        let shown = tokio::select! {
            biased;
            () = sidecar.dead() => return,
            shown = sidecar.coordinator.get(&selector) => shown,
        };
        let Ok(shown) = shown else { return };
        tokio::time::sleep(millis(random, 0, 6_000)).await;
        shown.record.token
    } else {
        None
    };
    let request = BreakRequest {
        lock: selector,
        token,
        period,
        reason: reason.clone(),
        by: Some("operator".to_owned()),
        caller: "operator".to_owned(),
    };
    sidecar.calls_for(&path, Cause::Break);
    let before = world.now();
    let breaking = async {
        let answer = sidecar.coordinator.break_lock(request).await;
        if let Err(CallError::OtherHolder { .. }) = answer {
            world.state().story.count("acted: BreakHere, and another has it");
        }
        if let Ok(BreakResult::Broken | BreakResult::Breaking { .. }) = answer {
            let mut state = world.state();
            state.story.count("acted: BreakHere");
            let note = state.service.note(path.as_str());
            // Unless somebody else has broken it, or deleted everything, meanwhile.
            let alone = state.last_break == before && !state.deleted;
            state.story.note(world.now(), || format!("            broke {path}: {note:?}"));
            drop(state);
            if alone && note.is_none_or(|(noted, _)| noted != reason) {
                world.fail(format!("S17: {path} is broken, and nobody can read why: {reason}"));
            }
        }
    };
    world.state().last_break = before;
    tokio::select! {
        biased;
        () = sidecar.dead() => {}
        () = breaking => {}
    }
}
