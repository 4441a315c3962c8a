//! The page, as a person sees it: real sidecars, and a real browser that is driven by scripts.
//!
//! `LEASEHOLD_TEST_PAGE_PICTURES=docs/pictures` writes the pictures of docs/page.md there, too.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that fails says where, and what its script has said"
)]

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use futures_util::{StreamExt as _, stream};
use leasehold_client::testing::Sidecar;
use leasehold_client::{LeaseSpec, Outcome};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn install(tool: &str, part: Option<&str>) {
    let tool = root().join("tests/tools").join(tool);
    let installed = Command::new("sh").arg(&tool).args(part).status().unwrap();
    assert!(installed.success(), "{} has failed", tool.display());
}

/// Runs a script that drives a browser to its end; installs what it needs if that is missing.
fn look(script: &str, argument: Option<OsString>) {
    install("system.sh", Some("page"));
    run(script, argument);
}

/// Runs a script of this folder to its end.
fn run(script: &str, argument: Option<OsString>) {
    install("install.sh", None);
    let mut command = Command::new("node");
    command.arg(root().join("tests/page").join(script)).args(argument);
    // What is set for somebody's own sidecar is nothing to these.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEASEHOLD_")) {
        command.env_remove(name);
    }
    command.env("LEASEHOLD_TEST_PROGRAM", env!("CARGO_BIN_EXE_leasehold"));
    let ended = command.env("LEASEHOLD_TEST_ROOT", root()).output().unwrap();
    let said =
        [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    println!("{}", said.join("\n"));
    assert!(ended.status.success(), "{script} has ended with {}", ended.status);
}

#[test]
fn the_page_shows_what_a_sidecar_says_and_what_others_wrote_is_text() {
    run("script.mjs", None);
}

#[test]
#[ignore = "needs a browser: make test-system"]
fn a_person_sees_locks_acquired_refused_at_risk_lost_and_broken_and_occurrences_missed() {
    let pictures = std::env::var_os("LEASEHOLD_TEST_PAGE_PICTURES");
    look("look.mjs", pictures.map(|folder| root().join(folder).into()));
}

#[test]
#[ignore = "needs a browser: make test-system"]
fn a_person_can_use_it_by_keyboard_and_when_something_is_wrong() {
    look("steady.mjs", None);
}

#[test]
#[ignore = "needs a browser: make test-system"]
fn what_needs_a_look_comes_first_of_500_locks_and_an_outage_looks_like_one() {
    look("clear.mjs", None);
}

/// Locks of the large page, and how many of them are held while somebody looks.
const LOCKS: usize = 10_000;
const HELD: usize = 1_000;

#[tokio::test]
#[ignore = "needs a browser: make test-system"]
async fn ten_thousand_locks_are_all_there_and_the_first_of_them_are_shown() {
    let sidecar = Sidecar::builder()
        .program(env!("CARGO_BIN_EXE_leasehold"))
        .setting("admin.listen", "127.0.0.1:0")
        .setting("limits.holds", "20000")
        .setting("log.format", "json")
        .start()
        .await
        .unwrap();
    let client = sidecar.client().await.unwrap();
    let acquired = stream::iter(0..LOCKS).map(async |number| {
        let spec = LeaseSpec::new(format!("job-{number:05}"));
        let Outcome::Granted(grant) = client.acquire(spec).await.unwrap() else {
            panic!("job-{number} is held by somebody else");
        };
        if number >= HELD {
            client.release(grant.lease_id).await.unwrap();
        }
    });
    acquired.buffer_unordered(64).collect::<()>().await;
    let log = sidecar.log();
    let page = log.split("\"admin\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let page = OsString::from(page);
    tokio::task::spawn_blocking(|| look("many.mjs", Some(page))).await.unwrap();
    sidecar.stop().await.unwrap();
}
