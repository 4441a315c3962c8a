use super::*;

fn refusal(status: u16, code: &str) -> Refusal {
    Refusal {
        status,
        code: code.to_owned(),
        request_id: "r-1".to_owned(),
        retry_after: None,
        date: None,
    }
}

/// What each refusal is to an acquire, making the lock, a renewal, a release, a write and a read.
type Row = (u16, &'static str, [&'static str; 6]);

const ASKED: [Request; 6] = [
    Request::Acquire,
    Request::Create,
    Request::Renew,
    Request::Release,
    Request::Write,
    Request::Read,
];

const GONE: [&str; 6] =
    ["unavailable", "unavailable", "not_found", "not_found", "not_found", "not_found"];
const LOST: [&str; 6] = ["lease_lost"; 6];
const HELD: [&str; 6] =
    ["contended", "contended", "lease_lost", "lease_lost", "lease_lost", "contended"];
const OTHER: [&str; 6] = ["fatal"; 6];

/// The codes that Microsoft documents for Lease Blob, Set Blob Metadata, Get Blob Properties and Put Blob,
/// and for every operation on blobs; one that nobody knows; and none.
#[rustfmt::skip]
const DOCUMENTED: [Row; 71] = [
    // About leases, the lock and its container: final (S8).
    (404, "BlobNotFound", GONE),
    (404, "ContainerNotFound", GONE),
    (404, "ResourceNotFound", ["fatal", "fatal", "not_found", "not_found", "not_found", "not_found"]),
    (409, "ContainerBeingDeleted", ["unavailable", "unavailable", "not_found", "not_found", "not_found", "unavailable"]),
    (409, "LeaseAlreadyPresent", HELD),
    (409, "LeaseIsBreakingAndCannotBeAcquired", HELD),
    (409, "LeaseAlreadyBroken", LOST),
    (409, "LeaseIdMismatchWithLeaseOperation", LOST),
    (409, "LeaseIsBreakingAndCannotBeChanged", LOST),
    (409, "LeaseIsBrokenAndCannotBeRenewed", LOST),
    (409, "LeaseNotPresentWithLeaseOperation", LOST),
    (412, "LeaseIdMismatchWithBlobOperation", LOST),
    (412, "LeaseIdMissing", ["lease_lost", "contended", "lease_lost", "lease_lost", "lease_lost", "lease_lost"]),
    (412, "LeaseLost", LOST),
    (412, "LeaseNotPresentWithBlobOperation", LOST),
    // About the record's version (S5, S16).
    (412, "ConditionNotMet", ["changed"; 6]),
    (412, "TargetConditionNotMet", ["changed"; 6]),
    // About something else: the lease is what it was.
    (409, "AccountBeingCreated", ["unavailable"; 6]),
    (409, "BlobAlreadyExists", OTHER),
    (409, "BlobArchived", OTHER),
    (409, "BlobBeingRehydrated", OTHER),
    (409, "BlobImmutableDueToPolicy", OTHER),
    (409, "BlobUsesCustomerSpecifiedEncryption", OTHER),
    (409, "BlobTypeMismatch", OTHER),
    (409, "ContainerDisabled", OTHER),
    (409, "FeatureEncryptionMismatch", OTHER),
    (409, "InvalidBlobType", OTHER),
    (409, "LegalHold", OTHER),
    (409, "OperationNotAllowedOnIncrementalCopyBlob", OTHER),
    (409, "PendingCopyOperation", OTHER),
    (409, "ResourceTypeMismatch", OTHER),
    (409, "SnapshotsPresent", OTHER),
    (409, "SomethingNew", OTHER),
    (409, "", OTHER),
    (412, "AppendPositionConditionNotMet", OTHER),
    (412, "InfiniteLeaseDurationRequired", OTHER),
    (412, "LeaseIdMismatchWithContainerOperation", OTHER),
    (412, "LeaseNotPresentWithContainerOperation", OTHER),
    (412, "SourceConditionNotMet", OTHER),
    (412, "SomethingNew", OTHER),
    (412, "", OTHER),
    (404, "SomethingNew", ["fatal", "fatal", "fatal", "fatal", "fatal", "not_found"]),
    (404, "", ["fatal", "fatal", "fatal", "fatal", "fatal", "not_found"]),
    (400, "EmptyMetadataKey", OTHER),
    (400, "InvalidHeaderValue", OTHER),
    (400, "InvalidMetadata", OTHER),
    (400, "MetadataTooLarge", OTHER),
    (400, "MultipleConditionHeadersNotSupported", OTHER),
    (400, "UnsupportedHeader", OTHER),
    (400, "", OTHER),
    (405, "UnsupportedHttpVerb", OTHER),
    (411, "MissingContentLengthHeader", OTHER),
    (413, "RequestBodyTooLarge", OTHER),
    // About the credentials.
    (400, "InvalidAuthenticationInfo", ["denied"; 6]),
    (401, "NoAuthenticationInformation", ["denied"; 6]),
    (401, "", ["denied"; 6]),
    (403, "AccountIsDisabled", ["denied"; 6]),
    (403, "AuthenticationFailed", ["denied"; 6]),
    (403, "AuthorizationPermissionMismatch", ["denied"; 6]),
    (403, "InsufficientAccountPermissions", ["denied"; 6]),
    (403, "", ["denied"; 6]),
    // No answer of the service to what is asked: it may have been done, and nobody says so (S7).
    (202, "", ["unavailable"; 6]),
    (206, "", ["unavailable"; 6]),
    (302, "", ["unavailable"; 6]),
    // About the moment.
    (408, "", ["unavailable"; 6]),
    (429, "TooManyRequests", ["throttled"; 6]),
    (500, "InternalError", ["unavailable"; 6]),
    (500, "OperationTimedOut", ["unavailable"; 6]),
    (502, "", ["unavailable"; 6]),
    (503, "ServerBusy", ["throttled"; 6]),
    (503, "", ["throttled"; 6]),
];

