//! A client's driver: a process that takes commands and tells events, a line of JSON each.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use leasehold::time::{BootClock, Clock as _};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::clients::cargo::{DRIVER_IS_BUILT, cargos_variables};

/// What must happen at all gets this long: a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(90);

/// A driver's program, and how it is run.
fn program(language: &str) -> (PathBuf, Command) {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(language);
    let program = client.join("driver");
    let mut command = Command::new(&program);
    for name in cargos_variables() {
        command.env_remove(name);
    }
    (program, command)
}

/// Lets a driver install and build what it needs, once: several that came at once would be in each other's
/// way.
pub(crate) async fn prepare(language: &'static str) {
    static PREPARED: LazyLock<Mutex<BTreeSet<&str>>> = LazyLock::new(Mutex::default);
    let mut prepared = PREPARED.lock().await;
    if prepared.contains(language) {
        return;
    }
    // Without commands it ends at once.
    let (program, mut command) = program(language);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {complaint}", program.display());
    prepared.insert(language);
}

/// One process of a language's driver.
pub(crate) struct Driver {
    language: &'static str,
    child: Child,
    commands: ChildStdin,
    events: UnboundedReceiver<Value>,
    /// Events that came before one that was waited for.
    unread: VecDeque<Value>,
    /// All events, for a scenario that fails.
    told: Vec<String>,
}

impl Driver {
    pub(crate) async fn start(language: &'static str, endpoint: &str) -> Self {
        Self::start_with(language, endpoint, &[]).await
    }

    /// The same with `environment` added to ours.
    pub(crate) async fn start_with(
        language: &'static str,
        endpoint: &str,
        environment: &[(&str, &str)],
    ) -> Self {
        prepare(language).await;
        crate::signals::undo_ignored();
        let (program, mut command) = program(language);
        command.env("LEASEHOLD_ENDPOINT", endpoint).env(DRIVER_IS_BUILT, "1");
        command.process_group(0).kill_on_drop(true);
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let commands = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let event =
                    serde_json::from_str(&line).unwrap_or_else(|_| json!({ "rubbish": line }));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Self { language, child, commands, events, unread: VecDeque::new(), told: Vec::new() }
    }

    /// Sends a command: `command` with its id and what it does.
    pub(crate) async fn tell(&mut self, id: &str, what: &str, mut command: Value) {
        let fields = command.as_object_mut().unwrap();
        fields.insert("id".to_owned(), id.into());
        fields.insert("do".to_owned(), what.into());
        self.told.push(format!("> {command}"));
        self.commands.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        self.commands.flush().await.unwrap();
    }

    /// The language of this driver.
    pub(crate) const fn language(&self) -> &'static str {
        self.language
    }

    /// Waits for the process to end by itself, its commands still open; its exit code, unless a signal ended
    /// it.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let Ok(status) = status else {
            panic!("{}: the process never ended:\n{}", self.language, self.story());
        };
        status.unwrap().code()
    }

    /// Waits for the event of that command; others stay to be waited for.
    pub(crate) async fn event(&mut self, id: &str, event: &str) -> Value {
        self.outcome(id, &[event]).await
    }

    /// Waits for whichever of these events of that command comes first.
    pub(crate) async fn outcome(&mut self, id: &str, events: &[&str]) -> Value {
        self.outcome_with(id, events, |_| true).await
    }

    /// The same, of the events that `is_it` holds for.
    pub(crate) async fn outcome_with(
        &mut self,
        id: &str,
        events: &[&str],
        is_it: impl Fn(&Value) -> bool + Sync,
    ) -> Value {
        let is_it = |told: &Value| {
            told["id"] == id && events.iter().any(|event| told["event"] == *event) && is_it(told)
        };
        if let Some(at) = self.unread.iter().position(is_it) {
            return self.unread.remove(at).unwrap();
        }
        // For all that is told meanwhile together: some events are repeated without end.
        let clock = BootClock::new();
        let until = clock.now() + PATIENCE;
        loop {
            let left = until.saturating_since(clock.now());
            let next = tokio::time::timeout(left, self.events.recv()).await;
            let Ok(Some(told)) = next else {
                panic!("{}: {id} never told {events:?}:\n{}", self.language, self.story());
            };
            self.told.push(told.to_string());
            let is_rubbish = told.get("rubbish").is_some();
            let is_refusal =
                told["event"] == "error" && told["id"] == id && !events.contains(&"error");
            assert!(
                !is_rubbish && !is_refusal,
                "{}: waited for {events:?} of {id}:\n{}",
                self.language,
                self.story()
            );
            if is_it(&told) {
                return told;
            }
            self.unread.push_back(told);
        }
    }

    /// Forgets what nobody waited for.
    pub(crate) fn forget(&mut self) {
        self.unread.clear();
        self.told.clear();
    }

    /// All that was said and told.
    pub(crate) fn story(&self) -> String {
        self.told.join("\n")
    }

    /// Takes a lock by the block form.
    pub(crate) async fn hold(&mut self, id: &str, function: &str, lease_ms: u64) -> Value {
        self.tell(id, "hold", json!({ "function": function, "lease_ms": lease_ms })).await;
        self.event(id, "granted").await
    }

    /// Leaves the block.
    pub(crate) async fn release(&mut self, id: &str) {
        self.tell(id, "release", json!({})).await;
        self.event(id, "released").await;
    }

    /// Whether the holder believes, and for how much longer.
    pub(crate) async fn validity(&mut self, id: &str) -> (bool, u64) {
        self.tell(id, "validity", json!({})).await;
        let told = self.event(id, "validity").await;
        (told["valid"].as_bool().unwrap(), told["remaining_ms"].as_u64().unwrap())
    }

    /// Whether that command's hold said that it is valid, in what was told and not waited for.
    pub(crate) fn told_valid(&self, id: &str) -> bool {
        let validity = |told: &&Value| told["id"] == id && told["event"] == "validity";
        self.unread.iter().filter(validity).any(|told| told["valid"] == true)
    }

    /// Stops the process and all that belongs to it, or lets them go on.
    pub(crate) fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process_group(Pid::from_raw(process).unwrap(), signal).unwrap();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(process) = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
        {
            let _ = kill_process_group(process, Signal::KILL);
        }
    }
}

/// Waits until `look` finds something.
pub(crate) async fn until<T>(
    what: &str,
    why_not: impl Fn() -> String,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let found = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, found).await {
        Ok(found) => found,
        Err(_) => panic!("waited for long, and not: {what}; {}", why_not()),
    }
}
