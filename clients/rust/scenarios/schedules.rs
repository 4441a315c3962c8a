//! Commands about schedules and occurrences.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::{
    Client, Completion, Error, Outcome, Run, RunOutcome, RunTimeout, ScheduleEvent, ScheduleSpec,
    Subscription,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::commands::tell_events;
use crate::{Command, Word, connect, emit};

/// Takes part in a schedule until it is cancelled, and completes each run when it is told to.
pub(crate) async fn runs(
    client: &Client,
    command: &Command,
    mut words: UnboundedReceiver<Word>,
) -> Result<(), Error> {
    let id = command.id.as_str();
    let (sender, events) = unbounded_channel();
    tokio::spawn(tell_schedule(id.to_owned(), events));
    let mut runs = client.runs(subscription(command)).events(sender).with_hold_events();
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

fn subscription(command: &Command) -> Subscription {
    let spec = ScheduleSpec::every(Duration::from_millis(command.every_ms))
        .with_attempts(3, Duration::from_millis(command.backoff_ms));
    let timeout = command.run_timeout_ms.map(Duration::from_millis);
    let timeout = timeout.map_or(RunTimeout::UntilNext, RunTimeout::After);
    Subscription::new(command.key(), spec.with_run_timeout(timeout))
}

/// Runs work that hangs: whatever becomes of its run, it blocks until it is told to return.
///
/// A runtime of its own has a thread that it may block, as a program has whose work forgets to `.await`.
pub(crate) async fn every(
    command: &Command,
    mut words: UnboundedReceiver<Word>,
) -> Result<(), Error> {
    let (returns, told) = std::sync::mpsc::channel();
    let told = Mutex::new(told);
    let (stops, stop) = oneshot::channel();
    tokio::spawn(async move {
        while let Some(Word::Complete(_)) = words.recv().await {
            let _sent = returns.send(());
        }
        let _sent = stops.send(());
    });
    let id = command.id.as_str();
    let (command, (ends, ended)) = (command.clone(), oneshot::channel());
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let done = runtime
            .map_err(|_| Error::Protocol("there is no runtime"))
            .and_then(|runtime| runtime.block_on(hang(&command, &told, stop)));
        drop(ends.send(done));
    });
    ended.await.unwrap_or(Err(Error::Protocol("it panicked")))?;
    emit(id, "aborted", Value::Null);
    Ok(())
}

async fn hang(
    command: &Command,
    told: &Mutex<std::sync::mpsc::Receiver<()>>,
    stop: oneshot::Receiver<()>,
) -> Result<(), Error> {
    let id = command.id.as_str();
    let work = async |run: Arc<Run>| {
        tell_run(id, &run);
        let (id, lost) = (id.to_owned(), run.lost());
        tokio::spawn(async move {
            emit(&id, "lost", json!({ "reason": lost.await.reason.as_str() }));
        });
        told.lock().unwrap_or_else(PoisonError::into_inner).recv()
    };
    connect().await?.every_until(subscription(command), stop, work).await
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
        match event {
            ScheduleEvent::Subscribed(_) => emit(&id, "subscribed", Value::Null),
            ScheduleEvent::Interrupted { .. } => emit(&id, "interrupted", Value::Null),
            // Events of later versions, too.
            ScheduleEvent::Standby(_)
            | ScheduleEvent::DefinitionInForce(_)
            | ScheduleEvent::Draining { .. }
            | _ => {}
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
            Err(Error::OutcomeNotRecorded(_) | Error::OutcomeUnknown) => false,
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
