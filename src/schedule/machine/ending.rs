//! How runs end: as they report, or abandoned; and what is final then (T4, T8, T10, T11, T16).

use super::due::{due_at, is_current, newest_due, skip};
use super::{Draft, Lease, View, adopt};
use crate::schedule::codec::writable;
use crate::schedule::definition::{CatchUp, Overlap};
use crate::schedule::record::{Attempts, Ended, Occasion, Outcome, Run, ScheduleRecord};
use crate::schedule::run_id::RunId;
use crate::timetable::UtcSecond;

/// How often an occurrence may be given to another replica without that counting (T11).
pub(in crate::schedule) const MAX_RETURNED: u32 = 10;

/// The most that new zone data is taken to have moved an occurrence by: zones do not jump further, but for
/// whole days.
const MOVED_BY: i64 = 3 * 3_600;

/// How a run says that it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It did its work.
    Succeeded,
    /// It did not; it is tried again, if an attempt is left.
    Failed,
    /// It did not, and a retry is no use.
    FailedFinal,
    /// Its deadline came: not tried again (T12).
    TimedOut,
    /// Another replica is to run it: not counted, at most 10 times (T11).
    Returned,
    /// It was written and then not granted, so nobody has seen it: given back, after a wait, and not counted
    /// 10 times (T6).
    Withdrawn,
}

/// What a report comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// Write this record under the lease, with If-Match; only then it is recorded (T8).
    Write {
        /// The schedule's part of the record.
        record: Box<ScheduleRecord>,
        /// When it is tried again, if it is.
        retry_at: Option<UtcSecond>,
    },
    /// It was recorded before: a repeat, or a write whose answer was lost.
    Recorded,
    /// The run stands there without an outcome, and its lease is over: acquire with If-Match on the version
    /// that was read, and report again. Success proves that nobody was granted since.
    AcquireFirst,
    /// The run stands there without an outcome, and the lock is held, by its own lease or by somebody who is
    /// about to start. Read again, for D at most; then its caller is to say it again, here or elsewhere: it
    /// may still count.
    HeldElsewhere,
    /// Another outcome stands, or the run was or may be repeated.
    Superseded,
}

impl From<Report> for Outcome {
    fn from(report: Report) -> Self {
        match report {
            Report::Succeeded => Self::Succeeded,
            Report::Failed => Self::Failed,
            Report::FailedFinal => Self::FailedFinal,
            Report::TimedOut => Self::TimedOut,
            Report::Returned | Report::Withdrawn => Self::Returned,
        }
    }
}

/// Takes in how a run ended (T8, T11): the same whether the run goes on here, or it is completed late.
#[must_use]
pub fn report(view: &View<'_>, id: &RunId, report: Report) -> Reported {
    let Some(stored) = view.record else { return Reported::Superseded };
    let is_it = |occasion: &Occasion, attempt, token| {
        (occasion, attempt, token) == (&id.occasion, id.attempt, Some(id.token))
    };
    let ended = stored.ended.iter().find(|e| is_it(&e.occasion, e.attempt, e.token));
    if let Some(ended) = ended {
        let is_same = ended.outcome == Outcome::from(report);
        return if is_same { Reported::Recorded } else { Reported::Superseded };
    }
    let Draft { mut record, .. } = Draft::new(view);
    let Some(run) = record.run.take_if(|run| is_it(&run.occasion, run.attempt, Some(run.token)))
    else {
        return Reported::Superseded;
    };
    match view.lease {
        Lease::Free => return Reported::AcquireFirst,
        Lease::Elsewhere => return Reported::HeldElsewhere,
        Lease::Here { .. } => {}
    }
    let retry_at = conclude(&mut record, view, run, report);
    Reported::Write { record: Box::new(record), retry_at }
}

/// Ends the run in the record, if there is one, which nobody has the lease of: as this sidecar was told (T8),
/// else it was abandoned (T4). Says whether there was one.
pub(super) fn settle(record: &mut ScheduleRecord, view: &View<'_>) -> bool {
    let Some(run) = record.run.take() else { return false };
    match view.reported {
        Some(report) => conclude(record, view, run, report),
        None => end(record, view, run, None),
    };
    true
}

/// Ends a run as it was reported.
fn conclude(
    record: &mut ScheduleRecord,
    view: &View<'_>,
    run: Run,
    report: Report,
) -> Option<UtcSecond> {
    let started = run.started;
    let retry_at = end(record, view, run, Some(report));
    adopt(record, view.plan);
    // T6: one that was withdrawn nobody has run.
    let is_over = report != Report::Withdrawn && !record.attempts.any();
    if view.plan.definition().overlap == Overlap::Skip && is_over {
        skip_since(record, view, started);
    }
    retry_at
}

