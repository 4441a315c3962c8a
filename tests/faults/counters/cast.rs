//! A client of any language as a process: it takes commands and tells events, a line of JSON each.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::clients::cargo::{DRIVER_IS_BUILT, cargos_variables};
use crate::faults::process::{PATIENCE, states, until};

/// Lines that are kept for a storm that does not end well.
const STORY: usize = 30;

fn program(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(language).join("driver")
}

fn command(language: &str) -> Command {
    let mut command = Command::new(program(language));
    cargos_variables().iter().for_each(|name| _ = command.env_remove(name));
    command
}

/// Lets a client's driver install and build what it needs.
pub(super) async fn prepare(language: &str) {
    // Without commands it ends at once.
    let output = command(language).stdin(Stdio::null()).output().await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{language}: {complaint}");
}

/// The process is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone;

#[derive(Debug, Default)]
struct Process {
    /// While it lives and has said something.
    pid: Option<Pid>,
    is_stopped: bool,
    /// When it was killed, on the boot clock.
    killed_at: Option<u64>,
}

/// What a storm does to a client's process.
#[derive(Clone, Debug, Default)]
pub(super) struct Handle(Arc<Mutex<Process>>);

impl Handle {
    fn with<T>(&self, what: impl FnOnce(&mut Process) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Kills it and all that belongs to it; false if there is none that goes on. That it died of it shows in
    /// `Client::end`.
    pub(super) fn kill(&self) -> bool {
        self.with(|process| {
            let pid = process.pid.filter(|_| !process.is_stopped && process.killed_at.is_none());
            let Some(pid) = pid else { return false };
            process.killed_at = Some(super::boot_nanos());
            kill_process_group(pid, Signal::KILL).unwrap();
            true
        })
    }

    /// Stops it, and waits until it stands; false if there is none that goes on.
    pub(super) async fn stop(&self) -> bool {
        let stopped = self.with(|process| {
            let pid = process.pid.filter(|_| !process.is_stopped && process.killed_at.is_none())?;
            kill_process_group(pid, Signal::STOP).unwrap();
            process.is_stopped = true;
            Some(pid.as_raw_nonzero().get().unsigned_abs())
        });
        let Some(pid) = stopped else { return false };
        let threads = || states(pid);
        let stands = || threads().iter().all(|state| *state == 'T').then_some(());
        until("the client stands", || format!("{:?}", threads()), stands).await;
        true
    }

    /// Lets a stopped one go on.
    pub(super) fn go_on(&self) {
        self.with(|process| {
            process.is_stopped = false;
            kill_process_group(process.pid.unwrap(), Signal::CONT).unwrap();
        });
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.with(|process| process.is_stopped)
    }
}

/// One process of a language's driver.
#[derive(Debug)]
pub(super) struct Client {
    name: String,
    handle: Handle,
    child: Child,
    commands: ChildStdin,
    events: UnboundedReceiver<Value>,
    /// Events that came before one that was waited for.
    unread: Vec<Value>,
    story: VecDeque<String>,
}

impl Client {
    /// What it complains of goes to `complaints`.
    pub(super) fn start(
        name: &str,
        language: &str,
        endpoint: &str,
        complaints: &Path,
        handle: Handle,
    ) -> Self {
        let complaints = File::options().create(true).append(true).open(complaints).unwrap();
        crate::signals::undo_ignored();
        let mut command = command(language);
        command.env("LEASEHOLD_ENDPOINT", endpoint).env(DRIVER_IS_BUILT, "1");
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(complaints);
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                // A kill cuts lines off.
                let Ok(event) = serde_json::from_str(&line) else { return };
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        let (unread, story) = (Vec::new(), VecDeque::new());
        Self { name: name.to_owned(), handle, child, commands, events, unread, story }
    }

    fn note(&mut self, line: String) {
        self.story.truncate(STORY - 1);
        self.story.push_front(line);
    }

    /// It lives, and a storm may do to it what it does.
    fn take_in(&mut self, told: &Value) {
        self.note(told.to_string());
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        self.handle.with(|process| process.pid = pid);
    }

    /// Sends a command: `command` with its id and what it does.
    pub(super) async fn tell(
        &mut self,
        id: &str,
        what: &str,
        mut command: Value,
    ) -> Result<(), Gone> {
        let fields = command.as_object_mut().unwrap();
        fields.extend([("id".to_owned(), json!(id)), ("do".to_owned(), json!(what))]);
        self.note(format!("> {command}"));
        let sent = self.commands.write_all(format!("{command}\n").as_bytes()).await;
        sent.map_err(|_| Gone)
    }

    /// Waits for whichever of these events of that command comes first; others stay to be read.
    pub(super) async fn outcome(&mut self, id: &str, events: &[&str]) -> Result<Value, Gone> {
        let is_it =
            |told: &Value| told["id"] == id && events.iter().any(|event| told["event"] == *event);
        if let Some(at) = self.unread.iter().position(is_it) {
            return Ok(self.unread.remove(at));
        }
        loop {
            let Ok(next) = tokio::time::timeout(PATIENCE, self.events.recv()).await else {
                panic!("{}: {id} never told any of {events:?}: {:#?}", self.name, self.story);
            };
            let Some(told) = next else { return Err(Gone) };
            self.take_in(&told);
            if is_it(&told) {
                return Ok(told);
            }
            self.unread.push(told);
        }
    }

    /// What that command told so far, but for how it ended.
    pub(super) fn told_besides_ends(&mut self, id: &str, ends: &[&str]) -> Vec<String> {
        while let Ok(told) = self.events.try_recv() {
            self.take_in(&told);
            self.unread.push(told);
        }
        let name = |told: &Value| told["event"].as_str().unwrap_or_default().to_owned();
        let is_it =
            |told: &mut Value| told["id"] == id && !ends.iter().any(|end| told["event"] == *end);
        self.unread.extract_if(.., is_it).map(|told| name(&told)).collect()
    }

    /// Forgets what nobody waited for.
    pub(super) fn forget(&mut self) {
        self.unread.clear();
    }

    /// Waits for the end of the process, which a storm killed, and proves that it died of that: when that
    /// was.
    pub(super) async fn killed(mut self) -> u64 {
        let killed_at = self.handle.with(|process| {
            process.pid = None;
            process.killed_at.take()
        });
        let status = self.child.wait().await.unwrap();
        let is_killed = status.signal() == Some(Signal::KILL.as_raw());
        assert!(is_killed && killed_at.is_some(), "{}: {status}: {:#?}", self.name, self.story);
        killed_at.unwrap()
    }

    /// Ends it, at the end of the storm.
    pub(super) async fn end(mut self) {
        self.handle.with(|process| process.pid = None);
        self.child.kill().await.unwrap();
    }
}
