//! Sentences for people: `every day at 02:30, Europe/Copenhagen`. What has no idiom gets its lists in full.

use super::bits;
use super::cron::{Cron, Days, Times};
use super::dated::Dated;
use super::error::CronField;
use super::every::Every;
use super::field::{MONTHS, SpecialDay, Step, WEEKDAYS};

/// So many times of day are listed rather than described.
const LISTED_TIMES: usize = 6;
/// And so many of one hour.
const LISTED_OF_AN_HOUR: usize = 3;

/// A time of day in words.
enum Phrase {
    /// Times to stand after `at`.
    Fixed(String),
    /// Words that stand for themselves.
    Described(String),
    /// Words that are true in every zone.
    Everywhere(String),
}

/// The sentence of an expression.
pub(super) fn of_cron(cron: &Cron, zone: &str) -> String {
    let days = days(&cron.days);
    match (time(&cron.times), days) {
        (Phrase::Everywhere(text), None) => text,
        (Phrase::Fixed(times), None) => format!("every day at {times}, {zone}"),
        (Phrase::Fixed(times), Some(days)) => format!("at {times} {days}, {zone}"),
        (Phrase::Described(text), None) => format!("{text}, {zone}"),
        (Phrase::Described(text) | Phrase::Everywhere(text), Some(days)) => {
            let days = days.strip_prefix("every day ").unwrap_or(&days);
            format!("{text} {days}, {zone}")
        }
    }
}

/// The sentence of `@every … from …`.
pub(super) fn of_dated(dated: Dated, zone: &str) -> String {
    let days = dated.every().seconds() / 86_400;
    let every = match (days, days % 7) {
        (1, _) => "every day".to_owned(),
        (7, _) => "every week".to_owned(),
        (_, 0) => format!("every {} weeks", days / 7),
        _ => format!("every {days} days"),
    };
    let first = dated.first();
    let (date, time) = first.split_once('T').unwrap_or((&first, ""));
    format!("{every} at {time} from {date} on, {zone}")
}

/// The sentence of `@every`.
pub(super) fn of_every(every: Every) -> String {
    let parts: Vec<(i64, char)> = every.parts().collect();
    let name = |unit: char| match unit {
        'd' => "day",
        'h' => "hour",
        'm' => "minute",
        _ => "second",
    };
    match parts.as_slice() {
        // A day of 24 hours, which no change of the clock makes longer.
        [(1, 'd')] => "every 24 hours".to_owned(),
        [(1, unit)] => format!("every {}", name(*unit)),
        parts => {
            let plural = |number: i64| if number == 1 { "" } else { "s" };
            let each = parts
                .iter()
                .map(|(number, unit)| format!("{number} {}{}", name(*unit), plural(*number)));
            format!("every {}", join(each.collect(), "and"))
        }
    }
}

fn time(times: &Times) -> Phrase {
    let all = |set: u64| bits::numbers(set).collect::<Vec<u8>>();
    let [hours, minutes, seconds] = [all(times.hours), all(times.minutes), all(times.seconds)];
    let count = hours.len() * minutes.len() * seconds.len();
    let steady_hours = bits::progression(times.hours);
    let steady_hours = steady_hours.map(|(from, last, step)| Step { from, last, step });
    let few = minutes.len() * seconds.len() <= LISTED_OF_AN_HOUR;
    if (count <= LISTED_TIMES && few) || (count == hours.len() && steady_hours.is_none()) {
        let mut listed = Vec::new();
        for &hour in &hours {
            for &minute in &minutes {
                listed.extend(seconds.iter().map(|&second| clock(times, [hour, minute, second])));
            }
        }
        return Phrase::Fixed(join(listed, "and"));
    }
    if let (&[minute], &[second], Some(hours)) =
        (minutes.as_slice(), seconds.as_slice(), steady_hours)
    {
        return hourly(times, hours, [minute, second]);
    }
    let every_minute = times.minutes == CronField::Minute.all();
    let often = if seconds.len() == 1 {
        even_gap(times.minutes).map(|gap| every_so_often(gap, "minute"))
    } else {
        even_gap(times.seconds).filter(|_| every_minute).map(|gap| every_so_often(gap, "second"))
    };
    match often {
        Some(often) => within_hours(times, &often),
        None => Phrase::Described(in_full(times)),
    }
}

