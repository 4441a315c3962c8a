//! From proto to domain values: the only place that rejects input (S19). All mistakes are named at once.

use std::collections::BTreeMap;
use std::time::Duration;

use tonic::Status;

use super::{proto, status};
use crate::coordinator::{
    BreakPeriod, BreakRequest, HoldRequest, KeyRequest, ListRequest, LockSelector,
    MAX_LEASE_DURATION, MIN_LEASE_DURATION, ResumeRequest,
};
use crate::lock::{
    FencingToken, HostId, HostType, KeyError, Labels, LeaseId, LockKey, LockMode, LockPath,
};
use crate::time::BootReading;

/// The limits of requests that are settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest `max_hold` of a unary hold, and of ExtendLease (S14).
    pub max_hold_ceiling: Duration,
    /// `max_hold` for a unary hold that gives none (S14).
    pub max_hold_default: Duration,
    /// The longest `wait`.
    pub wait_ceiling: Duration,
}

/// The longest `min_hold` and `progress_timeout`.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_REQUEST_ID: usize = 128;
const MAX_HOLDER: usize = 256;
const MAX_REASON: usize = 512;
const MAX_RESUME_TOKEN: usize = 4_096;
const MAX_ATTEMPT_ID: usize = 64;
const MAX_PAGE_TOKEN: usize = 8_192;
const MAX_PREFIX: usize = 1_088;
const MAX_PAGE_SIZE: u32 = 250;
const DEFAULT_PAGE_SIZE: usize = 100;

/// What is wrong with a request, field by field.
#[derive(Debug, Default)]
struct Violations(Vec<(String, String)>);

impl Violations {
    fn add(&mut self, field: &str, problem: impl Into<String>) {
        self.0.push((field.to_owned(), problem.into()));
    }

    /// Keeps the value, or the field's problem.
    fn take<T>(&mut self, field: &str, value: Result<T, impl ToString>) -> Option<T> {
        value.map_err(|problem| self.add(field, problem.to_string())).ok()
    }

    fn finish<T>(self, value: Option<T>) -> Result<T, Status> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            Some(_) | None => Err(status::of_violations(&self.0)),
        }
    }

    fn text(&mut self, field: &str, text: &str, limit: usize) {
        if text.len() > limit {
            self.add(field, format!("has {} bytes; at most {limit} are allowed", text.len()));
        }
        if text.chars().any(char::is_control) {
            self.add(field, "has a control character; printable text is allowed");
        }
    }

    /// A duration within `range`; none if it was not given.
    fn duration(
        &mut self,
        field: &str,
        duration: Option<prost_types::Duration>,
        range: (Duration, Duration),
    ) -> Option<Duration> {
        let duration = duration?;
        let (least, most) = range;
        let shown = |duration| humantime::format_duration(duration);
        match Duration::try_from(duration) {
            Ok(duration) if duration >= least && duration <= most => Some(duration),
            Ok(duration) => {
                let problem = format!(
                    "is {}; {} to {} is allowed",
                    shown(duration),
                    shown(least),
                    shown(most)
                );
                self.add(field, problem);
                None
            }
            Err(_) => {
                let problem = "is negative or not a valid duration";
                self.add(
                    field,
                    format!("{problem}; {} to {} is allowed", shown(least), shown(most)),
                );
                None
            }
        }
    }

    fn key(&mut self, field: &str, key: Option<proto::LockKey>) -> Option<KeyRequest> {
        let Some(key) = key else {
            self.add(field, "is required");
            return None;
        };
        let host_id = key.host_id.as_deref().map(HostId::parse).transpose();
        let host_id = self.take(&format!("{field}.host_id"), host_id);
        let host_type = key.host_type.as_deref().map(HostType::parse).transpose();
        let host_type = self.take(&format!("{field}.host_type"), host_type);
        let mode = match proto::LockMode::try_from(key.mode) {
            Ok(proto::LockMode::Unspecified | proto::LockMode::Function) => {
                Some(LockMode::Function)
            }
            Ok(proto::LockMode::Listener) => Some(LockMode::Listener),
            Err(_) => {
                self.add(
                    &format!("{field}.mode"),
                    format!("{} is not a mode; use FUNCTION or LISTENER", key.mode),
                );
                None
            }
        };
        let checked = LockKey::new(&key.function, &key.scope, mode.unwrap_or_default());
        let of = |error: &KeyError| format!("{field}.{}", error.field());
        let name = checked.as_ref().err().map_or_else(String::new, of);
        let key = self.take(&name, checked);
        Some(KeyRequest { key: key?, host_id: host_id?, host_type: host_type? })
    }

    fn lease_id(&mut self, text: &str) -> Option<LeaseId> {
        if text.is_empty() {
            self.add("lease_id", "is required: pass the lease_id of the grant");
            return None;
        }
        self.take(
            "lease_id",
            LeaseId::parse(text).ok_or("is not a lease id; pass it exactly as it was granted"),
        )
    }

    fn selector(&mut self, selector: Option<proto::LockSelector>) -> Option<LockSelector> {
        match selector.and_then(|selector| selector.lock) {
            None => {
                self.add("lock", "is required: set key or lock_path");
                None
            }
            Some(proto::lock_selector::Lock::Key(key)) => {
                self.key("lock.key", Some(key)).map(LockSelector::Key)
            }
            Some(proto::lock_selector::Lock::LockPath(path)) => {
                let path = self.take("lock.lock_path", path.parse::<LockPath>());
                path.map(LockSelector::Path)
            }
        }
    }
}

