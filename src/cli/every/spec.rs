//! Flags that say when a schedule is due, and how its runs are handled.

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use leasehold_client::{CatchUp, Overlap, RunTimeout, ScheduleSpec, Subscription, Timetable};

use crate::cli::exit::UsageError;
use crate::cli::spec::{KeyArgs, checked, duration, label};
use crate::timetable;

/// How the schedule of a command is defined.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ScheduleArgs {
    /// Five fields (minute, hour, day of month, month, day of week), six (second first), a nickname such as
    /// @daily, or a duration such as 90s. In quotes: it is one argument.
    #[arg(value_name = "EXPRESSION", allow_hyphen_values = true)]
    expression: Timing,
    #[command(flatten)]
    key: KeyArgs,
    /// The time zone, by its name in the IANA database, such as Europe/Copenhagen. Default: UTC.
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Which missed occurrences run: `latest`, the newest; `none`, the newest and only if it is not late;
    /// `all:N`, the newest and up to N before it, 1 to 100. Default: latest.
    #[arg(long, value_name = "latest|none|all:N", value_parser = catch_up)]
    catch_up: Option<CatchUp>,
    /// Occurrences older than this are never run: 1m to 366d. Default: as far back as --catch-up goes, and
    /// 25h at least.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    catch_up_window: Option<Duration>,
    /// How late an occurrence may start and still be on time. Default: twice the lease duration and 10s.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    grace: Option<Duration>,
    /// When a schedule begins to run that nobody has subscribed to before: `next`, at its next occurrence;
    /// `now`, at once, in one of the replicas. Default: next.
    #[arg(long, value_enum, value_name = "WHEN")]
    first: Option<FirstFlag>,
    /// How occurrences that fall due during a run are handled. Default: follow.
    #[arg(long, value_enum, value_name = "POLICY")]
    overlap: Option<OverlapFlag>,
    /// How many attempts an occurrence gets, if they fail or are abandoned: 1 to 100. Default: 3.
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=100),
        allow_hyphen_values = true
    )]
    retry: Option<u32>,
    /// The wait before the second attempt, which doubles with each further one: 1s to 10m. Default: 10s.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    backoff: Option<Duration>,
    /// How long a run may take: 1s to 366d, or `none`. Default: until the next occurrence is due; with
    /// --overlap skip ten times as long, and 24h at least.
    #[arg(long, value_name = "DURATION", value_parser = timeout, allow_hyphen_values = true)]
    timeout: Option<RunTimeout>,
    /// A run is lost if ReportProgress is not called for this long, so that a job that hangs ends before its
    /// deadline: 1s to 24h.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    progress_timeout: Option<Duration>,
    /// Start later, by an offset of this schedule that is at most this long, so that not all schedules start
    /// at once.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    spread: Option<Duration>,
    /// How often to check, at least, whether a run elsewhere was abandoned: 1s to 10m. Costs requests to the
    /// store.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    takeover_check: Option<Duration>,
    /// Of two different definitions, the one with the higher revision is in force. Use the number of the
    /// release, for example.
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    revision: Option<u64>,
    /// The duration of the lease in the store, 15s to 60s in whole seconds. Default: 60s.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    lease_duration: Option<Duration>,
    /// The name of the holder, shown to people. Default: this pod or host, and the process id.
    #[arg(long, value_name = "TEXT")]
    holder: Option<String>,
    /// A pair that is stored and shown with the lock; may be repeated.
    #[arg(long = "label", value_parser = label, value_name = "KEY=VALUE")]
    labels: Vec<(String, String)>,
}

/// When a schedule is due, as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Timing {
    Every(Duration),
    Cron(String),
}

impl Timing {
    fn check(&self, zone: &str) -> Result<(), UsageError> {
        let read = match self {
            Self::Every(span) => timetable::Timetable::every(*span, zone),
            Self::Cron(expression) => timetable::Timetable::parse(expression, zone),
        };
        checked("EXPRESSION", read).map(drop)
    }
}

impl From<Timing> for Timetable {
    fn from(timing: Timing) -> Self {
        match timing {
            Timing::Every(span) => Self::Every(span),
            Timing::Cron(expression) => Self::Cron(expression),
        }
    }
}

