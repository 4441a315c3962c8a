//! The decisions: what is done at a look, at a start, and at the end of a run; and how a plan that has
//! changed is taken in (`adopt`, T16).

mod due;
mod ending;
mod telling;

use std::time::Duration;

use super::codec::writable;
use super::import::is_taken_over;
use super::occurrence::adopted;
use super::plan::{Plan, PlanVersion};
use super::record::{Attempts, Occasion, Run, ScheduleRecord};
use crate::lock::{FencingToken, LockPath};
use crate::timetable::UtcSecond;

use due::Step;

pub use due::next_due;
pub(super) use due::{Pause, last_missed, missed};
pub(super) use ending::MAX_RETURNED;
pub use ending::{Report, Reported, report};
pub use telling::{Told, resumed};

/// What a decision is made over: what was read, and the store's time of the answer.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The lock of the schedule.
    pub path: &'a LockPath,
    /// The plan as it was read last.
    pub plan: &'a Plan,
    /// The store's time when that was asked for: what falls due later is not started by it, since a pause may
    /// have been answered before (T18).
    pub plan_at: UtcSecond,
    /// The schedule's part of the lock's record; none when there is none yet.
    pub record: Option<&'a ScheduleRecord>,
    /// The greatest that this sidecar has seen of this record, if it has seen one (T21).
    pub newest: Option<Newest>,
    /// The store's time, cut to the second (T7).
    pub store_time: UtcSecond,
    /// Who has the lease.
    pub lease: Lease,
    /// How long this sidecar's own queue of starts has kept it waiting: that does not count as late (T9,
    /// T13).
    pub queued: Duration,
    /// D of this sidecar, for definitions that say none (T16).
    pub lease_duration: Duration,
    /// How the run in the record has ended, where this sidecar was told, or saw it, and the store does not
    /// say so yet (T8).
    pub reported: Option<Report>,
    /// When this sidecar was told so, or saw it: what has fallen due since did so after the run (T10).
    pub ended_at: UtcSecond,
}

/// Who has the lock's lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lease {
    /// Nobody has it.
    #[default]
    Free,
    /// Somebody else: another sidecar, or a plain hold at this one.
    Elsewhere,
    /// This sidecar, for the schedule.
    Here {
        /// Whether the run in the record was granted under it and goes on.
        running: bool,
    },
}

/// What never goes back (T21): a sidecar keeps the greatest that it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Newest {
    /// The greatest watermark.
    pub watermark: UtcSecond,
    /// Requests for runs by hand up to this number are final.
    pub by_hand_done: u64,
    /// The reset number that both were seen with (T25).
    pub reset: u64,
}

/// What a look comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// What to do.
    pub decision: Decision,
    /// The record is older than what this sidecar has seen: say so loudly, and count it (T21). What is
    /// decided takes that into account, and the next write repairs it.
    pub went_back: bool,
    /// The watermark, the end of the last pause, or an instant of the plan is ahead of the store's time: with
    /// SQLite the wall clock went back (T7). Nothing runs until it is past.
    pub is_ahead: bool,
    /// The instant that is waited for: the record's, or the plan's where that is newer (T5).
    pub next: Option<UtcSecond>,
}

/// What to do after a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is due before this instant of the store's time; none: ever. [`super::until_due`] says when to
    /// look.
    Wait(Option<UtcSecond>),
    /// Something is to run or to settle, and the lock is held: look again after [`super::after_busy`].
    Busy,
    /// A retry comes at this instant of the store's time: the last runner waits for it, the others look again
    /// after [`super::after_busy`].
    RetryLater(UtcSecond),
    /// Acquire the lease and [`start`] this.
    Run(Occasion),
    /// Acquire the lease and [`start`]: what is due is not to run, and that is to be written.
    Settle,
}

/// What a start comes to, under the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// Write the record with the token, in one write; then grant the run and tell it this (T6).
    Run {
        /// The schedule's part of the record.
        record: Box<ScheduleRecord>,
        /// What the run is told.
        told: Box<Told>,
    },
    /// Write the record; nothing runs now.
    Settle(Box<ScheduleRecord>),
    /// Nothing is to be written: it is not due, was done meanwhile, or the lease is not here. Release the
    /// lease.
    Nothing,
}

/// Decides what to do: over what was read, without the lease or with it.
#[must_use]
pub fn look(view: &View<'_>) -> Look {
    let draft = Draft::new(view);
    let went_back = draft.went_back;
    let plan = view.plan;
    let due = plan.due().map(|(due, _)| due);
    let begins = Some(draft.record.watermark.max(plan.since()));
    let latest = begins.max(plan.resumed()).max(plan.goes_on_from()).max(due);
    let is_ahead = latest > Some(view.store_time);
    let next = awaited(draft.record.clone(), plan);
    let decision = if draft.is_running(view) { Decision::Busy } else { draft.decide(view).0 };
    let is_free = !matches!(view.lease, Lease::Elsewhere);
    let starts = matches!(decision, Decision::Run(_) | Decision::Settle);
    let decision = if starts && !is_free { Decision::Busy } else { decision };
    Look { decision, went_back, is_ahead, next }
}

