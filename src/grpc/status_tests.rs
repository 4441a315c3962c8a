use std::collections::BTreeSet;

use tonic_types::StatusExt as _;

use super::*;
use crate::coordinator::LossReason;
use crate::lock::PathError;
use crate::timetable::UtcSecond;

/// Reasons that this sidecar does not send: the one that says nothing, and the one of users who cannot even
/// connect.
const NOT_SENT: [ErrorReason; 2] = [ErrorReason::Unspecified, ErrorReason::UserNotAllowed];
/// Reasons of what is not built yet.
const NOT_YET: [ErrorReason; 1] = [ErrorReason::CheckpointUnknown];

fn every_reason() -> impl Iterator<Item = ErrorReason> {
    (0..1_000).filter_map(|number| ErrorReason::try_from(number).ok())
}

/// One status of each kind that is made here.
fn every_status() -> Vec<Status> {
    let kinds = [
        StoreFailureKind::Unavailable,
        StoreFailureKind::Throttled,
        StoreFailureKind::Denied,
        StoreFailureKind::ContainerMissing,
        StoreFailureKind::StoreFailed,
        StoreFailureKind::Full,
        StoreFailureKind::TokenNotGrowing,
        StoreFailureKind::TokenUnreadable,
        StoreFailureKind::ShuttingDown,
    ];
    let failure = |kind| StoreFailure { kind, message: "the store".to_owned(), retry_after: None };
    let errors = [
        CallError::Path(PathError::Container { text: "A".to_owned() }),
        CallError::HostType("no".to_owned()),
        CallError::ForeignPath { path: "a/b".to_owned(), container: "c".to_owned() },
        CallError::ForeignPrefix { own: "c/".to_owned() },
        CallError::ResumeToken,
        CallError::PageToken,
        CallError::Needs { needs: 2, revision: 1 },
        CallError::OverrideForbidden,
        CallError::TooManyHolds { limit: 1 },
        CallError::TooManyWaiters { limit: 1 },
        CallError::TooManyResumes { limit: 1 },
        CallError::UnknownLease,
        CallError::HoldLost { reason: LossReason::Taken },
        CallError::HoldReleased,
        CallError::BreakNotEnabled,
        CallError::OtherHolder { path: "locks/a".parse().unwrap(), named: None, now: None },
        CallError::Superseded,
        CallError::ResumedSince,
        CallError::NoSuchLock { path: "locks/a".parse().unwrap() },
        CallError::NoSuchSchedule { path: "locks/a".parse().unwrap() },
        CallError::ScheduleRemoved {
            path: "locks/a".parse().unwrap(),
            at: UtcSecond(1),
            reason: "moved".to_owned(),
        },
        CallError::ScheduleHasSubscribers { path: "locks/a".parse().unwrap(), subscribers: 2 },
        CallError::WatermarkAhead { at: UtcSecond(100), now: UtcSecond(1) },
        CallError::ScheduleChangesNotEnabled,
        CallError::TooManyTriggers,
        CallError::TriggerId("no".to_owned()),
        CallError::ScheduleUnreadable { path: "locks/a".parse().unwrap(), problem: "x".to_owned() },
        CallError::ScheduleKey("too long".to_owned()),
        CallError::OccurrenceInFuture { at: UtcSecond(100), now: UtcSecond(1) },
        CallError::LockHasSchedule { path: "locks/a".parse().unwrap() },
        CallError::NoOccurrence,
    ];
    let kinds = kinds.into_iter().map(|kind| CallError::StoreFailure(failure(kind)));
    let errors: Vec<CallError> = kinds.chain(errors).collect();
    let mut statuses: Vec<Status> = errors.iter().map(of_call).collect();
    statuses.extend([
        stream_behind(),
        shutting_down(),
        unauthenticated("who are you?"),
        limit_reached(Limit::Connections, "too many"),
        access_denied("no", HashMap::new()),
        unsupported("not here"),
        of_violations(&[("spec.wait", "is too long".to_owned())]),
    ]);
    statuses
}

#[test]
fn every_reason_is_sent_or_listed_as_not_sent() {
    let sent: BTreeSet<String> = every_status()
        .iter()
        .map(|status| {
            let info = status.get_details_error_info().expect("every status has a reason");
            assert_eq!(info.domain, DOMAIN);
            info.reason
        })
        .collect();
    let unsent: Vec<&str> = NOT_SENT.into_iter().chain(NOT_YET).map(name).collect();
    let all: BTreeSet<String> = every_reason()
        .map(|reason| name(reason).to_owned())
        .filter(|name| !unsent.contains(&name.as_str()))
        .collect();
    assert_eq!(sent, all);
    assert!(all.iter().all(|name| !name.starts_with(PREFIX)));
}

#[test]
fn each_reason_has_the_code_that_the_proto_says() {
    let proto = include_str!("../../proto/leasehold/v1/errors.proto");
    let lines: Vec<&str> = proto.lines().map(str::trim).collect();
    for reason in every_reason().filter(|reason| !NOT_SENT.contains(reason)) {
        let declared = format!("{} = ", reason.as_str_name());
        let at = lines.iter().position(|line| line.starts_with(&declared)).unwrap();
        // The comment's first line; what follows an empty one is for authors of clients.
        let said = lines[..at].iter().rev().take_while(|line| line.starts_with("//")).last();
        let said = said.unwrap().strip_prefix("// ").unwrap();
        let code = format!("{:?}", code(reason));
        let said = said.split(':').next().unwrap().replace('_', "");
        assert_eq!(said, code.to_uppercase(), "{reason:?}");
    }
}

#[test]
fn the_reason_and_the_code_of_a_status_belong_together() {
    for status in every_status() {
        let reason = status.get_details_error_info().unwrap().reason;
        let reason = ErrorReason::from_str_name(&format!("{PREFIX}{reason}")).unwrap();
        assert_eq!(status.code(), code(reason), "{reason:?}");
        let tells_when = status.get_details_retry_info().is_some();
        let passes = matches!(
            reason,
            ErrorReason::StoreUnavailable
                | ErrorReason::StoreThrottled
                | ErrorReason::ShuttingDown
                | ErrorReason::TooManyHolds
                | ErrorReason::TooManyWaiters
                | ErrorReason::TooManyTriggers
                | ErrorReason::LimitReached
        );
        assert_eq!(tells_when, passes, "{reason:?}");
    }
}

#[test]
fn a_released_hold_has_no_loss_reason_and_a_lost_one_has() {
    let info = |error: &CallError| of_call(error).get_details_error_info().unwrap();
    assert!(info(&CallError::HoldReleased).metadata.is_empty());
    let lost = info(&CallError::HoldLost { reason: LossReason::LockDeleted });
    assert_eq!(lost.metadata["loss_reason"], "LOCK_DELETED");
}
