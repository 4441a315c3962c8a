//! How many holds a second each client makes, beside its own raw generated stub in the same run:
//! `cargo bench --bench clients`. Each client's driver (`clients/*/driver`) measures both in turns.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that cannot run says where"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const LANGUAGES: [&str; 5] = ["go", "java", "python", "rust", "typescript"];
/// Holds of each kind.
const TIMES: u32 = 1_000;

/// Ends with the benchmark.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sidecar(folder: &Path) -> (Process, String) {
    let at = |name: &str| folder.join(name).display().to_string();
    let endpoint = format!("unix://{}", at("leasehold.sock"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.args(["serve", "--store", "memory", "--set", "listen.tcp=", "--set", "admin.listen="]);
    command.args(["--set", &format!("listen.unix={}", at("leasehold.sock"))]);
    let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut probe = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    probe.args(["probe", "--wait", "30s", "--endpoint", &endpoint]).stdout(Stdio::null());
    assert!(probe.status().unwrap().success(), "the sidecar is not up");
    (Process(process), endpoint)
}

/// Holds a second through the client, and through the stub.
fn measure(language: &str, endpoint: &str) -> (f64, f64) {
    let driver =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(language).join("driver");
    let mut command = Command::new(driver);
    command.env("LEASEHOLD_ENDPOINT", endpoint).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let mut commands = process.0.stdin.take().unwrap();
    let function = format!("measure-{language}");
    let mut events = BufReader::new(process.0.stdout.take().unwrap()).lines();
    // Once to warm up: compilers of the run time, connections.
    let mut measured = serde_json::Value::Null;
    for _ in 0..2 {
        let line =
            serde_json::json!({ "id": "m", "do": "measure", "function": function, "times": TIMES });
        writeln!(commands, "{line}").unwrap();
        measured = loop {
            let event: serde_json::Value =
                serde_json::from_str(&events.next().unwrap().unwrap()).unwrap();
            assert!(event.get("event").unwrap() != "error", "{language}: {event}");
            if event.get("event").unwrap() == "measured" {
                break event;
            }
        };
    }
    let number = |name: &str| measured.get(name).unwrap().as_f64().unwrap();
    (number("client_per_second"), number("stub_per_second"))
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let (_sidecar, endpoint) = sidecar(folder.path());
    println!("{:<12}{:>12}{:>12}{:>9}", "", "client/s", "stub/s", "ratio");
    for language in LANGUAGES {
        let (client, stub) = measure(language, &endpoint);
        println!("{language:<12}{client:>12.0}{stub:>12.0}{:>9.2}", client / stub);
    }
}
