//! What operators ask of schedules: one, many, and changes that need no lease (T3, T18).

use futures_util::StreamExt as _;

use super::reading::VersionedPlan;
use super::request::{ScheduleChange, ScheduleInfo, SchedulePage};
use super::task::Message;
use crate::coordinator::Coordinator;
use crate::coordinator::error::CallError;
use crate::coordinator::journal::{HappeningKind, News};
use crate::coordinator::records::{ListRequest, Under};
use crate::coordinator::request::{LockRecord, LockSelector};
use crate::lock::{Labels, LockPath};
use crate::schedule::{Plan, PlanError, ScheduleRecord, is_of_occurrences};
use crate::timetable::UtcSecond;

/// Plans that one listing reads at a time.
const AT_ONCE: usize = 8;
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
        let mut info = self.info(path.clone(), record).await?;
        if let Some(timer) = self.shared.read_status(&path).await? {
            // A listing shows the record alone: it would take a request for each.
            info.state = timer.over(info.state.map(|state| *state)).map(Box::new);
        }
        if info.plan.is_none() && info.state.is_none() {
            return Err(CallError::NoSuchSchedule { path });
        }
        Ok(info)
    }

    /// A page of those schedules that are `visible`; `page_size` is 1 to 200. Schedules that nobody has run yet have no lock,
    /// and are not listed.
    ///
    /// # Errors
    /// When the store cannot be asked, or the page token is not of this listing of this process.
    pub async fn list_schedules(
        &self,
        (under, page_size, page_token): (Under, usize, Option<String>),
        visible: impl Fn(&LockRecord) -> bool + Send + Sync,
    ) -> Result<SchedulePage, CallError> {
        let (states, labels) = (Vec::new(), Labels::default());
        let request = ListRequest { under, states, labels, share: None, page_size, page_token };
        let is_listed = |record: &LockRecord| is_scheduled(record) && visible(record);
        let page = self.list(request, is_listed).await?;
        let infos = page.records.into_iter().map(|record| self.info(record.path.clone(), record));
        let infos: Vec<_> = futures_util::stream::iter(infos).buffered(AT_ONCE).collect().await;
        let schedules = infos.into_iter().collect::<Result<_, _>>()?;
        Ok(SchedulePage { schedules, next_page_token: page.next_page_token })
    }

    async fn info(&self, path: LockPath, record: LockRecord) -> Result<ScheduleInfo, CallError> {
        let plan = match self.shared.read_plan(&path).await {
            Ok((plan, _)) => plan.map(|(plan, _)| Ok(Box::new(Plan::clone(&plan)))),
            Err(CallError::ScheduleUnreadable { problem, .. }) => Some(Err(problem)),
            Err(error) => return Err(error),
        };
        let state = record.schedule.clone().filter(|state| !is_of_occurrences(state));
        let subscribers_here = self.shared.schedules.subscribers(&path);
        Ok(ScheduleInfo { path, plan, state, record, subscribers_here })
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

/// Whether a schedule has run on the lock: occurrences that callers name themselves are none.
fn is_scheduled(record: &LockRecord) -> bool {
    record.schedule.as_deref().is_some_and(|state| !is_of_occurrences(state))
}
