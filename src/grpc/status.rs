//! From our errors to gRPC statuses: an error has a reason, a reason has a code, and no match leaves one out.
//! Clients decide by code and reason, never by text.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::coordinator::{CallError, StoreFailure, StoreFailureKind};
use crate::grpc::proto::ErrorReason;
use crate::lobby::Limit;

/// The `domain` of every `google.rpc.ErrorInfo` of ours.
const DOMAIN: &str = "leasehold.dev";

/// When a caller should retry after a passing failure of the store whose end is not known.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// What names the limit that a call was refused at, in the metadata of its `ErrorInfo`.
const LIMIT: &str = "limit";

/// What the names of [`ErrorReason`] have before the reason.
const PREFIX: &str = "ERROR_REASON_";

/// The code that goes with a reason: as the proto says at each.
const fn code(reason: ErrorReason) -> Code {
    match reason {
        ErrorReason::InvalidField => Code::InvalidArgument,
        ErrorReason::UnknownLease | ErrorReason::UnknownLock | ErrorReason::UnknownSchedule => {
            Code::NotFound
        }
        ErrorReason::HoldLost
        | ErrorReason::HoldReleased
        | ErrorReason::BreakNotEnabled
        | ErrorReason::OtherHolder
        | ErrorReason::OccurrenceInFuture
        | ErrorReason::ScheduleRemoved
        | ErrorReason::ScheduleHasSubscribers
        | ErrorReason::ScheduleChangesNotEnabled
        | ErrorReason::LockHasSchedule
        | ErrorReason::ContainerMissing => Code::FailedPrecondition,
        ErrorReason::AccessDenied
        | ErrorReason::OverrideForbidden
        | ErrorReason::StoreDenied
        | ErrorReason::UserNotAllowed => Code::PermissionDenied,
        ErrorReason::Unauthenticated => Code::Unauthenticated,
        ErrorReason::StoreUnavailable
        | ErrorReason::StoreThrottled
        | ErrorReason::ShuttingDown
        | ErrorReason::CheckpointUnknown => Code::Unavailable,
        ErrorReason::StoreFailed => Code::Internal,
        ErrorReason::TokenNotGrowing
        | ErrorReason::TokenUnreadable
        | ErrorReason::ScheduleUnreadable => Code::DataLoss,
        ErrorReason::StoreFull
        | ErrorReason::TooManyHolds
        | ErrorReason::TooManyWaiters
        | ErrorReason::TooManyTriggers
        | ErrorReason::LimitReached => Code::ResourceExhausted,
        ErrorReason::Superseded | ErrorReason::StreamBehind => Code::Aborted,
        ErrorReason::Unsupported => Code::Unimplemented,
        // Never sent.
        ErrorReason::Unspecified => Code::Unknown,
    }
}

/// The reason of a store failure.
pub(super) const fn store_failure(kind: StoreFailureKind) -> ErrorReason {
    match kind {
        StoreFailureKind::Unavailable => ErrorReason::StoreUnavailable,
        StoreFailureKind::Throttled => ErrorReason::StoreThrottled,
        StoreFailureKind::ShuttingDown => ErrorReason::ShuttingDown,
        StoreFailureKind::Denied => ErrorReason::StoreDenied,
        StoreFailureKind::ContainerMissing => ErrorReason::ContainerMissing,
        StoreFailureKind::StoreFailed => ErrorReason::StoreFailed,
        StoreFailureKind::Full => ErrorReason::StoreFull,
        StoreFailureKind::TokenNotGrowing => ErrorReason::TokenNotGrowing,
        StoreFailureKind::TokenUnreadable => ErrorReason::TokenUnreadable,
    }
}

