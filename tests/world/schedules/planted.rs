//! A store with a mistake of [`Bug`], between the coordinator and the adapter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::lock::{LeaseId, LockPath};
use leasehold::record::{ETag, Fields};
use leasehold::schedule::{Occasion, Outcome, ScheduleRecord};
use leasehold::store::{
    Acquire, Acquired, DocumentPath, DocumentRead, DocumentWritten, Features, LeaseStore,
    LeaseStoreExt as _, Renewed, StoreAnswer, StoreError, StoreRequest, StoredLock, Write, Written,
};
use leasehold::testing::Asked;
use leasehold::time::{Clock, UnixMillis};

use super::bugs::{ACTED, Bug};
use super::judge;
use crate::world::scene::Scene;
use crate::world::service::{blob_name, etag};
use crate::world::shared::{MachineClock, State, World};

/// How much later the next instant is by the zone data of a sidecar.
const OTHER_ZONE_DATA: i64 = 7;
/// How often a record is read that is read too often.
const MANY: usize = 30;

pub(crate) struct PlantedSchedules {
    world: World,
    bug: Bug,
    sidecar: usize,
    clock: MachineClock,
    inner: Arc<dyn LeaseStore>,
    /// The schedule of each lock as it was read first.
    records: Mutex<BTreeMap<String, ScheduleRecord>>,
    plans: Mutex<BTreeMap<String, DocumentRead>>,
    /// The reset number of each plan as it was read first.
    resets: Mutex<BTreeMap<String, serde_json::Value>>,
    /// The locks whose outcome has an unknown fate.
    unknown: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for PlantedSchedules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PlantedSchedules").finish_non_exhaustive()
    }
}

/// What a write is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    Start,
    /// The outcome of the run that stands in the store, as somebody has reported it.
    Outcome,
    Other,
}

fn schedule(fields: &Fields) -> Option<ScheduleRecord> {
    ScheduleRecord::from_fields(fields).unwrap()
}

impl PlantedSchedules {
    pub(crate) fn wrap(
        world: &World,
        bug: Bug,
        sidecar: usize,
        inner: Arc<dyn LeaseStore>,
    ) -> Arc<dyn LeaseStore> {
        let clock = MachineClock::new(world, sidecar);
        Arc::new(Self {
            world: world.clone(),
            bug,
            sidecar,
            clock,
            inner,
            records: Mutex::default(),
            plans: Mutex::default(),
            resets: Mutex::default(),
            unknown: Mutex::default(),
        })
    }

    fn acts(&self) {
        let now = self.world.now();
        let mut state = self.world.state();
        *state.story.counts.entry(ACTED.to_owned()).or_default() += 1;
        state.story.note(now, || format!("?           {:?} ({})", self.bug, self.sidecar));
    }

    /// The schedule of a lock in the store.
    fn stored(&self, path: &LockPath) -> Option<ScheduleRecord> {
        judge::record_of(self.world.state().service.blob(path.as_str())?)
    }

    fn about(&self, path: &LockPath, write: &Write) -> About {
        let Some(record) = schedule(&write.fields) else { return About::Other };
        let run = self.stored(path).and_then(|stored| stored.run).map(|run| run.token);
        if let Some(new) = &record.run {
            return if run == Some(new.token) { About::Other } else { About::Start };
        }
        let ended = record.ended.first();
        let is_it = ended.is_some_and(|ended| {
            ended.token.is_some() && ended.token == run && ended.outcome != Outcome::Abandoned
        });
        if is_it { About::Outcome } else { About::Other }
    }

    /// The store's time as an answer tells it.
    fn time(&self, time: UnixMillis) -> UnixMillis {
        if self.bug != Bug::OwnClock {
            return time;
        }
        let own = self.clock.wall();
        if own.0.abs_diff(time.0) > 5_000 {
            self.acts();
        }
        own
    }

    /// What is written instead.
    fn changed(&self, path: &LockPath, write: Write, about: About) -> Write {
        let Some(before) = schedule(&write.fields) else { return write };
        let mut record = before.clone();
        match self.bug {
            Bug::AttemptsDropped => {
                record.attempts.failures = 0;
                record.by_hand.failures = 0;
            }
            Bug::MissedTwice => {
                let known = self.stored(path).map_or(0, |stored| stored.missed);
                record.missed += record.missed.saturating_sub(known);
            }
            Bug::WatermarkBeforeWork if about == About::Start => {
                if let Some(Occasion::Scheduled(at)) =
                    record.run.as_ref().map(|run| run.occasion.clone())
                {
                    record.watermark = at;
                }
            }
            Bug::DeadlineDropped => {
                if let Some(run) = &mut record.run {
                    run.deadline = None;
                }
            }
            _ => {}
        }
        if record == before {
            return write;
        }
        self.acts();
        let fields = record.into_fields(write.fields);
        Write { fields, ..write }
    }

