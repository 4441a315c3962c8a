//! `every` and `schedule`: runs of occurrences, and what becomes of them.

use std::collections::BTreeSet;
use std::io::Read as _;

use rustix::process::Signal;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::cli::rig::{Ended, Home, Sidecar, eventually, signal_to};

const EACH_10_S: &str = "*/10 * * * * *";

/// `every` on the store of this home, with a shell script.
fn direct(home: &Home, expression: &str, flags: &[&str], script: &str) -> Command {
    let words = [&["every", expression], flags, &["--", "sh", "-c", script]].concat();
    home.direct_command(&words)
}

/// The same through the sidecar of this home.
fn through(home: &Home, expression: &str, flags: &[&str], script: &str) -> Child {
    let words = [&["every", expression], flags, &["--", "sh", "-c", script]].concat();
    home.command(&words).spawn().unwrap()
}

async fn shown(home: &Home, function: &str) -> Value {
    let shown = home.directly_in("schedule", &["show", "-f", function, "--output", "json"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    shown.json()
}

/// A file's lines, once there are so many.
async fn lines(home: &Home, name: &str, count: usize) -> Vec<String> {
    let path = home.path(name);
    eventually(&format!("{name} has {count} lines"), || async {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines.len() >= count && text.ends_with('\n')).then_some(lines)
    })
    .await
}

#[tokio::test]
async fn t11_the_exit_code_is_recorded_as_the_outcome() {
    let home = Home::new();
    let kinds = [
        (0, "succeeded", false),
        (75, "returned", true),
        (9, "failed_final", false),
        (3, "failed", true),
    ];
    let names = kinds.map(|(code, ..)| format!("job-{code}"));
    let started: Vec<Child> = kinds
        .iter()
        .zip(&names)
        .map(|((code, ..), name)| {
            let flags = ["-f", name, "--once", "--final-exit-code", "9"];
            direct(&home, EACH_10_S, &flags, &format!("exit {code}")).spawn().unwrap()
        })
        .collect();
    for (((code, outcome, is_repeated), name), child) in kinds.iter().zip(&names).zip(started) {
        let ended = Ended::of_child(child).await;
        assert_eq!(ended.code, *code, "{ended:?}");
        let schedule = shown(&home, name).await;
        let state = &schedule["state"];
        assert_eq!(state["ended"][0]["outcome"], *outcome, "{schedule:#}");
        assert!(state["run"].is_null(), "{schedule:#}");
        let watermark = state["watermark"] == state["ended"][0]["scheduled_at"];
        assert_eq!(watermark, !is_repeated, "what is final moves the watermark: {schedule:#}");
        assert!(ended.stderr.contains("attempt 1 of 3"), "{ended:?}");
        assert!(ended.stderr.contains(&outcome.to_ascii_uppercase()), "{ended:?}");
    }
}

#[tokio::test]
async fn a_command_is_told_what_its_run_is_of() {
    let home = Home::new();
    // Another command of ours takes none of the variables for a setting.
    let another = format!("{} ls --store memory > listed", env!("CARGO_BIN_EXE_leasehold"));
    let script = "env | grep ^LEASEHOLD_ > told; cp told environment; echo page-7 > cursor";
    let script = &format!("{another} && {script}");
    let flags = ["-f", "job", "--once", "--checkpoint", "cursor", "--timeout", "30s"];
    let ended = Ended::of(direct(&home, EACH_10_S, &flags, script)).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = home.file("environment").await;
    let told = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("LEASEHOLD_{name}=")));
        line.unwrap_or_else(|| panic!("{name} is not in {text}")).to_owned()
    };
    let scheduled_at = told("SCHEDULED_AT");
    assert!(scheduled_at.ends_with("0Z"), "{scheduled_at}");
    assert_eq!((told("ATTEMPT").as_str(), told("MISSED").as_str()), ("1", "0"));
    assert!(told("LATENESS").parse::<u64>().unwrap() < 10);
    assert!(told("DEADLINE").ends_with('Z') && !told("RUN_ID").is_empty());
    assert!(told("HOLD_ENDS").parse::<u64>().is_ok());
    assert!(!text.contains("LEASEHOLD_REQUEST_ID"), "{text}");
    let schedule = shown(&home, "job").await;
    let ended = &schedule["state"]["ended"][0];
    assert_eq!(ended["scheduled_at"], scheduled_at);
    assert_eq!(ended["fencing_token"].to_string(), told("FENCING_TOKEN"));
    assert_eq!(schedule["lock"]["checkpoint_size"], 7, "{schedule:#}");
}

