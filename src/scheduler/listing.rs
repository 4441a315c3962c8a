//! Listings of schedules (T3): first those whose lock has a record, then those that nobody has run yet, which
//! have only a plan.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _};

use super::Scheduler;
use super::request::{ScheduleInfo, ScheduleListRequest, SchedulePage};
use crate::coordinator::{CallError, ListRequest, LockRecord};
use crate::lock::LockPath;
use crate::record::Labels;
use crate::schedule::{Plan, is_of_occurrences};
use crate::store::{LeaseStoreExt as _, List};

/// Schedules that one listing reads at a time.
const AT_ONCE: usize = 8;
/// Tells the token of a page of plans from that of a page of locks: no prefix begins so.
const PLANS: &str = "plans:";

impl Scheduler {
    /// A page of those schedules that are `visible`. Those that nobody has run yet come last. A page may be
    /// empty and have a token.
    ///
    /// # Errors
    /// When the store cannot be asked, or the page token is not of this listing of this process.
    pub async fn list_schedules(
        &self,
        request: ScheduleListRequest,
        visible: impl Fn(&LockRecord) -> bool + Send + Sync,
    ) -> Result<SchedulePage, CallError> {
        let ScheduleListRequest { under, page_size, page_token } = request;
        let prefix = self.locks.host().prefix(&under)?;
        let container = self.locks.settings().host.namespace.container.clone();
        let plans =
            |limit, continuation| List { container, prefix: prefix.clone(), continuation, limit };
        let of_plans = format!("{PLANS}{prefix}");
        let place = page_token.as_ref().and_then(|token| self.locks.pages().open(&of_plans, token));
        if let Some(place) = place {
            let place = Some(place).filter(|place| !place.is_empty());
            return self.list_plans(plans(page_size, place), &BTreeSet::new(), visible).await;
        }
        let (states, labels) = (Vec::new(), Labels::default());
        let request = ListRequest { under, states, labels, share: None, page_size, page_token };
        let page =
            self.locks.list(request, |record| is_scheduled(record) && visible(record)).await?;
        let listed: BTreeSet<LockPath> =
            page.records.iter().map(|record| record.path.clone()).collect();
        let mut schedules = self.infos(page.records).await?;
        if page.next_page_token.is_some() {
            return Ok(SchedulePage { schedules, next_page_token: page.next_page_token });
        }
        let room = page_size.saturating_sub(schedules.len());
        if room == 0 {
            let next = self.locks.pages().seal(&of_plans, "");
            return Ok(SchedulePage { schedules, next_page_token: Some(next) });
        }
        let rest = self.list_plans(plans(room, None), &listed, visible).await?;
        schedules.extend(rest.schedules);
        Ok(SchedulePage { schedules, next_page_token: rest.next_page_token })
    }

    /// A page of those that have a plan, and no run in the record of their lock. Of `listed` that is known
    /// already.
    async fn list_plans(
        &self,
        list: List,
        listed: &BTreeSet<LockPath>,
        visible: impl Fn(&LockRecord) -> bool + Send + Sync,
    ) -> Result<SchedulePage, CallError> {
        let token_of = format!("{PLANS}{}", list.prefix);
        let page = self.locks.asked(self.locks.store().list_plans(list)).await?;
        let mut unlisted = page.paths;
        unlisted.retain(|path| !listed.contains(path));
        let records =
            unlisted.into_iter().map(|path| async move { self.locks.record(&path).await });
        let records = futures_util::stream::iter(records).buffered(AT_ONCE);
        let mut records: Vec<_> = records.try_collect().await?;
        records.retain(|record| !is_scheduled(record) && visible(record));
        let next = page.continuation;
        Ok(SchedulePage {
            schedules: self.infos(records).await?,
            next_page_token: next.map(|next| self.locks.pages().seal(&token_of, &next)),
        })
    }

    async fn infos(&self, records: Vec<LockRecord>) -> Result<Vec<ScheduleInfo>, CallError> {
        let infos = records.into_iter().map(|record| self.info(record));
        futures_util::stream::iter(infos).buffered(AT_ONCE).try_collect().await
    }

    /// What is known of the schedule on the lock of this record.
    pub(super) async fn info(&self, mut record: LockRecord) -> Result<ScheduleInfo, CallError> {
        let path = record.path.clone();
        let plan = match self.read_plan(&path).await {
            Ok((plan, _)) => plan.map(|(plan, _)| Ok(Box::new(Plan::clone(&plan)))),
            Err(CallError::ScheduleUnreadable { problem, .. }) => Some(Err(problem)),
            Err(error) => return Err(error),
        };
        let state = record.schedule.clone().filter(|state| !is_of_occurrences(state));
        let subscribers_here = self.schedules.subscribers(&path);
        // Before the first run nobody has written the key.
        let stored = &mut record.record;
        if stored.function.is_empty()
            && stored.scope.is_empty()
            && let Some(key) = self.locks.settings().host.namespace.key_of(&path)
        {
            stored.function = key.function().to_owned();
            stored.scope = key.scope().to_owned();
            stored.mode = key.mode().as_str().to_owned();
        }
        Ok(ScheduleInfo { path, plan, state, record, subscribers_here })
    }
}

/// Whether a schedule has run on the lock: occurrences that callers name themselves are none.
fn is_scheduled(record: &LockRecord) -> bool {
    record.schedule.as_deref().is_some_and(|state| !is_of_occurrences(state))
}
