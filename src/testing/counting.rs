//! A wrapper that counts what is asked of a store, for the budget.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::lock::{Container, LeaseId, LockPath, TimerPath};
use crate::store::{
    Acquire, Acquired, BreakNote, ETag, LeaseBroken, LeaseStore, List, Listing, Operation,
    PlanListing, PlanRead, PlanWritten, Renewed, StoreError, StoreTime, StoredLock, TimerRead,
    TimerWritten, Write, Written,
};

/// Passes everything on to a store, and counts it by operation, failed ones too.
#[derive(Debug)]
pub struct CountingStore<S> {
    store: S,
    counts: Mutex<Counts>,
}

/// How often each operation was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Operation, u64>);

impl Counts {
    /// How often this one was.
    #[must_use]
    pub fn of(&self, operation: Operation) -> u64 {
        self.0.get(&operation).copied().unwrap_or_default()
    }

    /// How often any was.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl FromIterator<(Operation, u64)> for Counts {
    /// What a test expects; operations that are not named are expected never.
    fn from_iter<T: IntoIterator<Item = (Operation, u64)>>(counts: T) -> Self {
        Self(counts.into_iter().filter(|(_, count)| *count > 0).collect())
    }
}

impl<const N: usize> From<[(Operation, u64); N]> for Counts {
    fn from(counts: [(Operation, u64); N]) -> Self {
        counts.into_iter().collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> =
            self.0.iter().map(|(operation, count)| format!("{operation:?} {count}")).collect();
        formatter.write_str(&shown.join(", "))
    }
}

impl<S> CountingStore<S> {
    /// Counts from zero.
    pub const fn new(store: S) -> Self {
        Self { store, counts: Mutex::new(Counts(BTreeMap::new())) }
    }

    /// The store behind.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was counted since the beginning or the last such call: one step of a test at a time.
    pub fn take_counts(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The store, after counting what is asked of it.
    fn counted(&self, operation: Operation) -> &S {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.0.entry(operation).or_default() += 1;
        &self.store
    }
}

#[async_trait]
impl<S: LeaseStore> LeaseStore for CountingStore<S> {
    async fn acquire(&self, path: &LockPath, request: Acquire) -> Result<Acquired, StoreError> {
        self.counted(Operation::Acquire).acquire(path, request).await
    }

    async fn renew(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        self.counted(Operation::Renew).renew(path, lease_id, if_match).await
    }

    async fn release(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<(), StoreError> {
        self.counted(Operation::Release).release(path, lease_id, if_match).await
    }

    async fn break_lease(
        &self,
        path: &LockPath,
        note: BreakNote,
        if_match: ETag,
    ) -> Result<LeaseBroken, StoreError> {
        self.counted(Operation::BreakLease).break_lease(path, note, if_match).await
    }

    async fn write_record(&self, path: &LockPath, write: Write) -> Result<Written, StoreError> {
        self.counted(Operation::WriteRecord).write_record(path, write).await
    }

    async fn read_record(&self, path: &LockPath) -> Result<StoredLock, StoreError> {
        self.counted(Operation::ReadRecord).read_record(path).await
    }

    async fn read_break_note(&self, path: &LockPath) -> Result<Option<BreakNote>, StoreError> {
        self.counted(Operation::ReadBreakNote).read_break_note(path).await
    }

    async fn read_plan(&self, path: &LockPath) -> Result<PlanRead, StoreError> {
        self.counted(Operation::ReadPlan).read_plan(path).await
    }

    async fn write_plan(
        &self,
        path: &LockPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<PlanWritten, StoreError> {
        self.counted(Operation::WritePlan).write_plan(path, text, if_match).await
    }

    async fn delete_plan(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        self.counted(Operation::DeletePlan).delete_plan(path, if_match).await
    }

    async fn list_plans(&self, request: List) -> Result<PlanListing, StoreError> {
        self.counted(Operation::List).list_plans(request).await
    }

    fn has_timers(&self) -> bool {
        self.store.has_timers()
    }

    async fn read_timer(&self, timer: &TimerPath) -> Result<TimerRead, StoreError> {
        self.counted(Operation::ReadTimer).read_timer(timer).await
    }

    async fn write_timer(
        &self,
        timer: &TimerPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<TimerWritten, StoreError> {
        self.counted(Operation::WriteTimer).write_timer(timer, text, if_match).await
    }

    async fn list(&self, request: List) -> Result<Listing, StoreError> {
        self.counted(Operation::List).list(request).await
    }

    async fn delete(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        self.counted(Operation::Delete).delete(path, if_match).await
    }

    async fn check(&self, container: &Container) -> Result<StoreTime, StoreError> {
        self.counted(Operation::Check).check(container).await
    }

    fn tells_record(&self) -> bool {
        self.store.tells_record()
    }

    fn kind(&self) -> &'static str {
        self.store.kind()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::store::MemoryStore;
    use crate::testing::SimClock;

    #[tokio::test]
    async fn every_request_is_counted_by_its_operation_also_when_it_fails() {
        let store = CountingStore::new(MemoryStore::new(Arc::new(SimClock::new())));
        let path = LockPath::from_parts(&Container::parse("locks").unwrap(), "host/f");
        let lease_id = LeaseId::from_uuid(Uuid::from_u128(1));
        store.renew(&path, lease_id, None).await.unwrap_err();
        let request = Acquire { lease_id, duration: Duration::from_secs(15), if_match: None };
        store.acquire(&path, request).await.unwrap();
        store.renew(&path, lease_id, None).await.unwrap();
        let expected = Counts::from([(Operation::Acquire, 1), (Operation::Renew, 2)]);
        assert_eq!(store.counts(), expected);
        assert_eq!((expected.total(), expected.of(Operation::List)), (3, 0));
        assert_eq!(store.take_counts().to_string(), "Acquire 1, Renew 2");
        assert_eq!(store.counts(), Counts::default());
    }
}
