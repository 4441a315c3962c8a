//! A sidecar that answers the calls of a holder when it is told to, over pipes in this process, for
//! `hold/vector_tests.rs`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use prost::Message;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::service::Service;
use super::{ELSEWHERE, HoldCall, OURS, Script};
use crate::connect::Dial;
use crate::messages::{duration, wire_duration};
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;
use crate::proto::lease_service_server::LeaseServiceServer;
use crate::proto::*;

type Answer = Result<Vec<u8>, Status>;

/// A call that was not answered yet.
type Unanswered = (&'static str, oneshot::Sender<Answer>);

/// What was sent, and what is answered.
pub(crate) struct Scripted {
    kernel: String,
    is_valid: Box<dyn Fn() -> bool + Send + Sync>,
    waiting: Mutex<Vec<Unanswered>>,
    prepared: Mutex<HashMap<String, Answer>>,
    attempts: Mutex<Vec<String>>,
    sent: Mutex<Vec<String>>,
    faults: Mutex<Vec<String>>,
}

/// Serves `scripted`; the streams that are opened come by the receiver.
pub(crate) fn in_memory(scripted: &Arc<Scripted>) -> (Dial, mpsc::UnboundedReceiver<HoldCall>) {
    let (calls, holds) = mpsc::unbounded_channel();
    let script = Script { scripted: Some(Arc::clone(scripted)), ..Script::default() };
    let service = Service { script: Arc::new(Mutex::new(script)), calls };
    let (incoming, connections) = mpsc::unbounded_channel::<std::io::Result<DuplexStream>>();
    let server = tonic::transport::Server::builder()
        .add_service(LeaseServiceServer::new(service))
        .serve_with_incoming(UnboundedReceiverStream::new(connections));
    tokio::spawn(async move { server.await.unwrap() });
    let dial = Dial::by(move || {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let _gone = incoming.send(Ok(theirs));
        async move { Ok(ours) }
    });
    (dial, holds)
}

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

impl Scripted {
    pub(crate) fn new(kernel: &str, is_valid: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            kernel: kernel.to_owned(),
            is_valid: Box::new(is_valid),
            waiting: Mutex::default(),
            prepared: Mutex::default(),
            attempts: Mutex::default(),
            sent: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    /// What was sent since this was asked last, and what must never be.
    pub(crate) fn taken(&self) -> (Vec<String>, Vec<String>) {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap());
        (sent, std::mem::take(&mut *self.faults.lock().unwrap()))
    }

    pub(super) fn opened(&self, start: &Start) {
        let said = match start {
            Start::Spec(spec) => asked(spec),
            Start::Resume(resume) => self.resume(resume),
        };
        self.sent.lock().unwrap().push(said);
    }

    fn resume(&self, resume: &Resume) -> String {
        let mut said = format!("resume {}", resume.resume_token);
        if let Some(told) = &resume.told_valid_until {
            let since_boot = duration(told.since_boot.as_ref()).as_millis();
            said += &format!(" told {}", since_boot - u128::from(base(&self.kernel)));
        }
        let mut attempts = self.attempts.lock().unwrap();
        if !attempts.contains(&resume.attempt_id) {
            attempts.push(resume.attempt_id.clone());
        }
        let number = attempts.iter().position(|id| *id == resume.attempt_id).unwrap() + 1;
        said + &format!(" attempt {number}")
    }

    pub(super) async fn released(
        &self,
        request: &ReleaseLeaseRequest,
    ) -> Result<Response<ReleaseLeaseResponse>, Status> {
        if (self.is_valid)() {
            let fault = "S13: the hold is valid when its release is sent".to_owned();
            self.faults.lock().unwrap().push(fault);
        }
        self.call("release", request.generation.to_string()).await
    }

    pub(super) async fn extended(
        &self,
        request: &ExtendLeaseRequest,
    ) -> Result<Response<ExtendLeaseResponse>, Status> {
        let max_hold = duration(request.max_hold.as_ref()).as_millis();
        self.call("extend_lease", format!("{} {max_hold}", request.generation)).await
    }

    /// Takes a call, and answers it when that is told.
    pub(super) async fn call<M: Message + Default>(
        &self,
        name: &'static str,
        said: String,
    ) -> Result<Response<M>, Status> {
        self.sent.lock().unwrap().push(format!("{name} {said}"));
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().unwrap().push((name, answer));
        let prepared = self.prepared.lock().unwrap().remove(name);
        if let Some(prepared) = prepared {
            self.give(name, prepared);
        }
        let bytes = answered.await.unwrap()?;
        Ok(Response::new(M::decode(bytes.as_slice()).unwrap()))
    }

    /// Answers the oldest call of this name; where there is none, the next one.
    fn give(&self, name: &str, answer: Answer) {
        let mut waiting = self.waiting.lock().unwrap();
        waiting.retain(|(_, answer)| !answer.is_closed());
        match waiting.iter().position(|(waits, _)| *waits == name) {
            Some(oldest) => waiting.remove(oldest).1.send(answer).unwrap(),
            None => drop(self.prepared.lock().unwrap().insert(name.to_owned(), answer)),
        }
    }

    pub(crate) fn refuse(&self, name: &str, said: &Value) {
        self.give(name, Err(status(said)));
    }

    pub(crate) fn answer(&self, name: &str, said: &Value) {
        let (validity, max_hold_ends) = (self.validity(said), self.limit(said));
        let bytes = match name {
            "release" => ReleaseLeaseResponse { result: Some(result(said)) }.encode_to_vec(),
            "get_hold" => GetHoldResponse {
                validity,
                max_hold_ends,
                state: HoldState::from_str_name(&named("HOLD_STATE", &said["state"], "HELD"))
                    .unwrap()
                    .into(),
                break_note: said.get("by").map(|_| note(said)),
                ..GetHoldResponse::default()
            }
            .encode_to_vec(),
            "report_progress" => ReportProgressResponse { validity }.encode_to_vec(),
            "extend_lease" => ExtendLeaseResponse {
                validity,
                max_hold_ends,
                resume_token: text(said, "token", ""),
                ..ExtendLeaseResponse::default()
            }
            .encode_to_vec(),
            "save_checkpoint" => {
                SaveCheckpointResponse { version: number(said, "version", 0), validity }
                    .encode_to_vec()
            }
            _ => panic!("there is no call {name}"),
        };
        self.give(name, Ok(bytes));
    }

    fn reading(&self, at: u64) -> BootTime {
        let boot_id = if self.kernel == "elsewhere" { ELSEWHERE } else { OURS };
        BootTime { boot_id: boot_id.to_owned(), since_boot: Some(span(base(&self.kernel) + at)) }
    }

    fn validity(&self, said: &Value) -> Option<Validity> {
        let valid_for = said["for"].as_u64()?;
        let until = number(said, "until", 0);
        Some(Validity { valid_until: Some(self.reading(until)), valid_for: Some(span(valid_for)) })
    }

    fn limit(&self, said: &Value) -> Option<Deadline> {
        let said = said.get("max_hold")?;
        let (at, after) = (number(said, "at", 0), number(said, "after", 0));
        Some(Deadline { at: Some(self.reading(at)), after: Some(span(after)) })
    }

    /// An event of a stream.
    pub(crate) fn event(&self, name: &str, said: &Value) -> Event {
        let validity = self.validity(said);
        match name {
            "granted" => Event::Granted(Grant {
                lease_id: "lease-1".to_owned(),
                resume_token: text(said, "token", "resume-1"),
                lock_path: "locks/p/h/f/s/FUNCTION".to_owned(),
                fencing_token: number(said, "fencing_token", 65_536),
                generation: number(said, "generation", 1),
                max_hold_ends: self.limit(said),
                validity,
                ..Grant::default()
            }),
            "waiting" => {
                let position = u32::try_from(number(said, "position", 0)).unwrap();
                Event::Waiting(Waiting { position, record: None })
            }
            "busy" => {
                let reason = named("BUSY_REASON", &said["reason"], "");
                let reason = BusyReason::from_str_name(&reason).unwrap().into();
                Event::Busy(Busy { reason, ..Busy::default() })
            }
            "renewed" => Event::Renewed(Renewed {
                validity,
                resume_token: text(said, "token", ""),
                max_hold_ends: self.limit(said),
            }),
            "at_risk" => {
                let cause = named("ERROR_REASON", &said["cause"], "");
                let cause = ErrorReason::from_str_name(&cause).unwrap().into();
                Event::AtRisk(AtRisk { validity, cause, detail: String::new() })
            }
            "recovered" => Event::Recovered(Recovered { validity }),
            "draining" => {
                Event::Draining(Draining { time_left: Some(span(number(said, "left", 0))) })
            }
            "revoked" => Event::Revoked(Revoked { validity, break_note: Some(note(said)) }),
            "lost" => Event::Lost(Lost { reason: loss(&said["reason"]), ..Lost::default() }),
            "released" => Event::Released(Released { result: Some(result(said)) }),
            _ => panic!("there is no event {name}"),
        }
    }
}

/// What a vector's sidecar ends a call with.
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
    let details = ErrorDetails::with_error_info(
        reason,
        "leasehold.dev",
        loss.into_iter().chain(numbers).collect::<HashMap<_, _>>(),
    );
    Status::with_error_details(code, "so it is", details)
}

fn span(milliseconds: u64) -> prost_types::Duration {
    wire_duration(std::time::Duration::from_millis(milliseconds))
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
fn asked(spec: &LeaseSpec) -> String {
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
