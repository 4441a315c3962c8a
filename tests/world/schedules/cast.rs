//! Who takes part in a world of schedules, and that nothing is left when they have gone.

use std::time::Duration;

use leasehold::schedule::Definition;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::maintenance;
use super::operators;
use super::runner::Runner;
use super::terms::{self, Terms};
use crate::world::chance::About;
use crate::world::client::Client;
use crate::world::lease::State as LeaseState;
use crate::world::run::{leases, nothing_is_kept};
use crate::world::shared::World;
use crate::world::sidecar::key;

/// The longest that somebody who is told to go takes: the longest pause, and the longest wait for a late
/// completion.
const GOING: Duration = Duration::from_secs(600);
/// A lease goes back within this once everybody has gone, with what is on its way; none is kept between runs
/// (T19).
const UNDER_WAY: Duration = Duration::from_secs(100);

/// Everybody.
pub(super) struct Cast {
    runners: Vec<JoinHandle<()>>,
}

impl Cast {
    pub(super) fn begin(world: &World, over: &watch::Receiver<bool>) -> Self {
        let plan = world.plan();
        let mut random = world.draw(About::Plan, 99);
        let terms = Terms::of(world);
        let (may_change, maintains) = (random.chance(400), random.chance(500));
        let firsts: Vec<Definition> =
            (0..plan.locks).map(|_| terms::definition(&mut random, &terms)).collect();
        let mut runners = Vec::new();
        for index in 0..plan.clients {
            // One in three is elsewhere; the others share a machine with a sidecar.
            let home = (index % 3 != 2).then_some(index % plan.sidecars);
            let client = Client { world: world.clone(), index, home };
            if maintains && index + 1 == plan.clients {
                tokio::spawn(maintenance::live(client));
                continue;
            }
            let lock = index % plan.locks;
            let definition = if may_change && index >= plan.locks && random.chance(400) {
                terms::definition(&mut random, &terms)
            } else {
                firsts[lock].clone()
            };
            let path = world.sidecar(0).path(&key(lock)).to_string();
            let mut state = world.state();
            let known = &mut state.schedules.seen(&path).definitions;
            known.insert(definition.hash(), definition.clone());
            drop(state);
            let changes = may_change && world.scene().is_whole();
            let over = over.clone();
            let runner = Runner { client, lock, definition, is_new: true, changes, over };
            runners.push(tokio::spawn(runner.live()));
        }
        tokio::spawn(operators::operate(world.clone()));
        Self { runners }
    }

    /// They have gone, and nothing of theirs is left.
    pub(super) async fn ends(self, world: &World) {
        let gone = async {
            for runner in self.runners {
                let _ = runner.await;
            }
        };
        if tokio::time::timeout(GOING, gone).await.is_err() {
            return world.fail(format!("T20: a runner has not gone {GOING:?} after it was told"));
        }
        tokio::time::sleep(UNDER_WAY).await;
        nothing_is_kept(world);
        for place in 0..world.plan().sidecars {
            let tasks = world.sidecar(place).scheduler.schedule_figures().len();
            if tasks > 0 {
                world.fail(format!("T17: {place} keeps {tasks} schedules for nobody"));
            }
        }
        for (path, lease) in leases(world) {
            if matches!(lease, LeaseState::Leased | LeaseState::Breaking) {
                world.fail(format!("T19: a lease of {path} is left over"));
            }
        }
    }
}
