//! What bug reports of other schedulers found here as well: occurrences lost, repeated or withheld.

use leasehold::schedule::*;
use leasehold::timetable::{Timetable, UtcSecond};

use crate::schedule::rig::{Rig, at, path, plan_of, scheduled, seconds, spec};

fn days_later(time: &str, days: i64) -> UtcSecond {
    UtcSecond(at(time).0 + days * 86_400)
}

impl Rig {
    /// A new subscriber comes with this definition.
    fn redefine(&mut self, now: UtcSecond, spec: Spec) {
        self.now = now;
        let definition = Definition::new(spec).unwrap();
        let record = self.record.as_ref();
        let subscribed = plan_of(Some(&self.plan), &definition, true, record, now);
        self.plan = Plan::from_text(&subscribed.write.unwrap().to_text()).unwrap();
    }

    /// Starts and ends what is due, as long as something is: the instants.
    fn catch_up(&mut self, now: UtcSecond) -> Vec<UtcSecond> {
        let mut all = Vec::new();
        while let Some(told) = self.start_at(&now.to_string()) {
            self.report_at(&now.to_string(), &told, Report::Succeeded);
            all.push(told.scheduled_at);
        }
        all
    }
}

#[test]
fn t9_all_seven_of_a_nightly_job_runs_each_of_the_last_nights() {
    let mut rig = Rig::with("0 4 * * *", |spec| spec.catch_up = CatchUp::All(7));
    rig.run_at("04:00:05");
    let ran = rig.catch_up(days_later("09:00:00", 9));
    let expected: Vec<UtcSecond> = (2..=9).map(|day| days_later("04:00:00", day)).collect();
    assert_eq!(ran, expected, "the newest, and seven before it");
    assert_eq!(rig.record().missed, 1);
}

#[test]
fn t9_a_weekly_job_that_was_missed_by_days_still_runs() {
    for (expression, days) in [("@weekly", 10), ("@monthly", 45), ("@yearly", 400)] {
        let mut rig = Rig::with(expression, |_| {});
        let ran = rig.catch_up(days_later("09:00:00", days));
        assert_eq!(ran.len(), 1, "{expression}");
    }
}

#[test]
fn t9_a_daily_job_is_within_the_window_for_all_of_the_day_of_25_hours() {
    let timetable = Timetable::parse("30 3 * * *", "Europe/Copenhagen").unwrap();
    let mut rig = Rig::new(Spec { timetable, ..spec("@daily") });
    // A second before it is due again, after the night in which the clocks go back.
    let ran = rig.catch_up("2026-10-25T02:29:59Z".parse().unwrap());
    assert_eq!(ran, ["2026-10-24T01:30:00Z".parse().unwrap()]);
}

#[test]
fn t16_a_change_of_policy_in_an_outage_drops_nothing() {
    let nightly = || spec("0 4 * * *");
    let mut rig = Rig::new(nightly());
    rig.run_at("04:00:05");
    let version = rig.plan.version();
    rig.redefine(days_later("09:00:00", 2), Spec { max_attempts: Some(4), ..nightly() });
    assert_eq!(rig.plan.version(), version, "the timetable is the same");
    assert_eq!(rig.plan.definition().max_attempts(), 4);
    let ran = rig.catch_up(days_later("09:00:00", 2));
    assert_eq!(ran, [days_later("04:00:00", 2)]);
    assert_eq!(rig.record().missed, 1);
}

#[test]
fn t16_what_a_new_policy_skips_is_counted() {
    let hourly = || spec("0 * * * *");
    let mut rig = Rig::new(hourly());
    rig.run_at("01:00:05");
    let none = Spec { catch_up: CatchUp::None, ..hourly() };
    rig.redefine(at("05:30:00"), none);
    assert_eq!(rig.catch_up(at("05:30:00")), []);
    assert_eq!(rig.record().missed, 4);
}

