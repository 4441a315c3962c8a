//! What runs decided, as it stands in the lock's record (T3).

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use super::PlanVersion;
use super::codec::{read_instant, write_instant};
use super::plan::is_request_id;
use crate::lock::FencingToken;
use crate::record::Fields;
use crate::timetable::UtcSecond;

/// Bytes that the names and values of a schedule's fields have at most together (T3).
pub const MAX_RECORD_BYTES: usize = 1_200;
/// Ended runs that are kept at most.
const MAX_ENDED: usize = 16;

const NEXT: &str = "leasehold_schedule_next";
const LAST: &str = "leasehold_schedule_last";
const PLAN: &str = "leasehold_schedule_plan";
const RUN: &str = "leasehold_schedule_run";
const RETRY: &str = "leasehold_schedule_retry";
const BY_HAND: &str = "leasehold_schedule_by_hand";
const MISSED: &str = "leasehold_schedule_missed";
const ENDED: &str = "leasehold_schedule_ended";
const FIELDS: [&str; 8] = [NEXT, LAST, PLAN, RUN, RETRY, BY_HAND, MISSED, ENDED];

/// Why there is a run: its identity together with the lock path (T1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occasion {
    /// An occurrence, by its nominal instant.
    Scheduled(UtcSecond),
    /// Somebody asked for it.
    ByHand {
        /// The number that the plan gave the request.
        number: u64,
        /// The id that its sender gave it.
        request_id: String,
    },
}

/// How a run, or an occurrence without one, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did its work.
    Succeeded,
    /// It did not: as it said, or the attempts are used up.
    Failed,
    /// It did not, and a retry is no use.
    FailedFinal,
    /// Its deadline came (T12).
    TimedOut,
    /// It was given to another replica (T11).
    Returned,
    /// Its holder died or lost the lock (T4).
    Abandoned,
    /// It was not run (T9, T10, T18).
    Skipped,
}

/// A run that was granted and has no outcome yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Why there is one.
    pub occasion: Occasion,
    /// From 1; counts failures and abandonments (T11).
    pub attempt: u32,
    /// The token that it was granted with.
    pub token: FencingToken,
    /// When, by the store's clock.
    pub started: UtcSecond,
    /// When it is to be over, if it has a deadline (T12).
    pub deadline: Option<UtcSecond>,
    /// How long after that it may take to end: as it was when the run began, since its hold ends then (T12).
    pub stop_grace: Duration,
}

/// What came before the next attempt (T11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Failures and abandonments.
    pub failures: u32,
    /// How often it was given to another replica.
    pub returned: u32,
    /// How often its start was written, and its run then not granted (T6).
    pub withdrawn: u32,
    /// Not again before this instant of the store's clock.
    pub retry_at: Option<UtcSecond>,
}

/// A run that is over, or occurrences that were skipped up to and with this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What it was.
    pub occasion: Occasion,
    /// How it ended.
    pub outcome: Outcome,
    /// Its attempt; 0 without a run.
    pub attempt: u32,
    /// Its token; none without a run.
    pub token: Option<FencingToken>,
}

/// The schedule's part of a lock's record: written with the token under the lease, in one write (T3, T6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// The newest instant that is final.
    pub watermark: UtcSecond,
    /// How the occurrence at the watermark ended; none for the instant of the first subscription.
    pub outcome: Option<Outcome>,
    /// The instant that everybody waits for (T5): not final yet. None when there is none up to the year 9999.
    pub next: Option<UtcSecond>,
    /// The timetable that `next` was computed from.
    pub plan: PlanVersion,
    /// The newest plan that was taken into account: who knows an older one reads it (T17).
    pub serial: u64,
    /// How often the schedule was removed or reset: what was seen under a smaller number does not count
    /// (T25).
    pub reset: u64,
    /// When the last scheduled run was started: requests for runs by hand that are older go first (T18).
    pub started: Option<UtcSecond>,
    /// The run that was granted and has no outcome.
    pub run: Option<Run>,
    /// The attempts at `next`.
    pub attempts: Attempts,
    /// Requests for runs by hand up to this number are final.
    pub by_hand_done: u64,
    /// The attempts at the first request that is not.
    pub by_hand: Attempts,
    /// Occurrences that were missed, in all (T9). Those skipped by a pause do not count.
    pub missed: u64,
    /// The same since the last scheduled run that is final.
    pub missed_since: u64,
    /// What ended last, the newest first, as far as it fits.
    pub ended: Vec<Ended>,
}

/// A field of a record cannot be read. It must not be taken for none: what is done would be done again (T2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the record's field {field} cannot be read: {value:?}; it was written by a newer version, or edited: repair it, or \
     delete all fields that begin with leasehold_schedule to begin anew"
)]
pub struct RecordError {
    /// The name of the field.
    pub field: &'static str,
    /// Its value, cut.
    pub value: String,
}

