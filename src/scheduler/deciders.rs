//! What a schedule writes in the records of its holds: the start of a run, and its end (T6, T8). It is
//! decided in [`crate::schedule`], beside what is known here at that moment.

use std::sync::{Arc, Mutex, PoisonError};

use super::state::ScheduleState;
use crate::coordinator::{Decider, Decisions};
use crate::record::Verdict;
use crate::schedule::{
    Beside, DecisionInput, Report, ReportDecided, Reported, RunEnded, RunId, RunReport,
    ScheduleRecord, Start, Starting, start_over,
};
use crate::webjobs::{Decides, DotnetTimer, KnownStatus};

/// What is known here beside the record of a schedule's lock.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    /// Knows how the run in the record has ended, where the store does not (T8).
    pub(super) state: Arc<ScheduleState>,
    /// Of the .NET timer beside it (T22).
    pub(super) timer: Option<Arc<DotnetTimer>>,
}

impl Surroundings {
    /// As it is now.
    pub(super) fn now(&self) -> Beside {
        self.versioned().0
    }

    /// The same, with the version of the status that it has.
    fn versioned(&self) -> (Beside, Option<KnownStatus>) {
        let known = self.timer.as_ref().and_then(|timer| timer.known_status());
        let status = known.as_ref().map(|known| known.status().clone());
        (Beside { reports: self.state.reports(), status }, known)
    }

    /// This record, which was decided over that status, is about to be written: the status is to say it
    /// first.
    fn expect(&self, record: &ScheduleRecord, known: Option<KnownStatus>, decides: Decides) {
        if let Some(timer) = &self.timer {
            timer.expect(record, known, decides);
        }
    }
}

/// Decides the start of a run. Where it is decided again, what it has written before was not granted, so that
/// nobody has seen that run (T6).
pub(super) fn start_decider(
    ground: DecisionInput,
    surroundings: Surroundings,
) -> (Decider, Decisions<Start>) {
    let ungranted = Mutex::new(Vec::<RunId>::new());
    Decider::new(move |found| {
        let (mut beside, known) = surroundings.versioned();
        let mut ungranted = ungranted.lock().unwrap_or_else(PoisonError::into_inner);
        let at = found.store_time.into();
        let withdrawn = ungranted.iter().cloned();
        let withdrawn = withdrawn.map(|run_id| RunEnded { run_id, report: Report::Withdrawn, at });
        beside.reports.extend(withdrawn);
        let (verdict, start) = start_over(found, &ground, &beside);
        if let Starting::Run { told, .. } = &start.what {
            ungranted.push(told.run_id.clone());
        }
        match &start.what {
            Starting::Run { record, .. } | Starting::Settled { record, .. } => {
                let stored = ScheduleRecord::from_fields(&found.fields).ok().flatten();
                let reset = stored.map_or(0, |stored| stored.reset);
                let decides = if record.reset > reset { Decides::Anew } else { Decides::Again };
                surroundings.expect(record, known, decides);
            }
            Starting::Nothing { .. } | Starting::Unreadable(_) => {}
        }
        (verdict, start)
    })
}

/// Decides what is written of a run's end: under its own lease, if it is `running` under it, or under another
/// one later. `is_unsaid`: its caller had said nothing of it.
pub(super) fn report_decider(
    report: RunReport,
    running: bool,
    is_unsaid: bool,
    surroundings: Surroundings,
) -> (Decider, Decisions<ReportDecided>) {
    let decides = if running { Decides::Once } else { Decides::Again };
    Decider::new(move |found| {
        if is_unsaid && surroundings.state.told_of(&report.ended.run_id).is_some() {
            // T8: what its caller says meanwhile goes first, and is written by the call that says it.
            let reported = Ok(Reported::HeldElsewhere);
            return (Verdict::Nothing, ReportDecided { reported, tally: None });
        }
        let (beside, known) = surroundings.versioned();
        let (verdict, decided) = report.write_over(found, running, &beside);
        if let Ok(Reported::Write { record, .. }) = &decided.reported {
            surroundings.expect(record, known, decides);
        }
        (verdict, decided)
    })
}
