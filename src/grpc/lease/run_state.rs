//! What runs have decided, as it stands in a lock's record (T6).

use crate::grpc::proto;
use crate::lock::FencingToken;
use crate::schedule::{Ended, Occasion, Outcome, Run, ScheduleRecord, is_of_occurrences};
use crate::timetable::UtcSecond;

/// Instants are whole seconds.
pub(in crate::grpc) const fn timestamp(at: UtcSecond) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.0, nanos: 0 }
}

pub(in crate::grpc) const fn outcome(outcome: Outcome) -> proto::RunOutcome {
    match outcome {
        Outcome::Succeeded => proto::RunOutcome::Succeeded,
        Outcome::Failed => proto::RunOutcome::Failed,
        Outcome::FailedFinal => proto::RunOutcome::FailedFinal,
        Outcome::TimedOut => proto::RunOutcome::TimedOut,
        Outcome::Returned => proto::RunOutcome::Returned,
        Outcome::Abandoned => proto::RunOutcome::Abandoned,
        Outcome::Skipped => proto::RunOutcome::Skipped,
    }
}

/// The kind, the instant, and the id of the request.
pub(in crate::grpc) fn occasion(
    occasion: &Occasion,
) -> (proto::RunKind, Option<prost_types::Timestamp>, String) {
    match occasion {
        Occasion::Scheduled(at) => (proto::RunKind::Scheduled, Some(timestamp(*at)), String::new()),
        Occasion::ByHand { request_id, .. } => (proto::RunKind::Manual, None, request_id.clone()),
    }
}

pub(in crate::grpc) fn ended(run: &Ended) -> proto::EndedRun {
    let (kind, scheduled_at, request_id) = occasion(&run.occasion);
    proto::EndedRun {
        kind: kind.into(),
        scheduled_at,
        request_id,
        outcome: outcome(run.outcome).into(),
        attempt: run.attempt,
        fencing_token: run.token.map(FencingToken::value),
    }
}

fn started(run: &Run) -> proto::StartedRun {
    let (kind, scheduled_at, request_id) = occasion(&run.occasion);
    proto::StartedRun {
        kind: kind.into(),
        scheduled_at,
        request_id,
        attempt: run.attempt,
        fencing_token: run.token.value(),
        started_at: Some(timestamp(run.started)),
        deadline_at: run.deadline.map(timestamp),
    }
}

/// What runs have decided, as it stands in a lock's record.
pub(in crate::grpc) fn state(record: &ScheduleRecord) -> proto::ScheduleState {
    let retry_at = record.attempts.retry_at.or(record.by_hand.retry_at);
    proto::ScheduleState {
        next_at: record.next.map(timestamp),
        // Of occurrences that callers have named none may be final yet.
        watermark: (record.outcome.is_some() || !is_of_occurrences(record))
            .then(|| timestamp(record.watermark)),
        watermark_outcome: record.outcome.map_or(proto::RunOutcome::Unspecified, outcome).into(),
        run: record.run.as_ref().map(started),
        retry_at: retry_at.map(timestamp),
        missed: record.missed,
        ended: record.ended.iter().map(ended).collect(),
    }
}
