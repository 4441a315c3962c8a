//! What a schedule is: when it is due, and how runs are handled (T9 to T13, T16).

use std::ops::{Deref, RangeInclusive};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::key::MAX_KEY_BYTES;
use crate::timetable::{Timetable, TimetableError};

/// The most that `catch_up` ALL runs (T9).
const MAX_ALL: u32 = 100;
const DAY: u64 = 86_400;
/// The default window reaches back over a day of 25 hours, at least (T9).
const LEAST_WINDOW: Duration = Duration::from_secs(25 * 3_600);
/// The default time for a job to end after its deadline (T12).
const STOP_GRACE: Duration = Duration::from_secs(10);
/// The default wait before the first retry (T11).
const BACKOFF: Duration = Duration::from_secs(10);
/// The least D: what a grace is checked against where the definition leaves D to the sidecars.
const LEAST_LEASE: u64 = 15;

/// What becomes of occurrences that are older than the newest one due (T9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// They are skipped; the newest runs however late it is.
    #[default]
    Latest,
    /// They are skipped; the newest runs only within the grace.
    None,
    /// The newest so many before it run too, oldest first: 1 to 100.
    All(u32),
}

/// What becomes of occurrences that fall due during a run (T10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Overlap {
    /// They are handled when the run is over, as [`CatchUp`] says.
    #[default]
    Follow,
    /// They are skipped.
    Skip,
}

/// How long a run may take (T12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunTimeout {
    /// Until the next due time, but at least one whole gap after its start. Under [`Overlap::Skip`] the
    /// greater of ten gaps and a day: a job that overruns must be able to succeed, and one that hangs must
    /// not silence the schedule for ever (T10).
    #[default]
    NextDue,
    /// So long: 1 s to 366 days.
    Duration(Duration),
    /// As long as it likes.
    None,
}

/// What somebody asks for: each field has its default, and [`Definition::new`] checks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// When it is due.
    pub timetable: Timetable,
    /// The higher one wins (T16); 0 for callers without revisions.
    pub revision: u64,
    /// What becomes of what was missed.
    pub catch_up: CatchUp,
    /// Nothing older is run: 1 min to 366 days. By default it reaches back over the last N + 1 occurrences
    /// under ALL:N, over the last one else, and 25 h at least.
    pub catch_up_window: Option<Duration>,
    /// How late the newest is still taken for on time: 2 D + 10 s (the default, and the least) to 7 days.
    pub grace: Option<Duration>,
    /// What becomes of what falls due during a run.
    pub overlap: Overlap,
    /// How often an occurrence may fail or be abandoned: 1 to 100, 3 by default.
    pub max_attempts: Option<u32>,
    /// The wait before the first retry, which doubles up to 10 min: 1 s to 10 min, 10 s by default.
    pub backoff: Option<Duration>,
    /// How long a run may take.
    pub run_timeout: RunTimeout,
    /// How long a run that has reached its deadline may take to end: 0 s to 1 h, 10 s by default. Its hold
    /// ends then (T12).
    pub stop_grace: Option<Duration>,
    /// How long a run may go without reporting progress, 1 s to 1 day; none by default (S11).
    pub progress_timeout: Option<Duration>,
    /// The most that a start is delayed so that schedules do not start together (T13): 0 to 1 day.
    pub spread: Duration,
    /// The most between two looks at a run elsewhere (T17): 1 s to 10 min.
    pub takeover_check: Option<Duration>,
    /// How long the store keeps the lease of a holder that has gone, D: 15 to 60 s. By default each sidecar's
    /// own, which is no part of the definition (T16).
    pub lease_duration: Option<Duration>,
}

/// A checked [`Spec`], to be read only. What was left unset stays so (T16). All its durations are whole
/// seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition(Spec);

impl Deref for Definition {
    type Target = Spec;

    fn deref(&self) -> &Spec {
        &self.0
    }
}

/// The policies as they are stored: those that were set. Names say the unit, so that a person can read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Policies {
    catch_up: String,
    overlap: Overlap,
    run_timeout: String,
    spread_seconds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    catch_up_window_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grace_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_grace_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    progress_timeout_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    takeover_check_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_duration_seconds: Option<u64>,
}

/// A definition as it is stored; what a newer version added is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    expression: String,
    time_zone: String,
    #[serde(flatten)]
    policies: Policies,
    #[serde(flatten)]
    pub(super) others: serde_json::Map<String, serde_json::Value>,
}

