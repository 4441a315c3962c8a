//! What is to be seen of schedules (T23): what each written record adds to the counts (`count`), and what
//! stands now. The metrics of both are in `telemetry/metrics/schedules.rs`.

use std::time::Duration;

use super::Scheduler;
use super::state::KnownSchedule;
use crate::coordinator::{CallError, LockEvent, LockEventKind, ScheduleEventKind};
use crate::lock::{FencingToken, LockPath};
use crate::schedule::{
    Intervention, Occasion, Outcome, Plan, RunId, ScheduleRecord, Tally, starting, waited_for,
};
use crate::time::UnixMillis;
use crate::timetable::UtcSecond;

/// How a schedule stands that has subscribers here, as far as it is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleFigures {
    /// The lock of the schedule.
    pub path: LockPath,
    /// The occurrence that everybody waits for (T5); none when there is none.
    pub next: Option<UnixMillis>,
    /// The newest occurrence that is known to have succeeded; none when the record names none.
    pub last_success: Option<UnixMillis>,
    /// It has been due for longer than its grace, and no run goes on.
    pub is_late: bool,
    /// What ended last for good did not succeed. What a pause or a policy skipped, and what was given back,
    /// does not count.
    pub is_failing: bool,
    /// Two occurrences and a grace have passed since the last success, or since there was a schedule.
    pub is_silent: bool,
}

impl CallError {
    /// The schedule is no more (T25).
    pub(super) fn removed(path: &LockPath, by: &Intervention) -> Self {
        Self::ScheduleRemoved { path: path.clone(), at: by.at, reason: by.reason.clone() }
    }
}

impl Scheduler {
    /// What was written here is counted; what was reported for it is shown with why.
    pub(super) fn count(&self, path: &LockPath, tally: &Tally, reported: Option<&ReportedEnd<'_>>) {
        if tally.missed() > 0 {
            self.observe(path, ScheduleEventKind::Missed { count: tally.missed() }, None);
        }
        for (outcome, times) in tally.ended() {
            let reported = reported.filter(|reported| reported.outcome == outcome);
            let detail = reported.map_or("", |reported| reported.detail);
            for _ in 0..times {
                let token = reported.map(|reported| reported.run_id.token);
                self.observe(path, ScheduleEventKind::RunEnded { outcome, detail }, token);
            }
        }
    }

    /// Lets be observed what happened to the schedule on a lock, or to its grant of this token.
    pub(super) fn observe(
        &self,
        path: &LockPath,
        kind: ScheduleEventKind<'_>,
        token: Option<FencingToken>,
    ) {
        let kind = LockEventKind::Schedule(kind);
        self.locks.observe(&LockEvent::of(path, kind).with_token(token));
    }

    /// T21: loudly, and counted.
    pub(super) fn say_back(&self, path: &LockPath) {
        self.observe(path, ScheduleEventKind::WentBack, None);
    }

    /// The schedules with subscribers here, in no order.
    #[must_use]
    pub fn schedule_figures(&self) -> Vec<ScheduleFigures> {
        let now = UtcSecond::from(self.store_time());
        let tasks = self.schedules.tasks();
        let lease = self.locks.settings().lease_duration;
        let figures = |(path, entry): (&LockPath, &super::TaskHandle)| {
            of(path, &entry.state.known(), now, lease)
        };
        tasks.iter().filter_map(figures).collect()
    }
}

/// How a run ended, as its holder has reported it.
#[derive(Debug)]
pub(super) struct ReportedEnd<'a> {
    pub(super) run_id: &'a RunId,
    pub(super) outcome: Outcome,
    /// Why, for people; may be empty.
    pub(super) detail: &'a str,
}

/// None while nothing is known of it.
fn of(
    path: &LockPath,
    known: &KnownSchedule,
    now: UtcSecond,
    lease: Duration,
) -> Option<ScheduleFigures> {
    let (plan, _) = known.plan.as_ref()?;
    let record = known.record.as_ref();
    let next = waited_for(plan, record);
    // T25: what was before a reset goes on no more.
    let record = &starting(plan, record);
    let last_success = last_success(record);
    let patience = plan.definition().grace(lease) + plan.definition().spread;
    let has_passed = |at: UtcSecond| {
        u64::try_from(now.seconds_since(at)).is_ok_and(|seconds| seconds > patience.as_secs())
    };
    let goes_on = !plan.is_paused();
    Some(ScheduleFigures {
        path: path.clone(),
        next: next.map(millis),
        last_success: last_success.map(millis),
        is_late: goes_on && record.run.is_none() && next.is_some_and(has_passed),
        is_failing: is_failing(record),
        is_silent: goes_on && second_after(plan, last_success).is_some_and(has_passed),
    })
}

/// Occurrences are from 1970 on.
pub(super) fn millis(at: UtcSecond) -> UnixMillis {
    UnixMillis(u64::try_from(at.0).unwrap_or_default().saturating_mul(1_000))
}

fn last_success(record: &ScheduleRecord) -> Option<UtcSecond> {
    let at_watermark = (record.outcome == Some(Outcome::Succeeded)).then_some(record.watermark);
    let ended = record.ended.iter().filter(|ended| ended.outcome == Outcome::Succeeded);
    let named = ended.filter_map(|ended| match &ended.occasion {
        Occasion::Scheduled(at) => Some(*at),
        Occasion::ByHand { .. } => None,
    });
    named.chain(at_watermark).max()
}

fn is_failing(record: &ScheduleRecord) -> bool {
    let pending = record.next.map(Occasion::Scheduled);
    let counts = |outcome: &Outcome| !matches!(outcome, Outcome::Returned | Outcome::Skipped);
    // An attempt that is to be tried again has not failed for good.
    let ended = record.ended.iter().filter(|ended| Some(&ended.occasion) != pending.as_ref());
    let last = ended.map(|ended| ended.outcome).find(counts);
    last.is_some_and(|outcome| outcome != Outcome::Succeeded)
}

/// The second occurrence after the last success, or after the schedule was made, changed or let go on.
fn second_after(plan: &Plan, last_success: Option<UtcSecond>) -> Option<UtcSecond> {
    let since = last_success.max(Some(plan.since())).max(plan.resumed())?;
    let timetable = &plan.definition().timetable;
    timetable.next(timetable.next(since)?)
}
