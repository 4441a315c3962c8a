//! What a schedule writes in the records of its holds: the start of a run, and its end (T6, T8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::desk::Desk;
use super::timer::TimerDesk;
use crate::coordinator::decided::Decided;
use crate::hold::{AtGrant, GrantPart, SavePart};
use crate::lock::{FencingToken, Fields, LockPath};
use crate::schedule::{
    Lease, Newest, Plan, RecordError, Report, Reported, RunId, ScheduleRecord, Started, Tally,
    Told, View, look, report, start,
};
use crate::time::UnixMillis;
use crate::timetable::UtcSecond;

/// How long before the end of its hold a run that has no outcome is recorded as timed out (T12): a store
/// needs about so long.
pub(super) const FOR_THE_WRITE: Duration = Duration::from_secs(2);

/// What both parts are decided over, beside the record.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub(super) path: LockPath,
    pub(super) plan: Arc<Plan>,
    /// See [`View::plan_at`]; none where any time will do.
    pub(super) plan_at: Option<UtcSecond>,
    pub(super) newest: Option<Newest>,
    /// Knows how the run in the record has ended, where the store does not (T8).
    pub(super) desk: Arc<Desk>,
    /// See [`View::lease_duration`].
    pub(super) lease_duration: Duration,
    /// See [`View::queued`].
    pub(super) queued: Duration,
    /// What the store's clock had surely reached when this was put together (T7). Answers tell it in whole
    /// seconds; several of them together tell more.
    pub(super) store_time: UnixMillis,
    /// Of the .NET timer beside it (T22).
    pub(super) timer: Option<Arc<TimerDesk>>,
}

impl Ground {
    pub(super) fn view<'a>(
        &'a self,
        record: Option<&'a ScheduleRecord>,
        store_time: UtcSecond,
        lease: Lease,
    ) -> View<'a> {
        let Self { path, plan, newest, queued, lease_duration, .. } = self;
        let run = record.and_then(|record| record.run.as_ref());
        View {
            path,
            plan,
            plan_at: self.plan_at.unwrap_or(store_time),
            record,
            newest: *newest,
            store_time,
            lease,
            queued: *queued,
            lease_duration: *lease_duration,
            reported: run.and_then(|run| self.desk.reported(run)),
        }
    }

    /// The fields to write, which the .NET timer's status is to say first.
    fn fields(&self, record: &ScheduleRecord, fields: &Fields) -> Fields {
        if let Some(timer) = &self.timer {
            timer.expect(record);
        }
        record.clone().into_fields(fields.clone())
    }

    /// The schedule's part of a record, beside the .NET timer's status as it is known now.
    fn record(&self, fields: &Fields) -> Result<Option<ScheduleRecord>, RecordError> {
        let record = ScheduleRecord::from_fields(fields)?;
        Ok(match &self.timer {
            Some(timer) => timer.over(record),
            None => record,
        })
    }
}

/// The start of a run (T6).
#[derive(Debug)]
pub(super) struct StartPart {
    ground: Ground,
    /// Whether its record is known to have gone back, and that was said (T21).
    said_back: bool,
    /// The record that was found under the lease had gone back, and nobody has said so.
    went_back: AtomicBool,
    started: Decided<StartDecision>,
}

/// What a start has come to.
#[derive(Clone, Debug)]
pub(super) enum StartDecision {
    /// This record was written, and this run granted, with this token.
    Run { token: FencingToken, record: Box<ScheduleRecord>, told: Box<Told>, tally: Tally },
    /// This record was written.
    Settled { record: Box<ScheduleRecord>, tally: Tally },
    /// There was nothing to do under this record.
    Nothing { record: Option<Box<ScheduleRecord>> },
    /// The record cannot be read.
    Unreadable(RecordError),
}

impl StartPart {
    pub(super) fn new(ground: Ground, said_back: bool) -> Self {
        Self { ground, said_back, went_back: AtomicBool::new(false), started: Decided::default() }
    }

    /// Whether it is to be said that the record has gone back: once.
    pub(super) fn is_back(&self) -> bool {
        self.went_back.swap(false, Ordering::Relaxed)
    }

