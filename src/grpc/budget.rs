//! Bytes that something may take of the memory, and what each has of them (S38).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many bytes, for all together.
#[derive(Debug)]
pub(super) struct Budget {
    taken: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), limit })
    }

    /// A part that has nothing yet.
    pub(super) fn nothing(self: &Arc<Self>) -> Part {
        Part { of: Arc::clone(self), bytes: 0 }
    }

    /// So many of them, if they are left.
    pub(super) fn part(self: &Arc<Self>, bytes: usize) -> Option<Part> {
        let mut part = self.nothing();
        part.take(bytes).then_some(part)
    }
}

/// What one has of a budget; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Part {
    of: Arc<Budget>,
    bytes: usize,
}

impl Part {
    /// Whether so many more are left; then this part has them.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let taken = self.of.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= self.of.limit)
        });
        self.bytes += if taken.is_ok() { bytes } else { 0 };
        taken.is_ok()
    }

    pub(super) fn give_back(&mut self) {
        self.of.taken.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }

    /// As much from the same budget.
    pub(super) fn another(&self, bytes: usize) -> Option<Self> {
        self.of.part(bytes)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s38_a_budget_is_never_exceeded_and_what_was_taken_comes_back() {
        let budget = Budget::new(10);
        let mut first = budget.part(6).unwrap();
        assert!(budget.part(5).is_none());
        let second = first.another(4).unwrap();
        assert!(!first.take(1));
        drop(second);
        assert!(first.take(4));
        first.give_back();
        assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
        drop(first);
        assert!(budget.part(10).is_some());
        assert!(budget.part(usize::MAX).is_none());
    }
}
