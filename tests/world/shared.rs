//! What everybody in a schedule shares: the time, chance, the service, and who watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::lock::{Layout, LockPath};
use leasehold::testing::{SeededRandom, SimClock};
use leasehold::time::{BootReading, Clock, Instant, Suspicions, UnixMillis};

use crate::world::chance::{About, Chance};
use crate::world::checks::{Checks, Key};
use crate::world::hand_over::HandOvers;
use crate::world::plan::Plan;
use crate::world::planted::Bug;
use crate::world::promises::Rest;
use crate::world::scene::Scene;
use crate::world::schedules::Judge;
use crate::world::service::Service;
use crate::world::sidecar::Sidecar;
use crate::world::story::Story;
use crate::world::unreturned::Unreturned;

/// The wall clock at the beginning: January 2027.
const BEGINNING: u64 = 1_800_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct World(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    time: SimClock,
    start: Instant,
    plan: Plan,
    scene: Scene,
    state: Mutex<State>,
    sidecars: Mutex<Vec<Sidecar>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) chance: Chance,
    pub(crate) story: Story,
    pub(crate) checks: Checks,
    pub(crate) service: Service,
    /// What is seen of schedules.
    pub(crate) schedules: Judge,
    /// D.
    pub(crate) lease: Duration,
    pub(crate) layout: Layout,
    /// No faults any more.
    pub(crate) calm: bool,
    /// Until when each sidecar reaches nobody.
    pub(crate) cut_off: Vec<Duration>,
    /// Until when everything is throttled, and after how many seconds to come again.
    pub(crate) throttled: (Duration, u64),
    /// How far each sidecar's wall clock is off.
    pub(crate) wall_offsets: Vec<i64>,
    /// Something was done to requests of a sidecar, last at this time.
    pub(crate) disturbed: Vec<Option<Duration>>,
    /// Whether each sidecar has seen the container, and when it made it again (S18).
    pub(crate) seen: Vec<bool>,
    pub(crate) made_again: Vec<Option<Duration>>,
    /// When each asked for a token, while that is not answered.
    pub(crate) signing_in: Vec<Option<Duration>>,
    /// When each sidecar met a container that was deleted, last (S18).
    pub(crate) gone: Vec<Option<Duration>>,
    /// Locks that a sidecar has just made, and not asked for yet.
    pub(crate) made: BTreeSet<(usize, String)>,
    /// When the record was sent first under each lease, by lock and lease.
    pub(crate) first_writes: BTreeMap<(String, String), Duration>,
    /// Rests that were promised last (S11).
    pub(crate) rests: BTreeMap<LockPath, Rest>,
    /// When an operator asked for a break last (S17).
    pub(crate) last_break: Duration,
    /// Sidecars that shut down (S15).
    pub(crate) draining: Vec<bool>,
    pub(crate) hand_overs: HandOvers,
    /// When each sidecar asked last for a lease, by lock and lease.
    pub(crate) asked: BTreeMap<(usize, String), BTreeMap<String, Duration>>,
    /// When each sidecar was given its token to sign in with.
    pub(crate) signed_in: Vec<Duration>,
    /// When such a token was refused at once, last.
    pub(crate) signed_in_vain: Vec<Option<Duration>>,
    /// A lock or the container was deleted.
    pub(crate) deleted: bool,
    /// Holds that were released by call.
    pub(crate) released: BTreeSet<Key>,
    /// Holds whose leases may run out.
    pub(crate) unreturned: Unreturned,
    /// How often holds went on at another machine, where their bounds go by the store's dates.
    pub(crate) dated: BTreeMap<Key, u32>,
    counters: BTreeMap<(About, usize), u64>,
}

impl World {
    /// Needs a runtime whose clock is paused.
    pub(crate) fn new(chance: Chance, scene: Scene, story: Story) -> Self {
        let plan = match scene {
            Scene::Holds(_) => Plan::draw(&chance),
            Scene::Schedules(bug) => Plan::draw(&chance).of_schedules(&chance, bug.is_some()),
        };
        Self::planned(plan, chance, scene, story)
    }

