//! A fleet that reconnects to a sidecar that runs a tenth of the time.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold::time::{BootClock, Clock as _};
use rustix::process::Signal;
use tokio::task::JoinSet;

use super::{Sidecar, ask};
use crate::faults::process::{PATIENCE, number};

/// Lets the process run a tenth of the time, until it is dropped.
struct Slowed {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Slowed {
    fn new(child: &Child) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let pid = rustix::process::Pid::from_child(child);
        let stop = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let wait = |millis: u32| {
                let (reader, _writer) = std::io::pipe().unwrap();
                let mut fds = [rustix::event::PollFd::new(&reader, rustix::event::PollFlags::IN)];
                let span =
                    rustix::event::Timespec { tv_sec: 0, tv_nsec: i64::from(millis) * 1_000_000 };
                let _ = rustix::event::poll(&mut fds, Some(&span));
            };
            while !stop.load(Ordering::Relaxed) {
                rustix::process::kill_process(pid, Signal::STOP).unwrap();
                wait(45);
                rustix::process::kill_process(pid, Signal::CONT).unwrap();
                wait(5);
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s38_a_fleet_that_reconnects_to_a_sidecar_of_a_tenth_of_a_core_gets_in() {
    let clients = number("LEASEHOLD_TEST_DOOR_CLIENTS", 300);
    let sidecar = Sidecar::start(&[]).await;
    let way = sidecar.tcp(1);
    let slowed = Slowed::new(&sidecar.child);
    let clock = BootClock::new();
    let begun = clock.now();
    let tries = Arc::new(AtomicU64::new(0));
    let mut fleet = JoinSet::new();
    for _ in 0..clients {
        let (way, tries) = (way.clone(), Arc::clone(&tries));
        fleet.spawn(async move {
            loop {
                tries.fetch_add(1, Ordering::Relaxed);
                if let Ok(channel) = way.channel().await
                    && ask(channel.clone()).await.is_ok()
                {
                    return channel;
                }
            }
        });
    }
    let all = tokio::time::timeout(PATIENCE, fleet.join_all()).await.expect("all get in");
    println!("{clients} clients were in after {:?}, with {tries:?} tries", clock.now() - begun);
    drop(slowed);
    for channel in all {
        ask(channel).await.unwrap();
    }
}
