//! Every order in which a bounded set of things can happen to the real pools of two sidecars, with two
//! permits and three callers: two at the one sidecar, one at the other. Requests and answers come in any
//! order, an answer may be lost, a caller may leave; every caller releases when it likes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{self, CallerId, Event, HolderCall, Memory, Settings};
use leasehold::lock::{FencingToken, LeaseId, Permit};
use leasehold::queue::{Action, Queue};
use leasehold::time::Instant;
use uuid::Uuid;

use crate::kit::asked;
use crate::kit::explore;
use crate::kit::store::unanswered;
use crate::pools::Pools;
use crate::pools::rig::{secs, terms};
use crate::pools::store::Store;

/// States after which a run in the test command stops in all worlds but the first, breadth first.
const STATES: u64 = 30_000;
/// Time goes on by this, past the next try of a pool.
const STEP: Duration = Duration::from_millis(1_300);

/// What is left of each kind of thing that may happen.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Answers that are lost.
    losses: u8,
    /// Callers that leave while they wait.
    leaves: u8,
    /// Steps of time.
    steps: u8,
}

/// The worlds: the first is explored in full, the others as far as the bound of states goes. With
/// `LEASEHOLD_TEST_POOLS_STATES=2000000` the second is explored in full too.
const WORLDS: [Bounds; 4] = [
    Bounds { losses: 0, leaves: 0, steps: 1 },
    Bounds { losses: 0, leaves: 1, steps: 1 },
    Bounds { losses: 1, leaves: 0, steps: 1 },
    Bounds { losses: 1, leaves: 1, steps: 2 },
];

/// Which sidecar a caller calls.
const CALLERS: [(CallerId, usize); 3] = [(CallerId(1), 0), (CallerId(2), 0), (CallerId(3), 1)];

#[derive(Clone, Debug)]
struct World {
    now: Duration,
    pools: [(Queue, u64); 2],
    store: Store,
    /// Requests on their way to the store, and answers on their way back.
    requests: Vec<Asked>,
    answers: Vec<(usize, Permit, Arc<Event>)>,
    callers: BTreeMap<CallerId, Stage>,
    tokens: BTreeMap<Permit, FencingToken>,
    left: Bounds,
    breach: Option<String>,
}

/// A request on its way. The sidecar gives it up after a while (S7), and the store may be asked all the same.
#[derive(Clone, Debug)]
struct Asked {
    at: usize,
    permit: Permit,
    action: hold::Action,
    until: Duration,
}

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waits,
    Believes(Permit),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Store { request: usize, answer_lost: bool },
    Answer(usize),
    Wake(usize),
    Time,
    Release(CallerId),
    Leave(CallerId),
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let settings = Settings { poll_cap: secs(5), hand_off: secs(5) };
        let pool = |seed| (Queue::new(settings, Memory::default(), seed, Instant::default()), 0);
        let mut world = Self {
            now: secs(1),
            pools: [pool(1), pool(2)],
            store: Store::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            callers: BTreeMap::new(),
            tokens: BTreeMap::new(),
            left: bounds,
            breach: None,
        };
        for (caller, at) in CALLERS {
            world.callers.insert(caller, Stage::Waits);
            let terms = Arc::new(terms(2, secs(600)));
            world.feed(at, Permit::FIRST, Event::CallerArrived { caller, terms });
        }
        world
    }

    /// All have had a permit, and nothing is left.
    fn are_all_served(&self) -> bool {
        self.callers.values().all(|stage| *stage == Stage::Done)
            && self.pools.iter().all(|(pool, _)| pool.waiting() == 0 && pool.is_idle())
    }

    fn feed(&mut self, at: usize, permit: Permit, event: Event) {
        let (pool, supplied) = &mut self.pools[at];
        while pool.needs_lease_id() {
            *supplied += 1;
            pool.supply(LeaseId::from_uuid(Uuid::from_u64_pair(at as u64 + 1, *supplied)));
        }
        for action in pool.handle_event(permit, event, Instant::from_boot(self.now)) {
            let Action::At { permit, action } = action else { continue };
            match action {
                hold::Action::Tell { caller, notice: hold::Notice::Granted(grant) } => {
                    let former = self.callers.insert(caller, Stage::Believes(permit));
                    let beside = self.callers.iter().any(|(other, stage)| {
                        *other != caller && *stage == Stage::Believes(permit)
                    });
                    let token = self.tokens.insert(permit, grant.token);
                    if former != Some(Stage::Waits) {
                        self.breach =
                            Some(format!("S32: {caller:?} was granted, and did not wait"));
                    } else if beside {
                        self.breach = Some(format!("S1: two believe at permit {permit}"));
                    } else if token >= Some(grant.token) {
                        self.breach = Some(format!("S5: a token of permit {permit} does not grow"));
                    }
                }
                hold::Action::Tell { caller, notice: hold::Notice::Lost { .. } } => {
                    self.breach =
                        Some(format!("S4: {caller:?} has lost its hold: nothing broke it"));
                }
                action @ hold::Action::Store { timeout, .. } => {
                    let until = self.now + timeout;
                    self.requests.push(Asked { at, permit, action, until });
                }
                _ => {}
            }
        }
        let tries = self.requests.iter().filter(|asked| {
            asked.at == at
                && asked.until > self.now
                && matches!(
                    asked.action,
                    hold::Action::Store { what: hold::Request::Acquire { .. }, .. }
                )
        });
        if tries.count() > 1 {
            self.breach = Some(format!("S31: sidecar {at} has more than one request under way"));
        }
    }
}

