//! When a schedule is due: expressions, time zones, the next and the previous occurrence, and words for
//! people.
//!
//! Rules: T1 (instants), T13 (spread), T14 (zones and daylight saving), T15 (expressions); for T9 it counts,
//! bounded. May import: time. Pure: no clock is read, no zone of the system, no file. To add: a form of
//! expression is read in `expression.rs` to the sets of `cron.rs`; what zones do to it is in `occurrences.rs`
//! alone.
//!
//! The parser and the matcher are our own, over bits: both dialects need errors that name the field, the
//! steps as they were written, and one canonical text. The zone data and the calendar are jiff's, which is
//! seen nowhere else.

mod bits;
mod cron;
mod dated;
mod error;
mod every;
mod expression;
mod field;
mod iso;
mod occurrences;
mod sentence;
mod spread;
mod utc_second;
mod zone;

#[cfg(test)]
mod tests;

use std::time::Duration;

use cron::Cron;
use dated::Dated;
use every::Every;
use occurrences::{FIRST, LAST, LocalTimes as _};
use zone::Zone;

pub use error::{CronField, TimetableError};
pub use iso::{IsoError, LocalZone};
pub use utc_second::{InstantError, UtcSecond};
pub use zone::zone_data_version;

/// The longest expression, in bytes, as given and in its canonical form.
pub const MAX_EXPRESSION_BYTES: usize = 256;
/// The least average of gaps in a row (T15), in seconds.
const LEAST_GAP: i64 = 10;
/// How many gaps in a row count for the average.
const GAPS_IN_A_ROW: usize = 10;
/// How many gaps are looked at.
const GAPS: usize = 100;
/// The longest duration of `@every`, in seconds: 366 days.
const MAX_EVERY: i64 = 366 * 86_400;

/// An expression in a time zone: when a schedule is due.
///
/// Instants are from 1970-01-01 to 9999-12-30. Equal timetables have an equal [`canonical`](Self::canonical)
/// text and [`zone`](Self::zone); that is all that is compared.
#[derive(Clone, Debug)]
pub struct Timetable {
    rhythm: Rhythm,
    zone: Zone,
    canonical: String,
    warning: Option<String>,
}

/// What an expression means.
#[derive(Clone, Debug)]
enum Rhythm {
    Cron(Box<Cron>),
    Every(Every),
    Dated(Dated),
}

/// How many occurrences there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many, and no more.
    Exactly(u64),
    /// More than the limit that was asked with: at least so many.
    AtLeast(u64),
}

/// What a jump of a zone's clock has to do with an occurrence (T14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockJump {
    /// The clock jumps forward to this instant. The occurrence is also for all times of the expression in the
    /// gap.
    MadeUp,
    /// The clock shows this local time twice; this is the first time.
    FirstPass,
    /// The clock shows this local time twice; this is the second time.
    SecondPass,
}

