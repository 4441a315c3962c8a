//! Sidecars that share one record, their jobs, and what goes wrong. Everything comes from one seed.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::lock::{FencingToken, LockPath};
use leasehold::schedule::*;
use leasehold::testing::SeededRandom;
use leasehold::timetable::UtcSecond;

use crate::kit::{Outcome, named};
use crate::schedule::planted::Bug;
use crate::schedule::rig::{at, path, plan_of, seconds, spec};
use crate::schedule::store::Store;

/// What was read.
pub(crate) type Seen = (Option<ScheduleRecord>, u64);

pub(crate) enum Stage {
    Idle,
    Looked(Seen),
    Acquired(Seen, FencingToken),
    Running,
}

pub(crate) struct Sidecar {
    /// Changes with each restart: a lease of the one before is not its own.
    pub(crate) owner: u64,
    pub(crate) stage: Stage,
    pub(crate) newest: Option<Newest>,
}

/// A job that was granted a run, and goes on whatever becomes of its sidecar.
pub(crate) struct Job {
    pub(crate) told: Told,
    pub(crate) owner: u64,
    pub(crate) until: UtcSecond,
    pub(crate) how: Report,
    /// It reported, and no answer came.
    pub(crate) unknown: bool,
}

pub(crate) struct World {
    pub(crate) random: SeededRandom,
    pub(crate) bug: Option<Bug>,
    pub(crate) path: LockPath,
    pub(crate) store: Store,
    pub(crate) sidecars: Vec<Sidecar>,
    pub(crate) jobs: Vec<Job>,
    owners: u64,
    pub(crate) granted: Vec<(Told, u64)>,
    pub(crate) recorded: Vec<(RunId, Report)>,
    /// Each with the time from which it was in force.
    pub(crate) definitions: Vec<(UtcSecond, Definition)>,
    pub(crate) timeline: Vec<String>,
    /// What occurred, so that nothing is tested that never does.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) calm: bool,
    pub(crate) kind: Kind,
}

/// What a world is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One definition, no pause and no return: the sums must be right.
    Plain,
    /// Definitions that change often, and neither skip nor are paused: what was due then must be run.
    Changing,
    /// Everything.
    Mixed,
}

fn random_definition(random: &mut SeededRandom, kind: Kind, revision: u64) -> Definition {
    let expressions = ["@every 20s", "* * * * *", "@every 45s", "*/2 * * * *", "@every 3m"];
    let index = usize::try_from(random.below(5)).unwrap();
    let mut spec = spec(expressions.get(index).unwrap());
    spec.revision = revision;
    spec.catch_up = match random.below(4) {
        0 => CatchUp::Latest,
        1 if kind != Kind::Changing => CatchUp::None,
        _ => CatchUp::All(100),
    };
    spec.max_attempts = Some(1 + u32::try_from(random.below(4)).unwrap());
    let skips = random.chance(200) && kind == Kind::Mixed;
    spec.overlap = if skips { Overlap::Skip } else { Overlap::Follow };
    spec.spread = seconds(random.below(2) * random.below(20));
    Definition::new(spec).unwrap()
}

impl World {
    pub(crate) fn run(seed: u64, bug: Option<Bug>) -> Outcome {
        let mut random = SeededRandom::new(seed);
        let kind = match seed % 3 {
            0 => Kind::Plain,
            1 => Kind::Changing,
            _ => Kind::Mixed,
        };
        let definition = random_definition(&mut random, kind, 1);
        let now = at("00:30:00");
        let plan = plan_of(None, &definition, true, None, now).write.unwrap();
        let mut world = Self {
            random,
            bug,
            path: path(),
            store: Store::new(plan, now),
            sidecars: Vec::new(),
            jobs: Vec::new(),
            owners: 0,
            granted: Vec::new(),
            recorded: Vec::new(),
            definitions: vec![(now, definition)],
            timeline: Vec::new(),
            counts: BTreeMap::new(),
            calm: false,
            kind,
        };
        for _ in 0..3 {
            let owner = world.new_owner();
            world.sidecars.push(Sidecar { owner, stage: Stage::Idle, newest: None });
        }
        for _ in 0..300 {
            world.step();
        }
        // Nothing goes wrong any more: what is left is done.
        world.calm = true;
        for _ in 0..3_000 {
            if world.store.violation.is_some() || world.is_quiet() {
                break;
            }
            world.step();
        }
        world.check_end();
        let Self { store, counts, timeline, .. } = world;
        let violation = store.violation.map(|what| (what, Duration::ZERO));
        Outcome { violation, counts: named(counts), timeline, ..Outcome::default() }
    }

