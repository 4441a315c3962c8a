//! Statuses of timers of .NET's WebJobs SDK: blobs beside its locks, which are read and never written (T22).

use azure_storage_blob::models::{BlobClientDownloadOptions, HttpRange};

use super::AzureStore;
use super::error::{Failure, Request};
use crate::lock::{Container, HostId};
use crate::store::StoreError;

impl AzureStore {
    /// The status of a timer, at most `size_bytes_max` and one more byte of it: the blob
    /// `timers/{host id}/{timer}/status`, in the container of the SDK. None if it is not there.
    ///
    /// # Errors
    /// The faults of the store; and when it is not text.
    pub async fn read_timer_status(
        &self,
        container: &Container,
        blob: &TimerBlob,
        size_bytes_max: usize,
    ) -> Result<Option<String>, StoreError> {
        let most = u64::try_from(size_bytes_max).unwrap_or(u64::MAX);
        let options = BlobClientDownloadOptions {
            range: Some(HttpRange::new(0, most.saturating_add(1))),
            ..BlobClientDownloadOptions::default()
        };
        let client = self.clients.admin.blob_client(container.as_str(), &blob.name());
        let read = async {
            let answer = client.download(Some(options)).await?;
            Ok::<_, Failure>(answer.body.collect().await?.to_vec())
        };
        let bytes = match read.await {
            Ok(bytes) => bytes,
            Err(Failure::Refused(refusal)) if refusal.is_of_nothing() => return Ok(None),
            Err(failure) => return Err(self.error(Request::ReadTimerStatus, failure)),
        };
        String::from_utf8(bytes).map(Some).map_err(|error| StoreError::Fatal {
            advice: format!("is the blob {}/{} the status of a timer?", container, blob.name()),
            source: error.into(),
        })
    }
}

/// Where the status of a timer is.
#[derive(Clone, Debug)]
pub struct TimerBlob {
    /// The host id of the .NET app.
    pub host_id: HostId,
    /// The timer's name: `{namespace}.{class}.{method}`, and `Host.Functions.{function}` in Azure Functions.
    pub timer: String,
}

impl TimerBlob {
    /// The blob's name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("timers/{}/{}/status", self.host_id, self.timer)
    }
}
