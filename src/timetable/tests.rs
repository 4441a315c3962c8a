//! Tables of what is read, what is refused, and what people are told.

use std::time::Duration;

use super::*;

fn timetable(expression: &str) -> Timetable {
    Timetable::parse(expression, "UTC").unwrap_or_else(|error| panic!("{expression}: {error}"))
}

fn error(expression: &str) -> String {
    Timetable::parse(expression, "UTC").unwrap_err().to_string()
}

#[test]
fn t15_all_spellings_of_an_expression_have_one_canonical_text() {
    let cases = [
        ("0 2 * * *", "0 2 * * *"),
        ("  00\t02 * * * ", "0 2 * * *"),
        ("0 2 1-31 JAN-DEC 0-7", "0 2 * * *"),
        ("0-59/1 */1 * * *", "* * * * *"),
        ("0 0 2 * * *", "0 2 * * *"),
        ("@daily", "0 0 * * *"),
        ("@MIDNIGHT", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * SUN,mon,Tuesday", "0 0 * * 0-2"),
        ("0 0 * * SAT-SUN", "0 0 * * 0,6"),
        ("0 0 * * MON-FRI", "0 0 * * 1-5"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 1 jan,Apr,JUL,october *", "0 0 1 */3 *"),
        ("0 0 1 1,5,9 *", "0 0 1 1,5,9 *"),
        ("10,5,5,6,7 2 * * *", "5-7,10 2 * * *"),
        // Steps make an interval (T14): they stay.
        ("0-59/10 * * * *", "*/10 * * * *"),
        ("0,10,20,30,40,50 * * * *", "0,10,20,30,40,50 * * * *"),
        ("*/30,15,45 * * * *", "*/15 * * * *"),
        ("7,*/30,*/60 * * * *", "*/30,7 * * * *"),
        ("0 */24 * * *", "0 0 * * *"),
        ("0 8-20/4 * * *", "0 8-20/4 * * *"),
        ("0 8-23/4 * * *", "0 8-20/4 * * *"),
        ("0 0/15 * * * *", "*/15 * * * *"),
        ("5/15 * * * * *", "5-50/15 * * * * *"),
        // Of days they do not.
        ("0 0 1-31/2 * *", "0 0 */2 * *"),
        // Vixie cron: both fields of days count when one begins with *.
        ("0 0 */2 * 1", "0 0 0 */2 * 1"),
        ("0 0 1-31/2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 1-31 * 1", "0 0 * * *"),
        ("0 0 * * 1", "0 0 * * 1"),
        ("0 0 0 13 * 5", "0 0 0 13 * 5"),
        ("0 0 L,15w,lw,1 * *", "0 0 1,15W,L,LW * *"),
        ("0 0 * * fri#3,5L,5#1,FRIDAY#L", "0 0 * * 5#1,5#3,5L"),
        ("0 0 1 * 5L", "0 0 1 * 5L"),
        ("@every 90s", "@every 1m30s"),
        ("@EVERY 1M30S", "@every 1m30s"),
        ("@every 24h", "@every 1d"),
        ("@every 1d2h3m4s", "@every 1d2h3m4s"),
    ];
    for (given, canonical) in cases {
        assert_eq!(timetable(given).canonical(), canonical, "{given}");
        assert_eq!(timetable(canonical), timetable(given));
    }
    assert_eq!(Timetable::every(Duration::from_secs(90), "").unwrap(), timetable("@every 90s"));
}

#[test]
fn t15_wrong_fields_are_named_with_what_is_allowed() {
    let cases = [
        ("60 * * * *", "minute \"60\": 60 is out of range; allowed: 0 to 59"),
        ("60 * * * * *", "second \"60\": 60 is out of range; allowed: 0 to 59"),
        ("* 24 * * *", "hour \"24\": 24 is out of range; allowed: 0 to 23"),
        ("* * 0 * *", "day of month \"0\": 0 is out of range; allowed: 1 to 31, L, LW, 15W"),
        ("* * * 13 *", "month \"13\": 13 is out of range; allowed: 1 to 12 or JAN to DEC"),
        ("* * * * 8", "day of week \"8\": 8 is out of range; allowed: 0 to 7 (0 and 7 are Sunday)"),
        ("0 * * * * 7", "day of week \"7\": 7 is out of range; allowed: 0 to 6 (0 is Sunday)"),
        ("30-10 * * * *", "the range 30-10 is empty; did you mean 30-59,0-10?"),
        ("5/20 * * * *", "a step needs * or a range before it; did you mean 5-59/20?"),
        ("*/0 * * * *", "the step 0 is out of range, 1 to 60"),
        ("* */25 * * *", "hour \"*/25\": the step 25 is out of range, 1 to 24"),
        ("*/x * * * *", "the step \"X\" is not a number"),
        ("1,,2 * * * *", "an entry of the list is empty"),
        (", * * * *", "an entry of the list is empty"),
        ("x * * * *", "minute \"x\": \"X\" is not a value"),
        ("99999 * * * *", "\"99999\" is not a value"),
        ("-1 * * * *", "\"\" is not a value"),
        ("+1 * * * *", "\"+1\" is not a value"),
        ("1-2-3 * * * *", "\"2-3\" is not a value"),
        ("1//2 * * * *", "the step \"/2\" is not a number"),
        ("* * ? * *", "? is Quartz syntax; did you mean *?"),
        ("* * * JANFEB *", "\"JANFEB\" is not a value"),
        ("* * * * 1MON", "\"1MON\" is not a value"),
        ("* * * * L", "L needs the weekday before it"),
        ("* * * * 5#6", "# must be followed by 1 to 5, or L"),
        ("* * 32W * *", "32 is out of range"),
        ("* * W * *", "\"\" is not a value"),
        ("L * * * *", "minute \"L\": \"L\" is not a value"),
        ("* * * *", "\"* * * *\" has 4 fields; five (minute, hour,"),
        ("02:30:00", "did you mean @every 2h30m?"),
        (&"* ".repeat(60), "has 60 fields"),
        ("", "the schedule is empty"),
        (" \t ", "the schedule is empty"),
        ("* * * * *\n", "the character '\\n'"),
        ("0 0 * * \u{0}", "the character '\\0'"),
        ("0 0 * * Fré", "the character 'é'"),
        ("\u{fffd}", "the character"),
        (&"1".repeat(257), "257 bytes"),
        ("@dayly", "\"@dayly\" is not a nickname: @hourly, @daily"),
        ("@dayly", "did you mean @daily?"),
        ("@evry 90s", "did you mean @every 90s?"),
        ("@reboot", "\"@reboot\" is not a nickname"),
        ("@daily *", "nothing may follow @daily"),
        ("@every", "is not a nickname"),
    ];
    for (given, part) in cases {
        let error = error(given);
        assert!(error.contains(part), "{given:?}: {error}");
        assert!(error.len() < 400, "{error}");
    }
}

#[test]
fn t15_wrong_durations_are_refused() {
    let cases = [
        ("@every 5s", "every \"5s\": it is too short; whole seconds from 10s to 366d are allowed"),
        ("@every 9s", "too short"),
        ("@every 367d", "too long"),
        ("@every 999999999d", "too long"),
        ("@every 9999999999s", "at most 9 digits"),
        ("@every 90", "needs a unit"),
        ("@every s", "needs a number"),
        ("@every 1.5m", "needs a unit"),
        ("@every 30s1m", "the greatest first"),
        ("@every 1m1m", "each once"),
        ("@every -90s", "needs a number"),
    ];
    for (given, part) in cases {
        let error = error(given);
        assert!(error.contains(part), "{given:?}: {error}");
    }
    for wrong in [Duration::ZERO, Duration::from_millis(10_500), Duration::MAX] {
        assert!(Timetable::every(wrong, "").is_err(), "{wrong:?}");
    }
    assert_eq!(timetable("@every 10s").canonical(), "@every 10s");
    assert_eq!(timetable("@every 366d").canonical(), "@every 366d");
}

#[test]
fn t15_what_never_fires_or_too_often_is_refused() {
    for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 0 30 2 1", "0 0 31W 2 *", "0 0 30,31 2 *"]
    {
        assert!(error(never).contains("never fires"), "{never}");
    }
    // The 29th of February is no Monday in most leap years, and the calendar still has some.
    for rare in ["0 0 29 2 *", "0 0 0 29 2 1", "0 0 29W 2 *", "0 0 0 29 2 1#5"] {
        timetable(rare);
    }
    let cases = [
        ("* * * * * *", "fires every 1.0 s on average, 10 times in a row; at least 10 s"),
        ("*/5 * * * * *", "fires every 5.0 s"),
        ("*/7 * * * * *", "fires every 6.4 s"),
        ("* * 3 * * *", "fires every 1.0 s"),
        ("*/9 * * 29 2 *", "fires every 8.4 s"),
        ("0-49 0 0 * * *", "fires every 1.0 s"),
    ];
    for (given, part) in cases {
        assert!(error(given).contains(part), "{given}: {}", error(given));
    }
    // Ten seconds apart on average is enough, and so are short bursts.
    for often in ["*/10 * * * * *", "0,1,2,3,4 * * * * *", "0-9 0 0 * * *", "* * * * *"] {
        timetable(often);
    }
}

#[test]
fn t14_wrong_zones_are_told_from_wrong_expressions() {
    let zone = Timetable::parse("@daily", "Europe/Kopenhagen").unwrap_err();
    assert_eq!(zone.parameter(), "time_zone");
    assert!(zone.to_string().ends_with("did you mean Europe/Copenhagen?"), "{zone}");
    assert_eq!(Timetable::parse("@dayly", "Europe/Oslo").unwrap_err().parameter(), "expression");
}

#[test]
fn t15_people_are_told_a_sentence() {
    let cases = [
        ("30 2 * * *", "every day at 02:30, UTC"),
        ("0 2,14 * * 1-5", "at 02:00 and 14:00 on weekdays, UTC"),
        ("*/10 * * * *", "every 10 minutes"),
        ("* * * * *", "every minute"),
        ("*/15 * * * * *", "every 15 seconds"),
        ("*/10 * * * 1-5", "every 10 minutes on weekdays, UTC"),
        ("*/10 0-6 * * *", "every 10 minutes from 00:00 to 06:50, UTC"),
        ("*/10 2 * * *", "every 10 minutes from 02:00 to 02:50, UTC"),
        ("*/5 2 * * *", "every 5 minutes from 02:00 to 02:55, UTC"),
        ("*/5 2,14 * * *", "every 5 minutes in hours 2 and 14, UTC"),
        ("5-55/10 * * * *", "every 10 minutes from 00:05 to 23:55, UTC"),
        ("*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour, UTC"),
        ("0 * * * *", "at the start of every hour, UTC"),
        ("30 * * * *", "at minute 30 of every hour, UTC"),
        ("0,15,40 * * * *", "at minutes 0, 15 and 40 of every hour, UTC"),
        ("0 */2 * * *", "every 2 hours from 00:00 to 22:00, UTC"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30, UTC"),
        (
            "0 1,2,4,7,11,16,22 * * *",
            "every day at 01:00, 02:00, 04:00, 07:00, 11:00, 16:00 and 22:00, UTC",
        ),
        ("30 15 2 * * *", "every day at 02:15:30, UTC"),
        ("*/20 * 3 * * *", "every 20 seconds from 03:00:00 to 03:59:40, UTC"),
        ("0,40 0-10 3 * * *", "at seconds 0 and 40 of minutes 0 to 10 of hour 3, UTC"),
        ("0 0 * * 0,6", "at 00:00 on Saturdays and Sundays, UTC"),
        ("0 0 1,15 * *", "at 00:00 on the 1st and 15th of the month, UTC"),
        ("0 0 1-7,22,31 * *", "at 00:00 on the 1st to 7th, 22nd and 31st of the month, UTC"),
        ("0 0 L * *", "at 00:00 on the last day of the month, UTC"),
        ("0 0 LW * *", "at 00:00 on the last weekday (Monday to Friday) of the month, UTC"),
        (
            "0 0 15W 1 *",
            "at 00:00 on the weekday (Monday to Friday) nearest to the 15th of January, UTC",
        ),
        ("0 0 29 2 *", "at 00:00 on the 29th of February, UTC"),
        ("0 0 1 */3 *", "at 00:00 on the 1st of January, April, July and October, UTC"),
        ("0 0 * 1 *", "at 00:00 every day in January, UTC"),
        ("*/10 * * 1 *", "every 10 minutes in January, UTC"),
        ("0 9 * * 5L", "at 09:00 on the last Friday of the month, UTC"),
        ("0 9 * * 1,5#3", "at 09:00 on Mondays and the third Friday of the month, UTC"),
        ("0 0 13 * 5", "at 00:00 on the 13th of the month and also on Fridays, UTC"),
        (
            "0 0 13 1 5",
            "at 00:00 on the 13th of the month and also on Fridays, only in January, UTC",
        ),
        ("0 0 0 13,14 * 5", "at 00:00 on Fridays when it is the 13th or 14th of the month, UTC"),
        ("@every 90s", "every 1 minute and 30 seconds"),
        ("@every 30s", "every 30 seconds"),
        ("@every 60s", "every minute"),
        ("@every 24h", "every 24 hours"),
        ("@every 2d", "every 2 days"),
    ];
    for (given, sentence) in cases {
        assert_eq!(timetable(given).sentence(), sentence, "{given}");
    }
    let zone = Timetable::parse("30 2 * * *", "europe/copenhagen").unwrap();
    assert_eq!(zone.sentence(), "every day at 02:30, Europe/Copenhagen");
}

fn at(text: &str) -> UtcSecond {
    text.parse().unwrap()
}

#[test]
fn t9_occurrences_are_counted_up_to_a_limit() {
    let minutely = timetable("* * * * *");
    let (from, hour) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T01:00:00Z"));
    assert_eq!(minutely.count(from, hour, 100), Count::Exactly(60));
    assert_eq!(minutely.count(from, hour, 60), Count::Exactly(60));
    assert_eq!(minutely.count(from, hour, 59), Count::AtLeast(59));
    assert_eq!(minutely.count(hour, from, 100), Count::Exactly(0));
    assert_eq!(minutely.count(from, from, 100), Count::Exactly(0));
    assert_eq!(minutely.count(from, at("9999-01-01T00:00:00Z"), 100), Count::AtLeast(100));
    let every = timetable("@every 90s");
    assert_eq!(every.count(UtcSecond(0), UtcSecond(900), 10), Count::Exactly(10));
    assert_eq!(every.count(UtcSecond(-1), UtcSecond(900), 20), Count::Exactly(11));
    assert_eq!(every.count(UtcSecond(1), UtcSecond(89), 20), Count::Exactly(0));
    assert_eq!(every.count(UtcSecond(900), UtcSecond(0), 20), Count::Exactly(0));
    assert_eq!(every.count(UtcSecond(0), UtcSecond(i64::MAX), 10), Count::AtLeast(10));
}

#[test]
fn t14_every_counts_from_the_epoch_in_any_zone() {
    for zone in ["UTC", "Australia/Lord_Howe"] {
        let every = Timetable::parse("@every 90s", zone).unwrap();
        assert_eq!(every.next(UtcSecond(0)), Some(UtcSecond(90)));
        assert_eq!(every.next(UtcSecond(89)), Some(UtcSecond(90)));
        assert_eq!(every.previous(UtcSecond(90)), Some(UtcSecond(0)));
        assert_eq!(every.previous(UtcSecond(0)), None);
        assert_eq!(every.next(UtcSecond(-5_000)), Some(UtcSecond(0)));
        let weekly = Timetable::parse("@every 7d", zone).unwrap();
        // 1970-01-01 was a Thursday.
        assert_eq!(weekly.next(at("2026-11-22T00:00:00Z")), Some(at("2026-11-26T00:00:00Z")));
    }
}

#[test]
fn t1_instants_that_no_calendar_has_are_no_trouble() {
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, 253_402_128_000, i64::MAX - 1, i64::MAX];
    for expression in ["30 2 * * *", "*/10 * * * *", "0 0 0 29 2 1", "@every 90s", "0 0 L * *"] {
        for zone in ["UTC", "America/New_York", "Pacific/Apia", "Pacific/Kiritimati"] {
            let timetable = Timetable::parse(expression, zone).unwrap();
            for at in ends.map(UtcSecond) {
                let (next, previous) = (timetable.next(at), timetable.previous(at));
                assert!(next.is_none_or(|next| next > at && next.0 >= 0), "{expression} {at}");
                assert!(previous.is_none_or(|previous| previous < at), "{expression} {at}");
                assert!(!timetable.local_time(at).is_empty());
            }
            assert!(timetable.next(UtcSecond(i64::MIN)).is_some());
            assert!(timetable.previous(UtcSecond(i64::MAX)).is_some());
        }
    }
}

#[test]
fn t13_the_spread_is_stable_even_and_at_most_half_the_gap() {
    let daily = timetable("@daily");
    let midnight = at("2026-11-22T00:00:00Z");
    let offset = |name: &str, seconds| {
        daily.spread_offset(name.as_bytes(), Duration::from_secs(seconds), midnight).as_secs()
    };
    // Kept for ever: another value moves everybody's schedule.
    assert_eq!([offset("a", 30), offset("b", 30), offset("a", 3_600)], [24, 7, 2849]);
    assert_eq!(offset("a", 0), 0);
    let mut seen = [0_u32; 31];
    for number in 0..31_000 {
        seen[usize::try_from(offset(&format!("lock-{number}"), 30)).unwrap()] += 1;
    }
    assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
    let minutely = timetable("* * * * *");
    for number in 0..1_000_u32 {
        let name = number.to_be_bytes();
        let offset = minutely.spread_offset(&name, Duration::from_secs(3_600), midnight);
        assert!(offset <= Duration::from_secs(30), "{offset:?}");
    }
}

#[test]
fn t14_days_from_a_date_follow_the_wall_clock() {
    let read = |text: &str, zone: &str| Timetable::parse(text, zone).unwrap();
    let fortnightly = read("@every 14d from 2026-03-17T02:30", "Europe/Copenhagen");
    assert_eq!(fortnightly.canonical(), "@every 14d from 2026-03-17T02:30");
    let from = "2026-01-01T00:00:00Z".parse().unwrap();
    let local: Vec<String> =
        fortnightly.occurrences_after(from).take(4).map(|at| fortnightly.local_time(at)).collect();
    let expected = [
        "2026-03-17T02:30:00+01:00",
        "2026-03-31T02:30:00+02:00",
        "2026-04-14T02:30:00+02:00",
        "2026-04-28T02:30:00+02:00",
    ];
    assert_eq!(local, expected);
    // The night in which 02:30 is skipped, and the one in which it comes twice.
    let daily = read("@every 1d from 2026-03-28T02:30", "Europe/Copenhagen");
    let days: Vec<String> =
        daily.occurrences_after(from).take(2).map(|at| daily.local_time(at)).collect();
    assert_eq!(days, ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00"]);
    let autumn = "2026-10-24T12:00:00Z".parse().unwrap();
    let days: Vec<String> =
        daily.occurrences_after(autumn).take(2).map(|at| daily.local_time(at)).collect();
    assert_eq!(days, ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]);
    assert_eq!(
        read("@every 2W FROM 2026-01-07", "").canonical(),
        "@every 14d from 2026-01-07T00:00"
    );
    assert_eq!(read("@every 2w", ""), read("@every 14d", ""));
    // Next and previous are inverse.
    for at in fortnightly.occurrences_after(from).take(60).collect::<Vec<_>>() {
        let next = fortnightly.next(at).unwrap();
        assert_eq!(fortnightly.previous(next), Some(at));
    }
    assert_eq!(fortnightly.previous("2026-03-17T01:30:00Z".parse().unwrap()), None, "none before");
}

#[test]
fn t14_what_days_from_a_date_need_is_said() {
    for (text, said) in [
        ("@every 6h from 2026-01-07T02:00", "whole days and weeks"),
        ("@every 14d from 2026-01-07T02:00Z", "leave the offset out"),
        ("@every 14d from 2026-01-07T02:00+01:00", "leave the offset out"),
        ("@every 14d from soon", "not a date"),
        ("@every 14d from 1969-01-07", "1970"),
    ] {
        let error = Timetable::parse(text, "").unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn t15_a_slip_in_the_seconds_is_refused() {
    for (text, suggestion) in [
        ("* 0 2 * * *", "did you mean 0 2 * * *?"),
        ("*/5 30 4 * * MON", "did you mean 30 4 * * 1?"),
        ("0-59 0 2 * * *", "at least 10 s are allowed"),
    ] {
        let error = Timetable::parse(text, "").unwrap_err().to_string();
        assert!(error.contains(suggestion), "{text}: {error}");
    }
    for allowed in ["*/10 * * * * *", "0,20,40 * * * * *", "0,1,2 0 2 * * *"] {
        assert!(Timetable::parse(allowed, "").is_ok(), "{allowed}");
    }
}

#[test]
fn t15_what_people_bring_from_elsewhere_is_named() {
    for (text, said) in [
        ("@daily # the report", "leave out \"# the report\""),
        ("0 2 * * * # x", "leave out \"# x\""),
        ("@daily 5", "nothing may follow @daily"),
        ("CRON_TZ=Europe/Berlin 0 2 * * *", "--tz"),
        ("TZ=UTC @daily", "--tz"),
        ("00:05:00", "did you mean @every 5m?"),
        ("1.00:00:00", "did you mean @every 1d?"),
        ("0 0 * * 7-1", "did you mean 0-1?"),
        ("0 0 * * 5-1", "did you mean 5,6,0,1?"),
    ] {
        let error = Timetable::parse(text, "").unwrap_err().to_string();
        let is_list = said.contains("5,6,0,1");
        assert!(is_list && error.contains("5-6,0-1") || error.contains(said), "{text}: {error}");
    }
}

#[test]
fn t15_a_step_beside_a_weekday_is_warned_about() {
    let warning = |text| Timetable::parse(text, "").unwrap().warning().map(str::to_owned);
    for text in ["0 6 */2 * MON", "0 6 1-7 * */3"] {
        assert!(warning(text).unwrap().contains("Kubernetes"), "{text}");
    }
    for text in ["0 6 */2 * *", "0 6 13 * 5", "0 6 * * MON", "0 0 6 */2 * MON", "*/5 * * * MON"] {
        assert_eq!(warning(text), None, "{text}");
    }
}
