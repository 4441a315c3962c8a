//! What is known here of one schedule: shared by its task, the holds of its runs, and the calls that complete
//! them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::reading::VersionedPlan;
use crate::lock::LeaseId;
use crate::schedule::{Newest, Plan, Report, RunEnded, RunId, ScheduleRecord};
use crate::timetable::UtcSecond;

/// Reports that wait at the most; a record has one run.
const MOST_REPORTS: usize = 16;

/// What is known of one schedule.
#[derive(Debug, Default)]
pub(super) struct ScheduleState(Mutex<KnownSchedule>);

/// The plan and the record as they were read or written last.
#[derive(Debug, Default)]
pub(super) struct KnownSchedule {
    /// The plan, with its version in the store.
    pub(super) plan: Option<VersionedPlan>,
    /// The store's time when it was asked for, the last time before a start (T18).
    pub(super) plan_at: UtcSecond,
    /// The record; none before the first run, or if it was never read.
    pub(super) record: Option<ScheduleRecord>,
    /// How often that was learned: what was read before the last time is older (T21).
    pub(super) learned: u64,
    /// The greatest that was seen (T21).
    pub(super) newest: Option<Newest>,
    /// This sidecar ran the last run that is known: it does not read before it starts the next one (T17).
    pub(super) is_last_runner: bool,
    /// How many streams subscribe to it here.
    pub(super) subscribers: usize,
    /// The run that was granted here last, and its lease.
    pub(super) granted: Option<(RunId, LeaseId)>,
    /// How runs have ended, where the store does not say so yet (T8).
    reports: Vec<Reported>,
}

/// How a run has ended, as this sidecar was told, or saw.
#[derive(Debug)]
struct Reported {
    ended: RunEnded,
    /// Its caller has said it.
    by_caller: bool,
    /// Calls that say it now.
    calls: usize,
}

impl KnownSchedule {
    /// A call may name a run that there never was, or that somebody else has: for such a one no run is
    /// forgotten that was seen here.
    fn put(&mut self, reported: Reported) {
        if self.reports.len() >= MOST_REPORTS {
            let unknown = self.reports.iter().position(|it| !self.is_known(it));
            match unknown.or_else(|| self.is_known(&reported).then_some(0)) {
                Some(first) => drop(self.reports.remove(first)),
                None => return,
            }
        }
        self.reports.push(reported);
    }

    /// Whether the run is one that was started, or seen in the record, here.
    fn is_known(&self, Reported { ended, by_caller, .. }: &Reported) -> bool {
        let is_granted = self.granted.as_ref().is_some_and(|(run_id, _)| *run_id == ended.run_id);
        let run = self.record.as_ref().and_then(|record| record.run.as_ref());
        !by_caller || is_granted || run.is_some_and(|run| ended.run_id.is_of(run))
    }
}

impl ScheduleState {
    pub(super) fn known(&self) -> MutexGuard<'_, KnownSchedule> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record is this now. What was final once is not forgotten (T21), unless the schedule was reset
    /// since (T25).
    pub(super) fn learn(&self, record: Option<ScheduleRecord>) {
        let mut known = self.known();
        if let Some(record) = &record {
            let newest = known.newest.filter(|newest| newest.reset >= record.reset);
            let newest = newest.unwrap_or_default();
            if record.reset >= newest.reset {
                known.newest = Some(Newest {
                    watermark: newest.watermark.max(record.watermark),
                    by_hand_done: newest.by_hand_done.max(record.by_hand_done),
                    reset: record.reset,
                });
            }
            let runs = |run_id: &RunId| record.run.as_ref().is_some_and(|run| run_id.is_of(run));
            known.reports.retain(|reported| reported.calls > 0 || runs(&reported.ended.run_id));
        } else {
            // Of what was never written nothing is owed.
            known.reports.retain(|reported| reported.calls > 0);
        }
        known.record = record;
        known.learned += 1;
    }

