//! The words of `proto/vectors` for what goes over the wire: events and answers, and what was sent.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::OURS;
use super::sidecar::{Asked, Told};
use crate::messages::{duration, wire_duration};
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event as OfHold;
use crate::proto::subscribe_schedule_response::Event as OfRun;
use crate::proto::*;

/// What the clock of a kernel reads when a vector begins, in milliseconds. Two have our boot id, and are not
/// ours.
pub(crate) fn base(kernel: &str) -> u64 {
    match kernel {
        "ours" => 1_000_000,
        "elsewhere" => 5_000_000,
        "ahead" => 3_000_000,
        "behind" => 500_000,
        _ => panic!("there is no kernel {kernel}"),
    }
}

/// The words of one vector.
pub(crate) struct Words {
    kernel: String,
    attempts: Vec<String>,
}

impl Words {
    pub(crate) fn new(kernel: &str) -> Self {
        Self { kernel: kernel.to_owned(), attempts: Vec::new() }
    }

    /// What was sent.
    pub(crate) fn said(&mut self, asked: &Asked) -> String {
        let outcome = |outcome: RunOutcome| outcome.as_str_name().replace("RUN_OUTCOME_", "");
        let said = match asked.call {
            "hold_lease" => {
                let HoldLeaseRequest { start, needs } = asked.request();
                assert_eq!(needs, 1, "S37");
                match start.unwrap() {
                    Start::Spec(spec) => specified(&spec),
                    Start::Resume(resume) => self.resume(&resume),
                }
            }
            "subscribe_schedule" => {
                let request: SubscribeScheduleRequest = asked.request();
                assert_eq!(request.needs, 1, "S37");
                let again = if request.reconnected { " reconnected" } else { "" };
                let resume = request.resume.map(|resume| format!(" {}", self.resume(&resume)));
                format!("subscribe{again}{}", resume.unwrap_or_default())
            }
            "release_lease" => {
                format!("release {}", asked.request::<ReleaseLeaseRequest>().generation)
            }
            "get_hold" => format!("get_hold {}", asked.request::<GetHoldRequest>().generation),
            "report_progress" => {
                let request: ReportProgressRequest = asked.request();
                format!("report_progress {}", request.generation)
            }
            "extend_lease" => {
                let request: ExtendLeaseRequest = asked.request();
                let max_hold = duration(request.max_hold.as_ref()).as_millis();
                format!("extend_lease {} {max_hold}", request.generation)
            }
            "save_checkpoint" => {
                let request: SaveCheckpointRequest = asked.request();
                let value = String::from_utf8(request.value).unwrap();
                format!("save_checkpoint {} {value}", request.generation)
            }
            "complete_run" => {
                let request: CompleteRunRequest = asked.request();
                format!("complete_run {} {}", request.generation, outcome(request.outcome()))
            }
            call => call.to_owned(),
        };
        let ends = matches!(asked.call, "release_lease" | "complete_run");
        if ends && asked.while_valid {
            format!("{said} while the hold is valid (S13)")
        } else {
            said
        }
    }

    fn resume(&mut self, resume: &Resume) -> String {
        let told = resume.told_valid_until.as_ref().map(|told| {
            let since_boot = duration(told.since_boot.as_ref()).as_millis();
            format!(" told {}", since_boot - u128::from(base(&self.kernel)))
        });
        if !self.attempts.contains(&resume.attempt_id) {
            self.attempts.push(resume.attempt_id.clone());
        }
        let attempt = self.attempts.iter().position(|id| *id == resume.attempt_id).unwrap() + 1;
        format!("resume {}{} attempt {attempt}", resume.resume_token, told.unwrap_or_default())
    }