#[test]
fn t16_a_change_of_the_timetable_runs_the_newest_due_of_the_old_one_and_counts_the_others() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:05");
    rig.redefine(at("05:30:00"), spec("15 * * * *"));
    assert_eq!(rig.catch_up(at("05:30:01")), [at("05:00:00")]);
    assert_eq!(rig.record().missed, 3, "02:00, 03:00 and 04:00");
    assert_eq!(rig.record().next, Some(at("06:15:00")));
}

#[test]
fn t16_deployments_that_take_turns_starve_no_schedule() {
    let mut rig = Rig::new(spec("*/10 * * * *"));
    let (mut now, mut ran) = (at("01:01:00"), 0);
    // Each replica of a rolling update restarts again and again, every two minutes.
    for turn in 0..60 {
        let minute = if turn % 2 == 0 { "5-59/10" } else { "*/10" };
        rig.redefine(now, spec(&format!("{minute} * * * *")));
        ran += rig.catch_up(UtcSecond(now.0 + 60)).len();
        now = UtcSecond(now.0 + 120);
    }
    assert!(ran >= 10, "{ran} in two hours");
}

#[test]
fn t16_a_sidecars_default_is_no_part_of_a_definition() {
    let unset = Spec::new(Timetable::parse("@daily", "UTC").unwrap());
    let definition = Definition::new(unset).unwrap();
    assert_eq!(definition.lease_duration, None);
    assert!(!definition.canonical().contains("lease_duration"), "{}", definition.canonical());
    assert_eq!(definition.grace(seconds(15)), seconds(40));
    assert_eq!(definition.grace(seconds(60)), seconds(130));
}

#[test]
fn t18_a_run_by_hand_comes_though_runs_overlap_their_period() {
    let mut rig = Rig::hourly();
    let first = rig.start_at("01:00:05").unwrap();
    rig.plan = rig.plan.trigger("ticket", None, at("01:10:00")).unwrap().write.unwrap();
    rig.report_at("02:00:30", &first, Report::Succeeded);
    // The next one is due already, and goes first once.
    let second = rig.start_at("02:00:31").unwrap();
    assert_eq!(second.run_id.occasion, scheduled("02:00:00"));
    rig.report_at("03:00:30", &second, Report::Succeeded);
    let by_hand = rig.start_at("03:00:31").unwrap();
    assert!(matches!(by_hand.run_id.occasion, Occasion::ByHand { .. }), "{by_hand:?}");
    rig.report_at("03:00:40", &by_hand, Report::Succeeded);
    assert_eq!(rig.start_at("03:00:41").unwrap().run_id.occasion, scheduled("03:00:00"));
}

#[test]
fn t18_what_was_missed_before_a_pause_is_counted_and_what_it_skips_is_not() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:05");
    rig.plan = rig.plan.pause(at("03:30:00")).unwrap();
    rig.start_at("06:10:00");
    assert_eq!(rig.record().missed, 2, "02:00 and 03:00");
    rig.plan = rig.plan.resume(at("06:30:00")).unwrap();
    assert_eq!(rig.catch_up(at("07:00:01")), [at("07:00:00")]);
    assert_eq!(rig.record().missed, 2);
}

#[test]
fn t10_a_job_that_skips_and_overruns_has_time_to_succeed() {
    let mut rig = Rig::with("*/5 * * * *", |spec| spec.overlap = Overlap::Skip);
    let told = rig.start_at("01:00:05").unwrap();
    assert_eq!(told.timeout, Some(seconds(86_400)), "a day is longer than ten gaps");
    rig.report_at("01:17:00", &told, Report::Succeeded);
    assert_eq!(rig.record().next, Some(at("01:20:00")));
    let mut weekly = Rig::with("@weekly", |spec| spec.overlap = Overlap::Skip);
    let told = weekly.start_at("2026-01-11T00:00:05Z").unwrap();
    assert_eq!(told.timeout, Some(seconds(10 * 7 * 86_400)));
}

