//! From proto to domain values. All mistakes are named at once (S19).

use tonic::Status;

use super::run_name::RunKey;
use super::spec;
use crate::coordinator::{KeyRequest, LockSelector, Under};
use crate::grpc::lease::from_proto::{MAX_HOLDER, MAX_PAGE_TOKEN, generation};
use crate::grpc::lease::occurrence::report;
use crate::grpc::proto;
use crate::grpc::violations::Violations;
use crate::record::CheckpointValue;
use crate::schedule::{
    Definition, MAX_REASON_BYTES, MAX_REQUEST_ID_BYTES, RunId, check_key, is_request_id,
};
use crate::scheduler::{
    CompleteRequest, ResumeRun, ScheduleChange, ScheduleListRequest, SubscribeRequest,
};
use crate::text::is_invisible;
use crate::timetable::UtcSecond;

/// Bytes that are kept of why a run ended as it did.
const MAX_DETAIL: usize = 512;
const MAX_PAGE_SIZE: u32 = 200;
const DEFAULT_PAGE_SIZE: usize = 100;
/// Occurrences in a preview, at most and by default.
const MAX_COUNT: u32 = 100;
const DEFAULT_COUNT: u32 = 10;
/// What a Timestamp may say: from the year 1 to the end of 9999.
const TIMES: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// A SubscribeSchedule request.
pub(super) fn subscribe(
    request: proto::SubscribeScheduleRequest,
) -> Result<SubscribeRequest, Status> {
    let mut wrong = Violations::default();
    let key = wrong.key("key", request.key);
    if let Some(key) = &key {
        wrong.take("key.function", check_key(&key.key));
    }
    let definition = spec::definition(&mut wrong, request.spec);
    wrong.text("holder", &request.holder, MAX_HOLDER);
    let labels = wrong.labels("labels", request.labels);
    let resume = match (request.resume, request.run_id.as_str()) {
        (None, "") => None,
        (None, _) => {
            wrong.add("run_id", "is allowed only with resume");
            None
        }
        (Some(resume), run_id) => {
            let hold = wrong.resume(resume);
            run(&mut wrong, run_id).map(|run_id| ResumeRun { hold, run_id })
        }
    };
    let is_new = !request.reconnected && resume.is_none();
    let runs_at_once = match proto::FirstRun::try_from(request.first) {
        Ok(proto::FirstRun::Unspecified) => false,
        Ok(proto::FirstRun::Now) => true,
        Err(_) => {
            wrong.add("first", format!("{} is not allowed; use NOW, or omit it", request.first));
            false
        }
    };
    let holder = (!request.holder.is_empty()).then_some(request.holder);
    wrong.finish(key.zip(definition).map(|(key, definition)| SubscribeRequest {
        key,
        definition,
        is_new,
        holder,
        labels,
        runs_at_once,
        resume,
    }))
}

fn run(wrong: &mut Violations, text: &str) -> Option<RunId> {
    if text.is_empty() {
        wrong.add("run_id", "is required: pass the run_id of the run");
        return None;
    }
    wrong.take("run_id", RunKey::split(text).0.parse())
}

/// A CompleteRun request, and the key beside its run id.
pub(super) fn complete(
    request: proto::CompleteRunRequest,
) -> Result<(CompleteRequest, Option<RunKey>), Status> {
    let mut wrong = Violations::default();
    let lease_id = match request.lease_id.as_str() {
        "" => None,
        text => wrong.lease_id(text),
    };
    let run_id = run(&mut wrong, &request.run_id);
    let key = RunKey::split(&request.run_id).1.map(RunKey::read);
    if matches!(key, Some(None)) {
        wrong.add("run_id", "is not valid: send the text that came with the run, unchanged");
    }
    let report = report(&mut wrong, request.outcome);
    let checkpoint =
        request.checkpoint.and_then(|value| wrong.take("checkpoint", CheckpointValue::new(&value)));
    let complete = run_id.zip(report).map(|(run_id, report)| CompleteRequest {
        lease_id,
        run_id,
        report,
        detail: detail(&request.detail),
        generation: generation(request.generation),
        checkpoint,
    });
    wrong.finish(complete.map(|complete| (complete, key.flatten())))
}

/// On one line, cut: often it is the text of an error.
fn detail(text: &str) -> String {
    let on_one_line = text.chars().map(|one| if is_invisible(one) { ' ' } else { one });
    let mut cut = String::new();
    for one in on_one_line {
        if cut.len() + one.len_utf8() > MAX_DETAIL {
            break;
        }
        cut.push(one);
    }
    cut
}

/// The lock of a schedule: its own path, for a schedule has no permits.
pub(super) fn selector(selector: Option<proto::LockSelector>) -> Result<LockSelector, Status> {
    let mut wrong = Violations::default();
    let selector = scheduled(&mut wrong, selector);
    wrong.finish(selector)
}

