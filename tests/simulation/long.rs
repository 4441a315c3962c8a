//! Long schedules without faults: how long somebody waits, what a waiter costs, and where tokens go (S5, S10,
//! S12).

use std::time::Duration;

use leasehold::hold::{Event, HolderCall, Settings, Terms};

use crate::simulation::chance::Chance;
use crate::simulation::client::Stage;
use crate::simulation::due::Delivery;
use crate::simulation::plan::{Mode, Plan, plain_terms};
use crate::simulation::planted::Bug;
use crate::simulation::story::Story;
use crate::simulation::world::World;

/// A client that takes the lock, holds it, gives it back, and perhaps comes again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    pub(crate) holds: Duration,
    /// How long it stays away; for good if none.
    pub(crate) away: Option<Duration>,
}

const SETTINGS: Settings =
    Settings { poll_cap: Duration::from_secs(5), hand_off: Duration::from_secs(5) };
/// A lease is long, so that renewals are few.
const LEASE: u64 = 60;
const DAY: Duration = Duration::from_secs(86_400);

impl World {
    pub(crate) fn calm(seed: u64, sidecars: usize, bug: Option<Bug>) -> Self {
        let plan = Plan::calm(Mode::Nothing);
        let chance = Chance::new(seed, None);
        let mut world = Self::with(chance, (plan, sidecars, SETTINGS), bug, Story::default());
        world.checks.measures_only = true;
        world
    }

    /// A client at a sidecar of its own machine, which acts as `loops` says.
    pub(crate) fn looper(&mut self, sidecar: usize, wait: Duration, loops: Loop) -> usize {
        self.looper_on(plain_terms(LEASE, wait), sidecar, loops)
    }

    /// The same on terms of its own.
    fn looper_on(&mut self, terms: Terms, sidecar: usize, loops: Loop) -> usize {
        let index = self.clients.len();
        self.arrive((sidecar, sidecar), terms);
        self.clients[index].loops = Some(loops);
        index
    }

    /// What a client that loops does next: it gives the lock back, or it comes again.
    pub(crate) fn loop_on(&mut self, index: usize) {
        let client = &self.clients[index];
        let Some(loops) = client.loops else { return };
        match client.stage {
            Stage::Holding => {
                let client = &mut self.clients[index];
                (client.grant, client.until, client.stage) = (None, None, Stage::Gone);
                let (caller, generation) = (client.caller, client.generation);
                self.send_event(
                    index,
                    Event::Call { caller, generation, call: HolderCall::Release },
                );
            }
            Stage::Gone if loops.away.is_some() => self.come_again(index),
            Stage::Gone | Stage::Waiting | Stage::CutOff | Stage::Resuming => {}
        }
    }

    pub(crate) fn run_for(&mut self, span: Duration) -> Result<(), String> {
        self.run_until(self.now + span);
        self.checks.violation.clone().map_or(Ok(()), Err)
    }
}

/// How long those wait who wait elsewhere while one caller takes the lock again and again (S10): the longest,
/// in turns.
pub(crate) fn longest_wait(
    seed: u64,
    (holds, away): (Duration, Duration),
    waiters: usize,
    bug: Option<Bug>,
) -> Result<f64, String> {
    let sidecars = 2 + usize::try_from(seed % 4).unwrap();
    let mut world = World::calm(seed, sidecars, bug);
    world.looper(0, DAY, Loop { holds, away: Some(away) });
    world.run_for(Duration::from_secs(1))?;
    let from = world.now;
    let others: Vec<usize> = (0..waiters)
        .map(|number| {
            let at = 1 + number % (sidecars - 1);
            world.looper(at, DAY, Loop { holds, away: None })
        })
        .collect();
    // A turn: what one caller has of the lock, and what its sidecar keeps of it (S10).
    let turn = holds.max(SETTINGS.hand_off);
    let patience = turn * u32::try_from(MOST_TURNS * 4 * waiters).unwrap();
    let waits =
        |world: &World| others.iter().any(|index| world.clients[*index].first_granted.is_none());
    while waits(&world) && world.now < from + patience {
        world.run_for(turn)?;
    }
    let longest = others
        .iter()
        .map(|index| world.clients[*index].first_granted.unwrap_or(world.now).saturating_sub(from))
        .max()
        .unwrap_or_default();
    let turns = longest.as_secs_f64() / turn.as_secs_f64() / waiters as f64;
    if turns > MOST_TURNS as f64 {
        return Err(format!(
            "S10: while a caller holds for {holds:?} and stays away for {away:?}, one of {waiters} waiters elsewhere \
             waits {longest:?}"
        ));
    }
    Ok(turns)
}