#[test]
fn t14_an_occurrence_that_new_zone_data_moves_is_not_run_twice() {
    let mut rig = Rig::with("30 2 * * *", |_| {});
    rig.run_at("02:30:01");
    // The sidecar before had other data, by which the clocks were half an hour ahead.
    let mut record = rig.record().clone();
    record.next = Some(at("2026-01-06T02:00:00Z"));
    rig.record = Some(record);
    assert_eq!(rig.catch_up(at("2026-01-06T02:00:01Z")), [at("2026-01-06T02:00:00Z")]);
    assert_eq!(rig.record().next, Some(at("2026-01-07T02:30:00Z")));
}

#[test]
fn t8_a_report_that_the_store_does_not_have_yet_goes_before_the_look() {
    for (report, last) in
        [(Report::Succeeded, Outcome::Succeeded), (Report::TimedOut, Outcome::TimedOut)]
    {
        let mut rig = Rig::hourly();
        rig.start_at("01:00:05").unwrap();
        rig.reported = Some(report);
        assert_eq!(rig.look_at("01:10:00"), Decision::Settle);
        assert!(rig.start_at("01:10:00").is_none(), "nothing is run again");
        assert_eq!(rig.record().ended[0].outcome, last);
        assert_eq!(rig.record().watermark, at("01:00:00"));
    }
}

#[test]
fn t6_a_start_that_was_withdrawn_uses_up_no_attempt_for_ten_times() {
    let mut rig = Rig::with("0 * * * *", |spec| spec.max_attempts = Some(1));
    let mut now = at("01:00:05");
    for withdrawn in 0..10 {
        let told = rig.start_at(&now.to_string()).unwrap();
        assert_eq!(told.attempt, 1);
        let retry_at = rig.report_at(&now.to_string(), &told, Report::Withdrawn);
        assert_eq!(
            retry_at.is_none(),
            withdrawn == 0,
            "another takes it at once, then with T11's wait"
        );
        assert!(retry_at.is_none_or(|at| at.seconds_since(now) >= 10), "{retry_at:?}");
        now = retry_at.unwrap_or(now);
    }
    let told = rig.start_at(&now.to_string()).unwrap();
    assert_eq!(rig.report_at(&now.to_string(), &told, Report::Withdrawn), None);
    assert_eq!(rig.record().outcome, Some(Outcome::Failed));
}

fn by_operator(now: UtcSecond) -> Intervention {
    Intervention { at: now, reason: "a wrong clock".to_owned(), caller: "ann".to_owned() }
}

#[test]
fn t25_a_reset_is_the_way_out_after_a_wrong_clock() {
    let mut rig = Rig::hourly();
    // The store's clock was a year ahead once.
    rig.run_at("2027-03-01T01:00:05Z");
    rig.newest = Some(Newest {
        watermark: rig.record().watermark,
        by_hand_done: 0,
        reset: rig.record().reset,
    });
    assert!(rig.start_at("02:00:05").is_none(), "it is silent until then");
    rig.plan = rig.plan.reset_to(None, None, by_operator(at("02:10:00")));
    assert_eq!(rig.catch_up(at("03:00:01")), [at("03:00:00")]);
    assert_eq!(rig.record().watermark, at("03:00:00"));
    // Back to an earlier instant: what lies between is caught up.
    let earlier = Some(at("01:30:00"));
    rig.plan = rig.plan.reset_to(earlier, Some(7), by_operator(at("03:10:00")));
    assert_eq!(rig.plan.definition().revision, 7);
    assert_eq!(rig.catch_up(at("03:20:00")), [at("03:00:00")]);
}

