//! What the decisions of this room come to for the record of a lock: its fields in, and the fields to write
//! out. Whoever has the lease asks, and writes what is answered, in one write (T6, T8).

use std::sync::Arc;
use std::time::Duration;

use super::import::{TakeOver, TakeOverError};
use super::machine::{
    Lease, Newest, Report, Reported, Started, Told, View, report, start, went_back,
};
use super::occurrence::{Claimed, Concluded, Occurrence, claim, conclude, withdraw};
use super::plan::Plan;
use super::record::{RecordError, Run, ScheduleRecord};
use super::run_id::RunId;
use super::shared_status::SharedStatus;
use super::tally::Tally;
use crate::lock::{FencingToken, LockPath};
use crate::record::{Found, Verdict};
use crate::time::UnixMillis;
use crate::timetable::UtcSecond;

/// How long before the end of its hold a run that has no outcome is recorded as timed out (T12): a store
/// needs about so long.
pub const FOR_THE_WRITE: Duration = Duration::from_secs(2);

/// What a caller that names `occurrence` writes beside its token (T1). With the tokens in `ungranted` it was
/// to be granted it before, and was not (T6).
#[must_use]
pub fn claim_over(
    found: &Found,
    occurrence: Occurrence,
    ungranted: &[FencingToken],
) -> (Verdict, Claimed) {
    let now = found.store_time.into();
    let record = match ScheduleRecord::from_fields(&found.fields) {
        Ok(record) => record,
        Err(error) => return (Verdict::Nothing, Claimed::Unreadable(error)),
    };
    let (write, claimed) = claim(record.as_ref(), occurrence, found.token, ungranted, now);
    let fields = write.map(|record| record.into_fields(found.fields.clone()));
    let is_granted = matches!(claimed, Claimed::Granted { .. });
    let verdict = match fields {
        Some(fields) if is_granted => Verdict::Grant { fields, max_hold: None },
        Some(fields) => Verdict::Write { fields },
        None => Verdict::Nothing,
    };
    (verdict, claimed)
}

/// What is written of a start that was to be granted with one of these tokens and came to nothing (T6).
#[must_use]
pub fn withdraw_over(found: &Found, ungranted: &[FencingToken]) -> Verdict {
    // What cannot be read does not have this run.
    let record = ScheduleRecord::from_fields(&found.fields).ok().flatten();
    match withdraw(record.as_ref(), ungranted) {
        Some(record) => Verdict::Write { fields: record.into_fields(found.fields.clone()) },
        None => Verdict::Nothing,
    }
}

/// What a holder writes that says how its occurrence has ended (T8).
#[must_use]
pub fn conclude_over(
    found: &Found,
    occurrence: Occurrence,
    report: Report,
) -> (Verdict, Concluded) {
    // What cannot be read does not have this run.
    let record = ScheduleRecord::from_fields(&found.fields).ok().flatten();
    let concluded = conclude(record.as_ref(), occurrence, found.token, report);
    let verdict = match &concluded {
        Concluded::Write(record) => {
            Verdict::Write { fields: record.clone().into_fields(found.fields.clone()) }
        }
        Concluded::Recorded | Concluded::NotThere => Verdict::Nothing,
    };
    (verdict, concluded)
}

/// What a schedule's decisions are made over, beside the record.
#[derive(Clone, Debug)]
pub struct DecisionInput {
    /// The lock of the schedule.
    pub path: LockPath,
    /// The plan as it was read last.
    pub plan: Arc<Plan>,
    /// See [`View::plan_at`]; none where any time will do.
    pub plan_at: Option<UtcSecond>,
    /// See [`View::newest`].
    pub newest: Option<Newest>,
    /// See [`View::lease_duration`].
    pub lease_duration: Duration,
    /// See [`View::queued`].
    pub queued: Duration,
    /// What the store's clock had surely reached when this was put together (T7). Answers tell it in whole
    /// seconds; several of them together tell more.
    pub store_time: UnixMillis,
}

