//! What each command does.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use leasehold_client::{
    BreakLock, BreakMode, Busy, Error, Hold, HoldEvent, ListLocks, Loss, Outcome, PriorityStatus,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::{Command, Driver, Running, Word, emit, measure, schedules, second};

type Words = UnboundedReceiver<Word>;

impl Driver {
    /// Runs a command to its end.
    pub(crate) async fn run(
        &self,
        command: &Command,
        running: &Running,
        mut words: Words,
    ) -> Result<(), Error> {
        let client = self.client().await?;
        let id = command.id.as_str();
        match command.r#do.as_str() {
            "hold" => return self.hold(command, running, words).await,
            "quick" => return self.quick(command).await,
            "contend" => return self.contend(command).await,
            "measure" => return measure::measure(client, command).await,
            "lead" => return second::lead(client, command, words).await,
            "runs" => return schedules::runs(client, command, words).await,
            "every" => return schedules::every(command, words).await,
            "occurrence" => return schedules::occurrence(client, command).await,
            "watch_locks" => return second::watch_locks(client, command, words).await,
            "server_info" => {
                let info = client.get_server_info().await?;
                let more = json!({ "version": info.version, "features": info.features });
                emit(id, "server_info", more);
            }
            "acquire" => match client.acquire(command.spec()).await? {
                Outcome::Granted(grant) => {
                    let more = json!({
                        "token": grant.fencing_token, "lease_id": grant.lease_id, "lock_path": grant.lock_path,
                    });
                    emit(id, "granted", more);
                }
                Outcome::Busy(busy) => return tell_busy(id, &busy),
                Outcome::AlreadyDone(_) | Outcome::Skipped { .. } => return tell_over(id),
            },
            "release_lease" => {
                let released = client.release(&command.lease_id).await?;
                emit(id, "released", json!({ "outcome": released.outcome.as_str() }));
            }
            "extend" => {
                let span = Duration::from_millis(command.max_hold_ms.unwrap_or_default());
                client.extend(&command.lease_id, span).await?;
                emit(id, "extended", Value::Null);
            }
            "resolve" => {
                let path = client.resolve_path(command.key()).await?.lock_path;
                emit(id, "resolved", json!({ "lock_path": path }));
            }
            "list" => self.list(command).await?,
            "check" => {
                let answer = client.check_token(command.key(), command.token).await?;
                emit(id, "checked", json!({ "status": answer.status.as_str() }));
            }
            "break" => {
                let mode = if command.now { BreakMode::Now } else { BreakMode::RunOut };
                let request = BreakLock::new(command.key(), &command.reason).with_mode(mode);
                let answer = client.break_lock(request).await?;
                emit(id, "broken", json!({ "outcome": answer.outcome.as_str() }));
            }
            "watch" => {
                let mut watch = client.watch_lock(command.key()).await?;
                loop {
                    let record = tokio::select! {
                        _ = words.recv() => return told(id, "aborted", Value::Null),
                        record = watch.next() => record?,
                    };
                    let Some(record) = record else { return Ok(()) };
                    let more = json!({ "state": record.state.as_str() });
                    emit(id, "watched", second::told(&record, more));
                }
            }
            other => {
                emit(id, "error", json!({ "code": "", "message": format!("what is {other}?") }))
            }
        }
        Ok(())
    }

    /// Opens a watch, reads one record, and comes back without closing it: the program ends with it open.
    pub(crate) async fn exit_with_open_watch(
        &self,
        command: &Command,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let mut watch = self.client().await?.watch_lock(command.key()).await?;
        let record = watch.next().await?.ok_or("the watch ended")?;
        emit(&command.id, "watched", json!({ "state": record.state.as_str() }));
        // As if something else kept it: nothing closes it before the process ends.
        std::mem::forget(watch);
        Ok(())
    }

    async fn list(&self, command: &Command) -> Result<(), Error> {
        let client = self.client().await?;
        let mut paths = Vec::new();
        let mut request = ListLocks::default().in_share(&command.share);
        loop {
            let page = client.list_locks(request.clone()).await?;
            paths.extend(page.records.into_iter().map(|record| record.lock_path));
            if page.next_page_token.is_empty() {
                break;
            }
            request = request.page(page.next_page_token);
        }
        emit(&command.id, "listed", json!({ "paths": paths }));
        Ok(())
    }

    /// Holds a lock until it is told to let go.
    async fn hold(
        &self,
        command: &Command,
        running: &Running,
        mut words: Words,
    ) -> Result<(), Error> {
        let id = command.id.as_str();
        let (sender, events) = mpsc::unbounded_channel();
        tokio::spawn(tell_events(id.to_owned(), events));
        let holding = self.client().await?.hold(command.spec()).events(sender);
        let asking = async {
            if command.waits_without_end() {
                holding.until_granted().await.map(Outcome::Granted)
            } else {
                holding.await
            }
        };
        let outcome = tokio::select! {
            // Dropped, it leaves the queue.
            _ = words.recv() => return told(id, "aborted", Value::Null),
            outcome = asking => outcome?,
        };
        let hold = match outcome {
            Outcome::Granted(hold) => Arc::new(hold),
            Outcome::Busy(busy) => return tell_busy(id, &busy),
            Outcome::AlreadyDone(_) | Outcome::Skipped { .. } => return tell_over(id),
        };
        *running.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&hold));
        let more = json!({
            "token": hold.fencing_token(), "lease_id": hold.lease_id(), "lock_path": hold.lock_path(),
            "permit": hold.permit(), "checkpoint": second::text(hold.checkpoint()),
        });
        emit(id, "granted", more);
        let ended = if command.form == "scope" {
            by_scope(hold, running, &mut words).await
        } else {
            by_call(id, hold, running, &mut words).await
        };
        match ended {
            Err(Error::Lost(loss)) => tell_lost(id, &loss),
            Err(Error::ReleaseUnconfirmed { detail, .. }) => {
                told(id, "release_unconfirmed", json!({ "detail": detail }))
            }
            Err(error) => match second::outcome(&error) {
                Some(outcome) => told(id, "released", json!({ "checkpoint": outcome })),
                None => Err(error),
            },
            Ok(Some(Word::Fail)) => told(id, "failed", json!({ "error": "boom" })),
            Ok(Some(Word::Release(Some(_)))) => {
                told(id, "released", json!({ "checkpoint": "saved" }))
            }
            Ok(Some(Word::Release(None) | Word::Cancel | Word::Complete(_)) | None) => {
                told(id, "released", Value::Null)
            }
        }
    }

    /// Takes and releases a lock again and again.
    async fn quick(&self, command: &Command) -> Result<(), Error> {
        let client = self.client().await?;
        let mut tokens = Vec::new();
        for _ in 0..command.times {
            match client.hold(command.spec()).await? {
                Outcome::Granted(hold) => {
                    tokens.push(hold.fencing_token());
                    hold.release().await?;
                }
                Outcome::Busy(busy) => return tell_busy(&command.id, &busy),
                Outcome::AlreadyDone(_) | Outcome::Skipped { .. } => return tell_over(&command.id),
            }
        }
        emit(&command.id, "done", json!({ "tokens": tokens }));
        Ok(())
    }

    /// Adds to the number in a file that only the newest token may write to.
    async fn contend(&self, command: &Command) -> Result<(), Error> {
        let client = self.client().await?;
        let mut tokens = Vec::new();
        let newest = format!("{}.token", command.file);
        let read = |file: &str| -> u64 {
            std::fs::read_to_string(file).unwrap_or_default().trim().parse().unwrap_or_default()
        };
        for _ in 0..command.times {
            let spec = leasehold_client::LeaseSpec::new("contend");
            let hold = client.hold(spec).until_granted().await?;
            let token = hold.fencing_token();
            let number = read(&command.file);
            if read(&newest) >= token || !hold.is_valid() {
                return Err(Error::Protocol("the lock is not held, or its token has not grown"));
            }
            let written = std::fs::write(&newest, token.to_string())
                .and_then(|()| std::fs::write(&command.file, (number + 1).to_string()));
            if written.is_err() {
                return Err(Error::Protocol("the file cannot be written"));
            }
            hold.release().await?;
            tokens.push(token);
        }
        emit(&command.id, "done", json!({ "tokens": tokens }));
        Ok(())
    }
}

