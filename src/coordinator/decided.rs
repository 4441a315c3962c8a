//! What a part of a write has come to: asked by the machine, read by whoever brought it (T6, T8).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What came of a part, as it was decided last.
#[derive(Debug)]
pub(super) struct Decided<T>(Mutex<Option<T>>);

impl<T> Default for Decided<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Decided<T> {
    pub(super) fn cell(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
