//! What is remembered of locks that nobody wants now, so that the next acquisition needs no read: of so many
//! locks, and the least recently used is forgotten first. What somebody still relies on stays until its time
//! is over. Of what is forgotten, a set of bits knows about ([`ApproximateSet`]).

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::hold::{Handed, Memory};
use crate::lock::{FencingToken, LockPath};
use crate::time::Instant;
use hashlink::LinkedHashMap;

type ByRecency<V> = LinkedHashMap<LockPath, V, RandomState>;

#[derive(Debug, Default)]
pub(in crate::coordinator) struct LockCache {
    limit: usize,
    poll_cap: Duration,
    /// The least recently used first.
    remembered: ByRecency<Memory>,
    /// What is still relied on of locks that were forgotten, and until when (S10, S13).
    relied_on: ByRecency<(Instant, Memory)>,
    /// The locks whose records were forgotten: to tell them from those that were never known.
    forgotten: ApproximateSet,
}

impl LockCache {
    /// At most `limit` locks are remembered. `poll_cap` is how long others may need to find a lock that was
    /// released (S10).
    pub(super) fn new(limit: usize, poll_cap: Duration) -> Self {
        Self { limit, poll_cap, ..Self::default() }
    }

    /// Remembers a lock as the one that was used last; how many were forgotten for it.
    pub(super) fn put(&mut self, path: LockPath, memory: Memory, now: Instant) -> usize {
        self.remembered.insert(path, memory);
        let mut forgotten = 0;
        while self.remembered.len() > self.limit
            && let Some((path, memory)) = self.remembered.pop_front()
        {
            forgotten += 1;
            if memory.known.is_some() {
                self.forgotten.insert(&path);
            }
            if let Some(relied_on) = memory.relied_on(self.poll_cap, now) {
                self.relied_on.insert(path, relied_on);
            }
        }
        self.tidy(now);
        forgotten
    }

    /// What is remembered of a lock, which its task knows from now on.
    pub(super) fn take(&mut self, path: &LockPath) -> Memory {
        let memory = self.remembered.remove(path);
        let memory = memory.or_else(|| self.relied_on.remove(path).map(|(_, memory)| memory));
        let memory = memory.unwrap_or_default();
        let is_forgotten = memory.known.is_none() && self.forgotten.contains(path);
        Memory { is_forgotten, ..memory }
    }

    /// The greatest token known of a lock that has no task (S5).
    pub(in crate::coordinator) fn highest(&self, path: &LockPath) -> Option<FencingToken> {
        let relied_on = || self.relied_on.get(path).map(|(_, memory)| memory);
        self.remembered.get(path).or_else(relied_on)?.highest
    }

    /// The newest grant by a hand-off of a lock that has no task (S10).
    pub(in crate::coordinator) fn handed(&self, path: &LockPath) -> Option<Handed> {
        self.remembered.get(path)?.handed.as_deref().cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.remembered.len()
    }

    /// Looks at two for each that may have come, so that at most half of them are there beyond their time.
    fn tidy(&mut self, now: Instant) {
        for _ in 0..2 {
            if let Some((path, (until, memory))) = self.relied_on.pop_front()
                && now < until
            {
                self.relied_on.insert(path, (until, memory));
            }
        }
    }
}

/// The locks that were marked lately: of the last [`ApproximateSet::LEAST`] all are known. A mark is a part
/// of a hash, so one lock in ten thousand may be taken for a marked one.
#[derive(Debug, Default)]
pub(super) struct ApproximateSet {
    hashes: RandomState,
    newer: HashSet<u32>,
    older: HashSet<u32>,
}

impl ApproximateSet {
    /// What a table of 2^17 places takes before it grows.
    const LEAST: usize = (1 << 17) / 8 * 7;

    /// Marks a lock; whether it was not marked before.
    pub(super) fn insert(&mut self, path: &LockPath) -> bool {
        let is_new = !self.contains(path);
        if self.newer.len() >= Self::LEAST {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(self.mark(path));
        is_new
    }

    pub(super) fn contains(&self, path: &LockPath) -> bool {
        let mark = self.mark(path);
        self.newer.contains(&mark) || self.older.contains(&mark)
    }

    fn mark(&self, path: &LockPath) -> u32 {
        let [first, second, third, fourth, ..] = self.hashes.hash_one(path).to_ne_bytes();
        u32::from_ne_bytes([first, second, third, fourth])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: u64) -> LockPath {
        format!("leasehold/locks/{number}").parse().unwrap()
    }

    fn at(millis: u64) -> Instant {
        Instant::default() + Duration::from_millis(millis)
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_was_used_last_stays() {
        let mut cache = LockCache::new(10, Duration::ZERO);
        for round in 0..1_000 {
            let forgotten = cache.put(path(round), Memory::default(), at(round));
            assert_eq!(forgotten, usize::from(round >= 10));
            let again = cache.take(&path(0));
            cache.put(path(0), again, at(round));
            assert!(cache.len() <= 10);
        }
        assert!(cache.remembered.contains_key(&path(0)), "it was used each time");
        assert!(cache.remembered.contains_key(&path(999)));
        assert!(!cache.remembered.contains_key(&path(990)));
        assert_eq!(cache.relied_on.len(), 0, "nobody relies on them");
    }

    #[test]
    fn s13_what_somebody_relies_on_goes_when_its_time_is_over() {
        let mut cache = LockCache::new(0, Duration::ZERO);
        for millis in 0..10_000 {
            let mut memory = Memory::default();
            memory.believe(at(millis + 100));
            cache.put(path(millis), memory, at(millis));
            assert!(cache.relied_on.len() <= 205, "{} at {millis}", cache.relied_on.len());
        }
        for millis in 9_900..10_000 {
            let mut expected = Memory::default();
            expected.believe(at(millis + 100));
            assert_eq!(cache.take(&path(millis)).idle, expected.idle, "{millis}");
        }
    }

    #[test]
    fn s17_that_a_break_may_yet_arrive_outlives_what_is_forgotten() {
        let mut cache = LockCache::new(0, Duration::ZERO);
        let memory = Memory { may_break_arrive: true, ..Memory::default() };
        cache.put(path(0), memory, at(0));
        for millis in 1..10_000 {
            cache.put(path(millis), Memory::default(), at(millis));
        }
        assert!(cache.take(&path(0)).may_break_arrive);
        assert!(!cache.take(&path(1)).may_break_arrive);
        assert_eq!(cache.relied_on.len(), 0, "nothing else is relied on");
    }

    #[test]
    fn marks_are_bounded_and_the_latest_are_known() {
        let path = |number: usize| format!("leasehold/locks/{number}").parse::<LockPath>().unwrap();
        let mut marks = ApproximateSet::default();
        assert!(!marks.contains(&path(0)));
        let last = ApproximateSet::LEAST * 3;
        for number in 0..last {
            marks.insert(&path(number));
            assert!(
                marks.newer.len() <= ApproximateSet::LEAST
                    && marks.older.len() <= ApproximateSet::LEAST
            );
        }
        assert!((last - ApproximateSet::LEAST..last).all(|number| marks.contains(&path(number))));
        let taken = (last..last + 1_000).filter(|number| marks.contains(&path(*number))).count();
        assert!(taken <= 5, "{taken} that were never marked");
        assert!(!marks.insert(&path(last - 1)), "it is marked already");
        assert!((0..100).any(|number| !marks.contains(&path(number))), "the oldest are forgotten");
    }
}