/// The most turns of others that a waiter waits, for each that waits with it.
pub(crate) const MOST_TURNS: usize = 6;

/// What a waiter elsewhere costs in an hour, in requests (S10, S12), while the holder saves each ten seconds;
/// `others` come to the holder's sidecar and go.
pub(crate) fn requests_an_hour(seed: u64, others: bool, bug: Option<Bug>) -> Result<u64, String> {
    let mut world = World::calm(seed, 2, bug);
    // The lock exists.
    world.looper(1, Duration::ZERO, Loop { holds: Duration::from_secs(1), away: None });
    world.run_for(Duration::from_secs(3))?;
    let holder = world.looper(0, DAY, Loop { holds: DAY, away: None });
    if others {
        let second = Duration::from_secs(1);
        world.looper(0, second, Loop { holds: second, away: Some(Duration::from_secs(7)) });
    }
    world.run_for(Duration::from_secs(10))?;
    world.looper(1, DAY, Loop { holds: DAY, away: None });
    world.run_for(Duration::from_secs(120))?;
    let before = world.sidecars[1].requests;
    // Its saves write the record too, and say nothing of who waits.
    for _ in 0..360 {
        world.save_once(holder);
        world.run_for(Duration::from_secs(10))?;
    }
    let requests = world.sidecars[1].requests - before;
    if requests > MOST_REQUESTS {
        return Err(format!("S12: one waiter elsewhere sends {requests} requests in an hour"));
    }
    Ok(requests)
}

/// Polls at the cap of 5 s come each 2.6 s in the mean, with a read to four of them.
pub(crate) const MOST_REQUESTS: u64 = 1_900;

/// A lock that is taken many times a second for ten minutes, then deleted, then taken elsewhere and here:
/// tokens grow, and nobody is refused (S5). How far they ran ahead of the store's clock at the most.
pub(crate) fn tokens_keep_up(seed: u64, bug: Option<Bug>) -> Result<Duration, String> {
    let mut world = World::calm(seed, 2, bug);
    let blink = Duration::from_millis(2);
    let looper = world.looper(0, DAY, Loop { holds: blink, away: Some(blink) });
    world.run_for(Duration::from_secs(600))?;
    world.clients[looper].loops = Some(Loop { holds: blink, away: None });
    world.run_for(Duration::from_secs(6))?;
    world.storage.delete(world.now, world.checks.newest_grant, &mut world.checks.truth);
    for sidecar in [1, 0] {
        let again =
            world.looper(sidecar, Duration::from_secs(2), Loop { holds: blink, away: None });
        world.run_for(Duration::from_secs(5))?;
        if world.clients[again].first_granted.is_none() {
            return Err(format!("S5: sidecar {sidecar} refuses a lock that was made again"));
        }
    }
    let ahead = world.checks.farthest_ahead;
    if ahead > Duration::from_secs(1) {
        return Err(format!("S5: tokens ran ahead of the store's clock by {ahead:?}"));
    }
    Ok(ahead)
}

/// A machine stands still for longer than a lease lasts, and no clock of it counts that; then its wall clock
/// is set, or it hears from the store. How long its holder still believes beside the next one (S3), also one
/// that is not renewed.
pub(crate) fn moved_machine(
    seed: u64,
    auto_renew: bool,
    bug: Option<Bug>,
) -> Result<Duration, String> {
    let mut world = World::calm(seed, 2, bug);
    let terms = Terms { auto_renew, ..plain_terms(LEASE, DAY) };
    let held = world.looper_on(terms, 0, Loop { holds: DAY, away: None });
    world.run_for(Duration::from_secs(1))?;
    let next = world.looper(1, DAY, Loop { holds: DAY, away: None });
    let pause = Duration::from_secs(90);
    world.move_machine(0, pause, false);
    world.run_for(pause)?;
    if world.clients[next].first_granted.is_none() {
        return Err("S12: nobody else is granted though the lease has run out".to_owned());
    }
    let woken = world.now;
    let by = i64::try_from(pause.as_millis()).unwrap();
    world.clocks[0].wall_shift += by;
    let life = world.sidecars[0].life;
    let incoming = crate::simulation::due::Incoming::Event(Event::TimePassed);
    world.after(Duration::from_secs(1), Delivery::ToSidecar { sidecar: 0, life, incoming });
    while world.believes(held) && world.now < woken + pause {
        world.run_for(Duration::from_millis(100))?;
    }
    let longest =
        Duration::from_secs(1) + Duration::from_secs(LEASE) / 30 + Duration::from_millis(500);
    let overlap = world.now - woken;
    if overlap > longest {
        return Err(format!(
            "S3: after a pause that was seen, its holder believes for {overlap:?} more"
        ));
    }
    Ok(overlap)
}

