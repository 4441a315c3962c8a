//! What happens to sidecars and to the service while clients go about their business.

use std::sync::OnceLock;
use std::time::Duration;

use leasehold::lock::Layout;
use leasehold::testing::SeededRandom;

use crate::kit::{Listed as _, listed, millis, one_of, variable};
use crate::world::chance::About;
use crate::world::hand_over;
use crate::world::scene::Holds;
use crate::world::shared::{State, World};
use crate::world::sidecar::{SECOND, key};

listed! {
    pub(crate) enum Kind {
        CutOff,
        Crash,
        Drain,
        WallStep,
        Throttled,
        Denied,
        Rotation,
        Policy,
        ContainerDeleted,
        LockDeleted,
        Break,
        BreakNow,
        BreakHere,
        /// A host of WebJobs takes a lock.
        Stranger,
        /// A sidecar is told to end, and a replacement follows (S15).
        HandOver,
    }
}

impl Kind {
    const fn is_of_one_sidecar(self) -> bool {
        match self {
            Self::CutOff | Self::Crash | Self::Drain | Self::WallStep | Self::HandOver => true,
            Self::Throttled
            | Self::Denied
            | Self::Rotation
            | Self::Policy
            | Self::ContainerDeleted
            | Self::LockDeleted
            | Self::Break
            | Self::BreakNow
            | Self::BreakHere
            | Self::Stranger => false,
        }
    }
}

/// Whether the run was told to leave this out.
pub(crate) fn is_left_out(what: &str) -> bool {
    static LEFT_OUT: OnceLock<String> = OnceLock::new();
    let left_out = LEFT_OUT.get_or_init(|| variable::<Holds>("WITHOUT").unwrap_or_default());
    left_out.split(',').any(|name| name == what)
}

/// How often chance is asked.
const STEP: Duration = Duration::from_secs(10);

/// Lets things happen until the schedule's length is over.
pub(crate) async fn happen(world: World) {
    let plan = world.plan().clone();
    while world.now() < plan.length {
        tokio::time::sleep(STEP).await;
        for kind in Kind::ALL.iter().copied() {
            if is_left_out(&format!("{kind:?}")) {
                continue;
            }
            let places = if kind.is_of_one_sidecar() { plan.sidecars } else { 1 };
            for place in 0..places {
                let whose = kind as usize * 8 + place;
                let rate = if kind == Kind::HandOver { plan.hand_overs } else { plan.troubles };
                if let Some(random) = world.fault(About::Trouble, whose, rate) {
                    let now = world.now();
                    {
                        let mut state = world.state();
                        state.story.note(now, || format!("!           {kind:?} ({place})"));
                        state.story.count(format!("! {kind:?}"));
                    }
                    happens(&world, kind, place, random);
                }
            }
        }
    }
}

fn happens(world: &World, kind: Kind, place: usize, mut random: SeededRandom) {
    let now = world.now();
    let random = &mut random;
    match kind {
        Kind::CutOff => {
            let until = now + millis(random, 1_000, 40_000);
            let mut state = world.state();
            state.cut_off[place] = until;
            state.disturb(place, until);
        }
        Kind::Crash => {
            let down = millis(random, 0, 15_000);
            let world = world.clone();
            world.sidecar(place).die();
            tokio::spawn(async move {
                tokio::time::sleep(down).await;
                world.replace(place);
            });
        }
        // A second signal ends it at once.
        Kind::Drain | Kind::HandOver if ends_at_once(world, kind, place) => world.replace(place),
        Kind::HandOver => hand_over::begin(world, place, random),
        Kind::Drain => {
            let (sidecar, period) = (world.sidecar(place), millis(random, 0, 20_000));
            let world = world.clone();
            world.state().draining[place] = true;
            tokio::spawn(async move {
                sidecar.coordinator.drain(period).await;
                if sidecar.is_alive() {
                    world.replace(place);
                }
            });
        }
        Kind::WallStep => {
            let far = one_of(random, &[300, 5_000, 90_000, 3_600_000]);
            let back = random.chance(500);
            let mut state = world.state();
            state.wall_offsets[place] += if back { -far } else { far };
        }
        Kind::Throttled
        | Kind::Denied
        | Kind::Rotation
        | Kind::Policy
        | Kind::ContainerDeleted
        | Kind::LockDeleted
        | Kind::Break
        | Kind::BreakNow
        | Kind::BreakHere
        | Kind::Stranger => happens_to_all(world, kind, random),
    }
}

