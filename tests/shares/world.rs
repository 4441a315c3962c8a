//! Some sidecars, the locks of a share, the callers, and the time in which they live.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::hold::{Action, Answer, CallerId, Event, Request};
use leasehold::lock::LeaseId;
use leasehold::record::Record;
use leasehold::testing::SeededRandom;
use uuid::Uuid;

use crate::kit::store::unanswered;
use crate::kit::variable;
use crate::shares::Shares;
use crate::shares::checks::Checks;
use crate::shares::clients::{Client, Profile, Stage};
use crate::shares::planted::Bug;
use crate::shares::sidecar::{Clock, Life, Sidecar};
use crate::shares::store::Store;

#[derive(Debug)]
pub(crate) enum What {
    Start {
        at: usize,
    },
    /// The process and its callers are gone.
    Crash {
        at: usize,
    },
    /// It is told to end, as Kubernetes does; and its drain period is over.
    Drain {
        at: usize,
    },
    DrainEnds {
        at: usize,
    },
    Arrive {
        client: usize,
    },
    Release {
        client: usize,
        caller: CallerId,
    },
    Save {
        client: usize,
        caller: CallerId,
    },
    /// A request arrives at the store, and its answer at the sidecar.
    Request {
        at: usize,
        lock: usize,
        action: Action,
    },
    Answer {
        at: usize,
        lock: usize,
        event: Event,
    },
    Wake {
        at: usize,
        lock: usize,
    },
    Stirred {
        at: usize,
        lock: usize,
    },
    /// The balance of the share is looked at; its locks are listed (S35).
    Balance {
        at: usize,
    },
    List {
        at: usize,
    },
    Listed {
        at: usize,
        records: Option<BTreeMap<usize, Record>>,
    },
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) random: SeededRandom,
    pub(crate) store: Store,
    pub(crate) sidecars: Vec<Sidecar>,
    pub(crate) clients: Vec<Client>,
    pub(crate) by_caller: BTreeMap<CallerId, usize>,
    events: BTreeMap<(Duration, u64), What>,
    scheduled: u64,
    pub(crate) callers: u64,
    pub(crate) saves: u64,
    /// The longest waits, by priority.
    pub(crate) waits: BTreeMap<u32, Duration>,
    pub(crate) checks: Checks,
    pub(crate) bug: Option<Bug>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// What happened, if it is wanted.
    pub(crate) timeline: Option<Vec<String>>,
    /// Of 1,000 requests, how many are lost, or their answers.
    pub(crate) losses: u16,
}

