//! Timetables against other schedulers, against a slow model of the rules, and on the odd days of clocks.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::indexing_slicing, reason = "a test that fails says where")]

mod croniter;
mod cronos;
mod dated;
mod model;
mod odd_days;
mod page;
mod properties;

use leasehold::timetable::{Timetable, UtcSecond};

fn at(text: &str) -> UtcSecond {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn timetable(expression: &str, zone: &str) -> Timetable {
    Timetable::parse(expression, zone).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

/// The local times of the occurrences after `first` and up to `last`.
fn local_times(timetable: &Timetable, first: UtcSecond, last: UtcSecond) -> Vec<String> {
    let found = timetable.occurrences_after(first).take_while(|found| *found <= last);
    found.map(|found| timetable.local_time(found)).collect()
}
