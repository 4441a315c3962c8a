//! Occurrences that callers with a scheduler of their own name at a plain hold: each is granted until an
//! outcome of it is recorded, never after (T1, T2). The same record as a schedule's, without a plan.

use std::time::Duration;

use super::codec::writable;
use super::machine::{MAX_RETURNED, Report};
use super::plan::PlanVersion;
use super::record::{Attempts, Ended, Occasion, Outcome, RecordError, Run, ScheduleRecord};
use crate::lock::FencingToken;
use crate::timetable::UtcSecond;

/// By how many seconds a caller's clock may be ahead of the store's: who names a later occurrence is refused,
/// so that a wrong clock cannot finish the future.
const AHEAD: i64 = 5;

/// What the plan's hash is in a record that has no plan, because its callers name the occurrences.
const NO_PLAN: &str = "occurrences";

/// An occurrence that a caller names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// Its nominal instant: after 1970 began.
    pub at: UtcSecond,
    /// How often it may fail or be abandoned before that is final; none without a limit.
    pub max_attempts: Option<u32>,
}

/// What became of a caller that names an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is granted, once the record with its run is written with the token, in one write (T6).
    Granted {
        /// The token of the grant.
        token: FencingToken,
        /// Which attempt it is, from 1. Greater than 1: one failed, or was abandoned (T4).
        attempt: u32,
    },
    /// The occurrence has a final outcome.
    AlreadyDone(Ended),
    /// The occurrence is older than the newest that is final, and nothing was recorded for it.
    Skipped {
        /// The newest that is final.
        watermark: UtcSecond,
    },
    /// The occurrence is too far after the store's time.
    InFuture {
        /// The store's time.
        now: UtcSecond,
    },
    /// The lock has a schedule, which grants its occurrences to subscribers.
    HasSchedule,
    /// The record cannot be read.
    Unreadable(RecordError),
}

/// What becomes of an outcome that is told at the end of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concluded {
    /// Write this under the lease; only then it is recorded (T8).
    Write(Box<ScheduleRecord>),
    /// It was recorded before.
    Recorded,
    /// The run does not stand there, or has another outcome.
    NotThere,
}

/// Decides, under the lease, what becomes of a caller that names this occurrence, and what is written: with
/// `token`, if it is granted, or that its attempts were found to be used up (T11). `ungranted` are the tokens
/// of those of its starts that came to nothing (T6).
#[must_use]
pub fn claim(
    record: Option<&ScheduleRecord>,
    Occurrence { at, max_attempts }: Occurrence,
    token: FencingToken,
    ungranted: &[FencingToken],
    store_time: UtcSecond,
) -> (Option<ScheduleRecord>, Claimed) {
    if record.is_some_and(|record| !is_of_occurrences(record)) {
        return (None, Claimed::HasSchedule);
    }
    if at.0 > store_time.0.saturating_add(AHEAD) {
        return (None, Claimed::InFuture { now: store_time });
    }
    let mut record = record.cloned().unwrap_or_else(first);
    if let Some(ended) = final_of(&record, at) {
        return (None, Claimed::AlreadyDone(ended));
    }
    if at <= record.watermark {
        return (None, Claimed::Skipped { watermark: record.watermark });
    }
    // T4: nobody has the lease, so whose run stands there has died, or has let go without an outcome.
    if !end_ungranted(&mut record, ungranted)
        && let Some(run) = record.run.take()
    {
        end(&mut record, run, Outcome::Abandoned);
    }
    let occasion = Occasion::Scheduled(at);
    let last = record.ended.iter().find(|ended| ended.occasion == occasion).cloned();
    let failures = last.as_ref().map_or(0, |last| {
        last.attempt.saturating_sub(u32::from(last.outcome == Outcome::Returned))
    });
    if let Some(last) = last
        && max_attempts.is_some_and(|most| failures >= most)
    {
        let ended = Ended { outcome: Outcome::Failed, ..last };
        record.put(ended.clone());
        finish(&mut record, at, Outcome::Failed);
        return (Some(record), Claimed::AlreadyDone(ended));
    }
    if record.ended.first().is_none_or(|ended| ended.occasion != occasion) {
        record.attempts = Attempts::default();
    }
    let attempt = failures.saturating_add(1);
    let started = writable(store_time);
    let (deadline, stop_grace) = (None, Duration::ZERO);
    record.run = Some(Run { occasion, attempt, token, started, deadline, stop_grace });
    (Some(record), Claimed::Granted { token, attempt })
}

/// What is written of a start that came to nothing, if it stands there: it was to be granted with one of
/// these tokens (T6).
#[must_use]
pub fn withdraw(
    record: Option<&ScheduleRecord>,
    ungranted: &[FencingToken],
) -> Option<ScheduleRecord> {
    let mut record = record.filter(|record| is_of_occurrences(record)).cloned()?;
    end_ungranted(&mut record, ungranted).then_some(record)
}

