//! `run --occurrence`: a command that another scheduler starts in several places (T1, T2).

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::rig::{Ended, Home, Sidecar, eventually, signal_to};

const SIX: &str = "2024-03-01T06:00:00Z";

/// The words for a run of a shell script for this occurrence.
fn words<'a>(at: &'a str, flags: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["run", "-f", "job", "--occurrence", at], flags, &["--", "sh", "-c", script]].concat()
}

async fn run(sidecar: &Sidecar, at: &str, flags: &[&str], script: &str) -> Ended {
    sidecar.leasehold(&words(at, flags, script)).await
}

#[tokio::test]
async fn t2_the_second_run_of_an_occurrence_says_that_it_is_done() {
    let sidecar = Sidecar::start(&[]).await;
    let told = "echo $LEASEHOLD_SCHEDULED_AT/$LEASEHOLD_ATTEMPT";
    let first = run(&sidecar, SIX, &[], told).await;
    assert_eq!((first.code, first.stdout.trim()), (0, "2024-03-01T06:00:00Z/1"), "{first:?}");
    let again = run(&sidecar, SIX, &[], told).await;
    assert_eq!((again.code, again.stdout.as_str()), (0, ""), "{again:?}");
    assert!(again.stderr.contains("is already done: SUCCEEDED"), "{again:?}");
    let flags = ["--done-exit-code", "3", "--wait", "forever"];
    assert_eq!(run(&sidecar, SIX, &flags, told).await.code, 3);
    let older = run(&sidecar, "2024-03-01T05:00:00Z", &["--done-exit-code", "3"], told).await;
    assert_eq!((older.code, older.stdout.as_str()), (3, ""), "{older:?}");
    assert!(older.stderr.contains("is skipped: 2024-03-01T06:00:00Z is done"), "{older:?}");

    let lock = sidecar.lock("job").await;
    assert_eq!(lock["schedule"]["watermark"], SIX, "{lock:#}");
    assert_eq!(lock["schedule"]["ended"][0]["outcome"], "succeeded");
    let shown = sidecar.leasehold(&["show", "-f", "job"]).await;
    assert!(shown.stdout.contains("2024-03-01T06:00:00Z succeeded"), "{shown:?}");
}

#[tokio::test]
async fn t11_the_exit_code_is_the_outcome_and_attempts_are_counted() {
    let home = Home::new();
    let run = async |flags: &[&str], script: &str| {
        Ended::of(home.direct_command(&words(SIX, flags, script))).await
    };
    let attempt = "echo $LEASEHOLD_ATTEMPT; ";
    let failed = run(&[], &format!("{attempt} exit 3")).await;
    assert_eq!((failed.code, failed.stdout.trim()), (3, "1"), "{failed:?}");
    let returned = run(&[], &format!("{attempt} exit 75")).await;
    assert_eq!((returned.code, returned.stdout.trim()), (75, "2"), "{returned:?}");
    assert!(returned.stderr.contains("attempt 2 at the occurrence"), "{returned:?}");
    let failed = run(&[], &format!("{attempt} exit 3")).await;
    assert_eq!(failed.stdout.trim(), "2", "what was returned does not count: {failed:?}");
    let spent = run(&["--max-attempts", "2"], attempt).await;
    assert_eq!((spent.code, spent.stdout.as_str()), (0, ""), "{spent:?}");
    assert!(spent.stderr.contains("already done: FAILED at attempt 2"), "{spent:?}");

    let next = "2024-03-01T07:00:00Z";
    let last = words(next, &["--final-exit-code", "9"], "exit 9");
    assert_eq!(Ended::of(home.direct_command(&last)).await.code, 9);
    let again = Ended::of(home.direct_command(&words(next, &[], "exit 1"))).await;
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stderr.contains("already done: FAILED_FINAL"), "{again:?}");
}

#[tokio::test]
async fn t2_after_a_kill_the_next_run_is_attempt_2() {
    let sidecar = Sidecar::start(&[]).await;
    let home = &sidecar.home;
    let flags = ["--lease-duration", "15s"];
    let child = home.command(&words(SIX, &flags, "touch started; sleep 60")).spawn().unwrap();
    eventually("the command has started", || async { home.path("started").exists().then_some(()) })
        .await;
    let held: Value = sidecar.lock("job").await;
    assert_eq!(held["schedule"]["run"]["attempt"], 1, "{held:#}");
    signal_to(&child, Signal::KILL);
    Ended::of_child(child).await;
    let flags = [&flags[..], &["--wait", "40s"]].concat();
    let second = run(&sidecar, SIX, &flags, "echo $LEASEHOLD_ATTEMPT").await;
    assert_eq!((second.code, second.stdout.trim()), (0, "2"), "{second:?}");
}

#[tokio::test]
async fn t1_the_occurrence_is_in_the_name_of_a_cron_jobs_job() {
    let home = Home::new();
    let named = |job: &'static str| {
        let words = ["run", "-f", "job", "--occurrence-from-job-name", job, "--"];
        let script = ["sh", "-c", "echo $LEASEHOLD_SCHEDULED_AT"];
        home.direct_command(&[&words[..], &script].concat())
    };
    let ended = Ended::of(named("nightly-report-28487910")).await;
    assert_eq!((ended.code, ended.stdout.trim()), (0, "2024-03-01T06:30:00Z"), "{ended:?}");
    let by_hand = Ended::of(named("nightly-report-manual")).await;
    assert_eq!(by_hand.code, 64, "{by_hand:?}");
    assert!(by_hand.stderr.contains("made by hand"), "{by_hand:?}");
    let alone = home.directly(&["run", "-f", "job", "--max-attempts", "2", "--", "true"]).await;
    assert_eq!(alone.code, 64, "{alone:?}");
    let to_come = words("2099-01-01T00:00:00Z", &[], "exit 0");
    let early = Ended::of(home.direct_command(&to_come)).await;
    assert_eq!(early.code, 64, "{early:?}");
    assert!(early.stderr.contains("check the caller's clock"), "{early:?}");
}
