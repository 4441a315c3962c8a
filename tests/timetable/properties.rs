//! Properties of all timetables.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use leasehold::timetable::{Timetable, UtcSecond};
use proptest::prelude::*;

use crate::timetable::model::{STEP, expression};

/// Zones whose clocks jump by an hour, by half an hour, at midnight, by two hours, by a day, and never.
const ZONES: [&str; 9] = [
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "America/Santiago",
    "Pacific/Apia",
    "Antarctica/Troll",
    "America/Havana",
    "Asia/Kolkata",
];

const DAY: i64 = 86_400;

/// A zone, and an instant not far from one of its jumps where it has any.
fn zone_and_instant() -> impl Strategy<Value = (&'static str, i64)> {
    let instants = 946_684_800..2_500_000_000_i64;
    (prop::sample::select(&ZONES[..]), instants, -DAY..DAY / 4).prop_map(|(name, at, around)| {
        let zone = TimeZone::get(name).unwrap();
        let jump = zone.following(Timestamp::from_second(at).unwrap()).next();
        // Havana's and Apia's jumps end, or are long ago.
        let near = jump.map_or(at, |jump| jump.timestamp().as_second()) + around;
        (name, near.div_euclid(STEP) * STEP)
    })
}

/// Two timetables of one sentence come at the same times.
#[test]
fn t15_no_sentence_stands_for_two_timetables() {
    let minutes = ["0", "30", "*", "*/10", "5-55/10", "0,15,40", "*/7"];
    let hours = ["*", "2", "2,14", "*/2", "9-17", "1,2,4,7,11,16,22", "0-23/5"];
    let days = ["*", "1", "1,15", "L", "15W", "LW", "*/10"];
    let months = ["*", "2"];
    let weekdays = ["*", "5", "1-5", "0,6", "5L", "5#3"];
    let mut told: HashMap<String, (String, Vec<UtcSecond>)> = HashMap::new();
    let mut compare = |expression: String| {
        // Some days do not exist, such as a last Friday of February that is the 21st.
        let Ok(timetable) = Timetable::parse(&expression, "") else { return };
        let all = timetable.occurrences_after(UtcSecond(0)).take(12).collect::<Vec<_>>();
        let (other, same) =
            told.entry(timetable.sentence()).or_insert_with(|| (expression.clone(), all.clone()));
        assert_eq!(&all, same, "{other} and {expression}: {}", timetable.sentence());
    };
    for (minute, hour) in product(&minutes, &hours) {
        for (day, (month, weekday)) in
            days.iter().flat_map(|day| product(&months, &weekdays).map(move |rest| (day, rest)))
        {
            compare(format!("{minute} {hour} {day} {month} {weekday}"));
        }
        for second in ["*/20", "0,40"] {
            for (month, weekday) in product(&months, &weekdays) {
                compare(format!("{second} {minute} {hour} 13 {month} {weekday}"));
            }
        }
    }
    assert!(told.len() > 2_500, "{}", told.len());
}

fn product<'a>(
    first: &'a [&'a str],
    second: &'a [&'a str],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    first.iter().flat_map(|one| second.iter().map(move |two| (*one, *two)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn t14_occurrences_are_those_of_the_slow_model(
        expression in expression(),
        (name, first) in zone_and_instant(),
    ) {
        let Ok(timetable) = Timetable::parse(&expression.text(), name) else {
            return Ok(());
        };
        let end = first + DAY;
        let expected = expression.occurrences(&TimeZone::get(name).unwrap(), first, end);
        let after = UtcSecond(first - 1);
        let forward: Vec<i64> = timetable
            .occurrences_after(after)
            .map(|found| found.0)
            .take_while(|found| *found < end)
            .collect();
        prop_assert_eq!(&forward, &expected, "{} in {} from {}", expression.text(), name, first);
        let mut backward: Vec<i64> = timetable
            .occurrences_before(UtcSecond(end))
            .map(|found| found.0)
            .take_while(|found| *found >= first)
            .collect();
        backward.reverse();
        prop_assert_eq!(&backward, &expected, "backward: {} in {}", expression.text(), name);
    }

    #[test]
    fn t14_next_and_previous_are_inverse_and_each_comes_once(
        expression in expression(),
        (name, first) in zone_and_instant(),
    ) {
        let Ok(timetable) = Timetable::parse(&expression.text(), name) else {
            return Ok(());
        };
        let mut last = UtcSecond(first);
        for _ in 0..20 {
            let next = timetable.next(last).unwrap();
            prop_assert!(next > last);
            prop_assert_eq!(timetable.at_or_after(next), Some(next));
            prop_assert_eq!(timetable.at_or_before(next), Some(next));
            // Nothing lies between the two.
            let previous = timetable.previous(next).unwrap();
            prop_assert!(previous <= last);
            prop_assert_eq!(timetable.next(previous), Some(next));
            last = next;
        }
    }

    #[test]
    fn t15_the_canonical_text_means_the_same(expression in expression(), first in 0..4_000_000_000_i64) {
        let Ok(timetable) = Timetable::parse(&expression.text(), "Europe/Berlin") else {
            return Ok(());
        };
        let again = Timetable::parse(timetable.canonical(), "Europe/Berlin").unwrap();
        prop_assert_eq!(again.canonical(), timetable.canonical());
        prop_assert_eq!(again.sentence(), timetable.sentence());
        let all = |timetable: &Timetable| {
            timetable.occurrences_after(UtcSecond(first)).take(50).collect::<Vec<_>>()
        };
        prop_assert_eq!(all(&again), all(&timetable), "{}", timetable.canonical());
    }

    #[test]
    fn t15_expressions_are_read_or_refused_but_never_cause_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        likely in "[0-9*/,\\-LW#@?A-Za-z ]{0,60}",
        fields in prop::collection::vec("[0-9*/,\\-LW#SUNMOFRI]{1,6}", 5..=6),
        zone in "[A-Za-z/_ ]{0,20}",
    ) {
        for text in [String::from_utf8_lossy(&bytes).into_owned(), likely, fields.join(" ")] {
            if let Ok(timetable) = Timetable::parse(&text, "") {
                prop_assert_eq!(&Timetable::parse(timetable.canonical(), "").unwrap(), &timetable);
                prop_assert!(!timetable.sentence().is_empty());
                prop_assert!(timetable.next(UtcSecond(0)).is_some());
            }
            if let Err(error) = Timetable::parse(&text, &zone) {
                prop_assert!(error.to_string().len() < 500, "{}", error);
            }
        }
    }
}