#[test]
fn t25_a_removed_schedule_begins_anew_with_the_next_new_subscription_only() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:05");
    rig.plan = rig.plan.remove(by_operator(at("01:10:00"))).unwrap();
    let definition = rig.plan.definition().clone();
    let record = rig.record.clone();
    let again = |is_new| {
        plan_of(Some(&rig.plan), &definition, is_new, record.as_ref(), at("05:30:00")).write
    };
    assert!(again(false).is_none(), "a reconnect makes nothing again");
    let begun = again(true).unwrap();
    assert!(begun.removed().is_none() && begun.reset() > 0);
    // A run that was about to begin as it was removed has written the number of the removal.
    let wrote = record.clone().map(|record| ScheduleRecord { reset: rig.plan.reset(), ..record });
    let late = plan_of(Some(&rig.plan), &definition, true, wrote.as_ref(), at("05:30:00"));
    assert!(late.write.unwrap().reset() > rig.plan.reset());
    rig.plan = begun;
    assert_eq!(rig.catch_up(at("06:00:01")), [at("06:00:00")], "nothing from before");
    assert_eq!(rig.record().missed, 0);
}

/// A schedule whose first subscription wants a run at once, at 00:30:00.
fn at_once(spec: Spec) -> Rig {
    at_once_at(at("00:30:00"), spec)
}

fn at_once_at(now: UtcSecond, spec: Spec) -> Rig {
    let (path, definition) = (&path(), &Definition::new(spec.clone()).unwrap());
    let subscription = Subscription { path, definition, is_new: true, runs_at_once: true };
    let mut rig = Rig::new(spec);
    rig.now = now;
    rig.plan = Plan::subscribed(None, &subscription, None, now).write.unwrap();
    rig
}

#[test]
fn t25_first_now_runs_once_whoever_subscribes_later() {
    let mut rig = at_once(spec("0 4 * * *"));
    let (path, definition) = (&path(), rig.plan.definition());
    let subscription = Subscription { path, definition, is_new: true, runs_at_once: true };
    let later = Plan::subscribed(Some(&rig.plan), &subscription, None, rig.now).write;
    assert!(later.is_none(), "it is ignored later");
    assert_eq!(rig.catch_up(at("00:30:01")), [at("00:30:00")]);
    assert_eq!(rig.record().next, Some(at("04:00:00")));
    assert_eq!(rig.catch_up(at("04:00:01")), [at("04:00:00")]);
}

#[test]
fn t9_t25_a_first_run_that_comes_too_late_is_missed_like_any_other() {
    let all = |most| Spec { catch_up: CatchUp::All(most), ..spec("0 * * * *") };
    let ran = |spec: Spec, now: &str| {
        let mut rig = at_once(spec);
        let ran = rig.catch_up(at(now));
        let record = rig.record();
        let is_old = |ended: &Ended| ended.occasion < scheduled("00:30:00");
        assert!(!record.ended.iter().any(is_old), "nothing was there before: {record:?}");
        (ran, record.missed)
    };
    let hours = |hours: &[&str]| hours.iter().map(|hour| at(hour)).collect::<Vec<_>>();
    assert_eq!(ran(spec("0 * * * *"), "01:00:01"), (hours(&["01:00:00"]), 1));
    assert_eq!(ran(spec("0 * * * *"), "02:00:01"), (hours(&["02:00:00"]), 2));
    assert_eq!(ran(all(1), "02:00:01"), (hours(&["01:00:00", "02:00:00"]), 1));
    assert_eq!(ran(all(2), "02:00:01"), (hours(&["00:30:00", "01:00:00", "02:00:00"]), 0));
}

#[test]
fn t14_an_occurrence_that_newer_zone_data_moves_later_is_not_missed() {
    let mut rig = Rig::with("0 4 * * *", |_| {});
    rig.run_at("04:00:05");
    let record = rig.record.as_mut().unwrap();
    record.next = Some(days_later("03:00:00", 1));
    assert_eq!(rig.catch_up(days_later("05:00:00", 1)), [days_later("04:00:00", 1)]);
    assert_eq!(rig.record().missed, 0);
    let is_skipped = |ended: &Ended| ended.outcome == Outcome::Skipped;
    assert!(!rig.record().ended.iter().any(is_skipped), "{:?}", rig.record());
}

