//! Occurrences that callers name, from proto to domain values: in the spec of a hold, and at its release (T1,
//! T2).

use std::time::Duration;

use tonic::Status;

use super::from_proto::generation;
use crate::coordinator::KeyRequest;
use crate::grpc::proto;
use crate::grpc::violations::Violations;
use crate::lock::{LeaseId, Permits};
use crate::record::CheckpointValue;
use crate::schedule::{Occurrence, Report, check_key};
use crate::timetable::UtcSecond;

/// The greatest `occurrence_max_attempts`.
const MAX_ATTEMPTS: u32 = 100;

/// What in a spec cannot go together with an occurrence.
pub(in crate::grpc) fn check_beside_occurrence(
    wrong: &mut Violations,
    key: Option<&KeyRequest>,
    permits: Permits,
    min_hold: Option<Duration>,
) {
    if let Some(key) = key {
        wrong.take("spec.key.function", check_key(&key.key));
    }
    if permits > Permits::ONE {
        wrong.add("spec.permits", "must be 1 with occurrence_at: each occurrence is run by one");
    }
    if min_hold.is_some_and(|min_hold| !min_hold.is_zero()) {
        let problem = "cannot be combined with occurrence_at: an occurrence that is done is not run again anyway";
        wrong.add("spec.min_hold", problem);
    }
}

/// The occurrence in a spec.
pub(in crate::grpc) fn occurrence(
    wrong: &mut Violations,
    at: Option<prost_types::Timestamp>,
    max_attempts: u32,
) -> Option<Occurrence> {
    let Some(at) = at else {
        if max_attempts > 0 {
            wrong.add("spec.occurrence_max_attempts", "is allowed only with occurrence_at");
        }
        return None;
    };
    if max_attempts > MAX_ATTEMPTS {
        let problem =
            format!("is {max_attempts}; 0 for no limit, or 1 to {MAX_ATTEMPTS}, is allowed");
        wrong.add("spec.occurrence_max_attempts", problem);
    }
    let instant = UtcSecond(at.seconds);
    if instant <= UtcSecond::FIRST || instant > UtcSecond::LAST {
        let problem = format!("is not after 1970-01-01T00:00:00Z and up to {}", UtcSecond::LAST);
        wrong.add("spec.occurrence_at", problem);
        return None;
    }
    if at.nanos != 0 {
        let problem = "has a fraction of a second, which would name another occurrence; whole seconds are allowed";
        wrong.add("spec.occurrence_at", problem);
        return None;
    }
    Some(Occurrence { at: instant, max_attempts: (max_attempts > 0).then_some(max_attempts) })
}

/// A ReleaseLease request.
#[derive(Debug)]
pub(in crate::grpc) struct Release {
    pub(in crate::grpc) lease_id: LeaseId,
    pub(in crate::grpc) generation: Option<u64>,
    /// How the hold's occurrence has ended, if its holder says so.
    pub(in crate::grpc) outcome: Option<Report>,
    pub(in crate::grpc) checkpoint: Option<CheckpointValue>,
}

/// All mistakes are named at once (S19).
pub(in crate::grpc) fn release(request: &proto::ReleaseLeaseRequest) -> Result<Release, Status> {
    let mut wrong = Violations::default();
    let lease_id = wrong.lease_id(&request.lease_id);
    let is_given = request.outcome != i32::from(proto::RunOutcome::Unspecified);
    let outcome = is_given.then(|| report(&mut wrong, request.outcome)).flatten();
    let checkpoint = request.checkpoint.as_deref();
    let checkpoint =
        checkpoint.and_then(|value| wrong.take("checkpoint", CheckpointValue::new(value)));
    let generation = generation(request.generation);
    wrong.finish(lease_id.map(|lease_id| Release { lease_id, generation, outcome, checkpoint }))
}

pub(in crate::grpc) fn report(wrong: &mut Violations, outcome: i32) -> Option<Report> {
    use proto::RunOutcome;
    const ALLOWED: &str = "use SUCCEEDED, FAILED, FAILED_FINAL or RETURNED";
    match RunOutcome::try_from(outcome) {
        Ok(RunOutcome::Succeeded) => return Some(Report::Succeeded),
        Ok(RunOutcome::Failed) => return Some(Report::Failed),
        Ok(RunOutcome::FailedFinal) => return Some(Report::FailedFinal),
        Ok(RunOutcome::Returned) => return Some(Report::Returned),
        Ok(RunOutcome::Unspecified) => wrong.add("outcome", format!("is required: {ALLOWED}")),
        Ok(outcome @ (RunOutcome::TimedOut | RunOutcome::Abandoned | RunOutcome::Skipped)) => {
            let name = outcome.as_str_name().trim_start_matches("RUN_OUTCOME_");
            wrong.add("outcome", format!("{name} is not for callers to say; {ALLOWED}"));
        }
        Err(_) => wrong.add("outcome", format!("{outcome} is not an outcome; {ALLOWED}")),
    }
    None
}
