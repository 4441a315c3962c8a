//! The store as it is shared with hosts of .NET: what goes with each write of a record.

use std::pin::Pin;
use std::sync::Arc;

use super::timer::DotnetTimers;
use crate::record::{Fields, HOLDER_FIELD};
use crate::store::{DocumentPath, Features, LeaseStore, StoreAnswer, StoreError, StoreRequest};
use crate::time::Clock;

/// The metadata field in which WebJobs and Azure Functions hosts look for who holds a lock.
const FUNCTION_INSTANCE: &str = "FunctionInstance";

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

    fn show_holder(&self, fields: &mut Fields) {
        if self.function_instance
            && let Some(holder) = fields.get(HOLDER_FIELD).cloned()
        {
            fields.insert(FUNCTION_INSTANCE.to_owned(), holder);
        }
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
        self.show_holder(&mut write.fields);
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