#[test]
fn t25_a_reset_forgets_the_pauses_of_a_wrong_clock() {
    let mut rig = Rig::hourly();
    let wrong = at("2036-03-01T01:00:00Z");
    rig.plan = rig.plan.pause(wrong).unwrap().resume(wrong).unwrap();
    rig.now = at("02:00:05");
    let looked = look(&rig.view(Lease::Free));
    assert!(looked.is_ahead, "T7: it is told why nothing runs for ten years");
    rig.plan = rig.plan.reset_to(None, None, by_operator(at("02:10:00")));
    assert_eq!(rig.catch_up(at("03:00:01")), [at("03:00:00")]);
    // What it is paused for by now goes on, from the reset.
    rig.plan = rig.plan.pause(wrong).unwrap();
    rig.plan = rig.plan.reset_to(None, None, by_operator(at("03:10:00")));
    assert_eq!(rig.catch_up(at("04:00:01")), []);
    rig.plan = rig.plan.resume(at("04:30:00")).unwrap();
    assert_eq!(rig.catch_up(at("05:00:01")), [at("05:00:00")]);
    assert_eq!(rig.record().missed, 0, "04:00 fell due in a pause");
}

#[test]
fn t25_a_reset_to_before_a_pause_catches_up_what_it_skipped() {
    let mut rig = Rig::with("0 * * * *", |spec| spec.catch_up = CatchUp::All(100));
    rig.plan = rig.plan.pause(at("01:10:00")).unwrap().resume(at("03:10:00")).unwrap();
    assert_eq!(rig.catch_up(at("03:20:00")), [], "01:00 is missed, 02:00 and 03:00 are skipped");
    rig.plan = rig.plan.reset_to(Some(at("01:30:00")), None, by_operator(at("03:30:00")));
    assert_eq!(rig.catch_up(at("03:40:00")), [at("02:00:00"), at("03:00:00")]);
}

#[test]
fn t16_a_timetable_that_comes_back_is_not_caught_up_over_the_time_of_others() {
    let all = |revision| Spec { revision, catch_up: CatchUp::All(100), ..spec("0 * * * *") };
    let yearly = |revision| Spec { revision, ..spec("0 0 1 7 *") };
    for days in [0, 3] {
        let mut rig = Rig::new(all(0));
        rig.run_at("01:00:05");
        rig.redefine(at("01:10:00"), yearly(1));
        // Nothing fell due meanwhile, so that nothing was written.
        let (back, next) = (days_later("04:20:00", days), days_later("05:00:00", days));
        rig.redefine(back, all(2));
        assert_eq!(rig.catch_up(back), [], "02:00, 03:00 and 04:00 were nobody's");
        assert_eq!(rig.catch_up(UtcSecond(next.0 + 1)), [next]);
        assert_eq!(rig.record().missed, 0);
        // It came back once before, and flaps now: it goes on from when it was replaced last.
        rig.redefine(days_later("05:10:00", days), yearly(3));
        rig.redefine(days_later("08:20:00", days), all(4));
        rig.redefine(days_later("08:30:00", days), yearly(4));
        rig.redefine(days_later("09:10:00", days), all(4));
        let now = days_later("09:10:01", days);
        assert_eq!(rig.catch_up(now), [days_later("09:00:00", days)]);
    }
}

#[test]
fn t16_what_was_not_due_as_its_timetable_was_replaced_is_not_run_under_the_one_after_the_next() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:05");
    rig.redefine(at("01:10:00"), spec("0 0 1 7 *"));
    rig.redefine(at("04:20:00"), spec("45 * * * *"));
    assert_eq!(rig.catch_up(at("04:20:01")), [], "02:00 came after its timetable had gone");
    assert_eq!(rig.catch_up(at("04:45:01")), [at("04:45:00")]);
    assert_eq!(rig.record().missed, 0);
}

