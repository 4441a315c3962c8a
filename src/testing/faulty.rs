//! A wrapper that loses, delays, repeats and refuses, by a seed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::SeededRandom;
use crate::store::{Features, LeaseStore, Operation, StoreAnswer, StoreError, StoreRequest};
use crate::time::{Clock, Instant};

/// How often what goes wrong: chances of each request, in permille; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The request is lost on its way, and nothing is done.
    pub lose_request: u16,
    /// It is done, and the answer is lost.
    pub lose_answer: u16,
    /// It is done once more later, whatever became of the first.
    pub repeat: u16,
    /// It arrives late: after others that were sent later, and though its caller may have given up.
    pub delay_request: u16,
    /// It is done in time, and the answer comes late.
    pub delay_answer: u16,
    /// The store asks for patience.
    pub throttle: u16,
    /// The store refuses the credentials.
    pub deny: u16,
    /// The longest delay, and the longest time until a repetition.
    pub longest_delay: Duration,
    /// The longest that a loss goes unnoticed; zero for connections that are reset at once.
    pub longest_silence: Duration,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// [`FaultPlan::lose_request`]
    RequestLost,
    /// [`FaultPlan::lose_answer`]
    AnswerLost,
    /// [`FaultPlan::repeat`]
    Repeated,
    /// [`FaultPlan::delay_request`]
    RequestDelayed,
    /// [`FaultPlan::delay_answer`]
    AnswerDelayed,
    /// [`FaultPlan::throttle`]
    Throttled,
    /// [`FaultPlan::deny`]
    Denied,
    /// [`FaultyStore::go_down`]
    Down,
}

/// Passes requests on to a store as a bad network and a bad day would.
///
/// Requests run in tasks of their own: who drops the answer's future does not call the request back. Delays
/// are tokio's timers, so with its clock paused they take no time; the same requests in the same order and
/// the same seed meet the same faults.
#[derive(Debug)]
pub struct FaultyStore<S> {
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    state: Mutex<FaultState>,
}

#[derive(Debug)]
struct FaultState {
    random: SeededRandom,
    plan: FaultPlan,
    down_until: Option<Instant>,
    /// It goes down for good at the next request of this kind.
    dies_before: Option<Operation>,
    /// Requests of this kind wait, before they are sent, until they are let go.
    held: Option<(Operation, Arc<Notify>)>,
    accepted: Accepted,
    /// So many of the next requests are throttled.
    throttles_next: u64,
    /// What goes wrong with the next request of each kind.
    next: VecDeque<(Operation, NextFault)>,
    injected: BTreeMap<Fault, u64>,
}

/// How many requests the store takes in one second.
#[derive(Debug)]
struct Accepted {
    most: Option<u64>,
    second: u64,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
enum InjectedRefusal {
    Throttle,
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextFault {
    RequestLost,
    AnswerLost,
    AnswerThrottled,
}

/// The longest patience that a store that throttles asks for.
const LONGEST_PATIENCE: Duration = Duration::from_secs(2);

/// What becomes of one request that is sent.
#[derive(Debug)]
struct Fate {
    /// It is refused at once, and the rest does not matter.
    refusal: Option<InjectedRefusal>,
    patience: Duration,
    request_lost: bool,
    answer_lost: bool,
    answer_throttled: bool,
    request_delay: Duration,
    answer_delay: Duration,
    repeated_after: Option<Duration>,
    silence: Duration,
}

impl<S> FaultyStore<S> {
    /// Wraps `store`; `clock` tells when a store that is down comes up.
    pub const fn new(store: Arc<S>, clock: Arc<dyn Clock>, seed: u64, plan: FaultPlan) -> Self {
        let state = FaultState {
            random: SeededRandom::new(seed),
            plan,
            down_until: None,
            dies_before: None,
            held: None,
            accepted: Accepted { most: None, second: 0, count: 0 },
            throttles_next: 0,
            next: VecDeque::new(),
            injected: BTreeMap::new(),
        };
        Self { store, clock, state: Mutex::new(state) }
    }

