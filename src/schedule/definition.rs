//! What a schedule is: when it is due, and how runs are handled (T9 to T13, T16).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::key::MAX_KEY_BYTES;
use crate::timetable::{Timetable, TimetableError};

/// The most that `catch_up` ALL runs (T9).
const MAX_ALL: u32 = 100;
const DAY: u64 = 86_400;

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
    /// Until the next due time, but at least one whole gap after its start.
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
    /// Nothing older is run: 1 min to 366 days, 24 h by default.
    pub catch_up_window: Option<Duration>,
    /// How late the newest is still taken for on time: 2 D + 10 s (the default) to 7 days.
    pub grace: Option<Duration>,
    /// What becomes of what falls due during a run.
    pub overlap: Overlap,
    /// How often an occurrence may fail or be abandoned: 1 to 100, 3 by default.
    pub max_attempts: Option<u32>,
    /// The wait before the first retry, which doubles up to 10 min: 1 s to 10 min, 10 s by default.
    pub backoff: Option<Duration>,
    /// How long a run may take.
    pub run_timeout: RunTimeout,
    /// The most that a start is delayed so that schedules do not start together (T13): 0 to 1 day.
    pub spread: Duration,
    /// The most between two looks at a run elsewhere (T17): 1 s to 10 min.
    pub takeover_check: Option<Duration>,
    /// How long the store keeps the lease of a holder that has gone, D: 15 to 60 s.
    pub lease_duration: Duration,
}

/// A checked [`Spec`] with its defaults filled in. All its durations are whole seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    timetable: Timetable,
    revision: u64,
    policies: Policies,
}

/// The policies as they are stored. Names say the unit, so that a person can read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Policies {
    catch_up: String,
    catch_up_window_seconds: u64,
    grace_seconds: u64,
    overlap: Overlap,
    max_attempts: u32,
    backoff_seconds: u64,
    run_timeout: String,
    spread_seconds: u64,
    takeover_check_seconds: Option<u64>,
    lease_duration_seconds: u64,
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
        /// The field.
        field: &'static str,
        /// What was given.
        given: String,
        /// The range.
        allowed: String,
    },
    /// The names are too long for a record that also has a schedule.
    #[error(
        "function and scope have {bytes} bytes together; a schedule allows {MAX_KEY_BYTES}: shorten one of them"
    )]
    Key {
        /// Their bytes.
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
    /// The defaults.
    #[must_use]
    pub const fn new(timetable: Timetable, lease_duration: Duration) -> Self {
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
            spread: Duration::ZERO,
            takeover_check: None,
            lease_duration,
        }
    }
}

impl Definition {
    /// Checks each field against its range, and fills in the defaults.
    ///
    /// # Errors
    /// Names the field, what was given, and the range.
    pub fn new(spec: Spec) -> Result<Self, DefinitionError> {
        let lease = seconds("lease_duration", spec.lease_duration, (15, 60))?;
        let least_grace = 2 * lease + 10;
        let within = |field, given: Option<Duration>, default, range| {
            given.map_or(Ok(default), |given| seconds(field, given, range))
        };
        let catch_up = match spec.catch_up {
            CatchUp::Latest => "LATEST".to_owned(),
            CatchUp::None => "NONE".to_owned(),
            CatchUp::All(most) => format!("ALL:{}", number("catch_up_max", most, MAX_ALL)?),
        };
        let run_timeout = match spec.run_timeout {
            RunTimeout::NextDue => "NEXT_DUE".to_owned(),
            RunTimeout::None => "NONE".to_owned(),
            RunTimeout::Duration(given) => {
                format!("{}s", seconds("run_timeout", given, (1, 366 * DAY))?)
            }
        };
        let window = within("catch_up_window", spec.catch_up_window, DAY, (60, 366 * DAY))?;
        let grace = within("grace", spec.grace, least_grace, (least_grace, 7 * DAY))?;
        let takeover = spec.takeover_check.map(|given| seconds("takeover_check", given, (1, 600)));
        let policies = Policies {
            catch_up,
            catch_up_window_seconds: window,
            grace_seconds: grace,
            overlap: spec.overlap,
            max_attempts: spec
                .max_attempts
                .map_or(Ok(3), |most| number("max_attempts", most, 100))?,
            backoff_seconds: within("backoff", spec.backoff, 10, (1, 600))?,
            run_timeout,
            spread_seconds: seconds("spread", spec.spread, (0, DAY))?,
            takeover_check_seconds: takeover.transpose()?,
            lease_duration_seconds: lease,
        };
        Ok(Self { timetable: spec.timetable, revision: spec.revision, policies })
    }

    /// When it is due.
    #[must_use]
    pub const fn timetable(&self) -> &Timetable {
        &self.timetable
    }