#[test]
fn t7_t16_what_a_plan_says_that_was_written_under_a_clock_ahead_is_reported_and_replaced() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:05");
    rig.redefine(at("2036-03-01T01:00:00Z"), spec("45 * * * *"));
    rig.now = at("02:00:05");
    assert!(look(&rig.view(Lease::Free)).is_ahead, "it is told why nothing runs for ten years");
    rig.redefine(at("02:10:00"), spec("0 * * * *"));
    assert!(!look(&rig.view(Lease::Free)).is_ahead);
    assert_eq!(rig.catch_up(at("03:00:01")), [at("03:00:00")]);
}

#[test]
fn t18_t25_a_run_by_hand_and_its_attempts_outlast_a_reset_and_no_removal() {
    let mut rig = Rig::hourly();
    let trigger = |rig: &Rig, id| {
        let triggered = rig.plan.trigger(id, rig.record.as_ref(), rig.now).unwrap();
        triggered.write.unwrap()
    };
    let by_hand = |number, id: &str| Occasion::ByHand { number, request_id: id.to_owned() };
    rig.plan = trigger(&rig, "one");
    let told = rig.start_at("00:40:00").unwrap();
    rig.plan = rig.plan.reset_to(None, None, by_operator(at("00:40:10")));
    let retry_at = rig.report_at("00:40:20", &told, Report::Failed);
    assert_eq!(rig.look_at("00:40:20"), Decision::RetryLater(retry_at.unwrap()));
    rig.plan = rig.plan.reset_to(None, None, by_operator(at("00:40:21")));
    // A wrong clock may have set when it is tried again.
    assert_eq!(rig.look_at("00:40:22"), Decision::Run(by_hand(1, "one")));
    let again = rig.start_at("00:41:00").unwrap();
    assert_eq!((again.run_id.occasion.clone(), again.attempt), (by_hand(1, "one"), 2));
    rig.plan = rig.plan.reset_to(None, None, by_operator(at("00:41:10")));
    rig.report_at("00:41:20", &again, Report::Succeeded);
    assert_eq!(rig.look_at("00:42:00"), Decision::Wait(Some(at("01:00:00"))), "it was done");
    rig.plan = trigger(&rig, "two");
    let told = rig.start_at("00:43:00").unwrap();
    rig.report_at("00:43:10", &told, Report::Failed);
    rig.plan = rig.plan.remove(by_operator(at("00:44:00"))).unwrap();
    rig.redefine(at("00:45:00"), spec("0 * * * *"));
    rig.plan = trigger(&rig, "three");
    let told = rig.start_at("00:46:00").unwrap();
    assert_eq!((told.run_id.occasion, told.attempt), (by_hand(3, "three"), 1));
}

#[test]
fn t6_t10_what_nobody_ran_skips_nothing() {
    let mut rig = Rig::with("0 * * * *", |spec| spec.overlap = Overlap::Skip);
    rig.run_at("01:00:05");
    rig.plan = rig.plan.trigger("one", None, at("01:50:00")).unwrap().write.unwrap();
    let told = rig.start_at("01:59:50").unwrap();
    rig.report_at("02:00:20", &told, Report::Withdrawn);
    assert_eq!(rig.record().next, Some(at("02:00:00")));
}

#[test]
fn t5_t23_what_is_next_is_shown_while_a_run_by_hand_goes_on_after_a_reset() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:05");
    rig.plan = rig.plan.trigger("one", None, at("01:10:00")).unwrap().write.unwrap();
    rig.start_at("01:10:01").unwrap();
    rig.plan = rig.plan.reset_to(None, None, by_operator(at("01:20:00")));
    rig.now = at("01:20:01");
    for lease in [Lease::Elsewhere, Lease::Here { running: true }] {
        let looked = look(&rig.view(lease));
        assert_eq!((looked.decision, looked.next), (Decision::Busy, Some(at("02:00:00"))));
    }
    assert_eq!(starting(&rig.plan, rig.record.as_ref()).next, Some(at("02:00:00")));
}

