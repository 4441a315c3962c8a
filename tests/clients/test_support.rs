//! The clients' test support, each as its language's own tests use it, with the program that was built here.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::clients::cargo::cargos_variables;

/// How the tests are run, in the client's folder; they are those of the sidecar that test support starts, and
/// the README's.
fn words(language: &str) -> &'static [&'static str] {
    match language {
        "go" => &["go", "test", "-count=1", "./leaseholdtest", "./samples/loss"],
        "java" => &["./maven", "--quiet", "test", "-Dtest=SidecarTest,LossSample"],
        "python" => &[".venv/bin/pytest", "--quiet", "testing", "samples/loss_test.py"],
        "typescript" => &[
            "node",
            "--test",
            "dist/test-support/ends.test.js",
            "dist/test-support/sidecar.test.js",
            "dist/samples/loss.test.js",
        ],
        other => panic!("how are the tests of {other} run?"),
    }
}

async fn passes(language: &'static str) {
    crate::clients::samples::prepare(language).await;
    let (program, arguments) = words(language).split_first().unwrap();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(language);
    let mut command = match program.strip_prefix('.') {
        Some(_) => Command::new(client.join(program)),
        None => Command::new(program),
    };
    cargos_variables().iter().for_each(|name| {
        command.env_remove(name);
    });
    command.args(arguments).current_dir(client).stdin(Stdio::null()).kill_on_drop(true);
    command.env("LEASEHOLD_PROGRAM", env!("CARGO_BIN_EXE_leasehold"));
    let output = command.output().await.unwrap();
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{language}:\n{said}\n{complaint}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_lose_break_and_delay_holds_in_every_language() {
    // Rust's are in test_support_rust.rs.
    for language in crate::clients::languages().into_iter().filter(|language| *language != "rust") {
        passes(language).await;
    }
}