    /// What a plan says that is read: [`Bug::RemovalUnread`], [`Bug::ResetUnread`].
    fn misread(&self, path: &LockPath, text: &mut String) {
        let field = match self.bug {
            Bug::RemovalUnread => "removed",
            Bug::ResetUnread => "reset",
            _ => return,
        };
        let mut plan: serde_json::Value = serde_json::from_str(text).unwrap();
        let first = match self.bug {
            Bug::RemovalUnread => serde_json::Value::Null,
            _ => {
                let mut resets = self.resets.lock().unwrap();
                resets.entry(path.to_string()).or_insert_with(|| plan[field].clone()).clone()
            }
        };
        if plan[field] != first {
            self.acts();
            plan[field] = first;
            *text = serde_json::to_string_pretty(&plan).unwrap();
        }
    }

    /// What is read instead.
    fn read(&self, path: &LockPath, fields: Fields) -> Fields {
        let Some(before) = schedule(&fields) else { return fields };
        let mut record = before.clone();
        match self.bug {
            Bug::EarlierRecord => {
                let mut records = self.records.lock().unwrap();
                let first = records.entry(path.to_string()).or_insert_with(|| before.clone());
                record.clone_from(first);
            }
            Bug::UnknownIsSuperseded if self.unknown.lock().unwrap().remove(path.as_str()) => {
                record.run = None;
                record.ended.clear();
            }
            Bug::ResetRemembered => {
                let mut state = self.world.state();
                record.reset = state.schedules.plans_reset(path.as_str()).max(record.reset);
            }
            Bug::NextComputedHere if self.sidecar == 1 => {
                if let Some(next) = &mut record.next {
                    next.0 += OTHER_ZONE_DATA;
                }
            }
            _ => {}
        }
        if record == before {
            return fields;
        }
        self.acts();
        record.into_fields(fields)
    }
}

/// [`Bug::ConditionDropped`]: the request as it arrives, if its condition would have been refused. So each
/// copy counts that the network makes of it.
pub(crate) fn without_condition(
    scene: Scene,
    state: &mut State,
    asked: &Asked,
    now: Duration,
) -> Option<Asked> {
    let is_breaking = asked.header("x-ms-lease-action") == Some("break");
    let is_about = asked.target.contains("comp=lease") || asked.target.contains("comp=metadata");
    if scene != Scene::Schedules(Some(Bug::ConditionDropped)) || !is_about || is_breaking {
        return None;
    }
    let condition = asked.header("if-match")?;
    if condition == etag(state.service.blob(&blob_name(asked))?.version) {
        return None;
    }
    *state.story.counts.entry(ACTED.to_owned()).or_default() += 1;
    state.story.note(now, || format!("?           {:?}", Bug::ConditionDropped));
    let headers = asked.headers.iter().filter(|(name, _)| name != "if-match").cloned().collect();
    Some(Asked { headers, ..asked.clone() })
}

#[async_trait]
impl LeaseStore for PlantedSchedules {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        Ok(match request {
            StoreRequest::Acquire(path, request) => self.acquire(&path, request).await?.into(),
            StoreRequest::Renew { path, lease_id, if_match } => {
                self.renew(&path, lease_id, if_match).await?.into()
            }
            StoreRequest::WriteRecord(path, write) => self.write_record(&path, write).await?.into(),
            StoreRequest::ReadRecord(path) => self.read_record(&path).await?.into(),
            StoreRequest::ReadDocument(DocumentPath::Plan(path)) => {
                self.read_plan(path).await?.into()
            }
            StoreRequest::WriteDocument { document: DocumentPath::Plan(path), text, if_match } => {
                self.write_plan(path, text, if_match).await?.into()
            }
            request => self.inner.call(request).await?,
        })
    }

    fn features(&self) -> Features {
        self.inner.features()
    }
}