    /// See [`Spec::revision`].
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// See [`Spec::catch_up`].
    #[must_use]
    pub fn catch_up(&self) -> CatchUp {
        read_catch_up(&self.policies.catch_up).unwrap_or_default()
    }

    /// See [`Spec::catch_up_window`].
    #[must_use]
    pub const fn catch_up_window(&self) -> Duration {
        Duration::from_secs(self.policies.catch_up_window_seconds)
    }

    /// The same in seconds.
    pub(super) fn window(&self) -> i64 {
        whole(self.policies.catch_up_window_seconds)
    }

    /// See [`Spec::grace`].
    #[must_use]
    pub const fn grace(&self) -> Duration {
        Duration::from_secs(self.policies.grace_seconds)
    }

    /// See [`Spec::overlap`].
    #[must_use]
    pub const fn overlap(&self) -> Overlap {
        self.policies.overlap
    }

    /// See [`Spec::max_attempts`].
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        self.policies.max_attempts
    }

    /// See [`Spec::backoff`].
    #[must_use]
    pub const fn first_backoff(&self) -> Duration {
        Duration::from_secs(self.policies.backoff_seconds)
    }

    /// How long after the failure number `failures` a retry waits (T11), in seconds: doubles up to 10 min.
    pub(super) fn backoff(&self, failures: u32) -> i64 {
        let doubled = 1_u64 << failures.saturating_sub(1).min(10);
        whole(self.policies.backoff_seconds.saturating_mul(doubled).min(600))
    }

    /// See [`Spec::run_timeout`].
    #[must_use]
    pub fn run_timeout(&self) -> RunTimeout {
        read_timeout(&self.policies.run_timeout).unwrap_or_default()
    }

    /// See [`Spec::spread`].
    #[must_use]
    pub const fn spread(&self) -> Duration {
        Duration::from_secs(self.policies.spread_seconds)
    }

    /// See [`Spec::takeover_check`].
    #[must_use]
    pub fn takeover_check(&self) -> Option<Duration> {
        self.policies.takeover_check_seconds.map(Duration::from_secs)
    }

    /// See [`Spec::lease_duration`].
    #[must_use]
    pub const fn lease_duration(&self) -> Duration {
        Duration::from_secs(self.policies.lease_duration_seconds)
    }

    /// The one text of all spellings of this definition: JSON on one line, without the revision.
    #[must_use]
    pub fn canonical(&self) -> String {
        // What is written are strings and numbers only: this cannot fail.
        serde_json::to_string(&self.stored()).unwrap_or_default()
    }

    /// 32 hex digits of the SHA-256 of [`canonical`](Self::canonical): equal for equal definitions, on every machine.
    #[must_use]
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(self.canonical());
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn stored(&self) -> Stored {
        Stored {
            expression: self.timetable.canonical().to_owned(),
            time_zone: self.timetable.zone().to_owned(),
            policies: self.policies.clone(),
            others: serde_json::Map::new(),
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
        let seconds = |number| Some(Duration::from_secs(number));
        Self::new(Spec {
            timetable: Timetable::parse(&stored.expression, &stored.time_zone)?,
            revision,
            catch_up: read_catch_up(&policies.catch_up).ok_or_else(|| {
                unreadable("catch_up", &policies.catch_up, "LATEST, NONE or ALL:1 to ALL:100")
            })?,
            catch_up_window: seconds(policies.catch_up_window_seconds),
            grace: seconds(policies.grace_seconds),
            overlap: policies.overlap,
            max_attempts: Some(policies.max_attempts),
            backoff: seconds(policies.backoff_seconds),
            run_timeout: read_timeout(&policies.run_timeout).ok_or_else(|| {
                unreadable(
                    "run_timeout",
                    &policies.run_timeout,
                    "NEXT_DUE, NONE or seconds as 600s",
                )
            })?,
            spread: Duration::from_secs(policies.spread_seconds),
            takeover_check: policies.takeover_check_seconds.map(Duration::from_secs),
            lease_duration: Duration::from_secs(policies.lease_duration_seconds),
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

fn whole(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Whole seconds in a range, both ends included.
fn seconds(
    field: &'static str,
    given: Duration,
    (least, most): (u64, u64),
) -> Result<u64, DefinitionError> {
    let is_whole = given.subsec_nanos() == 0;
    if is_whole && (least..=most).contains(&given.as_secs()) {
        return Ok(given.as_secs());
    }
    let allowed = format!("a whole number of seconds from {least} s to {most} s");
    Err(DefinitionError::Range { field, given: format!("{given:?}"), allowed })
}

fn number(field: &'static str, given: u32, most: u32) -> Result<u32, DefinitionError> {
    if (1..=most).contains(&given) {
        return Ok(given);
    }
    let allowed = format!("1 to {most}");
    Err(DefinitionError::Range { field, given: given.to_string(), allowed })
}
