//! How many occurrences a core finds in a second, forward and backward: no server, no store.

use leasehold::timetable::{Timetable, UtcSecond};

use crate::figure::{Figures, Stopwatch};

/// What people write, in zones with and without daylight saving.
const ORDINARY: [(&str, &str); 7] = [
    ("30 2 * * *", "UTC"),
    ("30 2 * * *", "Europe/Berlin"),
    ("*/10 * * * *", "America/New_York"),
    ("*/10 * * * * *", "Europe/Berlin"),
    ("0 2,14 * * 1-5", "Australia/Lord_Howe"),
    ("0 0 1 * *", "America/Santiago"),
    ("0 9 * * 5L", "Europe/Berlin"),
];
/// Every 28 years, or 40.
const RARE: (&str, &str) = ("0 0 0 29 2 1", "Europe/Berlin");
/// 2026-01-01T00:00:00Z.
const FROM: UtcSecond = UtcSecond(1_767_225_600);
const ROUNDS: u32 = 200_000;

pub(crate) fn measure(figures: &mut Figures) {
    let timetables = ORDINARY.map(|(expression, zone)| Timetable::parse(expression, zone).unwrap());
    let slowest = |step: fn(&Timetable, UtcSecond) -> Option<UtcSecond>| {
        let rates = timetables.iter().map(|timetable| rate(timetable, step));
        rates.fold(f64::INFINITY, f64::min)
    };
    let next = slowest(Timetable::next);
    figures.at_least("next occurrence, slowest of 7 ordinary schedules", next, 100_000.0, "/s");
    let previous = slowest(Timetable::previous);
    let name = "previous occurrence, slowest of 7 ordinary schedules";
    figures.at_least(name, previous, 100_000.0, "/s");
    let rare = Timetable::parse(RARE.0, RARE.1).unwrap();
    let microseconds = 1_000_000.0 / rate(&rare, Timetable::next);
    figures.at_most("next 29 February that is a Monday", microseconds, 1_000.0, " µs");
}

/// Occurrences a second, each searched from the one before; from the start again after 1,000.
fn rate(timetable: &Timetable, step: fn(&Timetable, UtcSecond) -> Option<UtcSecond>) -> f64 {
    let watch = Stopwatch::new();
    let start = watch.now();
    let mut at = FROM;
    for round in 0..ROUNDS {
        at = step(timetable, at).filter(|_| round % 1_000 > 0).unwrap_or(FROM);
    }
    assert!(std::hint::black_box(at) != UtcSecond(0));
    f64::from(ROUNDS) / watch.since(start).as_secs_f64()
}