/// Ends the run in the record as returned, if it is one of these, which nobody has seen; ten times for an
/// occurrence, and beside those that were given back (T6). Says whether it has.
fn end_ungranted(record: &mut ScheduleRecord, ungranted: &[FencingToken]) -> bool {
    let withdrawn = record.attempts.withdrawn;
    let is_it = |run: &mut Run| ungranted.contains(&run.token) && withdrawn < MAX_RETURNED;
    let Some(Run { occasion, attempt, token, .. }) = record.run.take_if(is_it) else {
        return false;
    };
    record.attempts.withdrawn += 1;
    record.put(Ended { occasion, outcome: Outcome::Returned, attempt, token: Some(token) });
    true
}

/// Takes in how the run that was granted with `token` has ended. Idempotent: the same outcome again is
/// recorded.
#[must_use]
pub fn conclude(
    record: Option<&ScheduleRecord>,
    Occurrence { at, max_attempts }: Occurrence,
    token: FencingToken,
    report: Report,
) -> Concluded {
    let Some(record) = record.filter(|record| is_of_occurrences(record)) else {
        return Concluded::NotThere;
    };
    let occasion = Occasion::Scheduled(at);
    let mut ended = record.ended.iter();
    if let Some(ended) =
        ended.find(|ended| ended.occasion == occasion && ended.token == Some(token))
    {
        // One that was returned too often has failed.
        let is_same = ended.outcome == report.into()
            || report == Report::Returned && ended.outcome == Outcome::Failed;
        return if is_same { Concluded::Recorded } else { Concluded::NotThere };
    }
    let mut record = record.clone();
    let is_it = |run: &mut Run| run.occasion == occasion && run.token == token;
    let Some(run) = record.run.take_if(is_it) else { return Concluded::NotThere };
    let attempt = run.attempt;
    let is_too_often = report == Report::Returned && record.attempts.returned >= MAX_RETURNED;
    let outcome = if is_too_often { Outcome::Failed } else { report.into() };
    end(&mut record, run, outcome);
    let is_spent = max_attempts.is_some_and(|most| attempt >= most);
    if matches!(outcome, Outcome::Succeeded | Outcome::FailedFinal | Outcome::TimedOut)
        || outcome == Outcome::Failed && is_spent
    {
        finish(&mut record, at, outcome);
    }
    Concluded::Write(Box::new(record))
}

/// Whether the record is of occurrences that callers name, and not of a schedule.
#[must_use]
pub fn is_of_occurrences(record: &ScheduleRecord) -> bool {
    record.plan.hash == NO_PLAN
}

/// What is left of such a record for a schedule that begins on the lock: what is final. It runs none of the
/// others.
pub(super) fn adopted(record: ScheduleRecord) -> ScheduleRecord {
    if !is_of_occurrences(&record) {
        return record;
    }
    let plan = PlanVersion { number: 0, hash: String::new() };
    ScheduleRecord { plan, run: None, attempts: Attempts::default(), ..record }
}

/// Nothing was named yet: every occurrence is newer.
fn first() -> ScheduleRecord {
    let plan = PlanVersion { number: 0, hash: NO_PLAN.to_owned() };
    ScheduleRecord::beginning(UtcSecond::FIRST, plan)
}

/// How the occurrence ended, if that is final. A failure is, once a newer occurrence is: it is not tried
/// again.
fn final_of(record: &ScheduleRecord, at: UtcSecond) -> Option<Ended> {
    if at > record.watermark {
        return None;
    }
    let occasion = Occasion::Scheduled(at);
    let ended = record.ended.iter().find(|ended| ended.occasion == occasion);
    if at == record.watermark
        && let Some(outcome) = record.outcome
    {
        // The record has no room for all of them.
        let forgotten = Ended { occasion, outcome, attempt: 0, token: None };
        return Some(ended.cloned().unwrap_or(forgotten));
    }
    let ended = ended.filter(|ended| {
        !matches!(ended.outcome, Outcome::Returned | Outcome::Abandoned | Outcome::Skipped)
    });
    ended.cloned()
}

/// Keeps how the run ended, final or not, as its occurrence's only entry: many attempts do not push the
/// others out.
fn end(record: &mut ScheduleRecord, run: Run, outcome: Outcome) {
    let Run { occasion, attempt, token, .. } = run;
    let attempts = &mut record.attempts;
    let is_returned = outcome == Outcome::Returned;
    attempts.returned = if is_returned { attempts.returned.saturating_add(1) } else { 0 };
    record.put(Ended { occasion, outcome, attempt, token: Some(token) });
}

/// The occurrence is final: nobody is granted it, or an older one, again.
fn finish(record: &mut ScheduleRecord, at: UtcSecond, outcome: Outcome) {
    record.watermark = record.watermark.max(at);
    record.outcome = Some(outcome);
    record.attempts = Attempts::default();
}

impl ScheduleRecord {
    /// Keeps `ended` as the newest, and as the only one of its occasion.
    fn put(&mut self, ended: Ended) {
        self.ended.retain(|other| other.occasion != ended.occasion);
        self.push(ended);
    }
}

#[cfg(test)]
#[path = "occurrence_tests.rs"]
mod tests;
