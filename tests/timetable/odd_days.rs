//! The days on which clocks jump, and those that not every month has.

use leasehold::timetable::UtcSecond;

use crate::timetable::{at, local_times, timetable};

/// How long before and after a jump is looked at: from 1 h 30 min before it; Santiago's and Apia's jumps are
/// at midnight, and what is at 02:00 is to be seen.
fn around(zone: &str, jump: UtcSecond) -> [UtcSecond; 2] {
    let after = match zone {
        "America/Santiago" => 7_200,
        "Pacific/Apia" => 9_000,
        _ => 5_400,
    };
    [UtcSecond(jump.0 - 5_401), UtcSecond(jump.0 + after)]
}

/// Each line of the file: zone, the instant of the jump, expression, and what is due around it, checked line
/// by line against T14: local times with their offsets.
#[test]
fn t14_each_clock_that_jumps() {
    let mut rows = 0;
    for line in include_str!("odd_days.txt").lines() {
        let [zone, jump, expression, due] =
            line.split('|').collect::<Vec<_>>()[..].try_into().unwrap();
        let timetable = timetable(expression, zone);
        let [first, last] = around(zone, at(jump));
        let short = |local: &String| format!("{}{}", &local[11..16], &local[19..]);
        let found: Vec<String> = local_times(&timetable, first, last).iter().map(short).collect();
        assert_eq!(found.join(" "), due, "{zone} {jump} {expression}");
        rows += 1;
    }
    assert_eq!(rows, 11 * 8);
}

#[test]
fn t14_a_day_that_the_zone_left_out_is_made_up_for_once() {
    let apia = |expression: &str| {
        let timetable = timetable(expression, "Pacific/Apia");
        local_times(&timetable, at("2011-12-28T00:00:00-10:00"), at("2012-01-01T00:00:00+14:00"))
    };
    assert_eq!(apia("0 12 30 * *"), ["2011-12-31T00:00:00+14:00"]);
    assert_eq!(apia("0 0,6,12,18 30 12 *"), ["2011-12-31T00:00:00+14:00"]);
    assert_eq!(apia("*/10 * 30 12 *"), [""; 0], "in every hour: no hour is made up for");
    let friday = ["2011-12-31T00:00:00+14:00"];
    assert_eq!(apia("0 9 * * 5"), friday, "the 30th would have been a Friday");
    let sixes = timetable("30 15 */6 * * *", "Pacific/Apia");
    let found =
        local_times(&sixes, at("2011-12-29T23:00:00-10:00"), at("2011-12-31T07:00:00+14:00"));
    assert_eq!(
        found,
        ["2011-12-31T00:00:00+14:00", "2011-12-31T00:15:30+14:00", "2011-12-31T06:15:30+14:00"]
    );
}

/// The next match of the clock face is a year away, and still something lies between.
#[test]
fn t14_a_repeated_hour_is_not_skipped_when_the_next_match_is_far() {
    let yearly = |expression: &str| timetable(expression, "America/New_York");
    let second_pass = at("2025-11-02T01:00:00-05:00");
    assert_eq!(yearly("*/30 1 2 11 *").next(at("2025-11-02T01:45:00-04:00")), Some(second_pass));
    let first_pass = at("2025-11-02T01:50:00-04:00");
    assert_eq!(yearly("50 1 2 11 *").previous(at("2025-11-02T01:45:00-05:00")), Some(first_pass));
    assert_eq!(yearly("50 1 2 11 *").next(first_pass), Some(at("2026-11-02T01:50:00-05:00")));
    let made_up = at("2025-03-09T03:00:00-04:00");
    assert_eq!(yearly("30 2 9 3 *").next(at("2024-03-10T12:00:00-04:00")), Some(made_up));
    assert_eq!(yearly("30 2 9 3 *").previous(at("2026-03-09T02:30:00-04:00")), Some(made_up));
}

#[test]
fn t14_no_daily_job_is_lost_or_doubled() {
    for zone in ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"] {
        for quarter in 0..96 {
            let expression = format!("{} {} * * *", quarter % 4 * 15, quarter / 4);
            let timetable = timetable(&expression, zone);
            let mut days: Vec<String> = timetable
                .occurrences_after(at("2026-01-01T00:00:00Z"))
                .take_while(|found| *found < at("2027-01-02T00:00:00Z"))
                .map(|found| timetable.local_time(found)[..10].to_owned())
                .collect();
            let occurrences = days.len();
            days.dedup();
            assert_eq!(days.len(), occurrences, "{zone} {expression}: two on one day");
            assert!(occurrences >= 365, "{zone} {expression}: {occurrences}");
        }
    }
}

