use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::lock::{FencingToken, LockPath};
use crate::record::{Fields, Found, Verdict};
use crate::schedule::record::{Outcome, Run};
use crate::schedule::{
    Beside, DecisionInput, Definition, Plan, Spec, Start, Starting, Subscription, start_over,
};
use crate::time::UnixMillis;
use crate::timetable::Timetable;

const DOTNET: &str = r#"{"Last":"2026-11-22T02:00:00.1075034+01:00","Next":"2026-11-22T03:00:00+01:00","LastUpdated":"2026-11-22T02:00:00.1075034+01:00"}"#;

fn at(text: &str) -> UtcSecond {
    text.parse().unwrap()
}

fn token() -> FencingToken {
    FencingToken::from_u64(4_096).unwrap()
}

fn ended(instant: &str, outcome: Outcome) -> Ended {
    Ended { occasion: Occasion::Scheduled(at(instant)), outcome, attempt: 1, token: Some(token()) }
}

/// A record that is final up to `watermark`, with the run of `next` going on.
fn running(watermark: &str, next: &str) -> ScheduleRecord {
    let run = Run {
        occasion: Occasion::Scheduled(at(next)),
        attempt: 1,
        token: token(),
        started: at(next),
        deadline: None,
        stop_grace: Duration::ZERO,
    };
    let plan = PlanVersion { number: 3, hash: "hash".to_owned() };
    let base = taken_over(at(watermark), Some(at(next)));
    ScheduleRecord { plan, run: Some(run), ..base }
}

fn done(watermark: &str, next: &str, outcome: Outcome) -> ScheduleRecord {
    let mut record = running(watermark, next);
    record.run = None;
    record.outcome = Some(outcome);
    record.push(ended(watermark, outcome));
    record
}

#[test]
fn t22_a_status_of_dotnet_is_the_watermark() {
    for text in [DOTNET, &DOTNET.replace("02:00:00.1075034+01:00", "01:00:00.1075034Z")] {
        let status = SharedStatus::parse(text).unwrap();
        assert_eq!(status.done_up_to(), Some(at("2026-11-22T01:00:00Z")), "{text}");
        let record = status.over(None).unwrap();
        assert_eq!((record.watermark, record.run), (at("2026-11-22T01:00:00Z"), None));
        assert_eq!(record.next, Some(at("2026-11-22T02:00:00Z")));
    }
}

#[test]
fn t22_of_status_and_record_the_later_one_counts() {
    let status = SharedStatus::parse(DOTNET).unwrap();
    // .NET has run what stands in the record as running: its sidecar is gone.
    let stale = running("2026-11-22T00:00:00Z", "2026-11-22T01:00:00Z");
    let record = status.over(Some(stale)).unwrap();
    assert_eq!((record.watermark, &record.run), (at("2026-11-22T01:00:00Z"), &None));
    assert_eq!(record.plan.number, 3);
    // A host of .NET that writes long after its lease takes nothing back.
    let newer = done("2026-11-22T02:00:00Z", "2026-11-22T03:00:00Z", Outcome::Succeeded);
    assert_eq!(status.over(Some(newer.clone())), Some(newer.clone()));
    let forward = status.after(&newer).unwrap();
    assert_eq!(forward.done_up_to(), Some(newer.watermark));
    // A run between two occurrences, at a host's start, ends no run of the next one.
    let going_on = running("2026-11-21T00:00:00Z", "2026-11-23T00:00:00Z");
    let record = status.over(Some(going_on.clone())).unwrap();
    assert_eq!(record, ScheduleRecord { watermark: at("2026-11-22T01:00:00Z"), ..going_on });
}

