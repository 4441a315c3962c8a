//! What runs when (T1, T4 to T7, T9, T12, T13, T18, T21).

use leasehold::schedule::*;
use leasehold::timetable::UtcSecond;

use crate::schedule::rig::{Rig, at, scheduled, seconds};

#[test]
fn t5_a_first_subscription_never_runs_the_past() {
    let mut rig = Rig::hourly();
    assert_eq!(rig.look_at("00:59:59"), Decision::Wait(Some(at("01:00:00"))));
    assert_eq!(rig.start_at("00:59:59"), None);
    assert_eq!(rig.record, None, "nothing is written before the first run");
}

#[test]
fn t4_t6_a_start_writes_the_run_and_its_token_before_the_grant() {
    let mut rig = Rig::hourly();
    assert_eq!(rig.look_at("01:00:00"), Decision::Run(scheduled("01:00:00")));
    let told = rig.start_at("01:00:00").unwrap();
    let run = rig.record().run.clone().unwrap();
    assert_eq!(
        (run.attempt, run.token, run.occasion),
        (1, told.run_id.token, scheduled("01:00:00"))
    );
    assert_eq!(rig.record().watermark, at("00:30:00"), "the work is not done yet");
    assert_eq!(look(&rig.view(Lease::Elsewhere)).decision, Decision::Busy);
    assert_eq!(look(&rig.view(Lease::Here { running: true })).decision, Decision::Busy);
}

#[test]
fn t4_a_run_whose_lease_is_over_is_run_again_with_the_next_attempt() {
    let mut rig = Rig::hourly();
    let first = rig.start_at("01:00:00").unwrap();
    let second = rig.start_at("01:00:20").unwrap();
    assert_eq!((second.attempt, second.run_id.occasion), (2, first.run_id.occasion));
    assert!(second.run_id.token > first.run_id.token);
    assert_eq!(second.previous.unwrap().outcome, Outcome::Abandoned);
}

#[test]
fn t6_a_start_without_the_lease_grants_nothing() {
    let mut rig = Rig::hourly();
    rig.now = at("01:00:00");
    let token = leasehold::lock::FencingToken::from_u64(9).unwrap();
    for lease in [Lease::Free, Lease::Elsewhere] {
        assert_eq!(start(&rig.view(lease), token), Started::Nothing);
    }
    assert_eq!(look(&rig.view(Lease::Elsewhere)).decision, Decision::Busy, "a plain hold (T19)");
}

#[test]
fn t5_everybody_waits_for_the_records_next_whatever_the_zone_data_says() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:00");
    rig.record.as_mut().unwrap().next = Some(at("02:10:00"));
    assert_eq!(rig.look_at("02:05:00"), Decision::Wait(Some(at("02:10:00"))));
    assert_eq!(rig.start_at("02:10:00").unwrap().run_id.occasion, scheduled("02:10:00"));
}

#[test]
fn t7_a_watermark_ahead_of_the_stores_time_is_told_and_never_rewound() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:00");
    rig.now = at("00:40:00");
    let looked = look(&rig.view(Lease::Free));
    assert!(looked.is_ahead);
    assert_eq!(looked.decision, Decision::Wait(Some(at("02:00:00"))));
    assert_eq!(rig.start_at("00:40:00"), None);
}

#[test]
fn t9_latest_runs_the_newest_however_late_and_counts_the_others() {
    let mut rig = Rig::hourly();
    let told = rig.start_at("05:59:00").unwrap();
    assert_eq!((told.run_id.occasion.clone(), told.missed_count), (scheduled("05:00:00"), 4));
    assert_eq!((told.lateness, rig.record().missed), (seconds(59 * 60), 4));
    // A second attempt is told the same, and nothing is counted twice.
    let again = rig.start_at("05:59:30").unwrap();
    assert_eq!((again.attempt, again.missed_count, rig.record().missed), (2, 4, 4));
    rig.report_at("05:59:40", &again, Report::Succeeded);
    assert_eq!(rig.run_at("06:00:00").missed_count, 0);
}