#[test]
fn t15_days_that_not_every_month_has() {
    let year = |expression: &str, from: &str, count: usize| {
        let timetable = timetable(expression, "Europe/Berlin");
        let found = timetable.occurrences_after(at(from)).take(count);
        let days: Vec<String> =
            found.map(|found| timetable.local_time(found)[..10].to_owned()).collect();
        days.join(" ")
    };
    let cases = [
        ("0 0 31 * *", "2026-01-31 2026-03-31 2026-05-31 2026-07-31"),
        ("0 0 29 2 *", "2028-02-29 2032-02-29 2036-02-29 2040-02-29"),
        ("0 0 L * *", "2026-01-31 2026-02-28 2026-03-31 2026-04-30"),
        ("0 0 LW * *", "2026-01-30 2026-02-27 2026-03-31 2026-04-30"),
        ("0 0 31W * *", "2026-01-30 2026-03-31 2026-05-29 2026-07-31"),
        ("0 0 1W * *", "2026-01-01 2026-02-02 2026-03-02 2026-04-01"),
        ("0 0 * * 5L", "2026-01-30 2026-02-27 2026-03-27 2026-04-24"),
        ("0 0 * * 5#5", "2026-01-30 2026-05-29 2026-07-31 2026-10-30"),
        ("0 0 13 * 5", "2026-01-02 2026-01-09 2026-01-13 2026-01-16"),
        ("0 0 0 13 * 5", "2026-02-13 2026-03-13 2026-11-13 2027-08-13"),
        ("0 0 */10 * 1", "2026-05-11 2026-06-01 2026-08-31 2026-09-21"),
    ];
    for (expression, days) in cases {
        assert_eq!(year(expression, "2025-12-31T22:30:00Z", 4), days, "{expression}");
    }
    // No leap year in 2100.
    assert_eq!(year("0 0 29 2 *", "2096-02-01T00:00:00Z", 2), "2096-02-29 2104-02-29");
    assert_eq!(year("0 0 0 29 2 1", "2072-03-01T00:00:00Z", 1), "2112-02-29");
}

#[test]
fn t14_what_a_jump_has_to_do_with_an_occurrence_is_told() {
    use leasehold::timetable::ClockJump::{FirstPass, MadeUp, SecondPass};
    let cases = [
        ("30 2 * * *", "2025-03-09T03:00:00-04:00", Some(MadeUp)),
        ("30 2 * * *", "2025-03-10T02:30:00-04:00", None),
        ("0 3 * * *", "2025-03-09T03:00:00-04:00", None),
        ("0 * * * *", "2025-03-09T03:00:00-04:00", None),
        ("30 1 * * *", "2025-11-02T01:30:00-04:00", Some(FirstPass)),
        ("59 0 * * *", "2025-11-02T00:59:00-04:00", None),
        ("0 * * * *", "2025-11-02T01:00:00-04:00", Some(FirstPass)),
        ("0 * * * *", "2025-11-02T01:00:00-05:00", Some(SecondPass)),
        ("0 * * * *", "2025-11-02T02:00:00-05:00", None),
        ("@every 30m", "2025-11-02T01:30:00-05:00", None),
    ];
    for (expression, occurrence, jump) in cases {
        let timetable = timetable(expression, "America/New_York");
        assert_eq!(timetable.at_or_after(at(occurrence)), Some(at(occurrence)), "{expression}");
        assert_eq!(timetable.clock_jump(at(occurrence)), jump, "{expression} {occurrence}");
    }
    let half_an_hour = timetable("*/30 * * * *", "Australia/Lord_Howe");
    assert_eq!(half_an_hour.clock_jump(at("2026-04-05T01:00:00+11:00")), None);
    assert_eq!(half_an_hour.clock_jump(at("2026-04-05T01:30:00+11:00")), Some(FirstPass));
    assert_eq!(half_an_hour.clock_jump(at("2026-04-05T01:30:00+10:30")), Some(SecondPass));
}
