//! What is due, what of it runs and so is caught up (`first_to_run`; one that was tried before, `again`),
//! what is skipped or missed (`skip`), and the count of that (T4, T7, T9, T18). Whether one that a plain
//! hold names is skipped is decided by `claim` (`schedule/occurrence.rs`). What falls due during a run is
//! skipped by `skip_since` (`ending.rs`, T10). What a plan that is replaced leaves missed is counted in
//! `plan.rs`, and added to the record by `adopt` (`mod.rs`).

use super::View;
use super::ending::{finish, skipped};
use crate::lock::LockPath;
use crate::schedule::definition::{CatchUp, Definition};
use crate::schedule::plan::Plan;
use crate::schedule::record::{Attempts, Occasion, Outcome, ScheduleRecord};
use crate::timetable::{Count, UtcSecond};

/// Missed occurrences of one look that are counted: more count as so many, so that ten years down cost no
/// time (T9).
const MOST_COUNTED: u64 = 10_000;

/// What the scheduled part of a look comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// This occurrence is to run now.
    Run(UtcSecond),
    /// Nothing is to run before this instant; none: ever, or until the schedule is resumed.
    Wait(Option<UtcSecond>),
}

/// When an occurrence is due: after its spread (T13).
pub(super) fn due_at(view: &View<'_>, occurrence: UtcSecond) -> UtcSecond {
    due_of(view.plan, view.path, occurrence)
}

fn due_of(plan: &Plan, path: &LockPath, occurrence: UtcSecond) -> UtcSecond {
    // T25: the first occurrence that a subscription asked for is due at once.
    if plan.first() == Some(occurrence) {
        return occurrence;
    }
    let (definition, name) = (plan.definition(), path.as_str().as_bytes());
    let offset = definition.timetable.spread_offset(name, definition.spread, occurrence);
    later(occurrence, offset.as_secs())
}

/// When the next occurrence falls due after the store's time, whatever is due by then (T17).
#[must_use]
pub fn next_due(view: &View<'_>) -> Option<UtcSecond> {
    let (timetable, now) = (&view.plan.definition().timetable, view.store_time);
    let near = timetable.at_or_before(now).into_iter().chain(timetable.next(now));
    near.map(|at| due_at(view, at)).find(|due| *due > now)
}

fn later(at: UtcSecond, seconds: u64) -> UtcSecond {
    UtcSecond(at.0.saturating_add_unsigned(seconds))
}

/// Skips what is not to run, and says what is.
pub(super) fn scheduled(record: &mut ScheduleRecord, view: &View<'_>) -> Step {
    let Some(next) = record.next else { return Step::Wait(None) };
    let Some(newest) = newest_due(record, view, next) else {
        return Step::Wait(Some(due_at(view, next)));
    };
    if record.attempts.any() {
        return again(record, view, next, newest);
    }
    let Some(first) = first_to_run(record, view, next, newest) else {
        skip(record, view, next, newest);
        return Step::Wait(record.next.map(|next| due_at(view, next)));
    };
    if first > next {
        let before = view.plan.definition().timetable.previous(first).filter(|last| *last >= next);
        // T14: that newer zone data has moved it is no miss: it is the same occurrence.
        let asked = view.plan.first().filter(|asked| *asked == next);
        if let Some(last) = before.or(asked) {
            skip(record, view, next, last);
        }
        record.next = Some(first);
    }
    Step::Run(first)
}

/// The newest occurrence that is due, at least `next`; none if that is not. Of an old definition's, only
/// `next` is known.
pub(super) fn newest_due(
    record: &ScheduleRecord,
    view: &View<'_>,
    next: UtcSecond,
) -> Option<UtcSecond> {
    let until = view.store_time.min(view.plan_at);
    if due_at(view, next) > until {
        return None;
    }
    let timetable = &view.plan.definition().timetable;
    let latest = timetable.at_or_before(due_until(view.plan, view.path, until));
    let latest = latest.filter(|_| is_current(record, view));
    Some(latest.map_or(next, |latest| latest.max(next)))
}