impl Attempts {
    /// It was not tried yet.
    pub const NONE: Self = Self { failures: 0, returned: 0, withdrawn: 0, retry_at: None };

    /// Whether it was tried before.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.failures > 0 || self.returned > 0 || self.withdrawn > 0
    }

    fn to_text(self) -> String {
        let Self { failures, returned, withdrawn, retry_at } = self;
        format!("{failures}/{returned}/{withdrawn}/{}", write_instant(retry_at))
    }

    fn read(parts: &mut std::str::Split<'_, char>) -> Option<Self> {
        let failures = parts.next()?.parse().ok()?;
        let returned = parts.next()?.parse().ok()?;
        let withdrawn = parts.next()?.parse().ok()?;
        Some(Self { failures, returned, withdrawn, retry_at: read_instant(parts.next()?)? })
    }
}

impl Outcome {
    /// Every outcome, in the order of the API.
    pub const ALL: [Self; 7] = [
        Self::Succeeded,
        Self::Failed,
        Self::FailedFinal,
        Self::TimedOut,
        Self::Returned,
        Self::Abandoned,
        Self::Skipped,
    ];

    /// The word that is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::FailedFinal => "FAILED_FINAL",
            Self::TimedOut => "TIMED_OUT",
            Self::Returned => "RETURNED",
            Self::Abandoned => "ABANDONED",
            Self::Skipped => "SKIPPED",
        }
    }

    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }
}

/// Without a slash or a comma.
impl fmt::Display for Occasion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheduled(at) => at.fmt(formatter),
            Self::ByHand { number, request_id } => {
                write!(formatter, "by-hand:{number}:{request_id}")
            }
        }
    }
}

impl Occasion {
    /// Reads what `Display` wrote.
    pub(super) fn read(text: &str) -> Option<Self> {
        let Some(by_hand) = text.strip_prefix("by-hand:") else {
            return text.parse().ok().map(Self::Scheduled);
        };
        let (number, request_id) = by_hand.split_once(':')?;
        let number = number.parse().ok()?;
        is_request_id(request_id)
            .then(|| Self::ByHand { number, request_id: request_id.to_owned() })
    }
}

impl Run {
    fn to_text(&self) -> String {
        let Self { occasion, attempt, token, started, deadline, stop_grace } = self;
        let (deadline, stop_grace) = (write_instant(*deadline), stop_grace.as_secs());
        format!("{occasion}/{attempt}/{token}/{started}/{deadline}/{stop_grace}")
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let run = Self {
            occasion: Occasion::read(parts.next()?)?,
            attempt: parts.next()?.parse().ok()?,
            token: FencingToken::from_u64(parts.next()?.parse().ok()?)?,
            started: parts.next()?.parse().ok()?,
            deadline: read_instant(parts.next()?)?,
            // Earlier versions did not write it.
            stop_grace: Duration::from_secs(parts.next().unwrap_or("0").parse().ok()?),
        };
        Some(run)
    }
}

impl Ended {
    pub(super) fn to_text(&self) -> String {
        let token = self.token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        format!("{}/{}/{}/{token}", self.occasion, self.outcome.as_str(), self.attempt)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let occasion = Occasion::read(parts.next()?)?;
        let outcome = Outcome::read(parts.next()?)?;
        let attempt = parts.next()?.parse().ok()?;
        let token = match parts.next()? {
            "-" => None,
            token => Some(FencingToken::from_u64(token.parse().ok()?)?),
        };
        Some(Self { occasion, outcome, attempt, token })
    }
}

impl ScheduleRecord {
    /// One that begins after this instant, of which nothing is known.
    pub(super) const fn beginning(watermark: UtcSecond, plan: PlanVersion) -> Self {
        Self {
            watermark,
            outcome: None,
            next: None,
            plan,
            serial: 0,
            reset: 0,
            started: None,
            run: None,
            attempts: Attempts::NONE,
            by_hand_done: 0,
            by_hand: Attempts::NONE,
            missed: 0,
            missed_since: 0,
            ended: Vec::new(),
        }
    }

    /// Keeps `ended` as the newest.
    pub(super) fn push(&mut self, ended: Ended) {
        self.ended.insert(0, ended);
        self.ended.truncate(MAX_ENDED);
    }

