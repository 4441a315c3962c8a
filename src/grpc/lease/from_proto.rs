//! From proto to domain values: the only place that rejects input (S19). All mistakes are named at once.

use std::time::Duration;

use tonic::Status;

use super::occurrence::{check_beside_occurrence, occurrence};
use crate::coordinator::{
    BreakPeriod, BreakRequest, HoldRequest, KeyRequest, ListRequest, LockSelector,
    MAX_LEASE_DURATION, MIN_LEASE_DURATION, ResumeRequest, Under,
};
use crate::grpc::proto;
use crate::grpc::service::Limits;
use crate::grpc::violations::Violations;
use crate::lock::{FencingToken, LeaseId, Permits};
use crate::record::{CheckpointValue, Labels, Priority, ShareName, Sharing};

/// The longest `min_hold` and `progress_timeout`.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_REQUEST_ID: usize = 128;
pub(in crate::grpc) const MAX_HOLDER: usize = 256;
const MAX_REASON: usize = 512;
pub(in crate::grpc) const MAX_PAGE_TOKEN: usize = 8_192;
const MAX_PAGE_SIZE: u32 = 250;
const DEFAULT_PAGE_SIZE: usize = 100;

/// An AcquireLease request, or the spec of a HoldLease one.
pub(in crate::grpc) fn hold_request(
    spec: Option<proto::LeaseSpec>,
    limits: &Limits,
    unary: bool,
) -> Result<HoldRequest, Status> {
    let mut wrong = Violations::default();
    let Some(spec) = spec else {
        wrong.add("spec", "is required");
        return wrong.finish(None);
    };
    let permits = wrong.permits(spec.permits);
    let sharing = sharing(&mut wrong, &spec, permits);
    let key = wrong.key("spec.key", spec.key);
    let leases = MIN_LEASE_DURATION..=MAX_LEASE_DURATION;
    let lease_duration = wrong.duration("spec.lease_duration", spec.lease_duration, leases);
    if lease_duration.is_some_and(|duration| duration.subsec_nanos() != 0) {
        wrong.add("spec.lease_duration", "must be whole seconds, 15 to 60");
    }
    let wait = wrong.wait(spec.wait, spec.wait_without_end, limits, unary);
    let longest = if unary { limits.max_hold_ceiling } else { Duration::MAX / 4 };
    let shortest = Duration::from_nanos(1);
    let max_hold = wrong.duration("spec.max_hold", spec.max_hold, shortest..=longest);
    let min_hold = wrong.duration("spec.min_hold", spec.min_hold, Duration::ZERO..=DAY);
    let bound = max_hold.or_else(|| unary.then_some(limits.max_hold_default));
    if let (Some(min), Some(max)) = (min_hold, bound)
        && min > max
    {
        wrong.add(
            "spec.min_hold",
            format!("is longer than max_hold, which is {}", humantime::format_duration(max)),
        );
    }
    let progress = Duration::from_secs(1)..=DAY;
    let progress_timeout = wrong.duration("spec.progress_timeout", spec.progress_timeout, progress);
    wrong.text("spec.request_id", &spec.request_id, MAX_REQUEST_ID);
    wrong.text("spec.holder", &spec.holder, MAX_HOLDER);
    let labels = wrong.labels("spec.labels", spec.labels);
    if spec.occurrence_at.is_some() {
        check_beside_occurrence(&mut wrong, key.as_ref(), permits, min_hold);
    }
    let occurrence = occurrence(&mut wrong, spec.occurrence_at, spec.occurrence_max_attempts);
    let request = key.map(|key| HoldRequest {
        key,
        lease_duration,
        wait,
        permits,
        max_hold,
        min_hold: min_hold.unwrap_or_default(),
        progress_timeout,
        auto_renew: spec.auto_renew.unwrap_or(true),
        request_id: spec.request_id,
        holder: (!spec.holder.is_empty()).then_some(spec.holder),
        labels,
        sharing,
        rebalance: spec.rebalance,
        occurrence,
        trace_context: None,
    });
    wrong.finish(request)
}

/// A HoldLease request.
#[derive(Debug)]
pub(in crate::grpc) enum HoldStart {
    New(Box<HoldRequest>),
    Resume(ResumeRequest),
}

pub(in crate::grpc) fn hold_start(
    request: proto::HoldLeaseRequest,
    limits: &Limits,
) -> Result<HoldStart, Status> {
    let mut wrong = Violations::default();
    match request.start {
        None => {
            wrong.add(
                "start",
                "is required: set spec for a new hold or resume for one to go on with",
            );
            wrong.finish(None)
        }
        Some(proto::hold_lease_request::Start::Spec(spec)) => {
            Ok(HoldStart::New(Box::new(hold_request(Some(spec), limits, false)?)))
        }
        Some(proto::hold_lease_request::Start::Resume(resume)) => {
            let resume = wrong.resume(resume);
            wrong.finish(Some(HoldStart::Resume(resume)))
        }
    }
}

/// A checkpoint's value, from the field of this name (S23).
pub(in crate::grpc) fn checkpoint(field: &str, value: &[u8]) -> Result<CheckpointValue, Status> {
    CheckpointValue::new(value)
        .map_err(|problem| crate::grpc::status::of_violations(&[(field, problem.to_string())]))
}

/// The generation that a call carries; 0 says that its caller knows none (S16).
pub(in crate::grpc) fn generation(generation: u64) -> Option<u64> {
    (generation > 0).then_some(generation)
}

pub(in crate::grpc) fn lease_id(text: &str) -> Result<LeaseId, Status> {
    let mut wrong = Violations::default();
    let lease_id = wrong.lease_id(text);
    wrong.finish(lease_id)
}

