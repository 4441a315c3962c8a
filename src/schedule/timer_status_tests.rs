use super::*;

fn read(last: &str, next: &str, updated: &str) -> Result<TimerStatus, TimerStatusError> {
    let text = format!(r#"{{"Last":"{last}","Next":"{next}","LastUpdated":"{updated}"}}"#);
    TimerStatus::parse(&text, None)
}

fn at(text: &str) -> UtcSecond {
    text.parse().unwrap()
}

fn problem(text: &str) -> String {
    TimerStatus::parse(text, None).unwrap_err().to_string()
}

const NEVER_RUN: &str = "0001-01-01T00:00:00+00:00";

#[test]
fn t22_a_status_is_read_as_dotnet_writes_it() {
    let last = "2026-11-22T02:30:00.1075034+01:00";
    let status = read(last, "2026-11-23T02:30:00+01:00", last).unwrap();
    assert_eq!(status.done_up_to, at("2026-11-22T01:30:00Z"), "cut to the second");
    assert_eq!(status.next, Some(at("2026-11-23T01:30:00Z")));
    let utc = read("2026-11-22T01:30:00.5Z", "2026-11-23T01:30:00Z", NEVER_RUN).unwrap();
    assert_eq!(utc, status);
}

#[test]
fn t22_what_else_stands_in_a_status_is_ignored() {
    let text = "\u{feff}{ \"Last\": \"2026-11-22T01:30:00Z\", \"Next\": \"2026-11-23T01:30:00Z\",\r\n \"IsPastDue\": [1] }";
    assert_eq!(TimerStatus::parse(text, None).unwrap().done_up_to, at("2026-11-22T01:30:00Z"));
}

#[test]
fn t22_the_year_0001_is_never() {
    let (updated, next) = ("2026-11-20T10:00:00+01:00", "2026-11-23T02:30:00+01:00");
    for never in
        [NEVER_RUN, "0001-01-01T00:00:00", "0001-01-01T00:00:00+02:00", "0001-01-01T00:00:00Z"]
    {
        // Its schedule was changed, and it has not run since.
        let changed = read(never, next, updated).unwrap();
        assert_eq!(changed.done_up_to, at("2026-11-20T09:00:00Z"), "{never}");
        // It has never run: what comes next is the first one.
        let fresh = read(never, next, never).unwrap();
        assert_eq!(fresh.done_up_to, at("2026-11-23T01:29:59Z"), "{never}");
        assert_eq!(fresh.next, Some(at("2026-11-23T01:30:00Z")), "{never}");
        let nothing = read(never, never, never).unwrap_err();
        assert!(matches!(nothing, TimerStatusError::Nothing), "{never}: {nothing}");
        let no_next = read(updated, never, never).unwrap();
        assert_eq!((no_next.done_up_to, no_next.next), (at("2026-11-20T09:00:00Z"), None));
    }
}

#[test]
fn t22_a_status_without_offsets_needs_a_zone_or_is_refused() {
    let text = r#"{"Last":"2026-07-01T02:30:00.1","Next":"2026-07-02T02:30:00","LastUpdated":"0001-01-01T00:00:00"}"#;
    let refused = problem(text);
    assert!(refused.contains("`Last`") && refused.contains("no offset"), "{refused}");
    let zone = "Europe/Copenhagen".parse().unwrap();
    let status = TimerStatus::parse(text, Some(&zone)).unwrap();
    assert_eq!(status.done_up_to, at("2026-07-01T00:30:00Z"));
    assert_eq!(status.next, Some(at("2026-07-02T00:30:00Z")));
}

#[test]
fn t22_a_broken_status_is_refused_and_the_field_is_named() {
    let good = "2026-11-22T01:30:00Z";
    for (text, hints) in [
        (String::new(), ["not the JSON object", "EOF"]),
        (r#"{"Last":"2026-11-2"#.to_owned(), ["not the JSON object", "EOF"]),
        ("[]".to_owned(), ["not the JSON object", "expected a map"]),
        ("{}".to_owned(), ["no field `Last`", "right file"]),
        (format!(r#"{{"Last":"{good}"}}"#), ["no field `Next`", "right file"]),
        (r#"{"Last":null,"Next":null}"#.to_owned(), ["`Last`", "null"]),
        (r#"{"Last":"yesterday","Next":""}"#.to_owned(), ["`Last`", "yesterday"]),
        (format!(r#"{{"Last":"{good}","Next":"soon"}}"#), ["`Next`", "soon"]),
        (format!(r#"{{"Last":"{good}","Next":"{good}"}}"#), ["`Next`", "not after `Last`"]),
        (
            format!(r#"{{"Last":"{good}","Next":"2026-11-23T01:30:00Z","LastUpdated":7}}"#),
            ["`LastUpdated`", "7"],
        ),
        (" ".repeat(MAX_STATUS_BYTES + 1), ["16384", "right file"]),
    ] {
        let told = problem(&text);
        for hint in hints {
            assert!(told.contains(hint), "{hint} is not in: {told}");
        }
    }
}
