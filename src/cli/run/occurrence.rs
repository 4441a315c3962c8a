//! `run --occurrence`: a command that another scheduler starts, in several places, is run once for each
//! occurrence (T1, T2).

use std::ffi::OsString;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::{EndedRun, Hold, LeaseSpec, RunOutcome};

use super::job::{Done, Ended, Environment, outcome_of};
use crate::cli::exit::{Exit, UsageError};
use crate::cli::times::moment;
use crate::timetable::UtcSecond;

/// 2020-01-01T00:00:00Z: a job's name that says an earlier minute was not made by a CronJob.
const EARLIEST: UtcSecond = UtcSecond(1_577_836_800);

/// Which occurrence the command is run for.
#[derive(Clone, Debug, clap::Args)]
#[command(group(
    clap::ArgGroup::new("at").args(["occurrence", "occurrence_from_job_name"]).multiple(false)
))]
pub(super) struct OccurrenceArgs {
    /// The occurrence that the command runs for, as the scheduler that starts it names it: RFC 3339 in whole
    /// seconds, such as 2026-11-22T02:30:00Z. It runs until an outcome is recorded, wherever it is started,
    /// and never afterwards.
    #[arg(long, value_name = "TIME")]
    occurrence: Option<UtcSecond>,
    /// The occurrence, taken from the name of a Kubernetes Job that a CronJob created: the name ends with the
    /// minutes since 1970.
    #[arg(long, value_name = "NAME", value_parser = of_job)]
    occurrence_from_job_name: Option<UtcSecond>,
    /// How often the occurrence may fail, or its holder die, before that is final, 1 to 100. Default: no
    /// limit.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100), requires = "at")]
    max_attempts: Option<u32>,
    /// The exit code when the occurrence is done already, or a newer one is.
    #[arg(long, value_name = "CODE", default_value_t = 0, requires = "at")]
    done_exit_code: u8,
    /// The exit code with which the command says that it failed and a retry would not help.
    #[arg(long, value_name = "CODE", requires = "at")]
    final_exit_code: Option<u8>,
}

/// The occurrence of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) at: UtcSecond,
    done_exit_code: u8,
    final_exit_code: Option<u8>,
}

impl OccurrenceArgs {
    /// Names the occurrence in the spec, if one was given.
    ///
    /// # Errors
    /// When it is before 1970.
    pub(super) fn name(&self, spec: LeaseSpec) -> Result<(LeaseSpec, Option<Named>), UsageError> {
        let Some(at) = self.occurrence.or(self.occurrence_from_job_name) else {
            return Ok((spec, None));
        };
        let since = u64::try_from(at.0).ok().map(Duration::from_secs);
        let instant = since.and_then(|since| UNIX_EPOCH.checked_add(since));
        let wrong = || UsageError(format!("--occurrence {at} is before 1970"));
        let mut spec = spec.with_occurrence(instant.ok_or_else(wrong)?);
        spec.occurrence_max_attempts = self.max_attempts.unwrap_or_default();
        let Self { done_exit_code, final_exit_code, .. } = *self;
        Ok((spec, Some(Named { at, done_exit_code, final_exit_code })))
    }
}

/// The minute in a Job's name.
fn of_job(name: &str) -> Result<UtcSecond, String> {
    let minutes = name.rsplit_once('-').and_then(|(_, minutes)| minutes.parse::<i64>().ok());
    let at = minutes.and_then(|minutes| minutes.checked_mul(60)).map(UtcSecond);
    at.filter(|at| (EARLIEST..=UtcSecond::LAST).contains(at)).ok_or_else(|| {
        "does not end with `-` and the minutes since 1970, as the names of a CronJob's Jobs do; a Job that was made by hand \
         has no occurrence: give it one with --occurrence"
            .to_owned()
    })
}

impl Named {
    /// What the command is told of it.
    pub(super) fn environment(self, guard: &Hold) -> Environment {
        let at = OsString::from(self.at.to_string());
        let attempt = OsString::from(guard.grant().attempt.to_string());
        vec![("LEASEHOLD_SCHEDULED_AT", at), ("LEASEHOLD_ATTEMPT", attempt)]
    }

    /// What is recorded of a command that ended so; `ending` is the signal that told this process to end, if
    /// one did.
    pub(super) fn outcome(self, done: &Done, guard: &Hold, ending: Option<i32>) -> RunOutcome {
        match done.ended {
            Ended::Command(_) if done.unreadable => RunOutcome::Failed,
            Ended::Command(status) => outcome_of(status, ending, self.final_exit_code),
            // What was stopped has not done its work; at the end of --max-hold that counts as a failure.
            Ended::Stopped(_)
                if guard.max_hold_ends().is_some_and(|at| at <= guard.valid_until()) =>
            {
                RunOutcome::Failed
            }
            Ended::Stopped(_) => RunOutcome::Returned,
        }
    }

    /// It is done already: what is said, and the exit code.
    pub(super) fn already_done(self, run: &EndedRun) -> (String, Exit) {
        let outcome = run.outcome.map_or("ended", RunOutcome::as_str);
        let attempt = match run.attempt {
            0 | 1 => String::new(),
            attempt => format!(" at attempt {attempt}"),
        };
        let text = format!("the occurrence {} is already done: {outcome}{attempt}", self.at);
        (text, Exit::Code(self.done_exit_code))
    }

    /// A newer one is done: what is said, and the exit code.
    pub(super) fn skipped(self, watermark: Option<SystemTime>) -> (String, Exit) {
        let newer = moment(watermark).unwrap_or_else(|| "a newer one".to_owned());
        let text = format!("the occurrence {} is skipped: {newer} is done already", self.at);
        (text, Exit::Code(self.done_exit_code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t1_the_minute_in_a_jobs_name_is_the_occurrence() {
        let at = of_job("nightly-report-29921430").unwrap();
        assert_eq!(at.to_string(), "2026-11-21T18:30:00Z");
        for wrong in
            ["nightly", "nightly-", "nightly-manual-1", "nightly-abc", "nightly--29921430x", ""]
        {
            let problem = of_job(wrong).unwrap_err();
            assert!(problem.contains("--occurrence"), "{wrong}: {problem}");
        }
    }
}
