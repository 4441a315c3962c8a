//! A store that is far away: each request takes 300 ms, and nothing is lost (S17, S33).

use std::time::Duration;

use leasehold::coordinator::{Grant, HeldEvent, HoldEvent, HoldRequest, HoldStream};
use leasehold::lock::Layout;
use leasehold::record::{CheckpointValue, Priority, Sharing};

use crate::world::chance::Chance;
use crate::world::lease::State;
use crate::world::plan::{Plan, Weather};
use crate::world::run::waiting;
use crate::world::scene::Scene;
use crate::world::shared::World;
use crate::world::sidecar::{SECOND, key};
use crate::world::story::Story;

/// Two sidecars of 60 s, each request of which takes 200 to 400 ms.
fn far_away() -> World {
    let chance = Chance::new(1, None);
    let plan = Plan {
        sidecars: 2,
        clients: 0,
        weather: Weather::default(),
        troubles: 0,
        hand_overs: 0,
        client_faults: 0,
        rates: vec![0; 2],
        lease: 60,
        max_holds: 1_000,
        layout: Layout::Readable,
        distance: 100,
        ..Plan::draw(&chance)
    };
    World::planned(plan, chance, Scene::Holds(None), Story::default())
}

fn of(priority: u32) -> HoldRequest {
    let priority = Priority::new(priority).unwrap();
    let sharing = Sharing { priority, yields: true, ..Sharing::default() };
    HoldRequest { sharing, ..waiting(0) }
}

async fn granted(stream: &mut HoldStream) -> Grant {
    loop {
        if let HoldEvent::Granted(grant) = stream.next().await.unwrap() {
            return *grant;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s33_a_holder_that_saves_each_second_is_revoked_over_a_slow_store() {
    let world = far_away();
    let (here, there) = (world.sidecar(0), world.sidecar(1));
    let path = here.path(&key(0));
    let mut holder = here.coordinator.hold(&of(1)).unwrap();
    let grant = granted(&mut holder).await;
    let saves = tokio::spawn({
        let coordinator = here.coordinator.clone();
        async move {
            for row in 0_u32.. {
                let value = CheckpointValue::new(row.to_string().as_bytes()).unwrap();
                let next = tokio::time::sleep(SECOND);
                let _ = coordinator.save(grant.lease_id, Some(grant.generation), value).await;
                next.await;
            }
        }
    });
    let _rival = there.coordinator.hold(&of(2)).unwrap();
    tokio::time::sleep(world.lease()).await;
    let due = world.now();
    let is_broken = || {
        let state = world.state();
        let blob = state.service.blob(path.as_str());
        blob.is_some_and(|blob| blob.lease.state(world.now()) == State::Breaking)
    };
    assert!(!is_broken(), "a caller that waits for D only");
    while !is_broken() {
        let waited = world.now() - due;
        assert!(waited < Duration::from_secs(10), "it is not broken after {waited:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let told = tokio::time::timeout(world.lease() / 3 + 5 * SECOND, async {
        loop {
            let event = holder.next().await.unwrap();
            if let HoldEvent::Held(HeldEvent::Revoked { break_note: Some(note), .. }) = event {
                return note;
            }
        }
    });
    let note = told.await.unwrap();
    assert_eq!(note.for_priority.map(Priority::get), Some(2));
    assert_eq!(note.token, Some(grant.token));
    saves.abort();
}
