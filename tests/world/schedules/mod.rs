//! Worlds with schedules: runners that subscribe at real coordinators, run occurrences and say how they
//! ended, on the same service, network and clocks as the worlds of holds. What is written is judged as the
//! service takes it (`judge`, `records`, `plans`); what is told and answered, before it is on its way
//! (`telling`).

mod anew;
mod bugs;
mod cast;
mod ending;
mod hanging;
mod judge;
mod maintenance;
mod operators;
mod order;
mod plans;
mod planted;
mod records;
mod runner;
mod stream;
mod telling;
mod terms;

use std::time::Duration;

use tokio::sync::watch;

use crate::world::link::LATEST;
use crate::world::run::has_failed;
use crate::world::shared::World;
use crate::world::sidecar::SECOND;
use crate::world::trouble;
use cast::Cast;

pub(crate) use bugs::Bug;
pub(crate) use judge::{Judge, arrived};
pub(crate) use planted::{PlantedSchedules, without_condition};

/// What must occur in a run of many worlds, or it proves less than it seems to.
pub(crate) const MUST_OCCUR: &[&str] = &[
    "schedules: completion refused",
    "schedules: ended ABANDONED",
    "schedules: ended FAILED",
    "schedules: ended FAILED_FINAL",
    "schedules: ended RETURNED",
    "schedules: ended SUCCEEDED",
    "schedules: ended SUCCEEDED, tried again",
    "schedules: ended TIMED_OUT",
    "schedules: changed by a deployment",
    "schedules: changed by PAUSE",
    "schedules: changed by REMOVE",
    "schedules: changed by RESET",
    "schedules: changed by RESUME",
    "schedules: changed by TRIGGER",
    "schedules: began anew",
    "schedules: hung",
    "schedules: hung to the end",
    "schedules: hung, and spoke",
    "schedules: maintenance",
    "schedules: missed",
    "schedules: recorded",
    "schedules: recorded late",
    "schedules: resumed",
    "schedules: superseded",
    "schedules: frozen",
    "schedules: told at risk",
    "schedules: told definition",
    "schedules: told draining",
    "schedules: told lost expired",
    "schedules: told lost lock_deleted",
    "schedules: told lost max_hold_reached",
    "schedules: told lost no_progress",
    "schedules: told removed",
    "schedules: told run at once",
];

/// Runs a world of schedules to its end; how long it took them to go on once nothing stood against them.
pub(crate) async fn play(world: &World) -> Duration {
    let (over, is_over) = watch::channel(false);
    let cast = Cast::begin(world, &is_over);
    let troubles = tokio::spawn(trouble::happen(world.clone()));
    while world.now() < world.plan().length && !has_failed(world) {
        tokio::time::sleep(SECOND).await;
    }
    trouble::calm_down(world);
    let _ = troubles.await;
    // What was sent before may come late.
    tokio::time::sleep(LATEST + trouble::SLOWEST).await;
    if has_failed(world) {
        return Duration::ZERO;
    }
    operators::resume_all(world).await;
    let waited = order::restored(world).await;
    if !has_failed(world) {
        order::kept(world).await;
    }
    over.send_replace(true);
    if !has_failed(world) {
        cast.ends(world).await;
    }
    waited
}

#[test]
#[ignore = "replays a seed"]
fn replay() {
    crate::kit::replay(crate::world::scene::Schedules);
}
