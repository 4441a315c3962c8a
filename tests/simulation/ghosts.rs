//! What comes late of a holder that has released, though its lock was handed on meanwhile: its resume at
//! another sidecar, by mistake or from a queue (S16), and an operator's break that was meant for it (S17). A
//! hold that was handed on is in the record once it has lasted for a second (S10); what comes before that may
//! meet the grant before, and ends the next hold.

use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{Action, Answer, CallerId, Event, Granted, Notice, Request, Resume, Terms};
use leasehold::store::BreakPeriod;

use crate::kit::millis;
use crate::simulation::chance::About;
use crate::simulation::client::Stage;
use crate::simulation::due::{Break, Breaker, Delivery, Incoming, Seen};
use crate::simulation::kept::{Here, Kept};
use crate::simulation::long::Loop;
use crate::simulation::planted::Bug;
use crate::simulation::world::World;

/// What a client has kept of a hold that it has released.
#[derive(Clone, Debug)]
pub(crate) struct Ghost {
    grant: Granted,
    kept: Kept,
    terms: Arc<Terms>,
    attempt: String,
}

impl World {
    /// What a client that holds could come back with.
    pub(crate) fn ghost_of(&self, index: usize) -> Option<Ghost> {
        let client = &self.clients[index];
        let grant = client.grant.clone()?;
        let attempt = format!("{index}-{}", grant.generation);
        Some(Ghost { grant, kept: client.kept?, terms: Arc::clone(&client.terms), attempt })
    }

    /// A client that releases now may resume all the same, at any sidecar, some time later.
    pub(crate) fn perhaps_haunt(&mut self, index: usize) {
        if !self.plan.crossing.ghosts || self.calm {
            return;
        }
        let acts = self.clients[index].acts;
        let mut random = self.chance.of(About::Ghost, index, acts);
        if !random.chance(500) {
            return;
        }
        let Some(ghost) = self.ghost_of(index) else { return };
        let most = if random.chance(500) { 1_500 } else { 20_000 };
        let delay = millis(&mut random, 1, most);
        let at = usize::try_from(random.below(self.sidecars.len() as u64)).unwrap();
        let caller = CallerId(self.number());
        self.after(delay, Delivery::Haunts { sidecar: at, caller, ghost: Box::new(ghost) });
    }

    /// It resumes, and its stream breaks soon.
    pub(crate) fn haunt(&mut self, sidecar: usize, caller: CallerId, ghost: Ghost) {
        let Ghost { grant, kept, terms, attempt } = ghost;
        let boot = self.read_clock(sidecar);
        let lease = grant.lease_duration;
        let here = Here { machine: sidecar, boot };
        let (terms, lease_ends, bounds) = kept.terms(&terms, here);
        let resume = Resume {
            lease_id: grant.lease_id,
            token: grant.token,
            generation: grant.generation,
            attempt,
            believed_until: boot + lease,
            lease_ends,
            terms: Arc::new(terms),
            acquired_at: grant.acquired_at,
            bounds,
        };
        let life = self.sidecars[sidecar].life;
        let to = |event| Delivery::ToSidecar { sidecar, life, incoming: Incoming::Event(event) };
        self.after(Duration::ZERO, to(Event::ResumeAsked { caller, resume: Box::new(resume) }));
        let gone = millis(&mut self.chance.of(About::Ghost, 1_000, caller.0), 200, 3_000);
        self.after(gone, to(Event::HolderDisconnected { caller }));
        self.checks.ghosts.insert(caller, None);
    }

    /// A ghost was served.
    pub(crate) fn note_haunted(&mut self, action: &Action) {
        if let Action::Tell { caller, notice: Notice::Granted(_) } = action
            && let Some(served) = self.checks.ghosts.get_mut(caller)
        {
            *served = Some(self.now);
        }
    }

    /// S10, S16: what was granted last under a lease, and was written, is not written over with what was
    /// granted before.
    pub(crate) fn check_written(
        &mut self,
        before: Option<leasehold::lock::FencingToken>,
        (action, event): (&Action, &Event),
    ) {
        let (
            Action::Store { what: Request::Write { .. }, .. },
            Event::Answer { answer: Answer::Write(Ok(_)), .. },
        ) = (action, event)
        else {
            return;
        };
        let after = self.storage.seen(self.now).and_then(|seen| seen.token);
        if after < before {
            self.checks
                .fail(format!("S16: the record's token goes back from {before:?} to {after:?}"));
        }
    }
}

/// How long after a hand-off the record may yet be of the grant before: a second, and what a write takes
/// here.
const UNWRITTEN: Duration = Duration::from_millis(1_100);
const DAY: Duration = Duration::from_secs(86_400);

/// A lock that was handed on a moment ago.
struct Scene {
    world: World,
    /// Who has released it.
    ghost: Ghost,
    /// What an operator has seen of that one's hold.
    seen: Option<Seen>,
    /// Who has it now.
    next: usize,
}

