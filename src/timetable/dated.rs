//! `@every 14d from 2026-01-07T02:00`: days and weeks by the wall clock of the schedule's zone, counted from
//! a date (T14).

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::cron::DAY;
use super::error::{TimetableError, shown};
use super::every::Every;
use super::occurrences::{FIRST, LAST, LocalTimes};

/// Local times whole days apart, the first of which is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dated {
    /// The first one, counted as if it were UTC.
    from: i64,
    /// How many days apart they are.
    every: Every,
}

impl Dated {
    /// Reads what stands after `from`: a date, and a time of day if it is not midnight.
    pub(super) fn parse(every: Every, from: &str) -> Result<Self, TimetableError> {
        let wrong = |problem| TimetableError::From { given: shown(from), problem };
        if every.seconds() % DAY != 0 {
            return Err(wrong(
                "only whole days and weeks are counted from a date; a span of hours is counted from the Unix epoch",
            ));
        }
        if from.contains(['Z', 'z', '+']) || from.matches('-').count() > 2 {
            return Err(wrong("it is a time of the schedule's zone: leave the offset out"));
        }
        let local = from.parse::<DateTime>().map_err(|_| wrong("it is not a date"))?;
        let second = Offset::UTC.to_timestamp(local).map(Timestamp::as_second);
        let second = second.map_err(|_| wrong("no schedule has such a date"))?;
        if local.subsec_nanosecond() != 0 || !(FIRST..=LAST).contains(&second) {
            return Err(wrong("whole seconds from 1970 to 9999 are allowed"));
        }
        Ok(Self { from: second, every })
    }

    pub(super) const fn every(&self) -> Every {
        self.every
    }

    /// The first one as it is kept: `2026-01-07T02:00`.
    pub(super) fn first(&self) -> String {
        let Ok(timestamp) = Timestamp::from_second(self.from) else { return String::new() };
        let local = Offset::UTC.to_datetime(timestamp);
        let time = if local.second() == 0 { "%Y-%m-%dT%H:%M" } else { "%Y-%m-%dT%H:%M:%S" };
        local.strftime(time).to_string()
    }
}

impl LocalTimes for Dated {
    fn at_or_after(&self, local: i64) -> Option<i64> {
        let (since, step) = (local.saturating_sub(self.from).max(0), self.every.seconds());
        let steps = since / step + i64::from(since % step > 0);
        self.from.checked_add(steps.checked_mul(step)?)
    }

    fn at_or_before(&self, local: i64) -> Option<i64> {
        let since = local.checked_sub(self.from).filter(|since| *since >= 0)?;
        Some(self.from + since / self.every.seconds() * self.every.seconds())
    }

    fn is_interval(&self) -> bool {
        false
    }

    fn restricts_the_hour(&self) -> bool {
        true
    }
}
