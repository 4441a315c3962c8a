//! Schedules that begin where another scheduler has stopped (T22).

use leasehold::record::Fields;
use leasehold::schedule::*;

use crate::schedule::rig::{Rig, at, path, plan_of, spec};

const DONE: &str = "2026-01-05T00:00:00Z";

fn take_over(done_up_to: &str) -> TakeOver {
    TakeOver { done_up_to: at(done_up_to), next: Some(at("01:00:00")), replace: false }
}

/// Stored and read again.
fn kept(record: ScheduleRecord) -> ScheduleRecord {
    ScheduleRecord::from_fields(&record.into_fields(Fields::new())).unwrap().unwrap()
}

/// A timer that ran last at midnight, taken over, and subscribed to first at `now`.
fn subscribed(spec: Spec, now: &str) -> Rig {
    let record = kept(take_over(DONE).over(None, None).unwrap().unwrap());
    let mut rig = Rig::new(spec.clone());
    let definition = Definition::new(spec).unwrap();
    let plan = plan_of(None, &definition, true, Some(&record), at(now));
    rig.plan = plan.write.unwrap();
    rig.record = Some(record);
    rig
}

#[test]
fn t22_what_came_due_since_the_timers_last_run_is_missed() {
    let mut rig = subscribed(spec("0 * * * *"), "03:10:00");
    assert_eq!(waited_for(&rig.plan, rig.record.as_ref()), Some(at("01:00:00")));
    let told = rig.start_at("03:10:00").unwrap();
    assert_eq!((told.scheduled_at, told.missed_count), (at("03:00:00"), 2));
    assert_eq!(told.attempt, 1);
}

#[test]
fn t22_all_that_was_missed_is_run_where_that_is_chosen() {
    let mut all = spec("0 * * * *");
    all.catch_up = CatchUp::All(100);
    let mut rig = subscribed(all, "03:10:00");
    assert_eq!(rig.start_at("03:10:00").unwrap().scheduled_at, at("01:00:00"));
}

#[test]
fn t22_what_the_timer_has_done_is_not_run_again() {
    // Its last run began a moment after it was due.
    let mut rig = subscribed(spec("0 0 * * *"), "03:10:00");
    assert_eq!(rig.look_at("03:10:00"), Decision::Wait(Some(at("2026-01-06T00:00:00Z"))));
    assert!(rig.start_at("2026-01-05T23:59:59Z").is_none());
    assert!(rig.start_at("2026-01-06T00:00:00Z").is_some());
}

#[test]
fn t22_the_import_counts_also_where_somebody_had_subscribed_before() {
    // A plan without a record, of 00:30.
    let mut rig = Rig::hourly();
    let import = TakeOver { replace: true, ..take_over("2026-01-04T20:30:00Z") };
    let refused = take_over("2026-01-04T20:30:00Z").over(None, Some(&rig.plan));
    assert_eq!(refused, Err(TakeOverError::Exists { done_up_to: None }));
    rig.record = Some(kept(import.over(None, Some(&rig.plan)).unwrap().unwrap()));
    let told = rig.start_at("00:40:00").unwrap();
    assert_eq!((told.scheduled_at, told.missed_count), (at("00:00:00"), 3));
}

#[test]
fn t22_a_definition_that_comes_later_finds_what_was_missed_too() {
    let mut rig = subscribed(spec("0 * * * *"), "00:30:00");
    let newer = Definition::new(spec("30 * * * *")).unwrap();
    let plan = plan_of(Some(&rig.plan), &newer, true, rig.record.as_ref(), at("03:10:00"));
    rig.plan = plan.write.unwrap();
    let told = rig.start_at("03:10:00").unwrap();
    assert_eq!((told.scheduled_at, told.missed_count), (at("02:30:00"), 2));
}

#[test]
fn t22_an_import_may_be_repeated_and_corrected_until_somebody_subscribes() {
    let first = kept(take_over(DONE).over(None, None).unwrap().unwrap());
    assert_eq!(take_over(DONE).over(Some(&first), None), Ok(None), "it stands there");
    let earlier = take_over("2026-01-04T00:00:00Z");
    let refused = earlier.over(Some(&first), None);
    assert_eq!(refused, Err(TakeOverError::Exists { done_up_to: Some(at(DONE)) }));
    let replacing = TakeOver { replace: true, ..earlier };
    let corrected = replacing.over(Some(&first), None).unwrap().unwrap();
    assert_eq!(corrected.watermark, at("2026-01-04T00:00:00Z"));
    let refused = replacing.over(Some(&first), Some(&Rig::hourly().plan));
    assert!(matches!(refused, Err(TakeOverError::Older { .. })), "{refused:?}");
}