    /// The store behind.
    pub const fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// From now on, by this plan.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.state().plan = plan;
    }

    /// Refuses every connection for this long from now, [`Duration::MAX`] for good; zero brings it up.
    pub fn go_down(&self, span: Duration) {
        let until = self.clock.now() + span;
        self.state().down_until = Some(until);
    }

    /// Goes down for good just before the next request of this kind: what came before it is done.
    pub fn die_before(&self, operation: Operation) {
        self.state().dies_before = Some(operation);
    }

    /// From now on, requests of this kind wait before they are sent, until somebody notifies them: a sidecar
    /// that is paused there. Those that come later wait no more then.
    pub fn hold_before(&self, operation: Operation) -> Arc<Notify> {
        let let_go = Arc::<Notify>::default();
        self.state().held = Some((operation, Arc::clone(&let_go)));
        let_go
    }

    /// Takes this many requests a second at most, and asks for patience beyond; `None` takes them all.
    pub fn accept_at_most(&self, a_second: Option<u64>) {
        self.state().accepted.most = a_second;
    }

    /// Asks for patience in the next so many requests, whatever they are, and in none after them.
    pub fn throttle_next(&self, requests: u64) {
        self.state().throttles_next = requests;
    }

    /// Loses the next request of this kind on its way: nothing is done. May be said of several: the second
    /// from when the first is lost.
    pub fn lose_next(&self, operation: Operation) {
        self.state().next.push_back((operation, NextFault::RequestLost));
    }

    /// Does the next request of this kind, and loses the answer. May be said of several, as of
    /// [`lose_next`](Self::lose_next).
    pub fn lose_next_answer(&self, operation: Operation) {
        self.state().next.push_back((operation, NextFault::AnswerLost));
    }

    /// Does the next request of this kind, and asks for patience all the same. May be said of several, as of
    /// [`lose_next`](Self::lose_next).
    pub fn throttle_next_answer(&self, operation: Operation) {
        self.state().next.push_back((operation, NextFault::AnswerThrottled));
    }