/// Whether the record is older than what this sidecar has seen (T21).
pub(super) fn went_back(view: &View<'_>) -> bool {
    Draft::new(view).went_back
}

/// Decides again under the lease, with the plan and the time as they are now, and makes the record to write
/// with `token`.
#[must_use]
pub fn start(view: &View<'_>, token: FencingToken) -> Started {
    let draft = Draft::new(view);
    if !matches!(view.lease, Lease::Here { .. }) || draft.is_running(view) {
        return Started::Nothing;
    }
    let (decision, mut record) = draft.decide(view);
    match decision {
        Decision::Run(occasion) => {
            let (attempts, at) = match occasion {
                Occasion::Scheduled(at) => (record.attempts, at),
                Occasion::ByHand { .. } => (record.by_hand, view.store_time),
            };
            let run = Run {
                occasion,
                attempt: attempts.failures.saturating_add(1),
                token,
                started: writable(view.store_time),
                deadline: telling::deadline(view, at),
                stop_grace: view.plan.definition().stop_grace(),
            };
            let told = telling::told(view, &record, &run);
            if matches!(run.occasion, Occasion::Scheduled(_)) {
                record.started = Some(run.started);
            }
            record.run = Some(run);
            Started::Run { record: Box::new(record), told: Box::new(told) }
        }
        Decision::Settle => Started::Settle(Box::new(record)),
        Decision::Wait(_) | Decision::RetryLater(_) | Decision::Busy => Started::Nothing,
    }
}

/// The record as it is to be taken, before anything is decided.
struct Draft {
    record: ScheduleRecord,
    went_back: bool,
}

impl Draft {
    fn new(view: &View<'_>) -> Self {
        let mut draft = Self { record: begun(view.plan, view.record), went_back: false };
        draft.restore(view);
        adopt(&mut draft.record, view.plan);
        draft
    }

    /// T21: what was final once is final.
    fn restore(&mut self, view: &View<'_>) {
        let record = &mut self.record;
        let Some(newest) = view.newest.filter(|newest| newest.reset == record.reset) else {
            return;
        };
        if newest.by_hand_done > record.by_hand_done {
            (record.by_hand_done, record.by_hand) = (newest.by_hand_done, Attempts::default());
            self.went_back = true;
        }
        if newest.watermark > record.watermark {
            (record.watermark, record.outcome) = (newest.watermark, None);
            if record.next.is_some_and(|next| next <= newest.watermark) {
                record.next = view.plan.definition().timetable.next(newest.watermark);
                record.attempts = Attempts::default();
            }
            self.went_back = true;
        }
        let is_final = |occasion: &Occasion| match occasion {
            Occasion::Scheduled(at) => *at <= newest.watermark,
            Occasion::ByHand { number, .. } => *number <= newest.by_hand_done,
        };
        if record.run.as_ref().is_some_and(|run| is_final(&run.occasion)) {
            record.run = None;
        }
    }

    /// Whether the run in the record may be going on.
    const fn is_running(&self, view: &View<'_>) -> bool {
        match view.lease {
            Lease::Elsewhere | Lease::Here { running: true } => self.record.run.is_some(),
            Lease::Free | Lease::Here { running: false } => false,
        }
    }

    /// The decision, and the record that a start writes. Nothing runs under the lease.
    fn decide(mut self, view: &View<'_>) -> (Decision, ScheduleRecord) {
        let is_scheduled =
            |run: &Run| matches!(run.occasion, Occasion::Scheduled(_)) && view.plan.is_paused();
        let by_hand = due::by_hand(&self.record, view);
        let is_waited_for = by_hand.is_none() && view.reported.is_none();
        if self.record.run.as_ref().is_some_and(is_scheduled) && is_waited_for {
            // Nobody is granted in its place, so it may still be completed (T8).
            return (Decision::Wait(None), self.record);
        }
        let was_abandoned = ending::settle(&mut self.record, view);
        adopt(&mut self.record, view.plan);
        if due::is_by_hand_first(&self.record, view)
            && let Some(Ok(occasion)) = due::by_hand(&self.record, view)
        {
            return (Decision::Run(occasion), self.record);
        }
        let before = self.record.watermark;
        let scheduled = due::scheduled(&mut self.record, view);
        let record = self.record;
        let has_moved = was_abandoned || self.went_back || record.watermark != before;
        let wait = match scheduled {
            Step::Run(at) => return (Decision::Run(Occasion::Scheduled(at)), record),
            Step::Wait(wait) => wait,
        };
        // T18: after a due scheduled one.
        match due::by_hand(&record, view) {
            Some(Ok(occasion)) => (Decision::Run(occasion), record),
            _ if has_moved => (Decision::Settle, record),
            by_hand => {
                let by_hand = by_hand.and_then(Result::err);
                let retries = [record.attempts.retry_at, by_hand];
                let first = [wait, by_hand].into_iter().flatten().min();
                let is_retry = first.is_some() && retries.contains(&first);
                let decision = match first {
                    Some(at) if is_retry => Decision::RetryLater(at),
                    Some(_) | None => Decision::Wait(first),
                };
                (decision, record)
            }
        }
    }
}