/// Once an hour, in more hours than are listed.
fn hourly(times: &Times, hours: Step, past: [u8; 2]) -> Phrase {
    let Step { from, last, step } = hours;
    let [minute, second] = past;
    let text = match (times.restricts_the_hour(), past) {
        (false, [0, 0]) => "at the start of every hour".to_owned(),
        (false, [_, 0]) => format!("at minute {minute} of every hour"),
        (false, _) => format!("at second {second} of minute {minute} of every hour"),
        (true, _) => {
            let [from, last] = [from, last].map(|hour| clock(times, [hour, minute, second]));
            format!("{} from {from} to {last}", every_so_often(step, "hour"))
        }
    };
    Phrase::Described(text)
}

/// `often`, which is even over the hours, in the hours of the expression.
fn within_hours(times: &Times, often: &str) -> Phrase {
    let ends = |set: u64| Some([bits::at_or_after(set, 0)?, bits::at_or_before(set, 63)?]);
    let (Some(minutes), Some(seconds)) = (ends(times.minutes), ends(times.seconds)) else {
        return Phrase::Described(in_full(times));
    };
    let from_the_hour = minutes.first() == Some(&0) && seconds.first() == Some(&0);
    if !times.restricts_the_hour() && from_the_hour {
        return Phrase::Everywhere(often.to_owned());
    }
    let text = match bits::runs(times.hours).as_slice() {
        &[(first, last)] => {
            let [first_minute, last_minute] = minutes;
            let [first_second, last_second] = seconds;
            let first = clock(times, [first, first_minute, first_second]);
            let last = clock(times, [last, last_minute, last_second]);
            format!("{often} from {first} to {last}")
        }
        _ if from_the_hour => format!("{often} in {}", numbered("hour", times.hours)),
        _ => in_full(times),
    };
    Phrase::Described(text)
}

/// How far apart the values of a minute or second are, when they are so over the full hour or minute as well.
fn even_gap(set: u64) -> Option<u8> {
    let (first, last, gap) = bits::progression(set)?;
    (first + 60 - last == gap).then_some(gap)
}

/// All three fields as they are.
fn in_full(times: &Times) -> String {
    let mut parts = Vec::new();
    if times.seconds != 1 {
        parts.push(numbered_or_every(CronField::Second, times.seconds));
    }
    parts.push(numbered_or_every(CronField::Minute, times.minutes));
    parts.push(numbered_or_every(CronField::Hour, times.hours));
    let text = parts.join(" of ");
    if text.starts_with("every") { text } else { format!("at {text}") }
}

fn numbered_or_every(field: CronField, set: u64) -> String {
    if set == field.all() { format!("every {field}") } else { numbered(&field.to_string(), set) }
}

/// `minute 5`, `hours 2 and 14`, `minutes 0 to 10 and 30`.
fn numbered(name: &str, set: u64) -> String {
    let plural = if set.count_ones() == 1 { "" } else { "s" };
    format!("{name}{plural} {}", join(listed(set, |number| number.to_string()), "and"))
}

fn every_so_often(number: u8, unit: &str) -> String {
    if number == 1 { format!("every {unit}") } else { format!("every {number} {unit}s") }
}

