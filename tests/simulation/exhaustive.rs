//! Every order in which a bounded set of things can happen to two sidecars and one lock, not only those that chance picks.
//!
//! Time goes in steps, since only the order of what happens matters, and where a clock's reading matters, the steps are
//! fine enough to fall before and after. What is bounded: callers, duplicates, losses, freezes, depth.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{Action, CallerId, Event, Hold, Memory, Settings, TroubleKind};
use leasehold::lock::LeaseId;
use leasehold::time::Instant;
use uuid::Uuid;

use crate::client::plain_terms;
use crate::storage::{Storage, failed, unknown};
use crate::truth::Truth;

/// What is left of each kind of thing that may go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) losses: u8,
    pub(crate) duplicates: u8,
    pub(crate) steps: u8,
}

/// States after which a run in the test command stops, breadth first.
pub(crate) const STATES: u64 = 20_000;

/// A step of time: validity ends between two of them, and so does the lease.
const STEP: Duration = Duration::from_millis(7_400);

#[derive(Clone, Debug)]
struct Sidecar {
    hold: Hold,
    supplied: u64,
    /// Events that wait to be looked at: it is frozen, or has not come to it.
    inbox: Vec<Arc<Event>>,
}

/// A client's belief in its hold, by a clock that all share here: what drifts is the simulator's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Belief {
    until: Instant,
    token: u64,
}

#[derive(Clone, Debug)]
struct State {
    now: Duration,
    sidecars: Vec<Sidecar>,
    storage: Storage,
    /// Requests on their way to the store.
    requests: Vec<(usize, Action)>,
    beliefs: Vec<Option<Belief>>,
    highest: u64,
    bounds: Bounds,
    grants: u32,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Explored {
    pub(crate) states: u64,
    /// Steps from the beginning to the farthest of them.
    pub(crate) depth: u32,
    /// Whether those are all there are.
    pub(crate) complete: bool,
    /// The most grants on one way.
    pub(crate) grants: u32,
    pub(crate) violation: Option<String>,
}

/// One thing that can happen next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request reaches the store, and its answer the sidecar's inbox; or its answer is lost; or it comes again later.
    Store {
        request: usize,
        answer_lost: bool,
        again: bool,
    },
    LoseRequest(usize),
    /// A sidecar looks at what came in first.
    Look(usize),
    /// A sidecar looks at the clock.
    Wake(usize),
    Time,
    /// A client gives its lock back, after it has stopped to believe.
    Release(usize),
}

