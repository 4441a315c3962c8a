//! Statuses of timers of .NET's WebJobs SDK: blobs beside its locks (T22).

use azure_core::http::RequestContent;
use azure_core::http::headers::Headers;
use azure_storage_blob::BlobClient;
use azure_storage_blob::models::{
    BlobClientDownloadOptions, BlockBlobClientUploadOptions, HttpRange,
};

use super::error::{Failure, Request};
use super::{AzureStore, answer, namespace};
use crate::lock::{ETag, MAX_TIMER_STATUS_BYTES, TimerPath};
use crate::store::timer::check_status;
use crate::store::{StoreError, StoredTimer, TimerRead, TimerWritten};

impl AzureStore {
    fn timer_blob(&self, timer: &TimerPath) -> BlobClient {
        self.clients().lease.blob_client(timer.container.as_str(), &timer.name())
    }

    /// [`LeaseStore::read_timer`](crate::store::LeaseStore::read_timer).
    pub(super) async fn get_timer(&self, timer: &TimerPath) -> Result<TimerRead, StoreError> {
        let told = |failure| self.error(Request::ReadTimerStatus, failure);
        let watch = self.containers.watch(timer.container.as_str());
        let read = self.download_timer(timer).await;
        self.note(watch, &read);
        let (headers, bytes) = match read {
            Ok(read) => read,
            Err(Failure::Refused(refusal)) if refusal.is_of_nothing() => {
                let undated = Failure::Unbelievable("it has no date");
                let time = refusal.date.ok_or_else(|| told(undated))?;
                return Ok(TimerRead { status: None, time });
            }
            Err(failure) => return Err(told(failure)),
        };
        let etag = answer::etag(&headers).map_err(told)?;
        let time = answer::time(&headers).map_err(told)?;
        let no_status = |source| StoreError::Fatal {
            advice: format!("is the blob {timer} the status of a timer?"),
            source,
        };
        if namespace::is_directory(&headers) {
            return Err(no_status(Failure::Directory.into()));
        }
        let text = String::from_utf8(bytes).map_err(|error| no_status(error.into()))?;
        Ok(TimerRead { status: Some(StoredTimer { etag, text }), time })
    }

    /// The answer's headers, and its content up to one byte more than a status may have.
    async fn download_timer(&self, timer: &TimerPath) -> Result<(Headers, Vec<u8>), Failure> {
        let most = u64::try_from(MAX_TIMER_STATUS_BYTES).unwrap_or(u64::MAX);
        let options = BlobClientDownloadOptions {
            range: Some(HttpRange::new(0, most.saturating_add(1))),
            ..BlobClientDownloadOptions::default()
        };
        let answer = self.timer_blob(timer).download(Some(options)).await?;
        let bytes = answer.body.collect().await?;
        Ok((answer.headers, bytes.to_vec()))
    }

    /// [`LeaseStore::write_timer`](crate::store::LeaseStore::write_timer).
    pub(super) async fn put_timer(
        &self,
        timer: &TimerPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<TimerWritten, StoreError> {
        check_status(&text)?;
        let watch = self.containers.watch(timer.container.as_str());
        let written = self.upload_timer(timer, &text, if_match.as_ref()).await;
        self.note(watch, &written);
        let failure = match written {
            Ok(written) => return Ok(written),
            Err(failure) => failure,
        };
        match (failure.code(), &if_match) {
            ("BlobNotFound" | "ContainerNotFound", Some(_)) => return Err(StoreError::Changed),
            ("ContainerNotFound", None) => self.make_missed(watch).await?,
            _ => return Err(self.error(Request::WriteTimerStatus, failure)),
        }
        let watch = self.containers.watch(timer.container.as_str());
        let written = self.upload_timer(timer, &text, None).await;
        self.answer(watch, Request::WriteTimerStatus, written)
    }

    async fn upload_timer(
        &self,
        timer: &TimerPath,
        text: &str,
        if_match: Option<&ETag>,
    ) -> Result<TimerWritten, Failure> {
        let options = BlockBlobClientUploadOptions {
            if_match: if_match.map(answer::condition),
            // The first one never overwrites what a host of .NET has written meanwhile.
            if_none_match: if_match.is_none().then(|| "*".into()),
            ..BlockBlobClientUploadOptions::default()
        };
        let content = RequestContent::from(text.as_bytes().to_vec());
        let blob = self.timer_blob(timer).block_blob_client();
        let answer = blob.upload(content, Some(options)).await?.raw_response;
        let headers = answer.headers();
        Ok(TimerWritten { etag: answer::etag(headers)?, time: answer::time(headers)? })
    }
}