    /// Writes the schedule's fields over those in `fields`, and keeps all others: at most
    /// [`MAX_RECORD_BYTES`], for which the oldest of [`ended`](Self::ended) are left out. Names and values
    /// are as Azure's metadata allows them.
    #[must_use]
    pub fn into_fields(self, mut fields: Fields) -> Fields {
        fields.retain(|name, _| !FIELDS.contains(&name.as_str()));
        let size = Cell::new(0);
        let mut put = |name: &str, value: String| {
            size.set(size.get() + name.len() + value.len());
            fields.insert(name.to_owned(), value);
        };
        put(NEXT, write_instant(self.next));
        let (outcome, started) = (self.outcome.map_or("-", Outcome::as_str), self.started);
        put(LAST, format!("{}/{outcome}/{}", self.watermark, write_instant(started)));
        let PlanVersion { number, hash } = &self.plan;
        put(PLAN, format!("{number}/{hash}/{}/{}", self.serial, self.reset));
        if let Some(run) = &self.run {
            put(RUN, run.to_text());
        }
        if self.attempts.any() {
            put(RETRY, self.attempts.to_text());
        }
        if self.by_hand_done > 0 || self.by_hand.any() {
            put(BY_HAND, format!("{}/{}", self.by_hand_done, self.by_hand.to_text()));
        }
        if self.missed > 0 {
            put(MISSED, format!("{}/{}", self.missed, self.missed_since));
        }
        let room = MAX_RECORD_BYTES.saturating_sub(size.get() + ENDED.len());
        let mut ended = String::new();
        for text in self.ended.iter().map(Ended::to_text) {
            if ended.len() + text.len() + 1 > room {
                break;
            }
            if !ended.is_empty() {
                ended.push(',');
            }
            ended.push_str(&text);
        }
        if !ended.is_empty() {
            put(ENDED, ended);
        }
        fields
    }

    /// Reads the schedule's fields; none of a lock that has no schedule.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn from_fields(fields: &Fields) -> Result<Option<Self>, RecordError> {
        Self::from_lookup(|name| fields.get(name).map(String::as_str))
    }

    /// As [`ScheduleRecord::from_fields`], from whatever finds a field by its name.
    ///
    /// # Errors
    /// When a field cannot be read.
    pub fn from_lookup<'a>(
        field: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Option<Self>, RecordError> {
        let unreadable = |name: &'static str| RecordError {
            field: name,
            value: field(name).unwrap_or_default().chars().take(80).collect(),
        };
        if FIELDS.iter().all(|name| field(name).is_none()) {
            return Ok(None);
        }
        let (watermark, outcome, started) =
            field(LAST).and_then(read_last).ok_or_else(|| unreadable(LAST))?;
        let (plan, serial, reset) =
            field(PLAN).and_then(read_plan).ok_or_else(|| unreadable(PLAN))?;
        let next = field(NEXT).and_then(read_instant).ok_or_else(|| unreadable(NEXT))?;
        let read_run = |text| Run::read(text).ok_or_else(|| unreadable(RUN));
        let read_attempts =
            |text: &str| Attempts::read(&mut text.split('/')).ok_or_else(|| unreadable(RETRY));
        let read_hand = |text| read_by_hand(text).ok_or_else(|| unreadable(BY_HAND));
        let read_missed = |text| read_pair(text).ok_or_else(|| unreadable(MISSED));
        let (by_hand_done, by_hand) =
            field(BY_HAND).map(read_hand).transpose()?.unwrap_or_default();
        let (missed, missed_since) =
            field(MISSED).map(read_missed).transpose()?.unwrap_or_default();
        let ended: Option<Vec<Ended>> = field(ENDED)
            .map_or_else(|| Some(Vec::new()), |text| text.split(',').map(Ended::read).collect());
        Ok(Some(Self {
            watermark,
            outcome,
            next,
            plan,
            serial,
            reset,
            started,
            run: field(RUN).map(read_run).transpose()?,
            attempts: field(RETRY).map(read_attempts).transpose()?.unwrap_or_default(),
            by_hand_done,
            by_hand,
            missed,
            missed_since,
            ended: ended.ok_or_else(|| unreadable(ENDED))?,
        }))
    }
}

type Last = (UtcSecond, Option<Outcome>, Option<UtcSecond>);

fn read_last(text: &str) -> Option<Last> {
    let mut parts = text.split('/');
    let at = parts.next()?.parse().ok()?;
    let outcome = match parts.next()? {
        "-" => None,
        outcome => Some(Outcome::read(outcome)?),
    };
    Some((at, outcome, read_instant(parts.next()?)?))
}

fn read_plan(text: &str) -> Option<(PlanVersion, u64, u64)> {
    let mut parts = text.split('/');
    let (number, hash) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
    let (serial, reset) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((PlanVersion { number, hash }, serial, reset))
}

fn read_by_hand(text: &str) -> Option<(u64, Attempts)> {
    let mut parts = text.split('/');
    let done = parts.next()?.parse().ok()?;
    Some((done, Attempts::read(&mut parts)?))
}

fn read_pair(text: &str) -> Option<(u64, u64)> {
    let (first, second) = text.split_once('/')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}
