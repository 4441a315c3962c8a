//! Completions, operators' calls, and previews.

use std::collections::BTreeSet;
use std::time::Duration;

use tonic::Status;

use super::super::{from_proto, to_proto};
use super::{cron, key, nightly, run_id, seconds, violations};
use crate::grpc::proto;
use crate::lock::LockPath;
use crate::schedule::Report;
use crate::scheduler::ScheduleChange;
use crate::timetable::UtcSecond;

fn completed(outcome: proto::RunOutcome) -> proto::CompleteRunRequest {
    let run_id = run_id().to_string();
    proto::CompleteRunRequest { run_id, outcome: outcome.into(), ..Default::default() }
}

#[test]
fn t8_a_caller_says_four_outcomes_and_no_other() {
    use proto::RunOutcome;
    let read =
        |outcome| from_proto::complete(completed(outcome)).map(|(request, _)| request.report);
    assert_eq!(read(RunOutcome::Succeeded).unwrap(), Report::Succeeded);
    assert_eq!(read(RunOutcome::Failed).unwrap(), Report::Failed);
    assert_eq!(read(RunOutcome::FailedFinal).unwrap(), Report::FailedFinal);
    assert_eq!(read(RunOutcome::Returned).unwrap(), Report::Returned);
    for (outcome, problem) in [
        (RunOutcome::Unspecified, "is required"),
        (RunOutcome::TimedOut, "TIMED_OUT is not for callers"),
        (RunOutcome::Abandoned, "ABANDONED is not for callers"),
        (RunOutcome::Skipped, "SKIPPED is not for callers"),
    ] {
        let found = violations(&read(outcome).unwrap_err());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "outcome");
        assert!(found[0].1.contains(problem), "{found:?}");
    }
}

#[test]
fn t8_wrong_fields_of_a_completion_are_named_at_once() {
    let wrong = proto::CompleteRunRequest {
        lease_id: "not one".to_owned(),
        run_id: "x".to_owned(),
        outcome: 99,
        checkpoint: Some(vec![0; 100_000]),
        ..Default::default()
    };
    let fields = |request| -> Vec<String> {
        let found = violations(&from_proto::complete(request).unwrap_err());
        found.into_iter().map(|(field, _)| field).collect()
    };
    assert_eq!(fields(wrong), ["lease_id", "run_id", "outcome", "checkpoint"]);
    let mut cut = completed(proto::RunOutcome::Failed);
    cut.run_id.pop();
    assert_eq!(fields(cut), ["run_id"]);
    assert_eq!(fields(proto::CompleteRunRequest::default()), ["run_id", "outcome"]);
}

#[test]
fn what_went_wrong_is_kept_on_one_line_of_512_bytes() {
    let detail = |text: &str| {
        let mut request = completed(proto::RunOutcome::Failed);
        request.detail = text.to_owned();
        from_proto::complete(request).unwrap().0.detail
    };
    assert_eq!(detail("at line 7:\n\tno such file"), "at line 7:  no such file");
    assert_eq!(detail(&"é".repeat(300)).len(), 512);
    assert_eq!(detail(&format!("x{}", "é".repeat(300))).len(), 511);
}

#[test]
fn t18_a_request_for_a_run_by_hand_has_an_id_and_a_lock() {
    let ask = |lock, request_id: &str| {
        let request_id = request_id.to_owned();
        from_proto::trigger(proto::TriggerScheduleRequest { lock, request_id })
    };
    let lock = |permit| {
        let lock = key("nightly").map(proto::lock_selector::Lock::Key);
        Some(proto::LockSelector { lock, permit })
    };
    let asked = ScheduleChange::Trigger { request_id: "Release_7.1-b".to_owned() };
    assert_eq!(ask(lock(0), "Release_7.1-b").unwrap().1, asked);
    for wrong in ["", "a b", "ü", &"x".repeat(65), "a/b"] {
        assert_eq!(violations(&ask(lock(0), wrong).unwrap_err())[0].0, "request_id", "{wrong}");
    }
    let found = violations(&ask(None, "").unwrap_err());
    let fields: Vec<&str> = found.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["lock", "request_id"]);
    let found = violations(&from_proto::selector(lock(1)).unwrap_err());
    assert_eq!(found[0].0, "lock.permit");
}

fn preview(request: proto::PreviewScheduleRequest) -> Result<from_proto::Preview, Status> {
    from_proto::preview(request)
}

#[test]
fn t14_a_preview_shows_the_instants_as_the_clocks_of_the_zone_show_them() {
    let spec = proto::ScheduleSpec { time_zone: "Europe/Copenhagen".to_owned(), ..nightly() };
    let after: UtcSecond = "2026-03-27T12:00:00Z".parse().unwrap();
    let asked = proto::PreviewScheduleRequest {
        spec: Some(spec),
        // Whole seconds are due: a fraction changes nothing.
        after: Some(prost_types::Timestamp { seconds: after.0, nanos: 999_999_999 }),
        count: 3,
        key: None,
        needs: 0,
    };
    let answered = to_proto::preview(&preview(asked).unwrap(), None, UtcSecond(0));
    let understood = answered.understood.unwrap();
    assert_eq!(understood.expression, "30 2 * * *");
    assert_eq!(understood.description, "every day at 02:30, Europe/Copenhagen");
    assert!(!understood.zone_data.is_empty());
    let local: Vec<&str> = answered.occurrences.iter().map(|one| one.local_time.as_str()).collect();
    let expected =
        ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"];
    assert_eq!(local, expected, "the clocks jump from 2:00 to 3:00");
    assert!(answered.occurrences.iter().all(|one| one.starts_at.is_none()));
}

#[test]
fn t13_a_preview_with_a_key_shows_when_each_one_starts() {
    let spec = proto::ScheduleSpec { spread: seconds(600), ..nightly() };
    let asked =
        proto::PreviewScheduleRequest { spec: Some(spec), key: key("f"), ..Default::default() };
    let asked = preview(asked).unwrap();
    let path: LockPath = "locks/host/f".parse().unwrap();
    let answered = to_proto::preview(&asked, Some(&path), UtcSecond(1_800_000_000));
    assert_eq!(answered.occurrences.len(), 10);
    let timetable = &asked.definition.timetable;
    let offsets = answered.occurrences.iter().map(|one| {
        let (at, starts_at) = (one.at.unwrap().seconds, one.starts_at.unwrap().seconds);
        let name = path.as_str().as_bytes();
        let offset = timetable.spread_offset(name, Duration::from_secs(600), UtcSecond(at));
        assert_eq!(starts_at - at, i64::try_from(offset.as_secs()).unwrap());
        starts_at - at
    });
    let offsets: BTreeSet<i64> = offsets.collect();
    assert_eq!(offsets.len(), 1, "it does not change");
    assert!(offsets.iter().all(|offset| (1..=600).contains(offset)), "{offsets:?}");
}

#[test]
fn s19_wrong_fields_of_a_preview_are_named_at_once() {
    let wrong = proto::PreviewScheduleRequest {
        spec: Some(cron("")),
        after: Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }),
        count: 101,
        key: key(""),
        needs: 0,
    };
    let found = violations(&preview(wrong).unwrap_err());
    let fields: Vec<&str> = found.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["spec.cron", "key.function", "after", "count"]);
    let late = proto::PreviewScheduleRequest {
        spec: Some(nightly()),
        after: Some(prost_types::Timestamp { seconds: 253_402_300_799, nanos: 0 }),
        ..Default::default()
    };
    let answered = to_proto::preview(&preview(late).unwrap(), None, UtcSecond(0));
    assert!(answered.occurrences.is_empty(), "the calendar is over");
}
