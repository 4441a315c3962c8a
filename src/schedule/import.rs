//! How a schedule begins where another scheduler has stopped (T22).

use super::occurrence::is_of_occurrences;
use super::plan::{Plan, PlanVersion};
use super::record::ScheduleRecord;
use crate::timetable::UtcSecond;

/// What the plan's hash is in a record that was taken over, until somebody subscribes: the next instant is
/// not known yet.
pub(super) const TAKEN_OVER: &str = "import";

/// Where another scheduler has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeOver {
    /// What is due up to then is done.
    pub done_up_to: UtcSecond,
    /// When the other one was to run next, for people; the first subscriber's expression decides.
    pub next: Option<UtcSecond>,
    /// Also where there is a schedule already.
    pub replace: bool,
}

/// Why a schedule cannot go on from there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeOverError {
    /// There is a schedule, and it is not to be replaced.
    #[error(
        "the schedule exists already{}; --replace sets what it has done to the timer's, if that is later",
        .done_up_to.map(|at| format!(" and has done what is due up to {at}")).unwrap_or_default()
    )]
    Exists {
        /// What it has done; none if it has not run yet.
        done_up_to: Option<UtcSecond>,
    },
    /// What was final would be run again.
    #[error(
        "the schedule has done what is due up to {done_up_to}, which is later than the timer's {given}: it never goes back, \
         because what was done would be done again"
    )]
    Older {
        /// What it has done.
        done_up_to: UtcSecond,
        /// What the timer has done.
        given: UtcSecond,
    },
    /// A run has no outcome yet.
    #[error(
        "a run of the schedule goes on, or was abandoned without an outcome: import when it is over"
    )]
    Running,
}

impl TakeOver {
    /// The record to write, with a token, over `record`, which stands there beside this plan; none if it says
    /// so already.
    ///
    /// # Errors
    /// When there is a schedule that is not to be replaced, or cannot be.
    pub fn over(
        self,
        record: Option<&ScheduleRecord>,
        plan: Option<&Plan>,
    ) -> Result<Option<ScheduleRecord>, TakeOverError> {
        let Self { done_up_to, next, replace } = self;
        let is_subscribed = plan.is_some_and(|plan| plan.removed().is_none());
        // T25: what was done before the schedule was removed or reset counts no more, and what is written now
        // is to count.
        let reset = plan.map_or_else(|| reset_of(record), |plan| plan.reset_beside(record));
        let counts = record.filter(|record| record.reset == reset);
        let is_unused = counts.is_some_and(is_taken_over) && !is_subscribed;
        if counts.is_some_and(|it| is_unused && it.watermark == done_up_to && it.next == next) {
            return Ok(None);
        }
        if !replace && (counts.is_some() || is_subscribed) {
            return Err(TakeOverError::Exists { done_up_to: counts.map(|it| it.watermark) });
        }
        if counts.is_some_and(|record| record.run.is_some()) {
            return Err(TakeOverError::Running);
        }
        // Nobody has seen one that was imported only, so a wrong import can be corrected (T21).
        let done = counts.filter(|_| !is_unused).map(|record| record.watermark);
        if let Some(done) = done.filter(|done| done_up_to < *done) {
            return Err(TakeOverError::Older { done_up_to: done, given: done_up_to });
        }
        let taken_over = ScheduleRecord { reset, ..taken_over(done_up_to, next) };
        let Some(record) = record else { return Ok(Some(taken_over)) };
        let number = if is_of_occurrences(record) { 0 } else { record.plan.number };
        Ok(Some(ScheduleRecord {
            plan: PlanVersion { number, ..taken_over.plan },
            serial: record.serial,
            by_hand_done: record.by_hand_done,
            by_hand: record.by_hand,
            missed: record.missed,
            ended: record.ended.clone(),
            ..taken_over
        }))
    }
}

/// The record of a schedule that begins where another scheduler has stopped.
pub(super) fn taken_over(done_up_to: UtcSecond, next: Option<UtcSecond>) -> ScheduleRecord {
    let plan = PlanVersion { number: 0, hash: TAKEN_OVER.to_owned() };
    ScheduleRecord { next, ..ScheduleRecord::beginning(done_up_to, plan) }
}

/// The reset number of a record, of none as well (T25).
pub(super) fn reset_of(record: Option<&ScheduleRecord>) -> u64 {
    record.map_or(0, |record| record.reset)
}

/// Whether nobody has run or skipped anything since the record was taken over: its next instant is the first
/// after its watermark, by whatever definition is in force.
pub(super) fn is_taken_over(record: &ScheduleRecord) -> bool {
    record.plan.hash == TAKEN_OVER
}
