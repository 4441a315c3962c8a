//! What the account keeps of blobs that were written over or deleted. Locks need none of it, and it is paid
//! for.

use azure_core::http::RequestContent;
use azure_core::http::headers::{HeaderName, Headers};

use super::error::{Failure, Request};
use super::{AzureStore, StoreError};
use crate::lock::Container;

/// The blob that is written and deleted to find out; like the notes of breaks, it is in nobody's way.
const TRIAL: &str = "leasehold-breaks/doctor";
const DELETED_FOR_GOOD: HeaderName = HeaderName::from_static("x-ms-delete-type-permanent");

/// What an account keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHistory {
    /// Each write of a blob leaves a version (blob versioning).
    pub versions: bool,
    /// Deleted blobs are kept for a while (blob soft delete); `None` if these credentials cannot find out.
    pub deleted: Option<bool>,
    /// For how many days, where these credentials may know.
    pub deleted_days: Option<u32>,
}

impl AzureStore {
    /// Finds out what the account keeps, by a blob of its own in `container`, which must be there.
    ///
    /// # Errors
    /// When that blob cannot be written.
    pub async fn blob_history(&self, container: &Container) -> Result<BlobHistory, StoreError> {
        let blob = self.clients().admin.blob_client(container.as_str(), TRIAL);
        let written = blob.block_blob_client().upload(RequestContent::from(Vec::new()), None).await;
        let versions = written
            .map_err(|failure| self.error(Request::Create, Failure::from(failure)))?
            .version_id
            .is_some_and(|version| !version.is_empty());
        // That it may not be deleted, or was by another at this moment, says nothing about what is kept.
        let deleted = blob.delete(None).await;
        let answered = deleted.ok().and_then(|answer| is_kept(answer.headers()));
        // Data roles may not read the account's settings; keys may.
        let policy = self.clients().admin.get_properties(None).await.ok();
        let policy = policy.and_then(|answer| answer.into_model().ok()?.delete_retention_policy);
        let enabled = policy.as_ref().and_then(|policy| policy.enabled);
        Ok(BlobHistory {
            versions,
            deleted: enabled.or(answered),
            deleted_days: policy.and_then(|policy| u32::try_from(policy.days?).ok()),
        })
    }
}

/// Whether a blob that was deleted with this answer is still kept.
fn is_kept(headers: &Headers) -> Option<bool> {
    match headers.get_optional_str(&DELETED_FOR_GOOD)?.trim() {
        "true" => Some(false),
        "false" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{service, store_on};
    use super::*;
    use crate::testing::Reply;

    async fn history(replies: Vec<Reply>) -> (BlobHistory, Vec<String>) {
        let (store, fake, _) = store_on(replies).await;
        let container = Container::parse("leasehold").unwrap();
        let history = store.blob_history(&container).await.unwrap();
        let asked = fake.asked();
        (history, asked.iter().map(|asked| format!("{} {}", asked.method, asked.target)).collect())
    }

    #[tokio::test]
    async fn versions_and_soft_delete_show_in_the_answers_to_a_write_and_a_deletion() {
        let version = ("x-ms-version-id", "2026-11-21T19:00:00.0000000Z");
        let denied = || service(403, &[("x-ms-error-code", "AuthorizationPermissionMismatch")]);
        let (found, asked) = history(vec![
            service(201, &[version]),
            service(202, &[("x-ms-delete-type-permanent", "false")]),
            denied(),
            denied(),
        ])
        .await;
        let expected = BlobHistory { versions: true, deleted: Some(true), deleted_days: None };
        assert_eq!(found, expected);
        let blob = "/account/leasehold/leasehold-breaks%2Fdoctor";
        let settings = "GET /account?comp=properties&restype=service";
        // What is refused is tried once more, with a fresh credential where there is one.
        let settings = settings.to_owned();
        let expected =
            [format!("PUT {blob}"), format!("DELETE {blob}"), settings.clone(), settings];
        assert_eq!(asked, expected);

        let permanent = ("x-ms-delete-type-permanent", "true");
        let replies = vec![service(201, &[]), service(202, &[permanent]), denied(), denied()];
        let expected = BlobHistory { versions: false, deleted: Some(false), deleted_days: None };
        assert_eq!(history(replies).await.0, expected);
    }

    #[tokio::test]
    async fn what_cannot_be_found_out_is_not_guessed() {
        let replies = vec![service(201, &[]), service(202, &[]), service(403, &[])];
        let expected = BlobHistory { versions: false, deleted: None, deleted_days: None };
        assert_eq!(history(replies).await.0, expected);
    }
}