/// An AcquireLease request, or the spec of a HoldLease one.
pub(super) fn hold_request(
    spec: Option<proto::LeaseSpec>,
    limits: &Limits,
    unary: bool,
) -> Result<HoldRequest, Status> {
    let mut wrong = Violations::default();
    let Some(spec) = spec else {
        wrong.add("spec", "is required");
        return wrong.finish(None);
    };
    let key = wrong.key("spec.key", spec.key);
    let leases = (MIN_LEASE_DURATION, MAX_LEASE_DURATION);
    let lease_duration = wrong.duration("spec.lease_duration", spec.lease_duration, leases);
    if lease_duration.is_some_and(|duration| duration.subsec_nanos() != 0) {
        wrong.add("spec.lease_duration", "must be whole seconds, 15 to 60");
    }
    let wait = wrong.duration("spec.wait", spec.wait, (Duration::ZERO, limits.wait_ceiling));
    let longest = if unary { limits.max_hold_ceiling } else { Duration::MAX / 4 };
    let shortest = Duration::from_nanos(1);
    let max_hold = wrong.duration("spec.max_hold", spec.max_hold, (shortest, longest));
    let min_hold = wrong.duration("spec.min_hold", spec.min_hold, (Duration::ZERO, DAY));
    let bound = max_hold.or_else(|| unary.then_some(limits.max_hold_default));
    if let (Some(min), Some(max)) = (min_hold, bound)
        && min > max
    {
        wrong.add(
            "spec.min_hold",
            format!("is longer than max_hold, which is {}", humantime::format_duration(max)),
        );
    }
    let progress = (Duration::from_secs(1), DAY);
    let progress_timeout = wrong.duration("spec.progress_timeout", spec.progress_timeout, progress);
    wrong.text("spec.request_id", &spec.request_id, MAX_REQUEST_ID);
    wrong.text("spec.holder", &spec.holder, MAX_HOLDER);
    let labels: BTreeMap<String, String> = spec.labels.into_iter().collect();
    let labels = wrong.take("spec.labels", Labels::new(labels));
    let request = key.zip(labels).map(|(key, labels)| HoldRequest {
        key,
        lease_duration,
        wait: wait.unwrap_or_default(),
        max_hold,
        min_hold: min_hold.unwrap_or_default(),
        progress_timeout,
        auto_renew: spec.auto_renew.unwrap_or(true),
        request_id: spec.request_id,
        holder: (!spec.holder.is_empty()).then_some(spec.holder),
        labels,
    });
    wrong.finish(request)
}

/// A HoldLease request.
#[derive(Debug)]
pub(super) enum HoldStart {
    New(Box<HoldRequest>),
    Resume(ResumeRequest),
}

