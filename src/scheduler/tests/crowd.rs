//! Thousands of schedules that are due in one second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::rig::{at, complete, run, standby, subscription};
use crate::coordinator::tests::rig::{
    Account, MINUTE, SECOND, Sidecar, key, next_but_renewals, request,
};
use crate::coordinator::{HoldRequest, NoObserver};
use crate::schedule::{CatchUp, Report, Spec};
use crate::scheduler::SubscribeRequest;
use crate::timetable::{Timetable, UtcSecond};

const SCHEDULES: usize = 4_000;
const REPLICAS: usize = 3;
/// Plain holds beside them, at each sidecar: their renewals are to be in time.
const HOLDS: usize = 20;
const LEASE: Duration = Duration::from_secs(15);
/// What a job takes.
const WORK: Duration = Duration::from_secs(2);
/// The shortest grace that there is (T9), of which the queue of T13 is no part: 50 starts a second take
/// longer.
const GRACE: Duration = Duration::from_secs(2 * 15 + 10);

/// When all of them are due.
const DUE: Duration = Duration::from_secs(600);

/// A run that was granted: of what, how late by the store's time, and how many were said to be missed.
struct Started {
    schedule: usize,
    due: UtcSecond,
    late: Duration,
    missed: u64,
}

/// Nothing is run that is older than its grace.
fn strict() -> Spec {
    let timetable = Timetable::parse("*/10 * * * *", "UTC").unwrap();
    Spec {
        catch_up: CatchUp::None,
        grace: Some(GRACE),
        lease_duration: Some(LEASE),
        ..Spec::new(timetable)
    }
}

/// A replica of one schedule at one sidecar, for as long as the test goes on.
async fn replica(
    sidecar: Sidecar,
    schedule: usize,
    ready: UnboundedSender<()>,
    runs: UnboundedSender<Started>,
) {
    let began = sidecar.coordinator.clock().now();
    let key = key(&format!("nightly-{schedule}"));
    let request = SubscribeRequest { key, ..subscription(strict()) };
    let mut stream = sidecar.scheduler.subscribe(request).unwrap();
    standby(&mut stream).await;
    ready.send(()).unwrap();
    loop {
        let granted = run(&mut stream).await;
        let (due, missed) = (granted.told.scheduled_at, granted.told.missed_count);
        let late = sidecar.coordinator.clock().now().saturating_since(began).saturating_sub(DUE);
        if runs.send(Started { schedule, due, late, missed }).is_err() {
            return;
        }
        tokio::time::sleep(WORK).await;
        complete(&sidecar, &granted, Report::Succeeded).await;
    }
}

#[tokio::test(start_paused = true)]
async fn t9_t13_thousands_due_in_one_second_run_once_each_and_none_is_missed() {
    let account = Account::new();
    let began = account.now();
    let sidecars: Vec<Sidecar> = (0..REPLICAS)
        .map(|_| {
            account.sidecar_with(Arc::new(NoObserver), 1, |settings| {
                (settings.max_waiters, settings.max_holds) = (10_000, 10_000);
            })
        })
        .collect();
    let (trouble, mut troubles) = unbounded_channel();
    for (index, sidecar) in sidecars.iter().enumerate() {
        for number in 0..HOLDS {
            let request = request(&format!("hold-{index}-{number}"));
            let (mut hold, _) = sidecar.hold(&HoldRequest { max_hold: None, ..request }).await;
            let trouble = trouble.clone();
            tokio::spawn(async move { trouble.send(next_but_renewals(&mut hold).await) });
        }
    }
    let (ready, mut subscribed) = unbounded_channel();
    let (sender, mut runs) = unbounded_channel();
    for sidecar in &sidecars {
        for schedule in 0..SCHEDULES {
            tokio::spawn(replica(sidecar.clone(), schedule, ready.clone(), sender.clone()));
        }
    }
    for _ in 0..SCHEDULES * REPLICAS {
        subscribed.recv().await.unwrap();
    }
    // The reads of ten minutes are over.
    tokio::time::sleep(DUE - account.now().saturating_since(began) - 5 * SECOND).await;
    for sidecar in &sidecars {
        sidecar.counts();
    }
    let mut times = BTreeMap::<usize, u32>::new();
    let mut lateness = Vec::new();
    while lateness.len() < SCHEDULES {
        let started = runs.recv().await.unwrap();
        assert_eq!(started.due, at(600));
        assert_eq!(started.missed, 0);
        *times.entry(started.schedule).or_default() += 1;
        lateness.push(started.late);
    }
    // Long enough for somebody else to run one again, and for all who look.
    let over = tokio::time::timeout(5 * MINUTE, runs.recv()).await;
    assert!(over.is_err(), "an occurrence was run again");
    assert!(times.values().all(|times| *times == 1));
    let asked: u64 = sidecars.iter().map(|sidecar| sidecar.counts().total()).sum();
    lateness.sort();
    let p99 = lateness[SCHEDULES * 99 / 100];
    println!(
        "{SCHEDULES} schedules: p99 {p99:?}, last {:?}, {asked} requests",
        lateness[SCHEDULES - 1]
    );
    // The runner's five; what each looks at when it is due, after the queue, and while it runs elsewhere; and
    // renewals.
    let most = SCHEDULES * (5 + 3 * REPLICAS);
    assert!(asked <= u64::try_from(most).unwrap(), "{asked} requests, of at most {most}");
    assert!(troubles.try_recv().is_err(), "a renewal was late");
}