    /// The answer to a call.
    pub(crate) fn answer(&self, call: &str, said: &Value) -> Vec<u8> {
        let (validity, max_hold_ends) = (self.validity(said), self.limit(&said["max_hold"]));
        match call {
            "release_lease" => ReleaseLeaseResponse { result: Some(result(said)) }.bytes(),
            "get_hold" => GetHoldResponse {
                validity,
                max_hold_ends,
                state: HoldState::from_str_name(&named("HOLD_STATE", &said["state"], "HELD"))
                    .unwrap()
                    .into(),
                break_note: said.get("by").map(|_| note(said)),
                ..GetHoldResponse::default()
            }
            .bytes(),
            "report_progress" => ReportProgressResponse { validity }.bytes(),
            "extend_lease" => {
                let resume_token = text(said, "token", "");
                let max_hold_ends_at = None;
                ExtendLeaseResponse { validity, max_hold_ends_at, max_hold_ends, resume_token }
                    .bytes()
            }
            "save_checkpoint" => {
                SaveCheckpointResponse { version: number(said, "version", 0), validity }.bytes()
            }
            "complete_run" => {
                let result = named("COMPLETION_RESULT", &said["result"], "");
                let result = CompletionResult::from_str_name(&result).unwrap().into();
                CompleteRunResponse { result, ..CompleteRunResponse::default() }.bytes()
            }
            _ => panic!("there is no call {call}"),
        }
    }

    fn reading(&self, at: u64) -> BootTime {
        let boot_id = if self.kernel == "elsewhere" { "kernel-b" } else { OURS };
        BootTime { boot_id: boot_id.to_owned(), since_boot: Some(span(base(&self.kernel) + at)) }
    }

    fn validity(&self, said: &Value) -> Option<Validity> {
        let valid_for = said["for"].as_u64()?;
        let until = number(said, "until", 0);
        Some(Validity { valid_until: Some(self.reading(until)), valid_for: Some(span(valid_for)) })
    }

    fn limit(&self, said: &Value) -> Option<Deadline> {
        let (at, after) = (said["at"].as_u64()?, number(said, "after", 0));
        Some(Deadline { at: Some(self.reading(at)), after: Some(span(after)) })
    }

    fn grant(&self, said: &Value, max_hold: &str) -> Grant {
        let (validity, max_hold_ends) = (self.validity(said), self.limit(&said[max_hold]));
        Grant { validity, max_hold_ends, ..grant(said) }
    }

    /// An event of a stream, which is that of a run or of a hold.
    pub(crate) fn event(&self, is_run: bool, name: &str, said: &Value) -> Vec<u8> {
        macro_rules! of_both {
            ($event:ident($said:expr)) => {
                if is_run { OfRun::$event($said).bytes() } else { OfHold::$event($said).bytes() }
            };
        }
        let validity = self.validity(said);
        match name {
            "granted" => OfHold::Granted(self.grant(said, "max_hold")).bytes(),
            "waiting" => {
                let position = u32::try_from(number(said, "position", 0)).unwrap();
                OfHold::Waiting(Waiting { position, record: None }).bytes()
            }
            "busy" => {
                let reason = named("BUSY_REASON", &said["reason"], "");
                let reason = BusyReason::from_str_name(&reason).unwrap().into();
                OfHold::Busy(Busy { reason, ..Busy::default() }).bytes()
            }
            "released" => OfHold::Released(Released { result: Some(result(said)) }).bytes(),
            "standby" => {
                let understood = said.get("understood").map(|_| UnderstoodSchedule::default());
                OfRun::Standby(Standby { understood, ..Standby::default() }).bytes()
            }
            "run" => OfRun::Run(Run {
                attempt: u32::try_from(number(said, "attempt", 0)).unwrap(),
                deadline: self.limit(&said["deadline"]),
                grant: Some(self.grant(said, "deadline")),
                ..run()
            })
            .bytes(),
            "recorded" => {
                OfRun::Recorded(Recorded { run_id: run().run_id, ..Recorded::default() }).bytes()
            }
            "definition_in_force" => {
                let conflict = said["conflict"].as_bool().unwrap();
                let definition = DefinitionInForce { conflict, ..DefinitionInForce::default() };
                OfRun::DefinitionInForce(definition).bytes()
            }
            "renewed" => of_both!(Renewed(Renewed {
                validity,
                resume_token: text(said, "token", ""),
                max_hold_ends: self.limit(&said["max_hold"]),
            })),
            "at_risk" => {
                let cause = named("ERROR_REASON", &said["cause"], "");
                let cause = ErrorReason::from_str_name(&cause).unwrap().into();
                of_both!(AtRisk(AtRisk { validity, cause, detail: String::new() }))
            }
            "recovered" => of_both!(Recovered(Recovered { validity })),
            "draining" => {
                of_both!(Draining(Draining { time_left: Some(span(number(said, "left", 0))) }))
            }
            "revoked" => of_both!(Revoked(Revoked { validity, break_note: Some(note(said)) })),
            "lost" => {
                of_both!(Lost(Lost { reason: loss(&said["reason"]), ..Lost::default() }))
            }
            _ => panic!("there is no event {name}"),
        }
    }
}