/// The status of a call that was not served.
pub(super) fn of_call(error: &CallError) -> Status {
    let problem = error.to_string();
    let plain = |reason| of_reason(reason, &problem);
    let with = |reason, metadata| detailed(reason, &problem, metadata, None);
    let wrong = |field| of_violations(&[(field, problem.clone())]);
    match error {
        CallError::StoreFailure(failure) => {
            let reason = store_failure(failure.kind);
            let passes = code(reason) == Code::Unavailable;
            let retry_after = passes.then(|| failure.retry_after.unwrap_or(RETRY_AFTER));
            detailed(reason, &problem, HashMap::new(), retry_after)
        }
        CallError::Path(_) | CallError::ScheduleKey(_) => wrong("key"),
        CallError::HostType(_) => wrong("key.host_type"),
        CallError::ForeignPath { .. } => wrong("lock.lock_path"),
        CallError::ForeignPrefix { .. } => wrong("prefix"),
        CallError::ResumeToken => wrong("resume.resume_token"),
        CallError::PageToken => wrong("page_token"),
        CallError::NoCheckpoints { field } | CallError::NoPermits { field } => wrong(*field),
        CallError::TriggerId(_) => wrong("request_id"),
        CallError::WatermarkAhead { .. } => wrong("watermark"),
        CallError::ScheduleMode => wrong("key.mode"),
        CallError::NoOccurrences => wrong("spec.occurrence_at"),
        CallError::NoOccurrence => wrong("outcome"),
        CallError::TooManyHolds { .. } => at(ErrorReason::TooManyHolds, Limit::Holds, &problem),
        CallError::TooManyWaiters { .. } => {
            at(ErrorReason::TooManyWaiters, Limit::Waiters, &problem)
        }
        CallError::TooManyResumes { .. } => limit_reached(Limit::Resumes, &problem),
        CallError::TooManyFollowed => limit_reached(Limit::Memory, &problem),
        CallError::TooManyTriggers => {
            let reason = ErrorReason::TooManyTriggers;
            detailed(reason, &problem, HashMap::new(), Some(RETRY_AFTER))
        }
        CallError::HoldLost { reason } => {
            let loss_reason = reason.as_str().to_uppercase();
            with(ErrorReason::HoldLost, HashMap::from([("loss_reason".to_owned(), loss_reason)]))
        }
        CallError::Needs { needs, revision } => {
            with(ErrorReason::Unsupported, revisions(*needs, *revision))
        }
        CallError::OtherHolder { named, now, .. } => {
            let tokens = [("named_token", *named), ("newest_token", *now)];
            let known = tokens.into_iter().filter_map(|(name, token)| Some((name, token?)));
            let known = known.map(|(name, token)| (name.to_owned(), token.to_string()));
            with(ErrorReason::OtherHolder, known.collect())
        }
        CallError::OverrideForbidden => plain(ErrorReason::OverrideForbidden),
        CallError::UnknownLease => plain(ErrorReason::UnknownLease),
        CallError::HoldReleased => plain(ErrorReason::HoldReleased),
        CallError::CheckpointUnknown => plain(ErrorReason::CheckpointUnknown),
        CallError::BreakNotEnabled => plain(ErrorReason::BreakNotEnabled),
        CallError::Superseded | CallError::ResumedSince => plain(ErrorReason::Superseded),
        CallError::NoSuchLock { .. } => plain(ErrorReason::UnknownLock),
        CallError::NoSuchSchedule { .. } => plain(ErrorReason::UnknownSchedule),
        CallError::ScheduleRemoved { .. } => plain(ErrorReason::ScheduleRemoved),
        CallError::ScheduleHasSubscribers { .. } => plain(ErrorReason::ScheduleHasSubscribers),
        CallError::ScheduleChangesNotEnabled => plain(ErrorReason::ScheduleChangesNotEnabled),
        CallError::ScheduleUnreadable { .. } => plain(ErrorReason::ScheduleUnreadable),
        CallError::OccurrenceInFuture { .. } => plain(ErrorReason::OccurrenceInFuture),
        CallError::LockHasSchedule { .. } => plain(ErrorReason::LockHasSchedule),
    }
}

