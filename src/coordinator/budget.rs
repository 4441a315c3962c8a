//! Bytes that something may take of the memory, and what each has of them (S38).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many bytes, for all together.
#[derive(Debug)]
pub struct Budget {
    taken: AtomicUsize,
    limit: usize,
}

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), limit })
    }

    /// A part that has nothing yet.
    #[must_use]
    pub fn nothing(self: &Arc<Self>) -> Part {
        Part { of: Arc::clone(self), bytes: 0 }
    }

    /// So many of them, if they are left.
    #[must_use]
    pub fn part(self: &Arc<Self>, bytes: usize) -> Option<Part> {
        let mut part = self.nothing();
        part.take(bytes).then_some(part)
    }
}

/// What one has of a budget; given back when it is dropped.
#[derive(Debug)]
pub struct Part {
    of: Arc<Budget>,
    bytes: usize,
}

impl Part {
    /// Whether so many more are left; then this part has them.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        self.take_up_to(bytes, self.of.limit)
    }

    /// The same for somebody who leaves one eighth of the budget to others.
    #[must_use]
    pub fn take_modestly(&mut self, bytes: usize) -> bool {
        self.take_up_to(bytes, self.of.limit - self.of.limit / 8)
    }

    fn take_up_to(&mut self, bytes: usize, limit: usize) -> bool {
        let taken = self.of.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= limit)
        });
        self.bytes += if taken.is_ok() { bytes } else { 0 };
        taken.is_ok()
    }

    /// Gives so many back, of those that it has.
    pub fn give(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.of.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Gives all back.
    pub fn give_back(&mut self) {
        self.give(self.bytes);
    }

    /// As much from the same budget.
    #[must_use]
    pub fn another(&self, bytes: usize) -> Option<Self> {
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
        assert!(first.take_modestly(9) && !first.take_modestly(1) && first.take(1));
        first.give(3);
        assert!(!first.take(4) && first.take(3));
        drop(first);
        assert!(budget.part(10).is_some());
        assert!(budget.part(usize::MAX).is_none());
    }
}
