//! What operators ask of a schedule: what is known of it, and changes that need no lease (T3, T18).

use super::Scheduler;
use super::reading::{VersionedPlan, unreadable};
use super::request::{ScheduleChange, ScheduleInfo};
use super::task::Message;
use crate::coordinator::{CallError, LockSelector, ScheduleEventKind};
use crate::lock::LockPath;
use crate::schedule::{Intervention, Plan, PlanError, ScheduleRecord};
use crate::timetable::UtcSecond;

/// By how many seconds a watermark may be ahead of the store's time.
const AHEAD: i64 = 5;
/// Writers of one plan that get in each other's way at the most.
const TRIES: usize = 10;

impl Scheduler {
    /// What is known of a schedule.
    ///
    /// # Errors
    /// When there is none, or the store cannot be asked.
    pub async fn schedule(&self, selector: &LockSelector) -> Result<ScheduleInfo, CallError> {
        let path = self.locks.host().select(selector)?;
        let record = self.locks.record(&path).await?;
        let mut info = self.info(record).await?;
        if let Some(timer) = self.read_status(&path).await? {
            // A listing shows the record alone: it would take a request for each.
            info.state = timer.over(info.state.map(|state| *state)).map(Box::new);
        }
        if info.plan.is_none() && info.state.is_none() {
            return Err(CallError::NoSuchSchedule { path });
        }
        Ok(info)
    }

    /// Pauses or resumes a schedule, asks for a run by hand (T18), removes or resets it (T25). The schedule
    /// as it is then. `caller` is for the log, and for people.
    ///
    /// # Errors
    /// When the operator does not allow it, there is no such schedule, or the store cannot be asked.
    pub async fn change_schedule(
        &self,
        selector: &LockSelector,
        change: ScheduleChange,
        caller: &str,
    ) -> Result<ScheduleInfo, CallError> {
        if !self.locks.settings().allow_schedule_changes {
            return Err(CallError::ScheduleChangesNotEnabled);
        }
        let path = self.locks.host().select(selector)?;
        let subscribers = self.schedules.subscribers(&path);
        if matches!(change, ScheduleChange::Remove { force: false, .. }) && subscribers > 0 {
            return Err(CallError::ScheduleHasSubscribers { path, subscribers });
        }
        for _ in 0..TRIES {
            let (plan, store_time) = self.read_plan(&path).await?;
            let Some((plan, etag)) = plan else {
                let state = self.schedules.state(&path);
                if let Some(state) = state
                    && self.restore_plan(&path, &state).await?
                {
                    continue;
                }
                return Err(CallError::NoSuchSchedule { path });
            };
            // Which requests are done, to make room for this one.
            let record = match matches!(change, ScheduleChange::Trigger { .. }) {
                true => self.read_scheduled(&path).await?.record,
                false => None,
            };
            if let Some(removed) = plan.removed() {
                return match matches!(change, ScheduleChange::Remove { .. }) {
                    true => self.schedule(&LockSelector::Path(path)).await,
                    false => Err(CallError::removed(&path, removed)),
                };
            }
            let changed = changed(&plan, &change, caller, record.as_ref(), store_time)?;
            let Some(changed) = changed else {
                return self.schedule(&LockSelector::Path(path)).await;
            };
            if let Some(written) = self.write_plan(&path, changed, Some(etag)).await? {
                self.tell_changed(&path, &change, caller, written);
                return self.schedule(&LockSelector::Path(path)).await;
            }
        }
        let problem =
            format!("others have changed its plan {TRIES} times just now; repeat the call");
        Err(unreadable(&path, problem))
    }

    fn tell_changed(
        &self,
        path: &LockPath,
        change: &ScheduleChange,
        caller: &str,
        written: VersionedPlan,
    ) {
        let reason = match change {
            ScheduleChange::Remove { reason, .. } | ScheduleChange::Reset { reason, .. } => reason,
            ScheduleChange::Pause | ScheduleChange::Resume | ScheduleChange::Trigger { .. } => "",
        };
        let change = change.as_str();
        self.observe(path, ScheduleEventKind::Changed { change, caller, reason }, None);
        self.schedules.send(path, Message::PlanWritten(written));
    }
}

/// The plan to write; none if it says so already.
fn changed(
    plan: &Plan,
    change: &ScheduleChange,
    caller: &str,
    record: Option<&ScheduleRecord>,
    store_time: UtcSecond,
) -> Result<Option<Plan>, CallError> {
    let intervention = |reason: &String| Intervention {
        at: store_time,
        reason: reason.clone(),
        caller: caller.to_owned(),
    };
    match change {
        ScheduleChange::Remove { reason, .. } => Ok(plan.remove(intervention(reason))),
        ScheduleChange::Reset { reason, watermark, revision } => {
            match watermark.filter(|at| at.seconds_since(store_time) > AHEAD) {
                Some(at) => Err(CallError::WatermarkAhead { at, now: store_time }),
                None => Ok(Some(plan.reset_to(*watermark, *revision, intervention(reason)))),
            }
        }
        ScheduleChange::Pause => Ok(plan.pause(store_time)),
        ScheduleChange::Resume => Ok(plan.resume(store_time)),
        ScheduleChange::Trigger { request_id } => {
            match plan.trigger(request_id, record, store_time) {
                Ok(triggered) => Ok(triggered.write),
                Err(PlanError::Full) => Err(CallError::TooManyTriggers),
                Err(error) => Err(CallError::TriggerId(error.to_string())),
            }
        }
    }
}
