//! The store as it is shared with hosts of .NET: what goes with each write of a record.

use std::sync::Arc;

use async_trait::async_trait;

use super::timer::DotnetTimers;
use crate::lock::{Fields, HOLDER_FIELD};
use crate::store::{Features, LeaseStore, StoreAnswer, StoreError, StoreRequest};

/// The metadata field in which WebJobs and Azure Functions hosts look for who holds a lock.
const FUNCTION_INSTANCE: &str = "FunctionInstance";

/// Passes everything on to a store. Before a record it writes the status of the .NET timer that it belongs
/// to.
#[derive(Debug)]
pub(crate) struct SharedStore {
    store: Arc<dyn LeaseStore>,
    timers: Arc<DotnetTimers>,
    /// Whether hosts of .NET are shown who holds a lock.
    function_instance: bool,
}

impl SharedStore {
    pub(crate) fn new(
        store: Arc<dyn LeaseStore>,
        timers: Arc<DotnetTimers>,
        function_instance: bool,
    ) -> Self {
        Self { store, timers, function_instance }
    }

    fn show_holder(&self, fields: &mut Fields) {
        if self.function_instance
            && let Some(holder) = fields.get(HOLDER_FIELD).cloned()
        {
            fields.insert(FUNCTION_INSTANCE.to_owned(), holder);
        }
    }
}

#[async_trait]
impl LeaseStore for SharedStore {
    async fn call(&self, mut request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        if let StoreRequest::WriteRecord(path, write) = &mut request {
            self.show_holder(&mut write.fields);
            if let Some(timer) = self.timers.find(path) {
                timer.write_before(self.store.as_ref(), path, write).await?;
            }
        }
        self.store.call(request).await
    }

    fn features(&self) -> Features {
        self.store.features()
    }
}
