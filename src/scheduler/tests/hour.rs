//! Hundreds of schedules of 10 to 30 s at three sidecars: each occurrence is run once, and soon (T9, T13,
//! T17, T19).
//!
//! `LEASEHOLD_TEST_HOUR_MINUTES=60` runs the hour of the nightly goal instead of the few minutes of each
//! build.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::rig::{START, complete, run, standby, subscription};
use crate::coordinator::NoObserver;
use crate::coordinator::tests::rig::{Account, MINUTE, SECOND, Sidecar, key, path};
use crate::schedule::{Report, Spec};
use crate::scheduler::SubscribeRequest;
use crate::timetable::{Timetable, UtcSecond};

const SCHEDULES: usize = 500;
const REPLICAS: usize = 3;
/// The shortest period and the longest, in seconds.
const PERIODS: (usize, usize) = (10, 30);
/// What a job takes.
const WORK: Duration = SECOND;
/// The minutes of each build.
const SHORT: u64 = 2;

/// A run that was granted: of what, and how long after it was due.
struct Started {
    schedule: usize,
    occurrence: UtcSecond,
    attempt: u32,
    late: Duration,
}

fn spec(schedule: usize, spread: Duration) -> Spec {
    let (first, last) = PERIODS;
    let seconds = first + schedule % (last - first + 1);
    let timetable = Timetable::parse(&format!("@every {seconds}s"), "UTC").unwrap();
    Spec { spread, ..Spec::new(timetable) }
}

async fn replica(
    sidecar: Sidecar,
    schedule: usize,
    spread: Duration,
    runs: UnboundedSender<Started>,
) {
    let function = format!("often-{schedule}");
    let spec = spec(schedule, spread);
    let timetable = spec.timetable.clone();
    let request = SubscribeRequest { key: key(&function), ..subscription(spec) };
    let name = path(&function);
    let mut stream = sidecar.scheduler.subscribe(request).unwrap();
    standby(&mut stream).await;
    loop {
        let granted = run(&mut stream).await;
        let (occurrence, attempt) = (granted.told.scheduled_at, granted.told.attempt);
        let offset = timetable.spread_offset(name.as_str().as_bytes(), spread, occurrence);
        let due = u64::try_from(occurrence.0).unwrap() * 1_000;
        let due = due + u64::try_from(offset.as_millis()).unwrap();
        let wall = sidecar.coordinator.clock().wall().0;
        assert!(wall >= due, "T7: {occurrence} is early");
        let late = Duration::from_millis(wall - due);
        if runs.send(Started { schedule, occurrence, attempt, late }).is_err() {
            return;
        }
        tokio::time::sleep(WORK).await;
        complete(&sidecar, &granted, Report::Succeeded).await;
    }
}

/// Runs them all, and judges what ran: the lateness that 99 of 100 keep.
async fn p99(spread: Duration, starts_per_second: usize) -> Duration {
    let minutes = std::env::var("LEASEHOLD_TEST_HOUR_MINUTES").ok();
    let minutes = minutes.map_or(SHORT, |minutes| minutes.parse().unwrap());
    let account = Account::new();
    let (sender, mut runs) = unbounded_channel();
    for seed in 0..REPLICAS {
        let sidecar = account.sidecar_with(Arc::new(NoObserver), seed as u64, |settings| {
            settings.starts_per_second = starts_per_second;
        });
        sidecar.delay_everything();
        for schedule in 0..SCHEDULES {
            tokio::spawn(replica(sidecar.clone(), schedule, spread, sender.clone()));
        }
    }
    let until = UtcSecond(START.0 + i64::try_from(minutes * 60).unwrap());
    // What was due before is run by then.
    let over = tokio::time::sleep(Duration::from_secs(minutes * 60) + MINUTE);
    tokio::pin!(over);
    let mut ran = BTreeMap::<usize, Vec<UtcSecond>>::new();
    let mut lateness = Vec::new();
    loop {
        let started = tokio::select! {
            started = runs.recv() => started.unwrap(),
            () = &mut over => break,
        };
        if started.occurrence <= until {
            assert_eq!(started.attempt, 1, "T8: {} is run again", started.occurrence);
            ran.entry(started.schedule).or_default().push(started.occurrence);
            lateness.push(started.late);
        }
    }
    for schedule in 0..SCHEDULES {
        let timetable = spec(schedule, spread).timetable;
        let due: Vec<_> =
            timetable.occurrences_after(START).take_while(|at| *at <= until).collect();
        assert_eq!(ran.get(&schedule), Some(&due), "T2, T9: schedule {schedule}");
    }
    lateness.sort();
    let p99 = lateness[lateness.len() * 99 / 100];
    println!(
        "{SCHEDULES} schedules for {minutes} minutes, spread {spread:?}, {starts_per_second} starts a second: {} runs, \
         p50 {:?}, p99 {p99:?}, last {:?}",
        lateness.len(),
        lateness[lateness.len() / 2],
        lateness[lateness.len() - 1]
    );
    p99
}

#[tokio::test(start_paused = true)]
async fn t13_five_hundred_schedules_of_seconds_at_three_sidecars_are_run_once_within_five_seconds()
{
    let late = p99(Duration::ZERO, 50).await;
    assert!(late <= 5 * SECOND, "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn t13_five_hundred_schedules_of_seconds_that_are_spread_are_run_within_two_seconds() {
    let late = p99(5 * SECOND, 50).await;
    assert!(late <= 2 * SECOND, "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn t13_five_hundred_schedules_of_seconds_at_200_starts_a_second_are_run_within_two_seconds() {
    let late = p99(Duration::ZERO, 200).await;
    assert!(late <= 2 * SECOND, "{late:?}");
}