impl Timetable {
    /// Reads an expression (T15) and finds the zone (T14).
    ///
    /// - Five fields, as Vixie cron: minute, hour, day of month, month, day of week (0 and 7 are Sunday).
    ///   When neither field of days begins with `*`, one of the two is enough.
    /// - Six fields, as NCRONTAB of WebJobs: second first, weekdays 0 to 6, `n/step`, both fields of days
    ///   count.
    /// - In both: names, ranges, lists, steps, `L`, `LW`, `15W` (day of month), `5L`, `5#3` (day of week).
    /// - `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`.
    /// - `@every 1m30s`: units w, d, h, m, s; counted from the Unix epoch in whatever zone.
    /// - `@every 14d from 2026-01-07T02:00`: whole days and weeks by the zone's wall clock, from that local
    ///   time on.
    ///
    /// `zone` is a name of the IANA database in any case; the empty text is UTC.
    ///
    /// # Errors
    /// Names the field, what was given and what is allowed. Also when it never fires, or more often than each
    /// 10 s on average over any ten of the first 100 gaps from the beginning of 2024 on.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, TimetableError> {
        let expression::Read { rhythm, canonical, warning } = expression::parse(expression)?;
        if let Rhythm::Cron(cron) = &rhythm {
            check_gaps(cron, expression)?;
        }
        Ok(Self { rhythm, zone: Zone::find(zone)?, canonical, warning })
    }

    /// Occurrences `interval` apart, counted from the Unix epoch: what `@every` is.
    ///
    /// # Errors
    /// When it is under 10 s, over 366 days, or has a fraction of a second; when there is no such zone.
    pub fn every(interval: Duration, zone: &str) -> Result<Self, TimetableError> {
        let every = Every::new(interval)?;
        let canonical = expression::write_every(every);
        let (rhythm, zone) = (Rhythm::Every(every), Zone::find(zone)?);
        Ok(Self { rhythm, zone, canonical, warning: None })
    }

    /// The one text of all spellings of this expression. [`parse`](Self::parse) reads it to an equal
    /// timetable.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// What is said of it though it is allowed: that others read it otherwise (T15). None of a canonical
    /// text.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The zone's name, as the database writes it.
    #[must_use]
    pub const fn zone(&self) -> &'static str {
        self.zone.name()
    }

    /// A sentence for people: `every day at 02:30, Europe/Copenhagen`.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.rhythm {
            Rhythm::Cron(cron) => sentence::of_cron(cron, self.zone()),
            Rhythm::Every(every) => sentence::of_every(*every),
            Rhythm::Dated(dated) => sentence::of_dated(*dated, self.zone()),
        }
    }

    /// The first occurrence after `after`, which itself does not count; none after the year 9999.
    #[must_use]
    pub fn next(&self, after: UtcSecond) -> Option<UtcSecond> {
        self.at_or_after(UtcSecond(after.0.checked_add(1)?))
    }

    /// The first occurrence at or after `at`.
    #[must_use]
    pub fn at_or_after(&self, at: UtcSecond) -> Option<UtcSecond> {
        let found = match &self.rhythm {
            Rhythm::Cron(cron) => occurrences::at_or_after(cron.as_ref(), &self.zone, at.0),
            Rhythm::Dated(dated) => occurrences::at_or_after(dated, &self.zone, at.0),
            Rhythm::Every(_) if at.0 > LAST => None,
            Rhythm::Every(every) => {
                Some(every.at_or_after(at.0.max(FIRST))).filter(|found| *found <= LAST)
            }
        };
        found.map(UtcSecond)
    }

    /// The last occurrence before `before`, which itself does not count; none before 1970.
    #[must_use]
    pub fn previous(&self, before: UtcSecond) -> Option<UtcSecond> {
        self.at_or_before(UtcSecond(before.0.checked_sub(1)?))
    }

    /// The last occurrence at or before `at`.
    #[must_use]
    pub fn at_or_before(&self, at: UtcSecond) -> Option<UtcSecond> {
        let found = match &self.rhythm {
            Rhythm::Cron(cron) => occurrences::at_or_before(cron.as_ref(), &self.zone, at.0),
            Rhythm::Dated(dated) => occurrences::at_or_before(dated, &self.zone, at.0),
            Rhythm::Every(_) if at.0 < FIRST => None,
            Rhythm::Every(every) => Some(every.at_or_before(at.0.min(LAST))),
        };
        found.map(UtcSecond)
    }

    /// The occurrences after `after`, in order.
    pub fn occurrences_after(&self, after: UtcSecond) -> impl Iterator<Item = UtcSecond> {
        std::iter::successors(self.next(after), |last| self.next(*last))
    }

    /// The occurrences before `before`, the latest first.
    pub fn occurrences_before(&self, before: UtcSecond) -> impl Iterator<Item = UtcSecond> {
        std::iter::successors(self.previous(before), |last| self.previous(*last))
    }

    /// How many occurrences there are after `after` and at or before `until`: counted up to `limit`, so that
    /// ten years cost no time (T9).
    #[must_use]
    pub fn count(&self, after: UtcSecond, until: UtcSecond, limit: u64) -> Count {
        let counted = match &self.rhythm {
            Rhythm::Every(every) => {
                let first = self.next(after).filter(|first| *first <= until);
                let last = self.at_or_before(until);
                let seconds = first.zip(last).map(|(first, last)| last.seconds_since(first));
                let gaps = seconds.map_or(-1, |seconds| seconds / every.seconds());
                u64::try_from(gaps + 1).unwrap_or_default()
            }
            Rhythm::Cron(_) | Rhythm::Dated(_) => {
                let most = usize::try_from(limit.saturating_add(1)).unwrap_or(usize::MAX);
                let all = self.occurrences_after(after).take_while(|at| *at <= until);
                all.take(most).count() as u64
            }
        };
        if counted > limit { Count::AtLeast(limit) } else { Count::Exactly(counted) }
    }

    /// The instant as the zone's clocks show it, with the offset: `2026-03-29T03:00:00+02:00`. In UTC for an
    /// instant that no calendar has.
    #[must_use]
    pub fn local_time(&self, at: UtcSecond) -> String {
        self.zone.local_time(at.0).unwrap_or_else(|| at.to_string())
    }

    /// What a jump of the zone's clock has to do with `occurrence`, which must be one of this timetable; none
    /// on other days. None for `@every` without a date, which no clock moves.
    #[must_use]
    pub fn clock_jump(&self, occurrence: UtcSecond) -> Option<ClockJump> {
        match &self.rhythm {
            Rhythm::Cron(cron) => occurrences::clock_jump(cron.as_ref(), &self.zone, occurrence.0),
            Rhythm::Dated(dated) => occurrences::clock_jump(dated, &self.zone, occurrence.0),
            Rhythm::Every(_) => None,
        }
    }

    /// How long after `occurrence` a run starts, so that schedules of one second do not start together (T13):
    /// whole seconds from 0 to `spread`, at most half the gap to the next, and always the same for one `name`
    /// and gap.
    #[must_use]
    pub fn spread_offset(&self, name: &[u8], spread: Duration, occurrence: UtcSecond) -> Duration {
        let gap = self.next(occurrence).map(|next| next.seconds_since(occurrence));
        let half = gap.map_or(u64::MAX, |gap| u64::try_from(gap / 2).unwrap_or_default());
        Duration::from_secs(spread::offset(name, spread.as_secs().min(half)))
    }
}

