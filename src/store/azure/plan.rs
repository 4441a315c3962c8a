//! The plans of schedules: blobs of their own beside the locks, since the record of a lock that is leased
//! cannot be written without its lease id (T3). The blob's content is the plan's JSON, so that people can
//! read it in a storage explorer.

use azure_core::http::RequestContent;
use azure_core::http::headers::Headers;
use azure_storage_blob::BlobClient;
use azure_storage_blob::models::{
    BlobClientDeleteOptions, BlobClientDownloadOptions, BlockBlobClientUploadOptions, HttpRange,
};

use super::error::{Failure, Request};
use super::{AzureStore, answer, beside, namespace};
use crate::lock::{ETag, LockPath, MAX_PLAN_BYTES};
use crate::store::plan::{check_plan, too_long};
use crate::store::{PlanRead, PlanWritten, Source, StoreError, StoredPlan};

/// Under this are the plans; no lock may be.
pub(super) const FOLDER: &str = "leasehold-plans/";

impl AzureStore {
    fn plan_blob(&self, path: &LockPath) -> BlobClient {
        self.clients().lease.blob_client(path.container(), &beside::name_in(FOLDER, path.name()))
    }

    /// [`LeaseStore::read_plan`](crate::store::LeaseStore::read_plan).
    pub(super) async fn get_plan(&self, path: &LockPath) -> Result<PlanRead, StoreError> {
        let watch = self.containers.watch(path.container());
        let read = self.download_plan(path).await;
        self.note(watch, &read);
        let (headers, bytes) = match read {
            Ok(read) => read,
            Err(Failure::Refused(refusal)) if refusal.is_of_nothing() => {
                let undated = Failure::Unbelievable("it has no date");
                let time = refusal.date.ok_or_else(|| self.error(Request::ReadPlan, undated))?;
                return Ok(PlanRead { plan: None, time });
            }
            Err(failure) => return Err(self.error(Request::ReadPlan, failure)),
        };
        let told = |failure| self.error(Request::ReadPlan, failure);
        let etag = answer::etag(&headers).map_err(told)?;
        let time = answer::time(&headers).map_err(told)?;
        if namespace::is_directory(&headers) {
            return Err(no_plan(path, Failure::Directory.into()));
        }
        if bytes.len() > MAX_PLAN_BYTES {
            return Err(no_plan(path, too_long().into()));
        }
        let text = String::from_utf8(bytes).map_err(|error| no_plan(path, error.into()))?;
        Ok(PlanRead { plan: Some(StoredPlan { etag, text }), time })
    }

    /// The answer's headers, and its content up to one byte more than a plan may have.
    async fn download_plan(&self, path: &LockPath) -> Result<(Headers, Vec<u8>), Failure> {
        let most = u64::try_from(MAX_PLAN_BYTES).unwrap_or(u64::MAX);
        let options = BlobClientDownloadOptions {
            range: Some(HttpRange::new(0, most.saturating_add(1))),
            ..BlobClientDownloadOptions::default()
        };
        let answer = self.plan_blob(path).download(Some(options)).await?;
        let bytes = answer.body.collect().await?;
        Ok((answer.headers, bytes.to_vec()))
    }

    /// [`LeaseStore::write_plan`](crate::store::LeaseStore::write_plan).
    pub(super) async fn put_plan(
        &self,
        path: &LockPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<PlanWritten, StoreError> {
        check_plan(&text)?;
        beside::check_name(path)?;
        let watch = self.containers.watch(path.container());
        let written = self.upload_plan(path, &text, if_match.as_ref()).await;
        self.note(watch, &written);
        let failure = match written {
            Ok(written) => return Ok(written),
            Err(failure) => failure,
        };
        match (failure.code(), &if_match) {
            ("BlobNotFound" | "ContainerNotFound", Some(_)) => return Err(StoreError::Changed),
            ("ContainerNotFound", None) => self.make_missed(watch).await?,
            _ => return Err(self.error(Request::WritePlan, failure)),
        }
        let watch = self.containers.watch(path.container());
        let written = self.upload_plan(path, &text, None).await;
        self.answer(watch, Request::WritePlan, written)
    }

    async fn upload_plan(
        &self,
        path: &LockPath,
        text: &str,
        if_match: Option<&ETag>,
    ) -> Result<PlanWritten, Failure> {
        let options = BlockBlobClientUploadOptions {
            blob_content_type: Some("application/json".to_owned()),
            if_match: if_match.map(answer::condition),
            // The first plan never overwrites one that somebody else has written meanwhile.
            if_none_match: if_match.is_none().then(|| "*".into()),
            ..BlockBlobClientUploadOptions::default()
        };
        let content = RequestContent::from(text.as_bytes().to_vec());
        let blob = self.plan_blob(path).block_blob_client();
        let answer = blob.upload(content, Some(options)).await?.raw_response;
        let headers = answer.headers();
        Ok(PlanWritten { etag: answer::etag(headers)?, time: answer::time(headers)? })
    }

    /// [`LeaseStore::delete_plan`](crate::store::LeaseStore::delete_plan).
    pub(super) async fn remove_plan(
        &self,
        path: &LockPath,
        if_match: &ETag,
    ) -> Result<(), StoreError> {
        let options = BlobClientDeleteOptions {
            if_match: Some(answer::condition(if_match)),
            ..BlobClientDeleteOptions::default()
        };
        let watch = self.containers.watch(path.container());
        let deleted = self.plan_blob(path).delete(Some(options)).await;
        match self.answer(watch, Request::DeletePlan, deleted.map(drop).map_err(Failure::from)) {
            Err(StoreError::NotFound) => Err(StoreError::Changed),
            deleted => deleted,
        }
    }

    /// The ETag of the plan that is there now.
    pub(super) async fn find_plan(&self, path: &LockPath) -> Result<Option<ETag>, StoreError> {
        let found = async {
            let answer = self.plan_blob(path).get_properties(None).await?;
            let is_directory = namespace::is_directory(answer.headers());
            answer::etag(answer.headers()).map(|etag| (!is_directory).then_some(etag))
        };
        let watch = self.containers.watch(path.container());
        match self.answer(watch, Request::ReadPlan, found.await) {
            Ok(etag) => Ok(etag),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the plan of a lock that is gone. Best effort: a plan may be there without its lock.
    pub(super) async fn drop_plan(&self, path: &LockPath, etag: &ETag) {
        match self.remove_plan(path, etag).await {
            Ok(()) | Err(StoreError::Changed) => {}
            Err(error) => {
                tracing::warn!(%path, error = %error.chain(), "could not delete the plan of a lock that was deleted");
            }
        }
    }
}

/// What is told of a blob that was put in a plan's place.
fn no_plan(path: &LockPath, source: Source) -> StoreError {
    StoreError::Fatal {
        advice: format!(
            "repair the schedule's plan, the blob {}/{}, or delete it and subscribe again",
            path.container(),
            beside::name_in(FOLDER, path.name())
        ),
        source,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
