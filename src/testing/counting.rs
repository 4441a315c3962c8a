//! A wrapper that counts what is asked of a store, for the budget.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::store::{Features, LeaseStore, Operation, StoreAnswer, StoreError, StoreRequest};

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
}

#[async_trait]
impl<S: LeaseStore> LeaseStore for CountingStore<S> {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.0.entry(request.operation()).or_default() += 1;
        }
        self.store.call(request).await
    }

    fn features(&self) -> Features {
        self.store.features()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::lock::{Container, LeaseId, LockPath};
    use crate::store::{Acquire, LeaseStoreExt as _, MemoryStore};
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
