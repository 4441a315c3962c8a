//! Every order in which a bounded set of things can happen to two sidecars and one lock, not only those that
//! chance picks.
//!
//! Time goes in steps, fine enough to fall before and after what a clock's reading matters for. Bounded are
//! callers, duplicates, losses, freezes, false alarms of a clock, moves of clients, and the depth.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{
    Action, CallerId, Event, Granted, HolderCall, Memory, Notice, Resume, SaveAsked, SaveId,
    SaveOutcome, Settings, Terms, WriteOf,
};
use leasehold::lock::LeaseId;
use leasehold::queue::PlainLock;
use leasehold::record::{Found, Verdict};
use leasehold::schedule::{Concluded, Occurrence, Report, claim_over, conclude_over};
use leasehold::time::Instant;
use leasehold::timetable::UtcSecond;
use uuid::Uuid;

use crate::kit::explore::{self, Explored};
use crate::kit::store::unanswered;
use crate::simulation::plan::plain_terms;
use crate::simulation::storage::Storage;
use crate::simulation::truth::Truth;

/// What is left of each kind of thing that may go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) losses: u8,
    pub(crate) duplicates: u8,
    pub(crate) steps: u8,
    /// Pauses that a clock wrongly shows (S3).
    pub(crate) suspicions: u8,
    /// Times that a client goes on with its hold at the other sidecar (S16).
    pub(crate) moves: u8,
    /// Both clients name one occurrence, and say at their release that it is done (T2, T8).
    pub(crate) occurrence: bool,
}

/// States after which a run in the test command stops, breadth first.
pub(crate) const STATES: u64 = 20_000;
/// The occurrence that clients name: a minute before the store's time.
const OCCURRENCE: Occurrence = Occurrence { at: UtcSecond(1_800_000_000 - 60), max_attempts: None };
/// Validity ends between two of these, and so does the lease.
const STEP: Duration = Duration::from_millis(7_400);

#[derive(Clone, Debug)]
struct Sidecar {
    hold: PlainLock,
    supplied: u64,
    /// Events that wait to be looked at: it is frozen, or has not come to it.
    inbox: Vec<Arc<Event>>,
}

/// A client, and its belief in its hold, by a clock that all share here: what drifts is the simulator's
/// business.
#[derive(Clone, Debug)]
struct Client {
    /// The sidecar that it calls, and the one it left.
    at: usize,
    former: Option<(usize, CallerId)>,
    caller: CallerId,
    /// It has asked to go on with its hold, and does not know the answer.
    moves: bool,
    grant: Option<Granted>,
    until: Option<Instant>,
}

#[derive(Clone, Debug)]
struct State {
    now: Duration,
    sidecars: Vec<Sidecar>,
    storage: Storage,
    /// Requests on their way to the store.
    requests: Vec<(usize, Action)>,
    clients: Vec<Client>,
    highest: u64,
    bounds: Bounds,
    grants: u32,
    /// What was decided last of each outcome that is being saved.
    concluding: BTreeMap<SaveId, Concluded>,
    /// It was told that the occurrence is done; so many were told that instead of a grant.
    is_done: bool,
    settled: u32,
}

/// One thing that can happen next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request reaches the store, and its answer the sidecar's inbox; or its answer is lost; or it comes
    /// again later.
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
    /// A client releases, after it has stopped to believe: at its sidecar, or at the one that it has left.
    Release {
        client: usize,
        stray: bool,
    },
    /// A sidecar suspects a pause.
    Suspect(usize),
    /// A client goes on with its hold at the other sidecar; the one that it leaves does not notice.
    Move(usize),
}

impl State {
    fn new(bounds: Bounds) -> Self {
        let settings =
            Settings { poll_cap: Duration::from_secs(5), hand_off: Duration::from_secs(5) };
        let sidecars = (0..2)
            .map(|seed| Sidecar {
                hold: PlainLock::new(settings, Memory::default(), seed, Instant::default()),
                supplied: 0,
                inbox: Vec::new(),
            })
            .collect();
        let mut state = Self {
            now: Duration::from_secs(1),
            sidecars,
            storage: Storage::new(),
            requests: Vec::new(),
            clients: Vec::new(),
            highest: 0,
            bounds,
            grants: 0,
            concluding: BTreeMap::new(),
            is_done: false,
            settled: 0,
        };
        for index in 0..2 {
            let terms =
                Terms { decides: bounds.occurrence, ..plain_terms(15, Duration::from_secs(600)) };
            let terms = Arc::new(terms);
            let caller = CallerId(index as u64);
            let arrived = Event::CallerArrived { caller, terms };
            state.sidecars[index].inbox.push(Arc::new(arrived));
            state.clients.push(Client {
                at: index,
                former: None,
                caller,
                moves: false,
                grant: None,
                until: None,
            });
        }
        state
    }
}

