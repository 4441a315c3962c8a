//! Plans of schedules, and statuses of timers of .NET's WebJobs SDK (T22): blobs beside the locks, since the
//! record of a lock that is leased cannot be written without its lease id (T3). A plan's blob has its JSON as
//! content, so that people can read it in a storage explorer.

use azure_core::http::RequestContent;
use azure_core::http::headers::Headers;
use azure_storage_blob::BlobClient;
use azure_storage_blob::models::{
    BlobClientDeleteOptions, BlobClientDownloadOptions, BlockBlobClientUploadOptions, HttpRange,
};

use super::error::{Failure, Request};
use super::{AzureStore, answer, blob_names, namespace};
use crate::lock::LockPath;
use crate::record::ETag;
use crate::store::{
    DocumentKind, DocumentPath, DocumentRead, DocumentWritten, Source, StoreError, StoredDocument,
};

/// Under this are the plans; no lock may be.
pub(super) const PLANS: &str = "leasehold-plans/";

/// The name of a document's blob in its container.
fn blob_name(path: &DocumentPath) -> String {
    match path {
        DocumentPath::Plan(path) => blob_names::name_in(PLANS, path.name()),
        DocumentPath::TimerStatus(timer) => timer.name(),
    }
}

impl AzureStore {
    fn document_blob(&self, path: &DocumentPath) -> BlobClient {
        self.clients().lease.blob_client(path.container(), &blob_name(path))
    }

    pub(super) async fn get_document(
        &self,
        path: &DocumentPath,
    ) -> Result<DocumentRead, StoreError> {
        let kind = path.kind();
        let told = |failure| self.error(Request::ReadDocument(kind), failure);
        let watch = self.containers.watch(path.container());
        let read = self.download(path).await;
        self.note(watch, &read);
        let (headers, bytes) = match read {
            Ok(read) => read,
            Err(Failure::Refused(refusal)) if refusal.is_of_nothing() => {
                let undated = Failure::Unbelievable("it has no date");
                let time = refusal.date.ok_or_else(|| told(undated))?;
                return Ok(DocumentRead { document: None, time });
            }
            Err(failure) => return Err(told(failure)),
        };
        let etag = answer::etag(&headers).map_err(told)?;
        let time = answer::time(&headers).map_err(told)?;
        if namespace::is_directory(&headers) {
            return Err(unreadable(path, Failure::Directory.into()));
        }
        // A status that is too long is refused where it is parsed.
        if kind == DocumentKind::Plan && bytes.len() > kind.max_bytes() {
            return Err(unreadable(path, kind.too_long().into()));
        }
        let text = String::from_utf8(bytes).map_err(|error| unreadable(path, error.into()))?;
        Ok(DocumentRead { document: Some(StoredDocument { etag, text }), time })
    }

    /// The answer's headers, and its content up to one byte more than such a document may have.
    async fn download(&self, path: &DocumentPath) -> Result<(Headers, Vec<u8>), Failure> {
        let most = u64::try_from(path.kind().max_bytes()).unwrap_or(u64::MAX);
        let options = BlobClientDownloadOptions {
            range: Some(HttpRange::new(0, most.saturating_add(1))),
            ..BlobClientDownloadOptions::default()
        };
        let answer = self.document_blob(path).download(Some(options)).await?;
        let bytes = answer.body.collect().await?;
        Ok((answer.headers, bytes.to_vec()))
    }

    pub(super) async fn put_document(
        &self,
        path: &DocumentPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<DocumentWritten, StoreError> {
        let request = Request::WriteDocument(path.kind());
        path.kind().check(&text)?;
        if let DocumentPath::Plan(lock) = path {
            blob_names::check_name(lock)?;
        }
        let watch = self.containers.watch(path.container());
        let written = self.upload(path, &text, if_match.as_ref()).await;
        self.note(watch, &written);
        let failure = match written {
            Ok(written) => return Ok(written),
            Err(failure) => failure,
        };
        match (failure.code(), &if_match) {
            ("BlobNotFound" | "ContainerNotFound", Some(_)) => return Err(StoreError::Changed),
            ("ContainerNotFound", None) => self.make_missed(watch).await?,
            _ => return Err(self.error(request, failure)),
        }
        let watch = self.containers.watch(path.container());
        let written = self.upload(path, &text, None).await;
        self.answer(watch, request, written)
    }

    async fn upload(
        &self,
        path: &DocumentPath,
        text: &str,
        if_match: Option<&ETag>,
    ) -> Result<DocumentWritten, Failure> {
        let content_type = match path.kind() {
            DocumentKind::Plan => Some("application/json".to_owned()),
            // As the hosts of .NET leave it.
            DocumentKind::TimerStatus => None,
        };
        let options = BlockBlobClientUploadOptions {
            blob_content_type: content_type,
            if_match: if_match.map(answer::condition),
            // A first text never overwrites one that was written meanwhile.
            if_none_match: if_match.is_none().then(|| "*".into()),
            ..BlockBlobClientUploadOptions::default()
        };
        let content = RequestContent::from(text.as_bytes().to_vec());
        let blob = self.document_blob(path).block_blob_client();
        let answer = blob.upload(content, Some(options)).await?.raw_response;
        let headers = answer.headers();
        Ok(DocumentWritten { etag: answer::etag(headers)?, time: answer::time(headers)? })
    }

    pub(super) async fn remove_plan(
        &self,
        path: LockPath,
        if_match: &ETag,
    ) -> Result<(), StoreError> {
        let options = BlobClientDeleteOptions {
            if_match: Some(answer::condition(if_match)),
            ..BlobClientDeleteOptions::default()
        };
        let plan = DocumentPath::Plan(path);
        let watch = self.containers.watch(plan.container());
        let deleted = self.document_blob(&plan).delete(Some(options)).await;
        match self.answer(watch, Request::DeletePlan, deleted.map(drop).map_err(Failure::from)) {
            Err(StoreError::NotFound) => Err(StoreError::Changed),
            deleted => deleted,
        }
    }

    /// The ETag of the plan that is there now.
    pub(super) async fn find_plan(&self, path: &LockPath) -> Result<Option<ETag>, StoreError> {
        let plan = DocumentPath::Plan(path.clone());
        let found = async {
            let answer = self.document_blob(&plan).get_properties(None).await?;
            let is_directory = namespace::is_directory(answer.headers());
            answer::etag(answer.headers()).map(|etag| (!is_directory).then_some(etag))
        };
        let watch = self.containers.watch(path.container());
        match self.answer(watch, Request::ReadDocument(DocumentKind::Plan), found.await) {
            Ok(etag) => Ok(etag),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the plan of a lock that is gone. Best effort: a plan may be there without its lock.
    pub(super) async fn drop_plan(&self, path: &LockPath, etag: &ETag) {
        match self.remove_plan(path.clone(), etag).await {
            Ok(()) | Err(StoreError::Changed) => {}
            Err(error) => {
                tracing::warn!(%path, error = %error.chain(), "could not delete the plan of a lock that was deleted");
            }
        }
    }
}

/// What is told of a blob that was put in a document's place.
fn unreadable(path: &DocumentPath, source: Source) -> StoreError {
    let blob = format!("{}/{}", path.container(), blob_name(path));
    let advice = match path.kind() {
        DocumentKind::Plan => {
            format!("repair the schedule's plan, the blob {blob}, or delete it and subscribe again")
        }
        DocumentKind::TimerStatus => format!("is the blob {blob} the status of a timer?"),
    };
    StoreError::Fatal { advice, source }
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
