//! The words of `proto/vectors` for what goes over the wire: messages, and what was sent.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use prost::Message as _;
use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    MethodDescriptor, ReflectMessage as _, Value as Field,
};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::OURS;
use super::sidecar::Asked;
use crate::messages::duration;
use crate::proto::hold_lease_request::Start;
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

/// The API, as its files describe it.
static API: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    let files = ["leasehold/v1/lease_service.proto", "leasehold/v1/schedule_service.proto"];
    DescriptorPool::from_file_descriptor_set(protox::compile(files, [folder]).unwrap()).unwrap()
});

/// The call that the stubs have under this name.
fn method(call: &str) -> MethodDescriptor {
    let mut methods = API.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    methods.find(|method| snake(method.name()) == call).unwrap()
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// What the names of a kind's values begin with.
fn prefix(kind: &EnumDescriptor) -> String {
    snake(kind.name()).to_uppercase() + "_"
}

/// What fields are called, where that is not their name.
fn name_of(field: &FieldDescriptor) -> String {
    match field.name() {
        "validity" => "for",
        "max_hold_ends" => "max_hold",
        "time_left" => "left",
        "break_note" => "by",
        "resume_token" => "token",
        "loss_reason" => "loss",
        name => name,
    }
    .to_owned()
}

/// What is said of messages that say nothing else.
fn usual(message: &str) -> Value {
    match message {
        "Grant" => json!({
            "lease_id": "lease-1", "token": "resume-1", "lock_path": "locks/p/h/f/s/FUNCTION",
            "fencing_token": 65_536, "generation": 1,
        }),
        "Run" => json!({"run_id": "run-1", "scheduled_at": 1_800}),
        "Recorded" => json!({"run_id": "run-1"}),
        "GetHoldResponse" => json!({"state": "HELD"}),
        _ => Value::Null,
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
            _ => unary(asked),
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

    /// An answer to a call, or a message of its stream.
    pub(crate) fn told(&self, call: &str, said: &Value) -> Vec<u8> {
        let mut said = said.clone();
        // The deadline of a run is the end of max_hold of its grant, unless that is said, too.
        if let Some(run) = said.get_mut("run").filter(|run| run.get("max_hold").is_none())
            && let Some(deadline) = run.get("deadline").cloned()
        {
            run["max_hold"] = deadline;
        }
        self.message(&method(call).output(), &said).encode_to_vec()
    }

    /// The message of this name with what is said of it, as the stubs have it.
    pub(crate) fn typed<M: prost::Message + Default>(&self, name: &str, said: &Value) -> M {
        let kind = API.get_message_by_name(&format!("leasehold.v1.{name}")).unwrap();
        self.message(&kind, said).transcode_to().unwrap()
    }

    /// The message with what is said of it.
    fn message(&self, kind: &MessageDescriptor, said: &Value) -> DynamicMessage {
        let mut message = DynamicMessage::new(kind.clone());
        for said in [&usual(kind.name()), said] {
            for field in kind.fields() {
                let (name, kind) = (name_of(&field), field.kind());
                if let Kind::Message(inner) = &kind
                    && matches!(field.name(), "result" | "grant")
                {
                    // What is said of them stands beside what is said of this.
                    message.set_field(&field, Field::Message(self.message(inner, said)));
                } else if said.get(&name).is_some() {
                    let list = said[&name].as_array().filter(|_| field.is_list());
                    let value = match list {
                        Some(all) => {
                            Field::List(all.iter().map(|it| self.value(&kind, it)).collect())
                        }
                        None if name == "for" => self.validity(&kind, said),
                        None => self.value(&kind, &said[&name]),
                    };
                    message.set_field(&field, value);
                }
            }
        }
        message
    }

    fn validity(&self, kind: &Kind, said: &Value) -> Field {
        self.value(kind, &json!({"valid_until": said["until"], "valid_for": said["for"]}))
    }

    fn value(&self, kind: &Kind, said: &Value) -> Field {
        match kind {
            Kind::Bool => Field::Bool(said.as_bool().unwrap()),
            Kind::Uint32 => Field::U32(u32::try_from(said.as_u64().unwrap()).unwrap()),
            Kind::Uint64 => Field::U64(said.as_u64().unwrap()),
            Kind::Int64 => Field::I64(said.as_i64().unwrap()),
            Kind::String => Field::String(said.as_str().unwrap().to_owned()),
            Kind::Bytes => Field::Bytes(said.as_str().unwrap().to_owned().into()),
            Kind::Enum(kind) => {
                let named = |name| kind.get_value_by_name(&(prefix(kind) + name)).unwrap().number();
                let number = said.as_i64().map(|number| i32::try_from(number).unwrap());
                Field::EnumNumber(number.unwrap_or_else(|| named(said.as_str().unwrap())))
            }
            Kind::Message(kind) => {
                let stated = match (kind.name(), said) {
                    ("Duration", _) => {
                        let span = Duration::from_millis(said.as_u64().unwrap());
                        let span = crate::messages::wire_duration(span);
                        let mut message = DynamicMessage::new(kind.clone());
                        message.transcode_from(&span).unwrap();
                        return Field::Message(message);
                    }
                    ("Timestamp", _) => json!({"seconds": said}),
                    ("BootTime", _) => {
                        let elsewhere = self.kernel == "elsewhere";
                        let boot_id = if elsewhere { "kernel-b" } else { OURS };
                        let since_boot = base(&self.kernel) + said.as_u64().unwrap();
                        json!({"boot_id": boot_id, "since_boot": since_boot})
                    }
                    ("BreakNote", Value::String(_)) => json!({"broken_by": said}),
                    _ => said.clone(),
                };
                Field::Message(self.message(kind, &stated))
            }
            Kind::Double
            | Kind::Float
            | Kind::Int32
            | Kind::Sint32
            | Kind::Sint64
            | Kind::Fixed32
            | Kind::Fixed64
            | Kind::Sfixed32
            | Kind::Sfixed64 => panic!("nothing is said of {kind:?}"),
        }
    }
}

/// A call that is answered once: its name, its generation, and what else it says that is not as usual.
fn unary(asked: &Asked) -> String {
    let request = asked.decoded(method(asked.call).input());
    let mut said = asked.call.replace("release_lease", "release");
    if let Some(generation) = request.get_field_by_name("generation") {
        said += &format!(" {}", generation.as_u64().unwrap());
    }
    for (field, value) in request.fields().filter(|(field, _)| field.name() != "generation") {
        let word = match (field.kind(), value) {
            (_, Field::String(text)) if matches!(text.as_str(), "lease-1" | "run-1") => continue,
            (_, Field::String(text)) => text.clone(),
            (_, Field::Bytes(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            (Kind::Enum(kind), Field::EnumNumber(number)) => {
                kind.get_value(*number).unwrap().name().replace(&prefix(&kind), "")
            }
            (_, Field::Message(message)) if message.descriptor().name() == "Duration" => {
                let span: prost_types::Duration = message.transcode_to().unwrap();
                duration(Some(&span)).as_millis().to_string()
            }
            _ => continue,
        };
        said += &format!(" {word}");
    }
    said
}

/// What a call, or a stream, is ended with.
pub(crate) fn status(said: &Value) -> Status {
    let named = |code: &Code| snake(&format!("{code:?}")).to_uppercase();
    let code = (0..17).map(Code::from_i32).find(|code| said["code"] == named(code)).unwrap();
    let Some(reason) = said["reason"].as_str() else { return Status::new(code, "so it is") };
    let loss = said["loss"].as_str().map(|loss| ("loss_reason".to_owned(), loss.to_owned()));
    let numbers = ["needs", "revision"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), said[name].as_u64()?.to_string())));
    let metadata: HashMap<_, _> = loss.into_iter().chain(numbers).collect();
    let details = ErrorDetails::with_error_info(reason, "leasehold.dev", metadata);
    Status::with_error_details(code, "so it is", details)
}

/// How a lock was asked for.
fn specified(spec: &LeaseSpec) -> String {
    let mut said = "hold".to_owned();
    let wait = duration(spec.wait.as_ref()).as_millis();
    let permits = spec.permits.unwrap_or(1);
    for (is, part) in [
        (spec.wait_without_end, " wait_without_end".to_owned()),
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
