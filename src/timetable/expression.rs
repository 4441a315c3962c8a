//! Reads expressions (T15), and writes them in the one form that is kept and compared.

use super::bits;
use super::cron::{Cron, Days, Times};
use super::dated::Dated;
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

/// What is read of an expression.
pub(super) struct Read {
    pub(super) rhythm: Rhythm,
    pub(super) canonical: String,
    /// Others read it otherwise: a field of days `*/n` beside the other one.
    pub(super) warning: Option<String>,
}

/// Reads `expression`; tells what it means, and its canonical text.
pub(super) fn parse(expression: &str) -> Result<Read, TimetableError> {
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
    check_slips(expression, &words)?;
    let mut warning = None;
    let (rhythm, canonical) = match words.as_slice() {
        [] => return Err(TimetableError::Empty),
        [every, duration] if every.eq_ignore_ascii_case("@every") => {
            let every = Every::parse(duration)?;
            (Rhythm::Every(every), write_every(every))
        }
        [every, duration, from, first]
            if every.eq_ignore_ascii_case("@every") && from.eq_ignore_ascii_case("from") =>
        {
            let dated = Dated::parse(Every::parse(duration)?, first)?;
            (Rhythm::Dated(dated), write_dated(dated))
        }
        [nickname, rest @ ..] if nickname.starts_with('@') => {
            let fields = Fields::parse(expand(nickname, rest)?)?;
            (Rhythm::Cron(Box::new(fields.to_cron())), fields.write())
        }
        _ => {
            let fields = Fields::parse(expression)?;
            warning = fields.warning(&words);
            (Rhythm::Cron(Box::new(fields.to_cron())), fields.write())
        }
    };
    if canonical.len() > MAX_EXPRESSION_BYTES {
        return Err(TimetableError::TooLong { length: canonical.len() });
    }
    Ok(Read { rhythm, canonical, warning })
}

/// What people bring from elsewhere, and what to write instead.
fn check_slips(expression: &str, words: &[&str]) -> Result<(), TimetableError> {
    let Some(first) = words.first() else { return Ok(()) };
    let lower = first.to_ascii_lowercase();
    if lower.starts_with("cron_tz=") || lower.starts_with("tz=") {
        return Err(TimetableError::ZonePrefix { given: shown(first) });
    }
    let comment = words.iter().skip(1).find(|word| word.starts_with('#'));
    if let Some(comment) = comment.and_then(|comment| expression.find(*comment)) {
        let given = expression.get(comment..).unwrap_or_default().trim();
        return Err(TimetableError::Comment { given: shown(given) });
    }
    if let ([span], Some(suggestion)) = (words, time_span(first)) {
        return Err(TimetableError::TimeSpan { given: shown(span), suggestion });
    }
    Ok(())
}

/// The duration that a TimeSpan of .NET is, `d.hh:mm:ss` or `hh:mm:ss`; none if it is none, or none that is
/// allowed.
fn time_span(text: &str) -> Option<String> {
    let (days, time) = text.split_once('.').unwrap_or(("0", text));
    let parts: Vec<i64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts.as_slice() else { return None };
    let hours = days.parse::<i64>().ok()?.checked_mul(24)?.checked_add(*hours)?;
    let total = hours.checked_mul(3_600)?.checked_add(minutes.checked_mul(60)?)? + seconds;
    let every = Every::new(std::time::Duration::from_secs(u64::try_from(total).ok()?)).ok()?;
    Some(write_every(every).trim_start_matches("@every ").to_owned())
}

/// The same expression on the full minute, where the second is `*` or has a step: what was probably meant.
pub(super) fn on_the_minute(expression: &str) -> Option<String> {
    let words: Vec<&str> = expression.split_ascii_whitespace().collect();
    let [second, rest @ ..] = words.as_slice() else { return None };
    let is_slip = rest.len() == 5 && (*second == "*" || second.contains('/'));
    let given = is_slip.then(|| format!("0 {}", rest.join(" ")))?;
    parse(&given).ok().map(|read| read.canonical)
}

fn write_dated(dated: Dated) -> String {
    format!("{} from {}", write_every(dated.every()), dated.first())
}

/// What a nickname stands for, after which nothing is allowed.
fn expand(given: &str, rest: &[&str]) -> Result<&'static str, TimetableError> {
    let lower = given.to_ascii_lowercase();
    let known = NICKNAMES.iter().find(|(name, _)| *name == lower);
    if let (Some((nickname, _)), false) = (known, rest.is_empty()) {
        let (nickname, given) = ((*nickname).to_owned(), shown(&rest.join(" ")));
        return Err(TimetableError::Trailing { nickname, given });
    }
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

    /// T15: `*/n` in one field of days is read as Vixie cron reads it, and not as most others do.
    fn warning(&self, words: &[&str]) -> Option<String> {
        let [_, _, day, _, weekday] = *words else { return None };
        let steps = |text: &str| text.starts_with("*/");
        let both = !self.day_of_month.is_full() && !self.day_of_week.is_full();
        let is_warned = both && !self.either && (steps(day) || steps(weekday));
        is_warned.then(|| {
            format!(
                "the fields of days {day} and {weekday} must both fit, as in Vixie cron, because one begins with */; Kubernetes, \
                 croniter and others run it when one of them fits"
            )
        })
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