    /// The same, as this plan has it.
    pub(crate) fn planned(plan: Plan, chance: Chance, scene: Scene, story: Story) -> Self {
        let time = SimClock::following_tokio();
        let start = time.now();
        let state = State {
            checks: Checks::new(),
            service: Service::new(scene == Scene::Holds(Some(Bug::OldTokenKept))),
            schedules: Judge::default(),
            lease: Duration::from_secs(plan.lease),
            calm: false,
            cut_off: vec![Duration::ZERO; plan.sidecars],
            throttled: (Duration::ZERO, 0),
            wall_offsets: vec![0; plan.sidecars],
            disturbed: vec![None; plan.sidecars],
            seen: vec![false; plan.sidecars],
            made_again: vec![None; plan.sidecars],
            signing_in: vec![None; plan.sidecars],
            gone: vec![None; plan.sidecars],
            made: BTreeSet::new(),
            first_writes: BTreeMap::new(),
            rests: BTreeMap::new(),
            layout: plan.layout,
            last_break: Duration::ZERO,
            draining: vec![false; plan.sidecars],
            hand_overs: HandOvers::default(),
            asked: BTreeMap::new(),
            signed_in: vec![Duration::ZERO; plan.sidecars],
            signed_in_vain: vec![None; plan.sidecars],
            deleted: false,
            released: BTreeSet::new(),
            unreturned: Unreturned::default(),
            dated: BTreeMap::new(),
            counters: BTreeMap::new(),
            chance,
            story,
        };
        let (state, sidecars) = (Mutex::new(state), Mutex::default());
        let world = Self(Arc::new(Shared { time, start, plan, scene, state, sidecars }));
        for index in 0..world.plan().sidecars {
            let sidecar = Sidecar::start(&world, index, 0);
            world.0.sidecars.lock().unwrap().push(sidecar);
        }
        world
    }

    /// The true time since the beginning.
    pub(crate) fn now(&self) -> Duration {
        self.0.time.now() - self.0.start
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// D.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.plan().lease)
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.0.scene == Scene::Holds(Some(bug))
    }

