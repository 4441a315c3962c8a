//! Errors and busy locks are in the words that all clients use: each line of `proto/vectors/words.jsonl`.

use std::time::SystemTime;

use serde_json::Value;

use super::*;
use crate::errors::unsupported::unknown_calls;
use crate::fake::Words;
use crate::hold::{Loss, done, skipped};
use crate::messages::{Busy, RunOutcome};

/// What such an error, or a busy lock, says.
fn said(line: &Value) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let (cause, lock_path, detail) = (text("cause"), text("lock_path"), text("detail"));
    let error = match text("error").as_str() {
        "busy" => {
            let mut busy = line.clone();
            busy["record"] = line.clone();
            return Busy::from_wire(Words::new("ours").typed("Busy", &busy)).to_string();
        }
        "lost" => Error::Lost(Loss::new(loss_named(&text("reason")), detail)),
        "release_unconfirmed" => Error::ReleaseUnconfirmed { lock_path, detail: cause },
        "checkpoint_unknown" => Error::CheckpointUnknown(cause),
        "occurrence_over" if line.get("outcome").is_some() => {
            assert_eq!(text("outcome"), RunOutcome::Succeeded.as_str());
            done(Some(RunOutcome::Succeeded))
        }
        "occurrence_over" => {
            let newer = text("watermark").parse::<prost_types::Timestamp>().ok();
            skipped(newer.and_then(|newer| SystemTime::try_from(newer).ok()))
        }
        "outcome_not_recorded" if text("result") == "UNKNOWN" => Error::OutcomeUnknown,
        "outcome_not_recorded" => Error::OutcomeNotRecorded(String::new()),
        "endpoint" => Error::Endpoint { endpoint: text("endpoint"), problem: text("problem") },
        "protocol" => Error::Protocol("it is empty"),
        "unsupported" => Error::unsupported(unknown_calls(&text("feature"))),
        other => panic!("{other} is no error of this client"),
    };
    error.to_string()
}

#[test]
fn what_is_said_is_what_all_clients_say() {
    let lines = include_str!("../../../../proto/vectors/words.jsonl");
    assert!(lines.lines().count() >= 20);
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(said(&line), line["says"]);
    }
}
