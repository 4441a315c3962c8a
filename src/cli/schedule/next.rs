//! `leasehold schedule next`: the next occurrences of an expression. Asks no sidecar and no store.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::Serialize;

use crate::cli::exit::{Exit, UsageError};
use crate::cli::output::{self, OutputArgs};
use crate::cli::spec::{checked, duration};
use crate::time::{BootClock, Clock as _};
use crate::timetable::{ClockJump, Timetable, UtcSecond, zone_data_version};

/// Prints the next occurrences of an expression with their local times, and what the expression means. Needs
/// no sidecar.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Five fields (minute, hour, day of month, month, day of week), six (second first), a nickname such as
    /// @daily, or `@every 90s`. In quotes: it is one argument.
    #[arg(
        value_name = "EXPRESSION",
        value_parser = text(),
        required_unless_present = "every",
        conflicts_with = "every",
        allow_hyphen_values = true
    )]
    expression: Option<String>,
    /// What a shell makes of an expression without quotes.
    #[arg(hide = true, value_name = "WORD", value_parser = OsStringValueParser::new())]
    more: Vec<OsString>,
    /// Instead of an expression: the distance between occurrences, 10s to 366d, counted from
    /// 1970-01-01T00:00:00Z.
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    every: Option<Duration>,
    /// The time zone, by its name in the IANA database, such as Europe/Copenhagen.
    #[arg(long, value_name = "ZONE", value_parser = text(), default_value = "UTC", allow_hyphen_values = true)]
    tz: String,
    /// How many occurrences, 1 to 100.
    #[arg(
        long,
        short = 'n',
        value_name = "NUMBER",
        default_value_t = 10,
        value_parser = clap::value_parser!(u8).range(1..=100),
        allow_hyphen_values = true
    )]
    count: u8,
    /// The earliest time to list, in RFC 3339. Default: now.
    #[arg(long, value_name = "TIME", value_parser = instant(), allow_hyphen_values = true)]
    from: Option<UtcSecond>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Text as programs write it: an argument of other bytes is named in the error.
fn text() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|given| {
        given.into_string().map_err(|_| UsageError("it is not text in UTF-8".to_owned()))
    })
}

fn instant() -> impl TypedValueParser<Value = UtcSecond> {
    text().try_map(|given| given.parse::<UtcSecond>())
}

#[derive(Serialize)]
struct Preview {
    expression: String,
    sentence: String,
    time_zone: &'static str,
    zone_data: &'static str,
    occurrences: Vec<Occurrence>,
}

#[derive(Serialize)]
struct Occurrence {
    scheduled_at: String,
    local_time: String,
    clock_jump: Option<&'static str>,
    #[serde(skip)]
    hint: &'static str,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<Exit> {
    let format = args.output.output;
    let timetable = args.timetable()?;
    let first = match args.from {
        Some(from) => timetable.at_or_after(from),
        None => timetable.next(BootClock::new().wall().into()),
    };
    let all = std::iter::successors(first, |last| timetable.next(*last));
    let occurrences = all.take(args.count.into()).map(|at| Occurrence::of(&timetable, at));
    if let Some(warning) = timetable.warning() {
        output::note(warning);
    }
    let preview = Preview {
        expression: timetable.canonical().to_owned(),
        sentence: timetable.sentence(),
        time_zone: timetable.zone(),
        zone_data: zone_data_version(),
        occurrences: occurrences.collect(),
    };
    output::result(format, || preview.text(), &preview)?;
    Ok(Exit::Success)
}

impl Args {
    fn timetable(&self) -> Result<Timetable, UsageError> {
        if !self.more.is_empty() {
            let problem =
                "EXPRESSION has to be one argument: write it in quotes, such as '30 2 * * *'";
            return Err(UsageError(problem.to_owned()));
        }
        let (argument, timetable) = match self.every {
            Some(every) => ("--every", Timetable::every(every, &self.tz)),
            None => {
                let expression = self.expression.as_deref().unwrap_or_default();
                ("EXPRESSION", Timetable::parse(expression, &self.tz))
            }
        };
        checked(argument, timetable)
    }
}

impl Occurrence {
    fn of(timetable: &Timetable, at: UtcSecond) -> Self {
        let jump = timetable.clock_jump(at).map(|jump| match jump {
            ClockJump::MadeUp => {
                ("made_up", "the clock jumps ahead to here: includes the skipped times")
            }
            ClockJump::FirstPass => ("first_pass", "this local time occurs twice: first pass"),
            ClockJump::SecondPass => ("second_pass", "this local time occurs twice: second pass"),
        });
        Self {
            scheduled_at: at.to_string(),
            local_time: timetable.local_time(at),
            clock_jump: jump.map(|(name, _)| name),
            hint: jump.map_or("", |(_, hint)| hint),
        }
    }
}

impl Preview {
    fn text(&self) -> String {
        let head = format!("{}\n{}\n", self.expression, self.sentence);
        if self.occurrences.is_empty() {
            return format!("{head}\nno occurrence before the end of the year 9999");
        }
        let hints = self.occurrences.iter().any(|occurrence| !occurrence.hint.is_empty());
        let rows = self.occurrences.iter().map(|occurrence| {
            let mut row = vec![occurrence.scheduled_at.clone(), occurrence.local_time.clone()];
            row.extend(hints.then(|| occurrence.hint.to_owned()));
            row
        });
        let local = format!("LOCAL TIME, {}", self.time_zone);
        let mut headings = vec!["UTC", &local];
        headings.extend(hints.then_some("CLOCK"));
        format!("{head}\n{}", output::table(&headings, rows.collect()))
    }
}
