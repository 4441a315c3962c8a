//! What can be wrong with an expression or a zone: what was given, and what is allowed.

use std::fmt;

use super::{GAPS_IN_A_ROW, LEAST_GAP, MAX_EVERY, MAX_EXPRESSION_BYTES};

/// A field of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CronField {
    /// 0 to 59; expressions of five fields have none.
    Second,
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31.
    DayOfMonth,
    /// 1 to 12.
    Month,
    /// 0 to 6 from Sunday; 7 is Sunday too in expressions of five fields.
    DayOfWeek,
}

impl fmt::Display for CronField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
        })
    }
}

/// Why a text is not a timetable (T15).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimetableError {
    /// Nothing was given.
    #[error(
        "the schedule is empty; give five or six fields, a nickname such as @daily, or @every 90s"
    )]
    Empty,
    /// The expression is over the limit.
    #[error(
        "the schedule has {length} bytes in its canonical form or as given; at most {MAX_EXPRESSION_BYTES} are allowed"
    )]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The expression has a character that no expression has.
    #[error(
        "the schedule has the character {character:?}; letters, digits, spaces and * , - / # @ are allowed"
    )]
    Character {
        /// The first such character.
        character: char,
    },
    /// The expression has too few or too many fields.
    #[error(
        "{given:?} has {count} field{}; five (minute, hour, day of month, month, day of week) or six (second first) are allowed",
        if *.count == 1 { "" } else { "s" }
    )]
    FieldCount {
        /// What was given, cut.
        given: String,
        /// How many fields it has.
        count: usize,
    },
    /// What follows `@` is not known.
    #[error(
        "{given:?} is not a nickname: @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually and @every with a duration are allowed{}",
        did_you_mean(.suggestion.as_deref())
    )]
    Nickname {
        /// What was given, cut.
        given: String,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// A field is wrong.
    #[error("{field} {given:?}: {problem}; allowed: {allowed}")]
    Field {
        /// Which field is wrong.
        field: CronField,
        /// What was given, cut.
        given: String,
        /// What is wrong with it.
        problem: String,
        /// The values that the field takes.
        allowed: &'static str,
    },
    /// There is no such day: 30 February.
    #[error(
        "{given:?} never fires: no day of any year fits its day of month, month and day of week"
    )]
    NeverFires {
        /// What was given.
        given: String,
    },
    /// It fires too often.
    #[error(
        "{given:?} fires every {average} s on average, {GAPS_IN_A_ROW} times in a row; at least {LEAST_GAP} s are allowed{}",
        did_you_mean(.suggestion.as_deref())
    )]
    TooOften {
        /// What was given.
        given: String,
        /// The least average of ten gaps in a row, in seconds with one decimal.
        average: String,
        /// The same on the full minute, if that was probably meant.
        suggestion: Option<String>,
    },
    /// Something stands after a nickname.
    #[error("nothing may follow {nickname}; leave out {given:?}")]
    Trailing {
        /// The nickname, as it was given.
        nickname: String,
        /// What stands after it, cut.
        given: String,
    },
    /// A comment stands after the expression.
    #[error("an expression has no comment; leave out {given:?}")]
    Comment {
        /// The comment, cut.
        given: String,
    },
    /// The zone is written into the expression.
    #[error(
        "the time zone is not a part of the expression: leave out {given:?}, and give the zone as time_zone (--tz)"
    )]
    ZonePrefix {
        /// What was given, cut.
        given: String,
    },
    /// A TimeSpan of .NET.
    #[error("{given:?} is a TimeSpan of .NET, not a schedule; did you mean @every {suggestion}?")]
    TimeSpan {
        /// What was given.
        given: String,
        /// The same as a duration.
        suggestion: String,
    },
    /// The date that days are counted from is wrong.
    #[error(
        "from {given:?}: {problem}; a local date and time is needed, as in @every 14d from 2026-01-07T02:00"
    )]
    From {
        /// What was given, cut.
        given: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A duration is wrong.
    #[error(
        "every {given:?}: {problem}; whole seconds from {LEAST_GAP}s to {}d are allowed, such as 90s, 1m30s, 2h, 1d or 2w",
        MAX_EVERY / 86_400
    )]
    Every {
        /// What was given, cut.
        given: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There is no such zone.
    #[error(
        "{given:?} is not a time zone; the names of the IANA database are allowed, such as UTC or Europe/Copenhagen{}",
        did_you_mean(*.suggestion)
    )]
    Zone {
        /// What was given, cut.
        given: String,
        /// What was probably meant.
        suggestion: Option<&'static str>,
    },
}

impl TimetableError {
    /// What is wrong: `expression` or `time_zone`.
    #[must_use]
    pub const fn parameter(&self) -> &'static str {
        if matches!(self, Self::Zone { .. }) { "time_zone" } else { "expression" }
    }
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// What is shown of a text that may be long.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = text.chars().take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}
