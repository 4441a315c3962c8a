//! What `run` does with the processes of its command, and with a command that cannot hear.

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::rig::{Ended, Home, Sidecar, eventually, signal_to};

/// The state of a process, as the kernel shows it.
fn state(id: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// The children of a process that have ended and that it has not waited for.
fn zombies(id: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let lists = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")));
    let lists = lists.map(Result::unwrap).collect::<String>();
    lists.split_whitespace().filter(|id| state(id) == Some('Z')).count()
}

#[tokio::test]
async fn what_the_command_leaves_to_run_is_waited_for() {
    let home = Home::new();
    let script = "for n in 1 2 3; do (setsid sh -c \"echo > left-$n\" &); done; \
        while ! test -e go; do sleep 0.02; done";
    let child =
        home.direct_command(&["run", "-f", "job", "--", "sh", "-c", script]).spawn().unwrap();
    let id = child.id().unwrap();
    for n in 1..=3 {
        home.file(&format!("left-{n}")).await;
    }
    eventually("nothing is left of them", || async { (zombies(id) == 0).then_some(()) }).await;
    std::fs::write(home.path("go"), "\n").unwrap();
    let ended = Ended::of_child(child).await;
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[tokio::test]
async fn a_command_that_is_stopped_hears_that_it_is_to_end() {
    let home = Home::new();
    let script = "trap 'exit 3' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let child =
        home.direct_command(&["run", "-f", "job", "--", "sh", "-c", script]).spawn().unwrap();
    let id = home.file("pid").await.trim().to_owned();
    kill_process(Pid::from_raw(id.parse().unwrap()).unwrap(), Signal::STOP).unwrap();
    eventually("it stands still", || async { (state(&id) == Some('T')).then_some(()) }).await;
    signal_to(&child, Signal::TERM);
    let ended = Ended::of_child(child).await;
    assert_eq!(ended.code, 3, "{ended:?}");
}

#[tokio::test]
async fn a_command_that_waits_for_its_own_lock_says_so() {
    let sidecar = Sidecar::start(&[]).await;
    let program = env!("CARGO_BIN_EXE_leasehold");
    let inner = ["run", "job", "--wait", "1s", "--busy-exit-code", "9", "--", "true"];
    let words: Vec<&str> = ["run", "job", "--", program].into_iter().chain(inner).collect();
    let ended = sidecar.leasehold(&words).await;
    assert_eq!(ended.code, 9, "{ended:?}");
    assert!(ended.stderr.contains("waiting for "), "{ended:?}");
    assert!(ended.stderr.contains("waits for itself"), "{ended:?}");
}
