//! The Rust client's test support: `leasehold_client::testing`.

use std::process::Stdio;
use std::time::Duration;

use leasehold_client::testing::{Sidecar, SidecarBuilder, SidecarError};
use leasehold_client::{Hold, LeaseSpec, LockKey, LossReason};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

fn builder() -> SidecarBuilder {
    Sidecar::builder().program(env!("CARGO_BIN_EXE_leasehold"))
}

async fn hold(sidecar: &Sidecar, function: &str) -> Hold {
    let client = sidecar.client().await.unwrap();
    let spec = LeaseSpec::new(function).with_wait(Duration::from_secs(60));
    client.hold(spec).await.unwrap().granted().unwrap()
}

#[tokio::test]
async fn a_hold_is_lost_at_once_and_a_break_is_told() {
    let sidecar = builder().start().await.unwrap();
    let other = builder().start().await.unwrap();
    let (lost, elsewhere) = (hold(&sidecar, "job").await, hold(&other, "job").await);
    sidecar.lose("job").await.unwrap();
    assert_eq!(lost.lost().await.reason, LossReason::Broken);
    let record = sidecar.wait_until_available("job").await.unwrap();
    assert!(record.break_note.is_some());
    assert!(elsewhere.is_valid(), "each sidecar has locks of its own");

    let told = hold(&sidecar, "told").await;
    sidecar.break_lock("told", "a new version").await.unwrap();
    assert_eq!(told.revoked().await.break_note.unwrap().reason, "a new version");
    assert!(told.is_valid());
    told.release().await.unwrap();
    sidecar.wait_until_available("told").await.unwrap();
}

#[tokio::test]
async fn a_hold_is_lost_by_its_own_clock_while_the_sidecar_is_paused() {
    let sidecar = builder().start().await.unwrap();
    let guard = hold(&sidecar, "job").await;
    let pause = sidecar.pause().unwrap();
    assert!(matches!(sidecar.lose("job").await, Err(SidecarError::Paused)));
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    drop(pause);
    sidecar.wait_until_available("job").await.unwrap();
}

#[tokio::test]
async fn a_killed_sidecar_forgets_its_locks_unless_they_are_in_a_file() {
    let sidecar = builder().start().await.unwrap();
    let guard = hold(&sidecar, "job").await;
    sidecar.kill();
    assert!(matches!(sidecar.lose("job").await, Err(SidecarError::NotRunning)));
    sidecar.restart().await.unwrap();
    assert!(matches!(sidecar.restart().await, Err(SidecarError::Running)));
    guard.lost().await;
    sidecar.wait_until_available("job").await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("locks.db").display().to_string();
    let lasting = builder().setting("store.kind", "embedded").setting("store.embedded.path", file);
    let lasting = lasting.start().await.unwrap();
    let guard = hold(&lasting, "job").await;
    lasting.kill();
    lasting.restart().await.unwrap();
    let here = |lock: &leasehold_client::LockRecord| lock.held_here;
    let key = LockKey::from("job");
    lasting.wait_until(key, "is held again through the sidecar", here).await.unwrap();
    assert!(guard.is_valid());
}

#[tokio::test]
async fn who_waits_can_be_waited_for_and_a_shutdown_ends_it() {
    let sidecar = builder().start().await.unwrap();
    let first = hold(&sidecar, "job").await;
    assert_eq!(sidecar.wait_until_held("job").await.unwrap().waiters_here, 0);
    let (second, ()) = tokio::join!(hold(&sidecar, "job"), async {
        sidecar.wait_until_waiting("job", 1).await.unwrap();
        first.release().await.unwrap();
    });
    second.release().await.unwrap();
    sidecar.stop().await.unwrap();
    assert!(sidecar.log().contains("shut down"), "{}", sidecar.log());
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let sidecar = builder().timeout(Duration::from_nanos(1));
    let late = sidecar.start().await.unwrap_err().to_string();
    assert!(late.contains("not after 1ns: the sidecar listens. Its log:"), "{late}");

    let sidecar = builder().start().await.unwrap();
    let unheld = sidecar.lose(LockKey::new("job", "part")).await.unwrap_err().to_string();
    assert!(unheld.contains("the lock \"job\" of \"part\" cannot be lost or broken"), "{unheld}");

    let refused = builder().setting("colour", "red").start().await.unwrap_err().to_string();
    assert!(refused.contains("there is no setting colour"), "{refused}");
    let missing = builder().program("/nowhere/leasehold").start().await.unwrap_err().to_string();
    assert!(missing.contains("cannot start /nowhere/leasehold"), "{missing}");
}

/// The variable by which a process of this test is told to start a sidecar, and to wait until it is killed.
const CHILD: &str = "LEASEHOLD_TEST_CHILD";

#[tokio::test]
async fn a_sidecar_ends_with_a_test_process_that_is_killed() {
    if let Ok(how) = std::env::var(CHILD) {
        let sidecar = builder().start().await.unwrap();
        let _pause = (how == "paused").then(|| sidecar.pause().unwrap());
        println!("sidecar {}", sidecar.process_id().unwrap());
        std::future::pending::<()>().await;
    }
    for how in ["running", "paused"] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let name = "clients::test_support_rust::a_sidecar_ends_with_a_test_process_that_is_killed";
        child.args([name, "--exact", "--nocapture"]).env(CHILD, how);
        let mut child =
            child.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let id: i32 = loop {
            let line = lines.next_line().await.unwrap().expect("it starts a sidecar");
            if let Some((_, id)) = line.split_once("sidecar ") {
                break id.parse().unwrap();
            }
        };
        let sidecar = pidfd_open(Pid::from_raw(id).unwrap(), PidfdFlags::empty()).unwrap();
        child.kill().await.unwrap();
        let ended = tokio::task::spawn_blocking(move || {
            let generous = rustix::time::Timespec { tv_sec: 60, tv_nsec: 0 };
            poll(&mut [PollFd::new(&sidecar, PollFlags::IN)], Some(&generous)).unwrap()
        });
        assert_eq!(ended.await.unwrap(), 1, "{how}: it runs though nobody is left to use it");
    }
}
