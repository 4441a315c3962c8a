//! Times of no zone that fit an expression: the nearest one, either way.
//!
//! Such a time is counted as if it were UTC: seconds since 1970-01-01T00:00:00 of the same clock face.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

use super::bits;
use super::error::CronField;
use super::field::{Field, SpecialDay};
use super::occurrences::LocalTimes;

pub(super) const DAY: i64 = 86_400;

/// The Gregorian calendar repeats itself after 400 years: what does not come in that time never comes.
const MONTHS_OF_ALL_CALENDARS: u32 = 400 * 12 + 1;

/// What a day and a time of day must be.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    pub(super) times: Times,
    pub(super) days: Days,
}

/// Times of day.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    /// Whether second, minute or hour is `*` or has a step (T14).
    pub(super) interval: bool,
}

/// Days. At least one of `of_month` and `of_week` is not all days when `either` is set.
#[derive(Clone, Debug)]
pub(super) struct Days {
    pub(super) of_month: u64,
    pub(super) of_week: u64,
    pub(super) months: u64,
    pub(super) special_of_month: Vec<SpecialDay>,
    pub(super) special_of_week: Vec<SpecialDay>,
    /// One of day of month and day of week is enough; else both are needed.
    pub(super) either: bool,
}

impl LocalTimes for Cron {
    fn at_or_after(&self, local: i64) -> Option<i64> {
        let (date, second) = split(local)?;
        let days = self.days.in_month(date.year(), date.month());
        let today = day_of(date);
        if bits::has(days, today)
            && let Some(time) = self.times.at_or_after(second)
        {
            return Some(midnight(date)? + time);
        }
        let mut later = days & (u64::MAX << (today + 1));
        let mut month = date.first_of_month();
        for _ in 0..MONTHS_OF_ALL_CALENDARS {
            if let Some(day) = bits::at_or_after(later, 1) {
                return Some(midnight(month)? + i64::from(day - 1) * DAY + self.times.first()?);
            }
            month = next_month(month)?;
            later = self.days.in_month(month.year(), month.month());
        }
        None
    }

    fn at_or_before(&self, local: i64) -> Option<i64> {
        let (date, second) = split(local)?;
        let days = self.days.in_month(date.year(), date.month());
        let today = day_of(date);
        if bits::has(days, today)
            && let Some(time) = self.times.at_or_before(second)
        {
            return Some(midnight(date)? + time);
        }
        let mut earlier = days & bits::range(0, today - 1);
        let mut month = date.first_of_month();
        for _ in 0..MONTHS_OF_ALL_CALENDARS {
            if let Some(day) = bits::at_or_before(earlier, 31) {
                return Some(midnight(month)? + i64::from(day - 1) * DAY + self.times.last()?);
            }
            month = previous_month(month)?;
            earlier = self.days.in_month(month.year(), month.month());
        }
        None
    }

    fn is_interval(&self) -> bool {
        self.times.interval
    }

    fn restricts_the_hour(&self) -> bool {
        self.times.restricts_the_hour()
    }
}

impl Times {
    pub(super) fn new(second: &Field, minute: &Field, hour: &Field) -> Self {
        Self {
            seconds: second.values,
            minutes: minute.values,
            hours: hour.values,
            interval: [second, minute, hour].into_iter().any(Field::is_interval),
        }
    }

    /// Whether there are hours without an occurrence (T14).
    pub(super) fn restricts_the_hour(&self) -> bool {
        self.hours != CronField::Hour.all()
    }

    fn first(&self) -> Option<i64> {
        self.at_or_after(0)
    }

    fn last(&self) -> Option<i64> {
        self.at_or_before(DAY - 1)
    }

    fn at_or_after(&self, second_of_day: i64) -> Option<i64> {
        let [hour, minute, second] = clock_face(second_of_day);
        let first_second = bits::at_or_after(self.seconds, 0)?;
        let first_minute = bits::at_or_after(self.minutes, 0)?;
        if bits::has(self.hours, hour) {
            if bits::has(self.minutes, minute)
                && let Some(second) = bits::at_or_after(self.seconds, second)
            {
                return Some(seconds(hour, minute, second));
            }
            if let Some(minute) = bits::at_or_after(self.minutes, minute + 1) {
                return Some(seconds(hour, minute, first_second));
            }
        }
        let hour = bits::at_or_after(self.hours, hour + 1)?;
        Some(seconds(hour, first_minute, first_second))
    }

