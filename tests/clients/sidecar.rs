//! A sidecar for one driver or a few.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use leasehold::testing::{MovedClock, OLDER_VARIABLE};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::clients::driver::until;

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

/// A `leasehold serve` on the embedded store.
pub(crate) struct Sidecar {
    folder: tempfile::TempDir,
    /// Where it listens beside its socket.
    tcp: Option<SocketAddr>,
    hands_over: bool,
    /// A lower one than it has.
    revision: Option<u32>,
    child: Child,
}

/// Where a sidecar is, as its clients see it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In the same pod: its socket.
    Here,
    /// On another machine: TCP, and a boot clock that is not theirs.
    OtherMachine,
}

impl Sidecar {
    pub(crate) async fn start() -> Self {
        Self::start_at(None, false, None).await
    }

    /// The same, and it listens on loopback beside its socket.
    pub(crate) async fn start_with_tcp() -> Self {
        Self::start_at(Some(free_address()), false, None).await
    }

    /// The same, of a revision that serves nothing (S37).
    pub(crate) async fn start_older() -> Self {
        Self::start_at(Some(free_address()), false, Some(0)).await
    }

    /// The same at a place of its own, and it hands over to a replacement when it is told to end.
    pub(crate) async fn start_that_hands_over(place: Place) -> Self {
        let tcp = match place {
            Place::Here => None,
            Place::OtherMachine => Some(free_address()),
        };
        Self::start_at(tcp, true, None).await
    }

    async fn start_at(tcp: Option<SocketAddr>, hands_over: bool, revision: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = spawn(&folder, tcp, hands_over, revision);
        let sidecar = Self { folder, tcp, hands_over, revision, child };
        sidecar.wait_until_up().await;
        sidecar
    }

    /// Where it listens beside its socket, if it does.
    pub(crate) const fn tcp(&self) -> Option<SocketAddr> {
        self.tcp
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.folder.path().join("leasehold.sock").display())
    }

    /// Where its clients connect to.
    pub(crate) fn clients_endpoint(&self) -> String {
        self.tcp.map_or_else(|| self.endpoint(), |address| format!("http://{address}"))
    }

    /// The file of its locks.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    /// Breaks a lock by the command line, with what is given besides.
    pub(crate) fn break_lock(&self, path: &Value, more: &[&str]) {
        let mut command = Command::new(BINARY);
        command.args(["break", "--endpoint", &self.endpoint(), "--reason", "a scenario"]);
        command.args(more).arg(path.as_str().unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A schedule, as the command line shows it.
    pub(crate) fn schedule(&self, function: &str) -> Value {
        let mut command = Command::new(BINARY);
        command.args(["schedule", "show", "-f", function, "--endpoint", &self.endpoint()]);
        let output = command.args(["--output", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself, and well.
    pub(crate) async fn wait_until_ended(&mut self) {
        let log = self.folder.path().join("log");
        let why_not = || std::fs::read_to_string(&log).unwrap();
        let status =
            until("the sidecar has ended", why_not, || self.child.try_wait().unwrap()).await;
        assert!(status.success(), "{status}");
    }

    /// Starts it anew at the same place.
    pub(crate) async fn restart(&mut self) {
        self.child = spawn(&self.folder, self.tcp, self.hands_over, self.revision);
        self.wait_until_up().await;
    }

    /// Kills it, and starts it anew at the same place, of this revision if it is not its own.
    pub(crate) async fn replace(&mut self, revision: Option<u32>) {
        self.kill();
        self.revision = revision;
        self.restart().await;
    }

    async fn wait_until_up(&self) {
        let probe = || {
            let mut probe = Command::new(BINARY);
            probe.args(["probe", "--endpoint", &self.endpoint()]);
            probe
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap()
                .success()
                .then_some(())
        };
        let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        until("the sidecar is up", log, probe).await;
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn spawn(
    folder: &tempfile::TempDir,
    tcp: Option<SocketAddr>,
    hands_over: bool,
    revision: Option<u32>,
) -> Child {
    let at = |name: &str| folder.path().join(name).display().to_string();
    let log = File::options().create(true).append(true).open(at("log")).unwrap();
    let mut command = Command::new(BINARY);
    command.arg("serve");
    for setting in [
        format!("store.embedded.path={}", at("locks.db")),
        format!("listen.unix={}", at("leasehold.sock")),
        format!("listen.tcp={}", tcp.map_or_else(String::new, |address| address.to_string())),
        "admin.listen=".to_owned(),
        "admin.allow_break=true".to_owned(),
        format!("drain.hand_over={hands_over}"),
        // So that waiting without end is more than one wait.
        "locks.wait_ceiling=60s".to_owned(),
    ] {
        command.args(["--set", &setting]);
    }
    if let Some(revision) = revision {
        command.env(OLDER_VARIABLE, revision.to_string());
    }
    if hands_over && tcp.is_some() {
        std::fs::write(at("clock"), "boot_id=another-machine\n").unwrap();
        command.env(MovedClock::VARIABLE, at("clock"));
    }
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}