impl FromStr for Timing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_duration = text.starts_with(|first: char| first.is_ascii_digit())
            && text.ends_with(|last: char| last.is_ascii_alphabetic());
        Ok(match duration(text) {
            Ok(span) if is_duration => Self::Every(span),
            Ok(_) | Err(_) => Self::Cron(text.to_owned()),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FirstFlag {
    /// At its next occurrence.
    Next,
    /// At once, if this is the schedule's first subscription.
    Now,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OverlapFlag {
    /// After the run, they are handled like missed ones.
    Follow,
    /// They are skipped.
    Skip,
}

fn catch_up(text: &str) -> Result<CatchUp, String> {
    let most = |most: &str| most.parse().ok().filter(|most| (1..=100).contains(most));
    match text {
        "latest" => Ok(CatchUp::Latest),
        "none" => Ok(CatchUp::None),
        _ => text
            .strip_prefix("all:")
            .and_then(most)
            .map(CatchUp::All)
            .ok_or_else(|| "not latest, none or all:N with N from 1 to 100".to_owned()),
    }
}

fn timeout(text: &str) -> Result<RunTimeout, String> {
    if text == "none" {
        return Ok(RunTimeout::Unlimited);
    }
    duration(text).map(RunTimeout::After).map_err(|problem| format!("not none, and {problem}"))
}

impl ScheduleArgs {
    /// The subscription. A command has `kill_after` to end after its deadline.
    ///
    /// # Errors
    /// When no lock was named, or the expression or the zone is wrong: told at once, also where no sidecar
    /// answers yet.
    pub(super) fn subscription(
        self,
        kill_after: Option<Duration>,
    ) -> Result<Subscription, UsageError> {
        self.expression.check(self.tz.as_deref().unwrap_or_default())?;
        let mut spec = ScheduleSpec::from(Timetable::from(self.expression));
        spec.time_zone = self.tz.unwrap_or_default();
        spec.catch_up = self.catch_up.unwrap_or_default();
        spec.catch_up_window = self.catch_up_window;
        spec.grace = self.grace;
        spec.overlap = match self.overlap {
            None | Some(OverlapFlag::Follow) => Overlap::Follow,
            Some(OverlapFlag::Skip) => Overlap::Skip,
        };
        spec.max_attempts = self.retry.unwrap_or_default();
        spec.backoff = self.backoff;
        spec.run_timeout = self.timeout.unwrap_or_default();
        // T12: a whole second more, in which the end of a killed command is told.
        spec.stop_grace = kill_after.map(|span| Duration::from_secs(span.as_secs() + 1));
        spec.progress_timeout = self.progress_timeout;
        spec.spread = self.spread;
        spec.takeover_check = self.takeover_check;
        spec.revision = self.revision.unwrap_or_default();
        spec.lease_duration = self.lease_duration;
        let mut subscription = Subscription::new(self.key.key()?, spec);
        subscription.holder = self.holder.unwrap_or_default();
        subscription.labels = self.labels.into_iter().collect();
        subscription.first_now = self.first == Some(FirstFlag::Now);
        Ok(subscription)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t15_an_expression_or_a_duration() {
        let of = |text: &str| text.parse::<Timing>().unwrap();
        assert_eq!(of("90s"), Timing::Every(Duration::from_secs(90)));
        assert_eq!(of("1h 30m"), Timing::Every(Duration::from_secs(5_400)));
        for expression in ["*/5 * * * *", "@every 90s", "0 0 1 1 0", "5 4 * * SUN"] {
            assert_eq!(of(expression), Timing::Cron(expression.to_owned()));
        }
    }

    #[test]
    fn t9_what_was_missed_is_latest_none_or_all() {
        assert_eq!(catch_up("latest"), Ok(CatchUp::Latest));
        assert_eq!(catch_up("none"), Ok(CatchUp::None));
        assert_eq!(catch_up("all:7"), Ok(CatchUp::All(7)));
        for wrong in ["all", "all:0", "all:101", "all:x", "some"] {
            assert!(catch_up(wrong).is_err(), "{wrong}");
        }
        assert_eq!(timeout("none"), Ok(RunTimeout::Unlimited));
        assert!(timeout("soon").unwrap_err().contains("30s"));
    }
}
