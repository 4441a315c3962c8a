//! A wrapper that counts and times what is asked of a store, for the metrics.

use std::sync::Arc;

use async_trait::async_trait;

use super::Metrics;
use super::metrics::{CUT_OFF, DONE};
use crate::coordinator::{TraceHandle, TracedRequest};
use crate::store::{Features, LeaseStore, Operation, StoreAnswer, StoreError, StoreRequest};
use crate::time::{Clock, Instant};

/// Passes everything on to a store, and tells the metrics how each request ended and how long it took; and
/// whoever follows the hold that it was for.
#[derive(Debug)]
pub struct MeteredStore {
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
}

impl MeteredStore {
    /// Measures `store` by `clock`.
    #[must_use]
    pub const fn new(store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>, metrics: Metrics) -> Self {
        Self { store, clock, metrics }
    }
}

/// A request under way. It is noted when it ends, also when its caller gives it up and drops it.
struct Request<'a> {
    measured: &'a MeteredStore,
    operation: Operation,
    sent: Instant,
    outcome: &'static str,
    expected: bool,
    trace: Option<TraceHandle>,
}

/// Whether an error is an answer: somebody else has the lock or was faster, or there is nothing to read yet.
const fn is_expected(operation: Operation, error: &StoreError) -> bool {
    matches!(error, StoreError::Contended | StoreError::Changed)
        || (matches!(error, StoreError::NotFound)
            && matches!(operation, Operation::ReadRecord | Operation::ReadBreakNote))
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let ended = self.measured.clock.now();
        let took = ended.saturating_since(self.sent);
        if let Some(trace) = &self.trace {
            let Self { operation, sent, outcome, expected, .. } = *self;
            let store = self.measured.store.features().kind;
            trace.requested(&TracedRequest { operation, sent, ended, outcome, expected, store });
        }
        self.measured.metrics.note_store_request(self.operation, self.outcome, took);
    }
}

#[async_trait]
impl LeaseStore for MeteredStore {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        let operation = request.operation();
        let mut measured = Request {
            measured: self,
            operation,
            sent: self.clock.now(),
            outcome: CUT_OFF,
            expected: false,
            trace: TraceHandle::current(),
        };
        let answer = self.store.call(request).await;
        measured.expected =
            answer.as_ref().map_or_else(|error| is_expected(operation, error), |_| true);
        measured.outcome = answer.as_ref().map_or_else(StoreError::kind, |_| DONE);
        answer
    }

    fn features(&self) -> Features {
        self.store.features()
    }
}

#[cfg(test)]
#[path = "metered_store_tests.rs"]
mod tests;