fn store_error(status: u16, code: &str, request: Request) -> StoreError {
    let account =
        Account { host: "account.example", sign_in: &SignedIn::Token, wall: UnixMillis(0) };
    Failure::Refused(refusal(status, code)).into_store_error(request, &account)
}

#[test]
fn s8_only_what_is_about_leases_says_that_a_lease_is_lost() {
    let mut wrong = Vec::new();
    for (status, code, kinds) in DOCUMENTED {
        for (request, expected) in ASKED.into_iter().zip(kinds) {
            let kind = store_error(status, code, request).kind();
            if kind != expected {
                wrong.push(format!("{status} {code:?} to {request:?}: {kind}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn s8_a_break_that_the_service_names_is_told_as_one() {
    for code in ["LeaseIsBrokenAndCannotBeRenewed", "LeaseAlreadyBroken"] {
        let error = store_error(409, code, Request::Renew);
        let broken = matches!(error, StoreError::LeaseLost { how: LeaseEnd::Broken });
        assert!(broken, "{code} gave {error:?}");
    }
}

#[test]
fn what_is_asked_decides_what_a_conflict_means() {
    let kind = |code: &str, request| refusal(409, code).into_conflict(request).kind();
    assert_eq!(kind("LeaseNotPresentWithLeaseOperation", Request::Break), "not_held");
    assert_eq!(kind("LeaseNotPresentWithLeaseOperation", Request::Renew), "lease_lost");
    assert_eq!(kind("LeaseIdMissing", Request::Delete), "contended");
    assert_eq!(kind("LeaseIdMissing", Request::Write), "lease_lost");
    assert_eq!(kind("ContainerBeingDeleted", Request::Acquire), "unavailable");
    assert_eq!(kind("ContainerBeingDeleted", Request::Renew), "not_found");
    assert_eq!(kind("LeaseIsBreakingAndCannotBeAcquired", Request::Acquire), "contended");
    assert_eq!(kind("LeaseAlreadyBroken", Request::Break), "not_held");
}

#[test]
fn a_failure_that_trying_again_does_not_mend_says_what_to_do() {
    for (code, advice) in [
        ("InvalidHeaderValue", "REST version"),
        ("MetadataTooLarge", "labels"),
        ("InvalidBlobType", "container of their own"),
        ("BlobArchived", "archive tier"),
        ("BlobImmutableDueToPolicy", "immutability"),
        ("ContainerDisabled", "enable the container"),
        ("", "not about the lease"),
    ] {
        let error = refusal(400, code).into_fatal(Request::Write);
        assert!(error.to_string().contains(advice), "{error}");
    }
}
