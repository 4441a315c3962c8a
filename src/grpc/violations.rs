//! The checks of single fields, which name what is wrong with each (S19).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use tonic::Status;

use crate::coordinator::{
    KeyRequest, LockSelector, LockState, ResumeRequest, Under, WAIT_WITHOUT_END,
};
use crate::grpc::proto;
use crate::grpc::service::Limits;
use crate::grpc::status;
use crate::lock::{
    HostId, HostType, KeyError, LeaseId, LockKey, LockMode, LockPath, Permit, Permits,
};
use crate::record::{Labels, ShareName};
use crate::text::invisible_in;
use crate::time::BootReading;

const MAX_PREFIX: usize = 1_088;
const MAX_RESUME_TOKEN: usize = 8_192;
const MAX_ATTEMPT_ID: usize = 64;

pub(super) const NO_DURATION: &str = "is negative or not a valid duration";

/// A duration of the wire; none if it is negative, or none that the wire allows. (The conversion of
/// `prost_types` negates a negative one, which the least of all numbers does not bear.)
pub(super) fn span(duration: prost_types::Duration) -> Option<Duration> {
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(duration.seconds).ok()?, nanos))
}

/// What is wrong with a request, field by field.
#[derive(Debug, Default)]
pub(super) struct Violations(Vec<(String, String)>);

impl Violations {
    pub(super) fn add(&mut self, field: &str, problem: impl Into<String>) {
        self.0.push((field.to_owned(), problem.into()));
    }