/// Up to which instant occurrences are due by `at`: the newest may have its spread before it (T13).
fn due_until(plan: &Plan, path: &LockPath, at: UtcSecond) -> UtcSecond {
    match plan.definition().timetable.at_or_before(at) {
        Some(latest) if due_of(plan, path, latest) > at => UtcSecond(latest.0.saturating_sub(1)),
        Some(_) | None => at,
    }
}

/// Whether `next` was computed from the plan's definition.
pub(super) fn is_current(record: &ScheduleRecord, view: &View<'_>) -> bool {
    record.plan == view.plan.version()
}

/// T11: an occurrence that was tried before.
fn again(record: &mut ScheduleRecord, view: &View<'_>, next: UtcSecond, newest: UtcSecond) -> Step {
    let all = matches!(view.plan.definition().catch_up, CatchUp::All(_));
    let is_over = newest > next && !all || due_at(view, next) < oldest(view, newest);
    if is_over {
        if record.attempts.failures > 0 {
            finish(record, view, next, Outcome::Failed);
        } else {
            skip(record, view, next, next);
        }
        return scheduled(record, view);
    }
    // T18: what was begun goes on after the pause.
    if view.plan.is_paused() {
        return Step::Wait(None);
    }
    match record.attempts.retry_at {
        Some(at) if at > view.store_time => Step::Wait(Some(at)),
        Some(_) | None => Step::Run(next),
    }
}

/// T9: nothing that was due before this is run. Its spread makes no occurrence older (T13): it could not have
/// been run sooner.
fn oldest(view: &View<'_>, newest: UtcSecond) -> UtcSecond {
    let definition = view.plan.definition();
    let window = definition.catch_up_window;
    let span = window.unwrap_or(Definition::least_window()).as_secs();
    let by_span = UtcSecond(view.store_time.0.saturating_sub_unsigned(span));
    if window.is_some() {
        return by_span;
    }
    let mut older = definition.timetable.occurrences_before(newest).take(definition.reach());
    by_span.min(older.by_ref().last().unwrap_or(newest))
}

/// The last pause of a plan, that goes on or is over: what falls due after `from`, up to `until`, is skipped
/// by it, if it was not begun (T18).
#[derive(Clone, Copy)]
pub(in crate::schedule) struct Pause {
    from: UtcSecond,
    until: UtcSecond,
    /// The same by the nominal instants of the timetable, which fall due with their spread (T13).
    nominal: (UtcSecond, UtcSecond),
}

impl Pause {
    /// As far as it is known at this time of the store.
    pub(in crate::schedule) fn of(plan: &Plan, path: &LockPath, store_time: UtcSecond) -> Self {
        let resumed = plan.resumed().unwrap_or(UtcSecond(i64::MIN));
        let until = if plan.is_paused() { store_time } else { resumed };
        let from = plan.paused_at().unwrap_or(UtcSecond(i64::MIN)).min(until);
        let nominal = (due_until(plan, path, from), due_until(plan, path, until));
        Self { from, until, nominal }
    }

    /// Whether what falls due then does so in it.
    fn has(self, due: UtcSecond) -> bool {
        self.from < due && due <= self.until
    }
}

/// How many occurrences of the plan lie after `after` and at or before `last`, but for those of the pause
/// (T9, T18).
pub(in crate::schedule) fn missed(
    plan: &Plan,
    after: UtcSecond,
    last: UtcSecond,
    pause: Pause,
) -> u64 {
    let timetable = &plan.definition().timetable;
    let count = |after: UtcSecond, last: UtcSecond| {
        if last <= after {
            return 0;
        }
        match timetable.count(after, last, MOST_COUNTED) {
            Count::Exactly(count) | Count::AtLeast(count) => count,
        }
    };
    let asked = missed_beside(plan, after, last, pause);
    let (from, until) = pause.nominal;
    count(after, last.min(from)) + count(after.max(until), last) + u64::from(asked.is_some())
}