/// Holds until there is a word, and releases by leaving the scope.
async fn by_scope(
    hold: Arc<Hold>,
    running: &Running,
    words: &mut Words,
) -> Result<Option<Word>, Error> {
    // Commands find it in `running`, so that it is not alone while it is held.
    let held = &running.hold;
    held.lock().unwrap_or_else(PoisonError::into_inner).take();
    let hold = alone(hold).await;
    hold.run(async |hold| {
        *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(hold);
        let word = words.recv().await;
        held.lock().unwrap_or_else(PoisonError::into_inner).take();
        word
    })
    .await
}

/// Holds until there is a word, and releases by a call.
async fn by_call(
    id: &str,
    hold: Arc<Hold>,
    running: &Running,
    words: &mut Words,
) -> Result<Option<Word>, Error> {
    let word = tokio::select! {
        // Rust cancels by dropping: the branch that is not taken is the code that was cancelled.
        loss = hold.lost() => {
            emit(id, "cancelled", Value::Null);
            return Err(Error::Lost(loss));
        }
        word = words.recv() => word,
    };
    running.hold.lock().unwrap_or_else(PoisonError::into_inner).take();
    let hold = alone(hold).await;
    match &word {
        Some(Word::Release(Some(value))) => hold.release_with_checkpoint(value).await?,
        _ => hold.release().await?,
    };
    Ok(word)
}

