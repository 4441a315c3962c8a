//! `leasehold serve` with the embedded store, on TCP.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tonic::transport::Endpoint;

use crate::process::program;
use crate::sidecar::{Client, acquire, release};

pub(super) struct Leasehold {
    child: Child,
    endpoint: String,
}

/// Waits for a lock that is held, as etcd's clients do.
#[derive(Clone)]
pub(super) struct LeaseholdClient(Client);

impl Leasehold {
    /// Starts it with its data in `folder`, for as many locks as come, and otherwise with its defaults: with
    /// its page, its metrics and its log.
    pub(super) async fn start(folder: &Path) -> Self {
        let database = folder.join("leasehold.db");
        let mut child = Command::new(program())
            .args(["serve", "--set", "listen.tcp=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0"])
            .args(["--set", &format!("store.embedded.path={}", database.display())])
            .args(["--set", "store.embedded.max_locks=1000000"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let endpoint = loop {
            let line = log.next().unwrap().unwrap();
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if let Some(endpoint) = line.get("endpoints") {
                break endpoint.as_str().unwrap().to_owned();
            }
        };
        // Somebody has to read what it goes on to write.
        std::thread::spawn(move || log.for_each(drop));
        Self { child, endpoint }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) async fn client(&self) -> LeaseholdClient {
        let endpoint = Endpoint::from_shared(self.endpoint.clone()).unwrap();
        LeaseholdClient(Client::new(endpoint.connect().await.unwrap()))
    }
}

impl Drop for Leasehold {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl LeaseholdClient {
    pub(super) async fn cycle(&mut self, lock: &str) {
        let grant = acquire(&mut self.0, lock, 30).await;
        release(&mut self.0, grant.lease_id).await;
    }
}