pub(in crate::grpc) fn extend(
    request: &proto::ExtendLeaseRequest,
    limits: &Limits,
) -> Result<(LeaseId, Duration), Status> {
    let mut wrong = Violations::default();
    let lease_id = wrong.lease_id(&request.lease_id);
    if request.max_hold.is_none() {
        wrong.add("max_hold", "is required");
    }
    let range = Duration::from_nanos(1)..=limits.max_hold_ceiling;
    let max_hold = wrong.duration("max_hold", request.max_hold, range);
    wrong.finish(lease_id.zip(max_hold))
}

pub(in crate::grpc) fn selector(
    selector: Option<proto::LockSelector>,
) -> Result<LockSelector, Status> {
    let mut wrong = Violations::default();
    let selector = wrong.selector(selector);
    wrong.finish(selector)
}

pub(in crate::grpc) fn key(key: Option<proto::LockKey>) -> Result<KeyRequest, Status> {
    let mut wrong = Violations::default();
    let key = wrong.key("key", key);
    wrong.finish(key)
}

pub(in crate::grpc) fn list(request: proto::ListLocksRequest) -> Result<ListRequest, Status> {
    use proto::list_locks_request::Under as Wire;
    let mut wrong = Violations::default();
    let under = match request.under {
        Some(Wire::HostId(host_id)) => wrong.host_id(&host_id),
        Some(Wire::Prefix(prefix)) => wrong.prefix(prefix),
        None => Under::OwnHostId,
    };
    let labels = wrong.labels("labels", request.labels);
    let share = wrong.share("share", &request.share);
    let states = wrong.states(&request.states);
    wrong.text("page_token", &request.page_token, MAX_PAGE_TOKEN);
    let page_size = match request.page_size {
        0 => DEFAULT_PAGE_SIZE,
        size => usize::try_from(size.min(MAX_PAGE_SIZE)).unwrap_or(DEFAULT_PAGE_SIZE),
    };
    wrong.finish(Some(ListRequest {
        under,
        states,
        labels,
        share,
        page_size,
        page_token: (!request.page_token.is_empty()).then_some(request.page_token),
    }))
}

/// A WatchLocks request: where, with which labels, and of which share.
pub(in crate::grpc) fn watch_locks(
    request: proto::WatchLocksRequest,
) -> Result<(Under, Labels, Option<ShareName>), Status> {
    use proto::watch_locks_request::Under as Wire;
    let mut wrong = Violations::default();
    let under = match request.under {
        Some(Wire::HostId(host_id)) => wrong.host_id(&host_id),
        Some(Wire::Prefix(prefix)) => wrong.prefix(prefix),
        None => Under::OwnHostId,
    };
    let labels = wrong.labels("labels", request.labels);
    let share = wrong.share("share", &request.share);
    wrong.finish(Some((under, labels, share)))
}

pub(in crate::grpc) fn check_token(
    request: proto::CheckTokenRequest,
) -> Result<(LockSelector, FencingToken), Status> {
    let mut wrong = Violations::default();
    let selector = wrong.selector(request.lock);
    let token = wrong.take("fencing_token", fencing_token(request.fencing_token));
    wrong.finish(selector.zip(token))
}

fn fencing_token(number: u64) -> Result<FencingToken, &'static str> {
    FencingToken::from_u64(number).ok_or("is not a fencing token; 1 to 9007199254740991 is allowed")
}

pub(in crate::grpc) fn break_lock(
    request: proto::BreakLockRequest,
    caller: String,
) -> Result<BreakRequest, Status> {
    let mut wrong = Violations::default();
    let lock = wrong.selector(request.lock);
    if request.reason.trim().is_empty() {
        wrong.add("reason", "is required: it is stored and told to the holder");
    }
    wrong.text("reason", &request.reason, MAX_REASON);
    wrong.text("broken_by", &request.broken_by, MAX_HOLDER);
    let period = match proto::BreakMode::try_from(request.mode) {
        Ok(proto::BreakMode::Unspecified | proto::BreakMode::RunOut) => BreakPeriod::RunOut,
        Ok(proto::BreakMode::Now) => BreakPeriod::Now,
        Err(_) => {
            wrong.add("mode", format!("{} is not a mode; use RUN_OUT or NOW", request.mode));
            BreakPeriod::RunOut
        }
    };
    let token = request.fencing_token.map(fencing_token).transpose();
    let token = wrong.take("fencing_token", token);
    wrong.finish(lock.zip(token).map(|(lock, token)| BreakRequest {
        lock,
        token,
        period,
        reason: request.reason,
        by: (!request.broken_by.is_empty()).then_some(request.broken_by),
        caller,
    }))
}

/// What a spec says of its caller's place among others (S28, S33 to S35).
fn sharing(wrong: &mut Violations, spec: &proto::LeaseSpec, permits: Permits) -> Sharing {
    let priority = wrong.take("spec.priority", Priority::new(spec.priority)).unwrap_or_default();
    let share = wrong.share("spec.share", &spec.share);
    if permits > Permits::ONE {
        let asked = [
            ("spec.priority", spec.priority > 0),
            ("spec.yields", spec.yields),
            ("spec.share", !spec.share.is_empty()),
        ];
        for (field, _) in asked.into_iter().filter(|(_, is_set)| *is_set) {
            wrong.add(field, "is for locks of one permit; here permits is greater than 1");
        }
    }
    if spec.rebalance && !spec.yields {
        let problem = "needs yields: a caller that takes locks from others must also yield its own";
        wrong.add("spec.rebalance", problem);
    }
    if spec.rebalance && spec.share.is_empty() {
        wrong.add("spec.rebalance", "needs share: the group of locks that is spread");
    }
    Sharing { priority, yields: spec.yields, share }
}
