//! Days and weeks counted from a date, as dateutil counts them (T14). Each line of the file: zone, days, the
//! first local time, an instant, and the occurrences from it on; `dated_vectors.py` writes it.

use leasehold::timetable::UtcSecond;

use crate::timetable::timetable;

#[test]
fn t14_days_from_a_date_are_those_of_icalendar() {
    let mut compared = 0;
    for line in include_str!("dated.txt").lines() {
        let [zone, days, start, first, theirs] =
            line.split('|').collect::<Vec<_>>()[..].try_into().unwrap();
        let timetable = timetable(&format!("@every {days}d from {start}"), zone);
        let instant = |text: &str| UtcSecond(text.parse().unwrap());
        let theirs: Vec<UtcSecond> = theirs.split(',').map(instant).collect();
        let before = UtcSecond(instant(first).0 - 1);
        let ours: Vec<UtcSecond> = timetable.occurrences_after(before).take(theirs.len()).collect();
        assert_eq!(ours, theirs, "{line}");
        let (last, backwards) = (*theirs.last().unwrap(), theirs.iter().rev().skip(1));
        let back: Vec<UtcSecond> =
            timetable.occurrences_before(last).take(theirs.len() - 1).collect();
        assert!(back.iter().eq(backwards), "backwards: {line}");
        compared += ours.len();
    }
    assert!(compared > 4_000, "{compared}");
}
