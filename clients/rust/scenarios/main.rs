//! What the scenarios drive that all clients share: JSON lines on stdin are commands, JSON lines on stdout
//! are events. It uses the public interface of the client, and the generated stub to compare it with.

mod commands;
mod measure;
mod schedules;
mod second;

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_client::{
    Client, Code, DEFAULT_ENDPOINT, ENDPOINT_VARIABLE, Error, Hold, LeaseSpec, LockKey, Reason,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc};
use tokio::task::AbortHandle;

/// A line of stdin. Spans are in milliseconds; an absent one is unset.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Command {
    id: String,
    r#do: String,
    function: String,
    scope: String,
    wait_ms: Option<i64>,
    lease_ms: Option<u64>,
    max_hold_ms: Option<u64>,
    min_hold_ms: Option<u64>,
    progress_timeout_ms: Option<u64>,
    labels: BTreeMap<String, String>,
    lease_id: String,
    token: u64,
    reason: String,
    now: bool,
    times: usize,
    file: String,
    /// `scope`: the hold is left by the language's scope form. Otherwise by a call.
    form: String,
    permits: Option<u32>,
    priority: u32,
    yields: bool,
    share: String,
    rebalance: bool,
    wait_forever: bool,
    prefix: String,
    /// The checkpoint to save.
    value: String,
    /// The checkpoint to release with.
    checkpoint: Option<String>,
    every_ms: u64,
    backoff_ms: u64,
    run_timeout_ms: Option<u64>,
    /// An occurrence in seconds since 1970.
    at: u64,
    /// How it, or a run, ended.
    outcome: Option<String>,
}

impl Command {
    fn key(&self) -> LockKey {
        LockKey::new(&self.function, &self.scope)
    }

    fn waits_without_end(&self) -> bool {
        self.wait_forever || self.wait_ms == Some(-1)
    }

    fn spec(&self) -> LeaseSpec {
        let mut spec: LeaseSpec = self.key().into();
        spec.labels = self.labels.clone();
        spec.permits = self.permits.unwrap_or(spec.permits);
        spec.priority = self.priority;
        spec.yields = self.yields;
        spec.share.clone_from(&self.share);
        spec.rebalance = self.rebalance;
        if let Some(wait) = self.wait_ms.and_then(|wait| u64::try_from(wait).ok()) {
            spec = spec.with_wait(Duration::from_millis(wait));
        }
        if let Some(lease) = self.lease_ms {
            spec = spec.with_lease_duration(Duration::from_millis(lease));
        }
        if let Some(max_hold) = self.max_hold_ms {
            spec = spec.with_max_hold(Duration::from_millis(max_hold));
        }
        if let Some(min_hold) = self.min_hold_ms {
            spec = spec.with_min_hold(Duration::from_millis(min_hold));
        }
        if let Some(timeout) = self.progress_timeout_ms {
            spec = spec.with_progress_timeout(Duration::from_millis(timeout));
        }
        spec
    }
}

/// What is said to a command that runs.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    /// With this checkpoint, if there is one.
    Release(Option<String>),
    Fail,
    Cancel,
    /// A run, with this outcome.
    Complete(String),
}

/// A command that others may speak to.
#[derive(Clone, Debug)]
struct Running {
    words: mpsc::UnboundedSender<Word>,
    /// Cancels the code that holds, from outside of it.
    abort: Arc<Mutex<Option<AbortHandle>>>,
    hold: Arc<Mutex<Option<Arc<Hold>>>>,
}

#[derive(Debug, Default)]
struct Driver {
    client: OnceCell<Client>,
    running: Mutex<HashMap<String, Running>>,
}

fn emit(id: &str, event: &str, more: Value) {
    let mut line = json!({ "id": id, "event": event });
    if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
        line.extend(more);
    }
    let mut stdout = std::io::stdout().lock();
    // Without a reader there is nobody left to do it for.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// Tells an error that ended a command.
fn fail(id: &str, error: &Error) {
    let refusal = if let Error::Refused(refusal) = error { Some(refusal) } else { None };
    let fields: Vec<&str> = refusal.map_or_else(Vec::new, |refusal| {
        refusal.violations.iter().map(|violation| violation.field.as_str()).collect()
    });
    let code = error.code().map_or("UNAVAILABLE", Code::as_str);
    let reason = error.reason().map(Reason::as_str).unwrap_or_default();
    let more =
        json!({ "code": code, "reason": reason, "message": error.to_string(), "fields": fields });
    emit(id, "error", more);
}