/// The longest that a request or an answer is on its way.
const LONGEST_WAY: u64 = 100;
/// After this an answer that is lost is taken for lost.
const GIVEN_UP: Duration = Duration::from_secs(3);

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> Self {
        Self {
            now: Duration::ZERO,
            random: SeededRandom::new(seed),
            store: Store::new(),
            sidecars: Vec::new(),
            clients: Vec::new(),
            by_caller: BTreeMap::new(),
            events: BTreeMap::new(),
            scheduled: 0,
            callers: 0,
            saves: 0,
            waits: BTreeMap::new(),
            checks: Checks::default(),
            bug,
            counts: BTreeMap::new(),
            timeline: variable::<Shares>("SEED").map(|_replayed| Vec::new()),
            losses: 3,
        }
    }

    /// A sidecar that starts at `begins`, with a caller for each of `profiles`; its number.
    pub(crate) fn add(&mut self, begins: Duration, profiles: Vec<Profile>) -> usize {
        let at = self.sidecars.len();
        let clock = Clock {
            ahead: Duration::from_secs(1_000) + self.random.span(Duration::from_secs(100_000)),
            fast: i32::try_from(self.random.below(10_001)).unwrap() - 5_000,
        };
        self.sidecars.push(Sidecar::new(at, clock));
        let clients =
            profiles.into_iter().map(|profile| Client { at, profile, stage: Stage::Away });
        self.clients.extend(clients);
        self.schedule(begins, What::Start { at });
        at
    }

    /// Lets time pass until then, or until a rule is broken.
    pub(crate) fn run_until(&mut self, end: Duration) {
        while self.checks.violation.is_none()
            && let Some(entry) = self.events.first_entry()
        {
            let (at, _) = *entry.key();
            if at > end {
                break;
            }
            self.now = at;
            let what = entry.remove();
            if let Some(timeline) = &mut self.timeline {
                timeline.push(format!("{:>10.3} {what:?}", at.as_secs_f64()));
            }
            self.happen(what);
        }
        self.now = self.now.max(end);
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    pub(crate) fn schedule(&mut self, at: Duration, what: What) {
        self.scheduled += 1;
        self.events.insert((at.max(self.now), self.scheduled), what);
    }

    pub(crate) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    pub(crate) fn note_wait(&mut self, profile: &Profile, waited: Duration) {
        let longest = self.waits.entry(profile.priority).or_default();
        *longest = waited.max(*longest);
    }

    fn lives(&self, at: usize) -> bool {
        matches!(self.sidecars[at].life, Life::Running | Life::Draining)
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Start { at } => self.start(at),
            What::Crash { at } => self.crash(at),
            What::Drain { at } => self.drain(at),
            What::DrainEnds { at } => self.end_drain(at),
            What::Arrive { client } => self.arrive(client),
            What::Release { client, caller } => self.release(client, caller),
            What::Save { client, caller } => self.save_now(client, caller),
            What::Request { at, lock, action } => self.request(at, lock, &action),
            What::Answer { at, lock, event } => {
                if let Event::Answer { answer: Answer::Acquire { .. }, .. } = event {
                    self.sidecars[at].acquiring.remove(&lock);
                }
                self.feed(at, lock, event);
            }
            What::Wake { at, lock } => {
                // One that was planned before an earlier one is over.
                let woken_at = &mut self.sidecars[at].woken_at;
                if woken_at.get(&lock) == Some(&self.now) {
                    woken_at.remove(&lock);
                    self.feed(at, lock, Event::TimePassed);
                }
            }
            What::Stirred { at, lock } => self.feed(at, lock, Event::ShareStirred),
            What::Balance { at } => self.balance(at),
            What::List { at } => self.list(at),
            What::Listed { at, records } => self.listed(at, records),
        }
    }

    fn start(&mut self, at: usize) {
        self.sidecars[at].life = Life::Running;
        for client in 0..self.clients.len() {
            if self.clients[client].at == at {
                let comes = self.now + self.random.span(Duration::from_millis(100));
                self.schedule(comes, What::Arrive { client });
            }
        }
    }

    /// Its callers believe until the end of what they were told (S21).
    pub(crate) fn crash_now(&mut self, at: usize) {
        self.schedule(self.now, What::Crash { at });
    }

    pub(crate) fn drain_now(&mut self, at: usize) {
        self.schedule(self.now, What::Drain { at });
    }

    fn crash(&mut self, at: usize) {
        self.count("a sidecar crashed");
        self.end(at);
    }

    fn end(&mut self, at: usize) {
        let sidecar = &mut self.sidecars[at];
        sidecar.life = Life::Gone;
        sidecar.machines.clear();
        for client in self.clients.iter_mut().filter(|client| client.at == at) {
            if let Some(caller) = client.caller() {
                self.by_caller.remove(&caller);
            }
            if matches!(client.stage, Stage::Holds { .. }) {
                self.checks.holder_crashed(client.profile.lock);
            }
            client.stage = Stage::Away;
        }
    }

    fn drain(&mut self, at: usize) {
        self.count("a sidecar drained");
        self.sidecars[at].life = Life::Draining;
        let ends = self.sidecars[at].clock.at(self.now + Duration::from_secs(20));
        let locks: Vec<usize> = self.sidecars[at].machines.keys().copied().collect();
        for lock in locks {
            self.feed(at, lock, Event::DrainStarted { ends });
        }
        self.schedule(self.now + Duration::from_secs(20), What::DrainEnds { at });
    }

    fn end_drain(&mut self, at: usize) {
        let locks: Vec<usize> = self.sidecars[at].machines.keys().copied().collect();
        if self.sidecars[at].is_idle() {
            return self.end(at);
        }
        self.count("a drain that was not over in time");
        for lock in locks {
            self.feed(at, lock, Event::DrainEnded);
        }
        self.schedule(self.now + Duration::from_secs(2), What::Crash { at });
    }

    /// Tells the machine of `lock` what happened, and does what it answers.
    pub(crate) fn feed(&mut self, at: usize, lock: usize, event: Event) {
        if !self.lives(at) {
            return;
        }
        let seed = self.random.next_u64();
        let sidecar = &mut self.sidecars[at];
        let now = sidecar.clock.at(self.now);
        sidecar.machine(lock, seed, now);
        sidecar.lease_ids += 1;
        let lease_id = LeaseId::from_uuid(Uuid::from_u64_pair(at as u64 + 1, sidecar.lease_ids));
        let machine = sidecar.machines.get_mut(&lock).unwrap();
        if machine.needs_lease_id() {
            machine.supply(lease_id);
        }
        let entered = self.enter_share(at, lock, &event);
        let machine = self.sidecars[at].machines.get_mut(&lock).unwrap();
        for action in machine.handle_event(event, now) {
            if let Some(timeline) = &mut self.timeline {
                timeline.push(format!("             {at} {lock} {action:?}"));
            }
            if let Action::Store { what: Request::Break { rival, .. }, .. } = &action
                && rival.moves
                && let Some(share) = &mut self.sidecars[at].share
            {
                share.moved(now);
            }
            match action {
                Action::Store { .. } => self.send(at, lock, action),
                told => self.tell(at, lock, told),
            }
        }
        self.leave_share(at, lock, entered);
        self.wake_later(at, lock);
    }

    fn wake_later(&mut self, at: usize, lock: usize) {
        let sidecar = &mut self.sidecars[at];
        let machine = sidecar.machines.get(&lock);
        let Some(wakes) = machine.and_then(|machine| machine.poll_timeout()) else { return };
        let wakes = sidecar.clock.when(wakes).max(self.now + Duration::from_micros(1));
        if sidecar.woken_at.get(&lock).is_none_or(|planned| wakes < *planned) {
            sidecar.woken_at.insert(lock, wakes);
            self.schedule(wakes, What::Wake { at, lock });
        }
    }

    /// How long a request or an answer is on its way.
    pub(crate) fn way(&mut self) -> Duration {
        Duration::from_millis(1 + self.random.below(LONGEST_WAY))
    }

    pub(crate) fn is_lost(&mut self) -> bool {
        self.random.chance(self.losses)
    }

    fn send(&mut self, at: usize, lock: usize, action: Action) {
        if let Action::Store { what: Request::Acquire { .. }, .. } = action {
            self.check_acquire(at, lock);
        }
        let arrives = self.now + self.way();
        if self.is_lost() {
            self.count("a request lost");
            self.check_lost(at, lock);
            let event = unanswered(&action).unwrap();
            return self.schedule(arrives + GIVEN_UP, What::Answer { at, lock, event });
        }
        self.schedule(arrives, What::Request { at, lock, action });
    }

    fn request(&mut self, at: usize, lock: usize, action: &Action) {
        let action = self.as_written(at, lock, action);
        let broken = self.before_break(lock, &action);
        let event = self.store.apply(lock, &action, self.now);
        if let (Some(broken), Event::Answer { answer: Answer::Break(Ok(())), .. }) =
            (broken, &event)
        {
            self.broke(at, lock, broken);
        }
        let arrives = self.now + self.way();
        if self.is_lost() {
            self.count("an answer lost");
            self.check_lost(at, lock);
            let event = unanswered(&action).unwrap();
            return self.schedule(arrives + GIVEN_UP, What::Answer { at, lock, event });
        }
        let event = self.as_read(at, event);
        self.schedule(arrives, What::Answer { at, lock, event });
    }
}