/// The stored record; that of a schedule that has not run yet, if there is none (T5).
fn begun(plan: &Plan, record: Option<&ScheduleRecord>) -> ScheduleRecord {
    let unknown = PlanVersion { number: 0, hash: String::new() };
    let Some(record) = record.cloned() else {
        let first = ScheduleRecord::beginning(plan.first_subscribed(), unknown);
        return ScheduleRecord { reset: plan.reset(), ..first };
    };
    let mut record = adopted(record);
    if record.reset < plan.reset() {
        // T25: it begins anew where the plan says; what ended and what was missed stays to be seen. A reset
        // keeps the plan's requests for runs by hand, and a removal does not.
        let keeps_requests = plan.was_reset().is_some();
        let goes_on = |run: &Run| keeps_requests && matches!(run.occasion, Occasion::ByHand { .. });
        record.run = record.run.filter(goes_on);
        // A retry may have been set by a clock that was wrong.
        let by_hand = Attempts { retry_at: None, ..record.by_hand };
        record.by_hand = if keeps_requests { by_hand } else { Attempts::NONE };
        (record.watermark, record.outcome) = (plan.first_subscribed(), None);
        (record.next, record.plan, record.attempts) = (None, unknown, Attempts::NONE);
        (record.started, record.missed_since, record.reset) = (None, 0, plan.reset());
    }
    record
}

/// The instant that everybody waits for, by what is stored: due, running or to come (T5, T16).
#[must_use]
pub fn waited_for(plan: &Plan, record: Option<&ScheduleRecord>) -> Option<UtcSecond> {
    awaited(begun(plan, record), plan)
}

/// A run by hand keeps nobody from what falls due next.
fn awaited(mut record: ScheduleRecord, plan: &Plan) -> Option<UtcSecond> {
    record.run.take_if(|run| matches!(run.occasion, Occasion::ByHand { .. }));
    adopt(&mut record, plan);
    record.next
}

/// The record as everybody takes it before anybody has run: what a timer of .NET goes on from (T22).
#[must_use]
pub fn starting(plan: &Plan, record: Option<&ScheduleRecord>) -> ScheduleRecord {
    let mut record = begun(plan, record);
    let next = awaited(record.clone(), plan);
    adopt(&mut record, plan);
    ScheduleRecord { next, ..record }
}

/// T16: a new timetable takes effect when what was due or running under the old one as it came is final.
fn adopt(record: &mut ScheduleRecord, plan: &Plan) {
    record.serial = record.serial.max(plan.serial());
    let version = plan.version();
    if is_taken_over(record) {
        // T22: what came due since the other scheduler stopped is missed, also what was due before the plan
        // was written.
        record.plan = version;
        record.next = plan.definition().timetable.next(record.watermark);
        return;
    }
    if record.plan == version {
        return;
    }
    let begins = plan.goes_on_from().unwrap_or_else(|| plan.since());
    let is_same = record.plan.hash == version.hash && plan.due().is_none();
    if is_same && record.next.is_none_or(|next| next > begins) {
        // Others came and went before anybody took them in.
        record.plan = version;
        return;
    }
    if record.run.is_some() || record.attempts.any() {
        return;
    }
    if let Some((due, _)) = plan.due().filter(|(due, _)| *due > record.watermark) {
        // The newest one of the old timetable runs; those before it are missed.
        if record.next != Some(due) {
            let missed = plan.missed_before_due(record.watermark);
            record.next = Some(due);
            record.missed = record.missed.saturating_add(missed);
            record.missed_since = record.missed_since.saturating_add(missed);
        }
        return;
    }
    // Not of the one before the last: that was replaced before this was due.
    let is_of_the_last = record.plan.number.saturating_add(1) >= version.number;
    let was_due = record.next.is_some_and(|next| next <= plan.since());
    if was_due && is_of_the_last && plan.goes_on_from().is_none() {
        // It was due under a timetable that the writer of the plan did not know of.
        return;
    }
    let after = record.watermark.max(begins);
    record.plan = version;
    // The instant that the writer of the plan computed, so that zone data never gives two truths (T5).
    let next = plan.next().filter(|next| *next > after);
    record.next = next.or_else(|| plan.definition().timetable.next(after));
}