/// How a run has ended, as its caller has said, or as was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnded {
    /// The run that is over.
    pub run_id: RunId,
    /// As it counts against the attempts.
    pub report: Report,
    /// When that was said or seen first, by the store's clock as it was known then.
    pub at: UtcSecond,
}

/// What is known beside the record, when a decision is made.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// How runs have ended, where this sidecar was told, or saw it, and the store does not say so yet (T8).
    pub reports: Vec<RunEnded>,
    /// The status of the .NET timer beside the lock, if there is one (T22).
    pub status: Option<SharedStatus>,
}

impl Beside {
    /// How this run has ended, where the store does not say so yet.
    #[must_use]
    pub fn reported(&self, run: &Run) -> Option<&RunEnded> {
        self.reports.iter().find(|ended| ended.run_id.is_of(run))
    }

    /// The schedule's part of a record, as it is to be taken beside the timer's status.
    fn record(&self, found: &Found) -> Result<Option<ScheduleRecord>, RecordError> {
        let record = ScheduleRecord::from_fields(&found.fields)?;
        Ok(match &self.status {
            Some(status) => status.over(record),
            None => record,
        })
    }
}

impl DecisionInput {
    /// What is decided over, with this record and beside what else is known.
    #[must_use]
    pub fn view<'a>(
        &'a self,
        record: Option<&'a ScheduleRecord>,
        store_time: UtcSecond,
        lease: Lease,
        beside: &Beside,
    ) -> View<'a> {
        let run = record.and_then(|record| record.run.as_ref());
        let ended = run.and_then(|run| beside.reported(run));
        View {
            path: &self.path,
            plan: &self.plan,
            plan_at: self.plan_at.unwrap_or(store_time),
            record,
            newest: self.newest,
            store_time,
            lease,
            queued: self.queued,
            lease_duration: self.lease_duration,
            reported: ended.map(|ended| ended.report),
            ended_at: ended.map_or(store_time, |ended| ended.at),
        }
    }
}

/// What a start has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// What is written, and granted.
    pub what: Starting,
    /// The record that was found under the lease had gone back (T21).
    pub went_back: bool,
}

/// What is written of a start, and granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starting {
    /// This record, and the run is granted with this token.
    Run {
        /// The token of the grant.
        token: FencingToken,
        /// The schedule's part of the record.
        record: Box<ScheduleRecord>,
        /// What the run is told.
        told: Box<Told>,
        /// What the record adds to the one before, for who counts it.
        tally: Tally,
    },
    /// This record, and nothing runs now.
    Settled {
        /// The schedule's part of the record.
        record: Box<ScheduleRecord>,
        /// What the record adds to the one before, for who counts it.
        tally: Tally,
    },
    /// Nothing: under this record there was nothing to do.
    Nothing {
        /// The schedule's part of the record, if there is one.
        record: Option<Box<ScheduleRecord>>,
    },
    /// Nothing: the record cannot be read.
    Unreadable(RecordError),
}

/// What a schedule writes beside the token of a lease that was acquired for it (T6).
#[must_use]
pub fn start_over(found: &Found, ground: &DecisionInput, beside: &Beside) -> (Verdict, Start) {
    let record = match beside.record(found) {
        Ok(record) => record,
        Err(error) => {
            let what = Starting::Unreadable(error);
            return (Verdict::Nothing, Start { what, went_back: false });
        }
    };
    let store_time = found.store_time.max(ground.store_time).into();
    let lease = Lease::Here { running: false };
    let view = ground.view(record.as_ref(), store_time, lease, beside);
    let went_back = went_back(&view);
    let (verdict, what) = match start(&view, found.token) {
        Started::Run { record: after, told } => {
            let fields = after.clone().into_fields(found.fields.clone());
            let max_hold = told.timeout.map(|it| it + told.stop_grace + FOR_THE_WRITE);
            let tally = Tally::between(record.as_ref(), &after);
            let what = Starting::Run { token: found.token, record: after, told, tally };
            (Verdict::Grant { fields, max_hold }, what)
        }
        Started::Settle(after) => {
            let fields = after.clone().into_fields(found.fields.clone());
            let tally = Tally::between(record.as_ref(), &after);
            (Verdict::Write { fields }, Starting::Settled { record: after, tally })
        }
        Started::Nothing => (Verdict::Nothing, Starting::Nothing { record: record.map(Box::new) }),
    };
    (verdict, Start { what, went_back })
}

