//! A wrapper that counts and times what is asked of a store, for the metrics.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;

use super::Metrics;
use super::metrics::{CUT_OFF, DONE};
use crate::coordinator::{TraceHandle, TracedRequest};
use crate::lock::{Container, LeaseId, LockPath, TimerPath};
use crate::store::{
    Acquire, Acquired, BreakNote, ETag, LeaseBroken, LeaseStore, List, Listing, Operation,
    PlanListing, PlanRead, PlanWritten, Renewed, StoreError, StoreTime, StoredLock, TimerRead,
    TimerWritten, Write, Written,
};
use crate::time::{Clock, Instant};

/// Passes everything on to a store, and tells the metrics how each request ended and how long it took; and
/// whoever follows the hold that it was for.
#[derive(Debug)]
pub struct Measured {
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
}

impl Measured {
    /// Measures `store` by `clock`.
    #[must_use]
    pub const fn new(store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>, metrics: Metrics) -> Self {
        Self { store, clock, metrics }
    }

    async fn measured<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let mut request = Request {
            measured: self,
            operation,
            sent: self.clock.now(),
            outcome: CUT_OFF,
            expected: false,
            trace: TraceHandle::current(),
        };
        let answer = call.await;
        request.expected =
            answer.as_ref().map_or_else(|error| is_expected(operation, error), |_| true);
        request.outcome = answer.as_ref().map_or_else(StoreError::kind, |_| DONE);
        answer
    }
}

/// A request under way. It is noted when it ends, also when its caller gives it up and drops it.
struct Request<'a> {
    measured: &'a Measured,
    operation: Operation,
    sent: Instant,
    outcome: &'static str,
    expected: bool,
    trace: Option<TraceHandle>,
}

/// Whether an error is an answer: somebody else has the lock or was faster, or there is nothing to read yet.
const fn is_expected(operation: Operation, error: &StoreError) -> bool {
    match error {
        StoreError::Contended | StoreError::Changed => true,
        StoreError::NotFound => {
            matches!(operation, Operation::ReadRecord | Operation::ReadBreakNote)
        }
        StoreError::LeaseLost { .. }
        | StoreError::NotHeld
        | StoreError::ContainerMissing { .. }
        | StoreError::Recreated { .. }
        | StoreError::Denied { .. }
        | StoreError::Throttled { .. }
        | StoreError::Full { .. }
        | StoreError::Unavailable { .. }
        | StoreError::NoDescriptors { .. }
        | StoreError::Fatal { .. } => false,
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let ended = self.measured.clock.now();
        let took = ended.saturating_since(self.sent);
        if let Some(trace) = &self.trace {
            let Self { operation, sent, outcome, expected, .. } = *self;
            let store = self.measured.store.kind();
            trace.requested(&TracedRequest { operation, sent, ended, outcome, expected, store });
        }
        self.measured.metrics.note_store_request(self.operation, self.outcome, took);
    }
}

#[async_trait]
impl LeaseStore for Measured {
    async fn acquire(&self, path: &LockPath, request: Acquire) -> Result<Acquired, StoreError> {
        self.measured(Operation::Acquire, self.store.acquire(path, request)).await
    }

    async fn renew(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        self.measured(Operation::Renew, self.store.renew(path, lease_id, if_match)).await
    }

    async fn release(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<(), StoreError> {
        self.measured(Operation::Release, self.store.release(path, lease_id, if_match)).await
    }

    async fn break_lease(
        &self,
        path: &LockPath,
        note: BreakNote,
        if_match: ETag,
    ) -> Result<LeaseBroken, StoreError> {
        self.measured(Operation::BreakLease, self.store.break_lease(path, note, if_match)).await
    }

    async fn write_record(&self, path: &LockPath, write: Write) -> Result<Written, StoreError> {
        self.measured(Operation::WriteRecord, self.store.write_record(path, write)).await
    }

    async fn read_record(&self, path: &LockPath) -> Result<StoredLock, StoreError> {
        self.measured(Operation::ReadRecord, self.store.read_record(path)).await
    }

    async fn read_break_note(&self, path: &LockPath) -> Result<Option<BreakNote>, StoreError> {
        self.measured(Operation::ReadBreakNote, self.store.read_break_note(path)).await
    }

    async fn read_plan(&self, path: &LockPath) -> Result<PlanRead, StoreError> {
        self.measured(Operation::ReadPlan, self.store.read_plan(path)).await
    }

    async fn write_plan(
        &self,
        path: &LockPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<PlanWritten, StoreError> {
        self.measured(Operation::WritePlan, self.store.write_plan(path, text, if_match)).await
    }

    async fn delete_plan(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        self.measured(Operation::DeletePlan, self.store.delete_plan(path, if_match)).await
    }

    async fn list_plans(&self, request: List) -> Result<PlanListing, StoreError> {
        self.measured(Operation::List, self.store.list_plans(request)).await
    }

    fn has_timers(&self) -> bool {
        self.store.has_timers()
    }

    async fn read_timer(&self, timer: &TimerPath) -> Result<TimerRead, StoreError> {
        self.measured(Operation::ReadTimer, self.store.read_timer(timer)).await
    }

    async fn write_timer(
        &self,
        timer: &TimerPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<TimerWritten, StoreError> {
        let writing = self.store.write_timer(timer, text, if_match);
        self.measured(Operation::WriteTimer, writing).await
    }

    async fn list(&self, request: List) -> Result<Listing, StoreError> {
        self.measured(Operation::List, self.store.list(request)).await
    }

    async fn delete(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        self.measured(Operation::Delete, self.store.delete(path, if_match)).await
    }

    async fn check(&self, container: &Container) -> Result<StoreTime, StoreError> {
        self.measured(Operation::Check, self.store.check(container)).await
    }

    fn tells_record(&self) -> bool {
        self.store.tells_record()
    }

    fn kind(&self) -> &'static str {
        self.store.kind()
    }
}

#[cfg(test)]
#[path = "measured_tests.rs"]
mod tests;
