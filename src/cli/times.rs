//! How commands write times: moments in RFC 3339 and UTC, durations as flags take them, in their two greatest
//! units.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::time::UnixMillis;

pub(crate) use crate::view::moment;

fn seconds(at: SystemTime) -> Option<u64> {
    at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// How long ago it was.
pub(crate) fn age(at: Option<SystemTime>, now: UnixMillis) -> String {
    let Some(at) = at.and_then(seconds) else { return String::new() };
    span(Duration::from_secs(now.seconds().saturating_sub(at)))
}

/// A duration without what nobody needs: whole seconds from one second on, and then its two greatest units.
pub(crate) fn span(duration: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_owned();
    }
    // Time that is left is never told longer than it is.
    let mut left = duration.as_secs();
    if left == 0 {
        return format!("{millis}ms");
    }
    let mut parts = Vec::new();
    let first = UNITS.iter().position(|(unit, _)| left >= *unit).unwrap_or_default();
    for (unit, name) in UNITS.iter().skip(first).take(2) {
        let count = left / unit;
        left %= unit;
        if count > 0 {
            parts.push(format!("{count}{name}"));
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    }

    #[test]
    fn durations_are_rounded_and_can_be_given_to_a_flag() {
        for (millis, text) in [
            (0, "0s"),
            (340, "340ms"),
            (59_998, "59s"),
            (60_000, "1m"),
            (5_400_000, "1h 30m"),
            (5_461_000, "1h 31m"),
            (90_061_000, "1d 1h"),
            (86_405_000, "1d"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(span(duration), text);
            assert!(humantime::parse_duration(text).unwrap() <= duration, "{text}");
        }
    }

    #[test]
    fn no_other_module_of_the_command_line_writes_times() {
        let mut folders =
            vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli"))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("cli/times.rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    assert!(!text.contains("humantime::format_"), "{}", path.display());
                }
            }
        }
    }

    #[test]
    fn ages_are_short_and_far_dates_do_no_harm() {
        assert_eq!(age(at(1_000), UnixMillis(91_061_000)), "1d 1h");
        assert_eq!(age(None, UnixMillis(0)), "");
        assert_eq!(moment(at(1_700_000_000)).as_deref(), Some("2023-11-14T22:13:20Z"));
        assert_eq!(moment(at(253_402_300_800)), None);
        assert_eq!(moment(UNIX_EPOCH.checked_sub(Duration::from_secs(1))), None);
    }
}
