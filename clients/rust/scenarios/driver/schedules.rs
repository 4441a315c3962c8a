//! Commands about schedules and occurrences.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::{
    Client, Completion, Error, Outcome, Run, RunOutcome, ScheduleEvent, ScheduleSpec, Subscription,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::commands::tell_events;
use crate::{Command, Word, emit};

/// Takes part in a schedule until it is cancelled, and completes each run when it is told to.
pub(crate) async fn runs(
    client: &Client,
    command: &Command,
    mut words: UnboundedReceiver<Word>,
) -> Result<(), Error> {
    let id = command.id.as_str();
    let spec = ScheduleSpec::every(Duration::from_millis(command.every_ms))
        .with_attempts(3, Duration::from_millis(command.backoff_ms));
    let (sender, events) = unbounded_channel();
    tokio::spawn(tell_schedule(id.to_owned(), events));
    let subscription = Subscription::new(command.key(), spec);
    let mut runs = client.runs(subscription).events(sender).with_hold_events();
    loop {
        let run = tokio::select! {
            _ = words.recv() => break,
            run = runs.next() => run?,
        };
        tell_run(id, &run);
        let word = tokio::select! {
            loss = run.lost() => {
                emit(id, "lost", json!({ "reason": loss.reason.as_str() }));
                continue;
            }
            word = words.recv() => word,
        };
        let Some(Word::Complete(outcome)) = word else { break };
        let completion = match outcome.as_str() {
            "SUCCEEDED" => Completion::succeeded(),
            "RETURNED" => Completion::returned(),
            _ => Completion::failed("as it was told"),
        };
        let completed = run.complete(completion).await?;
        emit(id, "completed", json!({ "result": completed.result.as_str() }));
    }
    emit(id, "aborted", Value::Null);
    Ok(())
}

fn tell_run(id: &str, run: &Run) {
    let at = run.scheduled_at().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let more = json!({ "at": at, "attempt": run.attempt(), "token": run.fencing_token() });
    emit(id, "run", more);
    if let Some(events) = run.take_events() {
        tokio::spawn(tell_events(id.to_owned(), events));
    }
}

async fn tell_schedule(id: String, mut events: UnboundedReceiver<ScheduleEvent>) {
    while let Some(event) = events.recv().await {
        if let ScheduleEvent::Subscribed(_) = event {
            emit(&id, "subscribed", Value::Null);
        }
    }
}

/// Holds a lock for a named occurrence, and releases it with the outcome, if there is one.
pub(crate) async fn occurrence(client: &Client, command: &Command) -> Result<(), Error> {
    let id = command.id.as_str();
    let at: SystemTime = UNIX_EPOCH + Duration::from_secs(command.at);
    let hold = match client.hold(command.spec().with_occurrence(at)).await? {
        Outcome::Granted(hold) => hold,
        Outcome::AlreadyDone(run) => {
            emit(id, "over", json!({ "outcome": run.outcome.map(RunOutcome::as_str) }));
            return Ok(());
        }
        Outcome::Skipped { .. } => {
            emit(id, "over", json!({ "outcome": null }));
            return Ok(());
        }
        Outcome::Busy(_) => return Err(Error::Protocol("nobody else names occurrences")),
    };
    let attempt = hold.grant().attempt;
    let outcome = match command.outcome.as_deref() {
        Some("SUCCEEDED") => Some(RunOutcome::Succeeded),
        Some(_) => Some(RunOutcome::Failed),
        None => None,
    };
    let is_recorded = match outcome {
        Some(outcome) => match hold.release_with_outcome(outcome, None).await {
            Ok(_) => true,
            Err(Error::OutcomeNotRecorded(_) | Error::OutcomeUnknown(_)) => false,
            Err(error) => return Err(error),
        },
        None => {
            hold.release().await?;
            false
        }
    };
    emit(id, "released", json!({ "attempt": attempt, "recorded": is_recorded }));
    Ok(())
}