/// Why a specification is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// The expression or the zone is wrong.
    #[error(transparent)]
    Timetable(#[from] TimetableError),
    /// A value is outside its range.
    #[error("{field} is {given}; {allowed} is allowed")]
    Range {
        /// The field that is out of range.
        field: &'static str,
        /// What was given.
        given: String,
        /// The range that is allowed.
        allowed: String,
    },
    /// The names are too long for a record that also has a schedule.
    #[error(
        "function and scope have {bytes} bytes together; a schedule allows {MAX_KEY_BYTES}: shorten one of them"
    )]
    Key {
        /// How many bytes they have.
        bytes: usize,
    },
}

impl DefinitionError {
    /// The field that is wrong.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Timetable(error) => error.parameter(),
            Self::Range { field, .. } => field,
            Self::Key { .. } => "function",
        }
    }
}

impl Spec {
    /// The defaults, for this timetable.
    #[must_use]
    pub const fn new(timetable: Timetable) -> Self {
        Self {
            timetable,
            revision: 0,
            catch_up: CatchUp::Latest,
            catch_up_window: None,
            grace: None,
            overlap: Overlap::Follow,
            max_attempts: None,
            backoff: None,
            run_timeout: RunTimeout::NextDue,
            stop_grace: None,
            progress_timeout: None,
            spread: Duration::ZERO,
            takeover_check: None,
            lease_duration: None,
        }
    }
}

impl Definition {
    /// Checks each field against its range.
    ///
    /// # Errors
    /// Names the field, what was given, and the range.
    pub fn new(spec: Spec) -> Result<Self, DefinitionError> {
        let within = |field, given: Option<Duration>, range| {
            given.map_or(Ok(()), |given| check_seconds(field, given, range))
        };
        within("lease_duration", spec.lease_duration, LEAST_LEASE..=60)?;
        if let CatchUp::All(most) = spec.catch_up {
            check_number("catch_up_max", most, MAX_ALL)?;
        }
        if let RunTimeout::Duration(given) = spec.run_timeout {
            check_seconds("run_timeout", given, 1..=366 * DAY)?;
        }
        let least_grace = 2 * spec.lease_duration.map_or(LEAST_LEASE, |it| it.as_secs()) + 10;
        within("catch_up_window", spec.catch_up_window, 60..=366 * DAY)?;
        within("grace", spec.grace, least_grace..=7 * DAY)?;
        if let Some(most) = spec.max_attempts {
            check_number("max_attempts", most, 100)?;
        }
        within("backoff", spec.backoff, 1..=600)?;
        within("stop_grace", spec.stop_grace, 0..=3_600)?;
        within("progress_timeout", spec.progress_timeout, 1..=DAY)?;
        check_seconds("spread", spec.spread, 0..=DAY)?;
        within("takeover_check", spec.takeover_check, 1..=600)?;
        Ok(Self(spec))
    }

    /// The same at this revision.
    pub(super) fn at_revision(self, revision: u64) -> Self {
        Self(Spec { revision, ..self.0 })
    }

    /// The window where none is set, for a person: what the last occurrences may add to it depends on the
    /// timetable.
    #[must_use]
    pub const fn least_window() -> Duration {
        LEAST_WINDOW
    }

    /// The default window reaches back over so many occurrences before the newest one (T9).
    pub(super) fn reach(&self) -> usize {
        match self.catch_up {
            CatchUp::Latest | CatchUp::None => 0,
            CatchUp::All(most) => most as usize,
        }
    }

    /// See [`Spec::grace`]. `lease` is the sidecar's D, for definitions that say none.
    #[must_use]
    pub fn grace(&self, lease: Duration) -> Duration {
        let least = 2 * self.lease_duration.unwrap_or(lease) + Duration::from_secs(10);
        self.grace.map_or(least, |grace| grace.max(least))
    }

