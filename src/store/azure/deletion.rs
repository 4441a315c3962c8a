//! Deleting a lock with what is kept beside it.

use azure_storage_blob::models::BlobClientDeleteOptions;

use super::error::Request;
use super::{AzureStore, answer};
use crate::lock::{ETag, LockPath};
use crate::store::{LeaseStore as _, StoreError};

impl AzureStore {
    /// [`LeaseStore::delete`](crate::store::LeaseStore::delete).
    pub(super) async fn remove(&self, path: &LockPath, if_match: &ETag) -> Result<(), StoreError> {
        let plan = self.find_plan(path).await?;
        let options = BlobClientDeleteOptions {
            if_match: Some(answer::condition(if_match)),
            ..BlobClientDeleteOptions::default()
        };
        let deleted = self.blob(path).delete(Some(options)).await;
        let mut deleted = deleted.map(drop).map_err(|failure| self.error(Request::Delete, failure));
        // A condition on a blob that is not there may fail as a condition.
        if matches!(deleted, Err(StoreError::Changed))
            && matches!(self.read_record(path).await, Err(StoreError::NotFound))
        {
            deleted = Err(StoreError::NotFound);
        }
        // When the lock is gone already, an earlier delete may have been cut short.
        if matches!(deleted, Ok(()) | Err(StoreError::NotFound)) {
            self.delete_note(path, None).await;
        }
        // T21: never before its lock, and only the one that was there then. Without the lock it may be about
        // to be made.
        if let (Ok(()), Some(etag)) = (&deleted, plan) {
            self.drop_plan(path, &etag).await;
        }
        deleted
    }
}
