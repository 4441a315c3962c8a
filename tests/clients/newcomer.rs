//! Packages as a newcomer has them: built, installed into an empty project, and used in a few lines.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::clients::cargo::cargos_variables;
use crate::clients::sidecar::Sidecar;

/// Runs the newcomer's script; the fencing token of the lock that it held.
fn come(language: &str, endpoint: &str) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/newcomer");
    let mut command = Command::new(scripts.join(format!("{language}.sh")));
    cargos_variables().iter().for_each(|name| {
        command.env_remove(name);
    });
    command.arg(folder.path()).env("LEASEHOLD_ENDPOINT", endpoint).stdin(Stdio::null());
    let output = command.output().unwrap();
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{language}: {said}\n{complaint}");
    let token = said.trim().rsplit(' ').next().unwrap();
    token.parse().unwrap_or_else(|_| panic!("{language} held nothing: {said}\n{complaint}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s5_a_newcomer_in_any_language_holds_a_lock() {
    let sidecar = Sidecar::start().await;
    let mut newest = 0;
    for language in crate::clients::languages() {
        // Packages are made from the folders that drivers run in.
        crate::clients::driver::prepare(language).await;
        let endpoint = sidecar.endpoint();
        let token = tokio::task::spawn_blocking(move || come(language, &endpoint)).await.unwrap();
        assert!(token > newest, "{language}: {token} after {newest}");
        newest = token;
    }
}