impl State {
    fn new(bounds: Bounds) -> Self {
        let settings =
            Settings { poll_cap: Duration::from_secs(5), hand_off: Duration::from_secs(5) };
        let sidecars = (0..2)
            .map(|seed| Sidecar {
                hold: Hold::new(settings, Memory::default(), seed, Instant::default()),
                supplied: 0,
                inbox: Vec::new(),
            })
            .collect();
        let mut state = Self {
            now: Duration::from_secs(1),
            sidecars,
            storage: Storage::new(),
            requests: Vec::new(),
            beliefs: vec![None; 2],
            highest: 0,
            bounds,
            grants: 0,
        };
        for index in 0..2 {
            let terms = Arc::new(plain_terms(15, Duration::from_secs(600)));
            let caller = CallerId(index as u64);
            let arrived = Event::CallerArrived { caller, terms };
            state.sidecars[index].inbox.push(Arc::new(arrived));
        }
        state
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let Bounds { losses, duplicates, .. } = self.bounds;
        for request in 0..self.requests.len() {
            steps.push(Step::Store { request, answer_lost: false, again: false });
            if losses > 0 {
                steps.push(Step::Store { request, answer_lost: true, again: false });
                steps.push(Step::LoseRequest(request));
            }
            if duplicates > 0 {
                steps.push(Step::Store { request, answer_lost: false, again: true });
            }
        }
        for (index, sidecar) in self.sidecars.iter().enumerate() {
            if !sidecar.inbox.is_empty() {
                steps.push(Step::Look(index));
            }
            let due = sidecar.hold.next_wakeup();
            if due.is_some_and(|due| due <= Instant::from_boot(self.now)) {
                steps.push(Step::Wake(index));
            }
            if self.beliefs[index].is_some() {
                steps.push(Step::Release(index));
            }
        }
        if self.bounds.steps > 0 {
            steps.push(Step::Time);
        }
        steps
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Store { request, answer_lost, again } => {
                let (sidecar, action) = match again {
                    true => self.requests[request].clone(),
                    false => self.requests.remove(request),
                };
                let event = self.storage.apply(&action, self.now, &mut Truth::default());
                self.bounds.duplicates -= u8::from(again);
                self.bounds.losses -= u8::from(answer_lost);
                if answer_lost {
                    let unanswered = failed(&action, unknown(TroubleKind::Unavailable));
                    self.sidecars[sidecar].inbox.extend(unanswered.map(Arc::new));
                } else if !again {
                    self.sidecars[sidecar].inbox.push(Arc::new(event));
                }
            }
            Step::LoseRequest(request) => {
                self.bounds.losses -= 1;
                let (sidecar, action) = self.requests.remove(request);
                let unanswered = failed(&action, unknown(TroubleKind::Unavailable));
                self.sidecars[sidecar].inbox.extend(unanswered.map(Arc::new));
            }
            Step::Look(index) => {
                let event = self.sidecars[index].inbox.remove(0);
                return self.feed(index, again(&event));
            }
            Step::Wake(index) => return self.feed(index, Event::Wakeup),
            Step::Time => {
                self.bounds.steps -= 1;
                self.now += STEP;
                let now = Instant::from_boot(self.now);
                for belief in &mut self.beliefs {
                    *belief = belief.filter(|belief| now < belief.until);
                }
            }
            Step::Release(index) => {
                self.beliefs[index] = None;
                let caller = CallerId(index as u64);
                self.sidecars[index].inbox.push(Arc::new(Event::ReleaseAsked { caller }));
            }
        }
        Ok(())
    }

    fn feed(&mut self, index: usize, event: Event) -> Result<(), String> {
        let sidecar = &mut self.sidecars[index];
        if sidecar.hold.needs_lease_id() {
            sidecar.supplied += 1;
            let id = Uuid::from_u64_pair(index as u64 + 1, sidecar.supplied);
            sidecar.hold.supply(LeaseId::from_uuid(id));
        }
        for action in sidecar.hold.on(event, Instant::from_boot(self.now)) {
            match action {
                Action::TellGranted { grant, .. } => {
                    self.grants += 1;
                    let token = grant.token.value();
                    if token <= self.highest {
                        return Err(format!("S5: {token} after {}", self.highest));
                    }
                    self.highest = token;
                    self.believe(index, Belief { until: grant.valid_until, token })?;
                }
                Action::TellRenewed { valid_until, .. }
                | Action::TellRecovered { valid_until, .. } => {
                    if let Some(belief) = self.beliefs[index] {
                        self.believe(index, Belief { until: valid_until, ..belief })?;
                    }
                }
                Action::TellLost { .. } => self.beliefs[index] = None,
                action if failed(&action, unknown(TroubleKind::Unavailable)).is_some() => {
                    self.requests.push((index, action));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn believe(&mut self, index: usize, belief: Belief) -> Result<(), String> {
        self.beliefs[index] =
            Some(belief).filter(|belief| Instant::from_boot(self.now) < belief.until);
        match &self.beliefs[..] {
            [Some(first), Some(second)] => Err(format!("S1: {first:?} beside {second:?}")),
            _ => Ok(()),
        }
    }

    /// Two states with one fingerprint go on alike.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Self { now, sidecars, storage, requests, beliefs, highest, bounds, .. } = self;
        format!("{now:?}{sidecars:?}{storage:?}{requests:?}{beliefs:?}{highest}{bounds:?}")
            .hash(&mut hasher);
        hasher.finish()
    }
}

/// Events are looked at once in each order in which they may be: a copy each time.
fn again(event: &Event) -> Event {
    match event {
        Event::CallerArrived { caller, terms } => {
            Event::CallerArrived { caller: *caller, terms: Arc::clone(terms) }
        }
        Event::ReleaseAsked { caller } => Event::ReleaseAsked { caller: *caller },
        Event::AcquireAnswered { request, answer, read } => {
            Event::AcquireAnswered { request: *request, answer: answer.clone(), read: read.clone() }
        }
        Event::ReadAnswered { request, answer } => {
            Event::ReadAnswered { request: *request, answer: answer.clone() }
        }
        Event::WriteAnswered { request, answer } => {
            Event::WriteAnswered { request: *request, answer: answer.clone() }
        }
        Event::RenewAnswered { request, answer } => {
            Event::RenewAnswered { request: *request, answer: answer.clone() }
        }
        Event::ReleaseAnswered { request, answer } => {
            Event::ReleaseAnswered { request: *request, answer: answer.clone() }
        }
        other => panic!("this does not happen here: {other:?}"),
    }
}

/// Takes every step that is possible, from every state that is new, the shortest ways first.
pub(crate) fn explore(bounds: Bounds, most: u64) -> Explored {
    let mut explored = Explored::default();
    let mut seen = HashSet::new();
    let mut open = VecDeque::from([(0, State::new(bounds))]);
    while let Some((depth, state)) = open.pop_front() {
        explored.depth = depth;
        explored.grants = explored.grants.max(state.grants);
        if explored.states == most {
            return explored;
        }
        explored.states += 1;
        for step in state.steps() {
            let mut next = state.clone();
            if let Err(violation) = next.take(step) {
                explored.violation = Some(format!("{violation}, after {step:?} in {state:?}"));
                return explored;
            }
            if seen.insert(next.fingerprint()) {
                open.push_back((depth + 1, next));
            }
        }
    }
    explored.complete = true;
    explored
}
