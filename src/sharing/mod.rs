//! Which locks of a share who has, as far as one sidecar sees: for how long a free one is left to others
//! (S34), and which one is taken from whom (S35).
//!
//! Rules: S34 to S36. May import: hold's values, record, lock, time's values. No IO, no async, no clock, no
//! randomness of its own. There is no membership and no leader: what is known of others is what their records
//! say. To add behaviour: a rule first, then the simulator in `tests/shares`, which drives this room and the
//! machines of `hold` together.

mod balance;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::hold::{ShareUse, Standing};
use crate::lock::FencingToken;
use crate::record::{Priority, Record, ShareName};
use crate::time::Instant;

/// What each lock that is held or being acquired here adds to the time for which a free one is left to others
/// (S34).
const FOR_EACH: Duration = Duration::from_millis(500);
/// The longest that this comes to.
const LONGEST: Duration = Duration::from_secs(15);
/// The longest time between two locks that are acquired here while others have some of the share: longer than
/// another's start or a lost answer keeps it behind, so that who has fewer gets its turn.
const LONGEST_STEP: Duration = Duration::from_secs(3);
/// Poll caps for which a lock is left to others by who has its part of the whole.
const HAS_ITS_PART: u32 = 3;
/// A free lock wakes those who wait for others of its share, at most once in this time.
const BETWEEN_STIRS: Duration = Duration::from_secs(1);

/// The locks of a share that somebody here holds or waits for, and what is known of the others. `K` names a
/// lock.
#[derive(Clone, Debug)]
pub struct Share<K> {
    name: ShareName,
    locks: BTreeMap<K, Lock>,
    /// Locks of the share that nobody here wants, as they were listed last (S35).
    listed: BTreeMap<K, Theirs>,
    /// The lock that is being acquired here: one at a time (S34).
    acquiring: Option<K>,
    stirred_at: Option<Instant>,
    /// When anything was first known of it here.
    begun_at: Option<Instant>,
    /// When a lock of the share was last had here that was not before.
    acquired_at: Option<Instant>,
    /// Sidecars of which a lock was found free, and that were not seen to acquire any since: they stop, or
    /// have died, and what they still have is about to become free.
    leaving: BTreeSet<Arc<str>>,
    balance: balance::Balance,
}

/// One lock of the share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lock {
    seen: Seen,
    /// Whether somebody here holds it.
    held: bool,
    /// Whether it is being acquired here.
    tried: bool,
    /// Whether who waits here for it wants the share rebalanced (S35).
    rebalances: bool,
    /// The priority of who waits here for it.
    priority: Priority,
    /// The grant of which its record was when it was found free: that record says nothing of who has it since
    /// (S36).
    over: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Unknown,
    Free,
    /// Held here, or on the way to it.
    Ours,
    Theirs(Theirs),
}

/// What the record of another sidecar's lock says of it (S36).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Theirs {
    /// None: its holder named no share, or another; it counts for nobody.
    sidecar: Option<Arc<str>>,
    yields: bool,
    priority: Priority,
    /// Of which grant the record is.
    epoch: Option<u64>,
}

impl Theirs {
    fn new(record: &Record, share: &ShareName) -> Self {
        let sharing = record.sharing.as_deref();
        let is_of_share = record.share() == Some(share);
        Self {
            sidecar: (is_of_share && !record.sidecar.is_empty())
                .then(|| Arc::clone(&record.sidecar)),
            yields: sharing.is_some_and(|sharing| sharing.yields),
            priority: sharing.map_or(Priority::NONE, |sharing| sharing.priority),
            epoch: record.token.map(FencingToken::epoch),
        }
    }
}

/// Who waits here for a lock of the share, as far as that matters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Whether it wants the share rebalanced (S35).
    pub rebalances: bool,
    /// The priority of its callers.
    pub priority: Priority,
}

impl<K: Ord + Clone> Share<K> {
    /// A share of this name, of which nothing is known.
    #[must_use]
    pub fn new(name: ShareName) -> Self {
        Self {
            name,
            locks: BTreeMap::new(),
            listed: BTreeMap::new(),
            acquiring: None,
            stirred_at: None,
            begun_at: None,
            acquired_at: None,
            leaving: BTreeSet::new(),
            balance: balance::Balance::default(),
        }
    }

