//! The rules once more, as simple and slow as they can be: every half minute of some days is asked whether
//! the schedule is due. The values of the fields come from the generator, so the parser is not believed
//! either.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;

/// What the model steps by, in seconds: all changes of clocks since 2000 are at a whole half minute.
pub(crate) const STEP: i64 = 30;

/// A field as text, and what it means.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) text: String,
    pub(crate) values: Vec<i8>,
    /// Written `*`, or with a step that selects several, or selecting all.
    pub(crate) interval: bool,
    pub(crate) star: bool,
}

/// A generated expression of five or six fields.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) second: Option<Made>,
    pub(crate) minute: Made,
    pub(crate) hour: Made,
    pub(crate) day: Made,
    pub(crate) month: Made,
    pub(crate) weekday: Made,
}

impl Expression {
    pub(crate) fn text(&self) -> String {
        let Self { second, minute, hour, day, month, weekday } = self;
        let fields = second.iter().chain([minute, hour, day, month, weekday]);
        fields.map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn fits(&self, local: DateTime) -> bool {
        let has = |field: &Made, value: i8| field.values.contains(&value);
        let day = has(&self.day, local.day());
        let weekday = has(&self.weekday, local.weekday().to_sunday_zero_offset());
        let alternatives = self.second.is_none() && !self.day.star && !self.weekday.star;
        let second = self
            .second
            .as_ref()
            .map_or_else(|| local.second() == 0, |field| has(field, local.second()));
        second
            && has(&self.minute, local.minute())
            && has(&self.hour, local.hour())
            && has(&self.month, local.month())
            && if alternatives { day || weekday } else { day && weekday }
    }

    fn is_interval(&self) -> bool {
        self.second.iter().chain([&self.minute, &self.hour]).any(|field| field.interval)
    }

    /// T14, word by word.
    fn is_due(&self, at: Timestamp, zone: &TimeZone) -> bool {
        let offset = zone.to_offset(at);
        let local = offset.to_datetime(at);
        let first_pass = match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { before, .. } => offset == before,
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => true,
        };
        if self.fits(local) && (first_pass || self.is_interval()) {
            return true;
        }
        let before = zone.to_offset(at - 1.second());
        if before >= offset || self.hour.values.len() == 24 {
            return false;
        }
        let mut lost = before.to_datetime(at);
        while lost < local {
            if self.fits(lost) {
                return true;
            }
            lost += STEP.seconds();
        }
        false
    }

    /// All occurrences from `first` and before `end`.
    pub(crate) fn occurrences(&self, zone: &TimeZone, first: i64, end: i64) -> Vec<i64> {
        let steps = (first..end).step_by(usize::try_from(STEP).unwrap());
        steps.filter(|at| self.is_due(Timestamp::from_second(*at).unwrap(), zone)).collect()
    }
}

/// One entry of a list.
fn entry(least: i8, greatest: i8, sixes: bool) -> impl Strategy<Value = Made> {
    let made = |text: String, values: Vec<i8>, star: bool, stepped: bool| {
        let interval = stepped && values.len() > 1;
        Made { text, values, interval, star }
    };
    let range =
        move || (least..=greatest, least..=greatest).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let step = move || 1..=(greatest - least + 1);
    let every =
        |from: i8, to: i8, step: i8| (from..=to).step_by(step.unsigned_abs().into()).collect();
    let single = (least..=greatest).prop_map(move |n| made(n.to_string(), vec![n], false, false));
    let ranged =
        range().prop_map(move |(a, b)| made(format!("{a}-{b}"), (a..=b).collect(), false, false));
    let starred =
        step().prop_map(move |n| made(format!("*/{n}"), every(least, greatest, n), true, n > 1));
    let stepped = (range(), step())
        .prop_map(move |((a, b), n)| made(format!("{a}-{b}/{n}"), every(a, b, n), false, n > 1));
    let onward = (least..=greatest, step()).prop_map(move |(a, n)| {
        if sixes {
            made(format!("{a}/{n}"), every(a, greatest, n), false, n > 1)
        } else {
            made(a.to_string(), vec![a], false, false)
        }
    });
    prop_oneof![3 => single, 2 => ranged, 2 => starred, 2 => stepped, 1 => onward]
}

fn field(least: i8, greatest: i8, sixes: bool) -> impl Strategy<Value = Made> {
    let all = Made {
        text: "*".to_owned(),
        values: (least..=greatest).collect(),
        interval: true,
        star: true,
    };
    let listed =
        prop::collection::vec(entry(least, greatest, sixes), 1..=3).prop_map(move |parts| {
            let mut values: Vec<i8> = parts.iter().flat_map(|part| part.values.clone()).collect();
            values.sort_unstable();
            values.dedup();
            let full = values.len() == usize::from((greatest - least + 1).unsigned_abs());
            Made {
                text: parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(","),
                interval: full || parts.iter().any(|part| part.interval),
                star: parts[0].star,
                values,
            }
        });
    prop_oneof![2 => Just(all), 3 => listed]
}

/// Hours; often one or two of those in which clocks jump.
fn hour(sixes: bool) -> impl Strategy<Value = Made> {
    let early = (0_i8..=3, 0_i8..=1).prop_map(|(first, more)| Made {
        text: format!("{first}-{}", first + more),
        values: (first..=first + more).collect(),
        interval: false,
        star: false,
    });
    prop_oneof![early, field(0, 23, sixes)]
}

/// Seconds that the model's steps can see.
fn second() -> impl Strategy<Value = Made> {
    let made = |text: &str, values: &[i8], interval| {
        Just(Made { text: text.to_owned(), values: values.to_vec(), interval, star: false })
    };
    prop_oneof![
        made("0", &[0], false),
        made("30", &[30], false),
        made("0,30", &[0, 30], false),
        made("*/30", &[0, 30], true),
        made("30/40", &[30], false),
    ]
}

/// Expressions of both dialects; some never fire.
pub(crate) fn expression() -> impl Strategy<Value = Expression> {
    let of = |second: Option<Made>, sixes| {
        let times = (field(0, 59, sixes), hour(sixes));
        let days = (field(1, 31, sixes), field(1, 12, sixes), field(0, 6, sixes));
        (times, days).prop_map(move |((minute, hour), (day, month, weekday))| Expression {
            second: second.clone(),
            minute,
            hour,
            day,
            month,
            weekday,
        })
    };
    prop_oneof![
        of(None, false).boxed(),
        second().prop_flat_map(move |one| of(Some(one), true)).boxed()
    ]
}