    /// See [`Spec::max_attempts`].
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(3)
    }

    /// See [`Spec::backoff`].
    #[must_use]
    pub fn first_backoff(&self) -> Duration {
        self.backoff.unwrap_or(BACKOFF)
    }

    /// How long after the failure number `failures` a retry waits (T11), in seconds: doubles up to 10 min.
    pub(super) fn backoff(&self, failures: u32) -> i64 {
        let doubled = 1_u64 << failures.saturating_sub(1).min(10);
        whole(self.first_backoff().as_secs().saturating_mul(doubled).min(600))
    }

    /// See [`Spec::stop_grace`].
    #[must_use]
    pub fn stop_grace(&self) -> Duration {
        self.stop_grace.unwrap_or(STOP_GRACE)
    }

    /// The one text of all spellings of this definition: JSON on one line, without the revision.
    #[must_use]
    pub fn canonical(&self) -> String {
        // What is written are strings and numbers only: this cannot fail.
        serde_json::to_string(&self.stored()).unwrap_or_default()
    }

    /// 32 hex digits of the SHA-256 of [`canonical`](Self::canonical): equal for equal definitions, on every
    /// machine.
    #[must_use]
    pub fn hash(&self) -> String {
        digest(&self.canonical())
    }

    /// The same of the expression and the zone alone (T16).
    #[must_use]
    pub fn timetable_hash(&self) -> String {
        digest(&format!("{}\n{}", self.timetable.canonical(), self.timetable.zone()))
    }

    pub(super) fn stored(&self) -> Stored {
        Stored {
            expression: self.timetable.canonical().to_owned(),
            time_zone: self.timetable.zone().to_owned(),
            policies: self.policies(),
            others: serde_json::Map::new(),
        }
    }

    fn policies(&self) -> Policies {
        let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs());
        Policies {
            catch_up: match self.catch_up {
                CatchUp::Latest => "LATEST".to_owned(),
                CatchUp::None => "NONE".to_owned(),
                CatchUp::All(most) => format!("ALL:{most}"),
            },
            overlap: self.overlap,
            run_timeout: match self.run_timeout {
                RunTimeout::NextDue => "NEXT_DUE".to_owned(),
                RunTimeout::None => "NONE".to_owned(),
                RunTimeout::Duration(given) => format!("{}s", given.as_secs()),
            },
            spread_seconds: self.spread.as_secs(),
            catch_up_window_seconds: seconds(self.catch_up_window),
            grace_seconds: seconds(self.grace),
            max_attempts: self.max_attempts,
            backoff_seconds: seconds(self.backoff),
            stop_grace_seconds: seconds(self.stop_grace),
            progress_timeout_seconds: seconds(self.progress_timeout),
            takeover_check_seconds: seconds(self.takeover_check),
            lease_duration_seconds: seconds(self.lease_duration),
        }
    }

    /// Reads what [`stored`](Self::stored) wrote, and checks it again: anybody may have edited it.
    pub(super) fn from_stored(stored: &Stored, revision: u64) -> Result<Self, DefinitionError> {
        let policies = &stored.policies;
        let unreadable = |field, given: &str, allowed: &str| DefinitionError::Range {
            field,
            given: format!("{given:?}"),
            allowed: allowed.to_owned(),
        };
        Self::new(Spec {
            timetable: Timetable::parse(&stored.expression, &stored.time_zone)?,
            revision,
            catch_up: read_catch_up(&policies.catch_up).ok_or_else(|| {
                unreadable("catch_up", &policies.catch_up, "LATEST, NONE or ALL:1 to ALL:100")
            })?,
            catch_up_window: policies.catch_up_window_seconds.map(Duration::from_secs),
            grace: policies.grace_seconds.map(Duration::from_secs),
            overlap: policies.overlap,
            max_attempts: policies.max_attempts,
            backoff: policies.backoff_seconds.map(Duration::from_secs),
            run_timeout: read_timeout(&policies.run_timeout).ok_or_else(|| {
                unreadable(
                    "run_timeout",
                    &policies.run_timeout,
                    "NEXT_DUE, NONE or seconds as 600s",
                )
            })?,
            stop_grace: policies.stop_grace_seconds.map(Duration::from_secs),
            progress_timeout: policies.progress_timeout_seconds.map(Duration::from_secs),
            spread: Duration::from_secs(policies.spread_seconds),
            takeover_check: policies.takeover_check_seconds.map(Duration::from_secs),
            lease_duration: policies.lease_duration_seconds.map(Duration::from_secs),
        })
    }
}

fn read_catch_up(text: &str) -> Option<CatchUp> {
    match text {
        "LATEST" => Some(CatchUp::Latest),
        "NONE" => Some(CatchUp::None),
        _ => text.strip_prefix("ALL:")?.parse().ok().map(CatchUp::All),
    }
}

fn read_timeout(text: &str) -> Option<RunTimeout> {
    match text {
        "NEXT_DUE" => Some(RunTimeout::NextDue),
        "NONE" => Some(RunTimeout::None),
        _ => {
            let seconds = text.strip_suffix('s')?.parse().ok()?;
            Some(RunTimeout::Duration(Duration::from_secs(seconds)))
        }
    }
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn whole(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Whole seconds in a range, both ends included.
fn check_seconds(
    field: &'static str,
    given: Duration,
    range: RangeInclusive<u64>,
) -> Result<(), DefinitionError> {
    if given.subsec_nanos() == 0 && range.contains(&given.as_secs()) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    let allowed = format!("a whole number of seconds from {least} s to {most} s");
    Err(DefinitionError::Range { field, given: format!("{given:?}"), allowed })
}

fn check_number(field: &'static str, given: u32, most: u32) -> Result<(), DefinitionError> {
    if (1..=most).contains(&given) {
        return Ok(());
    }
    let allowed = format!("1 to {most}");
    Err(DefinitionError::Range { field, given: given.to_string(), allowed })
}