/// With seconds where the expression has any but 0.
fn clock(times: &Times, [hour, minute, second]: [u8; 3]) -> String {
    if times.seconds == 1 {
        format!("{hour:02}:{minute:02}")
    } else {
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}

/// The days in words; none when it is every day.
fn days(days: &Days) -> Option<String> {
    let months = (days.months != CronField::Month.all()).then(|| {
        let name = |number: u8| name(&MONTHS, number.saturating_sub(1));
        join(bits::numbers(days.months).map(name).collect(), "and")
    });
    let any_date = days.of_month == CronField::DayOfMonth.all();
    let any_weekday = days.of_week == CronField::DayOfWeek.all();
    let in_months = |text: String| match &months {
        Some(months) => format!("{text} in {months}"),
        None => text,
    };
    let of_months = months.as_deref().unwrap_or("the month");
    match (any_date, any_weekday) {
        (true, true) => months.as_ref().map(|months| format!("every day in {months}")),
        (false, true) => Some(format!("on {} of {of_months}", dates(days, "and"))),
        (true, false) => Some(in_months(format!("on {}", weekdays(days)))),
        (false, false) if days.either => {
            let dates = dates(days, "and");
            let both = format!("on {dates} of the month and also on {}", weekdays(days));
            Some(match &months {
                Some(months) => format!("{both}, only in {months}"),
                None => both,
            })
        }
        (false, false) => {
            Some(format!("on {} when it is {} of {of_months}", weekdays(days), dates(days, "or")))
        }
    }
}

/// `the 1st, 15th and last day`.
fn dates(days: &Days, conjunction: &str) -> String {
    let mut parts = listed(days.of_month, ordinal);
    parts.extend(days.special_of_month.iter().map(|day| match day {
        SpecialDay::NearestWeekday(day) => {
            format!("weekday (Monday to Friday) nearest to the {}", ordinal(*day))
        }
        SpecialDay::LastWeekday => "last weekday (Monday to Friday)".to_owned(),
        // The others are no days of a month.
        SpecialDay::Last | SpecialDay::Nth(..) | SpecialDay::LastOf(_) => "last day".to_owned(),
    }));
    format!("the {}", join(parts, conjunction))
}

/// `weekdays`, `Mondays and the last Friday of the month`.
fn weekdays(days: &Days) -> String {
    const MONDAY_TO_FRIDAY: u64 = bits::range(1, 5);
    if days.of_week == MONDAY_TO_FRIDAY && days.special_of_week.is_empty() {
        return "weekdays".to_owned();
    }
    // Sunday is the last of a week's days.
    let from_monday = (1..=6).chain([0]).filter(|day| bits::has(days.of_week, *day));
    let mut parts: Vec<String> =
        from_monday.map(|day| format!("{}s", name(&WEEKDAYS, day))).collect();
    parts.extend(days.special_of_week.iter().map(|day| match day {
        SpecialDay::Nth(weekday, nth) => {
            let nth = ["first", "second", "third", "fourth", "fifth"].get(usize::from(*nth) - 1);
            format!("the {} {} of the month", nth.unwrap_or(&""), name(&WEEKDAYS, *weekday))
        }
        SpecialDay::LastOf(weekday) => {
            format!("the last {} of the month", name(&WEEKDAYS, *weekday))
        }
        // The others are no weekdays.
        SpecialDay::Last | SpecialDay::LastWeekday | SpecialDay::NearestWeekday(_) => String::new(),
    }));
    join(parts, "and")
}

fn name(names: &[&str], index: u8) -> String {
    names.get(usize::from(index)).copied().unwrap_or_default().to_owned()
}

fn ordinal(number: u8) -> String {
    let ending = match number {
        1 | 21 | 31 => "st",
        2 | 22 => "nd",
        3 | 23 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// The numbers in words; three and more in a row as `1 to 5`.
fn listed(set: u64, word: impl Fn(u8) -> String) -> Vec<String> {
    let runs = bits::runs(set).into_iter().flat_map(|(first, last)| match last - first {
        0 => vec![word(first)],
        1 => vec![word(first), word(last)],
        _ => vec![format!("{} to {}", word(first), word(last))],
    });
    runs.collect()
}

/// `a`, `a and b`, `a, b and c`.
fn join(mut parts: Vec<String>, conjunction: &str) -> String {
    let Some(last) = parts.pop() else { return String::new() };
    if parts.is_empty() { last } else { format!("{} {conjunction} {last}", parts.join(", ")) }
}
