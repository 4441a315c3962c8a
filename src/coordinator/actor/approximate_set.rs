//! Marks of locks, for questions that may be forgotten: four bytes each, where a path would be a hundred.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use crate::lock::LockPath;

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