/// What a sidecar is told first after its machine stood still.
#[derive(Clone, Copy, Debug)]
enum First {
    Release,
    Cancel,
    Silence,
    Caller,
    Time,
    /// The answer to what was under way; the pause begins so long after the caller came.
    Answer(Duration),
}

/// A machine stands still for longer than a lease lasts, and its wall clock is set right before it goes on:
/// whatever its sidecar is told first, nobody there is granted anything while another has the lock (S1, S3,
/// S5).
fn first_after(seed: u64, first: First, bug: Option<Bug>) -> Result<(), String> {
    let mut world = World::calm(seed, 2, bug);
    let second = Duration::from_secs(1);
    // The lock exists.
    world.looper(1, Duration::ZERO, Loop { holds: second, away: None });
    world.run_for(3 * second)?;
    let here = world.looper(0, DAY, Loop { holds: DAY, away: None });
    match first {
        First::Answer(after) => world.run_for(after)?,
        First::Release | First::Cancel | First::Silence | First::Caller | First::Time => {
            world.run_for(second)?;
            world.looper(0, DAY, Loop { holds: DAY, away: None });
            world.run_for(second)?;
        }
    }
    let next = world.looper(1, DAY, Loop { holds: DAY, away: None });
    let pause = Duration::from_secs(90);
    world.move_machine(0, pause, true);
    let client = &world.clients[here];
    let (caller, generation) = (client.caller, client.generation);
    let event = match first {
        First::Release => Some(Event::Call { caller, generation, call: HolderCall::Release }),
        First::Cancel => Some(Event::CallerLeft { caller }),
        First::Silence => Some(Event::HolderDisconnected { caller }),
        First::Caller => {
            let terms = std::sync::Arc::new(plain_terms(LEASE, DAY));
            Some(Event::CallerArrived { caller: leasehold::hold::CallerId(1 << 40), terms })
        }
        First::Time => Some(Event::TimePassed),
        First::Answer(_) => None,
    };
    let life = world.sidecars[0].life;
    let release = Event::Call { caller, generation, call: HolderCall::Release };
    for event in event.into_iter().chain(Some(release).filter(|_| generation.is_some())) {
        let incoming = crate::simulation::due::Incoming::Event(event);
        world.after(second, Delivery::ToSidecar { sidecar: 0, life, incoming });
    }
    world.run_for(pause)?;
    if world.clients[next].first_granted.is_none() {
        return Err("S12: nobody else is granted though the lease has run out".to_owned());
    }
    world.run_for(pause)?;
    Ok(())
}

/// [`first_after`], with each of them in turn.
pub(crate) fn each_first_after(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let told = [First::Release, First::Cancel, First::Silence, First::Caller, First::Time];
    let answers = (0..60).map(|millis| First::Answer(Duration::from_millis(millis)));
    let mut all = told.into_iter().chain(answers);
    all.try_for_each(|first| {
        first_after(seed, first, bug).map_err(|what| format!("{what}, after {first:?}"))
    })
}

/// What the long schedules say of a planted bug.
pub(crate) fn find(bug: Bug) -> Option<String> {
    let (holds, away) = (Duration::from_secs(1), Duration::from_millis(2));
    (0..20).find_map(|seed| {
        let starves = longest_wait(seed, (holds, away), 1, Some(bug)).err();
        let costs = || requests_an_hour(seed, true, Some(bug)).err();
        let ahead = || tokens_keep_up(seed, Some(bug)).err();
        let moved = || moved_machine(seed, true, Some(bug)).err();
        let late = || crate::simulation::ghosts::find(seed, bug);
        let first = || each_first_after(seed, Some(bug)).err();
        starves.or_else(late).or_else(moved).or_else(first).or_else(costs).or_else(ahead)
    })
}