impl explore::State for State {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let Bounds { losses, duplicates, suspicions, moves, .. } = self.bounds;
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
            let due = sidecar.hold.poll_timeout();
            if due.is_some_and(|due| due <= Instant::from_boot(self.now)) {
                steps.push(Step::Wake(index));
            }
            if suspicions > 0 && sidecar.hold.holding().is_some() {
                steps.push(Step::Suspect(index));
            }
        }
        for (client, now) in self.clients.iter().enumerate() {
            // Who has sent a resume whose answer it does not know releases nothing (S16).
            if now.until.is_some() && !now.moves {
                steps.push(Step::Release { client, stray: false });
                if now.former.is_some() {
                    steps.push(Step::Release { client, stray: true });
                }
            }
            if now.until.is_some() && moves > 0 {
                steps.push(Step::Move(client));
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
                    self.sidecars[sidecar].inbox.extend(unanswered(&action).map(Arc::new));
                } else if !again {
                    self.sidecars[sidecar].inbox.push(Arc::new(event));
                }
            }
            Step::LoseRequest(request) => {
                self.bounds.losses -= 1;
                let (sidecar, action) = self.requests.remove(request);
                self.sidecars[sidecar].inbox.extend(unanswered(&action).map(Arc::new));
            }
            Step::Look(index) => {
                let event = self.sidecars[index].inbox.remove(0);
                return self.feed(index, Event::clone(&event));
            }
            Step::Wake(index) => return self.feed(index, Event::TimePassed),
            Step::Time => {
                self.bounds.steps -= 1;
                self.now += STEP;
                let now = Instant::from_boot(self.now);
                for client in &mut self.clients {
                    client.until = client.until.filter(|until| now < *until);
                }
            }
            Step::Suspect(index) => {
                self.bounds.suspicions -= 1;
                return self.feed(index, Event::PauseSuspected);
            }
            Step::Move(index) => self.go_on_elsewhere(index),
            Step::Release { client, stray } => {
                let client = &mut self.clients[client];
                client.until = None;
                let place = client.former.filter(|_| stray).unwrap_or((client.at, client.caller));
                let generation = client.grant.as_ref().map(|grant| grant.generation);
                let (at, caller) = place;
                if self.bounds.occurrence {
                    // Each client ends its hold once, at each of the places that it has been to.
                    let id = SaveId(caller.0);
                    let save = SaveAsked { id, value: None, decides: true };
                    let saved = Event::Call { caller, generation, call: HolderCall::Save(save) };
                    self.sidecars[at].inbox.push(Arc::new(saved));
                }
                let released = Event::Call { caller, generation, call: HolderCall::Release };
                self.sidecars[at].inbox.push(Arc::new(released));
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        let Self { now, sidecars, storage, requests, clients, highest, bounds, .. } = self;
        let Self { concluding, is_done, .. } = self;
        let world = (now, sidecars, storage, requests, clients);
        format!("{world:?}{highest}{bounds:?}{concluding:?}{is_done}")
    }
}