    /// What the machine of `key` is told before it looks at an event. Where it is told that it may acquire,
    /// it is taken to do so until [`Share::note`] says otherwise.
    pub fn standing(&mut self, key: &K, poll_cap: Duration) -> Standing {
        let turn = self.acquiring.as_ref().is_none_or(|other| other == key);
        if turn {
            self.acquiring = Some(key.clone());
        }
        self.listed.remove(key);
        self.locks.entry(key.clone()).or_default();
        let held = self.held_beside(key);
        let (patience, not_before) = self.patience(held, poll_cap);
        Standing { held, patience, not_before, turn }
    }

    /// What the machine of `key` does after an event. The locks whose machines are to be stirred for it: all
    /// others that are waited for here when one was found free; those that were found free when one was
    /// acquired here, or could not be; and with the first that was acquired, those of which nothing is known.
    pub fn note(&mut self, key: &K, used: ShareUse, wanted: Wanted, now: Instant) -> Vec<K> {
        if self.acquiring.as_ref() == Some(key) && used != ShareUse::Acquiring {
            self.acquiring = None;
        }
        self.begun_at.get_or_insert(now);
        let (is_held, is_tried) = (used == ShareUse::Held, used == ShareUse::Acquiring);
        let seen = match used {
            ShareUse::Held | ShareUse::Acquiring => Seen::Ours,
            ShareUse::Unknown => Seen::Unknown,
            ShareUse::Free => Seen::Free,
            ShareUse::Others(record) => Seen::Theirs(Theirs::new(&record, &self.name)),
        };
        let Wanted { rebalances, priority } = wanted;
        let lock = self.locks.entry(key.clone()).or_default();
        let over = match &lock.seen {
            Seen::Theirs(theirs) if seen == Seen::Free => theirs.epoch,
            Seen::Theirs(_) | Seen::Unknown | Seen::Free | Seen::Ours => lock.over,
        };
        let seen = match seen {
            Seen::Theirs(theirs) if over.is_some() && theirs.epoch == over => Seen::Unknown,
            seen @ (Seen::Theirs(_) | Seen::Unknown | Seen::Free | Seen::Ours) => seen,
        };
        let before = std::mem::replace(
            lock,
            Lock { seen, held: is_held, tried: is_tried, rebalances, priority, over },
        );
        let was_tried = before.tried;
        if is_held && !before.held {
            self.acquired_at = Some(now);
        }
        let after = lock.seen.clone();
        let moved = match (&before.seen, &after) {
            (Seen::Theirs(was), Seen::Theirs(is)) => {
                was.epoch != is.epoch && was.sidecar != is.sidecar
            }
            (_, Seen::Unknown | Seen::Free | Seen::Ours | Seen::Theirs(_)) => false,
        };
        if moved {
            self.balance.others_moved(now);
        }
        let freed = matches!((&before.seen, &after), (Seen::Theirs(_), Seen::Free));
        match (before.seen, after) {
            (Seen::Theirs(was), Seen::Free) => {
                self.leaving.extend(was.sidecar);
                // Of whom nothing more is known nothing is about to become free.
                let counts = self.counts();
                self.leaving.retain(|sidecar| counts.contains_key(sidecar));
            }
            (before, Seen::Theirs(is)) => {
                let known = Seen::Theirs(is.clone()) == before;
                if let Some(sidecar) = is.sidecar.filter(|_| !known) {
                    self.leaving.remove(&sidecar);
                }
            }
            (_, Seen::Unknown | Seen::Free | Seen::Ours) => {}
        }
        let stirs =
            freed && self.stirred_at.is_none_or(|at| now.saturating_since(at) >= BETWEEN_STIRS);
        if stirs {
            self.stirred_at = Some(now);
            self.others(key, |lock| lock.seen != Seen::Ours)
        } else if was_tried && !is_tried {
            // A lock that was tried in vain was not read: once some is had, who has the others matters.
            let is_first = is_held && self.held() == 1;
            let unread = |lock: &Lock| is_first && lock.seen == Seen::Unknown;
            self.others(key, |lock| lock.seen == Seen::Free || unread(lock))
        } else {
            Vec::new()
        }
    }

