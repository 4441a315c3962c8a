//! Logs that nobody reads: a pipe that stays full, and a full disk.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _};

use leasehold_client::{Client, LeaseSpec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::cli::rig::{Ended, GENEROUS, Home, Sidecar, eventually};

/// Grants and releases that log more than a pipe has room for: 64 KiB, at some 200 bytes a line.
const MANY: usize = 300;

/// A pipe that has no room left, as its reader has stalled.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'\n'; 4_096]).is_ok() {}
    while writer.write(b"\n").is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

fn has_room(pipe: &PipeWriter) -> bool {
    let mut asked = [PollFd::new(pipe, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default())).unwrap() > 0
}

/// Takes and releases `rounds` locks.
async fn use_locks(sidecar: &Sidecar, rounds: usize) {
    let client = Client::connect(sidecar.home.endpoint()).await.unwrap();
    for round in 0..rounds {
        let spec = LeaseSpec::new(format!("job-{}", round % 10)).with_holder("x".repeat(200));
        let guard = client.hold(spec).await.unwrap().granted().unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_neither_the_sidecar_nor_its_end() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let settings = ["drain.period=1s"];
    let same = writer.try_clone().unwrap();
    let mut sidecar = Sidecar::start_with_stderr(Home::new(), &settings, writer.into()).await;
    timeout(GENEROUS, use_locks(&sidecar, MANY)).await.expect("locks are granted");
    eventually("the pipe is full", || async { (!has_room(&same)).then_some(()) }).await;
    drop(same);
    timeout(GENEROUS, use_locks(&sidecar, 10)).await.expect("locks are granted");
    assert_eq!(sidecar.leasehold(&["probe"]).await.code, 0);
    sidecar.signal(Signal::TERM);
    let status = timeout(GENEROUS, sidecar.process.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
    let mut log = String::new();
    reader.read_to_string(&mut log).unwrap();
    assert!(log.contains("\"lock granted\""), "{log}");
}

#[tokio::test]
async fn a_log_that_is_read_again_has_every_line_and_the_last() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut sidecar = Sidecar::start_with_stderr(Home::new(), &[], writer.into()).await;
    timeout(GENEROUS, use_locks(&sidecar, MANY)).await.expect("locks are granted");
    let reading = std::thread::spawn(move || {
        let mut log = String::new();
        reader.read_to_string(&mut log).unwrap();
        log
    });
    sidecar.signal(Signal::TERM);
    let status = timeout(GENEROUS, sidecar.process.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
    let log = reading.join().unwrap();
    let messages: Vec<String> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["message"].as_str().unwrap().to_owned())
        .collect();
    let count = |wanted: &str| messages.iter().filter(|message| *message == wanted).count();
    assert_eq!((count("lock granted"), count("lock released")), (MANY, MANY));
    assert_eq!(messages.last().unwrap(), "shut down");
}

#[tokio::test]
async fn lines_that_a_stalled_reader_left_no_room_for_are_counted_and_told() {
    let (reader, writer) = std::io::pipe().unwrap();
    let settings = ["admin.listen=127.0.0.1:0"];
    let sidecar = Sidecar::start_with_stderr(Home::new(), &settings, writer.into()).await;
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    let listening = lines.find(|line| line.contains("\"listening\"")).unwrap();
    let listening: serde_json::Value = serde_json::from_str(&listening).unwrap();
    let admin = listening["admin"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let dropped = eventually("lines are dropped", || async {
        use_locks(&sidecar, 100).await;
        let metrics = crate::cli::serve::get(&admin, "/metrics").await;
        let mut values =
            metrics.lines().filter_map(|l| l.strip_prefix("leasehold_log_lines_dropped_total "));
        values.next().unwrap().parse::<f64>().ok().filter(|count| *count > 0.0)
    })
    .await;
    let told = lines.find(|line| line.contains("log lines were dropped")).unwrap();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(told["lines"].as_f64().unwrap() >= dropped, "{told}");
}

#[tokio::test]
async fn a_full_disk_for_logs_harms_nobody() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut sidecar = Sidecar::start_with_stderr(Home::new(), &[], full.into()).await;
    timeout(GENEROUS, use_locks(&sidecar, 5)).await.expect("locks are granted");
    sidecar.signal(Signal::TERM);
    let status = timeout(GENEROUS, sidecar.process.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn s13_run_stops_its_command_though_nobody_reads_what_it_says() {
    let mut sidecar = Sidecar::start(&["drain.period=5s"]).await;
    let (reader, writer) = full_pipe();
    let script = "echo $$ > started; exec sleep 1000";
    let mut command = sidecar.home.command(&["run", "-f", "job", "--", "sh", "-c", script]);
    let run = command.stderr(writer).spawn().unwrap();
    // The writing end must be the child's alone.
    drop(command);
    let id = sidecar.home.file("started").await;
    sidecar.signal(Signal::TERM);
    let ended = Ended::of_child(run).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(!crate::cli::rig::runs(&id), "the command still runs");
    sidecar.process.wait().await.unwrap();
    drop(reader);
}
