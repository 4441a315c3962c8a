//! Sees what callers are told, and holds it against S1, S4 and S5.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::rig::Account;
use crate::coordinator::{Grant, Validity};
use crate::lock::FencingToken;
use crate::time::{BootReading, Clock as _, Instant};

/// Timers are as fine as a millisecond.
const TICK: Duration = Duration::from_millis(2);

/// The judge of one run.
#[derive(Clone, Debug)]
pub(crate) struct Checker {
    account: Account,
    seed: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Who believes in its hold of which lock, and until when at the most.
    beliefs: BTreeMap<String, Vec<(u64, Instant)>>,
    newest: BTreeMap<String, FencingToken>,
    next: u64,
    grants: usize,
    losses: usize,
    resumes: usize,
}

/// One client's belief in its hold.
#[derive(Debug)]
pub(crate) struct Belief {
    number: u64,
    lock: String,
    token: FencingToken,
}

impl Checker {
    pub(crate) fn new(account: &Account, seed: u64) -> Self {
        Self { account: account.clone(), seed, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A client was granted the lock, and believes in it from now on.
    pub(crate) fn granted(&self, grant: &Grant) -> Belief {
        let lock = grant.path.to_string();
        let mut state = self.state();
        let newest = state.newest.get(&lock).copied();
        let seed = self.seed;
        assert!(newest < Some(grant.token), "S5, seed {seed}: {} after {newest:?}", grant.token);
        state.newest.insert(lock.clone(), grant.token);
        state.grants += 1;
        state.next += 1;
        let belief = Belief { number: state.next, lock, token: grant.token };
        drop(state);
        self.believes(&belief, &grant.validity);
        belief
    }

    /// A client goes on with its hold.
    pub(crate) fn resumed(&self, belief: &Belief, grant: &Grant) {
        assert_eq!(belief.token, grant.token, "S16, seed {}", self.seed);
        self.state().resumes += 1;
        self.believes(belief, &grant.validity);
    }

    /// A client was told a new validity of a hold in which it still believes.
    pub(crate) fn renewed(&self, belief: &Belief, validity: &Validity) {
        let until = self.believed_until(belief);
        assert!(until.is_some_and(|until| self.account.now() < until), "S4, seed {}", self.seed);
        self.believes(belief, validity);
    }

    /// A client was told that its hold is lost.
    pub(crate) fn lost(&self, belief: &Belief) {
        let now = self.account.now();
        if let Some(until) = self.believed_until(belief) {
            assert!(now <= until + TICK, "S4, seed {}: told {:?} late", self.seed, now - until);
        }
        self.state().losses += 1;
        self.ended(belief);
    }

    /// A client believes in its hold no more.
    pub(crate) fn ended(&self, belief: &Belief) {
        if let Some(beliefs) = self.state().beliefs.get_mut(&belief.lock) {
            beliefs.retain(|(number, _)| *number != belief.number);
        }
    }

    /// Whether this client may still act.
    pub(crate) fn is_believed(&self, belief: &Belief) -> bool {
        self.believed_until(belief).is_some_and(|until| self.account.now() < until)
    }

    /// What a client that resumes says of its validity.
    pub(crate) fn told(&self, belief: &Belief) -> Option<BootReading> {
        self.believed_until(belief).map(|until| self.account.clock.boot_reading(until))
    }

    /// Grants, losses and resumes that were seen.
    pub(crate) fn seen(&self) -> [usize; 3] {
        let state = self.state();
        [state.grants, state.losses, state.resumes]
    }

    fn believed_until(&self, belief: &Belief) -> Option<Instant> {
        let state = self.state();
        let beliefs = state.beliefs.get(&belief.lock)?;
        beliefs.iter().find(|(number, _)| *number == belief.number).map(|(_, until)| *until)
    }

    fn believes(&self, belief: &Belief, validity: &Validity) {
        let now = self.account.now();
        let until = Instant::from_boot(validity.valid_until.since_boot);
        let mut state = self.state();
        let beliefs = state.beliefs.entry(belief.lock.clone()).or_default();
        let mut others = beliefs.iter().filter(|(number, _)| *number != belief.number);
        let other = others.find(|(_, until)| now < *until).copied();
        let (seed, lock) = (self.seed, &belief.lock);
        assert_eq!(other, None, "S1, seed {seed}: {lock} has another holder at {now:?}");
        beliefs.retain(|(number, _)| *number != belief.number);
        beliefs.push((belief.number, until));
    }
}
