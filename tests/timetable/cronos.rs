//! The published vectors of Cronos (HangfireIO/Cronos, `CronExpressionFacts.cs`): those of clocks that jump,
//! and a choice of the others. Each line of the file: zone, expression, whether the instant itself counts,
//! instant, what comes then.

use std::collections::BTreeSet;

use crate::timetable::{at, timetable};

const NEW_YORK: &str = "America/New_York";
const LORD_HOWE: &str = "Australia/Lord_Howe";

/// A range in second, minute or hour makes an interval for Cronos, which runs in both passes of a repeated
/// hour. Here it is a fixed time: the first pass only (T14).
const RANGE: &str = "a range is a fixed time";
/// A time in a gap that comes in every hour (`30 *`) runs at the end of the gap in Cronos. Here it is
/// skipped: the next hour has its own (T14).
const EVERY_HOUR: &str = "every hour has its own";

/// What comes here instead, and why. A difference that is not in this table fails the test, and so does a row
/// that is none.
///
/// Not comparable: Cronos takes ranges that wrap around (`55-5`), `?`, and `n/step` in five fields as well,
/// and wants both fields of days in five fields, too. Ranges of seconds are refused here (T15).
#[rustfmt::skip]
const DIFFERENCES: [(&str, &str, &str, &str, &str); 10] = [
    (NEW_YORK, "0 30 * * 3 SUN#2", ">= 2016-03-13T01:59:00-05:00", "2016-03-13T03:30:00-04:00", EVERY_HOUR),
    (NEW_YORK, "0 30 * * 3 SUN#2", "> 2016-03-13T01:59:00-05:00", "2016-03-13T03:30:00-04:00", EVERY_HOUR),
    (NEW_YORK, "0 30 1-9 * * *", ">= 2016-11-06T01:59:00-04:00", "2016-11-06T02:30:00-05:00", RANGE),
    (NEW_YORK, "0 30 1-9 * * *", "> 2016-11-06T01:30:00-04:00", "2016-11-06T02:30:00-05:00", RANGE),
    (NEW_YORK, "0 0-30 1 * * *", ">= 2016-11-06T01:59:00-04:00", "2016-11-07T01:00:00-05:00", RANGE),
    (NEW_YORK, "0 0-30 1 * * *", "> 2016-11-06T01:59:00-04:00", "2016-11-07T01:00:00-05:00", RANGE),
    (NEW_YORK, "0 0-30 1 * * *", ">= 2016-11-06T01:20:00-05:00", "2016-11-07T01:00:00-05:00", RANGE),
    (NEW_YORK, "0 0-30 1 * * *", "> 2016-11-06T01:20:00-05:00", "2016-11-07T01:00:00-05:00", RANGE),
    (LORD_HOWE, "0 30 1-9 * * *", ">= 2017-04-02T01:59:00+11:00", "2017-04-02T02:30:00+10:30", RANGE),
    (LORD_HOWE, "0 0-30 1 * * *", ">= 2017-04-02T01:59:00+11:00", "2017-04-03T01:00:00+10:30", RANGE),
];

#[test]
fn t14_t15_cronos_finds_the_same_but_for_named_differences() {
    let mut compared = 0;
    let mut differences = BTreeSet::new();
    for line in include_str!("cronos.txt").lines() {
        let [zone, expression, mode, from, theirs] =
            line.split('|').collect::<Vec<_>>()[..].try_into().unwrap();
        let timetable = timetable(expression, zone);
        let found = match mode {
            ">=" => timetable.at_or_after(at(from)),
            _ => timetable.next(at(from)),
        };
        let ours = timetable.local_time(found.unwrap());
        if ours != theirs {
            differences.insert((zone, expression, format!("{mode} {from}"), ours));
        }
        compared += 1;
    }
    let named = DIFFERENCES.map(|(zone, expression, from, ours, _)| {
        (zone, expression, from.to_owned(), ours.to_owned())
    });
    assert_eq!(differences, BTreeSet::from(named));
    assert_eq!(compared, 167);
}