    fn others(&self, key: &K, wanted: impl Fn(&Lock) -> bool) -> Vec<K> {
        let found = self.locks.iter().filter(|(other, lock)| *other != key && wanted(lock));
        found.map(|(other, _)| other.clone()).collect()
    }

    /// Nobody here holds the lock or waits for it any more. Whether nobody does for any of the share.
    pub fn leave(&mut self, key: &K) -> bool {
        self.locks.remove(key);
        self.acquiring.take_if(|acquiring| acquiring == key);
        self.locks.is_empty()
    }

    /// All locks of the share, as they were listed: those that somebody here wants are known better (S35).
    pub fn listed<'a>(&mut self, locks: impl IntoIterator<Item = (K, &'a Record)>) {
        self.listed = locks
            .into_iter()
            .filter(|(key, _)| !self.locks.contains_key(key))
            .map(|(key, record)| (key, Theirs::new(record, &self.name)))
            .collect();
    }

    /// The locks of the share that are waited for here.
    pub fn waited_for(&self) -> impl Iterator<Item = &K> {
        let waits = |lock: &Lock| lock.seen != Seen::Ours;
        self.locks.iter().filter_map(move |(key, lock)| waits(lock).then_some(key))
    }

    /// How many locks of the share are held or being acquired here.
    #[must_use]
    pub fn held(&self) -> u32 {
        count(self.locks.values().filter(|lock| lock.seen == Seen::Ours))
    }

    fn held_beside(&self, key: &K) -> u32 {
        let others = self.locks.iter().filter(|(other, _)| *other != key);
        count(others.filter(|(_, lock)| lock.seen == Seen::Ours))
    }

    /// How many locks each of the other sidecars has, of those that have any.
    fn counts(&self) -> BTreeMap<Arc<str>, u32> {
        let wanted = self.locks.values().filter_map(|lock| match &lock.seen {
            Seen::Theirs(theirs) => theirs.sidecar.clone(),
            Seen::Unknown | Seen::Free | Seen::Ours => None,
        });
        let listed = self.listed.values().filter_map(|theirs| theirs.sidecar.clone());
        let mut counts = BTreeMap::new();
        for sidecar in wanted.chain(listed) {
            *counts.entry(sidecar).or_insert(0) += 1;
        }
        counts
    }

    /// For how long a free lock must have stayed free before a sidecar that has `held` others acquires it
    /// (S34), and before when it does not, however long that was.
    ///
    /// Others see that it is free up to a poll cap later. So whoever is not known to have fewest of all waits
    /// for that as well, whoever knows of somebody with fewer once more, and whoever has its part of the
    /// whole again: else a sidecar that happens to look early takes them all. Many that are free at once
    /// ripen at once, so there is a step between two as well.
    fn patience(&self, held: u32, poll_cap: Duration) -> (Duration, Option<Instant>) {
        if held == 0 {
            return (Duration::ZERO, None);
        }
        let mut counts = self.counts();
        counts.retain(|sidecar, _| !self.leaving.contains(sidecar));
        let least = counts.values().copied().min();
        let sidecars = count(counts.keys()) + 1;
        let all = count(self.locks.keys()) + count(self.listed.keys());
        let (least_part, part) = (all / sidecars, all.div_ceil(sidecars));
        let turns = match least {
            None => 0,
            Some(least) if held < least => 0,
            Some(least) if held >= part || held >= least_part && held > least => HAS_ITS_PART,
            Some(least) if held > least => 2,
            Some(_) => 1,
        };
        // Where every other that is seen has more, half a second is enough, however many there are.
        let each = if least.is_some() && turns == 0 { FOR_EACH } else { FOR_EACH * held };
        let step = each.min(LONGEST_STEP);
        // Who has its part leaves the rest to those who were kept from theirs, however long that has been
        // free.
        let step = if turns == HAS_ITS_PART { step + poll_cap * turns } else { step };
        let not_before = match least {
            Some(_) => self.acquired_at.map(|at| at + step),
            // By then each lock was looked at again: whoever else has begun shows.
            None => self.begun_at.map(|at| at + poll_cap),
        };
        (each.min(LONGEST) + poll_cap * turns, not_before)
    }

    /// The locks that are held here or waited for, for tests and people.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<K> {
        self.locks.keys().cloned().collect()
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}
