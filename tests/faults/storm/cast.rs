//! The processes of the storm, beside the sidecars.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::faults::process::{self, program};

/// The longest work between a look and a write.
const WORK: Duration = Duration::from_millis(800);

/// The program of an example, built if it is not there.
fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<bool> = OnceLock::new();
    let is_built = BUILT.get_or_init(|| {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--locked", "--workspace", "--examples"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        // Build scripts look at the variables of the package that is being tested, and would run again.
        for name in crate::clients::cargo::cargos_variables() {
            build.env_remove(name);
        }
        build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success()
    });
    assert!(is_built, "the examples cannot be built");
    Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().unwrap().join("examples").join(name)
}

/// Now, on the clock of the workers' logs.
pub(super) fn boot_nanos() -> u64 {
    u64::try_from(leasehold_client::BootInstant::now().since_boot().as_nanos()).unwrap()
}

/// A service that jobs write to.
pub(super) struct Resource {
    pub(super) name: &'static str,
    url: String,
    _child: tokio::process::Child,
}

impl Resource {
    pub(super) async fn start(name: &'static str, arguments: &[&str]) -> Self {
        let mut child = tokio::process::Command::new(example("protected_resource"))
            .args(arguments)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().unwrap();
        Self { name, url, _child: child }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// What it counted.
    pub(super) async fn count(&self) -> Value {
        let answer = reqwest::get(format!("{}/", self.url)).await.unwrap().text().await.unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

/// A job in a process of its own.
pub(super) struct Worker {
    pub(super) name: String,
    /// Of its machine; none if it asks sidecars elsewhere.
    pub(super) sidecar: Option<usize>,
    folder: tempfile::TempDir,
    environment: BTreeMap<&'static str, String>,
    child: Child,
    stops: Vec<(u64, u64)>,
}

impl Worker {
    pub(super) fn start(
        index: usize,
        sidecar: Option<usize>,
        endpoint: &str,
        resources: &str,
        locks: &[&str],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log").to_str().unwrap().to_owned();
        let environment = BTreeMap::from([
            ("LEASEHOLD_ENDPOINT", endpoint.to_owned()),
            ("WORKER_SEED", index.to_string()),
            ("WORKER_LOG", log),
            ("WORKER_LOCKS", locks.join(",")),
            ("WORKER_RESOURCES", resources.to_owned()),
            ("WORKER_WORK_MS", WORK.as_millis().to_string()),
        ]);
        let child = spawn(folder.path(), &environment);
        let name = format!("worker {index}");
        Self { name, sidecar, folder, environment, child, stops: Vec::new() }
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// How it is, for a storm that does not end well.
    pub(super) fn story(&self) -> String {
        let complaint =
            std::fs::read_to_string(self.folder.path().join("complaint")).unwrap_or_default();
        let log = self.log();
        let last: Vec<&str> = log.lines().rev().take(3).collect();
        format!("{}: {complaint}{}\n", self.name, last.join("\n"))
    }

    /// Whether it is between a look and a write that nothing will keep it from.
    pub(super) fn is_deaf_at_work(&self) -> bool {
        self.log().lines().last().is_some_and(|line| line.contains("\"deaf\":true"))
    }

    /// Whether it has just looked, and believed.
    pub(super) fn is_at_work(&self) -> bool {
        self.log().lines().last().is_some_and(|line| {
            line.contains("\"event\":\"look\"") && line.contains("\"valid\":true")
        })
    }

    pub(super) async fn stop(&mut self) {
        self.stops.push((boot_nanos(), u64::MAX));
        process::stop(&self.child).await;
    }

    pub(super) fn go_on(&mut self) {
        process::go_on(&self.child);
        if let Some(stop) = self.stops.last_mut() {
            stop.1 = boot_nanos();
        }
    }

    /// Another process in its place; what the first one held, it holds no more.
    pub(super) fn kill_and_start(&mut self) {
        self.kill();
        self.child = spawn(self.folder.path(), &self.environment);
    }

    /// Kills it, and notes that its beliefs ended with that.
    fn kill(&mut self) {
        let at = boot_nanos();
        process::kill(&mut self.child);
        // The last line may have been cut off.
        let log = self.log();
        let whole = log.rfind('\n').map_or(0, |end| end + 1);
        let mut file = File::options().append(true).open(self.folder.path().join("log")).unwrap();
        file.set_len(whole.try_into().unwrap()).unwrap();
        writeln!(file, "{}", json!({"event": "killed", "at": at})).unwrap();
    }

    /// Ends it; when it was stopped.
    pub(super) fn end(&mut self) -> (String, Vec<(u64, u64)>) {
        let ended = self.child.try_wait().unwrap();
        let complaint = std::fs::read_to_string(self.folder.path().join("complaint")).unwrap();
        assert_eq!(
            (ended, complaint.as_str()),
            (None, ""),
            "{} had a problem of its own",
            self.name
        );
        self.kill();
        (self.name.clone(), std::mem::take(&mut self.stops))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, environment: &BTreeMap<&str, String>) -> Child {
    let complaint =
        File::options().create(true).append(true).open(folder.join("complaint")).unwrap();
    Command::new(example("storm_worker"))
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(complaint)
        .spawn()
        .unwrap()
}

/// As an operator does it. What comes of it depends on the rest of the storm.
pub(super) async fn break_lock(endpoint: &str, lock: &str) {
    let mut command = tokio::process::Command::new(program());
    command.args(["break", "--endpoint", endpoint, "--function", lock, "--reason", "storm"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut breaking = command.spawn().unwrap();
    tokio::spawn(async move {
        let _ = tokio::time::timeout(Duration::from_secs(30), breaking.wait()).await;
    });
}