/// Those, the newest first.
pub(in crate::schedule) fn last_missed(
    plan: &Plan,
    after: UtcSecond,
    last: UtcSecond,
    pause: Pause,
) -> impl Iterator<Item = UtcSecond> {
    let (from, until) = pause.nominal;
    let passed = plan.definition().timetable.occurrences_before(later(last, 1));
    let passed = passed.take_while(move |at| *at > after);
    let missed = passed.filter(move |at| *at <= from || until < *at);
    missed.chain(missed_beside(plan, after, last, pause))
}

/// T25: the first one may be beside the timetable. It is due without a spread.
fn missed_beside(
    plan: &Plan,
    after: UtcSecond,
    last: UtcSecond,
    pause: Pause,
) -> Option<UtcSecond> {
    let timetable = &plan.definition().timetable;
    let asked = plan.first().filter(|first| timetable.at_or_before(*first) != Some(*first));
    asked.filter(|it| after < *it && *it <= last && !pause.has(*it))
}

/// T9: the first of the occurrences from `next` to `newest` that runs; none if none does.
fn first_to_run(
    record: &ScheduleRecord,
    view: &View<'_>,
    next: UtcSecond,
    newest: UtcSecond,
) -> Option<UtcSecond> {
    let definition = view.plan.definition();
    // T18: by when each is due, which the first one (T25) may be without a spread.
    let paused = Pause::of(view.plan, view.path, view.store_time).until;
    let oldest = oldest(view, newest);
    let runs =
        |at: UtcSecond| at >= next && due_at(view, at) > paused && due_at(view, at) >= oldest;
    if !runs(newest) {
        return None;
    }
    match definition.catch_up {
        CatchUp::Latest => Some(newest),
        CatchUp::None => {
            let late = view.store_time.seconds_since(due_at(view, newest));
            let grace = definition.grace(view.lease_duration).saturating_add(view.queued);
            let grace = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
            (late <= grace).then_some(newest)
        }
        CatchUp::All(_) if !is_current(record, view) => Some(newest),
        CatchUp::All(most) => {
            let older = definition.timetable.occurrences_before(newest);
            // T25: the one that was asked for is before all of the timetable.
            let asked = view.plan.first().filter(|asked| *asked == next && runs(*asked));
            let older = older.take_while(|at| runs(*at)).chain(asked).take(most as usize);
            Some(older.last().unwrap_or(newest))
        }
    }
}

/// Makes everything from `first` to `last` final without a run, and counts what no pause has skipped.
pub(super) fn skip(
    record: &mut ScheduleRecord,
    view: &View<'_>,
    first: UtcSecond,
    last: UtcSecond,
) {
    let pause = Pause::of(view.plan, view.path, view.store_time);
    let missed = if first == last {
        // It may be of a timetable before.
        u64::from(!pause.has(due_at(view, first)))
    } else {
        missed(view.plan, UtcSecond(first.0.saturating_sub(1)), last, pause)
    };
    record.missed = record.missed.saturating_add(missed);
    record.missed_since = record.missed_since.saturating_add(missed);
    skipped(record, view, last);
}

/// T18: whether the first request that waits goes before what is scheduled: it is older than the start of the
/// last scheduled run. Else none would ever come, while runs overlap their period.
pub(super) fn is_by_hand_first(record: &ScheduleRecord, view: &View<'_>) -> bool {
    let request = view.plan.pending(record.by_hand_done);
    request.is_some_and(|request| record.started.is_some_and(|started| request.at < started))
}

/// The first request for a run by hand that waits: it, or when it is retried.
pub(super) fn by_hand(
    record: &ScheduleRecord,
    view: &View<'_>,
) -> Option<Result<Occasion, UtcSecond>> {
    let request = view.plan.pending(record.by_hand_done)?;
    let Attempts { retry_at, .. } = record.by_hand;
    if let Some(at) = retry_at.filter(|at| *at > view.store_time) {
        return Some(Err(at));
    }
    let (number, request_id) = (request.number, request.request_id.clone());
    Some(Ok(Occasion::ByHand { number, request_id }))
}
