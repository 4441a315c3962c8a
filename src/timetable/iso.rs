//! Times as other programs write them: ISO 8601, with or without an offset (T22).

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::error::{TimetableError, shown};
use super::zone::Zone;
use super::{UtcSecond, occurrences};

/// A zone in which times without an offset are read. It reads the name of one: `Europe/Copenhagen`.
#[derive(Clone, Debug)]
pub struct LocalZone(Zone);

impl FromStr for LocalZone {
    type Err = TimetableError;

    fn from_str(name: &str) -> Result<Self, TimetableError> {
        Zone::find(name).map(Self)
    }
}

/// Why a text is not a time that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsoError {
    /// It has another form.
    #[error("{given:?} is not a time as .NET writes it, such as 2026-11-22T03:30:00.1075034+01:00")]
    Form {
        /// What was given, cut.
        given: String,
    },
    /// It has no offset, and no zone was said.
    #[error("{given:?} has no offset from UTC, so that its zone is not known")]
    NoOffset {
        /// What was given, cut.
        given: String,
    },
    /// No schedule has such an instant.
    #[error("{given:?} is not between 1970-01-01 and 9999-12-30")]
    Beyond {
        /// What was given, cut.
        given: String,
    },
}

impl UtcSecond {
    /// Reads a date, `T`, a time, and `Z` or an offset; without an offset the clocks of `zone` count, if one
    /// is given. A fraction of a second is cut. A local time that the zone's clocks show twice is the first
    /// of the two; one that they leave out is taken as much later as they jump.
    ///
    /// # Errors
    /// When it has another form, no offset and no zone, or no schedule has such an instant.
    pub fn from_iso(text: &str, zone: Option<&LocalZone>) -> Result<Self, IsoError> {
        let given = || shown(text);
        let form = || IsoError::Form { given: given() };
        let (_, time) = text.split_once('T').ok_or_else(form)?;
        let at = if time.contains(['Z', '+', '-']) {
            text.parse::<Timestamp>().map_err(|_| form())?.as_second()
        } else {
            let local = text.parse::<DateTime>().map_err(|_| form())?;
            let zone = zone.ok_or_else(|| IsoError::NoOffset { given: given() })?;
            zone.0.instant_of(local).ok_or_else(form)?
        };
        let is_within = (occurrences::FIRST..=occurrences::LAST).contains(&at);
        is_within.then_some(Self(at)).ok_or_else(|| IsoError::Beyond { given: given() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, zone: Option<&str>) -> Result<String, IsoError> {
        let zone = zone.map(|name| name.parse::<LocalZone>().unwrap());
        UtcSecond::from_iso(text, zone.as_ref()).map(|at| at.to_string())
    }

    #[test]
    fn t22_times_are_read_as_dotnet_writes_them() {
        for (text, instant) in [
            ("2026-11-22T03:30:00.1075034+01:00", "2026-11-22T02:30:00Z"),
            ("2026-11-22T02:30:00.9999999Z", "2026-11-22T02:30:00Z"),
            ("2026-11-22T02:30:00Z", "2026-11-22T02:30:00Z"),
            ("2026-11-21T23:00:00.5-03:30", "2026-11-22T02:30:00Z"),
        ] {
            // A zone changes nothing where there is an offset.
            for zone in [None, Some("Asia/Tokyo")] {
                assert_eq!(read(text, zone).as_deref(), Ok(instant), "{text}");
            }
        }
    }

    #[test]
    fn t22_a_time_without_an_offset_needs_a_zone() {
        let summer = "2026-07-01T02:30:00.1234567";
        assert!(matches!(read(summer, None), Err(IsoError::NoOffset { .. })));
        let copenhagen = Some("Europe/Copenhagen");
        assert_eq!(read(summer, copenhagen).as_deref(), Ok("2026-07-01T00:30:00Z"));
        assert_eq!(read("2026-12-01T02:30:00", copenhagen).as_deref(), Ok("2026-12-01T01:30:00Z"));
        // Shown twice: the first one, so that nothing is taken for done that is not.
        assert_eq!(read("2027-10-31T02:30:00", copenhagen).as_deref(), Ok("2027-10-31T00:30:00Z"));
        // Left out.
        assert_eq!(read("2027-03-28T02:30:00", copenhagen).as_deref(), Ok("2027-03-28T01:30:00Z"));
    }

    #[test]
    fn t22_other_texts_are_refused() {
        for text in ["", "soon", "2026-11-22", "2026-11-22 02:30:00Z", "2026-13-01T00:00:00Z", "T"]
        {
            assert!(matches!(read(text, Some("UTC")), Err(IsoError::Form { .. })), "{text}");
        }
        for text in ["1969-12-31T23:59:59Z", "9999-12-30T12:00:00Z", "0001-01-01T00:00:00"] {
            assert!(matches!(read(text, Some("UTC")), Err(IsoError::Beyond { .. })), "{text}");
        }
        let long = read(&"x".repeat(100_000), None).unwrap_err().to_string();
        assert!(long.len() < 400, "{long}");
        assert!("Europe/Kopenhagen".parse::<LocalZone>().is_err());
    }
}