/// Whether a sidecar that is told to end does so at once: one that hands over, and one that drains and is to
/// hand over.
fn ends_at_once(world: &World, kind: Kind, place: usize) -> bool {
    let state = world.state();
    state.hand_overs.is_ending(place) || kind == Kind::HandOver && state.draining[place]
}

fn happens_to_all(world: &World, kind: Kind, random: &mut SeededRandom) {
    let now = world.now();
    match kind {
        Kind::CutOff | Kind::Crash | Kind::Drain | Kind::WallStep | Kind::HandOver => {}
        Kind::Throttled => {
            let until = now + millis(random, 5_000, 180_000);
            let mut state = world.state();
            state.throttled = (until, 1 + random.below(30));
            state.disturb_all(until);
        }
        Kind::Denied => {
            let until = now + millis(random, 2_000, 60_000);
            let mut state = world.state();
            state.service.denied_until = Some(until);
            state.disturb_all(until);
        }
        Kind::Rotation => world.state().service.rotate(),
        Kind::Policy => {
            let until = now + millis(random, 5_000, 60_000);
            let code = one_of(random, &["BlobArchived", "BlobImmutableDueToPolicy"]);
            world.state().service.policy = Some((until, code));
        }
        Kind::ContainerDeleted => {
            let takes = millis(random, 0, 30_000);
            let mut state = world.state();
            state.service.delete_container(now, takes);
            state.deleted = true;
            state.disturb_all(now + takes);
            excuse(world, &mut state, now, [0, 1]);
        }
        Kind::BreakHere => {
            tokio::spawn(crate::world::operator::breaks(world.clone(), random.clone()));
        }
        Kind::Stranger if world.plan().layout == Layout::Readable => {}
        Kind::LockDeleted | Kind::Break | Kind::BreakNow | Kind::Stranger => {
            let lock = usize::try_from(random.below(world.plan().locks as u64)).unwrap();
            let path = world.sidecar(0).path(&key(lock)).to_string();
            let mut state = world.state();
            match kind {
                Kind::LockDeleted => {
                    if state.service.blob(&path).is_some() {
                        state.story.count("acted: LockDeleted");
                    }
                    state.service.delete_blob(&path, now);
                    state.deleted = true;
                }
                Kind::Stranger => {
                    let lasts = millis(random, 15_000, 60_000);
                    if state.service.lease_to_stranger(&path, now, lasts) {
                        state.story.count("acted: Stranger");
                    }
                }
                _ => {
                    if state.service.break_lease(&path, now, kind == Kind::BreakNow) {
                        state.story.count(format!("acted: {kind:?}"));
                    }
                }
            }
            if matches!(kind, Kind::LockDeleted | Kind::BreakNow) {
                excuse(world, &mut state, now, [lock, lock]);
            }
        }
    }
}

fn excuse(world: &World, state: &mut State, now: Duration, locks: [usize; 2]) {
    // Until its holder cannot believe in it any more, by a clock that is a hundredth slow.
    let lease = Duration::from_secs(world.plan().lease);
    for lock in locks {
        let path = world.sidecar(0).path(&key(lock)).to_string();
        state.checks.excuse(&path, now + lease + lease / 100);
    }
}

/// From now on nothing stands against anybody.
pub(crate) fn calm_down(world: &World) {
    let now = world.now();
    let mut state = world.state();
    state.calm = true;
    state.cut_off.fill(now);
    for disturbed in state.disturbed.iter_mut().flatten() {
        *disturbed = (*disturbed).min(now);
    }
    state.throttled.0 = state.throttled.0.min(now);
    state.service.denied_until = state.service.denied_until.map(|until| until.min(now));
    state.service.policy = state.service.policy.map(|(until, code)| (until.min(now), code));
    state.story.note(now, || "!           calm".to_owned());
}

/// The longest that a container is being deleted for.
pub(crate) const SLOWEST: Duration = Duration::from_secs(30 + 15);
const _: () = assert!(SLOWEST.as_secs() > SECOND.as_secs());
