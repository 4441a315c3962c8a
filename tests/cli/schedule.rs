//! `leasehold schedule`: what it prints, and what it refuses. There is no sidecar, and none is asked.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use leasehold::time::{BootClock, Clock as _};
use leasehold::timetable::UtcSecond;

use crate::cli::rig::{Ended, Home};

async fn next(arguments: &[&str]) -> Ended {
    let words: Vec<&str> = ["schedule", "next"].iter().chain(arguments).copied().collect();
    Home::new().leasehold(&words).await
}

#[tokio::test]
async fn t15_the_canonical_text_a_sentence_and_the_occurrences_are_printed() {
    let words = ["30 02 * * *", "--tz", "europe/copenhagen", "--from", "2027-03-27T00:00:00+01:00"];
    let ended = next(&[&words[..], &["-n", "3"]].concat()).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    let page = include_str!("../../docs/schedules.md");
    assert!(page.contains(&ended.stdout), "the example of the page is what is printed");
    let lines: Vec<String> = ended.stdout.lines().map(one_space).collect();
    assert_eq!(
        lines,
        [
            "30 2 * * *",
            "every day at 02:30, Europe/Copenhagen",
            "",
            "UTC LOCAL TIME, Europe/Copenhagen CLOCK",
            "2027-03-27T01:30:00Z 2027-03-27T02:30:00+01:00",
            "2027-03-28T01:00:00Z 2027-03-28T03:00:00+02:00 the clock jumps ahead to here: includes the skipped times",
            "2027-03-29T00:30:00Z 2027-03-29T02:30:00+02:00",
        ]
    );
}

