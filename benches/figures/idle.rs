//! The program that does nothing yet.

use std::time::Duration;

use leasehold_client::proto::{LockKey, ResolvePathRequest};

use crate::figure::{Figures, Stopwatch, median};
use crate::process::{program, resident_mib, serve};
use crate::sidecar::{Client, connect, runtime};

const STARTS: usize = 11;

pub(crate) fn measure(figures: &mut Figures) {
    let size = std::fs::metadata(program()).unwrap().len() as f64 / 1_048_576.0;
    figures.at_most("Program, stripped", size, 20.0, " MiB");
    let mut starts = Vec::new();
    let mut resident: f64 = 0.0;
    for _ in 0..STARTS {
        let (start, memory) = runtime().block_on(start());
        starts.push(start);
        resident = resident.max(memory);
    }
    figures.at_most("Idle `serve`, embedded store: resident", resident, 16.0, " MiB");
    let name = "`serve`, embedded store: start to the first answered rpc";
    figures.at_most(name, median(starts) * 1_000.0, 30.0, " ms");
}

async fn start() -> (Duration, f64) {
    let folder = tempfile::tempdir().unwrap();
    let watch = Stopwatch::new();
    let started = watch.now();
    let (mut child, socket) = serve(folder.path()).await;
    let key = LockKey { function: "first".to_owned(), ..LockKey::default() };
    let mut client = Client::new(connect(&socket).await);
    client.resolve_path(ResolvePathRequest { key: Some(key) }).await.unwrap();
    let time = watch.since(started);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let memory = resident_mib(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    (time, memory)
}
