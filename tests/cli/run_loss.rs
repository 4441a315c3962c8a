//! What `run` does to its command when the lock is lost. A lease of 15 s is the shortest, so some of these
//! take that long.

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

use crate::cli::rig::{Ended, Home, Sidecar, runs};

/// Ignores SIGTERM, as its child does, and writes the boot clock down as long as it lives.
const STUBBORN: &str = "trap '' TERM; echo $$ > first; \
    sh -c 'trap \"\" TERM; echo $$ > second; \
        while :; do cut -d\" \" -f1 /proc/uptime > beat.new; mv beat.new beat; sleep 0.02; done' & \
    while :; do sleep 0.05; done";

/// Obeys SIGTERM, and says so.
const OBEDIENT: &str =
    "trap 'echo stopped > stopped; exit 0' TERM; echo ready > ready; while :; do sleep 0.02; done";

const SHORT: [&str; 4] = ["--lease-duration", "15s", "--wait", "50s"];

fn run<'a>(terms: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let mut words = vec!["run", "-f", "job"];
    words.extend(terms);
    words.extend(["--", "sh", "-c", script]);
    words
}

/// Whoever gets the lock next, without a sidecar, says when.
fn successor(home: &Home) -> Child {
    let mut words = vec!["run", "--set", "host_id.host_type=test", "-f", "job"];
    words.extend(SHORT);
    words.extend(["--", "cut", "-d", " ", "-f1", "/proc/uptime"]);
    home.direct_command(&words).spawn().unwrap()
}

/// The sidecar goes; the stubborn command must be dead before anybody else can have the lock.
async fn the_command_is_dead_before_the_next_one_has_the_lock(signal: Signal) {
    let sidecar = Sidecar::start(&[]).await;
    let home = &sidecar.home;
    let child = home.command(&run(&SHORT, STUBBORN)).spawn().unwrap();
    home.file("beat").await;
    sidecar.signal(signal);
    let (ended, next) = tokio::join!(Ended::of_child(child), Ended::of_child(successor(home)));
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("stopping the command"), "{ended:?}");
    for name in ["first", "second"] {
        assert!(!runs(&home.file(name).await), "{name} still runs");
    }
    assert_eq!(next.code, 0, "{next:?}");
    let began: f64 = next.stdout.trim().parse().unwrap();
    let last_beat: f64 = home.file("beat").await.trim().parse().unwrap();
    assert!(last_beat < began, "the command lived at {last_beat}, the next one at {began}");
}

#[tokio::test]
async fn s21_a_command_is_dead_in_time_when_its_sidecar_has_died() {
    the_command_is_dead_before_the_next_one_has_the_lock(Signal::KILL).await;
}

#[tokio::test]
async fn s21_a_command_is_dead_in_time_when_its_sidecar_hangs() {
    the_command_is_dead_before_the_next_one_has_the_lock(Signal::STOP).await;
}

/// A sidecar with these settings goes away in this way while a command runs under its lock; the next one
/// takes its place.
async fn a_command_goes_on(settings: &[&str], goes_away: impl AsyncFnOnce(&mut Sidecar)) {
    let mut sidecar = Sidecar::start(settings).await;
    let script = "echo ready > ready; while ! test -e go; do sleep 0.02; done; exit 6";
    let child = sidecar.home.command(&run(&SHORT, script)).spawn().unwrap();
    sidecar.home.file("ready").await;
    goes_away(&mut sidecar).await;
    let home = std::mem::replace(&mut sidecar.home, Home::new());
    let again = Sidecar::start_in(home, settings).await;
    crate::cli::rig::eventually("it is held here", || async {
        (again.lock("job").await["held_here"] == true).then_some(())
    })
    .await;
    std::fs::write(again.home.path("go"), "\n").unwrap();
    let ended = Ended::of_child(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (6, ""), "{ended:?}");
}

#[tokio::test]
async fn s16_a_command_goes_on_when_its_sidecar_comes_back() {
    a_command_goes_on(&[], async |sidecar| sidecar.process.kill().await.unwrap()).await;
}

/// As in a pod, whose kubelet starts a sidecar again that was told to end by itself: the job goes on, and
/// costs no try.
#[tokio::test]
async fn s15_s16_a_command_goes_on_over_a_hand_over() {
    let ends = async |sidecar: &mut Sidecar| {
        sidecar.signal(Signal::TERM);
        assert!(sidecar.process.wait().await.unwrap().success());
    };
    a_command_goes_on(&["drain.hand_over=true"], ends).await;
}

