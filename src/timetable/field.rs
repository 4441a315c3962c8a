//! One field of an expression, read: which values, and how they were written.

use super::bits;
use super::error::{CronField, TimetableError, shown};

/// The two forms of expressions (T15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Five fields, as Vixie cron reads them.
    Vixie,
    /// Six fields, the second first, as WebJobs reads them.
    Ncrontab,
}

/// A step as written, `from-last/step`, of two values or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    pub(super) from: u8,
    pub(super) last: u8,
    pub(super) step: u8,
}

impl Step {
    pub(super) fn values(self) -> u64 {
        (self.from..=self.last).step_by(self.step.into()).fold(0, |set, value| set | 1 << value)
    }
}

/// A day that is not a number alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SpecialDay {
    /// `15W`: the weekday nearest to that day, in the same month.
    NearestWeekday(u8),
    /// `L`: the last day of the month.
    Last,
    /// `LW`: the last weekday, Monday to Friday, of the month.
    LastWeekday,
    /// `5#3`: the third Friday of the month.
    Nth(u8, u8),
    /// `5L`: the last Friday of the month.
    LastOf(u8),
}

/// A field, read.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) kind: CronField,
    /// The values as bits; Sunday is 0.
    pub(super) values: u64,
    /// The parts written with a step. One that selects a single value is none: it means a fixed time.
    pub(super) steps: Vec<Step>,
    /// Days that are not numbers alone; sorted, each once.
    pub(super) special: Vec<SpecialDay>,
    /// Whether it begins with `*`: what Vixie cron goes by to combine the fields of days.
    pub(super) star: bool,
}

/// One entry of a list.
enum Entry {
    Values(Step),
    Special(SpecialDay),
}

impl CronField {
    /// The least and the greatest value; of weekdays without the 7.
    pub(super) const fn bounds(self) -> (u8, u8) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 6),
        }
    }

    /// All values as bits.
    pub(super) const fn all(self) -> u64 {
        let (least, greatest) = self.bounds();
        bits::range(least, greatest)
    }

    const fn allowed(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::Second | Self::Minute, _) => "0 to 59",
            (Self::Hour, _) => "0 to 23",
            (Self::DayOfMonth, _) => "1 to 31, L, LW, 15W",
            (Self::Month, _) => "1 to 12 or JAN to DEC",
            (Self::DayOfWeek, Dialect::Vixie) => {
                "0 to 7 (0 and 7 are Sunday) or SUN to SAT, 5L, 5#3"
            }
            (Self::DayOfWeek, Dialect::Ncrontab) => "0 to 6 (0 is Sunday) or SUN to SAT, 5L, 5#3",
        }
    }

    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::DayOfMonth => &[],
            Self::Month => &MONTHS,
            Self::DayOfWeek => &WEEKDAYS,
        }
    }
}

/// The months, from 1.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The weekdays, from 0.
pub(super) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Field {
    /// A field that is one value.
    pub(super) const fn single(kind: CronField, value: u8) -> Self {
        Self { kind, values: 1 << value, steps: Vec::new(), special: Vec::new(), star: false }
    }

    /// Reads a field from `text`.
    pub(super) fn parse(
        kind: CronField,
        dialect: Dialect,
        text: &str,
    ) -> Result<Self, TimetableError> {
        let reader = Reader { kind, dialect, text };
        let star = text.starts_with('*');
        let mut field = Self { kind, values: 0, steps: Vec::new(), special: Vec::new(), star };
        for entry in text.split(',') {
            match reader.entry(&entry.to_ascii_uppercase())? {
                Entry::Special(day) => field.special.push(day),
                Entry::Values(step) => {
                    field.values |= step.values();
                    if step.step > 1 && step.last > step.from {
                        field.steps.push(step);
                    }
                }
            }
        }
        if kind == CronField::DayOfWeek && bits::has(field.values, 7) {
            field.values = (field.values | 1) & kind.all();
        }
        field.special.sort_unstable();
        field.special.dedup();
        Ok(field)
    }

    /// Whether every value is in it.
    pub(super) const fn is_full(&self) -> bool {
        self.values == self.kind.all()
    }

    /// Whether it is `*`, or has a step: then it belongs to an interval (T14).
    pub(super) const fn is_interval(&self) -> bool {
        self.is_full() || !self.steps.is_empty()
    }
}

/// Reads the entries of one field.
struct Reader<'text> {
    kind: CronField,
    dialect: Dialect,
    text: &'text str,
}

