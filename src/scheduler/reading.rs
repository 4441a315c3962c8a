//! What the store says of a schedule: its record, its plan, and the time.

use std::sync::Arc;

use super::Scheduler;
use super::state::ScheduleState;
use crate::coordinator::{CallError, understood};
use crate::hold::Stored;
use crate::lock::LockPath;
use crate::record::ETag;
use crate::schedule::{Lease, Plan, ScheduleRecord};
use crate::store::{DocumentPath, DocumentRead, LeaseStoreExt as _, StoreError};
use crate::time::UnixMillis;
use crate::timetable::UtcSecond;
use crate::webjobs::DotnetTimer;

/// A plan and its version in the store.
pub(super) type VersionedPlan = (Arc<Plan>, ETag);

/// A lock's record as it was read for its schedule.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The lock; none if it does not exist.
    pub(super) stored: Option<Box<Stored>>,
    /// The schedule's part; none if it has none.
    pub(super) record: Option<ScheduleRecord>,
}

impl Seen {
    pub(super) fn lease(&self) -> Lease {
        match &self.stored {
            Some(stored) if !stored.free => Lease::Elsewhere,
            Some(_) | None => Lease::Free,
        }
    }
}

impl Scheduler {
    /// Reads the record of a schedule's lock.
    ///
    /// Beside a .NET timer its status is read too: the later of the two watermarks counts (T22).
    pub(super) async fn read_scheduled(&self, path: &LockPath) -> Result<Seen, CallError> {
        let reads = tokio::join!(self.read_lock(path), self.read_status(path));
        let (stored, timer) = (reads.0?, reads.1?);
        let record = stored.as_ref().map(|stored| ScheduleRecord::from_fields(&stored.fields));
        let record = record.transpose().map_err(|error| unreadable(path, error))?.flatten();
        let record = match timer {
            Some(timer) => timer.over(record),
            None => record,
        };
        Ok(Seen { stored, record })
    }

    async fn read_lock(&self, path: &LockPath) -> Result<Option<Box<Stored>>, CallError> {
        match self.locks.asked(self.locks.store().read_record(path)).await {
            Ok(lock) => {
                self.note_time(lock.time);
                Ok(Some(Box::new(understood::stored(lock))))
            }
            Err(StoreError::NotFound | StoreError::ContainerMissing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is known of the status of the .NET timer with this listener lock; none where there are no such
    /// timers (T22).
    pub(super) fn dotnet_timer(&self, path: &LockPath) -> Option<Arc<DotnetTimer>> {
        let timer = self.locks.host().namespace.timer_of(path)?;
        self.has_timers().then(|| self.locks.dotnet_timers().of(path, timer))
    }

    /// Reads the status of the timer beside a schedule, if it is of one that has it.
    pub(super) async fn read_status(
        &self,
        path: &LockPath,
    ) -> Result<Option<Arc<DotnetTimer>>, CallError> {
        let Some(timer) = self.dotnet_timer(path) else { return Ok(None) };
        let read = self.locks.asked(self.locks.store().read_document(timer.document())).await?;
        self.note_time(read.time);
        timer.learn(read).map_err(|error| unreadable(path, error))?;
        Ok(Some(timer))
    }

    /// A first subscription makes the status of the timer beside it, where there is none.
    pub(super) async fn make_status(
        &self,
        path: &LockPath,
        plan: &Plan,
        record: Option<&ScheduleRecord>,
    ) -> Result<(), CallError> {
        let Some(timer) = self.dotnet_timer(path) else { return Ok(()) };
        let Some(status) = timer.to_make(plan, record) else { return Ok(()) };
        let text = status.text().to_owned();
        let writing = self.locks.store().write_document(timer.document(), text, None);
        match self.locks.asked(writing).await {
            Ok(written) => timer.made(Some((status, written.etag))),
            Err(StoreError::Changed) => timer.made(None),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Reads the plan of a schedule; and the store's time.
    pub(super) async fn read_plan(
        &self,
        path: &LockPath,
    ) -> Result<(Option<VersionedPlan>, UtcSecond), CallError> {
        let reading = self.locks.store().read_document(DocumentPath::Plan(path.clone()));
        let DocumentRead { document, time } = self.locks.asked(reading).await?;
        self.note_time(time);
        let plan = document.map(|stored| match Plan::from_text(&stored.text) {
            Ok(plan) => Ok((Arc::new(plan), stored.etag)),
            Err(error) => Err(unreadable(path, with_source(&error))),
        });
        Ok((plan.transpose()?, time.into()))
    }

    /// Writes a plan over the version that was read, or where there was none; none if it has changed since.
    pub(super) async fn write_plan(
        &self,
        path: &LockPath,
        plan: Plan,
        if_match: Option<ETag>,
    ) -> Result<Option<VersionedPlan>, CallError> {
        let document = DocumentPath::Plan(path.clone());
        let writing = self.locks.store().write_document(document, plan.to_text(), if_match);
        match self.locks.asked(writing).await {
            Ok(written) => {
                self.note_time(written.time);
                Ok(Some((Arc::new(plan), written.etag)))
            }
            Err(StoreError::Changed) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a plan that was deleted again, as it is known here (T16); whether it is known.
    pub(super) async fn restore_plan(
        &self,
        path: &LockPath,
        state: &ScheduleState,
    ) -> Result<bool, CallError> {
        let Some(plan) = state.plan().filter(|plan| plan.removed().is_none()) else {
            return Ok(false);
        };
        tracing::warn!(lock = %path, "the schedule's plan was deleted: it is written again");
        if let Some(written) = self.write_plan(path, Plan::clone(&plan), None).await? {
            state.known().plan = Some(written);
        }
        Ok(true)
    }

    pub(super) fn note_time(&self, time: UnixMillis) {
        self.schedules.clock.note(time, self.locks.clock().now());
    }

    /// The store's time, as nearly as it is known, and never ahead of it (T7); the machine's own before the
    /// first answer.
    pub(super) fn store_time(&self) -> UnixMillis {
        self.known_time().unwrap_or_else(|| self.locks.clock().wall())
    }

    /// The same; none before the first answer.
    pub(super) fn known_time(&self) -> Option<UnixMillis> {
        if let Some((time, answered)) = self.locks.dotnet_timers().heard() {
            self.schedules.clock.note(time, answered);
        }
        self.schedules.clock.now(self.now())
    }
}

pub(super) fn unreadable(path: &LockPath, problem: impl ToString) -> CallError {
    CallError::ScheduleUnreadable { path: path.clone(), problem: problem.to_string() }
}

/// An error and what it comes from, in one line.
pub(super) fn with_source(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error} ({source})"))
}