pub(super) fn hold_start(
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
            if resume.resume_token.is_empty() {
                wrong.add("resume.resume_token", "is required: give the resume_token of the grant");
            }
            wrong.text("resume.resume_token", &resume.resume_token, MAX_RESUME_TOKEN);
            if resume.attempt_id.is_empty() {
                let problem = "is required: give a random text, the same for every try after one \
                               break of the stream";
                wrong.add("resume.attempt_id", problem);
            }
            wrong.text("resume.attempt_id", &resume.attempt_id, MAX_ATTEMPT_ID);
            let told = resume.told_valid_until.map(|told| {
                wrong.text("resume.told_valid_until.boot_id", &told.boot_id, 64);
                let range = (Duration::ZERO, Duration::MAX / 4);
                let since_boot =
                    wrong.duration("resume.told_valid_until.since_boot", told.since_boot, range);
                BootReading { boot_id: told.boot_id, since_boot: since_boot.unwrap_or_default() }
            });
            wrong.finish(Some(HoldStart::Resume(ResumeRequest {
                resume_token: resume.resume_token,
                attempt_id: resume.attempt_id,
                told_valid_until: told,
            })))
        }
    }
}

/// The generation that a call carries; 0 says that its caller knows none (S16).
pub(super) fn generation(generation: u64) -> Option<u64> {
    (generation > 0).then_some(generation)
}

pub(super) fn lease_id(text: &str) -> Result<LeaseId, Status> {
    let mut wrong = Violations::default();
    let lease_id = wrong.lease_id(text);
    wrong.finish(lease_id)
}

pub(super) fn extend(
    request: &proto::ExtendLeaseRequest,
    limits: &Limits,
) -> Result<(LeaseId, Duration), Status> {
    let mut wrong = Violations::default();
    let lease_id = wrong.lease_id(&request.lease_id);
    if request.max_hold.is_none() {
        wrong.add("max_hold", "is required");
    }
    let range = (Duration::from_nanos(1), limits.max_hold_ceiling);
    let max_hold = wrong.duration("max_hold", request.max_hold, range);
    wrong.finish(lease_id.zip(max_hold))
}

pub(super) fn selector(selector: Option<proto::LockSelector>) -> Result<LockSelector, Status> {
    let mut wrong = Violations::default();
    let selector = wrong.selector(selector);
    wrong.finish(selector)
}

pub(super) fn key(key: Option<proto::LockKey>) -> Result<KeyRequest, Status> {
    let mut wrong = Violations::default();
    let key = wrong.key("key", key);
    wrong.finish(key)
}

pub(super) fn list(request: proto::ListLocksRequest) -> Result<ListRequest, Status> {
    use proto::list_locks_request::Under;
    let mut wrong = Violations::default();
    let (host_id, prefix) = match request.under {
        Some(Under::HostId(text)) => (wrong.take("host_id", HostId::parse(&text)), None),
        Some(Under::Prefix(prefix)) => {
            wrong.text("prefix", &prefix, MAX_PREFIX);
            (None, Some(prefix))
        }
        None => (None, None),
    };
    wrong.text("page_token", &request.page_token, MAX_PAGE_TOKEN);
    let page_size = match request.page_size {
        0 => DEFAULT_PAGE_SIZE,
        size => usize::try_from(size.min(MAX_PAGE_SIZE)).unwrap_or(DEFAULT_PAGE_SIZE),
    };
    wrong.finish(Some(ListRequest {
        host_id,
        prefix,
        held_only: request.held_only,
        page_size,
        page_token: (!request.page_token.is_empty()).then_some(request.page_token),
    }))
}

pub(super) fn check_token(
    request: proto::CheckTokenRequest,
) -> Result<(LockSelector, FencingToken), Status> {
    let mut wrong = Violations::default();
    let selector = wrong.selector(request.lock);
    let token = FencingToken::from_u64(request.fencing_token)
        .ok_or("is not a fencing token; 1 to 9007199254740991 is allowed");
    let token = wrong.take("fencing_token", token);
    wrong.finish(selector.zip(token))
}

pub(super) fn break_lock(
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
    wrong.finish(lock.map(|lock| BreakRequest {
        lock,
        period,
        reason: request.reason,
        by: (!request.broken_by.is_empty()).then_some(request.broken_by),
        caller,
    }))
}