#[test]
fn t9_none_runs_the_newest_within_the_grace_only() {
    for (time, runs) in [("02:00:40", true), ("02:00:41", false)] {
        let mut rig = Rig::with("0 * * * *", |spec| spec.catch_up = CatchUp::None);
        let told = rig.start_at(time);
        assert_eq!(told.is_some(), runs, "{time}");
        assert_eq!(rig.record().missed, if runs { 1 } else { 2 });
        let last = if runs { "01:00:00" } else { "02:00:00" };
        assert_eq!(rig.record().watermark, at(last));
        assert_eq!(rig.record().outcome, Some(Outcome::Skipped));
    }
    let mut rig = Rig::with("0 * * * *", |spec| spec.catch_up = CatchUp::None);
    assert_eq!(rig.look_at("02:30:00"), Decision::Settle);
    assert_eq!(rig.start_at("02:30:00"), None);
    assert_eq!(rig.run_at("03:00:00").missed_count, 2, "told to the next run");
}

#[test]
fn t9_all_runs_the_newest_so_many_oldest_first() {
    let mut rig = Rig::with("0 * * * *", |spec| spec.catch_up = CatchUp::All(2));
    let told = rig.run_at("05:10:00");
    assert_eq!((told.run_id.occasion, told.missed_count), (scheduled("03:00:00"), 2));
    for time in ["04:00:00", "05:00:00"] {
        let told = rig.run_at("05:10:00");
        assert_eq!((told.run_id.occasion, told.missed_count), (scheduled(time), 0));
    }
    assert_eq!(rig.look_at("05:10:00"), Decision::Wait(Some(at("06:00:00"))));
    assert_eq!(rig.record().missed, 2);
}

#[test]
fn t9_nothing_older_than_the_window_is_run() {
    let mut rig = Rig::with("0 2 * * *", |spec| {
        spec.catch_up = CatchUp::All(100);
        spec.catch_up_window = Some(seconds(3_600));
    });
    assert_eq!(rig.look_at("03:00:01"), Decision::Settle);
    let told = rig.start_at("2026-01-07T03:00:00Z").unwrap();
    assert_eq!(told.run_id.occasion, Occasion::Scheduled(at("2026-01-07T02:00:00Z")));
    assert_eq!(told.missed_count, 2);
}

#[test]
fn t9_ten_years_down_cost_a_bounded_count() {
    let mut rig = Rig::with("* * * * *", |spec| spec.catch_up = CatchUp::All(100));
    let told = rig.start_at("2036-01-05T00:00:30Z").unwrap();
    assert_eq!(told.run_id.occasion, Occasion::Scheduled(at("2036-01-04T22:20:00Z")));
    assert_eq!(told.missed_count, 10_000);
}

#[test]
fn t10_skip_leaves_out_what_fell_due_during_the_run() {
    for (overlap, next, missed) in
        [(Overlap::Skip, "04:00:00", 2), (Overlap::Follow, "02:00:00", 0)]
    {
        let mut rig = Rig::with("0 * * * *", |spec| spec.overlap = overlap);
        let told = rig.start_at("01:00:00").unwrap();
        rig.report_at("03:20:00", &told, Report::Succeeded);
        assert_eq!((rig.record().next, rig.record().missed), (Some(at(next)), missed));
    }
}

#[test]
fn t12_a_run_is_told_when_it_is_to_be_over() {
    let deadline = |change: fn(&mut Spec), time: &str| {
        let told = Rig::with("0 * * * *", change).start_at(time).unwrap();
        assert_eq!(told.timeout, told.deadline.map(|d| seconds(d.seconds_since(at(time)) as u64)));
        told.deadline
    };
    assert_eq!(deadline(|_| {}, "01:00:00"), Some(at("02:00:00")));
    assert_eq!(deadline(|_| {}, "01:20:00"), Some(at("02:20:00")), "one whole gap at least");
    let timeout = |spec: &mut Spec| spec.run_timeout = RunTimeout::Duration(seconds(90));
    assert_eq!(deadline(timeout, "01:20:00"), Some(at("01:21:30")));
    assert_eq!(deadline(|spec| spec.run_timeout = RunTimeout::None, "01:00:00"), None);
}

