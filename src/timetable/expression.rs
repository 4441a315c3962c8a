//! Reads expressions (T15), and writes them in the one form that is kept and compared.

use super::bits;
use super::cron::{Cron, Days, Times};
use super::error::{CronField, TimetableError, shown};
use super::every::Every;
use super::field::{Dialect, Field, SpecialDay, Step};
use super::{MAX_EXPRESSION_BYTES, Rhythm};

const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Reads `expression`; tells what it means, and its canonical text.
pub(super) fn parse(expression: &str) -> Result<(Rhythm, String), TimetableError> {
    if expression.len() > MAX_EXPRESSION_BYTES {
        return Err(TimetableError::TooLong { length: expression.len() });
    }
    let expected = |c: &char| c.is_ascii_alphanumeric() || " \t*,-/#@?".contains(*c);
    // What else is printable gets its own error in the field where it stands.
    let strange = |c: &char| !expected(c) && !c.is_ascii_graphic();
    if let Some(character) = expression.chars().find(strange) {
        return Err(TimetableError::Character { character });
    }
    let words: Vec<&str> = expression.split_ascii_whitespace().collect();
    let (rhythm, canonical) = match words.as_slice() {
        [] => return Err(TimetableError::Empty),
        [every, duration] if every.eq_ignore_ascii_case("@every") => {
            let every = Every::parse(duration)?;
            (Rhythm::Every(every), write_every(every))
        }
        [nickname, ..] if nickname.starts_with('@') => {
            let fields = Fields::parse(expand(nickname, words.len())?)?;
            (Rhythm::Cron(Box::new(fields.to_cron())), fields.write())
        }
        _ => {
            let fields = Fields::parse(expression)?;
            (Rhythm::Cron(Box::new(fields.to_cron())), fields.write())
        }
    };
    if canonical.len() > MAX_EXPRESSION_BYTES {
        return Err(TimetableError::TooLong { length: canonical.len() });
    }
    Ok((rhythm, canonical))
}

/// What a nickname stands for.
fn expand(given: &str, words: usize) -> Result<&'static str, TimetableError> {
    let lower = given.to_ascii_lowercase();
    let known = NICKNAMES.iter().find(|(name, _)| *name == lower && words == 1);
    known.map(|(_, fields)| *fields).ok_or_else(|| {
        let names = NICKNAMES.iter().map(|(name, _)| *name).chain(["@every 90s"]);
        let distance = |name: &str| {
            let name = name.split(' ').next().unwrap_or(name);
            strsim::damerau_levenshtein(&lower, name)
        };
        let closest = names.map(|name| (distance(name), name)).min();
        let suggestion = closest.filter(|(distance, _)| *distance <= 2);
        TimetableError::Nickname {
            given: shown(given),
            suggestion: suggestion.map(|(_, name)| name.to_owned()),
        }
    })
}

/// The text of a duration as it is kept: `@every 1m30s`.
pub(super) fn write_every(every: Every) -> String {
    let parts: String = every.parts().map(|(number, unit)| format!("{number}{unit}")).collect();
    format!("@every {parts}")
}

/// All fields of an expression.
struct Fields {
    second: Field,
    minute: Field,
    hour: Field,
    day_of_month: Field,
    month: Field,
    day_of_week: Field,
    /// One of the two fields of days is enough.
    either: bool,
}

impl Fields {
    fn parse(expression: &str) -> Result<Self, TimetableError> {
        let words: Vec<&str> = expression.split_ascii_whitespace().collect();
        let (dialect, second, [minute, hour, day_of_month, month, day_of_week]) =
            match *words.as_slice() {
                [minute, hour, day, month, weekday] => {
                    (Dialect::Vixie, None, [minute, hour, day, month, weekday])
                }
                [second, minute, hour, day, month, weekday] => {
                    (Dialect::Ncrontab, Some(second), [minute, hour, day, month, weekday])
                }
                _ => {
                    let given = shown(expression);
                    return Err(TimetableError::FieldCount { given, count: words.len() });
                }
            };
        let read = |kind, text| Field::parse(kind, dialect, text);
        let mut fields = Self {
            second: match second {
                Some(second) => read(CronField::Second, second)?,
                None => Field::single(CronField::Second, 0),
            },
            minute: read(CronField::Minute, minute)?,
            hour: read(CronField::Hour, hour)?,
            day_of_month: read(CronField::DayOfMonth, day_of_month)?,
            month: read(CronField::Month, month)?,
            day_of_week: read(CronField::DayOfWeek, day_of_week)?,
            either: false,
        };
        let days = [&fields.day_of_month, &fields.day_of_week];
        if dialect == Dialect::Vixie && !days.iter().any(|field| field.star) {
            fields.either = true;
            // Every day of one of them is every day.
            if days.iter().any(|field| field.is_full()) {
                fields.either = false;
                for field in [&mut fields.day_of_month, &mut fields.day_of_week] {
                    field.values = field.kind.all();
                }
            }
        }
        for field in [&mut fields.day_of_month, &mut fields.day_of_week] {
            if field.is_full() {
                field.special.clear();
            }
        }
        Ok(fields)
    }