#[test]
fn t21_an_import_never_goes_back_and_never_over_a_run() {
    let mut rig = Rig::hourly();
    let run = rig.start_at("01:00:00").unwrap();
    let later = TakeOver { replace: true, ..take_over("02:30:00") };
    assert_eq!(later.over(rig.record.as_ref(), Some(&rig.plan)), Err(TakeOverError::Running));
    let reported = report(&rig.view(Lease::Here { running: true }), &run.run_id, Report::Succeeded);
    let Reported::Write { record, .. } = reported else { panic!("{reported:?}") };
    let back = TakeOver { replace: true, ..take_over("00:30:00") };
    let refused = back.over(Some(&record), Some(&rig.plan));
    assert!(matches!(refused, Err(TakeOverError::Older { .. })), "{refused:?}");
    let written = later.over(Some(&record), Some(&rig.plan)).unwrap().unwrap();
    assert_eq!((written.watermark, written.ended.len()), (at("02:30:00"), 1));
    rig.record = Some(kept(written));
    assert_eq!(rig.look_at("02:40:00"), Decision::Wait(Some(at("03:00:00"))));
    assert_eq!(path(), run.run_id.path);
}

#[test]
fn t22_a_lock_that_was_taken_over_has_a_schedule() {
    let record = take_over(DONE).over(None, None).unwrap().unwrap();
    assert!(!is_of_occurrences(&record));
    assert_eq!(record.next, Some(at("01:00:00")), "people see when the timer was to run next");
}

#[test]
fn t22_t25_an_import_counts_after_a_reset_and_after_a_removal() {
    let by = |now| Intervention { at: at(now), reason: String::new(), caller: String::new() };
    let import = TakeOver { replace: true, ..take_over("02:30:00") };
    let reset = |plan: &Plan| plan.reset_to(Some(at("00:30:00")), None, by("03:10:00"));
    let removed = |plan: &Plan| plan.remove(by("03:10:00")).unwrap();
    for (change, is_removed) in [(&reset as &dyn Fn(&Plan) -> Plan, false), (&removed, true)] {
        for ran in [true, false] {
            let mut rig = Rig::hourly();
            if ran {
                rig.run_at("01:00:00");
            }
            rig.plan = change(&rig.plan);
            let written = import.over(rig.record.as_ref(), Some(&rig.plan)).unwrap().unwrap();
            rig.record = Some(kept(written));
            if is_removed {
                let repeated = import.over(rig.record.as_ref(), Some(&rig.plan));
                assert_eq!(repeated, Ok(None), "it stands there");
                let definition = rig.plan.definition();
                let record = rig.record.as_ref();
                let begun = plan_of(Some(&rig.plan), definition, true, record, at("03:15:00"));
                rig.plan = begun.write.unwrap();
            }
            let told = rig.start_at("03:20:00").unwrap();
            assert_eq!((told.scheduled_at, told.missed_count), (at("03:00:00"), 0), "{ran}");
        }
    }
}

#[test]
fn t22_t25_what_a_run_has_written_since_a_removal_is_no_import() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:00");
    let by = Intervention { at: at("01:10:00"), reason: String::new(), caller: String::new() };
    rig.plan = rig.plan.remove(by).unwrap();
    // It was about to begin, and has written the number of the removal.
    rig.run_at("02:00:00");
    let earlier = take_over("00:10:00").over(rig.record.as_ref(), Some(&rig.plan));
    let written = kept(earlier.unwrap().unwrap());
    assert!(written.reset > rig.record().reset, "it is of the schedule before");
    rig.record = Some(written);
    let (definition, record) = (rig.plan.definition(), rig.record.as_ref());
    let begun = plan_of(Some(&rig.plan), definition, true, record, at("03:10:00"));
    rig.plan = begun.write.unwrap();
    let told = rig.start_at("03:20:00").unwrap();
    assert_eq!((told.scheduled_at, told.missed_count), (at("03:00:00"), 2));
}
