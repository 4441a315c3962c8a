//! Errors and busy locks are in the words that all clients use: each line of `proto/vectors/words.jsonl`.

use std::collections::HashMap;
use std::time::SystemTime;

use serde::Deserialize;

use super::*;
use crate::hold::Loss;
use crate::messages::{Busy, RunOutcome};
use crate::proto;

#[derive(Debug, Deserialize)]
struct Line {
    error: String,
    says: String,
    #[serde(flatten)]
    more: HashMap<String, serde_json::Value>,
}

impl Line {
    fn text(&self, name: &str) -> String {
        self.more.get(name).and_then(|it| it.as_str()).unwrap_or_default().to_owned()
    }

    fn error(&self) -> Error {
        let cause = self.text("cause");
        match self.error.as_str() {
            "lost" => {
                let reason = loss_named(&self.text("reason"));
                Error::Lost(Loss::new(reason, self.text("detail")))
            }
            "release_unconfirmed" => {
                Error::ReleaseUnconfirmed { lock_path: self.text("lock_path"), detail: cause }
            }
            "checkpoint_unknown" => Error::CheckpointUnknown(cause),
            "occurrence_over" if self.more.contains_key("outcome") => {
                let outcome = RunOutcome::Succeeded;
                assert_eq!(self.text("outcome"), outcome.as_str());
                crate::hold::done(Some(outcome))
            }
            "occurrence_over" => {
                let watermark = self.text("watermark");
                let newer = watermark.parse::<prost_types::Timestamp>().ok();
                crate::hold::skipped(newer.and_then(|newer| SystemTime::try_from(newer).ok()))
            }
            "outcome_not_recorded" if self.text("result") == "UNKNOWN" => Error::OutcomeUnknown,
            "outcome_not_recorded" => Error::OutcomeNotRecorded(String::new()),
            "endpoint" => {
                Error::Endpoint { endpoint: self.text("endpoint"), problem: self.text("problem") }
            }
            "protocol" => Error::Protocol("it is empty"),
            "unsupported" => {
                Error::unsupported(crate::errors::unsupported::unknown_calls(&self.text("feature")))
            }
            other => panic!("{other} is no error of this client"),
        }
    }

    fn busy(&self) -> Busy {
        let named = |prefix: &str, name: &str| format!("{prefix}{}", self.text(name));
        let reason = named("BUSY_REASON_", "reason");
        let status = named("PRIORITY_STATUS_", "priority_status");
        let is_last = self.more.contains_key("holder_is_last_recorded");
        Busy::from_wire(proto::Busy {
            record: Some(proto::LockRecord {
                lock_path: self.text("lock_path"),
                holder: self.text("holder"),
                holder_is_last_recorded: is_last,
                ..proto::LockRecord::default()
            }),
            reason: proto::BusyReason::from_str_name(&reason).unwrap_or_default().into(),
            priority_status: proto::PriorityStatus::from_str_name(&status)
                .unwrap_or_default()
                .into(),
            held_permits: if self.more.contains_key("held_permits") { 3 } else { 0 },
            ..proto::Busy::default()
        })
    }
}

#[test]
fn what_is_said_is_what_all_clients_say() {
    let lines = include_str!("../../../../proto/vectors/words.jsonl");
    assert!(lines.lines().count() >= 20);
    for line in lines.lines() {
        let line: Line = serde_json::from_str(line).unwrap();
        let said = match line.error.as_str() {
            "busy" => line.busy().to_string(),
            _ => line.error().to_string(),
        };
        assert_eq!(said, line.says);
    }
}