/// Ends a run: it is final, or is tried again. Says when, if not at once. Without a report it was abandoned.
fn end(
    record: &mut ScheduleRecord,
    view: &View<'_>,
    run: Run,
    report: Option<Report>,
) -> Option<UtcSecond> {
    let Run { occasion, attempt, token, .. } = run;
    let attempts = match occasion {
        Occasion::Scheduled(_) => &mut record.attempts,
        Occasion::ByHand { .. } => &mut record.by_hand,
    };
    let outcome = report.map_or(Outcome::Abandoned, Outcome::from);
    let retries = attempts.after(report, view);
    let retry_at = attempts.retry_at.filter(|_| retries);
    let ended = Ended { occasion: occasion.clone(), outcome, attempt, token: Some(token) };
    record.push(ended);
    let is_failure = matches!(outcome, Outcome::Abandoned | Outcome::Returned);
    let last = if is_failure { Outcome::Failed } else { outcome };
    match occasion {
        Occasion::Scheduled(at) => {
            let ends = !retries || outcome == Outcome::Failed && is_next_due(record, view, at);
            if ends {
                finish(record, view, at, last);
                return None;
            }
        }
        Occasion::ByHand { number, .. } if !retries => {
            record.by_hand_done = record.by_hand_done.max(number);
            record.by_hand = Attempts::default();
        }
        Occasion::ByHand { .. } => {}
    }
    retry_at
}

impl Attempts {
    /// Counts this end, and says whether there is another attempt (T11).
    fn after(&mut self, report: Option<Report>, view: &View<'_>) -> bool {
        let definition = view.plan.definition();
        let after = |times| {
            let wait = definition.backoff(times);
            Some(writable(UtcSecond(view.store_time.0.saturating_add(wait))))
        };
        self.retry_at = None;
        match report {
            Some(Report::Succeeded | Report::FailedFinal | Report::TimedOut) => return false,
            Some(Report::Returned) if self.returned < MAX_RETURNED => {
                self.returned += 1;
                return true;
            }
            Some(Report::Withdrawn) if self.withdrawn < MAX_RETURNED => {
                // Another takes it at once; only where they leave again and again it waits.
                self.retry_at = (self.withdrawn > 0).then(|| after(self.withdrawn)).flatten();
                self.withdrawn += 1;
                return true;
            }
            // Its lease has kept it from everybody for long enough.
            None => self.failures = self.failures.saturating_add(1),
            Some(Report::Failed | Report::Returned | Report::Withdrawn) => {
                self.failures = self.failures.saturating_add(1);
                self.retry_at = after(self.failures);
            }
        }
        self.failures < definition.max_attempts()
    }
}

/// T11: under LATEST and NONE retries end when the next is due.
fn is_next_due(record: &ScheduleRecord, view: &View<'_>, at: UtcSecond) -> bool {
    let definition = view.plan.definition();
    let ends = !matches!(definition.catch_up, CatchUp::All(_)) && is_current(record, view);
    let next = definition.timetable.next(at).filter(|_| ends);
    next.is_some_and(|next| due_at(view, next) <= view.store_time)
}

/// Makes a scheduled occurrence final: it moves the watermark, and `next` is computed (T5, T16).
pub(super) fn finish(
    record: &mut ScheduleRecord,
    view: &View<'_>,
    at: UtcSecond,
    outcome: Outcome,
) {
    if outcome != Outcome::Skipped {
        record.missed_since = 0;
    }
    let is_current = is_current(record, view);
    record.watermark = record.watermark.max(at);
    record.outcome = Some(outcome);
    record.attempts = Attempts::default();
    if view.plan.due().is_some_and(|(due, _)| !is_current && due > record.watermark) {
        // T16: what had fallen due when the timetable was replaced comes first.
        return adopt(record, view.plan);
    }
    let timetable = &view.plan.definition().timetable;
    let after = if is_current {
        beyond(view, record.watermark)
    } else {
        // T16: no catch-up across timetables, but for one that comes back.
        record.watermark.max(view.plan.goes_on_from().unwrap_or(view.store_time))
    };
    record.plan = view.plan.version();
    record.next = timetable.next(after);
}

/// After which instant the next one is: `at`, which is final. Where newer zone data has moved it to a little
/// later, that is the same occurrence, and a daily job is not run twice.
fn beyond(view: &View<'_>, at: UtcSecond) -> UtcSecond {
    let timetable = &view.plan.definition().timetable;
    if view.plan.first() == Some(at) || timetable.at_or_before(at) == Some(at) {
        return at;
    }
    let Some(moved) = timetable.next(at) else { return at };
    let gap = timetable.next(moved).map_or(i64::MAX, |next| next.seconds_since(moved));
    let by = moved.seconds_since(at);
    if by <= MOVED_BY && by < gap / 2 { moved } else { at }
}

/// As [`finish`], without a run.
pub(super) fn skipped(record: &mut ScheduleRecord, view: &View<'_>, last: UtcSecond) {
    let occasion = Occasion::Scheduled(last);
    record.push(Ended { occasion, outcome: Outcome::Skipped, attempt: 0, token: None });
    finish(record, view, last, Outcome::Skipped);
}

/// T10, SKIP: what fell due during the run is skipped. What was due before is not: under ALL that is run
/// first (T9). Nor is what has fallen due since, where its outcome is written late.
fn skip_since(record: &mut ScheduleRecord, view: &View<'_>, started: UtcSecond) {
    let until = View { store_time: view.store_time.min(view.ended_at), ..*view };
    let Some(next) = record.next.filter(|next| due_at(view, *next) > started) else { return };
    if let Some(last) = newest_due(record, &until, next) {
        skip(record, view, next, last);
    }
}
