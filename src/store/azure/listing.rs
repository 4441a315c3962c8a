//! Listings: pages of blobs become pages of locks.

use azure_storage_blob::BlobContainerClient;
use azure_storage_blob::models::{
    BlobContainerClientListBlobsOptions, BlobItem, LeaseDuration as BlobLeaseDuration,
    LeaseState as BlobLeaseState, ListBlobsIncludeItem,
};
use futures_util::StreamExt as _;

use super::answer;
use super::error::Failure;
use super::{blob_names, documents, namespace};
use crate::lock::{Container, LockPath};
use crate::record::ETag;
use crate::store::{LeaseState, List, Listing, PlanListing, StoreTime, StoredLock};
use crate::time::UnixMillis;

/// The page of `request`. A page without a lock, of notes, plans and directories only, is passed over.
pub(super) async fn list(client: &BlobContainerClient, request: &List) -> Result<Listing, Failure> {
    let mut continuation = request.continuation.clone();
    loop {
        let listing = page(client, request, continuation).await?;
        if !listing.locks.is_empty() || listing.continuation.is_none() {
            return Ok(listing);
        }
        continuation = listing.continuation;
    }
}

/// The page of `request` of those locks that have a plan.
pub(super) async fn list_plans(
    client: &BlobContainerClient,
    request: &List,
) -> Result<PlanListing, Failure> {
    let prefix = format!("{}{}", documents::PLANS, request.prefix);
    let page = blobs(client, request, prefix, request.continuation.clone()).await?;
    let names = page.items.iter().filter_map(|item| item.name.as_deref());
    let names = names.filter_map(|name| blob_names::lock_of(documents::PLANS, name));
    let paths = names.map(|name| LockPath::from_parts(&request.container, name)).collect();
    Ok(PlanListing { paths, continuation: page.continuation })
}

async fn page(
    client: &BlobContainerClient,
    request: &List,
    marker: Option<String>,
) -> Result<Listing, Failure> {
    let page = blobs(client, request, request.prefix.clone(), marker).await?;
    let locks = page
        .items
        .into_iter()
        .filter(|item| !item.name.as_deref().is_some_and(blob_names::is_beside))
        .map(|item| lock(&request.container, item, page.time))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Listing { locks, continuation: page.continuation })
}

/// A page as the service lists it, without directories.
struct Blobs {
    items: Vec<BlobItem>,
    time: StoreTime,
    continuation: Option<String>,
}

async fn blobs(
    client: &BlobContainerClient,
    request: &List,
    prefix: String,
    marker: Option<String>,
) -> Result<Blobs, Failure> {
    let options = BlobContainerClientListBlobsOptions {
        include: Some(vec![ListBlobsIncludeItem::Metadata]),
        marker,
        maxresults: Some(i32::try_from(request.limit.clamp(1, 1_000)).unwrap_or(1_000)),
        prefix: Some(prefix).filter(|prefix| !prefix.is_empty()),
        ..BlobContainerClientListBlobsOptions::default()
    };
    let mut pages = client.list_blobs(Some(options))?.into_pages();
    let answer = pages.next().await.ok_or(Failure::Unbelievable("it has no page"))??;
    let time = answer::time(answer.headers())?;
    let page = answer.into_model()?;
    let continuation = page.next_marker.filter(|marker| !marker.is_empty());
    let items = page.blob_items.into_iter().filter(|item| !is_directory(item)).collect();
    Ok(Blobs { items, time, continuation })
}

fn is_directory(item: &BlobItem) -> bool {
    let metadata = item.metadata.as_ref().and_then(|metadata| metadata.values.as_ref());
    metadata.is_some_and(namespace::is_listed_directory)
}

fn lock(
    container: &Container,
    item: BlobItem,
    time: StoreTime,
) -> Result<(LockPath, StoredLock), Failure> {
    let incomplete = || Failure::Unbelievable("it lists a blob without its properties");
    let properties = item.properties.ok_or_else(incomplete)?;
    let metadata = item.metadata.and_then(|metadata| metadata.values).unwrap_or_default();
    let seconds = properties.last_modified.ok_or_else(incomplete)?.unix_timestamp();
    let fields = metadata.into_iter().map(|(name, value)| (answer::field_name(&name), value));
    let is_endless = matches!(properties.lease_duration, Some(BlobLeaseDuration::Infinite));
    let stored = StoredLock {
        etag: quoted(properties.etag.ok_or_else(incomplete)?.as_ref()),
        fields: if is_endless { answer::of_stranger(fields.collect()) } else { fields.collect() },
        lease: lease_state(properties.lease_state.ok_or_else(incomplete)?),
        written_at: UnixMillis(u64::try_from(seconds).unwrap_or_default().saturating_mul(1_000)),
        time,
    };
    Ok((LockPath::from_parts(container, &item.name.ok_or_else(incomplete)?), stored))
}

/// Listings show ETags without the quotes that headers have.
fn quoted(etag: &str) -> ETag {
    if etag.starts_with('"') || etag.starts_with("W/") {
        ETag(etag.into())
    } else {
        ETag(format!("\"{etag}\"").into())
    }
}

const fn lease_state(state: BlobLeaseState) -> LeaseState {
    match state {
        BlobLeaseState::Available => LeaseState::Available,
        BlobLeaseState::Leased => LeaseState::Leased,
        BlobLeaseState::Breaking => LeaseState::Breaking,
        BlobLeaseState::Broken => LeaseState::Broken,
        BlobLeaseState::Expired => LeaseState::Expired,
    }
}
