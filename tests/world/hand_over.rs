//! A sidecar that ends and is followed by a replacement (S15): what it may tell and send then, and what is
//! left to clients.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::lock::{FencingToken, LockPath};
use leasehold::testing::SeededRandom;

use crate::kit::millis;
use crate::world::checks::Key;
use crate::world::justice::Stream;
use crate::world::losses::lease_of;
use crate::world::planted::Bug;
use crate::world::shared::{State, World};

/// No sidecar takes longer to end.
const LONGEST_END: Duration = Duration::from_secs(60);
/// The longest that a request is waited for (S7).
const CUT_OFF: Duration = Duration::from_secs(5);
/// Timers are as fine as a millisecond, messages have a way to go, and clocks differ by a hundredth at most.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A hand-over that is under way.
#[derive(Clone, Copy, Debug)]
struct Ending {
    since: Duration,
    /// When the sidecar ends at the latest.
    ends: Duration,
}

/// The sidecars that end so, and the holds that they have left to their clients.
#[derive(Debug, Default)]
pub(crate) struct HandOvers {
    endings: BTreeMap<usize, Ending>,
    /// When the service renewed each lease last.
    renewed: BTreeMap<String, Duration>,
    /// Until when the client of a hold that was left to it may believe.
    left: BTreeMap<Key, Duration>,
}

impl HandOvers {
    /// Whether this sidecar ends, and is followed by another.
    pub(crate) fn is_ending(&self, sidecar: usize) -> bool {
        self.endings.contains_key(&sidecar)
    }

    pub(crate) fn is_over(&mut self, sidecar: usize) {
        self.endings.remove(&sidecar);
    }

    pub(crate) fn renewed(&mut self, id: &str, now: Duration) {
        self.renewed.insert(id.to_owned(), now);
    }

    /// Whether this hold was left to a client that may still believe in it.
    pub(crate) fn is_left(&self, key: &Key, now: Duration) -> bool {
        self.left.get(key).is_some_and(|until| now < *until)
    }

    /// A hold has gone on: whether that was after a hand-over.
    pub(crate) fn resumed(&mut self, key: &Key) -> bool {
        self.left.remove(key).is_some()
    }
}

/// The sidecar leaves its holds to its replacement, which comes as soon as it has ended, or a little later;
/// or it is killed before.
pub(crate) fn begin(world: &World, place: usize, random: &mut SeededRandom) {
    let (sidecar, period) = (world.sidecar(place), millis(random, 0, 20_000));
    let down = if random.chance(500) { millis(random, 0, 6_000) } else { Duration::ZERO };
    let killed_after = random.chance(200).then(|| millis(random, 0, 3_000));
    let (now, world) = (world.now(), world.clone());
    {
        let mut state = world.state();
        state.draining[place] = true;
        state.hand_overs.endings.insert(place, Ending { since: now, ends: now + period });
    }
    tokio::spawn(async move {
        let ends = async {
            match world.has(Bug::HandOverDrains) {
                true => sidecar.coordinator.drain(period).await,
                false => sidecar.coordinator.hand_over(period).await,
            }
        };
        let _ = tokio::time::timeout(killed_after.unwrap_or(LONGEST_END), ends).await;
        if sidecar.is_alive() {
            sidecar.die();
            tokio::time::sleep(down).await;
            world.replace_if(place, sidecar.life);
        }
    });
}

/// A holder is told to come again at the replacement.
pub(crate) fn interrupted(
    state: &mut State,
    stream: Stream<'_>,
    (token, until): (u64, Duration),
    now: Duration,
) -> Option<String> {
    let (sidecar, _) = stream.sidecar;
    let Some(ending) = state.hand_overs.endings.get(&sidecar).copied() else {
        return Some(format!("S15: {token} is told to come again, and {sidecar} is not replaced"));
    };
    state.story.count("told: interrupted");
    let key = (stream.path.clone(), token);
    // Whoever has ended it, or gone elsewhere with it, does not come back.
    if state.released.contains(&key) || state.checks.is_left(&key, stream.number) {
        return None;
    }
    let until = state.checks.told_until(&key, until);
    state.hand_overs.left.insert(key, until);
    let given = lease_of(state, stream.path, token)?;
    let sixth = given.lasts / 6;
    // A try that was under way, and not cut off yet, is as good as another.
    let renewed = state.hand_overs.renewed.get(&given.id);
    let once_more = renewed.is_some_and(|at| *at + sixth.min(CUT_OFF) >= ending.since);
    let waited = now + TICK >= ending.ends.min(ending.since + sixth);
    let wrong = stream.wants.renews && !once_more && !waited;
    wrong.then(|| format!("S15: {token} is left by {sidecar} without another renewal"))
}

/// S13, S15: what a client believes in is not released. A release that names an earlier version, as of a hold
/// that has gone on elsewhere since, releases nothing (S16).
pub(crate) fn releases(
    state: &State,
    sidecar: usize,
    (blob, id): (&str, &str),
    condition: Option<&str>,
    now: Duration,
) -> Option<String> {
    let is_stale = condition.is_some_and(|version| !state.service.has_version(blob, version));
    if is_stale || !state.hand_overs.is_ending(sidecar) {
        return None;
    }
    let epoch = state.service.given(blob, id)?.token?;
    let epoch = FencingToken::from_u64(epoch).map(FencingToken::epoch);
    let is_its = |path: &LockPath, token: u64| {
        path.as_str() == blob && FencingToken::from_u64(token).map(FencingToken::epoch) == epoch
    };
    let client = state.checks.believer(is_its, now)?;
    Some(format!("S15: {sidecar} releases {id}, in which client {client} believes"))
}
