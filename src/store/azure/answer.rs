//! What an answer must have to count, and what is read from it.

use std::sync::Arc;
use std::time::Duration;

use azure_core::http::headers::{
    ERROR_CODE, HeaderName, Headers, RETRY_AFTER, X_MS_RETRY_AFTER_MS,
};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Etag, Request};
use azure_core::time::parse_rfc7231;

use super::error::Failure;
use super::namespace;
use crate::lock::LeaseId;
use crate::record::{ETag, FUNCTION_INSTANCE, Fields, held_by_stranger};
use crate::store::{LeaseState, StoreTime, StoredLock};
use crate::time::UnixMillis;

const DATE: HeaderName = HeaderName::from_static("date");
const ETAG: HeaderName = HeaderName::from_static("etag");
const LAST_MODIFIED: HeaderName = HeaderName::from_static("last-modified");
const LEASE_DURATION: HeaderName = HeaderName::from_static("x-ms-lease-duration");
const LEASE_ID: HeaderName = HeaderName::from_static("x-ms-lease-id");
const LEASE_STATE: HeaderName = HeaderName::from_static("x-ms-lease-state");
const LEASE_TIME: HeaderName = HeaderName::from_static("x-ms-lease-time");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const METADATA: &str = "x-ms-meta-";

/// Sends the request on through the pipeline.
pub(super) async fn from_next(
    context: &Context<'_>,
    request: &mut Request,
    next: &[Arc<dyn Policy>],
) -> PolicyResult {
    match next.split_first() {
        Some((first, rest)) => first.send(context, request, rest).await,
        None => Err(azure_core::Error::with_message(
            azure_core::error::ErrorKind::Other,
            "the pipeline has no transport",
        )),
    }
}

/// The service's clock, to the second.
pub(super) fn date(headers: &Headers) -> Option<StoreTime> {
    headers.get_optional_str(&DATE).and_then(http_date)
}

/// Whether the service itself answered, and not a proxy or a sign-in page on the way to it: all answers of
/// the service have these.
pub(super) fn is_the_services(headers: &Headers) -> bool {
    request_id(headers).is_some() && date(headers).is_some()
}

/// The service's name of the request, for Azure's support.
pub(super) fn request_id(headers: &Headers) -> Option<&str> {
    headers.get_optional_str(&REQUEST_ID).filter(|id| !id.is_empty())
}

/// The service's name of the error; empty if it gives none.
pub(super) fn error_code(headers: &Headers) -> &str {
    headers.get_optional_str(&ERROR_CODE).unwrap_or_default()
}

/// After which delay the service wants to be asked again.
pub(super) fn retry_after(headers: &Headers) -> Option<Duration> {
    let number = |name: &HeaderName| headers.get_optional_str(name)?.trim().parse::<u64>().ok();
    let millis = number(&X_MS_RETRY_AFTER_MS).map(Duration::from_millis);
    millis.or_else(|| number(&RETRY_AFTER).map(Duration::from_secs))
}

/// The store's time of an answer that counts.
pub(super) fn time(headers: &Headers) -> Result<StoreTime, Failure> {
    date(headers).ok_or(Failure::Unbelievable("it has no date"))
}

/// The condition that the record still has this version.
pub(super) fn condition(etag: &ETag) -> Etag {
    Etag::from(&*etag.0)
}

/// The record's version.
pub(super) fn etag(headers: &Headers) -> Result<ETag, Failure> {
    let etag = headers.get_optional_str(&ETAG).filter(|etag| !etag.is_empty());
    etag.map(|etag| ETag(etag.into())).ok_or(Failure::Unbelievable("it has no ETag"))
}

/// Checks that the answer is about our lease (S7).
pub(super) fn check_lease_id(headers: &Headers, lease_id: LeaseId) -> Result<(), Failure> {
    let answered = headers.get_optional_str(&LEASE_ID).and_then(LeaseId::parse);
    if answered == Some(lease_id) {
        Ok(())
    } else {
        Err(Failure::Unbelievable("it is not about the lease that was asked for"))
    }
}

/// How long a lease that was broken still runs.
pub(super) fn remaining(headers: &Headers) -> Result<Duration, Failure> {
    let seconds = headers.get_optional_str(&LEASE_TIME).and_then(|text| text.trim().parse().ok());
    seconds.map(Duration::from_secs).ok_or(Failure::Unbelievable("it has no lease time"))
}

/// The lock as the headers of its blob show it.
pub(super) fn stored_lock(headers: &Headers) -> Result<StoredLock, Failure> {
    if namespace::is_directory(headers) {
        return Err(Failure::Directory);
    }
    let written_at = headers.get_optional_str(&LAST_MODIFIED).and_then(http_date);
    let lease = headers.get_optional_str(&LEASE_STATE).and_then(lease_state);
    let is_endless = headers.get_optional_str(&LEASE_DURATION) == Some("infinite");
    Ok(StoredLock {
        etag: etag(headers)?,
        fields: if is_endless { of_stranger(fields(headers)) } else { fields(headers) },
        lease: lease.ok_or(Failure::Unbelievable("it has no lease state"))?,
        written_at: written_at
            .ok_or(Failure::Unbelievable("it does not say when it was written"))?,
        time: time(headers)?,
    })
}

/// The fields of a lock that somebody has leased without end. The service has a duration only of a blob that
/// is leased, and no sidecar leases one without end: whoever is recorded as the holder is not the one that
/// has it.
pub(super) fn of_stranger(mut fields: Fields) -> Fields {
    const STRANGER: &str = "somebody else than Leasehold, with a lease without end, which `leasehold break` or `az storage blob \
        lease break` ends";
    held_by_stranger(&mut fields, STRANGER);
    fields
}

/// The blob's metadata.
pub(super) fn fields(headers: &Headers) -> Fields {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix(METADATA)?, value)))
        .map(|(name, value)| (field_name(name), value.as_str().to_owned()))
        .collect()
}

/// A field's name as all readers of this store give it, whatever case the service kept: HTTP brings all in
/// lower case, and the readers of WebJobs' field know it only as it is there.
pub(super) fn field_name(name: &str) -> String {
    if name.eq_ignore_ascii_case(FUNCTION_INSTANCE) {
        FUNCTION_INSTANCE.to_owned()
    } else {
        name.to_ascii_lowercase()
    }
}

fn lease_state(text: &str) -> Option<LeaseState> {
    match text.trim() {
        "available" => Some(LeaseState::Available),
        "leased" => Some(LeaseState::Leased),
        "breaking" => Some(LeaseState::Breaking),
        "broken" => Some(LeaseState::Broken),
        "expired" => Some(LeaseState::Expired),
        _ => None,
    }
}

fn http_date(text: &str) -> Option<UnixMillis> {
    let seconds = parse_rfc7231(text.trim()).ok()?.unix_timestamp();
    Some(UnixMillis(u64::try_from(seconds).ok()?.checked_mul(1_000)?))
}