fn fail_with(id: &str, code: &str, message: &str) {
    let fields: [&str; 0] = [];
    let more = json!({ "code": code, "reason": "", "message": message, "fields": fields });
    emit(id, "error", more);
}

impl Driver {
    /// The one client of all commands.
    async fn client(&self) -> Result<&Client, Error> {
        self.client.get_or_try_init(connect).await
    }

    /// Passes a command on to the one that has its id.
    fn tell(&self, command: &Command) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = running.get(&command.id) else { return };
        if command.r#do == "interrupt" {
            // The hold is the running code's alone, and goes with it.
            running.hold.lock().unwrap_or_else(PoisonError::into_inner).take();
            let abort = running.abort.lock().unwrap_or_else(PoisonError::into_inner).take();
            return abort.iter().for_each(AbortHandle::abort);
        }
        let hold = running.hold.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (command.r#do.as_str(), hold) {
            ("release", _) => {
                drop(running.words.send(Word::Release(command.checkpoint.clone())));
            }
            ("complete", _) => {
                let outcome = command.outcome.clone().unwrap_or_default();
                drop(running.words.send(Word::Complete(outcome)));
            }
            ("fail", _) => drop(running.words.send(Word::Fail)),
            ("cancel" | "stop_leading", _) => drop(running.words.send(Word::Cancel)),
            ("save" | "info", Some(hold)) => {
                tokio::spawn(second::ask(command.clone(), hold));
            }
            ("validity", Some(hold)) => {
                let left = u64::try_from(hold.remaining().as_millis()).unwrap_or(u64::MAX);
                let more = json!({ "valid": hold.is_valid(), "remaining_ms": left });
                emit(&command.id, "validity", more);
            }
            ("progress", Some(hold)) => {
                let id = command.id.clone();
                tokio::spawn(async move {
                    match hold.report_progress().await {
                        Ok(()) => emit(&id, "progressed", Value::Null),
                        Err(error) => fail(&id, &error),
                    }
                });
            }
            (_, _) => {}
        }
    }

    fn start(self: &Arc<Self>, command: Command) {
        if TO_ANOTHER.contains(&command.r#do.as_str()) {
            return self.tell(&command);
        }
        let (words, told) = mpsc::unbounded_channel();
        let running = Running { words, abort: Arc::default(), hold: Arc::default() };
        let mut all = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(command.id.clone(), running.clone());
        let (driver, id) = (Arc::clone(self), command.id.clone());
        let abort = Arc::clone(&running.abort);
        let code = tokio::spawn(async move { driver.run(&command, &running, told).await });
        *abort.lock().unwrap_or_else(PoisonError::into_inner) = Some(code.abort_handle());
        tokio::spawn(async move {
            match code.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => fail(&id, &error),
                Err(interrupted) if interrupted.is_cancelled() => {
                    emit(&id, "interrupted_outside", Value::Null);
                }
                Err(panicked) => fail_with(&id, "INTERNAL", &panicked.to_string()),
            }
        });
    }
}

/// Connects as the environment says, with the options that a scenario asks for.
async fn connect() -> Result<Client, Error> {
    let endpoint = std::env::var(ENDPOINT_VARIABLE).unwrap_or_else(|_| DEFAULT_ENDPOINT.to_owned());
    let mut builder = Client::builder(endpoint);
    let option = |name: &str| {
        let millis = std::env::var(format!("LEASEHOLD_DRIVER_{name}_MS")).ok()?.parse().ok()?;
        Some(Duration::from_millis(millis))
    };
    if let Some(interval) = option("KEEP_ALIVE") {
        builder = builder.keep_alive(interval);
    }
    if let Some(timeout) = option("RELEASE_TIMEOUT") {
        builder = builder.release_timeout(timeout);
    }
    builder.connect().await
}

/// Commands to one that runs.
const TO_ANOTHER: [&str; 10] = [
    "complete",
    "release",
    "fail",
    "cancel",
    "interrupt",
    "progress",
    "validity",
    "save",
    "info",
    "stop_leading",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let driver = Arc::new(Driver::default());
    let mut lines = lines_of_stdin();
    while let Some(line) = lines.recv().await {
        let command: Command = serde_json::from_str(&line)?;
        if command.r#do == "exit_with_open_watch" {
            return driver.exit_with_open_watch(&command).await;
        }
        driver.start(command);
    }
    Ok(())
}

/// Read by a thread that a program's end does not wait for.
fn lines_of_stdin() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