impl PlantedSchedules {
    async fn acquire(&self, path: &LockPath, request: Acquire) -> Result<Acquired, StoreError> {
        let asked = request.if_match.clone();
        let mut acquired = self.inner.acquire(path, request).await?;
        acquired.time = self.time(acquired.time);
        // Nobody notices that it was dropped (`without_condition`).
        if let Some(asked) = asked.filter(|_| self.bug == Bug::ConditionDropped) {
            acquired.etag = asked;
        }
        Ok(acquired)
    }

    async fn renew(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        match self.inner.renew(path, lease_id, if_match).await {
            Err(StoreError::Unavailable { .. }) if self.bug == Bug::RenewalAssumed => {
                self.acts();
                Ok(Renewed { time: UnixMillis(0) })
            }
            answer => answer,
        }
    }

    async fn write_record(&self, path: &LockPath, write: Write) -> Result<Written, StoreError> {
        let about = self.about(path, &write);
        let write = self.changed(path, write, about);
        let before = write.if_match.clone().unwrap_or_else(|| ETag("\"0x0\"".into()));
        let is_outcome = about == About::Outcome;
        if self.bug == Bug::AnsweredBeforeStored && is_outcome {
            self.acts();
            let (inner, path) = (Arc::clone(&self.inner), path.clone());
            tokio::spawn(async move { inner.write_record(&path, write).await });
            return Ok(Written { etag: before });
        }
        let answer = self.inner.write_record(path, write).await;
        match (answer, self.bug) {
            (Err(StoreError::Unavailable { .. }), Bug::StartAssumed) if about == About::Start => {
                self.acts();
                Ok(Written { etag: before })
            }
            (Err(StoreError::Unavailable { .. }), Bug::OutcomeAssumed)
            | (Err(StoreError::LeaseLost { .. } | StoreError::Changed), Bug::RefusalIsSuccess)
                if is_outcome =>
            {
                self.acts();
                Ok(Written { etag: before })
            }
            (Err(error @ StoreError::Unavailable { .. }), Bug::UnknownIsSuperseded)
                if is_outcome =>
            {
                self.unknown.lock().unwrap().insert(path.to_string());
                Err(error)
            }
            (answer, _) => answer,
        }
    }

    async fn read_record(&self, path: &LockPath) -> Result<StoredLock, StoreError> {
        if self.bug == Bug::AskedManyTimes {
            self.acts();
            for _ in 0..MANY {
                let _ = self.inner.read_record(path).await;
            }
        }
        let mut stored = self.inner.read_record(path).await?;
        stored.time = self.time(stored.time);
        stored.fields = self.read(path, stored.fields);
        Ok(stored)
    }

    async fn read_plan(&self, path: LockPath) -> Result<DocumentRead, StoreError> {
        let mut read = self.inner.read_document(DocumentPath::Plan(path.clone())).await?;
        read.time = self.time(read.time);
        if self.bug == Bug::PlanReadOnce && read.document.is_some() {
            let mut plans = self.plans.lock().unwrap();
            let first = plans.entry(path.to_string()).or_insert_with(|| read.clone());
            if first.document != read.document {
                self.acts();
                read.document.clone_from(&first.document);
            }
        }
        if let Some(plan) = read.document.as_mut().filter(|_| self.bug == Bug::PauseUnread) {
            let text = plan.text.replace("\"paused\": true", "\"paused\": false");
            if text != plan.text {
                self.acts();
                plan.text = text;
            }
        }
        if let Some(plan) = read.document.as_mut() {
            self.misread(&path, &mut plan.text);
        }
        Ok(read)
    }

    async fn write_plan(
        &self,
        path: LockPath,
        text: String,
        if_match: Option<ETag>,
    ) -> Result<DocumentWritten, StoreError> {
        let plan = DocumentPath::Plan(path);
        let known = if_match.clone().unwrap_or_else(|| ETag("\"0x0\"".into()));
        match (self.inner.write_document(plan.clone(), text.clone(), if_match).await, self.bug) {
            (Err(StoreError::Changed), Bug::PlanOverwritten) => {
                let now =
                    self.inner.read_document(plan.clone()).await?.document.map(|plan| plan.etag);
                self.acts();
                self.inner.write_document(plan, text, now).await
            }
            (Err(StoreError::Unavailable { .. }), Bug::PlanAssumed) => {
                self.acts();
                Ok(DocumentWritten { etag: known, time: self.clock.wall() })
            }
            (answer, _) => answer.map(|it| DocumentWritten { time: self.time(it.time), ..it }),
        }
    }
}