#[tokio::test]
async fn t2_each_occurrence_runs_in_one_of_several_processes_and_sidecars() {
    let sidecar = Sidecar::start(&[]).await;
    let home = &sidecar.home;
    let (flags, script) = (["-f", "job"], "echo $LEASEHOLD_SCHEDULED_AT >> ran");
    // Of the sidecar's host type, so that it is the same schedule.
    let same = ["-f", "job", "--set", "host_id.host_type=test"];
    let mut all = vec![direct(home, EACH_10_S, &same, script).spawn().unwrap()];
    all.extend((0..2).map(|_| through(home, EACH_10_S, &flags, script)));
    let ran = lines(home, "ran", 3).await;
    let distinct: BTreeSet<&String> = ran.iter().collect();
    assert_eq!(distinct.len(), ran.len(), "{ran:?}");
    for child in all {
        signal_to(&child, Signal::TERM);
        let ended = Ended::of_child(child).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.stderr.contains("every 10 seconds"), "{ended:?}");
    }
}

#[tokio::test]
async fn t2_a_run_whose_process_was_killed_is_run_again_by_another() {
    let sidecar = Sidecar::start(&[]).await;
    let home = &sidecar.home;
    let script = "echo $LEASEHOLD_ATTEMPT $LEASEHOLD_SCHEDULED_AT $PPID >> ran
        [ $LEASEHOLD_ATTEMPT = 2 ] || exec sleep 1000";
    let flags = ["-f", "job", "--lease-duration", "15s", "--backoff", "1s"];
    let mut all: Vec<Child> =
        (0..2).map(|_| through(home, "*/30 * * * * *", &flags, script)).collect();
    let first = lines(home, "ran", 1).await[0].clone();
    let words: Vec<&str> = first.split(' ').collect();
    assert_eq!(words[0], "1");
    let killed: u32 = words[2].parse().unwrap();
    let place = all.iter().position(|child| child.id() == Some(killed)).expect("one of ours");
    all.remove(place).kill().await.unwrap();
    let second = lines(home, "ran", 2).await[1].clone();
    let other = all[0].id().unwrap();
    assert_eq!(second, format!("2 {} {other}", words[1]));
}

#[tokio::test]
async fn t20_a_run_that_is_told_to_end_is_returned() {
    let home = Home::new();
    let script = "echo begun > begun; exec sleep 1000";
    let child = direct(&home, EACH_10_S, &["-f", "job"], script).spawn().unwrap();
    home.file("begun").await;
    signal_to(&child, Signal::TERM);
    let ended = Ended::of_child(child).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("RETURNED"), "{ended:?}");
    let schedule = shown(&home, "job").await;
    assert_eq!(schedule["state"]["ended"][0]["outcome"], "returned", "{schedule:#}");
}

#[tokio::test]
async fn t12_a_run_that_lasts_too_long_is_stopped_and_not_tried_again() {
    let home = Home::new();
    let flags = ["-f", "job", "--once", "--timeout", "4s"];
    let ended = Ended::of(direct(&home, EACH_10_S, &flags, "exec sleep 1000")).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("its time is over"), "{ended:?}");
    assert!(ended.stderr.contains("FAILED_FINAL"), "{ended:?}");
}

#[tokio::test]
async fn t18_people_pause_a_schedule_and_run_it_by_hand() {
    let sidecar = Sidecar::start(&["admin.allow_schedule_changes=true"]).await;
    let home = &sidecar.home;
    let unknown = sidecar.leasehold(&["schedule", "show", "-f", "job"]).await;
    assert_eq!(unknown.code, 64, "{unknown:?}");
    let script = "echo $LEASEHOLD_REQUEST_ID >> ran";
    let every = through(home, "@yearly", &["-f", "job"], script);
    eventually("it is subscribed to", || async {
        (sidecar.leasehold(&["schedule", "show", "-f", "job"]).await.code == 0).then_some(())
    })
    .await;
    let listed = sidecar.leasehold(&["schedule", "ls"]).await;
    assert!(listed.stdout.starts_with("under leasehold/locks/"), "{listed:?}");
    assert!(
        listed.stdout.contains("\njob/~/FUNCTION  ") && listed.stdout.contains("waiting"),
        "{listed:?}"
    );
    assert!(listed.stdout.lines().all(|line| line.chars().count() <= 100), "{listed:?}");
    for _ in 0..2 {
        let words = ["schedule", "trigger", "-f", "job", "--request-id", "by-hand"];
        let triggered = sidecar.leasehold(&words).await;
        assert_eq!(triggered.code, 0, "{triggered:?}");
        assert!(triggered.stdout.contains("by-hand"), "{triggered:?}");
    }
    assert_eq!(lines(home, "ran", 1).await, ["by-hand"]);
    let paused = sidecar.leasehold(&["schedule", "pause", "-f", "job", "--output", "json"]).await;
    assert_eq!(paused.json()["schedule"]["paused"], true, "{paused:?}");
    let listed = sidecar.leasehold(&["schedule", "ls"]).await;
    assert!(listed.stdout.contains("paused"), "{listed:?}");
    let resumed = sidecar.leasehold(&["schedule", "resume", "-f", "job", "--output", "json"]).await;
    assert_eq!(resumed.json()["schedule"]["paused"], false, "{resumed:?}");
    signal_to(&every, Signal::TERM);
    let ended = Ended::of_child(every).await;
    assert!(ended.code == 0 && ended.stderr.contains("the schedule is paused"), "{ended:?}");
}

