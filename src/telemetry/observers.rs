//! Who observes a sidecar: one after the other.

use std::sync::Arc;

use crate::coordinator::{Asked, LockEvent, Observer, TraceHandle};

/// Several observers as one.
#[derive(Clone, Debug)]
pub struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    /// These observers, in this order; the first that follows a hold is the only one.
    #[must_use]
    pub const fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self(observers)
    }
}

impl Observer for Observers {
    fn observe(&self, event: &LockEvent<'_>) {
        for observer in &self.0 {
            observer.observe(event);
        }
    }

    fn follow(&self, asked: &Asked<'_>) -> Option<TraceHandle> {
        self.0.iter().find_map(|observer| observer.follow(asked))
    }
}
