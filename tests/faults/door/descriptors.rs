//! A sidecar that has no file descriptor left, or few to begin with.

use std::process::Command;

use rustix::process::{Resource, Rlimit};

use super::{Sidecar, ask_anew, probe_anew};
use crate::process::{program, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_running_out_of_descriptors_is_told_and_callers_still_get_in() {
    let sidecar = Sidecar::start(&[]).await;
    let pid = Some(rustix::process::Pid::from_child(&sidecar.child));
    let open = std::fs::read_dir(format!("/proc/{}/fd", sidecar.child.id())).unwrap().count();
    let before = rustix::process::getrlimit(Resource::Nofile);
    let few = Rlimit { current: Some(open as u64 + 8), ..before };
    rustix::process::prlimit(pid, Resource::Nofile, few).unwrap();
    let way = sidecar.tcp(1);
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(way.connect().await.unwrap());
    }
    let told = || sidecar.log().contains("no file descriptor is left").then_some(());
    until("the log says so", || sidecar.log(), told).await;
    // Whoever has just come may be the one that is spared: it comes again.
    while ask_anew(&way).await.is_err() {}
    while probe_anew(&sidecar.probes()).await.is_err() {}
    rustix::process::prlimit(pid, Resource::Nofile, before).unwrap();
    drop(silent);
    ask_anew(&way).await.unwrap();
}

#[tokio::test]
async fn s38_places_fit_below_a_small_limit_of_descriptors() {
    let mut command = Command::new("prlimit");
    command.args(["--nofile=200:200", program()]);
    let sidecar = Sidecar::start_by(command, &[]).await;
    assert!(sidecar.log().contains("limit of open files is too small"), "{}", sidecar.log());
    let (tcp, unix) = (sidecar.tcp(1), sidecar.unix());
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tcp.connect().await.unwrap());
        silent.push(unix.connect().await.unwrap());
    }
    ask_anew(&tcp).await.unwrap();
    ask_anew(&unix).await.unwrap();
    probe_anew(&sidecar.probes()).await.unwrap();
    assert!(!sidecar.log().contains("no file descriptor is left"), "{}", sidecar.log());
}