    /// How often this went wrong so far.
    pub fn injected(&self, fault: Fault) -> u64 {
        self.state().injected.get(&fault).copied().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self, operation: Operation) -> Result<Fate, StoreError> {
        let now = self.clock.now();
        let mut state = self.state();
        if state.dies_before.take_if(|dies_before| *dies_before == operation).is_some() {
            state.down_until = Some(now + Duration::MAX);
        }
        if state.down_until.is_some_and(|until| now < until) {
            *state.injected.entry(Fault::Down).or_default() += 1;
            let source = "connection refused".into();
            return Err(StoreError::Unavailable { sent: false, source });
        }
        let one_of_the_next = state.throttles_next > 0;
        state.throttles_next = state.throttles_next.saturating_sub(1);
        if one_of_the_next || !state.accepted.takes(now) {
            *state.injected.entry(Fault::Throttled).or_default() += 1;
            return Err(StoreError::Throttled {
                sent: true,
                retry_after: None,
                source: "server busy".into(),
            });
        }
        let mut drawn = state.draw();
        let next = state.next.front().copied().filter(|(next, _)| *next == operation);
        if let Some((_, next)) = next {
            state.next.pop_front();
            drawn.request_lost = next == NextFault::RequestLost;
            drawn.answer_lost = next == NextFault::AnswerLost;
            drawn.answer_throttled = next == NextFault::AnswerThrottled;
            let fault = match next {
                NextFault::RequestLost => Fault::RequestLost,
                NextFault::AnswerLost => Fault::AnswerLost,
                NextFault::AnswerThrottled => Fault::Throttled,
            };
            *state.injected.entry(fault).or_default() += 1;
        }
        match drawn.refusal {
            Some(InjectedRefusal::Throttle) => {
                let source = "server busy".into();
                Err(StoreError::Throttled { sent: true, retry_after: Some(drawn.patience), source })
            }
            Some(InjectedRefusal::Deny) => {
                let advice = "wait for the fault to pass".to_owned();
                let operation = operation.as_str();
                Err(StoreError::Denied { operation, advice, source: "forbidden".into() })
            }
            None => Ok(drawn),
        }
    }
}

impl Accepted {
    fn takes(&mut self, now: Instant) -> bool {
        let second = now.since_boot().as_secs();
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        let takes = self.most.is_none_or(|most| self.count < most);
        self.count += u64::from(takes);
        takes
    }
}

impl FaultState {
    /// Draws the same number of times whatever the plan, so that two plans of one seed differ in nothing
    /// else; counts only what comes to bear.
    fn draw(&mut self) -> Fate {
        let plan = &self.plan;
        let random = &mut self.random;
        let throttled = random.chance(plan.throttle);
        let denied = random.chance(plan.deny);
        let patience = random.span(LONGEST_PATIENCE);
        let lost = random.chance(plan.lose_request);
        let answer_lost = random.chance(plan.lose_answer);
        let silence = random.span(plan.longest_silence);
        let mut late = |permille| {
            let (late, span) = (random.chance(permille), random.span(plan.longest_delay));
            late.then_some(span)
        };
        let delays = [late(plan.delay_request), late(plan.delay_answer), late(plan.repeat)];
        let [request_delay, answer_delay, repeated_after] = delays;
        let refusal = match (throttled, denied) {
            (true, _) => Some(InjectedRefusal::Throttle),
            (false, true) => Some(InjectedRefusal::Deny),
            (false, false) => None,
        };
        let sent = refusal.is_none();
        let arrived = sent && !lost;
        for (fault, happens) in [
            (Fault::Throttled, throttled),
            (Fault::Denied, denied && !throttled),
            (Fault::RequestLost, sent && lost),
            (Fault::AnswerLost, arrived && answer_lost),
            (Fault::RequestDelayed, arrived && request_delay.is_some()),
            (Fault::AnswerDelayed, arrived && !answer_lost && answer_delay.is_some()),
            (Fault::Repeated, sent && repeated_after.is_some()),
        ] {
            *self.injected.entry(fault).or_default() += u64::from(happens);
        }
        Fate {
            refusal,
            patience,
            request_lost: lost,
            answer_lost,
            answer_throttled: false,
            request_delay: request_delay.unwrap_or_default(),
            answer_delay: answer_delay.unwrap_or_default(),
            repeated_after,
            silence,
        }
    }
}

#[async_trait]
impl<S: LeaseStore + 'static> LeaseStore for FaultyStore<S> {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        let operation = request.operation();
        let held = self.state().held.clone().filter(|(held, _)| *held == operation);
        if let Some((_, let_go)) = held {
            let_go.notified().await;
            self.state().held = None;
        }
        let fate = self.fate(operation)?;
        if let Some(after) = fate.repeated_after {
            let (store, request) = (Arc::clone(&self.store), request.clone());
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                // Nobody waits for the answer to a repetition.
                let _ = store.call(request).await;
            });
        }
        let lost = || StoreError::Unavailable { sent: true, source: "no answer".into() };
        if fate.request_lost {
            tokio::time::sleep(fate.silence).await;
            return Err(lost());
        }
        let store = Arc::clone(&self.store);
        let answer = tokio::spawn(async move {
            tokio::time::sleep(fate.request_delay).await;
            let answer = store.call(request).await;
            tokio::time::sleep(fate.answer_delay).await;
            answer
        });
        if fate.answer_lost {
            tokio::time::sleep(fate.silence).await;
            return Err(lost());
        }
        let answer = answer.await.unwrap_or_else(|error| {
            Err(StoreError::Unavailable { sent: true, source: Box::new(error) })
        });
        match fate.answer_throttled {
            true => Err(StoreError::Throttled {
                sent: true,
                retry_after: None,
                source: "server busy".into(),
            }),
            false => answer,
        }
    }

    fn features(&self) -> Features {
        self.store.features()
    }
}

#[cfg(test)]
#[path = "faulty_tests.rs"]
mod tests;
