//! How runs end (T2, T8, T11, T12, T20).

use leasehold::schedule::*;

use crate::schedule::rig::{Rig, at, scheduled, seconds};

#[test]
fn t2_an_occurrence_with_an_outcome_is_never_granted_again() {
    for how in [Report::Succeeded, Report::FailedFinal, Report::TimedOut] {
        let mut rig = Rig::hourly();
        let told = rig.start_at("01:00:00").unwrap();
        assert_eq!(rig.report_at("01:10:00", &told, how), None);
        assert_eq!(rig.look_at("01:10:00"), Decision::Wait(Some(at("02:00:00"))), "{how:?}");
        assert_eq!(rig.record().watermark, at("01:00:00"));
    }
}

#[test]
fn t8_a_report_is_recorded_once_and_repeats_are_told_so() {
    let mut rig = Rig::hourly();
    let told = rig.start_at("01:00:00").unwrap();
    let asked = |rig: &Rig, how, lease| report(&rig.view(lease), &told.run_id, how);
    assert_eq!(asked(&rig, Report::Succeeded, Lease::Free), Reported::AcquireFirst);
    assert_eq!(asked(&rig, Report::Succeeded, Lease::Elsewhere), Reported::HeldElsewhere);
    rig.report_at("01:10:00", &told, Report::Succeeded);
    for lease in [Lease::Free, Lease::Elsewhere, Lease::Here { running: false }] {
        assert_eq!(asked(&rig, Report::Succeeded, lease), Reported::Recorded);
        assert_eq!(asked(&rig, Report::Failed, lease), Reported::Superseded);
    }
    // Also when others ran since.
    rig.run_at("02:00:00");
    assert_eq!(asked(&rig, Report::Succeeded, Lease::Free), Reported::Recorded);
}

#[test]
fn t8_a_late_report_counts_only_while_nobody_was_granted_since() {
    let mut rig = Rig::hourly();
    let told = rig.start_at("01:00:00").unwrap();
    rig.now = at("01:00:30");
    let late = report(&rig.view(Lease::Here { running: false }), &told.run_id, Report::Succeeded);
    assert!(matches!(late, Reported::Write { retry_at: None, .. }), "{late:?}");
    let second = rig.start_at("01:00:40").unwrap();
    let late = |rig: &Rig| report(&rig.view(Lease::Free), &told.run_id, Report::Succeeded);
    assert_eq!(late(&rig), Reported::Superseded);
    rig.report_at("01:01:00", &second, Report::Succeeded);
    assert_eq!(late(&rig), Reported::Superseded);
    rig.record = None;
    assert_eq!(late(&rig), Reported::Superseded);
}

#[test]
fn t11_failures_are_retried_with_a_wait_that_doubles_up_to_max_attempts() {
    let mut rig = Rig::with("0 2 * * *", |spec| spec.max_attempts = Some(4));
    let told = rig.start_at("02:00:00").unwrap();
    assert_eq!(rig.report_at("02:01:00", &told, Report::Failed), Some(at("02:01:10")));
    assert_eq!(rig.look_at("02:01:09"), Decision::RetryLater(at("02:01:10")));
    let told = rig.start_at("02:01:10").unwrap();
    assert_eq!((told.attempt, told.max_attempts), (2, 4));
    assert_eq!(rig.report_at("02:02:00", &told, Report::Failed), Some(at("02:02:20")));
    // An abandonment counts too, and is tried again as soon as its lease is over.
    assert_eq!(rig.start_at("02:02:20").unwrap().attempt, 3);
    let told = rig.start_at("02:03:00").unwrap();
    assert_eq!(told.attempt, 4);
    assert_eq!(rig.report_at("02:04:00", &told, Report::Failed), None);
    assert_eq!(
        (rig.record().watermark, rig.record().outcome),
        (at("02:00:00"), Some(Outcome::Failed))
    );
}

#[test]
fn t11_the_wait_is_ten_minutes_at_most() {
    let mut rig = Rig::with("0 2 * * *", |spec| spec.max_attempts = Some(100));
    let mut time = at("02:00:00");
    let mut waits = Vec::new();
    for _ in 0..9 {
        let told = rig.start_at(&time.to_string()).unwrap();
        let retry = rig.report_at(&time.to_string(), &told, Report::Failed).unwrap();
        waits.push(retry.seconds_since(time));
        time = retry;
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
}

#[test]
fn t11_the_last_abandonment_is_a_failure_that_is_written() {
    let mut rig = Rig::with("0 2 * * *", |spec| spec.max_attempts = Some(1));
    rig.start_at("02:00:00").unwrap();
    assert_eq!(rig.look_at("02:01:00"), Decision::Settle);
    assert_eq!(rig.start_at("02:01:00"), None);
    assert_eq!(
        (rig.record().watermark, rig.record().outcome),
        (at("02:00:00"), Some(Outcome::Failed))
    );
}

#[test]
fn t11_retries_end_when_the_next_is_due_unless_all_are_run() {
    for (catch_up, then) in
        [(CatchUp::Latest, "02:00:00"), (CatchUp::None, "02:00:00"), (CatchUp::All(9), "01:00:00")]
    {
        let mut rig = Rig::with("0 * * * *", |spec| spec.catch_up = catch_up);
        let told = rig.start_at("01:00:00").unwrap();
        rig.report_at("01:59:55", &told, Report::Failed);
        let told = rig.start_at("02:00:06").unwrap();
        assert_eq!(told.run_id.occasion, scheduled(then), "{catch_up:?}");
        assert_eq!(told.missed_count, 0, "what was tried was not missed");
    }
}

#[test]
fn t11_t20_a_returned_run_is_not_counted_ten_times() {
    let mut rig = Rig::with("0 2 * * *", |_| {});
    for _ in 0..10 {
        let told = rig.start_at("02:00:00").unwrap();
        assert_eq!(told.attempt, 1);
        assert_eq!(rig.report_at("02:00:00", &told, Report::Returned), None);
        assert_eq!(rig.look_at("02:00:00"), Decision::Run(scheduled("02:00:00")), "at once");
    }
    let told = rig.start_at("02:00:00").unwrap();
    assert_eq!(rig.report_at("02:00:00", &told, Report::Returned), Some(at("02:00:10")));
    assert_eq!(rig.start_at("02:00:10").unwrap().attempt, 2);
}

#[test]
fn t12_a_run_that_timed_out_is_not_tried_again() {
    let mut rig = Rig::with("0 2 * * *", |spec| {
        spec.run_timeout = RunTimeout::Duration(seconds(60));
    });
    let told = rig.start_at("02:00:00").unwrap();
    rig.report_at("02:01:00", &told, Report::TimedOut);
    assert_eq!(rig.record().outcome, Some(Outcome::TimedOut));
    assert_eq!(rig.look_at("02:01:00"), Decision::Wait(Some(at("2026-01-06T02:00:00Z"))));
}
