//! A store that tells the record with the lease: what an acquire that it refuses costs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::rig::{Account, SECOND, pass, request, settings};
use crate::coordinator::{Coordinator, NoObserver, Outcome};
use crate::store::{
    Acquired, Features, LeaseStore, LeaseStoreExt as _, MemoryStore, StoreAnswer, StoreError,
    StoreRequest,
};

/// A store that tells the record, and takes its time: as the embedded one behind a slow disk.
#[derive(Debug)]
struct Slow {
    store: Arc<MemoryStore>,
    takes: Duration,
}

#[async_trait]
impl LeaseStore for Slow {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        let (StoreRequest::Acquire(path, _) | StoreRequest::ReadRecord(path)) = &request else {
            return self.store.call(request).await;
        };
        pass(self.takes).await;
        let found = self.store.read_record(path).await.ok();
        let answer = self.store.call(request).await?;
        if let StoreAnswer::Acquired(acquired) = answer {
            return Ok(Acquired { found, ..acquired }.into());
        }
        Ok(answer)
    }

    fn features(&self) -> Features {
        Features { tells_record: true, ..self.store.features() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_as_busy_however_slowly_the_holder_is_read() {
    let account = Account::new();
    let holder = account.sidecar();
    let _grant = holder.acquire(request("nightly")).await;
    // Each answer comes within S7's time for a try, which is 5 s for this lease.
    let store = Arc::new(Slow { store: Arc::clone(&account.store), takes: 3 * SECOND });
    let clock = Arc::clone(&account.clock) as _;
    let sidecar = Coordinator::new(store, clock, Arc::new(NoObserver), settings());
    let answer = sidecar.acquire(request("nightly")).await;
    assert!(matches!(answer, Ok(Outcome::Busy(_))), "{answer:?}");
}