    pub(crate) fn saw(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
        self.timeline.push(format!("{} {what}", self.store.now));
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn new_owner(&mut self) -> u64 {
        self.owners += 1;
        self.owners
    }

    pub(crate) fn faulty(&mut self, permille: u16) -> bool {
        !self.calm && self.random.chance(permille)
    }

    pub(crate) fn pick(&mut self, of: usize) -> usize {
        usize::try_from(self.random.below(of as u64)).unwrap()
    }

    fn step(&mut self) {
        if self.store.violation.is_some() {
            return;
        }
        match self.random.below(10) {
            0..2 => {
                let usual = if self.calm { 3 } else { 8 };
                let most = if self.faulty(50) { 400 } else { usual };
                self.store.now.0 += i64::try_from(self.random.below(most)).unwrap();
                self.renew();
            }
            2..7 => {
                let index = self.pick(self.sidecars.len());
                self.sidecar(index);
            }
            7..9 if !self.jobs.is_empty() => {
                let index = self.pick(self.jobs.len());
                self.job(index);
            }
            9 if !self.calm => self.operator(),
            _ => {}
        }
    }

    /// Most renewals of runs come in time; a sidecar may be frozen or cut off, and not know it.
    fn renew(&mut self) {
        for index in 0..self.sidecars.len() {
            let lost = self.faulty(150);
            let sidecar = &mut self.sidecars[index];
            if matches!(sidecar.stage, Stage::Running) && !lost && !self.store.renew(sidecar.owner)
            {
                sidecar.stage = Stage::Idle;
                self.saw("a lease was lost");
            }
        }
    }

    fn operator(&mut self) {
        match self.random.below(8) {
            0 | 1 => {
                let index = self.pick(self.sidecars.len());
                let owner = self.new_owner();
                self.sidecars[index] = Sidecar { owner, stage: Stage::Idle, newest: None };
                self.saw("a sidecar crashed");
            }
            2 if self.kind != Kind::Plain => self.redefine(),
            3 if self.kind == Kind::Changing => self.redefine(),
            3 if self.kind == Kind::Mixed => {
                let plan = &self.store.plan;
                let changed = plan.pause(self.store.now).or_else(|| plan.resume(self.store.now));
                self.store.plan = changed.unwrap();
                self.saw("a pause or a resume");
            }
            4 => {
                let id = format!("r{}", self.timeline.len());
                let record = self.store.record();
                let triggered = self.store.plan.trigger(&id, record.as_ref(), self.store.now);
                if let Ok(Triggered { write: Some(plan), .. }) = triggered {
                    self.store.plan = plan;
                    self.saw("a run by hand was asked for");
                }
            }
            5 if self.kind == Kind::Mixed => {
                let (at, reason) = (self.store.now, String::new());
                let intervention = Intervention { at, reason, caller: String::new() };
                self.store.plan = self.store.plan.reset_to(None, None, intervention);
                self.saw("a reset");
            }
            _ => {}
        }
    }

    fn redefine(&mut self) {
        let revision = self.definitions.len() as u64 + 1;
        let definition = random_definition(&mut self.random, self.kind, revision);
        self.store.redefine(&definition);
        self.definitions.push((self.store.now, definition));
        self.saw("a definition changed");
    }

    /// A job reports: where it runs, or at any other sidecar if that one has gone.
    fn job(&mut self, index: usize) {
        if self.jobs[index].until > self.store.now {
            return;
        }
        if self.faulty(100) {
            let job = self.jobs.remove(index);
            // Its sidecar notices (S14).
            let here = self.sidecars.iter_mut().find(|sidecar| sidecar.owner == job.owner);
            here.filter(|sidecar| matches!(sidecar.stage, Stage::Running))
                .into_iter()
                .for_each(|sidecar| sidecar.stage = Stage::Idle);
            self.saw("a job died");
            return;
        }
        let here = self.sidecars.iter().position(|sidecar| {
            sidecar.owner == self.jobs[index].owner && matches!(sidecar.stage, Stage::Running)
        });
        let at = here.unwrap_or_else(|| self.pick(self.sidecars.len()));
        let answer = self.complete(index, at, here.is_some());
        let Some(is_recorded) = answer else {
            self.jobs[index].unknown = true;
            return;
        };
        let Job { told, how, .. } = self.jobs.remove(index);
        if is_recorded {
            self.check_recorded(&told.run_id);
            self.recorded.push((told.run_id, how));
        } else {
            self.check_superseded(&told.run_id, how);
        }
        if here.is_some() {
            self.store.release(self.sidecars[at].owner);
            self.sidecars[at].stage = Stage::Idle;
        }
    }

    /// Whether the report was recorded; none while that is unknown.
    fn complete(&mut self, index: usize, at: usize, running: bool) -> Option<bool> {
        let (record, version) = self.read(at);
        let Sidecar { owner, newest, .. } = self.sidecars[at];
        let mut id = self.jobs[index].told.run_id.clone().to_string().parse::<RunId>().unwrap();
        let run = record.as_ref().and_then(|record| record.run.as_ref());
        if let (true, Some(run)) = (self.has(Bug::CompletionOfAnother), run) {
            (id.token, id.attempt) = (run.token, run.attempt);
        }
        let how = self.jobs[index].how;
        let lease = match self.store.holder() {
            Some(holder) if holder == owner => Lease::Here { running },
            Some(_) => Lease::Elsewhere,
            None => Lease::Free,
        };
        let mut reported = report(&self.view(record.as_ref(), newest, lease), &id, how);
        let mut version = version;
        if reported == Reported::AcquireFirst {
            // Somebody may be faster.
            for _ in 0..self.random.below(8) {
                let other = self.pick(self.sidecars.len());
                if other != at && self.store.violation.is_none() {
                    self.sidecar(other);
                }
            }
            let if_match = (!self.has(Bug::CompletionWithoutIfMatch)).then_some(version);
            self.store.acquire(owner, if_match)?;
            version = self.store.version;
            let lease = Lease::Here { running: false };
            reported = report(&self.view(record.as_ref(), newest, lease), &id, how);
            self.saw("a late report");
        }
        let written = match reported {
            Reported::Recorded => return Some(true),
            Reported::Superseded => {
                self.saw("a run was superseded");
                return Some(false);
            }
            Reported::AcquireFirst | Reported::HeldElsewhere => return None,
            Reported::Write { record, .. } => self.write(owner, version, &record),
        };
        if !running {
            self.store.release(owner);
        }
        match written {
            Ok(()) => Some(true),
            Err(_) if self.has(Bug::UnknownIsSuperseded) => Some(false),
            Err(_) => None,
        }
    }

    pub(crate) fn is_quiet(&mut self) -> bool {
        if self.store.plan.is_paused() {
            self.store.plan = self.store.plan.resume(self.store.now).unwrap();
        }
        let record = self.store.record();
        let looked = look(&self.view(record.as_ref(), None, Lease::Free));
        let running = record.as_ref().is_some_and(|record| record.run.is_some());
        // T13: what waits for the end of its spread is not done.
        let is_due = looked.next.is_some_and(|next| next <= self.store.now);
        self.jobs.is_empty()
            && !running
            && !is_due
            && matches!(looked.decision, Decision::Wait(_))
            && self.store.holder().is_none()
    }
}
