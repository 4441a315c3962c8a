//! Who is where: a lock's own path to its task, lease id to hold, what is remembered of locks that nobody wants now, and the
//! limits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use tokio::sync::watch;

use super::error::CallError;
use super::following::Followed;
use super::inbox::Inbox;
use super::request::Gauges;
use super::task::Command;
use crate::hold::{CallerId, LossReason, Memory};
use crate::lock::{FencingToken, LeaseId, LockPath};
use crate::time::Instant;

/// Ended holds whose end is remembered, so that a late release is told the outcome of its hold (S13).
const MAX_ENDED: usize = 10_000;
/// Locks that are remembered while nobody wants them: enough for a steady set of jobs, bounded for keys without end.
const MAX_MEMORIES: usize = 10_000;

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Released,
    Lost(LossReason),
}

#[derive(Clone, Debug)]
pub(super) struct HoldEntry {
    /// The lock's own path, whichever permit is held.
    pub(super) path: LockPath,
    pub(super) caller: CallerId,
    pub(super) generation: u64,
    pub(super) valid_until: Instant,
    pub(super) at_risk: bool,
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    tasks: HashMap<LockPath, Inbox>,
    holds: HashMap<LeaseId, HoldEntry>,
    ended: Remembered<LeaseId, (Ended, u64)>,
    memories: Remembered<LockPath, Memory>,
    watchers: HashMap<LockPath, watch::Sender<u64>>,
    /// By what the names in the container begin with.
    followed: HashMap<String, Arc<Followed>>,
    collided: HashSet<LockPath>,
    /// Locks whose callers name different numbers of permits (S29).
    differing: HashSet<LockPath>,
    waiters: usize,
    draining: bool,
    /// The holds go on at a replacement (S15).
    hands_over: bool,
}

impl Registry {
    /// Sends `command` to the path's task; gives it back if there is none.
    pub(super) fn send(&self, path: &LockPath, command: Command) -> Result<(), Command> {
        match self.tasks.get(path) {
            Some(inbox) => {
                inbox.send(command);
                Ok(())
            }
            None => Err(command),
        }
    }

    pub(super) fn send_to_all(&self, command: impl Fn() -> Command) {
        // In the order of their paths, so that a simulated world replays.
        let mut tasks: Vec<_> = self.tasks.iter().collect();
        tasks.sort_by_key(|(path, _)| *path);
        for (_, inbox) in tasks {
            inbox.send(command());
        }
    }

    pub(super) fn add_task(&mut self, path: LockPath, inbox: Inbox) -> Memory {
        let memory = self.recall(&path);
        self.tasks.insert(path, inbox);
        memory
    }

    /// What is remembered of the lock or permit of this path, which its task knows from now on.
    pub(super) fn recall(&mut self, path: &LockPath) -> Memory {
        self.memories.take(path).unwrap_or_default()
    }

    /// Takes an idle task out, and remembers what it knows of each of its permits. Commands are sent under the registry's lock,
    /// so none can come in after this.
    pub(super) fn retire(
        &mut self,
        path: &LockPath,
        memories: impl Iterator<Item = (LockPath, Memory)>,
    ) {
        self.tasks.remove(path);
        for (path, memory) in memories {
            self.memories.put(path, memory, MAX_MEMORIES);
        }
    }

    /// The greatest token known of a lock that has no task (S5).
    pub(super) fn highest(&self, path: &LockPath) -> Option<FencingToken> {
        self.memories.get(path).and_then(|memory| memory.highest)
    }

    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    pub(super) fn hold(&self, lease_id: LeaseId) -> Option<&HoldEntry> {
        self.holds.get(&lease_id)
    }

    pub(super) fn hold_mut(&mut self, lease_id: LeaseId) -> Option<&mut HoldEntry> {
        self.holds.get_mut(&lease_id)
    }

    /// How a hold ended here; none for a call with a generation that it has got elsewhere since (S16).
    pub(super) fn ended(&self, lease_id: LeaseId, generation: Option<u64>) -> Option<Ended> {
        let (ended, last) = self.ended.get(&lease_id).copied()?;
        generation.is_none_or(|generation| generation <= last).then_some(ended)
    }

    pub(super) fn begin_hold(&mut self, lease_id: LeaseId, entry: HoldEntry) {
        self.ended.take(&lease_id);
        self.holds.insert(lease_id, entry);
    }