/// The metadata of a request that needs a newer sidecar: by it clients know that another one may serve it.
fn revisions(needs: u32, revision: u32) -> HashMap<String, String> {
    let numbers = [("needs", needs), ("revision", revision)];
    HashMap::from(numbers.map(|(name, number)| (name.to_owned(), number.to_string())))
}

/// Wrong fields of a request that are named: a status travels in headers, whose size clients limit.
const MAX_VIOLATIONS: usize = 20;

/// The status of a request with wrong fields, all of them named (S19), unless it has very many.
pub(super) fn of_violations<F: AsRef<str>>(violations: &[(F, String)]) -> Status {
    let reason = ErrorReason::InvalidField;
    let mut details = ErrorDetails::with_error_info(name(reason), DOMAIN, HashMap::new());
    let mut message = String::new();
    for (field, problem) in violations.iter().take(MAX_VIOLATIONS) {
        details.add_bad_request_violation(field.as_ref(), problem);
        if !message.is_empty() {
            message.push_str("; ");
        }
        message.push_str(field.as_ref());
        message.push_str(": ");
        message.push_str(problem);
    }
    let more = violations.len().saturating_sub(MAX_VIOLATIONS);
    if more > 0 {
        message.push_str(&format!("; and {more} more"));
    }
    Status::with_error_details(code(reason), message, details)
}

/// The status of a request whose bytes are no message of its call.
pub(super) fn undecodable(problem: &dyn fmt::Display) -> Status {
    let problem = format!("the request cannot be read as a message of this call: {problem}");
    of_reason(ErrorReason::InvalidField, &problem)
}

/// The status of a stream whose client read too slowly: it may resume.
pub(super) fn stream_behind() -> Status {
    let message =
        "the stream was ended because its client did not read it; the hold can be resumed";
    of_reason(ErrorReason::StreamBehind, message)
}

/// The status of a call whose own part had the lock granted to nobody: no call of this service brings one.
pub(super) fn settled() -> Status {
    Status::internal(
        "the lock was granted to nobody, as the call has asked; but no call can ask for that here",
    )
}

/// The status of a watch when the sidecar goes away.
pub(super) fn shutting_down() -> Status {
    of_call(&CallError::StoreFailure(StoreFailure {
        kind: StoreFailureKind::ShuttingDown,
        message: "the sidecar is shutting down".to_owned(),
        retry_after: None,
    }))
}

/// The status of a call whose feature this sidecar does not have.
pub(super) fn unsupported(problem: &str) -> Status {
    of_reason(ErrorReason::Unsupported, problem)
}

/// The status of a caller that shows no bearer token, or a wrong one.
pub(super) fn unauthenticated(problem: &str) -> Status {
    of_reason(ErrorReason::Unauthenticated, problem)
}

/// The status of a call that this limit has no place for (S38).
pub(super) fn limit_reached(limit: Limit, problem: &str) -> Status {
    at(ErrorReason::LimitReached, limit, problem)
}

fn at(reason: ErrorReason, limit: Limit, problem: &str) -> Status {
    let metadata = HashMap::from([(LIMIT.to_owned(), limit.setting().to_owned())]);
    detailed(reason, problem, metadata, Some(RETRY_AFTER))
}

/// The limit that refused a call.
pub(super) fn limit_of(refused: &Status) -> Option<Limit> {
    Limit::of_setting(refused.get_details_error_info()?.metadata.get(LIMIT)?)
}

/// The status of a caller whom no rule of `access` allows what it asks for.
pub(super) fn access_denied(problem: &str, details: HashMap<String, String>) -> Status {
    detailed(ErrorReason::AccessDenied, problem, details, None)
}

fn of_reason(reason: ErrorReason, problem: &str) -> Status {
    detailed(reason, problem, HashMap::new(), None)
}

fn detailed(
    reason: ErrorReason,
    problem: &str,
    metadata: HashMap<String, String>,
    retry_after: Option<Duration>,
) -> Status {
    let mut details = ErrorDetails::with_error_info(name(reason), DOMAIN, metadata);
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(code(reason), problem, details)
}

/// The reason as it is on the wire.
fn name(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
