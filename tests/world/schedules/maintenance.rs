//! Somebody who holds the lock of a schedule without it: no run goes on meanwhile (T19).

use leasehold::coordinator::{Grant, HoldRequest, Outcome};
use leasehold::testing::SeededRandom;

use crate::kit::millis;
use crate::world::chance::About;
use crate::world::client::{Client, Holding, PATIENCE};
use crate::world::cost::Cause;
use crate::world::run::waiting;
use crate::world::sidecar::{MAX_HOLD, SECOND};

/// Comes and goes until the trouble is over.
pub(super) async fn live(client: Client) {
    while client.world.now() < client.world.plan().length {
        let mut random = client.world.draw(About::Act, client.index);
        tokio::time::sleep(millis(&mut random, 1_000, 60_000)).await;
        hold(&client, &mut random).await;
    }
}

async fn hold(client: &Client, random: &mut SeededRandom) {
    let (world, sidecar) = (&client.world, client.pick(random));
    let lock = usize::try_from(random.below(world.plan().locks as u64)).unwrap();
    let wait = millis(random, 0, 30_000);
    let request = HoldRequest { wait, max_hold: Some(MAX_HOLD), ..waiting(lock) };
    let asked = world.now();
    let path = sidecar.path(&request.key);
    sidecar.calls_for(&path, Cause::Caller);
    let work = async {
        let outcome = sidecar.coordinator.acquire(request).await;
        let Ok(Outcome::Granted(grant)) = outcome else { return None };
        granted(client, &grant);
        Some(grant)
    };
    let answer = tokio::time::timeout(PATIENCE * 3, sidecar.call(client.index, work)).await;
    let Ok(Some(Some(grant))) = answer else { return };
    let mut holding = client.holding(&sidecar, None, &grant);
    client.believe(&mut holding, &grant.validity, asked);
    keep(client, &mut holding, random).await;
    client.believes_no_more(&holding);
    let release = sidecar.coordinator.release(holding.lease_id, Some(holding.generation));
    let _ = tokio::time::timeout(PATIENCE * 3, sidecar.call(client.index, release)).await;
}

/// S5 is for everybody.
fn granted(client: &Client, grant: &Grant) {
    let (world, path) = (&client.world, &grant.path);
    let now = world.now();
    let mut state = world.state();
    state.schedules.count("maintenance");
    let made = state.service.blob(path.as_str()).map(|blob| blob.made);
    let wrong = state.checks.granted(path, grant.token.value(), (now, made));
    drop(state);
    client.note(|| format!("maintains with {}", grant.token));
    world.fail_if(wrong);
}

/// As long as it likes, and believes.
async fn keep(client: &Client, holding: &mut Holding, random: &mut SeededRandom) {
    let ends = client.world.now() + millis(random, 0, 25_000);
    while client.world.now() < ends {
        let fresh = holding.fresh;
        if client.believes(holding).is_none() && !(fresh && client.ask(holding, None).await) {
            return;
        }
        client.world.state().checks.write(&holding.path, holding.token);
        tokio::time::sleep(SECOND).await;
    }
}