    fn at_or_before(&self, second_of_day: i64) -> Option<i64> {
        let [hour, minute, second] = clock_face(second_of_day);
        let last_second = bits::at_or_before(self.seconds, 59)?;
        let last_minute = bits::at_or_before(self.minutes, 59)?;
        if bits::has(self.hours, hour) {
            if bits::has(self.minutes, minute)
                && let Some(second) = bits::at_or_before(self.seconds, second)
            {
                return Some(seconds(hour, minute, second));
            }
            let earlier = minute.checked_sub(1);
            if let Some(minute) = earlier.and_then(|to| bits::at_or_before(self.minutes, to)) {
                return Some(seconds(hour, minute, last_second));
            }
        }
        let hour = bits::at_or_before(self.hours, hour.checked_sub(1)?)?;
        Some(seconds(hour, last_minute, last_second))
    }
}

impl Days {
    /// The days of a month that fit, as bits from 1; none when the month does not fit.
    fn in_month(&self, year: i16, month: i8) -> u64 {
        if !bits::has(self.months, u8::try_from(month).unwrap_or_default()) {
            return 0;
        }
        let Ok(first) = Date::new(year, month, 1) else { return 0 };
        let month = Month {
            first_weekday: u8::try_from(first.weekday().to_sunday_zero_offset())
                .unwrap_or_default(),
            length: u8::try_from(first.days_in_month()).unwrap_or(31),
        };
        let special =
            |days: &[SpecialDay]| days.iter().fold(0, |set, day| set | month.special(*day));
        let of_month = self.of_month | special(&self.special_of_month);
        let of_week = bits::numbers(self.of_week).fold(0, |set, day| set | month.weekdays(day))
            | special(&self.special_of_week);
        let days = if self.either { of_month | of_week } else { of_month & of_week };
        days & bits::range(1, month.length)
    }
}

/// A month of some year.
struct Month {
    /// The weekday of its first day; Sunday is 0.
    first_weekday: u8,
    length: u8,
}

impl Month {
    /// All days that are this weekday, as bits.
    const fn weekdays(&self, weekday: u8) -> u64 {
        const EACH_SEVENTH: u64 = 1 << 1 | 1 << 8 | 1 << 15 | 1 << 22 | 1 << 29;
        let first = (weekday + 7 - self.first_weekday) % 7;
        EACH_SEVENTH << first & bits::range(1, self.length)
    }

    const fn weekday(&self, day: u8) -> u8 {
        (self.first_weekday + day - 1) % 7
    }

    /// The day, as a bit; none when the month does not have it.
    fn special(&self, special: SpecialDay) -> u64 {
        let day = match special {
            SpecialDay::Last => Some(self.length),
            SpecialDay::LastWeekday => Some(self.nearest_weekday(self.length)),
            SpecialDay::NearestWeekday(day) => {
                (day <= self.length).then(|| self.nearest_weekday(day))
            }
            SpecialDay::Nth(weekday, nth) => {
                bits::numbers(self.weekdays(weekday)).nth(usize::from(nth) - 1)
            }
            SpecialDay::LastOf(weekday) => bits::at_or_before(self.weekdays(weekday), 31),
        };
        day.map_or(0, |day| 1 << day)
    }

    const fn nearest_weekday(&self, day: u8) -> u8 {
        match self.weekday(day) {
            0 if day == self.length => day - 2,
            0 => day + 1,
            6 if day == 1 => day + 2,
            6 => day - 1,
            _ => day,
        }
    }
}

fn split(local: i64) -> Option<(Date, i64)> {
    let date = Offset::UTC.to_datetime(Timestamp::from_second(local).ok()?).date();
    Some((date, local.rem_euclid(DAY)))
}

fn midnight(date: Date) -> Option<i64> {
    let midnight = DateTime::from_parts(date, jiff::civil::Time::midnight());
    Offset::UTC.to_timestamp(midnight).ok().map(Timestamp::as_second)
}

fn day_of(date: Date) -> u8 {
    u8::try_from(date.day()).unwrap_or_default()
}

fn next_month(month: Date) -> Option<Date> {
    match month.month() {
        12 => Date::new(month.year().checked_add(1)?, 1, 1).ok(),
        number => Date::new(month.year(), number + 1, 1).ok(),
    }
}

fn previous_month(month: Date) -> Option<Date> {
    match month.month() {
        1 => Date::new(month.year().checked_sub(1)?, 12, 1).ok(),
        number => Date::new(month.year(), number - 1, 1).ok(),
    }
}

fn clock_face(second_of_day: i64) -> [u8; 3] {
    [second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60]
        .map(|part| u8::try_from(part).unwrap_or_default())
}

fn seconds(hour: u8, minute: u8, second: u8) -> i64 {
    i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second)
}
