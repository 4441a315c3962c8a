//! The sidecar under load: a process of its own, looked at from outside.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use leasehold_client::Client;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use crate::cli::connection::ConfigArgs;
use crate::cli::exit::UnavailableError;

/// What a process has and does at one moment.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(super) struct Sample {
    /// The memory that is resident, in KiB.
    pub(super) resident_kib: u64,
    /// Open files and sockets.
    pub(super) files: u64,
    /// Tasks that have not ended.
    pub(super) tasks: u64,
    pub(super) holds: u64,
    pub(super) waiters: u64,
    pub(super) lock_paths: u64,
}

/// A `leasehold serve` in a folder of its own.
#[derive(Debug)]
pub(super) struct Sidecar {
    child: Child,
    endpoint: String,
    admin: String,
    http: reqwest::Client,
    /// Deleted at the end.
    folder: PathBuf,
}

/// How long it may take until nothing is left of the load.
const REST: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);
const START: Duration = Duration::from_secs(30);

impl Sidecar {
    pub(super) async fn start(config: &ConfigArgs) -> anyhow::Result<Self> {
        let name = format!("leasehold-bench-{}", uuid::Uuid::new_v4());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let socket = folder.join("leasehold.sock");
        let mut command =
            Command::new(std::env::current_exe().context("the path of this program is unknown")?);
        command.arg("serve").args(config.arguments());
        if config.is_empty() {
            let file = folder.join("locks.db");
            command.args(["--set", &format!("store.embedded.path={}", file.display())]);
        }
        for setting in [
            &format!("listen.unix={}", socket.display()),
            "listen.tcp=",
            "admin.listen=127.0.0.1:0",
            "log.format=json",
            "log.filter=warn,leasehold::cli=info",
        ] {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child =
            command.kill_on_drop(true).spawn().context("cannot start leasehold serve")?;
        let Some(stderr) = child.stderr.take() else { bail!("the sidecar has no output") };
        let mut lines = BufReader::new(stderr).lines();
        let listening = tokio::time::timeout(START, admin_address(&mut lines)).await;
        let admin = listening.context("the sidecar did not start in time")??;
        // Read on, or the sidecar would stand still when the pipe is full.
        tokio::spawn(async move { while let Ok(Some(_line)) = lines.next_line().await {} });
        let endpoint = format!("unix://{}", socket.display());
        Ok(Self { child, endpoint, admin, http: reqwest::Client::new(), folder })
    }

    /// So many connections.
    pub(super) async fn connect(&self, connections: u32) -> anyhow::Result<Vec<Client>> {
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(Client::connect(&self.endpoint).await?);
        }
        Ok(clients)
    }

    pub(super) async fn sample(&mut self) -> anyhow::Result<Sample> {
        let gone = || UnavailableError("the sidecar ended under the load".to_owned());
        let process = self.child.id().ok_or_else(gone)?;
        let status =
            std::fs::read_to_string(format!("/proc/{process}/status")).map_err(|_| gone())?;
        let answer = self.http.get(format!("{}/metrics", self.admin)).send().await?;
        let metrics = answer.text().await?;
        // After it, as the connection by which it is asked is one of them, and stays.
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).map_err(|_| gone())?.count();
        let gauge = |name: &str| value(&metrics, name, " ").unwrap_or_default();
        Ok(Sample {
            resident_kib: value(&status, "VmRSS", ":").unwrap_or_default(),
            files: u64::try_from(files).unwrap_or(u64::MAX),
            tasks: gauge("leasehold_tasks"),
            holds: gauge("leasehold_holds"),
            waiters: gauge("leasehold_waiters"),
            lock_paths: gauge("leasehold_lock_paths"),
        })
    }

    /// Waits, for a while, until nothing is held or waited for and no more tasks and files are left than in
    /// `idle`; how it is then.
    pub(super) async fn rest(&mut self, idle: &Sample) -> anyhow::Result<Sample> {
        let mut ticks = tokio::time::interval(LOOK);
        let resting = async {
            loop {
                ticks.tick().await;
                let sample = self.sample().await?;
                let is_at_rest = sample.lock_paths == 0
                    && sample.tasks <= idle.tasks
                    && sample.files <= idle.files;
                if is_at_rest {
                    return Ok(sample);
                }
            }
        };
        match tokio::time::timeout(REST, resting).await {
            Ok(sample) => sample,
            Err(_elapsed) => self.sample().await,
        }
    }

    /// Ends the sidecar, and waits until it has gone.
    pub(super) async fn end(mut self) {
        // It has nothing to lose, and ends with this process in any case.
        let _ = self.child.kill().await;
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // What cannot be deleted is left in the folder of temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// From the line that says where it listens.
async fn admin_address(lines: &mut Lines<BufReader<ChildStderr>>) -> anyhow::Result<String> {
    let mut all = String::new();
    while let Some(line) = lines.next_line().await? {
        let fields: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if fields.get("message").and_then(serde_json::Value::as_str) == Some("listening")
            && let Some(admin) = fields.get("admin").and_then(serde_json::Value::as_str)
        {
            return Ok(admin.to_owned());
        }
        all.push_str(&line);
        all.push('\n');
    }
    bail!("the sidecar did not start:\n{all}")
}

/// The number of the line that begins with `name` and `mark`.
fn value(text: &str, name: &str, mark: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(mark))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_the_kernel_and_the_sidecar_write() {
        assert_eq!(value("Name:\tx\nVmRSS:\t  9284 kB\n", "VmRSS", ":"), Some(9_284));
        let metrics =
            "# TYPE leasehold_holds gauge\nleasehold_holds_at_risk 1\nleasehold_holds 7\n";
        assert_eq!(value(metrics, "leasehold_holds", " "), Some(7));
        assert_eq!(value(metrics, "leasehold_waiters", " "), None);
    }
}