    fn to_cron(&self) -> Cron {
        Cron {
            times: Times::new(&self.second, &self.minute, &self.hour),
            days: Days {
                of_month: self.day_of_month.values,
                of_week: self.day_of_week.values,
                months: self.month.values,
                special_of_month: self.day_of_month.special.clone(),
                special_of_week: self.day_of_week.special.clone(),
                either: self.either,
            },
        }
    }

    /// Five fields where they can say it: on the full minute, and not both fields of days at once.
    fn write(&self) -> String {
        let both = !self.either && !self.day_of_month.is_full() && !self.day_of_week.is_full();
        let five = self.second.values == 1 && !both;
        let mut fields = vec![
            write_time(&self.minute),
            write_time(&self.hour),
            self.write_days(&self.day_of_month, !five),
            write_values(&self.month, true),
            self.write_days(&self.day_of_week, !five),
        ];
        if !five {
            fields.insert(0, write_time(&self.second));
        }
        fields.join(" ")
    }

    fn write_days(&self, field: &Field, six: bool) -> String {
        let special = field.special.iter().map(|day| match day {
            SpecialDay::Last => "L".to_owned(),
            SpecialDay::LastWeekday => "LW".to_owned(),
            SpecialDay::NearestWeekday(day) => format!("{day}W"),
            SpecialDay::Nth(weekday, nth) => format!("{weekday}#{nth}"),
            SpecialDay::LastOf(weekday) => format!("{weekday}L"),
        });
        // Five fields that begin with * are not alternatives.
        let values = write_values(field, six || !self.either);
        let values = (!values.is_empty()).then_some(values);
        values.into_iter().chain(special).collect::<Vec<_>>().join(",")
    }
}

/// A field of a time: steps stay steps, because they make an interval (T14).
fn write_time(field: &Field) -> String {
    if field.is_full() {
        return "*".to_owned();
    }
    if field.steps.is_empty() {
        return write_runs(field.values);
    }
    if let Some((from, last, step)) = bits::progression(field.values)
        && step > 1
    {
        return write_step(field, Step { from, last, step }, true);
    }
    let mut steps = field.steps.clone();
    steps.sort_unstable();
    steps.dedup();
    let within = |one: &Step, other: &Step| {
        one != other && one.values() & !other.values() == 0 && one.values() != other.values()
    };
    let all = steps.clone();
    steps.retain(|step| !all.iter().any(|other| within(step, other)));
    let stepped = steps.iter().fold(0, |set, step| set | step.values());
    let rest = write_runs(field.values & !stepped);
    let rest = (!rest.is_empty()).then_some(rest);
    let steps = steps.into_iter().map(|step| write_step(field, step, true));
    steps.chain(rest).collect::<Vec<_>>().join(",")
}

/// A field whose steps mean no more than their values.
fn write_values(field: &Field, star: bool) -> String {
    if field.is_full() {
        return "*".to_owned();
    }
    match bits::progression(field.values) {
        Some((from, last, step)) if step > 1 && field.values.count_ones() > 3 => {
            write_step(field, Step { from, last, step }, star)
        }
        _ => write_runs(field.values),
    }
}

fn write_step(field: &Field, step: Step, star: bool) -> String {
    let (least, greatest) = field.kind.bounds();
    let Step { from, last, step } = step;
    if star && from == least && last + step > greatest {
        format!("*/{step}")
    } else {
        format!("{from}-{last}/{step}")
    }
}

fn write_runs(values: u64) -> String {
    let runs = bits::runs(values).into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    runs.collect::<Vec<_>>().join(",")
}