impl PartialEq for Timetable {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical && self.zone() == other.zone()
    }
}

impl Eq for Timetable {}

/// Refuses what never fires, and what fires too often (T15). Without a zone, so that the answer is the same
/// in each.
fn check_gaps(cron: &Cron, given: &str) -> Result<(), TimetableError> {
    /// The beginning of 2024, in seconds since 1970.
    const FROM: i64 = 1_704_067_200;
    let shown = || error::shown(given.trim());
    let first =
        cron.at_or_after(FROM).ok_or_else(|| TimetableError::NeverFires { given: shown() })?;
    let times = std::iter::successors(Some(first), |last| cron.at_or_after(last + 1));
    let times: Vec<i64> = times.take(GAPS + 1).collect();
    let spans = times.windows(GAPS_IN_A_ROW + 1).filter_map(|row| Some(row.last()? - row.first()?));
    let gaps = i64::try_from(GAPS_IN_A_ROW).unwrap_or(i64::MAX);
    let Some(span) = spans.min().filter(|span| *span < gaps * LEAST_GAP) else { return Ok(()) };
    let tenths = span * 10 / gaps;
    let average = format!("{}.{}", tenths / 10, tenths % 10);
    let suggestion = expression::on_the_minute(given);
    Err(TimetableError::TooOften { given: shown(), average, suggestion })
}