/// A grant without a validity.
pub(super) fn grant(said: &Value) -> Grant {
    Grant {
        lease_id: "lease-1".to_owned(),
        resume_token: text(said, "token", "resume-1"),
        lock_path: "locks/p/h/f/s/FUNCTION".to_owned(),
        fencing_token: number(said, "fencing_token", 65_536),
        generation: number(said, "generation", 1),
        ..Grant::default()
    }
}

/// A run without a grant.
pub(crate) fn run() -> Run {
    let scheduled_at = Some(prost_types::Timestamp { seconds: 1_800, nanos: 0 });
    Run { run_id: "run-1".to_owned(), scheduled_at, ..Run::default() }
}

/// What a call, or a stream, is ended with.
pub(crate) fn status(said: &Value) -> Status {
    let code = match said["code"].as_str().unwrap() {
        "UNAVAILABLE" => Code::Unavailable,
        "INTERNAL" => Code::Internal,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        "UNAUTHENTICATED" => Code::Unauthenticated,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "ABORTED" => Code::Aborted,
        "UNIMPLEMENTED" => Code::Unimplemented,
        code => panic!("there is no code {code}"),
    };
    let Some(reason) = said["reason"].as_str() else { return Status::new(code, "so it is") };
    let loss = said["loss"].as_str().map(|loss| ("loss_reason".to_owned(), loss.to_owned()));
    let numbers = ["needs", "revision"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), said[name].as_u64()?.to_string())));
    let metadata: HashMap<_, _> = loss.into_iter().chain(numbers).collect();
    let details = ErrorDetails::with_error_info(reason, "leasehold.dev", metadata);
    Status::with_error_details(code, "so it is", details)
}

fn span(milliseconds: u64) -> prost_types::Duration {
    wire_duration(Duration::from_millis(milliseconds))
}

fn number(said: &Value, name: &str, default: u64) -> u64 {
    said[name].as_u64().unwrap_or(default)
}

fn text(said: &Value, name: &str, default: &str) -> String {
    said[name].as_str().unwrap_or(default).to_owned()
}

fn named(prefix: &str, name: &Value, default: &str) -> String {
    format!("{prefix}_{}", name.as_str().unwrap_or(default))
}

fn loss(name: &Value) -> i32 {
    LossReason::from_str_name(&named("LOSS_REASON", name, "UNSPECIFIED")).unwrap().into()
}

fn note(said: &Value) -> BreakNote {
    BreakNote { broken_by: text(said, "by", ""), ..BreakNote::default() }
}

fn result(said: &Value) -> ReleaseResult {
    let outcome = ReleaseOutcome::from_str_name(&named("RELEASE_OUTCOME", &said["outcome"], ""));
    let (outcome, loss_reason) = (outcome.unwrap().into(), loss(&said["loss"]));
    ReleaseResult { outcome, loss_reason, ..ReleaseResult::default() }
}

/// How a lock was asked for.
fn specified(spec: &LeaseSpec) -> String {
    let mut said = "hold".to_owned();
    let wait = duration(spec.wait.as_ref()).as_millis();
    let permits = spec.permits.unwrap_or(1);
    for (is, part) in [
        (wait > 0, format!(" wait {wait}")),
        (permits > 1, format!(" permits {permits}")),
        (spec.priority > 0, format!(" priority {}", spec.priority)),
        (spec.yields, " yields".to_owned()),
        (!spec.share.is_empty(), format!(" share {}", spec.share)),
    ] {
        said += if is { &part } else { "" };
    }
    said
}