#[test]
fn t1_t13_spread_delays_the_start_and_never_changes_the_occurrence() {
    let mut rig = Rig::with("0 * * * *", |spec| spec.spread = seconds(600));
    let Decision::Wait(Some(due)) = rig.look_at("01:00:00") else { panic!("not spread") };
    let offset = due.seconds_since(at("01:00:00"));
    assert!((1..=600).contains(&offset), "{offset}");
    rig.now = UtcSecond(due.0 - 1);
    assert_eq!(look(&rig.view(Lease::Free)).decision, Decision::Wait(Some(due)));
    let told = rig.start_at(&due.to_string()).unwrap();
    assert_eq!((told.run_id.occasion, told.lateness), (scheduled("01:00:00"), seconds(0)));
    // Two due, one of them not yet: the older one is the newest that is due.
    let mut rig = Rig::with("0 * * * *", |spec| spec.spread = seconds(600));
    assert_eq!(rig.start_at("02:00:00").unwrap().run_id.occasion, scheduled("01:00:00"));
}

#[test]
fn t18_a_pause_skips_what_falls_due_and_a_resume_continues_after_it() {
    let mut rig = Rig::hourly();
    let told = rig.start_at("01:00:00").unwrap();
    rig.plan = rig.plan.pause(rig.now).unwrap();
    assert_eq!(rig.plan.pause(at("01:00:00")), None, "it is paused");
    rig.report_at("01:05:00", &told, Report::Succeeded);
    assert_eq!(rig.look_at("02:00:00"), Decision::Settle);
    assert_eq!(rig.start_at("02:00:00"), None);
    assert_eq!(
        (rig.record().watermark, rig.record().outcome),
        (at("02:00:00"), Some(Outcome::Skipped))
    );
    // Nobody looked at 03:00.
    rig.plan = rig.plan.resume(at("03:10:00")).unwrap();
    assert_eq!(rig.plan.resume(at("03:10:00")), None, "it is not paused");
    assert_eq!(rig.look_at("03:20:00"), Decision::Settle);
    let told = rig.run_at("04:00:00");
    assert_eq!((told.missed_count, rig.record().missed), (0, 0), "a pause misses nothing");
}

#[test]
fn t18_what_was_begun_goes_on_after_the_pause() {
    let mut rig = Rig::with("0 2 * * *", |_| {});
    let told = rig.start_at("02:00:00").unwrap();
    rig.plan = rig.plan.pause(rig.now).unwrap();
    // It was abandoned, and may still be completed.
    assert_eq!(rig.look_at("03:00:00"), Decision::Wait(None));
    assert_eq!(
        report(&rig.view(Lease::Free), &told.run_id, Report::Succeeded),
        Reported::AcquireFirst
    );
    rig.plan = rig.plan.resume(at("03:10:00")).unwrap();
    assert_eq!(rig.start_at("03:20:00").unwrap().attempt, 2);
}

#[test]
fn t1_t18_a_run_by_hand_comes_after_a_due_scheduled_one_and_moves_no_watermark() {
    let mut rig = Rig::hourly();
    rig.plan = rig.plan.trigger("again", None, at("00:59:00")).unwrap().write.unwrap();
    assert_eq!(rig.run_at("01:00:00").run_id.occasion, scheduled("01:00:00"));
    let told = rig.start_at("01:00:01").unwrap();
    let occasion = Occasion::ByHand { number: 1, request_id: "again".to_owned() };
    assert_eq!(told.run_id.occasion, occasion);
    assert_eq!(rig.report_at("01:00:05", &told, Report::Failed), Some(at("01:00:15")));
    assert_eq!(rig.look_at("01:00:06"), Decision::RetryLater(at("01:00:15")));
    assert_eq!(rig.run_at("01:00:15").attempt, 2);
    assert_eq!((rig.record().watermark, rig.record().by_hand_done), (at("01:00:00"), 1));
    assert_eq!(rig.look_at("01:00:20"), Decision::Wait(Some(at("02:00:00"))));
}

