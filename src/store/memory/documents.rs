//! The documents beside the locks: plans of schedules, and the statuses of .NET timers (T22).

use super::locks::{MemoryLocks, page};
use crate::lock::{ETag, LockPath, MAX_TIMER_STATUS_BYTES, TimerPath};
use crate::store::plan::check_plan;
use crate::store::timer::check_status;
use crate::store::{
    List, PlanListing, PlanRead, PlanWritten, StoreError, StoreTime, StoredPlan, StoredTimer,
    TimerRead, TimerWritten,
};

/// The operations on documents of [`LeaseStore`](crate::store::LeaseStore), with its contract and its errors.
impl MemoryLocks {
    /// The plan of the lock's schedule, if there is one.
    #[must_use]
    pub fn read_plan(&self, path: &LockPath, time: StoreTime) -> PlanRead {
        PlanRead { plan: self.plans.get(path).cloned(), time }
    }

    /// Writes the plan: in place of the one with this ETag, or as the first.
    ///
    /// # Errors
    /// `Changed`, `ContainerMissing`; `Fatal` for a text that is too long.
    pub fn write_plan(
        &mut self,
        path: &LockPath,
        text: String,
        if_match: Option<&ETag>,
        time: StoreTime,
    ) -> Result<PlanWritten, StoreError> {
        check_plan(&text)?;
        if if_match.is_none() {
            self.check_container(path.container())?;
        }
        if self.plans.get(path).map(|plan| &plan.etag) != if_match {
            return Err(StoreError::Changed);
        }
        let etag = self.next_etag();
        self.plans.insert(path.clone(), StoredPlan { etag: etag.clone(), text });
        Ok(PlanWritten { etag, time })
    }

    /// Deletes the plan, if it still has this ETag.
    ///
    /// # Errors
    /// `Changed`, also when it is gone.
    pub fn delete_plan(&mut self, path: &LockPath, if_match: &ETag) -> Result<(), StoreError> {
        if self.plans.get(path).is_none_or(|plan| plan.etag != *if_match) {
            return Err(StoreError::Changed);
        }
        self.plans.remove(path);
        Ok(())
    }

    /// One page of the locks that have a plan and whose names in the container begin with the prefix, in the
    /// order of their names.
    #[must_use]
    pub fn list_plans(&self, request: &List) -> PlanListing {
        let (plans, continuation) = page(&self.plans, request);
        PlanListing { paths: plans.map(|(path, _)| path.clone()).collect(), continuation }
    }

    /// The status of a timer, if there is one.
    #[must_use]
    pub fn read_timer(&self, timer: &TimerPath, time: StoreTime) -> TimerRead {
        let status = self.timers.get(timer).cloned().map(|mut status| {
            status.text = status.text.chars().take(MAX_TIMER_STATUS_BYTES + 1).collect();
            status
        });
        TimerRead { status, time }
    }

    /// Writes the status of a timer: in place of the one with this ETag, or as the first.
    ///
    /// # Errors
    /// `Changed`, `ContainerMissing`; `Fatal` for a text that is too long.
    pub fn write_timer(
        &mut self,
        timer: &TimerPath,
        text: String,
        if_match: Option<&ETag>,
        time: StoreTime,
    ) -> Result<TimerWritten, StoreError> {
        check_status(&text)?;
        if if_match.is_none() {
            self.check_container(timer.container.as_str())?;
        }
        if self.timers.get(timer).map(|status| &status.etag) != if_match {
            return Err(StoreError::Changed);
        }
        let etag = self.overwrite_timer(timer, text);
        Ok(TimerWritten { etag, time })
    }

    /// Writes the status of a timer as a host of .NET does: over whatever is there.
    pub fn overwrite_timer(&mut self, timer: &TimerPath, text: String) -> ETag {
        let etag = self.next_etag();
        self.timers.insert(timer.clone(), StoredTimer { etag: etag.clone(), text });
        etag
    }
}