    /// What was decided last; none if no lease was had.
    pub(super) fn decision(&self) -> Option<StartDecision> {
        self.started.cell().clone()
    }
}

impl GrantPart for StartPart {
    fn at_grant(&self, fields: &Fields, token: FencingToken, store_time: UnixMillis) -> AtGrant {
        let (decision, at_grant) = match self.ground.record(fields) {
            Err(error) => (StartDecision::Unreadable(error), AtGrant::TurnAway),
            Ok(record) => {
                let before = record.as_ref();
                let lease = Lease::Here { running: false };
                let store_time = store_time.max(self.ground.store_time);
                let view = self.ground.view(before, store_time.into(), lease);
                if !self.said_back && look(&view).went_back {
                    self.went_back.store(true, Ordering::Relaxed);
                }
                match start(&view, token) {
                    Started::Run { record, told } => {
                        let fields = self.ground.fields(&record, fields);
                        let max_hold = told.timeout.map(|it| it + told.stop_grace + FOR_THE_WRITE);
                        let tally = Tally::between(before, &record);
                        let decision = StartDecision::Run { token, record, told, tally };
                        (decision, AtGrant::Grant { fields, max_hold })
                    }
                    Started::Settle(record) => {
                        let fields = self.ground.fields(&record, fields);
                        let tally = Tally::between(before, &record);
                        (StartDecision::Settled { record, tally }, AtGrant::Settle { fields })
                    }
                    Started::Nothing => {
                        let record = record.map(Box::new);
                        (StartDecision::Nothing { record }, AtGrant::TurnAway)
                    }
                }
            }
        };
        *self.started.cell() = Some(decision);
        at_grant
    }
}

/// The end of a run, as somebody reports it: under its own lease, or under another one later (T8).
#[derive(Debug)]
pub(super) struct ReportPart {
    ground: Ground,
    run_id: RunId,
    report: Report,
    reported: Decided<Result<Reported, RecordError>>,
    /// What the write that was decided last adds, until that is counted.
    tally: Decided<Tally>,
}

impl ReportPart {
    pub(super) fn new(ground: Ground, run_id: RunId, report: Report) -> Self {
        Self { ground, run_id, report, reported: Decided::default(), tally: Decided::default() }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.ground.plan
    }

    /// What was decided last; none if nothing was asked yet.
    pub(super) fn reported(&self) -> Option<Result<Reported, RecordError>> {
        self.reported.cell().clone()
    }

    /// What was written, for who counts it: once (T23).
    pub(super) fn take_tally(&self) -> Option<Tally> {
        self.tally.cell().take()
    }

    /// What it comes to over this record, which somebody has the lease of, or nobody.
    pub(super) fn over(
        &self,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
        lease: Lease,
    ) -> Reported {
        report(&self.ground.view(record, store_time, lease), &self.run_id, self.report)
    }

    /// The fields to write under a lease that is ours; none if there is nothing to write.
    fn written(&self, fields: &Fields, store_time: UnixMillis, running: bool) -> Option<Fields> {
        let before = self.ground.record(fields);
        let reported = before
            .as_ref()
            .map_err(Clone::clone)
            .map(|record| self.over(record.as_ref(), store_time.into(), Lease::Here { running }));
        let written = match &reported {
            Ok(Reported::Write { record, .. }) => {
                let before = before.as_ref().ok().and_then(Option::as_ref);
                *self.tally.cell() = Some(Tally::between(before, record));
                Some(self.ground.fields(record, fields))
            }
            Ok(
                Reported::Recorded
                | Reported::AcquireFirst
                | Reported::HeldElsewhere
                | Reported::Superseded,
            )
            | Err(_) => None,
        };
        *self.reported.cell() = Some(reported);
        written
    }
}

impl SavePart for ReportPart {
    fn at_save(
        &self,
        fields: &Fields,
        _token: FencingToken,
        store_time: UnixMillis,
    ) -> Option<Fields> {
        self.written(fields, store_time, true)
    }
}

impl GrantPart for ReportPart {
    fn at_grant(&self, fields: &Fields, _token: FencingToken, store_time: UnixMillis) -> AtGrant {
        let written = self.written(fields, store_time, false);
        written.map_or(AtGrant::TurnAway, |fields| AtGrant::Settle { fields })
    }
}