    /// A caller begins to say how a run has ended. What it says goes before what this sidecar has seen.
    pub(super) fn is_told(&self, ended: RunEnded) {
        let mut known = self.known();
        match known.reports.iter_mut().find(|reported| reported.ended.run_id == ended.run_id) {
            Some(known) => {
                if !known.by_caller {
                    let at = known.ended.at.min(ended.at);
                    (known.ended, known.by_caller) = (RunEnded { at, ..ended }, true);
                }
                known.calls += 1;
            }
            None => known.put(Reported { ended, by_caller: true, calls: 1 }),
        }
    }

    /// What a caller has said of how this run has ended, if one has.
    pub(super) fn told_of(&self, run_id: &RunId) -> Option<Report> {
        let known = self.known();
        let told = known.reports.iter().find(|it| it.by_caller && it.ended.run_id == *run_id);
        told.map(|told| told.ended.report)
    }

    /// When it was said or seen first how this run has ended, if it was.
    pub(super) fn ended_at(&self, run_id: &RunId) -> Option<UtcSecond> {
        let known = self.known();
        let ended = known.reports.iter().find(|reported| reported.ended.run_id == *run_id);
        ended.map(|reported| reported.ended.at)
    }

    /// The caller was answered. Where the store has it, or never will, it waits no longer.
    pub(super) fn was_told(&self, run_id: &RunId, is_settled: bool) {
        let mut known = self.known();
        let is_it = |reported: &Reported| reported.ended.run_id == *run_id;
        if let Some(known) = known.reports.iter_mut().find(|reported| is_it(reported)) {
            known.calls = known.calls.saturating_sub(1);
        }
        known.reports.retain(|reported| !(is_settled && is_it(reported)));
    }

    /// This sidecar has seen how a run has ended, and the store may not say so. What was read before may not
    /// say yet that it began.
    pub(super) fn has_seen(&self, ended: RunEnded) {
        let mut known = self.known();
        if known.reports.iter().all(|reported| reported.ended.run_id != ended.run_id) {
            known.put(Reported { ended, by_caller: false, calls: 0 });
        }
        known.learned += 1;
    }

    /// Whether there is a run whose end the store may not have yet. Of a schedule that was removed nothing is
    /// owed: it would not be run again (T25).
    pub(super) fn owes(&self) -> bool {
        let known = self.known();
        let is_removed = known.plan.as_ref().is_some_and(|(plan, _)| plan.removed().is_some());
        !is_removed && !known.reports.is_empty()
    }

    /// How the run in the record has ended, where the store does not say so yet and no call says it now.
    pub(super) fn owed(&self) -> Option<RunEnded> {
        let known = self.known();
        let run = known.record.as_ref()?.run.as_ref()?;
        let is_owed =
            |reported: &&Reported| reported.calls == 0 && reported.ended.run_id.is_of(run);
        known.reports.iter().find(is_owed).map(|owed| owed.ended.clone())
    }

    /// How runs have ended, where the store does not say so yet.
    pub(super) fn reports(&self) -> Vec<RunEnded> {
        self.known().reports.iter().map(|reported| reported.ended.clone()).collect()
    }

    pub(super) fn newest(&self) -> Option<Newest> {
        self.known().newest
    }

    pub(super) fn plan(&self) -> Option<Arc<Plan>> {
        self.known().plan.as_ref().map(|(plan, _)| Arc::clone(plan))
    }

    /// The plan was read beside the schedule's task, which may know a newer one by now.
    pub(super) fn learn_plan(&self, read: &VersionedPlan) {
        let mut known = self.known();
        if known.plan.as_ref().is_none_or(|(plan, _)| plan.serial() <= read.0.serial()) {
            known.plan = Some(read.clone());
        }
    }

    /// T17: whether the record says that there is a newer plan than this one.
    pub(super) fn knows_newer(&self, plan: &Plan) -> bool {
        self.known().record.as_ref().is_some_and(|record| record.serial > plan.serial())
    }

    /// The lease of this run, if it is the one that was granted here last.
    pub(super) fn lease_of(&self, run_id: &RunId) -> Option<LeaseId> {
        let known = self.known();
        known.granted.as_ref().filter(|(granted, _)| granted == run_id).map(|(_, lease)| *lease)
    }
}