impl State {
    fn feed(&mut self, index: usize, event: Event) -> Result<(), String> {
        let sidecar = &mut self.sidecars[index];
        if sidecar.hold.needs_lease_id() {
            sidecar.supplied += 1;
            let id = Uuid::from_u64_pair(index as u64 + 1, sidecar.supplied);
            sidecar.hold.supply(LeaseId::from_uuid(id));
        }
        let mut asked = None;
        for action in sidecar.hold.handle_event(event, Instant::from_boot(self.now)) {
            match action {
                Action::Decide { of, found } => asked = Some((of, found)),
                Action::Tell { notice: Notice::Settled { .. }, .. } => self.settled += 1,
                Action::Saved { id, outcome: SaveOutcome::Saved { .. } } => {
                    let concluded = self.concluding.remove(&id);
                    self.is_done |= matches!(concluded, Some(Concluded::Write(_)));
                }
                Action::Tell { notice: Notice::Granted(grant), .. }
                    if self.is_done && !grant.resumed =>
                {
                    return Err(format!(
                        "T2: {} is granted, and the occurrence is done",
                        grant.token
                    ));
                }
                Action::Tell { caller, notice: Notice::Granted(grant) } => {
                    let token = grant.token.value();
                    if !grant.resumed {
                        self.grants += 1;
                        if token <= self.highest {
                            return Err(format!("S5: {token} after {}", self.highest));
                        }
                        self.highest = token;
                    }
                    let until = grant.valid_until;
                    if let Some(client) = self.client(caller) {
                        // A validity that is over is not given again (S16).
                        let goes_on = !grant.resumed || client.until.is_some();
                        client.moves = false;
                        client.grant = Some(grant);
                        if goes_on {
                            self.believe(caller, until)?;
                        }
                    }
                }
                Action::Tell {
                    caller,
                    notice: Notice::Renewed { valid_until } | Notice::Recovered { valid_until },
                } if self.client(caller).is_some_and(|client| client.until.is_some()) => {
                    self.believe(caller, valid_until)?;
                }
                Action::Tell {
                    caller,
                    notice: Notice::Lost { .. } | Notice::ResumeRefused { .. },
                } => {
                    if let Some(client) = self.client(caller) {
                        client.until = None;
                    }
                }
                action @ Action::Store { .. } => {
                    self.requests.push((index, action));
                }
                _ => {}
            }
        }
        match asked {
            Some((of, found)) => {
                let verdict = self.decide(of, &found);
                self.feed(index, Event::Decided { of, verdict })
            }
            None => Ok(()),
        }
    }

    fn decide(&mut self, of: WriteOf, found: &Found) -> Verdict {
        match of {
            WriteOf::Grant(_) => claim_over(found, OCCURRENCE, &[]).0,
            WriteOf::Save(id) => {
                let (verdict, concluded) = conclude_over(found, OCCURRENCE, Report::Succeeded);
                self.concluding.insert(id, concluded);
                verdict
            }
        }
    }

    fn client(&mut self, caller: CallerId) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.caller == caller)
    }

    fn believe(&mut self, caller: CallerId, until: Instant) -> Result<(), String> {
        let now = Instant::from_boot(self.now);
        if let Some(client) = self.client(caller) {
            client.until = Some(until).filter(|until| now < *until);
        }
        match &self.clients[..] {
            [first, second] if first.until.is_some() && second.until.is_some() => {
                Err(format!("S1: {first:?} beside {second:?}"))
            }
            _ => Ok(()),
        }
    }

    fn go_on_elsewhere(&mut self, index: usize) {
        self.bounds.moves -= 1;
        let client = &mut self.clients[index];
        let Some(grant) = client.grant.clone() else { return };
        let there = 1 - client.at;
        client.former = Some((client.at, client.caller));
        client.caller = CallerId(client.caller.0 + 10);
        (client.at, client.moves) = (there, true);
        let resume = Resume {
            lease_id: grant.lease_id,
            token: grant.token,
            generation: grant.generation,
            attempt: format!("{index}-{}", grant.generation),
            terms: Arc::new(plain_terms(15, Duration::ZERO)),
            believed_until: client.until.unwrap_or_default(),
            lease_ends: None,
            acquired_at: grant.acquired_at,
            bounds: None,
        };
        let asked = Event::ResumeAsked { caller: client.caller, resume: Box::new(resume) };
        self.sidecars[there].inbox.push(Arc::new(asked));
    }
}

/// What was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) explored: Explored,
    /// The most grants on one way, and callers that were told that their occurrence is done.
    pub(crate) grants: u32,
    pub(crate) settled: u32,
}

pub(crate) fn explore(bounds: Bounds, most: u64) -> Seen {
    let (mut grants, mut settled) = (0, 0);
    let explored = explore::explore(State::new(bounds), most, |state| {
        grants = grants.max(state.grants);
        settled = settled.max(state.settled);
    });
    Seen { explored, grants, settled }
}
