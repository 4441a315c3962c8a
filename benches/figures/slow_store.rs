//! A store that takes its time, as one over a network does.

use std::time::Duration;

use async_trait::async_trait;
use leasehold::lock::{Container, ETag, LeaseId, LockPath};
use leasehold::store::{
    Acquire, Acquired, BreakNote, BreakPeriod, LeaseBroken, LeaseStore, List, Listing, MemoryStore,
    Renewed, StoreError, StoreTime, StoredLock, Write, Written,
};

/// The time of each call.
const CALL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct SlowStore(pub(crate) MemoryStore);

macro_rules! slowly {
    ($($operation:ident($($name:ident: $kind:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl LeaseStore for SlowStore {
            $(async fn $operation(&self, $($name: $kind),*) -> Result<$answer, StoreError> {
                tokio::time::sleep(CALL).await;
                self.0.$operation($($name),*).await
            })*

            fn kind(&self) -> &'static str {
                "slow"
            }
        }
    };
}

slowly! {
    acquire(path: &LockPath, request: Acquire) -> Acquired;
    renew(path: &LockPath, lease_id: LeaseId) -> Renewed;
    release(path: &LockPath, lease_id: LeaseId, if_match: Option<ETag>) -> ();
    break_lease(path: &LockPath, period: BreakPeriod, note: BreakNote) -> LeaseBroken;
    write_record(path: &LockPath, write: Write) -> Written;
    read_record(path: &LockPath) -> StoredLock;
    read_break_note(path: &LockPath) -> Option<BreakNote>;
    list(request: List) -> Listing;
    delete(path: &LockPath, if_match: ETag) -> ();
    check(container: &Container) -> StoreTime;
}