#[test]
fn t13_t18_t25_what_was_asked_for_at_once_is_of_a_pause_by_when_it_was_due_itself() {
    let late = || Spec { spread: seconds(1_800), ..spec("29 * * * *") };
    let missed = |from: &str, to: &str, now: &str| {
        let mut rig = at_once(late());
        // That of the timetable's instant before it is not over yet when the first one is due.
        let timetable = &rig.plan.definition().timetable;
        let name = rig.path.as_str().as_bytes();
        let offset = timetable.spread_offset(name, seconds(1_800), at("00:29:00"));
        assert!(offset > seconds(360), "{offset:?}");
        rig.plan = rig.plan.pause(at(from)).unwrap().resume(at(to)).unwrap();
        assert!(rig.start_at(now).is_none());
        rig.record().missed
    };
    // A front end of the store may be behind the one that said when it is due.
    assert_eq!(missed("00:29:59", "00:35:00", "00:36:00"), 0, "it fell due in the pause");
    assert_eq!(missed("00:31:00", "01:10:00", "01:11:00"), 1, "it fell due before the pause");
}

#[test]
fn t13_t16_t18_what_fell_due_in_a_pause_is_not_missed_as_its_timetable_is_replaced() {
    let mut rig = Rig::with("0 * * * *", |spec| spec.spread = seconds(1_800));
    rig.run_at("01:40:00");
    // By their spread, 02:00 falls due in it, and 03:00 after it.
    rig.plan = rig.plan.pause(at("02:00:01")).unwrap().resume(at("03:00:01")).unwrap();
    rig.redefine(at("04:40:00"), spec("15 * * * *"));
    assert_eq!(rig.plan.due(), Some((at("04:00:00"), 1)));
}

#[test]
fn t10_t16_a_late_outcome_under_skip_catches_up_nothing_across_timetables() {
    let skips = |expression| Spec { overlap: Overlap::Skip, ..spec(expression) };
    let mut rig = Rig::new(skips("0 * * * *"));
    let told = rig.start_at("01:00:05").unwrap();
    rig.redefine(at("02:10:00"), skips("*/10 * * * *"));
    rig.now = at("02:40:01");
    // It was told half an hour before it is written.
    let view = rig.view(Lease::Here { running: false });
    let view = View { ended_at: at("02:11:00"), ..view };
    let reported = report(&view, &told.run_id, Report::Succeeded);
    let Reported::Write { record, .. } = reported else { panic!("{reported:?}") };
    assert_eq!((record.next, record.missed), (Some(at("02:50:00")), 1), "02:00 is skipped");
}

#[test]
fn t9_t16_what_was_started_as_its_timetable_was_replaced_is_not_missed_as_well() {
    let missed = |mut rig: Rig, starts: &str, replaced: &str| {
        // Who brings the other one has read the record before the start is written.
        let read = rig.record.clone();
        let told = rig.start_at(starts).unwrap();
        let definition = Definition::new(spec("45 0 * * *")).unwrap();
        let written = plan_of(Some(&rig.plan), &definition, true, read.as_ref(), at(replaced));
        rig.plan = written.write.unwrap();
        rig.report_at(replaced, &told, Report::Succeeded);
        rig.record().missed
    };
    let minutely = || spec("* * * * *");
    for (replaced, expected) in [("00:32:01", 0), ("00:33:01", 1), ("00:38:01", 6)] {
        assert_eq!(missed(Rig::new(minutely()), "00:31:05", replaced), expected, "{replaced}");
        let first = at_once_at(at("00:30:40"), minutely());
        assert_eq!(missed(first, "00:30:41", replaced), expected + 1, "{replaced}");
    }
    let first = at_once_at(at("00:30:40"), minutely());
    assert_eq!(missed(first, "00:30:41", "00:31:01"), 0, "what is asked for at once is run");
}
