//! The status of a .NET timer as the watermark of a schedule that both sides run (T22).

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::import::{TAKEN_OVER, taken_over};
use super::plan::PlanVersion;
use super::record::{Attempts, Ended, Occasion, ScheduleRecord};
use super::timer_status::{NEVER, TimerStatus, TimerStatusError};
use crate::timetable::UtcSecond;

/// Our own field of the status: which run of ours ended last, as [`Ended`] is stored. .NET ignores it, and
/// drops it when it writes; so where it stands, the status is as we wrote it.
const ENDED: &str = "Leasehold";
/// For an instant that never comes: later than any schedule has one, and a time in every zone.
const NEVER_AGAIN: &str = "9999-12-29T00:00:00+00:00";

/// By how many seconds the clock of a .NET host may be ahead of the store's.
const AHEAD: i64 = 60;

/// What the status blob of a timer says: a host of .NET and the sidecars write it in turns, each under the
/// listener lock.
///
/// Of the blob and the lock's record the later one counts, whichever it is, so an old copy of one of them
/// (metadata that was dropped, a .NET host that writes long after its lease) takes nothing back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedStatus {
    /// As it stands there; empty if nothing does.
    text: String,
    /// Its fields that neither side here knows.
    others: Map<String, Value>,
    /// None: the timer never ran, and nothing is computed.
    status: Option<TimerStatus>,
    ended: Option<Ended>,
}

impl SharedStatus {
    /// Reads the blob.
    ///
    /// # Errors
    /// Names the field that is wrong. A time without an offset is one: nobody has said of which zone it is.
    pub fn parse(text: &str) -> Result<Self, TimerStatusError> {
        let status = match TimerStatus::parse(text, None) {
            Err(TimerStatusError::Nothing) => None,
            status => Some(status?),
        };
        let mut others = TimerStatus::fields(text)?;
        for field in ["Last", "Next", "LastUpdated"] {
            others.remove(field);
        }
        let ended = others.remove(ENDED);
        let ended = ended.as_ref().and_then(Value::as_str).and_then(Ended::read);
        Ok(Self { text: text.to_owned(), others, status, ended })
    }

    /// Checks that what is done does not lie ahead of the store's time by more than clocks of hosts differ.
    /// What a sidecar has once seen as done it never forgets (T21), so a wrong clock must not be taken in.
    ///
    /// # Errors
    /// [`TimerStatusError::Ahead`].
    pub fn check(&self, store_time: UtcSecond) -> Result<(), TimerStatusError> {
        match self.done_up_to().filter(|done| done.seconds_since(store_time) > AHEAD) {
            Some(done) => Err(TimerStatusError::Ahead { done, store_time }),
            None => Ok(()),
        }
    }

    /// The blob's text; empty if there is none yet.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Up to when everything is done; none if the timer never ran. Nothing of the schedule lies between the
    /// newest instant at or before it and it, so that it serves as the watermark.
    #[must_use]
    pub fn done_up_to(&self) -> Option<UtcSecond> {
        self.status.as_ref().map(|status| status.done_up_to)
    }

    /// Whether it says that more is done than the record does.
    #[must_use]
    pub fn is_ahead_of(&self, record: &ScheduleRecord) -> bool {
        self.done_up_to().is_some_and(|done| done > record.watermark)
    }

    /// The record as it is to be taken beside this status: the later of the two watermarks counts.
    #[must_use]
    pub fn over(&self, record: Option<ScheduleRecord>) -> Option<ScheduleRecord> {
        let Some(TimerStatus { done_up_to, next }) = self.status else { return record };
        let Some(mut record) = record else {
            let mut record = taken_over(done_up_to, next);
            self.push_ended(&mut record);
            return Some(record);
        };
        if done_up_to <= record.watermark {
            return Some(record);
        }
        record.watermark = done_up_to;
        record
            .run
            .take_if(|run| matches!(run.occasion, Occasion::Scheduled(at) if at <= done_up_to));
        if record.next.is_none_or(|waited| waited <= done_up_to) {
            let number = record.plan.number;
            record.plan = PlanVersion { number, hash: TAKEN_OVER.to_owned() };
            (record.next, record.outcome) = (next, None);
            (record.attempts, record.missed_since) = (Attempts::default(), 0);
        }
        self.push_ended(&mut record);
        Some(record)
    }

    /// The outcome of ours that the record does not have yet: a crash came between the two writes.
    fn push_ended(&self, record: &mut ScheduleRecord) {
        let Some(ended) = self.ended.as_ref().filter(|ended| !record.ended.contains(ended)) else {
            return;
        };
        if ended.occasion == Occasion::Scheduled(record.watermark) {
            record.outcome = Some(ended.outcome);
        }
        record.push(ended.clone());
    }

    /// What is to be written so that a host of .NET goes on after `record`; none if it does so already.
    #[must_use]
    pub fn after(&self, record: &ScheduleRecord) -> Option<Self> {
        let is_behind = self.done_up_to().is_none_or(|done| done < record.watermark);
        is_behind.then(|| self.saying(record))
    }

    /// What is to be written so that a host of .NET goes on after `record`, also where more is done: for a
    /// schedule that was reset (T25).
    #[must_use]
    pub fn saying(&self, record: &ScheduleRecord) -> Self {
        let ran = |ended: &&Ended| {
            let is_new =
                matches!(ended.occasion, Occasion::Scheduled(at) if Some(at) > self.done_up_to());
            ended.token.is_some() && is_new
        };
        let ended = record.ended.iter().find(ran).cloned();
        let has_run = self.status.is_some() || record.outcome.is_some();
        let done = iso(record.watermark);
        let last = if has_run { done.clone() } else { format!("{NEVER}00:00:00+00:00") };
        let next = record.next.map_or_else(|| NEVER_AGAIN.to_owned(), iso);
        let mut text =
            format!("{{\"Last\":\"{last}\",\"Next\":\"{next}\",\"LastUpdated\":\"{done}\"");
        let ours = ended.as_ref().map(|ended| (ENDED, Value::from(ended.to_text())));
        let ours = ours.iter().map(|(name, value)| (*name, value));
        let others = self.others.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in others.chain(ours) {
            // Writing to a text does not fail.
            let _ = write!(text, ",{}:{value}", Value::from(name));
        }
        text.push('}');
        let status = TimerStatus { done_up_to: record.watermark, next: record.next };
        Self { text, others: self.others.clone(), status: Some(status), ended }
    }
}

/// As .NET writes an instant: with an offset in numbers, because a host of .NET takes `Z` for another kind of
/// time, compares it wrongly with its own zone's, and then believes that the schedule was changed.
fn iso(at: UtcSecond) -> String {
    let text = at.to_string();
    format!("{}+00:00", text.trim_end_matches('Z'))
}

#[cfg(test)]
#[path = "shared_status_tests.rs"]
mod tests;