impl Reader<'_> {
    fn wrong(&self, problem: impl Into<String>) -> TimetableError {
        TimetableError::Field {
            field: self.kind,
            given: shown(self.text),
            problem: problem.into(),
            allowed: self.kind.allowed(self.dialect),
        }
    }

    fn entry(&self, entry: &str) -> Result<Entry, TimetableError> {
        if entry.is_empty() {
            return Err(self.wrong("an entry of the list is empty"));
        }
        if let Some(day) = self.special(entry)? {
            return Ok(Entry::Special(day));
        }
        let (base, step) = match entry.split_once('/') {
            Some((base, step)) => (base, Some(self.step(step)?)),
            None => (entry, None),
        };
        let (from, to) = self.range(base, step)?;
        let step = step.unwrap_or(1);
        let last = to - (to - from) % step;
        Ok(Entry::Values(Step { from, last, step }))
    }

    /// First and last value of what stands before a step.
    fn range(&self, base: &str, step: Option<u8>) -> Result<(u8, u8), TimetableError> {
        if base == "*" {
            return Ok(self.kind.bounds());
        }
        if let Some((from, to)) = base.split_once('-') {
            let from = self.value(from)?;
            // SAT-SUN is what people write for a weekend.
            let wraps = self.dialect == Dialect::Vixie && to.starts_with("SUN") && from > 0;
            let to = if wraps { 7 } else { self.value(to)? };
            if from > to {
                let (least, greatest) = self.kind.bounds();
                let run = |from: u8, to: u8| match from == to {
                    true => from.to_string(),
                    false => format!("{from}-{to}"),
                };
                // Sunday is 7 as well, which begins the week here.
                let meant = if from > greatest {
                    run(least, to)
                } else {
                    format!("{},{}", run(from, greatest), run(least, to))
                };
                return Err(self.wrong(format!("the range {base} is empty; did you mean {meant}?")));
            }
            return Ok((from, to));
        }
        let value = self.value(base)?;
        match (step, self.dialect) {
            (None, _) => Ok((value, value)),
            (Some(_), Dialect::Ncrontab) => Ok((value, self.kind.bounds().1.max(value))),
            (Some(step), Dialect::Vixie) => {
                let (_, greatest) = self.kind.bounds();
                Err(self.wrong(format!(
                    "a step needs * or a range before it; did you mean {value}-{greatest}/{step}?"
                )))
            }
        }
    }

    fn step(&self, step: &str) -> Result<u8, TimetableError> {
        let (least, greatest) = self.kind.bounds();
        let most = greatest - least + 1;
        let problem = match number(step) {
            Some(number) if (1..=most.into()).contains(&number) => {
                return Ok(u8::try_from(number).unwrap_or(most));
            }
            Some(_) => format!("the step {step} is out of range, 1 to {most}"),
            None => format!("the step {step:?} is not a number, 1 to {most}"),
        };
        Err(self.wrong(problem))
    }

    fn value(&self, text: &str) -> Result<u8, TimetableError> {
        let (least, greatest) = self.kind.bounds();
        let sunday_twice = self.kind == CronField::DayOfWeek && self.dialect == Dialect::Vixie;
        let greatest = if sunday_twice { 7 } else { greatest };
        let is_name = |name: &str| {
            let short = name.get(..3).unwrap_or(name);
            text.eq_ignore_ascii_case(name) || text.eq_ignore_ascii_case(short)
        };
        if let Some(position) = self.kind.names().iter().position(|name| is_name(name)) {
            return Ok(u8::try_from(position).unwrap_or_default() + least);
        }
        match number(text) {
            Some(number) if (least.into()..=greatest.into()).contains(&number) => {
                Ok(u8::try_from(number).unwrap_or(least))
            }
            Some(_) => Err(self.wrong(format!("{text} is out of range"))),
            None if text == "?" => Err(self.wrong("? is Quartz syntax; did you mean *?")),
            None => Err(self.wrong(format!("{text:?} is not a value"))),
        }
    }

    /// Days that are not numbers alone.
    fn special(&self, entry: &str) -> Result<Option<SpecialDay>, TimetableError> {
        let day = match self.kind {
            CronField::Second | CronField::Minute | CronField::Hour | CronField::Month => None,
            CronField::DayOfMonth => match entry {
                "L" => Some(SpecialDay::Last),
                "LW" | "WL" => Some(SpecialDay::LastWeekday),
                _ => match entry.strip_suffix('W') {
                    Some(day) => Some(SpecialDay::NearestWeekday(self.value(day)?)),
                    None => None,
                },
            },
            CronField::DayOfWeek if entry == "L" => {
                return Err(self.wrong("L needs the weekday before it; did you mean 6L?"));
            }
            CronField::DayOfWeek => match (entry.split_once('#'), entry.strip_suffix('L')) {
                (Some((day, "L")), _) | (None, Some(day)) => {
                    Some(SpecialDay::LastOf(self.value(day)? % 7))
                }
                (Some((day, nth)), _) => match number(nth) {
                    Some(nth @ 1..=5) => {
                        Some(SpecialDay::Nth(self.value(day)? % 7, u8::try_from(nth).unwrap_or(5)))
                    }
                    _ => return Err(self.wrong("# must be followed by 1 to 5, or L")),
                },
                (None, None) => None,
            },
        };
        Ok(day)
    }
}

/// A number of at most four digits and nothing else.
pub(super) fn number(text: &str) -> Option<u32> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
