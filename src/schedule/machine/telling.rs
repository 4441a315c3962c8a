//! What a run is told (T9, T12).

use std::time::Duration;

use super::View;
use super::due::due_at;
use crate::schedule::codec::writable;
use crate::schedule::definition::{Overlap, RunTimeout};
use crate::schedule::record::{Ended, Occasion, Run, ScheduleRecord};
use crate::schedule::run_id::RunId;
use crate::timetable::UtcSecond;

/// T10: a run that skips what falls due meanwhile may take so many gaps, or a day.
const GAPS_OF_SKIP: i64 = 10;
const DAY: i64 = 86_400;

/// What a run is told beside its grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it is completed by.
    pub run_id: RunId,
    /// The nominal instant; of a run by hand the store's time at its start.
    pub scheduled_at: UtcSecond,
    /// The same as the clocks of the schedule's zone show it.
    pub local_time: String,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// How many attempts there are.
    pub max_attempts: u32,
    /// How long after it was due it starts, whole seconds of the store's time.
    pub lateness: Duration,
    /// Occurrences that were missed since the last run; at most 10,000 are counted at once.
    pub missed_count: u64,
    /// When it is to be over, by the store's time.
    pub deadline: Option<UtcSecond>,
    /// How long that is from the start.
    pub timeout: Option<Duration>,
    /// How long after that it may take to end (T12).
    pub stop_grace: Duration,
    /// How long it may go without reporting progress (S11).
    pub progress_timeout: Option<Duration>,
    /// The next occurrence after this one and after now.
    pub next_at: Option<UtcSecond>,
    /// What ended last.
    pub previous: Option<Ended>,
}

/// What a run is told that begins now.
pub(super) fn told(view: &View<'_>, record: &ScheduleRecord, run: &Run) -> Told {
    let missed_count = match run.occasion {
        Occasion::Scheduled(_) => record.missed_since,
        Occasion::ByHand { .. } => 0,
    };
    let progress_timeout = view.plan.definition().progress_timeout;
    Told { missed_count, progress_timeout, ..told_of(view, record, run) }
}

/// What a run is told again that goes on after its stream broke (S16): as it stands in the record, with the
/// limits of its hold, whatever its schedule says by now. None if it does not stand there: it has an outcome,
/// or was repeated.
#[must_use]
pub fn resumed(view: &View<'_>, id: &RunId, progress_timeout: Option<Duration>) -> Option<Told> {
    let record = view.record?;
    let run = record.run.as_ref().filter(|run| id.is_of(run))?;
    Some(Told { progress_timeout, ..told_of(view, record, run) })
}

fn told_of(view: &View<'_>, record: &ScheduleRecord, run: &Run) -> Told {
    let Run { ref occasion, attempt, token, started, deadline, stop_grace } = *run;
    let definition = view.plan.definition();
    let (at, due) = match *occasion {
        Occasion::Scheduled(at) => (at, due_at(view, at)),
        Occasion::ByHand { .. } => (started, started),
    };
    let span = |from: UtcSecond, to: UtcSecond| {
        Duration::from_secs(u64::try_from(to.seconds_since(from)).unwrap_or_default())
    };
    Told {
        run_id: RunId { path: view.path.clone(), occasion: occasion.clone(), attempt, token },
        scheduled_at: at,
        local_time: definition.timetable.local_time(at),
        attempt,
        max_attempts: definition.max_attempts(),
        lateness: span(due, started),
        missed_count: record.missed_since,
        deadline,
        timeout: deadline.map(|deadline| span(started, deadline)),
        stop_grace,
        progress_timeout: None,
        next_at: definition.timetable.next(at.max(view.store_time)),
        previous: record.ended.first().cloned(),
    }
}

/// T12: the run's time-out, or the next due time, but not less than one whole gap after the start.
pub(super) fn deadline(view: &View<'_>, at: UtcSecond) -> Option<UtcSecond> {
    let (definition, now) = (view.plan.definition(), view.store_time);
    let timetable = &definition.timetable;
    let deadline = match definition.run_timeout {
        RunTimeout::None => return None,
        RunTimeout::Duration(timeout) => {
            UtcSecond(now.0.saturating_add_unsigned(timeout.as_secs()))
        }
        RunTimeout::NextDue => {
            let next = timetable.next(at.max(now))?;
            // A run by hand is between two occurrences: their gap.
            let begin = timetable.at_or_before(at).unwrap_or(at);
            let gap = timetable.next(begin)?.seconds_since(begin);
            match definition.overlap {
                Overlap::Follow => due_at(view, next).max(UtcSecond(now.0.saturating_add(gap))),
                Overlap::Skip => {
                    let span = gap.saturating_mul(GAPS_OF_SKIP).max(DAY);
                    UtcSecond(now.0.saturating_add(span))
                }
            }
        }
    };
    Some(writable(deadline))
}
