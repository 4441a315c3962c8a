//! What is shown of schedules (T23).

use std::time::Duration;

use super::super::rig::Rig;
use super::Metrics;
use crate::lock::LeaseId;
use crate::record::Labels;
use crate::schedule::{Definition, Report, Spec};
use crate::scheduler::{
    CompleteRequest, RunGrant, ScheduleEvent, ScheduleStream, SubscribeRequest,
};
use crate::store::{Acquire, LeaseStoreExt as _, MIN_LEASE_DURATION, Write};
use crate::telemetry::Exposition;
use crate::testing::SimClock;
use crate::timetable::Timetable;

const PERIOD: u64 = 600;

fn subscribe(rig: &Rig) -> ScheduleStream {
    subscribe_to(rig, "@every 600s")
}

fn subscribe_to(rig: &Rig, expression: &str) -> ScheduleStream {
    let timetable = Timetable::parse(expression, "UTC").unwrap();
    let spec = Spec { max_attempts: Some(2), ..Spec::new(timetable) };
    let request = SubscribeRequest {
        key: super::super::rig::request("nightly", "").key,
        definition: Definition::new(spec).unwrap(),
        is_new: true,
        holder: None,
        labels: Labels::default(),
        runs_at_once: false,
        resume: None,
    };
    rig.scheduler.subscribe(request).unwrap()
}

async fn run(stream: &mut ScheduleStream) -> RunGrant {
    loop {
        if let ScheduleEvent::Run(run) = stream.next().await.expect("the stream goes on") {
            return *run;
        }
    }
}

async fn complete(rig: &Rig, run: &RunGrant, report: Report) {
    let request = CompleteRequest {
        lease_id: Some(run.grant.lease_id),
        run_id: run.told.run_id.clone(),
        report,
        detail: String::new(),
        generation: Some(run.grant.generation),
        checkpoint: None,
    };
    rig.scheduler.complete_run(request.clone()).await.unwrap();
    // A repeat is no further end.
    rig.scheduler.complete_run(request).await.unwrap();
}

fn ended(rig: &Rig, outcome: &str) -> f64 {
    rig.value(&format!("leasehold_schedule_runs_total{{outcome=\"{outcome}\"}}"))
}

#[tokio::test(start_paused = true)]
async fn t23_runs_are_counted_once_each_by_outcome_and_their_lateness_is_timed() {
    let rig = Rig::paused();
    let mut stream = subscribe(&rig);
    let first = run(&mut stream).await;
    let due = first.told.scheduled_at;
    complete(&rig, &first, Report::Failed).await;
    assert_eq!(rig.value("leasehold_schedules_failing"), 0.0, "it is tried again");
    let again = run(&mut stream).await;
    assert_eq!((again.told.scheduled_at, again.told.attempt), (due, 2));
    complete(&rig, &again, Report::Succeeded).await;
    assert_eq!((ended(&rig, "failed"), ended(&rig, "succeeded")), (1.0, 1.0));
    // An attempt after the first is late on purpose.
    assert_eq!(rig.value("leasehold_schedule_lateness_seconds_count"), 1.0);
    let seconds = |at: crate::timetable::UtcSecond| u32::try_from(at.0).map(f64::from);
    let shown = rig.value("leasehold_schedule_last_success_timestamp_seconds");
    assert_eq!(Ok(shown), seconds(due).or(Ok::<_, ()>(f64::NAN)));
    assert_eq!(rig.value("leasehold_schedule_next_timestamp_seconds") - shown, 600.0);
    let here = ["leasehold_schedules", "leasehold_subscribers"];
    assert_eq!(here.map(|gauge| rig.value(gauge)), [1.0, 1.0]);
    drop(stream);
    rig.pass(1).await;
    assert_eq!(here.map(|gauge| rig.value(gauge)), [0.0, 0.0]);
    assert!(rig.value("leasehold_schedule_next_timestamp_seconds").is_nan(), "nothing is here");
}