/// What a report has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportDecided {
    /// What the run's caller is told, once what is to be written is written.
    pub reported: Result<Reported, RecordError>,
    /// What the write adds to the record before, for who counts it; none without a write (T23).
    pub tally: Option<Tally>,
}

/// How a run has ended, and over what that is decided.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// What it is decided over.
    pub ground: DecisionInput,
    /// Which run has ended, and how.
    pub ended: RunEnded,
}

impl RunReport {
    /// What it comes to over this record, which somebody has the lease of, or nobody (T8).
    #[must_use]
    pub fn over(
        &self,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
        lease: Lease,
        beside: &Beside,
    ) -> Reported {
        let RunEnded { run_id, report: how, at } = &self.ended;
        let view = View { ended_at: *at, ..self.ground.view(record, store_time, lease, beside) };
        report(&view, run_id, *how)
    }

    /// What is written of it under a lease of ours: the one of the run itself, if it is `running` under it,
    /// or another one later (T8).
    #[must_use]
    pub fn write_over(
        &self,
        found: &Found,
        running: bool,
        beside: &Beside,
    ) -> (Verdict, ReportDecided) {
        let before = match beside.record(found) {
            Ok(before) => before,
            Err(error) => {
                return (Verdict::Nothing, ReportDecided { reported: Err(error), tally: None });
            }
        };
        let (store_time, lease) = (found.store_time.into(), Lease::Here { running });
        let reported = self.over(before.as_ref(), store_time, lease, beside);
        let (verdict, tally) = match &reported {
            Reported::Write { record, .. } => {
                let fields = record.clone().into_fields(found.fields.clone());
                (Verdict::Write { fields }, Some(Tally::between(before.as_ref(), record)))
            }
            Reported::Recorded
            | Reported::AcquireFirst
            | Reported::HeldElsewhere
            | Reported::Superseded => (Verdict::Nothing, None),
        };
        (verdict, ReportDecided { reported: Ok(reported), tally })
    }
}

/// What an import is decided over: what it takes over, and the plan beside the lock.
#[derive(Clone, Debug)]
pub struct Import {
    /// What is taken over.
    pub take_over: TakeOver,
    /// The plan, if somebody has subscribed to the schedule.
    pub plan: Option<Arc<Plan>>,
}

/// Why an import writes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannotImport {
    /// The record does not allow it.
    Refused(TakeOverError),
    /// The record cannot be read.
    Unreadable(RecordError),
}

impl Import {
    /// The record to write over this one; none if it says so already.
    ///
    /// # Errors
    /// When the record does not allow it.
    pub fn over(
        &self,
        record: Option<&ScheduleRecord>,
    ) -> Result<Option<ScheduleRecord>, TakeOverError> {
        self.take_over.over(record, self.plan.as_deref())
    }

    /// What is written of it under a lease of ours, and whether that is anything new (T3).
    pub fn write_over(&self, found: &Found) -> (Verdict, Result<bool, CannotImport>) {
        let planned = ScheduleRecord::from_fields(&found.fields)
            .map_err(CannotImport::Unreadable)
            .and_then(|record| self.over(record.as_ref()).map_err(CannotImport::Refused));
        match planned {
            Ok(Some(record)) => {
                (Verdict::Write { fields: record.into_fields(found.fields.clone()) }, Ok(true))
            }
            Ok(None) => (Verdict::Nothing, Ok(false)),
            Err(error) => (Verdict::Nothing, Err(error)),
        }
    }
}
