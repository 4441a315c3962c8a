//! Accounts with a hierarchical namespace (Data Lake Storage). They show each directory as an empty blob with
//! a mark in its metadata, and tools leave blobs with the same mark in other accounts: it is no lock, no plan
//! and no note.

use azure_core::http::headers::{HeaderName, Headers};

use super::error::Request;
use super::{AzureStore, StoreError};
use crate::lock::Container;

const MARK: &str = "hdi_isfolder";
const MARK_HEADER: HeaderName = HeaderName::from_static("x-ms-meta-hdi_isfolder");
const RESOURCE_TYPE: HeaderName = HeaderName::from_static("x-ms-resource-type");
const IS_HIERARCHICAL: HeaderName = HeaderName::from_static("x-ms-is-hns-enabled");

/// Whether a blob is a directory, by the metadata that a listing shows.
pub(super) fn is_listed_directory<'a>(
    metadata: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> bool {
    metadata.into_iter().any(|(name, value)| name.eq_ignore_ascii_case(MARK) && is_true(value))
}

/// Whether a blob is a directory, by the headers of an answer that shows its properties.
pub(super) fn is_directory(headers: &Headers) -> bool {
    headers.get_optional_str(&MARK_HEADER).is_some_and(is_true)
        || headers.get_optional_str(&RESOURCE_TYPE).is_some_and(|kind| kind.trim() == "directory")
}

fn is_true(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case("true")
}

impl AzureStore {
    /// Whether the account has a hierarchical namespace; `None` if the service does not tell.
    ///
    /// # Errors
    /// When the service cannot be asked, or not with these credentials.
    pub async fn is_hierarchical(&self, container: &Container) -> Result<Option<bool>, StoreError> {
        let client = self.clients().admin.blob_container_client(container.as_str());
        let answer = client.get_account_info(None).await;
        let answer = answer.map_err(|failure| self.error(Request::ReadAccount, failure))?;
        Ok(answer.headers().get_optional_str(&IS_HIERARCHICAL).map(is_true))
    }
}

#[cfg(test)]
#[path = "namespace_tests.rs"]
mod tests;
