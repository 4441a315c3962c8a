//! The samples `hold`, `contend`, `run` and `leader`, the same in each language, and the demonstration of
//! checkpoints.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use crate::clients::cargo::cargos_variables;
use crate::clients::sidecar::Sidecar;
use crate::signals::undo_ignored;

/// How a sample is run: a program and its first arguments, in the client's folder.
pub(crate) fn sample(language: &str, name: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let client = root.join("clients").join(language);
    let examples = PathBuf::from(env!("CARGO_BIN_EXE_leasehold")).with_file_name("examples");
    let words: Vec<String> = match language {
        "go" => vec![client.join(".tools/samples").join(name).display().to_string()],
        "java" => vec![client.join("samples").join(name).display().to_string()],
        "python" => vec![
            client.join(".venv/bin/python").display().to_string(),
            format!("samples/{name}.py"),
        ],
        "rust" => vec![examples.join(name).display().to_string()],
        "typescript" => vec!["node".to_owned(), format!("dist/samples/{name}.js")],
        other => panic!("how are {other}'s samples run?"),
    };
    undo_ignored();
    let (program, first) = words.split_first().unwrap();
    let mut command = Command::new(program);
    cargos_variables().iter().for_each(|name| {
        command.env_remove(name);
    });
    // Python keeps back what it prints to a pipe.
    command.env("PYTHONUNBUFFERED", "1");
    command.args(first).current_dir(client).stdin(Stdio::null()).process_group(0);
    command.kill_on_drop(true);
    command
}

/// Builds what samples need.
pub(crate) async fn prepare(language: &'static str) {
    crate::clients::driver::prepare(language).await;
    if language == "go" {
        let mut build = Command::new("go");
        build.args(["build", "-o", ".tools/samples/", "./samples/..."]);
        build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/go"));
        assert!(build.status().await.unwrap().success(), "the samples in Go cannot be built");
    }
}

/// Runs a sample to its end; its exit code.
async fn code(language: &str, endpoint: &str, name: &str, arguments: &[&str]) -> i32 {
    let mut command = sample(language, name);
    command.args(arguments).env("LEASEHOLD_ENDPOINT", endpoint);
    let output = command.output().await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    output.status.code().unwrap_or_else(|| panic!("{language} {name}: {complaint}"))
}

async fn all(language: &'static str) {
    let sidecar = Sidecar::start().await;
    let endpoint = sidecar.endpoint();
    prepare(language).await;

    let passed_on = ["job", "--", "sh", "-c", "test -n \"$LEASEHOLD_FENCING_TOKEN\" && exit 7"];
    assert_eq!(code(language, &endpoint, "run", &passed_on).await, 7, "{language}");

    let mut holding = sample(language, "hold");
    holding.arg("job").env("LEASEHOLD_ENDPOINT", &endpoint).stdout(Stdio::piped());
    let mut holding = holding.spawn().unwrap();
    let group = Pid::from_raw(i32::try_from(holding.id().unwrap()).unwrap()).unwrap();
    let mut lines = BufReader::new(holding.stdout.take().unwrap()).lines();
    let mut said = String::new();
    while !said.contains("token") {
        let line = lines.next_line().await.unwrap();
        said = line.unwrap_or_else(|| panic!("{language} hold ended: {said}"));
    }
    assert_eq!(code(language, &endpoint, "run", &["job", "--", "true"]).await, 75, "{language}");
    kill_process_group(group, Signal::INT).unwrap();
    while lines.next_line().await.unwrap().is_some() {}
    holding.wait().await.unwrap();
    assert_eq!(code(language, &endpoint, "run", &["job", "--", "true"]).await, 0, "{language}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counter").display().to_string();
    for _ in 0..2 {
        assert_eq!(code(language, &endpoint, "contend", &[&file, "5"]).await, 0, "{language}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), "10", "{language}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_samples_do_the_same_in_every_language() {
    let running: Vec<_> = crate::clients::languages()
        .into_iter()
        .map(|language| tokio::spawn(all(language)))
        .collect();
    for language in running {
        language.await.unwrap();
    }
}

/// What follows on `word` in the next line that has it, up to what is no digit.
pub(crate) async fn number_after(lines: &mut Lines<BufReader<ChildStdout>>, word: &str) -> u64 {
    let mut said = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some((_, rest)) = line.split_once(word) {
            let digits = rest.trim().split(|other: char| !other.is_ascii_digit()).next();
            return digits.unwrap().parse().unwrap();
        }
        said.push(line);
    }
    panic!("it ended without {word:?}: {said:?}")
}

async fn leads(language: &'static str) {
    let sidecar = Sidecar::start().await;
    prepare(language).await;
    let mut leading = sample(language, "leader");
    leading.arg("leads").env("LEASEHOLD_ENDPOINT", sidecar.endpoint()).stdout(Stdio::piped());
    let mut leading = leading.spawn().unwrap();
    let group = Pid::from_raw(i32::try_from(leading.id().unwrap()).unwrap()).unwrap();
    let mut lines = BufReader::new(leading.stdout.take().unwrap()).lines();
    let first = number_after(&mut lines, "token").await;
    let mut breaking = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    breaking.args(["break", "-f", "leads", "--reason", "test", "--now", "--yes"]);
    breaking.env("LEASEHOLD_ENDPOINT", sidecar.endpoint()).stdout(Stdio::null());
    assert!(breaking.status().await.unwrap().success(), "{language}");
    // In Rust the work is dropped, and says no more.
    if language != "rust" {
        let ended = lines.next_line().await.unwrap().unwrap_or_default();
        assert!(ended.contains("not leading any more"), "{language}: {ended}");
    }
    let second = number_after(&mut lines, "token").await;
    assert!(second > first, "{language}: {first}, {second}");
    kill_process_group(group, Signal::INT).unwrap();
    while lines.next_line().await.unwrap().is_some() {}
    leading.wait().await.unwrap();
    let mut free = sample(language, "run");
    free.args(["leads", "--", "true"]).env("LEASEHOLD_ENDPOINT", sidecar.endpoint());
    assert!(free.status().await.unwrap().success(), "{language}: Ctrl-C releases");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_loses_its_lock_takes_it_again_in_every_language() {
    let running: Vec<_> = crate::clients::languages()
        .into_iter()
        .map(|language| tokio::spawn(leads(language)))
        .collect();
    for language in running {
        language.await.unwrap();
    }
}

/// That the next one starts within two seconds is for those who look: here it may take as long as a busy
/// machine needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s22_s25_the_demonstration_of_checkpoints_is_as_it_says() {
    for language in ["go", "python"] {
        if !crate::clients::languages().contains(&language) {
            return;
        }
        prepare(language).await;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = Command::new(root.join("tests/tools/install.sh")).status().await.unwrap();
    assert!(installed.success(), "the storage emulator cannot be installed");
    let mut demonstration = Command::new("sh");
    demonstration.arg(root.join("tests/demo-checkpoint.sh")).kill_on_drop(true);
    demonstration.env("LEASEHOLD", env!("CARGO_BIN_EXE_leasehold")).env("LIMIT", "60000");
    let output = demonstration.output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{complaint}");
    for (next, holder) in [("Go", "Python"), ("Python", "Go")] {
        let started = format!("the job in {next} started from what the one in {holder} saved");
        assert!(told.contains(&started), "{told}");
    }
}