impl explore::State for World {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for request in 0..self.requests.len() {
            steps.push(Step::Store { request, answer_lost: false });
            if self.left.losses > 0 {
                steps.push(Step::Store { request, answer_lost: true });
            }
        }
        steps.extend((0..self.answers.len()).map(Step::Answer));
        for (at, (pool, _)) in self.pools.iter().enumerate() {
            let due = pool.poll_timeout();
            if due.is_some_and(|due| due <= Instant::from_boot(self.now)) {
                steps.push(Step::Wake(at));
            }
        }
        for (caller, stage) in &self.callers {
            match stage {
                Stage::Believes(_) => steps.push(Step::Release(*caller)),
                Stage::Waits if self.left.leaves > 0 => steps.push(Step::Leave(*caller)),
                Stage::Waits | Stage::Done => {}
            }
        }
        if self.left.steps > 0 {
            steps.push(Step::Time);
        }
        steps
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Store { request, answer_lost } => {
                let Asked { at, permit, action, .. } = self.requests.remove(request);
                let path = self.store.path(permit);
                let event = self.store.apply(&path, &action, self.now);
                let event = match answer_lost {
                    true => unanswered(&action).unwrap(),
                    false => event,
                };
                self.left.losses -= u8::from(answer_lost);
                self.answers.push((at, permit, Arc::new(event)));
            }
            Step::Answer(index) => {
                let (at, permit, event) = self.answers.remove(index);
                self.feed(at, permit, Event::clone(&event));
            }
            Step::Wake(at) => self.feed(at, Permit::FIRST, Event::TimePassed),
            Step::Time => {
                self.left.steps -= 1;
                self.now += STEP;
            }
            Step::Release(caller) => {
                self.callers.insert(caller, Stage::Done);
                let event = Event::Call { caller, generation: None, call: HolderCall::Release };
                self.feed(place(caller), Permit::FIRST, event);
            }
            Step::Leave(caller) => {
                self.left.leaves -= 1;
                self.callers.insert(caller, Stage::Done);
                self.feed(place(caller), Permit::FIRST, Event::CallerLeft { caller });
            }
        }
        // Requests and answers come in any order, and how many there were is no matter.
        self.store.requests = 0;
        self.requests.sort_by_cached_key(|request| format!("{request:?}"));
        self.answers.sort_by_cached_key(|answer| format!("{answer:?}"));
        let believers = self.callers.values().filter(|stage| matches!(stage, Stage::Believes(_)));
        match self.breach.take() {
            Some(breach) => Err(breach),
            None if believers.count() > 2 => Err("S29: more than two believe".to_owned()),
            None => Ok(()),
        }
    }

    fn text(&self) -> String {
        format!("{self:?}")
    }
}

fn place(caller: CallerId) -> usize {
    CALLERS.iter().find(|(named, _)| *named == caller).unwrap().1
}

/// Explores them, the shortest ways first; what was explored.
pub(crate) fn explore() -> Vec<String> {
    let mut told = Vec::new();
    let most = asked::<Pools>("STATES").unwrap_or(STATES);
    for (index, bounds) in WORLDS.into_iter().enumerate() {
        let most = if index == 0 { u64::MAX } else { most };
        let mut all_served = false;
        let explored = explore::explore(World::new(bounds), most, |world| {
            all_served |= world.are_all_served();
        });
        told.push(format!("{bounds:?}: {explored:?}"));
        assert_eq!(explored.violation, None);
        assert!(index > 0 || explored.complete && all_served, "all served: {all_served}");
    }
    told
}
