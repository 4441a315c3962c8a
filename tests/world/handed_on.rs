//! Holds that were handed on: they are in the record once they have lasted (S10).

use std::time::Duration;

use leasehold::coordinator::Grant;
use leasehold::lock::{FencingToken, LockPath};
use leasehold::record::Record;

use crate::world::justice::{Told, UNDER_WAY};
use crate::world::lease::State as LeaseState;
use crate::world::losses::lease_of;
use crate::world::shared::{State, World};
use crate::world::sidecar::{SECOND, Sidecar};

/// The second after which a hold is written, the next turn of a record write, a renewal that goes before, and
/// the way there.
const WRITTEN_AFTER: Duration = Duration::from_secs(5);

/// The token in the record of this lock, if its lease is the one that `token` was granted under.
fn recorded(state: &State, path: &LockPath, token: u64, now: Duration) -> Option<FencingToken> {
    let given = lease_of(state, path, token)?;
    let blob = state.service.blob(&given.blob)?;
    let stands = blob.lease.id() == Some(&*given.id) && blob.lease.state(now) == LeaseState::Leased;
    let field = |name: &str| blob.metadata.get(&format!("x-ms-meta-{name}")).map(String::as_str);
    Record::from_lookup(field).token.filter(|_| stands)
}

/// Looks at the record once a hold that was handed on has lasted.
pub(crate) fn watch(
    world: &World,
    sidecar: &Sidecar,
    number: u64,
    (path, grant): (&LockPath, &Grant),
) {
    let token = grant.token;
    if token.hand_offs() == 0 {
        return;
    }
    let (world, sidecar, path) = (world.clone(), sidecar.clone(), path.clone());
    tokio::spawn(async move {
        let since = world.now();
        tokio::time::sleep(WRITTEN_AFTER).await;
        let (mut state, now) = (world.state(), world.now());
        let held = matches!(state.checks.told.get(&number), Some(Told::Held { .. }));
        let disturbed = state.disturbed[sidecar.index].is_some_and(|at| at + UNDER_WAY > since);
        let refused = state.service.policy.is_some_and(|(until, _)| until + SECOND * 5 > since);
        let gone = !sidecar.is_alive() || state.draining[sidecar.index];
        if !held || disturbed || refused || gone {
            return;
        }
        let Some(stored) = recorded(&state, &path, token.value(), now) else { return };
        state.story.count("handed on: in the record");
        drop(state);
        if stored.epoch() == token.epoch() && stored < token {
            world.fail(format!(
                "S10: {token} was handed on {WRITTEN_AFTER:?} ago, and the record is of {stored}"
            ));
        }
    });
}