#[test]
fn t22_a_status_is_written_as_dotnet_writes_it_and_unknown_fields_are_kept() {
    let text = DOTNET.replace("}", r#","Owner":{"a":[1,"b\""]}}"#);
    let status = SharedStatus::parse(&text).unwrap();
    let record = done("2026-11-22T02:00:00Z", "2026-11-22T03:00:00Z", Outcome::Succeeded);
    let written = status.after(&record).unwrap();
    assert_eq!(
        written.text(),
        r#"{"Last":"2026-11-22T02:00:00+00:00","Next":"2026-11-22T03:00:00+00:00","LastUpdated":"2026-11-22T02:00:00+00:00","Owner":{"a":[1,"b\""]},"Leasehold":"2026-11-22T02:00:00Z/SUCCEEDED/1/4096"}"#
    );
    assert_eq!(SharedStatus::parse(written.text()).unwrap(), written);
    assert_eq!(written.after(&record), None);
}

#[test]
fn t22_the_first_status_says_never_as_dotnet_does() {
    let mut record = taken_over(at("2026-11-22T02:10:00Z"), Some(at("2026-11-22T03:00:00Z")));
    let made = SharedStatus::default().after(&record).unwrap();
    assert_eq!(
        made.text(),
        r#"{"Last":"0001-01-01T00:00:00+00:00","Next":"2026-11-22T03:00:00+00:00","LastUpdated":"2026-11-22T02:10:00+00:00"}"#
    );
    assert_eq!(SharedStatus::parse(made.text()).unwrap(), made);
    assert_eq!(made.over(None).map(|record| record.watermark), Some(record.watermark));
    record.next = None;
    let last = SharedStatus::default().after(&record).unwrap();
    SharedStatus::parse(last.text()).unwrap();
}

#[test]
fn t22_a_timer_that_never_ran_says_nothing() {
    let text = r#"{"Last":"0001-01-01T00:00:00","Next":"0001-01-01T00:00:00","LastUpdated":"0001-01-01T00:00:00"}"#;
    let status = SharedStatus::parse(text).unwrap();
    assert_eq!((status.done_up_to(), status.over(None)), (None, None));
}

#[test]
fn t22_a_crash_between_the_two_writes_loses_no_outcome() {
    let before = running("2026-11-22T01:00:00Z", "2026-11-22T02:00:00Z");
    let after = done("2026-11-22T02:00:00Z", "2026-11-22T03:00:00Z", Outcome::FailedFinal);
    let status = SharedStatus::parse(DOTNET).unwrap().after(&after).unwrap();
    let record = status.over(Some(before)).unwrap();
    assert_eq!((record.watermark, record.outcome), (after.watermark, Some(Outcome::FailedFinal)));
    assert_eq!((&record.ended, &record.run), (&after.ended, &None));
    // Once the record has it too, it does not come twice.
    assert_eq!(status.over(Some(after.clone())), Some(after));
}

#[test]
fn t22_a_broken_status_is_refused() {
    for broken in ["", "[]", r#"{"Last":1}"#, &DOTNET.replace("Next", "Nxt")] {
        SharedStatus::parse(broken).unwrap_err();
    }
    let no_offset = SharedStatus::parse(&DOTNET.replace("+01:00", "")).unwrap_err();
    assert!(no_offset.to_string().contains("offset"), "{no_offset}");
}

/// The ground of an hourly schedule that began half an hour before `due`, a little after that.
fn ground(due: UtcSecond) -> DecisionInput {
    let spec = Spec::new(Timetable::parse("0 * * * *", "UTC").unwrap());
    let definition = Definition::new(spec).unwrap();
    let path: LockPath = "leasehold/locks/nightly".parse().unwrap();
    let definition = &definition;
    let new = Subscription { path: &path, definition, is_new: true, runs_at_once: false };
    let plan = Plan::subscribed(None, &new, None, UtcSecond(due.0 - 1_800)).write.unwrap();
    DecisionInput {
        path,
        plan: Arc::new(plan),
        plan_at: None,
        newest: None,
        lease_duration: Duration::from_secs(15),
        queued: Duration::ZERO,
        store_time: UnixMillis(due.0.unsigned_abs() * 1_000 + 5_000),
    }
}

#[test]
fn t22_a_start_over_its_own_write_leaves_alone_what_dotnet_has_done_since() {
    let due = at("2026-11-22T01:00:00Z");
    let (ground, nothing) = (ground(due), Beside::default());
    let found = |fields, epoch: u64| {
        let token = FencingToken::from_u64(epoch * 4_096).unwrap();
        Found { fields, token, store_time: ground.store_time }
    };
    let (verdict, _) = start_over(&found(Fields::new(), 1), &ground, &nothing);
    let Verdict::Grant { fields, .. } = verdict else { panic!("it is due: {verdict:?}") };
    // Written, and never granted: the lease was gone, and a host of .NET ran the occurrence.
    let status = Some(SharedStatus::parse(DOTNET).unwrap());
    let own = found(fields, 2);
    let (verdict, start) = start_over(&own, &ground, &Beside { status, ..Beside::default() });
    assert_eq!(verdict, Verdict::Nothing);
    let Start { what: Starting::Nothing { record: Some(record) }, went_back: false } = start else {
        panic!("{start:?}")
    };
    assert_eq!((record.watermark, record.run), (due, None));
    assert_eq!(record.next, Some(at("2026-11-22T02:00:00Z")));
    // Where nobody has run it, it was an attempt, and that is written.
    let (verdict, _) = start_over(&own, &ground, &nothing);
    assert!(!matches!(verdict, Verdict::Nothing), "{verdict:?}");
}
