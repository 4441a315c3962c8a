use rustix::process::Signal;

use crate::cli::rig::{Ended, Home, Sidecar, eventually, runs, signal_to};

#[tokio::test]
async fn the_command_has_its_lock_in_its_environment_and_its_exit_code_is_passed_on() {
    let sidecar = Sidecar::start(&[]).await;
    let script = "echo $LEASEHOLD_FENCING_TOKEN $LEASEHOLD_LOCK_PATH; \
                  test -n \"$LEASEHOLD_LEASE_ID\" || exit 9; echo to stderr >&2; cat; exit 3";
    let ended = sidecar.leasehold(&["run", "-f", "job", "--", "sh", "-c", script]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    let lock = sidecar.lock("job").await;
    let path = lock["lock_path"].as_str().unwrap();
    assert_eq!(ended.stdout, format!("{} {path}\n", lock["fencing_token"]));
    assert_eq!(ended.stderr, "to stderr\n");
    assert_eq!(lock["state"], "available", "it was released");
}

#[tokio::test]
async fn s11_the_command_knows_when_its_hold_ends_if_it_does() {
    let home = Home::new();
    let script =
        "left=$((LEASEHOLD_HOLD_ENDS - $(date +%s))); test $left -gt 3500 && test $left -le 3600";
    let run = ["run", "-f", "job", "--max-hold", "1h", "--", "sh", "-c", script];
    let ended = home.directly(&run).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = home.directly(&["run", "-f", "job", "--", "printenv", "LEASEHOLD_HOLD_ENDS"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "without a limit: {ended:?}");
}

#[tokio::test]
async fn arguments_are_executed_as_they_are() {
    let home = Home::new();
    let words = ["run", "-f", "job", "--", "printf", "%s|", "$HOME", "a b", "*", "--help"];
    let ended = home.directly(&words).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "$HOME|a b|*|--help|"), "{ended:?}");
}

#[tokio::test]
async fn s1_two_runs_exclude_each_other_with_and_without_a_sidecar() {
    let sidecar = Sidecar::start(&[]).await;
    // Each fails if another is inside.
    let script = "mkdir inside || exit 9; sleep 0.2; rmdir inside";
    let run = ["run", "-f", "job", "--wait", "60s", "--", "sh", "-c", script];
    let settings = ["--set", "host_id.host_type=test", "--set", "locks.poll_cap=250ms"];
    let direct: Vec<&str> = run[..1].iter().chain(&settings).chain(&run[1..]).copied().collect();
    let home = &sidecar.home;
    let ended = tokio::join!(
        sidecar.leasehold(&run),
        sidecar.leasehold(&run),
        home.directly(&direct),
        home.directly(&direct),
    );
    for one in [ended.0, ended.1, ended.2, ended.3] {
        assert_eq!(one.code, 0, "{one:?}");
    }
}

#[tokio::test]
async fn a_lock_that_is_not_acquired_ends_in_75_or_what_was_asked_for() {
    let sidecar = Sidecar::start(&[]).await;
    let taken = sidecar.leasehold(&["acquire", "-f", "job", "--holder", "somebody"]).await;
    assert_eq!(taken.code, 0, "{taken:?}");
    let busy = sidecar.leasehold(&["run", "-f", "job", "--wait", "300ms", "--", "true"]).await;
    assert_eq!(busy.code, 75, "{busy:?}");
    assert!(busy.stderr.contains("somebody") && busy.stderr.contains("300ms"), "{busy:?}");
    let skipped =
        sidecar.leasehold(&["run", "-f", "job", "--skip-exit-code", "0", "--", "true"]).await;
    assert_eq!((skipped.code, skipped.stderr.as_str()), (0, ""), "{skipped:?}");
}

#[tokio::test]
async fn a_command_that_cannot_be_run_releases_its_lock() {
    let sidecar = Sidecar::start(&[]).await;
    let missing = sidecar.leasehold(&["run", "-f", "job", "--", "./not-there"]).await;
    assert_eq!(missing.code, 127, "{missing:?}");
    assert!(missing.stderr.contains("./not-there"), "{missing:?}");
    std::fs::write(sidecar.home.path("plain"), "text").unwrap();
    let plain = sidecar.leasehold(&["run", "-f", "job", "--", "./plain"]).await;
    assert_eq!(plain.code, 126, "{plain:?}");
    assert_eq!(sidecar.lock("job").await["state"], "available");
}