#[test]
fn t18_a_repeated_request_is_the_same_run_and_a_ninth_is_refused() {
    let mut rig = Rig::hourly();
    let trigger = |rig: &Rig, id: &str| rig.plan.trigger(id, rig.record.as_ref(), at("00:40:00"));
    for number in 1..=8 {
        let triggered = trigger(&rig, &format!("r{number}")).unwrap();
        assert_eq!(triggered.number, number);
        rig.plan = triggered.write.unwrap();
    }
    let again = trigger(&rig, "r3").unwrap();
    assert_eq!((again.number, again.write), (3, None));
    assert!(trigger(&rig, "r9").unwrap_err().to_string().contains("8 runs by hand wait already"));
    let first = rig.run_at("00:41:00").run_id.occasion;
    assert_eq!(first, Occasion::ByHand { number: 1, request_id: "r1".to_owned() });
    assert_eq!(trigger(&rig, "r1").unwrap().write, None, "done, and still known");
    assert_eq!(trigger(&rig, "r9").unwrap().number, 9);
    for wrong in ["", "a b", "a/b", "ü", &"x".repeat(65)] {
        assert!(matches!(trigger(&rig, wrong), Err(PlanError::RequestId { .. })), "{wrong}");
    }
}

#[test]
fn t21_the_greatest_watermark_that_was_seen_is_written_back() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:00");
    let older = rig.record.clone();
    rig.run_at("02:00:00");
    rig.newest = Some(Newest { watermark: rig.record().watermark, by_hand_done: 0, reset: 0 });
    for fallen in [older, None] {
        rig.record = fallen;
        rig.now = at("02:30:00");
        let looked = look(&rig.view(Lease::Free));
        assert_eq!((looked.went_back, looked.next), (true, Some(at("03:00:00"))));
        assert_eq!(looked.decision, Decision::Settle);
        assert_eq!(rig.start_at("02:30:00"), None);
        assert_eq!(rig.record().watermark, at("02:00:00"));
        assert_eq!(rig.look_at("02:30:01"), Decision::Wait(Some(at("03:00:00"))));
    }
}

/// A daily schedule whose spread makes it due between eight and twelve hours after midnight, and that offset.
fn late_in_the_morning(change: impl FnOnce(&mut Spec)) -> (Rig, i64) {
    let mut rig = Rig::with("0 0 * * *", |spec| {
        spec.spread = seconds(12 * 3_600);
        change(spec);
    });
    for number in 0.. {
        rig.path = format!("leasehold/locks/host/Nightly-{number}/FUNCTION").parse().unwrap();
        let Decision::Wait(Some(due)) = rig.look_at("2026-01-06T00:00:00Z") else { continue };
        let offset = due.seconds_since(at("2026-01-06T00:00:00Z"));
        if offset >= 8 * 3_600 {
            return (rig, offset);
        }
    }
    unreachable!("no path is spread so far")
}

fn after_midnight(seconds: i64) -> String {
    UtcSecond(at("2026-01-06T00:00:00Z").0 + seconds).to_string()
}

#[test]
fn t9_t13_an_occurrence_is_as_old_as_it_is_late_and_its_spread_does_not_count() {
    let (mut rig, offset) =
        late_in_the_morning(|spec| spec.catch_up_window = Some(seconds(6 * 3_600)));
    let told = rig.start_at(&after_midnight(offset)).expect("it is due just now");
    assert_eq!(told.run_id.occasion, Occasion::Scheduled(at("2026-01-06T00:00:00Z")));
    // The second attempt too, and nothing that is later than the window allows.
    rig.report_at(&after_midnight(offset + 60), &told, Report::Failed);
    assert!(rig.start_at(&after_midnight(offset + 6 * 3_600)).is_some());
    let (mut rig, offset) =
        late_in_the_morning(|spec| spec.catch_up_window = Some(seconds(6 * 3_600)));
    assert!(rig.start_at(&after_midnight(offset + 6 * 3_600 + 1)).is_none());
    assert_eq!(rig.record().missed, 1);
}

#[test]
fn t13_t18_a_pause_skips_what_falls_due_in_it_with_its_spread() {
    // From when to when it is paused, against when it is due; whether it runs.
    let cases = [(-7_200, -3_600, true), (-3_600, 3_600, false)];
    for (from, to, runs) in cases {
        let (mut rig, offset) = late_in_the_morning(|_| {});
        rig.plan = rig.plan.pause(at(&after_midnight(offset + from))).unwrap();
        rig.plan = rig.plan.resume(at(&after_midnight(offset + to))).unwrap();
        let told = rig.start_at(&after_midnight(offset + to.max(0) + 1));
        assert_eq!(told.is_some(), runs, "paused from {from} to {to}");
        assert_eq!(rig.record().missed, 0, "paused from {from} to {to}");
    }
}