#[tokio::test(start_paused = true)]
async fn t23_what_was_missed_is_counted_where_it_is_recorded() {
    let rig = Rig::paused();
    let stream = subscribe(&rig);
    rig.pass(1).await;
    drop(stream);
    // Three are due, of which the newest runs.
    rig.pass(3 * PERIOD + 1).await;
    let mut stream = subscribe(&rig);
    let first = run(&mut stream).await;
    assert_eq!(first.told.missed_count, 2);
    complete(&rig, &first, Report::Succeeded).await;
    assert_eq!(rig.value("leasehold_schedule_missed_total"), 2.0);
    assert_eq!(ended(&rig, "succeeded"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn t23_a_schedule_that_cannot_run_is_late_and_then_silent() {
    let rig = Rig::paused();
    let mut stream = subscribe(&rig);
    let first = run(&mut stream).await;
    complete(&rig, &first, Report::Succeeded).await;
    rig.store.go_down(Duration::MAX);
    rig.pass(PERIOD + 60).await;
    assert_eq!(rig.value("leasehold_schedules_late"), 0.0, "within its grace");
    rig.pass(120).await;
    assert_eq!(rig.value("leasehold_schedules_late"), 1.0);
    assert_eq!(rig.value("leasehold_schedules_silent"), 0.0, "one occurrence is no silence");
    rig.pass(PERIOD).await;
    assert_eq!(rig.value("leasehold_schedules_silent"), 1.0);
    rig.store.go_down(Duration::ZERO);
    let second = run(&mut stream).await;
    assert_eq!(rig.value("leasehold_schedules_late"), 0.0, "it runs");
    complete(&rig, &second, Report::Succeeded).await;
    assert_eq!(rig.value("leasehold_schedules_silent"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn t23_a_schedule_is_a_label_only_where_that_is_configured() {
    let rig = Rig::paused();
    let mut stream = subscribe(&rig);
    let first = run(&mut stream).await;
    complete(&rig, &first, Report::Succeeded).await;
    assert!(!rig.text().contains("nightly"), "{}", rig.text());
    let labelled = Metrics::with_schedule_labels(&SimClock::following_tokio(), true);
    let text = labelled.encode(&rig.scheduler, Exposition::OpenMetrics);
    for time in ["next", "last_success"] {
        let series = format!("leasehold_schedule_{time}_timestamp_seconds{{schedule=\"");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(&series)).collect();
        assert!(matches!(lines[..], [line] if line.contains("/nightly/")), "{lines:?}");
    }
    drop(stream);
    rig.pass(1).await;
    let text = labelled.encode(&rig.scheduler, Exposition::OpenMetrics);
    assert!(!text.contains("nightly"), "it goes with its last subscriber: {text}");
}

#[tokio::test(start_paused = true)]
async fn t23_a_schedule_whose_attempts_are_used_up_is_failing_until_one_succeeds() {
    let rig = Rig::paused();
    let mut stream = subscribe(&rig);
    for report in [Report::Failed, Report::Failed] {
        let run = run(&mut stream).await;
        complete(&rig, &run, report).await;
    }
    assert_eq!(rig.value("leasehold_schedules_failing"), 1.0);
    let abandoned = run(&mut stream).await;
    rig.coordinator
        .release(abandoned.grant.lease_id, Some(abandoned.grant.generation))
        .await
        .unwrap();
    let again = run(&mut stream).await;
    assert_eq!((again.told.attempt, ended(&rig, "abandoned")), (2, 1.0));
    complete(&rig, &again, Report::Succeeded).await;
    assert_eq!(rig.value("leasehold_schedules_failing"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn t23_definitions_that_differ_are_counted() {
    let rig = Rig::paused();
    let _first = subscribe(&rig);
    rig.pass(1).await;
    assert_eq!(rig.value("leasehold_schedule_conflicts_total"), 0.0);
    let _second = subscribe_to(&rig, "@every 900s");
    rig.pass(1).await;
    assert_eq!(rig.value("leasehold_schedule_conflicts_total"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn t23_a_record_that_fell_back_is_counted() {
    let rig = Rig::paused();
    let mut stream = subscribe(&rig);
    let mut older = None;
    for _ in 0..2 {
        let run = run(&mut stream).await;
        complete(&rig, &run, Report::Succeeded).await;
        rig.pass(1).await;
        let path = run.grant.path.clone();
        let stored = rig.store.read_record(&path).await.unwrap();
        older = older.or(Some((path, stored.fields)));
    }
    let (path, fields) = older.unwrap();
    // Somebody restores a copy.
    let lease_id = LeaseId::from_uuid(uuid::Uuid::from_u128(7));
    let acquire = Acquire { lease_id, duration: MIN_LEASE_DURATION, if_match: None };
    rig.store.acquire(&path, acquire).await.unwrap();
    rig.store.write_record(&path, Write { lease_id, if_match: None, fields }).await.unwrap();
    rig.store.release(&path, lease_id, None).await.unwrap();
    assert_eq!(rig.value("leasehold_schedule_went_back_total"), 0.0);
    let next = run(&mut stream).await;
    assert_eq!(rig.value("leasehold_schedule_went_back_total"), 1.0);
    complete(&rig, &next, Report::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn t5_t16_t23_what_is_waited_for_is_what_the_plan_in_force_says() {
    let rig = Rig::paused();
    let mut stream = subscribe(&rig);
    let first = run(&mut stream).await;
    complete(&rig, &first, Report::Succeeded).await;
    let _other = subscribe_to(&rig, "@every 7200s");
    // Its own next one would have been due for long.
    rig.pass(3 * PERIOD).await;
    assert_eq!(rig.value("leasehold_schedules_late"), 0.0);
    let next = rig.value("leasehold_schedule_next_timestamp_seconds");
    assert_eq!(next.rem_euclid(7_200.0), 0.0);
}
