//! A sidecar of its own for each test, in a temporary folder, and the commands against it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::signals::undo_ignored;

/// The longest that anything is waited for.
pub(crate) const GENEROUS: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(20);

/// A folder, and commands that know of nothing outside it.
pub(crate) struct Home {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl Home {
    pub(crate) fn new() -> Self {
        undo_ignored();
        Self { folder: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// Sets a variable of every command.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("locks.db")
    }

    /// `leasehold` with `arguments`, and an environment that is the test's alone.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        let is_read = |name: &str| name.starts_with("LEASEHOLD_") || name.starts_with("OTEL_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_read(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command
            .args(arguments)
            .env("HOME", self.folder.path())
            .env_remove("XDG_STATE_HOME")
            .env("LEASEHOLD_ENDPOINT", self.endpoint())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Where the sidecar of this home is, if there is one.
    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.path("sidecar.sock").display())
    }

    /// Runs `leasehold` to its end.
    pub(crate) async fn leasehold(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments)).await
    }

    /// The same without a sidecar, on the store of this home.
    pub(crate) async fn directly(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.direct_command(arguments)).await
    }

    /// The same for a command of a group.
    pub(crate) async fn directly_in(&self, group: &str, arguments: &[&str]) -> Ended {
        Ended::of(self.direct(&[group], arguments)).await
    }

    pub(crate) fn direct_command(&self, arguments: &[&str]) -> Command {
        self.direct(&[], arguments)
    }

    fn direct(&self, group: &[&str], arguments: &[&str]) -> Command {
        let store = format!("store.embedded.path={}", self.store().display());
        let (first, rest) = arguments.split_first().unwrap();
        let direct = [*first, "--store", "embedded", "--set", &store];
        let all: Vec<&str> = group.iter().chain(&direct).chain(rest).copied().collect();
        self.command(&all)
    }

    /// Waits until the file is there and has a line in it; what is in it.
    pub(crate) async fn file(&self, name: &str) -> String {
        let path = self.path(name);
        eventually(&format!("{name} is written"), || async {
            std::fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))
        })
        .await
    }
}

/// A sidecar that is ready.
pub(crate) struct Sidecar {
    pub(crate) home: Home,
    pub(crate) process: Child,
}

impl Sidecar {
    pub(crate) async fn start(settings: &[&str]) -> Self {
        Self::start_in(Home::new(), settings).await
    }

    pub(crate) async fn start_in(home: Home, settings: &[&str]) -> Self {
        let log = std::fs::File::create(home.path("sidecar.log")).unwrap();
        Self::start_with_stderr(home, settings, log.into()).await
    }

    pub(crate) async fn start_with_stderr(home: Home, settings: &[&str], stderr: Stdio) -> Self {
        let process = serve(&home, settings, stderr).await;
        Self { home, process }
    }

    /// Kills it as a crash does, and starts it again at the same place after `meanwhile`.
    pub(crate) async fn crash(&mut self, meanwhile: impl Future<Output = ()>) {
        self.process.kill().await.unwrap();
        meanwhile.await;
        let log = std::fs::File::options().append(true).open(self.home.path("sidecar.log"));
        self.process = serve(&self.home, &[], log.unwrap().into()).await;
    }

    pub(crate) async fn leasehold(&self, arguments: &[&str]) -> Ended {
        self.home.leasehold(arguments).await
    }

    pub(crate) fn signal(&self, signal: Signal) {
        signal_to(&self.process, signal);
    }

    /// The lock's record, as `show` has it.
    pub(crate) async fn lock(&self, function: &str) -> serde_json::Value {
        let shown = self.leasehold(&["show", "-f", function, "--output", "json"]).await;
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        shown.json()
    }
}

/// A sidecar's process, once it is ready: on the file of this home, unless the settings name another store.
async fn serve(home: &Home, settings: &[&str], stderr: Stdio) -> Child {
    let store = format!("store.embedded.path={}", home.store().display());
    let unix = format!("listen.unix={}", home.path("sidecar.sock").display());
    let mut all = vec![unix.as_str(), "listen.tcp=", "admin.listen=", "host_id.host_type=test"];
    if !settings.iter().any(|setting| setting.starts_with("store.kind=")) {
        all.push(&store);
    }
    let mut arguments = vec!["serve"];
    for setting in all.iter().chain(settings) {
        arguments.extend(["--set", setting]);
    }
    let process = home.command(&arguments).stderr(stderr).spawn().unwrap();
    let probed = home.leasehold(&["probe", "--wait", "30s"]).await;
    assert_eq!(probed.code, 0, "{}", probed.stderr);
    process
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.home.path("sidecar.log")).unwrap_or_default();
            println!("the sidecar's log:\n{log}");
        }
    }
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// As shells have it: 128 and the signal's number for a signal.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) async fn of(mut command: Command) -> Self {
        Self::of_child(command.spawn().unwrap()).await
    }

    pub(crate) async fn of_child(child: Child) -> Self {
        let output = tokio::time::timeout(GENEROUS, child.wait_with_output());
        Self::from(output.await.expect("the command ends").unwrap())
    }

    /// The error, where errors are JSON.
    pub(crate) fn error_json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The result, or the error where there is none.
    pub(crate) fn document(&self) -> serde_json::Value {
        if self.stdout.is_empty() { self.error_json() } else { self.json() }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let status = output.status;
        Self {
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap()),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    match tokio::time::timeout(GENEROUS, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("not in time: {what}"),
    }
}

pub(crate) fn signal_to(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id().expect("it runs")).unwrap();
    rustix::process::kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

/// Whether the process runs: one that has ended and was not waited for does not.
pub(crate) fn runs(id: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(id.trim()).join("stat"));
    // The state is behind the name, which is in parentheses.
    status.is_ok_and(|text| !text.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}