#[tokio::test]
async fn signals_are_passed_on_to_the_command() {
    let home = Home::new();
    let script = "trap 'exit 7' USR1; echo ready > ready; while :; do sleep 0.02; done";
    let child = home.direct_command(&["run", "-f", "one", "--", "sh", "-c", script]);
    let child = { child }.spawn().unwrap();
    home.file("ready").await;
    signal_to(&child, Signal::USR1);
    assert_eq!(Ended::of_child(child).await.code, 7);

    std::fs::remove_file(home.path("ready")).unwrap();
    let script = "echo ready > ready; exec sleep 300";
    let mut command = home.direct_command(&["run", "-f", "two", "--", "sh", "-c", script]);
    let child = command.spawn().unwrap();
    home.file("ready").await;
    signal_to(&child, Signal::TERM);
    assert_eq!(Ended::of_child(child).await.code, 143, "a signal ended the command");
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_the_place_in_the_queue() {
    let sidecar = Sidecar::start(&[]).await;
    assert_eq!(sidecar.leasehold(&["acquire", "-f", "job"]).await.code, 0);
    let mut command = sidecar.home.command(&["run", "-f", "job", "--wait", "1h", "--", "true"]);
    let child = command.spawn().unwrap();
    waiters(&sidecar, 1).await;
    signal_to(&child, Signal::INT);
    assert_eq!(Ended::of_child(child).await.code, 130);
    waiters(&sidecar, 0).await;
}

async fn waiters(sidecar: &Sidecar, count: u64) {
    eventually(&format!("{count} wait"), || async {
        (sidecar.lock("job").await["waiters_here"] == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let home = Home::new();
    let script = "echo ready > ready; while ! test -e go; do sleep 0.02; done; exit 5";
    let run = home.direct_command(&["run", "-f", "job", "--", "sh", "-c", script]);
    let run = run.as_std();
    let mut nohup = home.command(&[]);
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(run.get_program());
    shell.args(run.get_args()).current_dir(home.path("")).env("HOME", home.path(""));
    std::mem::swap(&mut nohup, &mut shell);
    let child = nohup.kill_on_drop(true).spawn().unwrap();
    home.file("ready").await;
    signal_to(&child, Signal::HUP);
    std::fs::write(home.path("go"), "\n").unwrap();
    assert_eq!(Ended::of_child(child).await.code, 5);
}

#[tokio::test]
async fn what_the_command_leaves_behind_ends_before_its_lock_is_released() {
    let home = Home::new();
    // The second one ignores SIGTERM.
    let script = "sleep 300 & echo $! > first; \
                  sh -c 'trap \"\" TERM; echo $$ > second; while :; do sleep 0.05; done' & \
                  while ! test -s second; do sleep 0.02; done; exit 4";
    let run = ["run", "-f", "job", "--kill-after", "300ms", "--", "sh", "-c", script];
    let ended = home.directly(&run).await;
    assert_eq!(ended.code, 4, "{ended:?}");
    for name in ["first", "second"] {
        assert!(!runs(&home.file(name).await), "{name} still runs");
    }
}

#[tokio::test]
async fn s14_nothing_of_the_command_outlives_a_run_that_is_killed() {
    let sidecar = Sidecar::start(&[]).await;
    let script = "sh -c 'trap \"\" TERM HUP; echo $$ > second; while :; do sleep 0.05; done' & \
                  while ! test -s second; do sleep 0.02; done; echo $$ > first; wait";
    let mut command = sidecar.home.command(&["run", "-f", "job", "--", "sh", "-c", script]);
    let child = command.spawn().unwrap();
    let ids = [sidecar.home.file("first").await, sidecar.home.file("second").await];
    assert!(ids.iter().all(|id| runs(id)));
    signal_to(&child, Signal::KILL);
    for id in &ids {
        eventually("it is dead", || async { (!runs(id)).then_some(()) }).await;
    }
    let next = sidecar.leasehold(&["run", "-f", "job", "--wait", "30s", "--", "true"]).await;
    assert_eq!(next.code, 0, "{next:?}");
}

#[tokio::test]
async fn s20_the_process_list_shows_the_command_and_no_lease() {
    let home = Home::new();
    let script = "tr '\\0' ' ' < /proc/$$/cmdline; tr '\\0' ' ' < /proc/$PPID/cmdline; \
                  echo; echo $LEASEHOLD_LEASE_ID";
    let ended = home.directly(&["run", "-f", "job", "--", "sh", "-c", script]).await;
    let (shown, lease_id) = ended.stdout.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(lease_id.len(), 36, "{ended:?}");
    assert!(shown.starts_with("sh -c") && !shown.contains(lease_id), "{ended:?}");
}