    pub(crate) fn scene(&self) -> Scene {
        self.0.scene
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sidecar that runs at this place now.
    pub(crate) fn sidecar(&self, index: usize) -> Sidecar {
        self.0.sidecars.lock().unwrap()[index].clone()
    }

    /// Another takes its place, with nothing remembered.
    pub(crate) fn replace(&self, index: usize) {
        let before = self.sidecar(index);
        before.die();
        {
            let mut state = self.state();
            state.seen[index] = false;
            state.made_again[index] = None;
            state.signing_in[index] = None;
            state.gone[index] = None;
            state.draining[index] = false;
            state.hand_overs.is_over(index);
            state.asked.retain(|(sidecar, _), _| *sidecar != index);
            state.checks.costs.began_anew(index);
        }
        let sidecar = Sidecar::start(self, index, before.life + 1);
        self.0.sidecars.lock().unwrap()[index] = sidecar;
    }

    /// The same, unless another has taken it already.
    pub(crate) fn replace_if(&self, index: usize, life: u32) {
        if self.sidecar(index).life == life {
            self.replace(index);
        }
    }

    /// Frees what knows the world and is known by it.
    pub(crate) fn end(&self) {
        self.0.sidecars.lock().unwrap().clear();
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        let now = self.now();
        self.state().story.note(now, line);
    }

    pub(crate) fn fail(&self, what: String) {
        let now = self.now();
        self.state().fail(what, now);
    }

    pub(crate) fn fail_if(&self, wrong: Option<String>) {
        if let Some(what) = wrong {
            self.fail(what);
        }
    }

    /// Randomness for the next choice of this kind.
    pub(crate) fn draw(&self, about: About, whose: usize) -> SeededRandom {
        let mut state = self.state();
        let number = state.count(about, whose);
        state.chance.of(about, whose, number)
    }

    /// Whether the next chance of this fault makes it happen.
    pub(crate) fn fault(&self, about: About, whose: usize, permille: u16) -> Option<SeededRandom> {
        let mut state = self.state();
        let number = state.count(about, whose);
        if state.calm {
            return None;
        }
        state.chance.fault(about, (whose, number), permille)
    }

    /// The store's wall clock as a front end shows it.
    pub(crate) fn wall(&self, ahead: Duration) -> UnixMillis {
        UnixMillis(BEGINNING) + self.now() + ahead
    }

    /// What a clock of this rate shows after `true_time`.
    fn at_rate(&self, whose: usize, true_time: Duration) -> Duration {
        let rate = self.0.plan.rates[whose];
        let shift = i128::try_from(true_time.as_nanos()).unwrap() * i128::from(rate) / 1_000_000;
        let nanos = i128::try_from(true_time.as_nanos()).unwrap() + shift;
        Duration::from_nanos(u64::try_from(nanos).unwrap())
    }

    /// The true time at which a clock of this rate shows `shown`, cut off to the millisecond.
    pub(crate) fn true_time(&self, whose: usize, shown: Duration) -> Duration {
        let rate = i128::from(self.0.plan.rates[whose]);
        let nanos = i128::try_from(shown.as_nanos()).unwrap() * 1_000_000 / (1_000_000 + rate);
        Duration::from_nanos(u64::try_from(nanos).unwrap())
    }
}

impl State {
    pub(crate) fn fail(&mut self, what: String, now: Duration) {
        self.story.note(now, || format!("VIOLATION   {what}"));
        self.checks.fail(what, now);
    }

    fn count(&mut self, about: About, whose: usize) -> u64 {
        let counter = self.counters.entry((about, whose)).or_default();
        *counter += 1;
        *counter - 1
    }

    pub(crate) fn disturb(&mut self, sidecar: usize, now: Duration) {
        let disturbed = &mut self.disturbed[sidecar];
        *disturbed = (*disturbed).max(Some(now));
    }

    pub(crate) fn disturb_all(&mut self, now: Duration) {
        (0..self.disturbed.len()).for_each(|sidecar| self.disturb(sidecar, now));
    }
}

/// The clock of a sidecar's machine: raw, with a rate of its own, and a wall clock that is wrong at times.
#[derive(Clone, Debug)]
pub(crate) struct MachineClock {
    world: World,
    machine: usize,
    suspicions: Arc<Mutex<Suspicions>>,
}

impl MachineClock {
    pub(crate) fn new(world: &World, machine: usize) -> Self {
        Self { world: world.clone(), machine, suspicions: Arc::default() }
    }

    fn booted_before(&self) -> Duration {
        Duration::from_secs(10_000 * (1 + self.machine as u64))
    }

    /// The true time of a reading of this machine's clock.
    pub(crate) fn true_time(&self, reading: &BootReading) -> Duration {
        let since = reading.since_boot.saturating_sub(self.booted_before());
        self.world.true_time(self.machine, since)
    }

    pub(crate) fn boot_id(&self) -> String {
        format!("machine-{}", self.machine)
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Instant {
        let since = self.world.at_rate(self.machine, self.world.now());
        Instant::from_boot(self.booted_before() + since)
    }

    fn wall(&self) -> UnixMillis {
        let offset = self.world.state().wall_offsets[self.machine];
        UnixMillis(self.world.wall(Duration::ZERO).0.saturating_add_signed(offset))
    }

    fn boot_reading(&self, at: Instant) -> BootReading {
        BootReading { boot_id: self.boot_id(), since_boot: at.since_boot() }
    }

    fn suspicions(&self) -> MutexGuard<'_, Suspicions> {
        self.suspicions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