    /// `caller`'s hold is over. Nothing happens if the hold is another caller's by now, or was none here: a resume that is
    /// refused says nothing of a hold that went on elsewhere or ended before (S16).
    pub(super) fn end_hold(&mut self, lease_id: LeaseId, caller: CallerId, ended: Ended) {
        if let Some(entry) = self.holds.get(&lease_id).filter(|entry| entry.caller == caller) {
            let generation = entry.generation;
            self.holds.remove(&lease_id);
            self.ended.put(lease_id, (ended, generation), MAX_ENDED);
        }
    }

    /// `caller`'s hold goes on at another sidecar: nothing is known of it here any more (S16).
    pub(super) fn forget_hold(&mut self, lease_id: LeaseId, caller: CallerId) {
        if self.holds.get(&lease_id).is_some_and(|entry| entry.caller == caller) {
            self.holds.remove(&lease_id);
        }
    }

    /// A resume has taken the place of `caller` (S16).
    pub(super) fn supersede(&mut self, lease_id: LeaseId, caller: CallerId, to: CallerId) {
        if let Some(entry) = self.holds.get_mut(&lease_id).filter(|entry| entry.caller == caller) {
            entry.caller = to;
        }
    }

    /// Counts in a caller that goes on with a hold: it was let in once, so no limit refuses it (S16).
    pub(super) const fn admit_resume(&mut self) {
        self.waiters += 1;
    }

    /// Counts a caller in, within the limits.
    pub(super) fn admit(&mut self, holds: usize, waiters: usize) -> Result<(), CallError> {
        if self.holds.len() >= holds {
            return Err(CallError::TooManyHolds { limit: holds });
        }
        if self.waiters >= waiters {
            return Err(CallError::TooManyWaiters { limit: waiters });
        }
        self.waiters += 1;
        Ok(())
    }

    pub(super) fn waiter_gone(&mut self) {
        debug_assert!(self.waiters > 0, "a waiter is counted out that was not counted in");
        self.waiters = self.waiters.saturating_sub(1);
    }

    pub(super) const fn is_draining(&self) -> bool {
        self.draining
    }

    pub(super) const fn start_draining(&mut self) {
        self.draining = true;
    }

    /// The same, and from now on what is not known here may be at the replacement (S15).
    pub(super) const fn start_hand_over(&mut self) {
        self.start_draining();
        self.hands_over = true;
    }

    /// Why a call about a hold that is not here is refused. One that is here has been resumed since.
    pub(super) fn why_over(&self, lease_id: LeaseId, generation: Option<u64>) -> CallError {
        if self.holds.contains_key(&lease_id) {
            return CallError::ResumedSince;
        }
        match self.ended(lease_id, generation) {
            None => self.unknown_lease(),
            Some(Ended::Released) => CallError::HoldReleased,
            Some(Ended::Lost(reason)) => CallError::HoldLost { reason },
        }
    }

    /// Why a call about a hold of which nothing is known here is refused.
    pub(super) fn unknown_lease(&self) -> CallError {
        if self.hands_over { CallError::handed_over() } else { CallError::UnknownLease }
    }

    /// Whether this is the first collision seen on this path.
    pub(super) fn is_new_collision(&mut self, path: &LockPath) -> bool {
        self.collided.len() < MAX_MEMORIES && self.collided.insert(path.clone())
    }

    /// Whether this is the first time that callers of this lock are seen to name different numbers of permits.
    pub(super) fn is_new_difference(&mut self, path: &LockPath) -> bool {
        self.differing.len() < MAX_MEMORIES && self.differing.insert(path.clone())
    }

