//! Whether a schedule still needs its lock (T21).

use std::time::Duration;

use anyhow::Context as _;

use crate::lock::LockPath;
use crate::schedule::{Plan, ScheduleRecord};
use crate::store::{
    DocumentPath, LeaseStore, LeaseStoreExt as _, StoreError, StoredDocument, StoredLock,
};
use crate::timetable::UtcSecond;

/// How many periods a schedule may not have run for.
const PERIODS: usize = 2;

/// Whether the lock has a schedule, or the plan of one.
pub(super) async fn is_there(
    store: &dyn LeaseStore,
    path: &LockPath,
    lock: &StoredLock,
) -> anyhow::Result<bool> {
    let is_recorded = !matches!(ScheduleRecord::from_fields(&lock.fields), Ok(None));
    Ok(is_recorded || read_plan(store, path).await?.is_some())
}

/// Why the lock stays for its schedule; none if it has none, or one that nobody has run for long.
///
/// The plan is read of locks whose records know no schedule too: one that was subscribed to has not run yet.
pub(super) async fn needs(
    store: &dyn LeaseStore,
    path: &LockPath,
    lock: &StoredLock,
    idle: Duration,
) -> anyhow::Result<Option<String>> {
    let record = match ScheduleRecord::from_fields(&lock.fields) {
        Ok(record) => record,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let plan = match read_plan(store, path).await {
        Ok(plan) => plan,
        Err(error @ StoreError::Fatal { .. }) => return Ok(Some(error.chain())),
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot read the plan of the schedule {path}"));
        }
    };
    let plan = match plan.map(|plan| Plan::from_text(&plan.text)).transpose() {
        Ok(plan) => plan,
        Err(error) => return Ok(Some(format!("{:#}", anyhow::Error::from(error)))),
    };
    if plan.as_ref().is_some_and(|plan| plan.is_paused() && plan.removed().is_none()) {
        let reason = "its schedule is paused, and the pause would be forgotten; resume the schedule if it is no \
            longer needed";
        return Ok(Some(reason.to_owned()));
    }
    let now = UtcSecond(i64::try_from(lock.time.0 / 1_000).unwrap_or(i64::MAX));
    let reason = needed_until(plan.as_ref(), record.as_ref(), idle)
        .filter(|(_, until)| now < *until)
        .map(|(used, until)| {
            format!("its schedule was last in use at {used}: it is deleted from {until} on")
        });
    Ok(reason)
}

async fn read_plan(
    store: &dyn LeaseStore,
    path: &LockPath,
) -> Result<Option<StoredDocument>, StoreError> {
    Ok(store.read_document(DocumentPath::Plan(path.clone())).await?.document)
}

/// The latest instant that shows that the schedule is used, and until when that counts; none without a
/// schedule.
fn needed_until(
    plan: Option<&Plan>,
    record: Option<&ScheduleRecord>,
    idle: Duration,
) -> Option<(UtcSecond, UtcSecond)> {
    let due = record.map(|record| record.next.unwrap_or(record.watermark));
    let Some(plan) = plan else {
        return due.map(|due| (due, later(due, idle)));
    };
    // T25: until its subscribers elsewhere have been told.
    if let Some(removed) = plan.removed() {
        return Some((removed.at, later(removed.at, idle)));
    }
    let asked = plan.requests().iter().map(|request| request.at);
    let said = [Some(plan.since()), plan.next(), plan.resumed(), due].into_iter().flatten();
    let used = said.chain(asked).max()?;
    let periods = plan.definition().timetable.occurrences_after(used).take(PERIODS);
    Some((used, later(periods.last().unwrap_or(used), idle)))
}

fn later(at: UtcSecond, span: Duration) -> UtcSecond {
    UtcSecond(at.0.saturating_add_unsigned(span.as_secs()))
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
