//! When the shared access signature of the store ends, and who has to be told.

use std::time::{Duration, UNIX_EPOCH};

use super::times::{moment, span};
use crate::time::UnixMillis;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How near the end is, where people have to do something about it; a later one is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Notice {
    /// Seven days or less.
    Week,
    /// One day or less.
    Day,
    /// It has ended.
    Ended,
}

/// Whether the end is so near.
pub(super) fn notice(end: UnixMillis, now: UnixMillis) -> Option<Notice> {
    let left = Duration::from_millis(end.0.saturating_sub(now.0));
    if left.is_zero() {
        Some(Notice::Ended)
    } else if left <= DAY {
        Some(Notice::Day)
    } else if left <= 7 * DAY {
        Some(Notice::Week)
    } else {
        None
    }
}

/// When it ends, for people.
pub(super) fn text(end: UnixMillis, now: UnixMillis) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(end.seconds()));
    let at = moment(at).unwrap_or_default();
    let left = end.seconds().saturating_sub(now.seconds());
    if left == 0 {
        return format!("ended at {at}");
    }
    format!("ends in {}, at {at}", span(Duration::from_secs(left)))
}

/// Tells of an end once at each step, and anew of another end.
#[derive(Debug, Default)]
pub(super) struct Told {
    last: Option<(UnixMillis, Notice)>,
}

impl Told {
    /// What there is to tell now.
    pub(super) fn next(&mut self, end: Option<UnixMillis>, now: UnixMillis) -> Option<Notice> {
        let end = end?;
        let due = notice(end, now)?;
        if self.last.is_some_and(|(told, last)| told == end && last >= due) {
            return None;
        }
        self.last = Some((end, due));
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(number: u64) -> UnixMillis {
        UnixMillis(1_800_000_000_000 + number * 86_400_000)
    }

    #[test]
    fn s20_an_end_is_told_seven_days_and_one_day_before_and_when_it_is_there() {
        let mut told = Told::default();
        let mut next = |end, now| told.next(Some(end), now);
        assert_eq!(next(day(30), day(22)), None);
        assert_eq!(next(day(30), day(23)), Some(Notice::Week));
        assert_eq!(next(day(30), day(24)), None, "once");
        assert_eq!(next(day(30), day(29)), Some(Notice::Day));
        assert_eq!(next(day(30), day(30)), Some(Notice::Ended));
        assert_eq!(next(day(30), day(29)), None, "a clock that steps back tells nothing again");
        assert_eq!(
            next(day(36), day(30)),
            Some(Notice::Week),
            "another signature, too short again"
        );
        assert_eq!(told.next(None, day(30)), None);
    }

    #[test]
    fn the_end_is_told_in_its_two_greatest_units() {
        assert_eq!(text(day(2), day(1)), "ends in 1d, at 2027-01-17T08:00:00Z");
        assert_eq!(text(day(1), day(1)), "ended at 2027-01-16T08:00:00Z");
    }
}