    /// Lets a watcher know of changes to `path` made by this sidecar.
    pub(super) fn watch(&mut self, path: &LockPath) -> watch::Receiver<u64> {
        self.watchers.retain(|_, sender| sender.receiver_count() > 0);
        self.watchers.entry(path.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Those who follow the locks under `prefix`, and whether there were none.
    pub(super) fn follow(&mut self, prefix: &str) -> (Arc<Followed>, bool) {
        if let Some(followed) = self.followed.get(prefix) {
            return (Arc::clone(followed), false);
        }
        let followed = Arc::<Followed>::default();
        self.followed.insert(prefix.to_owned(), Arc::clone(&followed));
        (followed, true)
    }

    /// Nobody can follow the locks under `prefix` by what was kept until now.
    pub(super) fn unfollow(&mut self, prefix: &str) {
        self.followed.remove(prefix);
    }

    /// Whether somebody still follows the locks under `prefix`; if not, whoever comes begins anew.
    pub(super) fn keeps_following(&mut self, prefix: &str) -> bool {
        let goes_on = self.followed.get(prefix).is_some_and(|followed| followed.has_followers());
        if !goes_on {
            self.unfollow(prefix);
        }
        goes_on
    }

    pub(super) fn changed(&self, path: &LockPath) {
        self.tell_watchers(path, false);
    }

    /// The same, and nobody holds the lock unless it was handed on here.
    pub(super) fn released(&self, path: &LockPath) {
        self.tell_watchers(path, true);
    }

    fn tell_watchers(&self, path: &LockPath, released: bool) {
        if let Some(sender) = self.watchers.get(path) {
            sender.send_modify(|changes| *changes += 1);
        }
        for (prefix, followed) in &self.followed {
            if path.name().starts_with(prefix) {
                followed.note(path, released);
            }
        }
    }

    pub(super) fn gauges(&self) -> Gauges {
        Gauges {
            holds: self.holds.len(),
            waiters: self.waiters,
            at_risk: self.holds.values().filter(|hold| hold.at_risk).count(),
            paths: self.tasks.len(),
            earliest_valid_until: self.holds.values().map(|hold| hold.valid_until).min(),
            draining: self.draining,
        }
    }
}

/// Places in an order that are not worth tidying.
const SPARE: usize = 64;

/// A map that forgets what came in first once it is full.
#[derive(Debug)]
struct Remembered<K, V> {
    map: HashMap<K, (u64, V)>,
    /// Keys in the order in which they came in, each with the number of its entry.
    order: VecDeque<(u64, K)>,
    entries: u64,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self { map: HashMap::new(), order: VecDeque::new(), entries: 0 }
    }
}

impl<K: Clone + Eq + Hash, V> Remembered<K, V> {
    fn put(&mut self, key: K, value: V, limit: usize) {
        self.entries += 1;
        self.map.insert(key.clone(), (self.entries, value));
        self.order.push_back((self.entries, key));
        // Places in the order whose entry was taken or replaced are dropped when they come to the front, or when
        // they are more than the entries that are there: as many as may be there would take hours to come.
        while self.map.len() > limit {
            let Some((entry, oldest)) = self.order.pop_front() else { break };
            if self.map.get(&oldest).is_some_and(|(current, _)| *current == entry) {
                self.map.remove(&oldest);
            }
        }
        if self.order.len() > self.map.len() * 2 + SPARE {
            let map = &self.map;
            self.order
                .retain(|(entry, key)| map.get(key).is_some_and(|(current, _)| current == entry));
        }
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key).map(|(_, value)| value)
    }

    fn take(&mut self, key: &K) -> Option<V> {
        self.map.remove(key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut remembered = Remembered::default();
        for round in 0..1_000_u32 {
            remembered.put(round, round, 10);
            if round % 3 == 0 {
                remembered.take(&round);
            }
            assert!(remembered.map.len() <= 10);
            assert!(remembered.order.len() <= 20 + SPARE);
        }
        for round in 0..1_000 {
            remembered.put(7, round, 10);
            remembered.take(&7);
            assert!(remembered.order.len() <= 20 + SPARE);
        }
        assert_eq!(remembered.get(&998), Some(&998));
        assert_eq!(remembered.get(&1), None);
    }

    #[test]
    fn s16_a_resume_that_is_refused_changes_nothing_of_how_a_hold_ended() {
        let mut registry = Registry::default();
        let lease_id = LeaseId::from_uuid(uuid::Uuid::from_u128(1));
        let lost = Ended::Lost(LossReason::Taken);
        registry.end_hold(lease_id, CallerId(1), lost);
        assert_eq!(registry.ended(lease_id, None), None, "nothing was known of it here");
        registry.ended.put(lease_id, (Ended::Released, 1), MAX_ENDED);
        registry.end_hold(lease_id, CallerId(2), lost);
        assert_eq!(registry.ended(lease_id, None), Some(Ended::Released));
    }

    #[test]
    fn locks_that_come_and_go_leave_no_trail_in_the_order() {
        let mut remembered = Remembered::default();
        for round in 0..10_000_u32 {
            let key = round % 10;
            remembered.take(&key);
            remembered.put(key, round, 10_000);
            assert!(remembered.order.len() <= 20 + SPARE, "in round {round}");
        }
        assert_eq!(remembered.get(&9), Some(&9_999));
    }
}