    /// Keeps the value, or the field's problem.
    pub(super) fn take<T>(&mut self, field: &str, value: Result<T, impl ToString>) -> Option<T> {
        value.map_err(|problem| self.add(field, problem.to_string())).ok()
    }

    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, Status> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            Some(_) | None => Err(status::of_violations(&self.0)),
        }
    }

    pub(super) fn text(&mut self, field: &str, text: &str, limit: usize) {
        if text.len() > limit {
            self.add(field, format!("has {} bytes; at most {limit} are allowed", text.len()));
        }
        if let Some(odd) = invisible_in(text) {
            let odd = odd.escape_unicode();
            self.add(
                field,
                format!("has the control or invisible character {odd}; printable text is allowed"),
            );
        }
    }

    /// A duration within `range`; none if it was not given.
    pub(super) fn duration(
        &mut self,
        field: &str,
        duration: Option<prost_types::Duration>,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let duration = duration?;
        let allowed = || {
            let [least, most] = [*range.start(), *range.end()].map(humantime::format_duration);
            format!("{least} to {most} is allowed")
        };
        match span(duration) {
            Some(duration) if range.contains(&duration) => Some(duration),
            Some(duration) => {
                let given = humantime::format_duration(duration);
                self.add(field, format!("is {given}; {}", allowed()));
                None
            }
            None => {
                self.add(field, format!("{NO_DURATION}; {}", allowed()));
                None
            }
        }
    }

    /// A resume of a hold, in the field of this name (S16).
    pub(super) fn resume(&mut self, resume: proto::Resume) -> ResumeRequest {
        if resume.resume_token.is_empty() {
            self.add("resume.resume_token", "is required: give the resume_token of the grant");
        }
        self.text("resume.resume_token", &resume.resume_token, MAX_RESUME_TOKEN);
        if resume.attempt_id.is_empty() {
            let problem = "is required: give a random text, the same for every try after one \
                           break of the stream";
            self.add("resume.attempt_id", problem);
        }
        self.text("resume.attempt_id", &resume.attempt_id, MAX_ATTEMPT_ID);
        let told = resume.told_valid_until.map(|told| {
            self.text("resume.told_valid_until.boot_id", &told.boot_id, 64);
            let range = Duration::ZERO..=Duration::MAX / 4;
            let since_boot =
                self.duration("resume.told_valid_until.since_boot", told.since_boot, range);
            BootReading { boot_id: told.boot_id, since_boot: since_boot.unwrap_or_default() }
        });
        ResumeRequest {
            resume_token: resume.resume_token,
            attempt_id: resume.attempt_id,
            told_valid_until: told,
            trace_context: None,
        }
    }

    pub(super) fn key(&mut self, field: &str, key: Option<proto::LockKey>) -> Option<KeyRequest> {
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

    /// How long to wait: for so long, or without end.
    pub(super) fn wait(
        &mut self,
        given: Option<prost_types::Duration>,
        without_end: bool,
        limits: &Limits,
        unary: bool,
    ) -> Duration {
        let field = "spec.wait_without_end";
        let wait = self.duration("spec.wait", given, Duration::ZERO..=limits.wait_ceiling);
        if !without_end {
            return wait.unwrap_or_default();
        }
        if unary {
            let longest = humantime::format_duration(limits.wait_ceiling);
            self.add(field, format!("is for HoldLease only; here a wait is at most {longest}"));
        } else if given.is_some() {
            self.add(field, "cannot be combined with wait: set only one of them");
        }
        WAIT_WITHOUT_END
    }

    /// How many permits (S28).
    pub(super) fn permits(&mut self, permits: Option<u32>) -> Permits {
        let permits = permits.and_then(|count| self.take("spec.permits", Permits::new(count)));
        permits.unwrap_or(Permits::ONE)
    }

    pub(super) fn labels(&mut self, field: &str, labels: BTreeMap<String, String>) -> Labels {
        self.take(field, Labels::new(labels)).unwrap_or_default()
    }

    pub(super) fn states(&mut self, states: &[i32]) -> Vec<LockState> {
        let mut taken = Vec::new();
        for (index, state) in states.iter().enumerate() {
            match proto::LockState::try_from(*state) {
                Ok(proto::LockState::Available) => taken.push(LockState::Available),
                Ok(proto::LockState::Held) => taken.push(LockState::Held),
                Ok(proto::LockState::Breaking) => taken.push(LockState::Breaking),
                Ok(proto::LockState::Resting) => taken.push(LockState::Resting),
                Ok(proto::LockState::Unspecified) | Err(_) => {
                    let problem = "is not a state; use AVAILABLE, HELD, BREAKING or RESTING";
                    self.add(&format!("states[{index}]"), problem);
                }
            }
        }
        taken
    }

    pub(super) fn host_id(&mut self, text: &str) -> Under {
        self.take("host_id", HostId::parse(text)).map_or(Under::OwnHostId, Under::HostId)
    }

    pub(super) fn prefix(&mut self, prefix: String) -> Under {
        self.text("prefix", &prefix, MAX_PREFIX);
        Under::Prefix(prefix)
    }

    pub(super) fn lease_id(&mut self, text: &str) -> Option<LeaseId> {
        if text.is_empty() {
            self.add("lease_id", "is required: pass the lease_id of the grant");
            return None;
        }
        self.take(
            "lease_id",
            LeaseId::parse(text).ok_or("is not a lease id; pass it exactly as it was granted"),
        )
    }

    pub(super) fn selector(
        &mut self,
        selector: Option<proto::LockSelector>,
    ) -> Option<LockSelector> {
        let number = selector.as_ref().map_or(0, |selector| selector.permit);
        let permit = u8::try_from(number).ok().and_then(Permit::new);
        let problem = "a lock has the permits 0 to 31";
        let permit =
            self.take("lock.permit", permit.ok_or_else(|| format!("is {number}; {problem}")));
        match selector.and_then(|selector| selector.lock) {
            None => {
                self.add("lock", "is required: set key or lock_path");
                None
            }
            Some(proto::lock_selector::Lock::Key(key)) => {
                let key = self.key("lock.key", Some(key));
                key.zip(permit).map(|(key, permit)| LockSelector::Key(key, permit))
            }
            Some(proto::lock_selector::Lock::LockPath(path)) => {
                if number > 0 {
                    let problem = "goes with a key only; the path of a permit names it";
                    self.add("lock.permit", problem);
                }
                let path = self.take("lock.lock_path", path.parse::<LockPath>());
                path.map(LockSelector::Path)
            }
        }
    }

    /// The name of a share; none for an empty one.
    pub(super) fn share(&mut self, field: &str, name: &str) -> Option<ShareName> {
        if name.is_empty() { None } else { self.take(field, ShareName::new(name)) }
    }
}
