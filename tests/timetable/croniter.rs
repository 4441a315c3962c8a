//! The occurrences that croniter 7.0.0 finds. Each line of the file: zone, expression, first and last
//! instant, and the occurrences after the first and up to the last; `croniter_vectors.py` writes it.

use std::collections::BTreeSet;

use leasehold::timetable::UtcSecond;

use crate::timetable::timetable;

/// croniter runs a fixed time in both passes of a repeated hour. Here it comes once (T14).
const TWICE: &str = "once in a repeated hour";
/// croniter runs an interval once when only a part of its hour is repeated. Here it goes on (T14).
const HALF: &str = "an interval goes on in a repeated part of an hour";
/// croniter takes `31W` for the last day of shorter months. Here such a month has none (T15), as it has no
/// `31`.
const SHORT: &str = "a month without the day has no weekday nearest to it";

/// Who finds more, what, and why they differ. A difference that is not in this table fails the test, and so
/// does a row that is none.
///
/// Not comparable: croniter writes the last Friday `L5`, takes ranges that wrap around, has the second last
/// of six fields, and refuses nothing for coming too often.
#[rustfmt::skip]
const DIFFERENCES: [(&str, &str, &str, &str, &str); 16] = [
    ("America/New_York", "30 1 * * *", "croniter", "2025-11-02T01:30:00-05:00", TWICE),
    ("Europe/Berlin", "30 2 * * *", "croniter", "2026-10-25T02:30:00+01:00", TWICE),
    ("Europe/Berlin", "0 2,14 * * *", "croniter", "2026-10-25T02:00:00+01:00", TWICE),
    ("Australia/Lord_Howe", "30 1 * * *", "croniter", "2026-04-05T01:30:00+10:30", TWICE),
    ("America/Santiago", "45 23 * * *", "croniter", "2026-04-04T23:45:00-04:00", TWICE),
    ("Pacific/Chatham", "*/10 2 * * *", "here", "2026-04-05T02:50:00+12:45", HALF),
    ("UTC", "0 0 31W * *", "croniter", "2024-02-29T00:00:00+00:00", SHORT),
    ("UTC", "0 0 31W * *", "croniter", "2024-04-30T00:00:00+00:00", SHORT),
    ("UTC", "0 0 31W * *", "croniter", "2024-06-28T00:00:00+00:00", SHORT),
    ("UTC", "0 0 31W * *", "croniter", "2024-09-30T00:00:00+00:00", SHORT),
    ("UTC", "0 0 31W * *", "croniter", "2024-11-29T00:00:00+00:00", SHORT),
    ("UTC", "0 0 31W * *", "croniter", "2025-02-28T00:00:00+00:00", SHORT),
    ("UTC", "0 0 31W * *", "croniter", "2025-04-30T00:00:00+00:00", SHORT),
    ("UTC", "0 0 31W * *", "croniter", "2025-06-30T00:00:00+00:00", SHORT),
    ("UTC", "0 0 31W * *", "croniter", "2025-09-30T00:00:00+00:00", SHORT),
    ("UTC", "0 0 31W * *", "croniter", "2025-11-28T00:00:00+00:00", SHORT),
];

#[test]
fn t14_t15_croniter_finds_the_same_but_for_named_differences() {
    let mut compared = 0;
    let mut differences = BTreeSet::new();
    for line in include_str!("croniter.txt").lines() {
        let [zone, expression, first, last, theirs] =
            line.split('|').collect::<Vec<_>>()[..].try_into().unwrap();
        let timetable = timetable(expression, zone);
        let instant = |text: &str| UtcSecond(text.parse().unwrap());
        let listed = theirs.split(',').filter(|found| !found.is_empty());
        let theirs: BTreeSet<UtcSecond> = listed.map(instant).collect();
        let ours: BTreeSet<UtcSecond> = timetable
            .occurrences_after(instant(first))
            .take_while(|found| *found <= instant(last))
            .collect();
        let more = [("here", ours.difference(&theirs)), ("croniter", theirs.difference(&ours))];
        for (who, found) in more {
            differences
                .extend(found.map(|found| (zone, expression, who, timetable.local_time(*found))));
        }
        compared += ours.len();
    }
    let named = DIFFERENCES
        .map(|(zone, expression, who, found, _)| (zone, expression, who, found.to_owned()));
    assert_eq!(differences, BTreeSet::from(named));
    assert!(compared > 3_000, "{compared}");
}
