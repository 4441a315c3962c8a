//! `@every`: occurrences equally far apart, counted from the Unix epoch (T14).

use std::time::Duration;

use super::error::{TimetableError, shown};
use super::{LEAST_GAP, MAX_EVERY};

/// A whole number of seconds, [`LEAST_GAP`] to [`MAX_EVERY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Every(i64);

/// The units, greatest first, and their seconds.
const UNITS: [(char, i64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];
/// The same with weeks, which are read and kept as days.
const READ: [(char, i64); 5] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

impl Every {
    pub(super) fn new(duration: Duration) -> Result<Self, TimetableError> {
        let given = format!("{duration:?}");
        if duration.subsec_nanos() > 0 {
            return Err(wrong(&given, "it has a fraction of a second"));
        }
        Self::from_seconds(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX), &given)
    }

    /// Reads `90s`, `1m30s`, `2h` or `1d`: each unit once, the greatest first.
    pub(super) fn parse(text: &str) -> Result<Self, TimetableError> {
        let mut rest = text;
        let mut total: i64 = 0;
        let mut units = READ.iter();
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at(digits);
            let number = match number.parse::<i64>() {
                Ok(number) if digits <= 9 => number,
                Ok(_) | Err(_) => {
                    return Err(wrong(text, "a unit needs a number of at most 9 digits before it"));
                }
            };
            let mut characters = tail.chars();
            let unit = characters.next().map(|unit| unit.to_ascii_lowercase());
            // Goes on after the unit before, so that none comes twice.
            let Some((_, seconds)) = units.find(|(name, _)| Some(*name) == unit) else {
                return Err(wrong(
                    text,
                    "a number needs a unit, w, d, h, m or s, each once and the greatest first",
                ));
            };
            total = total.saturating_add(number.saturating_mul(*seconds));
            rest = characters.as_str();
        }
        Self::from_seconds(total, text)
    }

    fn from_seconds(seconds: i64, given: &str) -> Result<Self, TimetableError> {
        if seconds > MAX_EVERY {
            return Err(wrong(given, "it is too long"));
        }
        if seconds < LEAST_GAP {
            return Err(wrong(given, "it is too short"));
        }
        Ok(Self(seconds))
    }

    pub(super) const fn seconds(self) -> i64 {
        self.0
    }

    /// The number of a unit's whole parts, and what is left of each: days, hours, minutes, seconds.
    pub(super) fn parts(self) -> impl Iterator<Item = (i64, char)> {
        let mut rest = self.0;
        UNITS.into_iter().filter_map(move |(unit, seconds)| {
            let number = rest / seconds;
            rest %= seconds;
            (number > 0).then_some((number, unit))
        })
    }

    pub(super) const fn at_or_after(self, at: i64) -> i64 {
        at.div_euclid(self.0) * self.0 + if at.rem_euclid(self.0) == 0 { 0 } else { self.0 }
    }

    pub(super) const fn at_or_before(self, at: i64) -> i64 {
        at.div_euclid(self.0) * self.0
    }
}

fn wrong(given: &str, problem: &'static str) -> TimetableError {
    TimetableError::Every { given: shown(given), problem }
}
