//! What a call writes in a record, beside its token or before its release, is decided by whoever made the
//! call. The lock's task asks when its machine does, and the call hears what was decided before it hears of
//! anything that follows from that (T6, T8).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::record::{Found, Verdict};

/// Decides what is written over a record.
pub(crate) struct Decider(Box<dyn Fn(&Found) -> Verdict + Send + Sync>);

/// What a decider has decided, for whoever made it.
#[derive(Debug)]
pub(crate) struct Decisions<D>(Arc<Mutex<Vec<D>>>);

impl fmt::Debug for Decider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Decider")
    }
}

impl Decider {
    /// Decides by `decide`, and tells each time what came of it.
    pub(crate) fn new<D: Send + 'static>(
        decide: impl Fn(&Found) -> (Verdict, D) + Send + Sync + 'static,
    ) -> (Self, Decisions<D>) {
        let decisions = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&decisions);
        let decide = move |found: &Found| {
            let (verdict, decided) = decide(found);
            told.lock().unwrap_or_else(PoisonError::into_inner).push(decided);
            verdict
        };
        (Self(Box::new(decide)), Decisions(decisions))
    }

    pub(crate) fn decide(&self, found: &Found) -> Verdict {
        (self.0)(found)
    }
}

impl<D> Decisions<D> {
    /// What was decided since this was asked last, in order.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = D> + use<D> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_iter()
    }

    /// What was decided last; none if nothing was asked since.
    pub(crate) fn last(&mut self) -> Option<D> {
        self.each().last()
    }
}
