//! docs/schedules.md: what its tables say is what happens.

use leasehold::timetable::{Timetable, UtcSecond};

use crate::timetable::{at, timetable};

const PAGE: &str = include_str!("../../docs/schedules.md");

/// The rows of the table under this heading, as the cells between their bars.
fn rows<const CELLS: usize>(heading: &str) -> Vec<[&'static str; CELLS]> {
    let mut lines = PAGE.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "{heading:?} is in the page");
    let table = lines.skip_while(|line| !line.starts_with("| ---")).skip(1);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells = row.trim_matches('|').split(" | ").map(str::trim);
        cells.collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{row}: {CELLS} cells"))
    })
    .collect()
}

/// What a cell has in backquotes.
fn quoted(cell: &str) -> &str {
    cell.split('`').nth(1).unwrap_or_else(|| panic!("{cell}: nothing in backquotes"))
}

/// Time and offset of the occurrences of a local date in these hours: `02:30+01:00`.
fn on(timetable: &Timetable, date: &str, hours: [&str; 2]) -> Vec<String> {
    let midnight = at(&format!("{date}T00:00:00Z")).0;
    let all = timetable.occurrences_after(UtcSecond(midnight - 86_400));
    let near = all.take_while(|at| at.0 < midnight + 2 * 86_400);
    let near = near.map(|at| timetable.local_time(at));
    let there = near.filter(|local| &local[..10] == date && &local[11..13] >= hours[0]);
    let there = there.filter(|local| &local[11..13] <= hours[1]);
    there.map(|local| format!("{}{}", &local[11..16], &local[19..])).collect()
}

#[test]
fn t15_the_expressions_of_the_page_mean_what_it_says() {
    let expressions = rows::<2>("## Expressions");
    assert!(expressions.len() >= 15, "{}", expressions.len());
    for [expression, sentence] in expressions {
        assert_eq!(timetable(quoted(expression), "UTC").sentence(), sentence, "{expression}");
    }
}

#[test]
fn t15_what_the_page_says_is_refused_is_refused_with_that_advice() {
    let refused = rows::<2>("### What is refused");
    assert!(refused.len() >= 6, "{}", refused.len());
    for [given, advice] in refused {
        let error = Timetable::parse(quoted(given), "UTC").unwrap_err().to_string();
        assert!(error.contains(quoted(advice)), "{given}: {error}");
    }
}

#[test]
fn t14_the_two_odd_nights_are_as_the_page_says() {
    let nights = rows::<3>("## The two nights when clocks change");
    assert!(nights.len() >= 7, "{}", nights.len());
    for [expression, spring, autumn] in nights {
        let timetable = timetable(quoted(expression), "Europe/Copenhagen");
        for (date, told) in [("2027-03-28", spring), ("2027-10-31", autumn)] {
            assert_eq!(on(&timetable, date, ["01", "03"]).join(", "), told, "{expression} {date}");
        }
    }
}

#[test]
fn t14_the_odd_days_of_other_zones_are_as_the_page_says() {
    let days = rows::<4>("### Other zones");
    assert!(days.len() >= 4, "{}", days.len());
    for [zone, date, expression, told] in days {
        let timetable = timetable(quoted(expression), zone);
        assert_eq!(on(&timetable, date, ["00", "23"]).join(", "), told, "{zone} {expression}");
    }
}