#[tokio::test]
async fn s13_a_command_does_not_end_well_whose_release_finds_the_lock_lost() {
    let sidecar = Sidecar::start(&[]).await;
    let script = "echo ready > ready; while ! test -e go; do sleep 0.02; done";
    let child = sidecar.home.command(&run(&[], script)).spawn().unwrap();
    sidecar.home.file("ready").await;
    // Behind the sidecar's back, and long before the next renewal would find that.
    let store = rusqlite::Connection::open(sidecar.home.store()).unwrap();
    store.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    assert_eq!(store.execute("UPDATE locks SET lease_id = randomblob(16)", ()).unwrap(), 1);
    std::fs::write(sidecar.home.path("go"), "\n").unwrap();
    let ended = Ended::of_child(child).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("lost before the command ended: TAKEN"), "{ended:?}");
}

#[tokio::test]
async fn s9_a_command_is_stopped_when_its_store_is_away() {
    let home = Home::new();
    let child = home.direct_command(&run(&SHORT, OBEDIENT)).spawn().unwrap();
    home.file("ready").await;
    let store = rusqlite::Connection::open(home.store()).unwrap();
    store.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    store.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let ended = Ended::of_child(child).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("at risk: STORE_UNAVAILABLE"), "{ended:?}");
    assert!(home.path("stopped").exists(), "it was asked to stop before it was killed");
}

/// What `run` says next, without the lines of the engine's log.
async fn note(lines: &mut Lines<BufReader<ChildStderr>>) -> Option<String> {
    loop {
        let line = lines.next_line().await.unwrap()?;
        if line.starts_with("leasehold: ") {
            return Some(line);
        }
    }
}

#[tokio::test]
async fn s9_a_command_outlives_an_outage_that_ends_before_it_has_to_stop() {
    let home = Home::new();
    let script = "echo ready > ready; while ! test -e go; do sleep 0.02; done; exit 6";
    let terms = [&SHORT[..], &["--kill-after", "100ms"]].concat();
    let mut child = home.direct_command(&run(&terms, script)).spawn().unwrap();
    home.file("ready").await;
    let store = rusqlite::Connection::open(home.store()).unwrap();
    store.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    store.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let at_risk = note(&mut lines).await.unwrap();
    assert!(at_risk.contains("at risk: STORE_UNAVAILABLE"), "{at_risk}");
    assert!(at_risk.contains("unless a renewal succeeds"), "{at_risk}");
    store.execute_batch("COMMIT").unwrap();
    let recovered = note(&mut lines).await.unwrap();
    assert!(recovered.contains("not at risk any more"), "{recovered}");
    std::fs::write(home.path("go"), "\n").unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(6));
    assert_eq!(note(&mut lines).await, None, "nothing stopped it");
}

#[tokio::test]
async fn s15_a_draining_sidecar_has_its_commands_stopped() {
    let mut sidecar = Sidecar::start(&["drain.period=30s"]).await;
    let child = sidecar.home.command(&run(&[], OBEDIENT)).spawn().unwrap();
    sidecar.home.file("ready").await;
    sidecar.signal(Signal::TERM);
    let ended = Ended::of_child(child).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("shutting down"), "{ended:?}");
    assert!(sidecar.process.wait().await.unwrap().success());
}

#[tokio::test]
async fn s11_max_hold_ends_a_stubborn_command() {
    let home = Home::new();
    let ended = home.directly(&run(&["--max-hold", "2s"], STUBBORN)).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(!runs(&home.file("second").await));
}

#[tokio::test]
async fn s17_a_broken_lock_stops_its_command_and_tells_the_reason() {
    let sidecar = Sidecar::start(&["admin.allow_break=true"]).await;
    let child = sidecar.home.command(&run(&SHORT, OBEDIENT)).spawn().unwrap();
    sidecar.home.file("ready").await;
    let words = ["break", "-f", "job", "--reason", "by mistake", "--now", "--yes"];
    let broken = sidecar.leasehold(&words).await;
    assert_eq!(broken.code, 0, "{broken:?}");
    let ended = Ended::of_child(child).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("BROKEN") && ended.stderr.contains("by mistake"), "{ended:?}");
}
