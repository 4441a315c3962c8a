//! The store as it is shared with hosts of .NET: what goes with each write of a record.

use std::pin::Pin;
use std::sync::Arc;

use super::timer::DotnetTimers;
use crate::record::show_holder;
use crate::store::{DocumentPath, Features, LeaseStore, StoreAnswer, StoreError, StoreRequest};
use crate::time::Clock;

/// Passes everything on to a store. Before a record it writes the status of the .NET timer that it belongs
/// to. Without such timers it changes nothing.
#[derive(Debug)]
pub(crate) struct SharedStore {
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    timers: Arc<DotnetTimers>,
    /// Whether hosts of .NET are shown who holds a lock.
    function_instance: bool,
}

impl SharedStore {
    pub(crate) fn new(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        timers: Arc<DotnetTimers>,
        function_instance: bool,
    ) -> Self {
        Self { store, clock, timers, function_instance }
    }

    /// T7: what a status was read or written at is the store's time.
    async fn call_of_timer(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        let answer = self.store.call(request).await?;
        let time = if let StoreAnswer::Document(read) = &answer {
            read.time
        } else if let StoreAnswer::DocumentWritten(written) = &answer {
            written.time
        } else {
            return Ok(answer);
        };
        self.timers.hear(time, self.clock.now());
        Ok(answer)
    }
}

impl LeaseStore for SharedStore {
    // Not an `async fn`: what goes before a write is what stands when it is asked for, and it may be sent
    // long after, when nothing else keeps the timer any more.
    fn call<'call, 'answer>(
        &'call self,
        mut request: StoreRequest,
    ) -> Pin<Box<dyn Future<Output = Result<StoreAnswer, StoreError>> + Send + 'answer>>
    where
        'call: 'answer,
        Self: 'answer,
    {
        let is_timers = matches!(
            &request,
            StoreRequest::ReadDocument(DocumentPath::TimerStatus(_))
                | StoreRequest::WriteDocument { document: DocumentPath::TimerStatus(_), .. }
        );
        if is_timers {
            return Box::pin(self.call_of_timer(request));
        }
        let StoreRequest::WriteRecord(path, write) = &mut request else {
            return self.store.call(request);
        };
        if self.function_instance {
            show_holder(&mut write.fields);
        }
        let Some(status) = self.timers.before(path, write) else {
            return self.store.call(request);
        };
        let (path, lease_id) = (path.clone(), write.lease_id);
        Box::pin(async move {
            status.write(self, &path, lease_id).await?;
            self.store.call(request).await
        })
    }

    fn features(&self) -> Features {
        self.store.features()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lock::{Container, FencingToken, LeaseId, LockPath};
    use crate::record::{FUNCTION_INSTANCE, Fields, Record};
    use crate::store::{Acquire, LeaseStoreExt as _, MemoryStore, Write};
    use crate::testing::SimClock;

    /// Azure allows 8,192 bytes of all fields together, and some of its front ends count more than these.
    const MOST: usize = 8_000;

    #[tokio::test]
    async fn t3_a_grant_beside_dotnet_never_fails_for_its_size() {
        let clock = Arc::new(SimClock::new());
        let memory = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
        let timers = Arc::new(DotnetTimers::default());
        let store = SharedStore::new(memory, clock, timers, true);
        let path = LockPath::from_parts(&Container::parse("hosts").unwrap(), "locks/h/f");
        let lease_id = LeaseId::from_uuid(uuid::Uuid::new_v4());
        let duration = Duration::from_secs(15);
        let acquire = Acquire { lease_id, duration, if_match: None };
        store.acquire(&path, acquire).await.unwrap();
        for theirs in (0..6_500).step_by(250) {
            let record = Record {
                token: FencingToken::from_u64(65_537),
                holder: "日".repeat(85),
                host_type: "日".repeat(85),
                function: "日".repeat(341),
                scope: "日".repeat(341),
                ..Record::default()
            };
            let others = Fields::from([
                ("theirs".to_owned(), "x".repeat(theirs)),
                (FUNCTION_INSTANCE.to_owned(), "x".to_owned()),
            ]);
            let fields = record.into_fields(others);
            store.write_record(&path, Write { lease_id, if_match: None, fields }).await.unwrap();
            let stored = store.read_record(&path).await.unwrap().fields;
            let bytes: usize = stored.iter().map(|(name, value)| name.len() + value.len()).sum();
            assert!(bytes <= MOST, "{bytes} bytes");
            assert!(stored[FUNCTION_INSTANCE].starts_with("%E6%97%A5"), "{stored:?}");
        }
    }
}