/// Waits for the calls that use the hold.
async fn alone(mut hold: Arc<Hold>) -> Hold {
    loop {
        match Arc::try_unwrap(hold) {
            Ok(hold) => return hold,
            Err(shared) => hold = shared,
        }
        tokio::task::yield_now().await;
    }
}

fn tell_lost(id: &str, loss: &Loss) -> Result<(), Error> {
    told(id, "lost", json!({ "reason": loss.reason.as_str(), "detail": loss.detail }))
}

/// The last event of a command.
fn told(id: &str, event: &str, more: Value) -> Result<(), Error> {
    emit(id, event, more);
    Ok(())
}

/// These commands name no occurrence.
fn tell_over(id: &str) -> Result<(), Error> {
    told(id, "over", Value::Null)
}

fn tell_busy(id: &str, busy: &Busy) -> Result<(), Error> {
    let record = busy.record.clone().unwrap_or_default();
    let more = json!({
        "holder": record.holder, "token": record.fencing_token, "held_permits": busy.held_permits,
        "priority_status": busy.priority_status.map(PriorityStatus::as_str),
    });
    told(id, "busy", second::told(&record, more))
}

pub(crate) async fn tell_events(id: String, mut events: UnboundedReceiver<HoldEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            HoldEvent::Waiting(waiting) => {
                emit(&id, "waiting", json!({ "place": waiting.position }));
            }
            HoldEvent::AtRisk { cause, detail, .. } => {
                emit(&id, "at_risk", json!({ "cause": cause.as_str(), "detail": detail }));
            }
            HoldEvent::Revoked(notice) => {
                let for_priority = notice.for_priority();
                let reason = notice.break_note.map(|note| note.reason);
                let more = json!({ "reason": reason, "for_priority": for_priority });
                emit(&id, "revoked", more);
            }
            HoldEvent::Recovered { .. } => emit(&id, "recovered", Value::Null),
            HoldEvent::Draining { time_left } => {
                let left = u64::try_from(time_left.as_millis()).unwrap_or(u64::MAX);
                emit(&id, "draining", json!({ "time_left_ms": left }));
            }
            HoldEvent::Interrupted { detail } => {
                emit(&id, "interrupted", json!({ "detail": detail }));
            }
            HoldEvent::Resumed { .. } => emit(&id, "resumed", Value::Null),
            // Events of later versions, too.
            HoldEvent::Renewed { .. } | HoldEvent::Lost(_) | _ => {}
        }
    }
}
