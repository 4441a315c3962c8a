//! From our errors to gRPC statuses: one exhaustive match a type. Clients decide by code and reason, never by text.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::coordinator::{CallError, StoreFailure, StoreFailureKind};

/// The `domain` of every `google.rpc.ErrorInfo` of ours.
const DOMAIN: &str = "leasehold.dev";

/// When a caller should retry after a passing failure of the store whose end is not known.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The status of a call that was not served.
pub(super) fn of_call(error: &CallError) -> Status {
    let (code, reason) = match error {
        CallError::StoreFailure(store_failure) => return of_store_failure(store_failure),
        CallError::Path(_) | CallError::HostType(_) => (Code::InvalidArgument, "INVALID_FIELD"),
        CallError::ForeignPath { .. } => {
            return of_violations(&[("lock.lock_path", error.to_string())]);
        }
        CallError::ForeignPrefix { .. } => return of_violations(&[("prefix", error.to_string())]),
        CallError::ResumeToken => {
            return of_violations(&[("resume.resume_token", error.to_string())]);
        }
        CallError::PageToken => return of_violations(&[("page_token", error.to_string())]),
        CallError::OverrideForbidden => (Code::PermissionDenied, "OVERRIDE_FORBIDDEN"),
        CallError::TooManyHolds { .. } => (Code::ResourceExhausted, "TOO_MANY_HOLDS"),
        CallError::TooManyWaiters { .. } => (Code::ResourceExhausted, "TOO_MANY_WAITERS"),
        CallError::UnknownLease => (Code::NotFound, "UNKNOWN_LEASE"),
        CallError::HoldLost { .. } => (Code::FailedPrecondition, "HOLD_LOST"),
        CallError::HoldReleased => (Code::FailedPrecondition, "HOLD_LOST"),
        CallError::NoCheckpoints { field } => {
            return of_violations(&[(*field, error.to_string())]);
        }
        CallError::CheckpointUnknown => (Code::Unavailable, "CHECKPOINT_UNKNOWN"),
        CallError::BreakNotEnabled => (Code::FailedPrecondition, "BREAK_NOT_ENABLED"),
        CallError::Superseded => (Code::Aborted, "SUPERSEDED"),
        CallError::NoSuchLock { .. } => (Code::NotFound, "UNKNOWN_LOCK"),
    };
    let mut details = info(reason);
    match error {
        CallError::TooManyHolds { .. } | CallError::TooManyWaiters { .. } => {
            details.set_retry_info(Some(RETRY_AFTER));
        }
        CallError::HoldLost { reason } => {
            details.set_error_info("HOLD_LOST", DOMAIN, loss(reason.as_str()));
        }
        CallError::HoldReleased => {
            details.set_error_info("HOLD_LOST", DOMAIN, loss("released"));
        }
        CallError::Path(error) => {
            details.add_bad_request_violation("key", error.to_string());
        }
        CallError::HostType(problem) => {
            details.add_bad_request_violation("key.host_type", problem);
        }
        CallError::StoreFailure(_)
        | CallError::ForeignPath { .. }
        | CallError::ForeignPrefix { .. }
        | CallError::ResumeToken
        | CallError::PageToken
        | CallError::OverrideForbidden
        | CallError::UnknownLease
        | CallError::NoCheckpoints { .. }
        | CallError::CheckpointUnknown
        | CallError::BreakNotEnabled
        | CallError::Superseded
        | CallError::NoSuchLock { .. } => {}
    }
    Status::with_error_details(code, error.to_string(), details)
}

/// The code and the reason of a store failure.
pub(super) const fn store_failure(kind: StoreFailureKind) -> (Code, &'static str) {
    match kind {
        StoreFailureKind::Unavailable => (Code::Unavailable, "STORE_UNAVAILABLE"),
        StoreFailureKind::Throttled => (Code::Unavailable, "STORE_THROTTLED"),
        StoreFailureKind::ShuttingDown => (Code::Unavailable, "SHUTTING_DOWN"),
        StoreFailureKind::Denied => (Code::PermissionDenied, "STORE_DENIED"),
        StoreFailureKind::ContainerMissing => (Code::FailedPrecondition, "CONTAINER_MISSING"),
        StoreFailureKind::StoreFailed => (Code::Internal, "STORE_FAILED"),
        StoreFailureKind::TokenNotGrowing => (Code::DataLoss, "TOKEN_NOT_GROWING"),
        StoreFailureKind::TokenUnreadable => (Code::DataLoss, "TOKEN_UNREADABLE"),
    }
}

fn of_store_failure(store_failure: &StoreFailure) -> Status {
    let (code, reason) = self::store_failure(store_failure.kind);
    let mut details = info(reason);
    if code == Code::Unavailable {
        details.set_retry_info(Some(store_failure.retry_after.unwrap_or(RETRY_AFTER)));
    }
    Status::with_error_details(code, store_failure.message.clone(), details)
}

/// The status of a request with wrong fields, all of them named (S19).
pub(super) fn of_violations<F: AsRef<str>>(violations: &[(F, String)]) -> Status {
    let mut details = info("INVALID_FIELD");
    let mut message = String::new();
    for (field, problem) in violations {
        details.add_bad_request_violation(field.as_ref(), problem);
        if !message.is_empty() {
            message.push_str("; ");
        }
        message.push_str(field.as_ref());
        message.push_str(": ");
        message.push_str(problem);
    }
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// The status of a stream whose client read too slowly: it may resume.
pub(super) fn stream_behind() -> Status {
    let message =
        "the stream was ended because its client did not read it; the hold can be resumed";
    Status::with_error_details(Code::Aborted, message, info("STREAM_BEHIND"))
}

/// The status of a watch when the sidecar goes away.
pub(super) fn shutting_down() -> Status {
    of_store_failure(&StoreFailure {
        kind: StoreFailureKind::ShuttingDown,
        message: "the sidecar is shutting down".to_owned(),
        retry_after: None,
    })
}

/// The status of a caller that shows no bearer token, or a wrong one.
pub(super) fn unauthenticated(problem: &str) -> Status {
    let details = info("UNAUTHENTICATED");
    Status::with_error_details(Code::Unauthenticated, problem, details)
}

/// The status of a caller whose user may not use the Unix socket.
pub(super) fn user_not_allowed(problem: &str) -> Status {
    Status::with_error_details(Code::PermissionDenied, problem, info("USER_NOT_ALLOWED"))
}

/// The status of a caller whom no rule of `access` allows what it asks for.
pub(super) fn access_denied(problem: &str, details: HashMap<String, String>) -> Status {
    let details = ErrorDetails::with_error_info("ACCESS_DENIED", DOMAIN, details);
    Status::with_error_details(Code::PermissionDenied, problem, details)
}

fn info(reason: &str) -> ErrorDetails {
    ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new())
}

fn loss(reason: &str) -> HashMap<String, String> {
    HashMap::from([("loss_reason".to_owned(), reason.to_uppercase())])
}