fn handed_on(seed: u64, bug: Option<Bug>) -> Result<Scene, String> {
    let mut world = World::calm(seed, 2, bug);
    let second = Duration::from_secs(1);
    let former = world.looper(0, DAY, Loop { holds: 3 * second, away: None });
    world.run_for(second)?;
    let ghost = world.ghost_of(former).ok_or("nobody was granted the lock")?;
    let seen = world.storage.seen(world.now);
    let next = world.looper(0, DAY, Loop { holds: DAY, away: None });
    if seed % 2 == 1 {
        world.looper(1, DAY, Loop { holds: DAY, away: None });
    }
    while world.clients[next].stage != Stage::Holding {
        world.run_for(Duration::from_millis(1))?;
    }
    Ok(Scene { world, ghost, seen, next })
}

/// Whether the next holder still has the lock, once all that was under way has come.
fn keeps_it(world: &mut World, next: usize) -> Result<bool, String> {
    world.run_for(Duration::from_secs(2))?;
    Ok(world.believes(next))
}

/// Who has released and resumes elsewhere later than a second after the hand-off is refused. Before that, the
/// next hold is over within that second: for how long both had the lock.
pub(crate) fn former_resumes(
    seed: u64,
    late: Duration,
    bug: Option<Bug>,
) -> Result<Duration, String> {
    let Scene { mut world, ghost, next, .. } = handed_on(seed, bug)?;
    let handed_on_at = world.now;
    world.run_for(late)?;
    let caller = CallerId(world.number());
    world.haunt(1, caller, ghost);
    let end = world.now.max(handed_on_at) + UNWRITTEN;
    while world.now < end && world.believes(next) {
        world.run_for(Duration::from_millis(10))?;
    }
    let over = (!world.believes(next)).then_some(world.now);
    let served = world.checks.ghosts.get(&caller).copied().flatten();
    match served {
        None if keeps_it(&mut world, next)? => Ok(Duration::ZERO),
        None => Err("S16: a resume that was refused ended the hold".to_owned()),
        Some(at) if at >= handed_on_at + UNWRITTEN => Err(format!(
            "S16: who had released resumes elsewhere {:?} after the hand-off",
            at - handed_on_at
        )),
        Some(at) => match over {
            Some(over) if over < handed_on_at + UNWRITTEN => Ok(over.saturating_sub(at)),
            _ => Err("S16: the next holder believes on beside the one before".to_owned()),
        },
    }
}

/// An operator has seen the first holder, and its break comes later than a second after the hand-off: it
/// breaks nothing (S17).
pub(crate) fn late_break(seed: u64, late: Duration, bug: Option<Bug>) -> Result<(), String> {
    let Scene { mut world, seen, next, .. } = handed_on(seed, bug)?;
    world.run_for(late)?;
    let by = Breaker::Ours(BreakPeriod::Now);
    world.break_lock(Break { by, seen, through: None, given_up: false });
    world.run_for(Duration::from_secs(30))?;
    if late >= UNWRITTEN && !world.believes(next) {
        return Err(format!("S17: a break of the holder before, {late:?} late, ends the hold"));
    }
    Ok(())
}

/// The same through the sidecar that has the lock, which knows of it from before the first holder releases:
/// it breaks nothing, however early it comes, though the sidecar has given it up and has renewed since.
pub(crate) fn late_break_here(
    seed: u64,
    (late, given_up): (Duration, bool),
    bug: Option<Bug>,
) -> Result<(), String> {
    let mut world = World::calm(seed, 2, bug);
    let holds = Duration::from_secs(if given_up { 45 } else { 3 });
    world.looper(0, DAY, Loop { holds, away: None });
    world.run_for(Duration::from_secs(1))?;
    let by = Breaker::Ours(BreakPeriod::Now);
    let mut broken = world.begin_break(Break { by, seen: None, through: None, given_up: false }, 0);
    if given_up {
        world.give_up(&mut broken, Duration::from_secs(1));
    }
    let next = world.looper(0, DAY, Loop { holds: DAY, away: None });
    while world.clients[next].stage != Stage::Holding {
        world.run_for(Duration::from_millis(1))?;
    }
    world.run_for(late)?;
    world.break_lock(broken);
    world.run_for(Duration::from_secs(30))?;
    match world.believes(next) {
        true => Ok(()),
        false => Err(format!("S17: a break of the holder before, {late:?} late, ends the hold")),
    }
}

/// Delays around the second after which the record is written, and beyond.
pub(crate) const DELAYS: [u64; 7] = [1, 400, 990, 1_100, 1_300, 2_500, 9_000];

/// What these schedules say of a planted bug.
pub(crate) fn find(seed: u64, bug: Bug) -> Option<String> {
    DELAYS.iter().map(|late| Duration::from_millis(*late)).find_map(|late| {
        let resumes = former_resumes(seed, late, Some(bug)).err();
        let broken = resumes.or_else(|| late_break(seed, late, Some(bug)).err());
        let here = |given_up| late_break_here(seed, (late, given_up), Some(bug)).err();
        broken.or_else(|| here(false)).or_else(|| here(true))
    })
}