fn one_space(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn t14_both_passes_of_a_repeated_hour_are_told_apart() {
    let from = "2027-10-31T02:00:00+02:00";
    let ended =
        next(&["*/30 2 * * *", "--tz", "Europe/Copenhagen", "--from", from, "-n", "4"]).await;
    let rows: Vec<String> = ended.stdout.lines().skip(4).map(one_space).collect();
    assert_eq!(
        rows,
        [
            "2027-10-31T00:00:00Z 2027-10-31T02:00:00+02:00 this local time occurs twice: first pass",
            "2027-10-31T00:30:00Z 2027-10-31T02:30:00+02:00 this local time occurs twice: first pass",
            "2027-10-31T01:00:00Z 2027-10-31T02:00:00+01:00 this local time occurs twice: second pass",
            "2027-10-31T01:30:00Z 2027-10-31T02:30:00+01:00 this local time occurs twice: second pass",
        ]
    );
}

#[tokio::test]
async fn t14_an_interval_is_written_either_way() {
    let from = "2027-01-01T00:00:00Z";
    let [as_text, as_flag] = [
        next(&["@every 90s", "--from", from, "-n", "2"]).await,
        next(&["--every", "1m 30s", "--from", from, "-n", "2"]).await,
    ];
    assert_eq!(as_text.code, 0, "{as_text:?}");
    assert_eq!(as_text.stdout, as_flag.stdout);
    let lines: Vec<String> = as_text.stdout.lines().map(one_space).collect();
    assert_eq!(lines[0], "@every 1m30s");
    assert_eq!(lines[3], "UTC LOCAL TIME, UTC", "no column of hints where there is no hint");
    assert_eq!(lines[4], "2027-01-01T00:00:00Z 2027-01-01T00:00:00+00:00");
    assert_eq!(lines[5], "2027-01-01T00:01:30Z 2027-01-01T00:01:30+00:00");
}

#[tokio::test]
async fn t15_json_says_the_same_and_without_from_it_is_what_comes() {
    let words = ["*/30 2 * * *", "--tz", "Europe/Copenhagen", "--output", "json"];
    let from = ["--from", "2027-10-31T02:30:00+01:00"];
    let ended = next(&[&words[..], &from].concat()).await;
    let document = ended.json();
    assert_eq!(document["expression"], "*/30 2 * * *");
    assert_eq!(document["occurrences"][0]["clock_jump"], "second_pass");
    assert_eq!(document["occurrences"].as_array().unwrap().len(), 10);

    let before = UtcSecond::from(BootClock::new().wall());
    let occurrences = next(&["*/10 * * * * *", "--output", "json"]).await.json();
    let occurrences = occurrences["occurrences"].as_array().unwrap().clone();
    let first: UtcSecond = occurrences[0]["scheduled_at"].as_str().unwrap().parse().unwrap();
    assert!(first > before, "{first} is after {before}");
    assert_eq!(occurrences.len(), 10);
}

#[tokio::test]
async fn t15_after_the_last_year_there_is_none() {
    let ended = next(&["@daily", "--from", "9999-12-30T12:00:00Z"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("no occurrence before the end of the year 9999"), "{ended:?}");
}

#[tokio::test]
async fn t15_bad_input_is_64_and_names_the_argument_and_what_would_be_right() {
    let sixty = ["1"; 60].join(" ");
    let cases: [(&[&str], &[&str]); 22] = [
        (&[], &["EXPRESSION"]),
        (&[""], &["EXPRESSION", "empty"]),
        (&["60 * * * *"], &["EXPRESSION", "minute", "0 to 59"]),
        (&["-1 * * * *"], &["EXPRESSION", "minute"]),
        (&["* * * *"], &["EXPRESSION", "4 fields", "five"]),
        (&[&sixty], &["EXPRESSION", "60 fields"]),
        (&["0 0 30 2 *"], &["EXPRESSION", "never fires"]),
        (&["* * * * * *"], &["EXPRESSION", "every 1.0 s", "at least 10 s"]),
        (&["@dayly"], &["EXPRESSION", "did you mean @daily?"]),
        (&["@every 5s"], &["EXPRESSION", "10s to 366d"]),
        (&["0 0 * * ?"], &["EXPRESSION", "day of week", "did you mean *?"]),
        (&["30", "2", "*", "*", "*"], &["EXPRESSION", "quotes"]),
        (&["@daily", "--every", "90s"], &["--every", "EXPRESSION"]),
        (&["--every", "5s"], &["--every", "10s to 366d"]),
        (&["--every", "-90s"], &["--every", "never negative"]),
        (&["@daily", "--tz", "Europe/Kopenhagen"], &["--tz", "did you mean Europe/Copenhagen?"]),
        (&["@daily", "--tz", "Mars/Olympus"], &["--tz", "not a time zone"]),
        (&["@daily", "-n", "0"], &["--count", "1..=100"]),
        (&["@daily", "-n", "-3"], &["--count", "1..=100"]),
        (&["@daily", "-n", "101"], &["--count", "1..=100"]),
        (&["@daily", "--from", "tomorrow"], &["--from", "RFC 3339"]),
        (&["@daily", "--from", "2027-01-01T00:00:00"], &["--from", "offset"]),
    ];
    for (words, hints) in cases {
        let ended = next(words).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (64, ""), "{words:?}: {ended:?}");
        for hint in hints {
            assert!(ended.stderr.contains(hint), "{words:?} says {hint}: {ended:?}");
        }
    }
    let as_json = next(&["60 * * * *", "--output", "json"]).await.error_json();
    assert_eq!(as_json["error"]["exit_code"], 64, "{as_json}");
}

#[tokio::test]
async fn t15_bytes_that_are_no_text_are_refused_where_they_stand() {
    let home = Home::new();
    let no_text = OsStr::from_bytes(b"30 2 * * \xff");
    for (before, name) in [
        (&["schedule", "next"][..], "EXPRESSION"),
        (&["schedule", "next", "@daily", "--tz"], "--tz"),
        (&["schedule", "next", "@daily", "--from"], "--from"),
    ] {
        let mut command = home.command(before);
        command.arg(no_text);
        let ended = Ended::of(command).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (64, ""), "{name}: {ended:?}");
        let (named, said) =
            (ended.stderr.contains(name), ended.stderr.contains("not text in UTF-8"));
        assert!(named && said, "{name}: {ended:?}");
    }
}
