//! What operators ask of a schedule: what is known of it, and changes that need no lease (T3, T18).

use super::reading::VersionedPlan;
use super::request::{ScheduleChange, ScheduleInfo};
use super::task::Message;
use crate::coordinator::Coordinator;
use crate::coordinator::error::CallError;
use crate::coordinator::journal::{HappeningKind, News};
use crate::coordinator::request::LockSelector;
use crate::lock::LockPath;
use crate::schedule::{Plan, PlanError, ScheduleRecord};
use crate::timetable::UtcSecond;

/// Writers of one plan that get in each other's way at the most.
const TRIES: usize = 10;

impl Coordinator {
    /// What is known of a schedule.
    ///
    /// # Errors
    /// When there is none, or the store cannot be asked.
    pub async fn schedule(&self, selector: &LockSelector) -> Result<ScheduleInfo, CallError> {
        let path = self.shared.select(selector)?;
        let record = self.shared.record(&path).await?;
        let mut info = self.info(record).await?;
        if let Some(timer) = self.shared.read_status(&path).await? {
            // A listing shows the record alone: it would take a request for each.
            info.state = timer.over(info.state.map(|state| *state)).map(Box::new);
        }
        if info.plan.is_none() && info.state.is_none() {
            return Err(CallError::NoSuchSchedule { path });
        }
        Ok(info)
    }

    /// Pauses or resumes a schedule, or asks for a run by hand (T18). The schedule as it is then. `caller` is for the log.
    ///
    /// # Errors
    /// When the operator does not allow it, there is no such schedule, or the store cannot be asked.
    pub async fn change_schedule(
        &self,
        selector: &LockSelector,
        change: ScheduleChange,
        caller: &str,
    ) -> Result<ScheduleInfo, CallError> {
        if !self.shared.settings.allow_schedule_changes {
            return Err(CallError::ScheduleChangesNotEnabled);
        }
        let path = self.shared.select(selector)?;
        for _ in 0..TRIES {
            let (Some((plan, etag)), store_time) = self.shared.read_plan(&path).await? else {
                return Err(CallError::NoSuchSchedule { path });
            };
            // Which requests are done, to make room for this one.
            let record = match &change {
                ScheduleChange::Trigger { .. } => self.shared.read_scheduled(&path).await?.record,
                ScheduleChange::Pause | ScheduleChange::Resume => None,
            };
            let Some(changed) = changed(&plan, &change, record.as_ref(), store_time)? else {
                return self.schedule(&LockSelector::Path(path)).await;
            };
            if let Some(written) = self.shared.write_plan(&path, changed, Some(etag)).await? {
                self.tell_changed(&path, &change, caller, written);
                return self.schedule(&LockSelector::Path(path)).await;
            }
        }
        Err(CallError::ScheduleUnreadable {
            path,
            problem: format!(
                "others have changed its plan {TRIES} times just now; repeat the call"
            ),
        })
    }

    fn tell_changed(
        &self,
        path: &LockPath,
        change: &ScheduleChange,
        caller: &str,
        written: VersionedPlan,
    ) {
        tracing::warn!(lock = %path, change = change.as_str(), caller, "schedule changed by an operator");
        let news = News::of(HappeningKind::ScheduleChanged, path).saying(change.as_str());
        self.shared.happened(news);
        self.shared.schedules.send(path, Message::PlanWritten(written));
    }
}

/// The plan to write; none if it says so already.
fn changed(
    plan: &Plan,
    change: &ScheduleChange,
    record: Option<&ScheduleRecord>,
    store_time: UtcSecond,
) -> Result<Option<Plan>, CallError> {
    match change {
        ScheduleChange::Pause => Ok(plan.pause()),
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