fn scheduled(
    wrong: &mut Violations,
    selector: Option<proto::LockSelector>,
) -> Option<LockSelector> {
    let has_permit = selector.as_ref().is_some_and(|selector| selector.permit > 0);
    let selector = wrong.selector(selector);
    if has_permit {
        wrong.add("lock.permit", "must be 0: the lock of a schedule has one permit");
    }
    selector
}

/// A TriggerSchedule request: which schedule, and the change.
pub(super) fn trigger(
    request: proto::TriggerScheduleRequest,
) -> Result<(LockSelector, ScheduleChange), Status> {
    let mut wrong = Violations::default();
    let lock = scheduled(&mut wrong, request.lock);
    let allowed = format!("1 to {MAX_REQUEST_ID_BYTES} of A-Z a-z 0-9 . _ - are allowed");
    if request.request_id.is_empty() {
        let problem = format!("is required, so that a repeated call is one run; {allowed}");
        wrong.add("request_id", problem);
    } else if !is_request_id(&request.request_id) {
        wrong.add("request_id", format!("has {} bytes; {allowed}", request.request_id.len()));
    }
    let change = ScheduleChange::Trigger { request_id: request.request_id };
    wrong.finish(lock.map(|lock| (lock, change)))
}

/// Why an operator removes or resets a schedule.
fn reason(wrong: &mut Violations, text: String) -> String {
    if text.trim().is_empty() {
        wrong.add("reason", "is required: say why, for the log and the next operator");
    }
    wrong.text("reason", &text, MAX_REASON_BYTES);
    text
}

/// A RemoveSchedule request: which schedule, and the change.
pub(super) fn remove(
    request: proto::RemoveScheduleRequest,
) -> Result<(LockSelector, ScheduleChange), Status> {
    let mut wrong = Violations::default();
    let lock = scheduled(&mut wrong, request.lock);
    let reason = reason(&mut wrong, request.reason);
    let change = ScheduleChange::Remove { reason, force: request.force };
    wrong.finish(lock.map(|lock| (lock, change)))
}

/// A ResetSchedule request: which schedule, and the change.
pub(super) fn reset(
    request: proto::ResetScheduleRequest,
) -> Result<(LockSelector, ScheduleChange), Status> {
    let mut wrong = Violations::default();
    let lock = scheduled(&mut wrong, request.lock);
    let reason = reason(&mut wrong, request.reason);
    let watermark = request.watermark.and_then(|at| instant(&mut wrong, "watermark", at));
    let change = ScheduleChange::Reset { reason, watermark, revision: request.revision };
    wrong.finish(lock.map(|lock| (lock, change)))
}

/// Occurrences are whole seconds: the second that the time is in is as good.
fn instant(wrong: &mut Violations, field: &str, at: prost_types::Timestamp) -> Option<UtcSecond> {
    let is_time = TIMES.contains(&at.seconds) && (0..1_000_000_000).contains(&at.nanos);
    let at = is_time.then_some(UtcSecond(at.seconds));
    wrong.take(field, at.ok_or("is not a valid time; the years 1 to 9999 are allowed"))
}

pub(super) fn list(request: proto::ListSchedulesRequest) -> Result<ScheduleListRequest, Status> {
    use proto::list_schedules_request::Under as Wire;
    let mut wrong = Violations::default();
    let under = match request.under {
        Some(Wire::HostId(host_id)) => wrong.host_id(&host_id),
        Some(Wire::Prefix(prefix)) => wrong.prefix(prefix),
        None => Under::OwnHostId,
    };
    wrong.text("page_token", &request.page_token, MAX_PAGE_TOKEN);
    let page_size = match request.page_size {
        0 => DEFAULT_PAGE_SIZE,
        size => usize::try_from(size.min(MAX_PAGE_SIZE)).unwrap_or(DEFAULT_PAGE_SIZE),
    };
    let page_token = (!request.page_token.is_empty()).then_some(request.page_token);
    wrong.finish(Some(ScheduleListRequest { under, page_size, page_token }))
}

/// What is to be previewed.
#[derive(Debug)]
pub(super) struct Preview {
    pub(super) definition: Definition,
    /// None for now.
    pub(super) after: Option<UtcSecond>,
    pub(super) count: usize,
    /// For the offset of `spread`.
    pub(super) key: Option<KeyRequest>,
}

/// A PreviewSchedule request.
pub(super) fn preview(request: proto::PreviewScheduleRequest) -> Result<Preview, Status> {
    let mut wrong = Violations::default();
    let definition = spec::definition(&mut wrong, request.spec);
    let key = request.key.and_then(|key| wrong.key("key", Some(key)));
    let after = request.after.and_then(|after| instant(&mut wrong, "after", after));
    let count = match request.count {
        0 => DEFAULT_COUNT,
        count if count <= MAX_COUNT => count,
        count => {
            wrong.add("count", format!("is {count}; 1 to {MAX_COUNT} is allowed"));
            DEFAULT_COUNT
        }
    };
    let count = usize::try_from(count).unwrap_or_default();
    wrong.finish(definition.map(|definition| Preview { definition, after, count, key }))
}