#[tokio::test]
async fn t25_what_is_due_and_has_nobody_is_said_and_can_be_removed() {
    let sidecar = Sidecar::start(&["admin.allow_schedule_changes=true"]).await;
    let every = through(&sidecar.home, "@yearly", &["-f", "job"], "true");
    eventually("it is subscribed to", || async {
        (sidecar.leasehold(&["schedule", "show", "-f", "job"]).await.code == 0).then_some(())
    })
    .await;
    let remove = ["schedule", "rm", "-f", "job", "--reason", "moved"];
    let refused = sidecar.leasehold(&remove).await;
    assert!(refused.code != 0 && refused.stderr.contains("subscriber"), "{refused:?}");
    signal_to(&every, Signal::TERM);
    assert_eq!(Ended::of_child(every).await.code, 0);
    let back = ["--reason", "a wrong clock", "--watermark", "2020-01-01T00:00:00Z"];
    let reset = [&["schedule", "reset", "-f", "job"], &back[..]].concat();
    let reset = sidecar.leasehold(&reset).await;
    assert_eq!(reset.code, 0, "{reset:?}");
    let listed = sidecar.leasehold(&["schedule", "ls"]).await;
    assert!(listed.stdout.contains("due, without subscribers here"), "{listed:?}");
    eventually("its subscriber has gone, and it is removed", || async {
        (sidecar.leasehold(&remove).await.code == 0).then_some(())
    })
    .await;
    let shown = sidecar.leasehold(&["schedule", "show", "-f", "job"]).await;
    assert!(shown.stdout.contains("removed") && shown.stdout.contains("moved"), "{shown:?}");
}

#[tokio::test]
async fn t18_a_sidecar_that_does_not_allow_changes_says_so() {
    let sidecar = Sidecar::start(&[]).await;
    for what in ["pause", "resume", "trigger"] {
        let refused = sidecar.leasehold(&["schedule", what, "-f", "job"]).await;
        assert_eq!(refused.code, 77, "{refused:?}");
        assert!(refused.stderr.contains("admin.allow_schedule_changes"), "{refused:?}");
    }
}

#[tokio::test]
async fn s19_what_cannot_be_a_schedule_is_64() {
    let home = Home::new();
    for (expression, problem) in [("61 * * * *", "0 to 59"), ("1s", "10s to 366d")] {
        let refused = home.directly(&["every", expression, "-f", "job", "--", "true"]).await;
        assert_eq!(refused.code, 64, "{refused:?}");
        assert!(refused.stderr.contains(problem), "{refused:?}");
    }
    let nameless = home.directly(&["every", "@daily", "--", "true"]).await;
    assert_eq!(nameless.code, 64, "{nameless:?}");
    let nowhere = ["every", "@daily", "-f", "job", "--tz", "No/Where", "--", "true"];
    let refused = home.directly(&nowhere).await;
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.stderr.contains("--tz: "), "{refused:?}");
}

#[tokio::test]
async fn what_cannot_be_a_schedule_is_told_at_once_where_no_sidecar_answers() {
    let home = Home::new();
    let refused = home.leasehold(&["every", "61 * * * *", "-f", "job", "--", "true"]).await;
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(
        refused.stderr.contains("EXPRESSION: ") && refused.stderr.contains("0 to 59"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn s11_a_run_without_progress_is_lost_before_its_deadline() {
    let home = Home::new();
    let flags = ["-f", "job", "--once", "--progress-timeout", "1s", "--first", "now"];
    let lost = direct(&home, "@daily", &flags, "exec sleep 3600").output().await.unwrap();
    assert_eq!(lost.status.code(), Some(76), "{lost:?}");
}

#[tokio::test]
async fn t23_a_run_has_one_line_at_its_start_and_one_at_its_end() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut sidecar = Sidecar::start_with_stderr(Home::new(), &[], writer.into()).await;
    let reading = std::thread::spawn(move || {
        let mut log = String::new();
        reader.read_to_string(&mut log).unwrap();
        log
    });
    let flags = ["-f", "job", "--once", "--first", "now"];
    let ended =
        through(&sidecar.home, "@daily", &flags, "exit 0").wait_with_output().await.unwrap();
    assert!(ended.status.success(), "{ended:?}");
    sidecar.signal(Signal::TERM);
    sidecar.process.wait().await.unwrap();
    let log = reading.join().unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_the_lock = lines.filter(|line| line.get("lock").is_some());
    let messages: Vec<_> = of_the_lock.map(|line| line["message"].clone()).collect();
    assert_eq!(messages, ["run started", "run ended"], "{log}");
}
