//! What a timer of .NET's WebJobs SDK, or of Azure Functions, keeps of its schedule (T22).

use serde_json::{Map, Value};

pub use crate::lock::MAX_TIMER_STATUS_BYTES as MAX_STATUS_BYTES;
use crate::timetable::{IsoError, LocalZone, UtcSecond};

/// What .NET writes for "never" begins so, in every zone.
pub(super) const NEVER: &str = "0001-01-01T";

/// A timer's status: what is kept in the blob `timers/{host id}/{timer}/status`, or in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerStatus {
    /// Up to when the timer's occurrences are done: when its last run began, or, if it has not run since its
    /// schedule was changed, what its next occurrence was computed from. Whole seconds, cut.
    pub done_up_to: UtcSecond,
    /// Its next occurrence, as it was computed then; none if it said none.
    pub next: Option<UtcSecond>,
}

/// Why a text is not a status that a schedule can begin with.
#[derive(Debug, thiserror::Error)]
pub enum TimerStatusError {
    /// It is longer than any.
    #[error("the timer's status has more than {MAX_STATUS_BYTES} bytes: is it the right file?")]
    TooLong,
    /// It is not JSON, or no object.
    #[error(
        "the timer's status is not the JSON object that WebJobs writes, such as \
         {{\"Last\":\"2026-11-22T02:30:00.1075034+01:00\",\"Next\":\"2026-11-23T02:30:00+01:00\"}}: {problem}"
    )]
    Json {
        /// What is wrong with it.
        problem: String,
    },
    /// A field is missing.
    #[error(
        "the timer's status has no field `{field}`; WebJobs writes Last, Next and LastUpdated: is it the right file?"
    )]
    Missing {
        /// The name of the field.
        field: &'static str,
    },
    /// A field is not a text.
    #[error("the field `{field}` of the timer's status is {given}, and not a time in quotes")]
    NotText {
        /// The name of the field.
        field: &'static str,
        /// Its value, cut.
        given: String,
    },
    /// A field is not a time, or its zone is not known.
    #[error("the field `{field}` of the timer's status: {source}")]
    Time {
        /// The name of the field.
        field: &'static str,
        /// What is wrong with it.
        source: IsoError,
    },
    /// Its times contradict each other.
    #[error(
        "the field `Next` of the timer's status, {next}, is not after `{field}`, {done}: it was edited, or is damaged; \
         correct it and give it as a file"
    )]
    Order {
        /// The field that it is compared with.
        field: &'static str,
        /// The instant that it says is done.
        done: UtcSecond,
        /// The next occurrence.
        next: UtcSecond,
    },
    /// The clock of its host was wrong: nothing would run until then.
    #[error(
        "the timer's last run, {done}, lies ahead of the store's time, {store_time}: was the clock or the zone of its host \
         wrong?"
    )]
    Ahead {
        /// Up to when it is done.
        done: UtcSecond,
        /// The store's time.
        store_time: UtcSecond,
    },
    /// The timer has never run, and has computed nothing.
    #[error(
        "the fields `Last`, `LastUpdated` and `Next` of the timer's status all say never: there is nothing to import, and a \
         first subscription begins now in any case"
    )]
    Nothing,
}

impl TimerStatus {
    /// Reads a status. Fields that are not known are ignored. `zone` is where times without an offset are
    /// read: older versions of the SDK wrote such.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn parse(text: &str, zone: Option<&LocalZone>) -> Result<Self, TimerStatusError> {
        let fields = Self::fields(text)?;
        let last = time(&fields, "Last", zone)?;
        let next = time(&fields, "Next", zone)?;
        // The first versions of the SDK did not write it.
        let updated = match time(&fields, "LastUpdated", zone) {
            Err(TimerStatusError::Missing { .. }) => None,
            updated => updated?,
        };
        let (field, done) = match (last, updated, next) {
            (Some(last), _, _) => ("Last", last),
            (None, Some(updated), _) => ("LastUpdated", updated),
            // It has never run: its next occurrence is the first that is not done.
            (None, None, Some(next)) => {
                return Ok(Self {
                    done_up_to: UtcSecond(next.0.saturating_sub(1)),
                    next: Some(next),
                });
            }
            (None, None, None) => return Err(TimerStatusError::Nothing),
        };
        match next {
            Some(next) if next <= done => Err(TimerStatusError::Order { field, done, next }),
            next => Ok(Self { done_up_to: done, next }),
        }
    }
}

impl TimerStatus {
    /// All fields of a status, with their values as they are.
    pub(super) fn fields(text: &str) -> Result<Map<String, Value>, TimerStatusError> {
        if text.len() > MAX_STATUS_BYTES {
            return Err(TimerStatusError::TooLong);
        }
        // Windows' tools write a mark first.
        let text = text.trim_start_matches('\u{feff}');
        serde_json::from_str(text)
            .map_err(|error| TimerStatusError::Json { problem: error.to_string() })
    }
}

/// The instant in this field; none for never.
fn time(
    fields: &Map<String, Value>,
    field: &'static str,
    zone: Option<&LocalZone>,
) -> Result<Option<UtcSecond>, TimerStatusError> {
    let value = fields.get(field).ok_or(TimerStatusError::Missing { field })?;
    let Value::String(text) = value else {
        let given = value.to_string().chars().take(40).collect();
        return Err(TimerStatusError::NotText { field, given });
    };
    if text.starts_with(NEVER) {
        return Ok(None);
    }
    let read = UtcSecond::from_iso(text, zone);
    read.map(Some).map_err(|source| TimerStatusError::Time { field, source })
}

#[cfg(test)]
#[path = "timer_status_tests.rs"]
mod tests;
