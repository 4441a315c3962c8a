//! Commands about checkpoints, leading and many locks.

use std::sync::Arc;

use leasehold_client::{
    Checkpoint, Client, Error, Hold, LockRecord, LocksEvent, LocksUnder, Reason, WatchLocks,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::{Command, Word, emit, fail};

/// Asks something about a hold.
pub(crate) async fn ask(command: Command, hold: Arc<Hold>) {
    let id = command.id.as_str();
    if command.r#do == "info" {
        match hold.info().await {
            Ok(held) => {
                let more = json!({ "state": held.state.as_str(), "token": held.fencing_token });
                emit(id, "info", more);
            }
            Err(error) => fail(id, &error),
        }
        return;
    }
    match hold.save(&command.value).await {
        Ok(version) => emit(id, "saved", json!({ "version": version })),
        Err(error) => emit(id, "save_failed", json!({ "reason": reason(&error) })),
    }
}

fn reason(error: &Error) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the client's errors may grow")]
    match error {
        Error::Lost(_) => "HOLD_LOST".to_owned(),
        Error::CheckpointUnknown(_) => "CHECKPOINT_UNKNOWN".to_owned(),
        error => {
            error.reason().map_or_else(|| error.to_string(), |it| Reason::as_str(it).to_owned())
        }
    }
}

/// What a release told of its checkpoint.
pub(crate) fn outcome(error: &Error) -> Option<&'static str> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the client's errors may grow")]
    match error {
        Error::CheckpointNotSaved(_) => Some("not_saved"),
        Error::CheckpointUnknown(_) => Some("unknown"),
        _ => None,
    }
}

/// The value of a checkpoint; null if there is none.
pub(crate) fn text(checkpoint: Option<Checkpoint>) -> Value {
    let value = checkpoint.map(|checkpoint| checkpoint.value);
    value.map_or(Value::Null, |value| String::from_utf8_lossy(&value).into())
}

/// Adds what a record tells of its holder's place among others.
pub(crate) fn told(record: &LockRecord, mut more: Value) -> Value {
    let place = json!({
        "sidecar": record.sidecar, "share": record.share, "priority": record.priority, "yields": record.yields,
    });
    if let (Some(more), Value::Object(place)) = (more.as_object_mut(), place) {
        more.extend(place);
    }
    more
}

/// Tells that a term was lost, when the work of the term is dropped.
struct Term<'a> {
    id: &'a str,
    hold: Arc<Hold>,
}

impl Drop for Term<'_> {
    fn drop(&mut self) {
        if self.hold.loss().is_some() {
            emit(self.id, "term_ended", Value::Null);
        }
    }
}

/// Leads until there is a word.
pub(crate) async fn lead(
    client: &Client,
    command: &Command,
    mut words: UnboundedReceiver<Word>,
) -> Result<(), Error> {
    let id = command.id.as_str();
    let leading = client.lead_until(command.spec(), words.recv(), async |hold| {
        emit(id, "leading", json!({ "token": hold.fencing_token() }));
        let _term = Term { id, hold };
        std::future::pending::<Result<(), Error>>().await
    });
    leading.await?;
    emit(id, "stopped_leading", Value::Null);
    Ok(())
}

/// Tells what happens to many locks.
pub(crate) async fn watch_locks(
    client: &Client,
    command: &Command,
    mut words: UnboundedReceiver<Word>,
) -> Result<(), Error> {
    let id = command.id.as_str();
    let under = match command.prefix.as_str() {
        "" => LocksUnder::OwnHostId,
        prefix => LocksUnder::Prefix(prefix.to_owned()),
    };
    let which = WatchLocks::under(under).in_share(&command.share);
    let mut watch = client.watch_locks(which).await?;
    loop {
        let event = tokio::select! {
            _ = words.recv() => {
                emit(id, "aborted", Value::Null);
                return Ok(());
            }
            event = watch.next() => event?,
        };
        match event {
            None => return Ok(()),
            Some(LocksEvent::Changed(record)) => {
                let more = json!({ "path": record.lock_path, "state": record.state.as_str() });
                emit(id, "lock_changed", told(&record, more));
            }
            Some(LocksEvent::Gone(path)) => emit(id, "lock_gone", json!({ "path": path })),
            Some(LocksEvent::Listed { locks, .. }) => emit(id, "listed", json!({ "locks": locks })),
            // Events of later versions.
            Some(_) => {}
        }
    }
}
