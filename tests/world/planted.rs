//! Mistakes that the checks must find: in what stands between the coordinator and its store, in limits, in
//! clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::lock::{LeaseId, LockPath};
use leasehold::record::{ETag, Fields, Record};
use leasehold::store::{
    Acquire, Acquired, BreakNote, Features, LeaseBroken, LeaseEnd, LeaseState, LeaseStore,
    LeaseStoreExt as _, Renewed, StoreAnswer, StoreError, StoreRequest, StoredLock, Write, Written,
};
use leasehold::time::UnixMillis;

use crate::kit::{self, listed};
use crate::world::notices;
use crate::world::scene::Scene;
use crate::world::schedules::PlantedSchedules;
use crate::world::shared::World;

const CHECKPOINT: &str = "leasehold_checkpoint";

listed! {
    /// A mistake, of the product or in its use.
    pub(crate) enum Bug {
        /// A refusal by policy is taken for a lost lease (S8).
        PolicyIsLoss,
        /// A token that was refused is used again and again (S8).
        OldTokenKept,
        /// That a container was seen before is forgotten (S18).
        ContainerForgotten,
        /// A renewal of unknown outcome is taken for done (S2).
        RenewalAssumed,
        /// A renewal of a broken lease is taken for done (S8).
        BreakIgnored,
        /// A release is taken for done whatever the store says (S13).
        ReleaseAlwaysFine,
        /// Limits on holds refuse a resume (S16).
        LimitsRefuseResumes,
        /// A resume goes on with the bounds that the hold began with (S16).
        ExtendForgotten,
        /// Everything is asked for many times (S12).
        AskedManyTimes,
        /// A record write of unknown outcome is taken for done (S5).
        WriteAssumed,
        /// A lease is never given back (S13).
        NeverReleased,
        /// The note of a break is not read (S17).
        NoteUnread,
        /// A rest is not stored (S11).
        RestForgotten,
        /// A lock that somebody else has made and leased since is taken for new (S5, S11).
        TakenForNew,
        /// Nobody is told that the holder may be another than the last recorded (beside WebJobs).
        LastRecordedHidden,
        /// A sidecar that is replaced drains: it tells its holders to end (S15).
        HandOverDrains,
        /// The lease is given back as soon as it was renewed once more (S13, S15).
        HandOverReleases,
        /// The last renewal is taken for done (S2, S15).
        HandOverRenewalAssumed,
        /// A sidecar that was replaced goes on renewing what it has left (S15).
        RenewsOnAfterHandOver,
        /// A hold is released before its save is answered (S26).
        ReleasedBeforeSaved,
        /// A save of unknown outcome is told as stored (S27).
        SaveAssumed,
        /// What is read beside an acquire is the record of an earlier grant (S25).
        EarlierCheckpoint,
        /// A grant writes a record of its own, without what was saved (S25).
        CheckpointDropped,
        /// Somebody else's break is taken for a notice (S22).
        NoticeOfAnother,
        /// A break that ends the lease at once is not seen once a holder was told its notice (S22).
        EndNotLearned,
        /// A break ends whatever lease it meets, seconds after the lock was looked at (S17).
        BreaksWithoutMatch,
        /// A break that meets a changed record is tried again, whosever that is (S17).
        BreaksWhatChanged,
        /// A hold that was handed on is never written to the record (S10).
        HandOffNotRecorded,
    }
}

impl kit::Planted for Bug {
    fn first_seed(self) -> u64 {
        match self {
            Self::PolicyIsLoss | Self::NoticeOfAnother => 40,
            Self::NoteUnread => 80,
            Self::TakenForNew => 95,
            Self::ReleaseAlwaysFine => 135,
            Self::ExtendForgotten => 375,
            Self::OldTokenKept => 920,
            Self::EndNotLearned => 6_730,
            Self::BreaksWhatChanged => 370,
            _ => 0,
        }
    }

    fn rules(self) -> &'static [&'static str] {
        match self {
            Self::PolicyIsLoss | Self::OldTokenKept => &["S8:"],
            Self::ContainerForgotten => &["S18:"],
            Self::RenewalAssumed | Self::BreakIgnored => &["S1:"],
            Self::HandOverDrains | Self::HandOverRenewalAssumed => &["S15:"],
            Self::HandOverReleases => &["S1:", "S15:"],
            // Nobody is served any more, and its lease is left over.
            Self::RenewsOnAfterHandOver => &["S6:", "S12:"],
            Self::ReleaseAlwaysFine => &["S13:"],
            Self::LimitsRefuseResumes => &["S16:"],
            Self::ExtendForgotten | Self::RestForgotten => &["S11:"],
            // A notice that is told as a loss.
            Self::NoteUnread => &["S17:", "S22:"],
            Self::ReleasedBeforeSaved => &["S26:"],
            Self::SaveAssumed => &["S24:"],
            Self::EarlierCheckpoint => &["S23:", "S25:"],
            Self::CheckpointDropped => &["S25:"],
            Self::NoticeOfAnother | Self::EndNotLearned => &["S22:"],
            Self::BreaksWithoutMatch | Self::BreaksWhatChanged => &["S17:"],
            Self::HandOffNotRecorded => &["S10:"],
            Self::LastRecordedHidden => &["WebJobs:"],
            Self::AskedManyTimes | Self::NeverReleased => &["S12:"],
            Self::WriteAssumed => &["S5:"],
            // Its token is forgotten, and its rest.
            Self::TakenForNew => &["S5:", "S11:"],
        }
    }
}

type Connect = Box<dyn Fn(Life) -> Arc<dyn LeaseStore> + Send + Sync>;

/// Whose way to the service it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It ends with its sidecar.
    Sidecar,
    /// It goes on for ever.
    Endless,
}

/// A store with a mistake.
pub(crate) struct Planted {
    world: World,
    sidecar: usize,
    inner: Arc<dyn LeaseStore>,
    connect: Connect,
    /// The fields of each lock that were read first.
    first_read: Mutex<BTreeMap<String, Fields>>,
}

impl fmt::Debug for Planted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Planted").finish_non_exhaustive()
    }
}

impl Planted {
    pub(crate) fn wrap(
        world: &World,
        sidecar: usize,
        connect: impl Fn(Life) -> Arc<dyn LeaseStore> + Send + Sync + 'static,
    ) -> Arc<dyn LeaseStore> {
        let inner = connect(Life::Sidecar);
        match world.scene() {
            Scene::Holds(Some(_)) => {}
            Scene::Schedules(Some(bug)) => {
                return PlantedSchedules::wrap(world, bug, sidecar, inner);
            }
            Scene::Holds(None) | Scene::Schedules(None) => return inner,
        }
        let (world, connect) = (world.clone(), Box::new(connect));
        Arc::new(Self { world, sidecar, inner, connect, first_read: Mutex::default() })
    }

    /// Whether a write changes the checkpoint.
    fn is_save(&self, path: &LockPath, write: &Write) -> bool {
        let state = self.world.state();
        let blob = state.service.blob(path.as_str());
        let stored = blob.and_then(|blob| blob.metadata.get(&format!("x-ms-meta-{CHECKPOINT}")));
        write.fields.get(CHECKPOINT) != stored
    }

    /// Whether a write brings the record up to a hold that was handed on, and nothing more.
    fn only_records(&self, path: &LockPath, write: &Write) -> bool {
        let Record { token, generation, .. } = Record::from_fields(&write.fields);
        let handed_on = token.is_some_and(|token| token.hand_offs() > 0);
        handed_on && generation == 1 && !self.is_save(path, write)
    }

    fn has(&self, bug: Bug) -> bool {
        self.world.has(bug)
    }

    /// What a sidecar that is replaced makes of a renewal that was done.
    async fn renewed_once_more(&self, path: &LockPath, lease_id: LeaseId) {
        if self.has(Bug::HandOverReleases) {
            let _ = self.inner.release(path, lease_id, None).await;
        }
        if self.has(Bug::RenewsOnAfterHandOver) {
            let (store, path) = ((self.connect)(Life::Endless), path.clone());
            let third = self.world.lease() / 3;
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(third).await;
                    let _ = store.renew(&path, lease_id, None).await;
                }
            });
        }
    }
}

/// How long a break takes that goes by nothing.
const UNDER_WAY: Duration = Duration::from_secs(4);

const TAKEN: StoreError = StoreError::LeaseLost { how: LeaseEnd::Taken };

#[async_trait]
impl LeaseStore for Planted {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        Ok(match request {
            StoreRequest::Acquire(path, request) => self.acquire(&path, request).await?.into(),
            StoreRequest::Renew { path, lease_id, if_match } => {
                self.renew(&path, lease_id, if_match).await?.into()
            }
            StoreRequest::Release { path, lease_id, if_match } => {
                self.release(&path, lease_id, if_match).await?.into()
            }
            StoreRequest::BreakLease { path, note, if_match } => {
                self.break_lease(&path, note, if_match).await?.into()
            }
            StoreRequest::WriteRecord(path, write) => self.write_record(&path, write).await?.into(),
            StoreRequest::ReadRecord(path) => self.read_record(&path).await?.into(),
            StoreRequest::ReadBreakNote(path) => self.read_break_note(&path).await?.into(),
            request => self.inner.call(request).await?,
        })
    }

    fn features(&self) -> Features {
        self.inner.features()
    }
}

impl Planted {
    async fn acquire(&self, path: &LockPath, request: Acquire) -> Result<Acquired, StoreError> {
        if self.has(Bug::ContainerForgotten) {
            return (self.connect)(Life::Sidecar).acquire(path, request).await;
        }
        if self.has(Bug::AskedManyTimes) {
            for _ in 0..30 {
                let _ = self.inner.read_record(path).await;
            }
        }
        let made = request.if_match.is_none();
        let acquired = self.inner.acquire(path, request).await?;
        let created = acquired.created || made && self.has(Bug::TakenForNew);
        Ok(Acquired { created, ..acquired })
    }

    async fn renew(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        let fine = || Ok(Renewed { time: UnixMillis(0) });
        let is_replaced = self.world.state().hand_overs.is_ending(self.sidecar);
        if is_replaced && self.has(Bug::HandOverRenewalAssumed) {
            return fine();
        }
        let answer = self.inner.renew(path, lease_id, if_match).await;
        if is_replaced && answer.is_ok() {
            self.renewed_once_more(path, lease_id).await;
        }
        match answer {
            Err(StoreError::Unavailable { .. }) if self.has(Bug::RenewalAssumed) => fine(),
            Err(StoreError::LeaseLost { how: LeaseEnd::Broken }) if self.has(Bug::BreakIgnored) => {
                fine()
            }
            answer => answer,
        }
    }

    async fn release(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<(), StoreError> {
        if self.has(Bug::NeverReleased) {
            return Ok(());
        }
        let answer = self.inner.release(path, lease_id, if_match).await;
        if self.has(Bug::ReleaseAlwaysFine) { Ok(()) } else { answer }
    }

    async fn break_lease(
        &self,
        path: &LockPath,
        note: BreakNote,
        if_match: ETag,
    ) -> Result<LeaseBroken, StoreError> {
        let newest = async || self.inner.read_record(path).await.map(|stored| stored.etag);
        if self.has(Bug::BreaksWithoutMatch) {
            tokio::time::sleep(UNDER_WAY).await;
            return self.inner.break_lease(path, note, newest().await?).await;
        }
        match self.inner.break_lease(path, note.clone(), if_match).await {
            Err(StoreError::Changed) if self.has(Bug::BreaksWhatChanged) => {
                self.inner.break_lease(path, note, newest().await?).await
            }
            answer => answer,
        }
    }

    async fn write_record(&self, path: &LockPath, mut write: Write) -> Result<Written, StoreError> {
        if self.has(Bug::HandOffNotRecorded)
            && self.only_records(path, &write)
            && let Some(etag) = write.if_match
        {
            return Ok(Written { etag });
        }
        if self.has(Bug::RestForgotten) {
            write.fields.retain(|name, _| !name.contains("resting"));
        }
        if self.has(Bug::CheckpointDropped) && !self.is_save(path, &write) {
            write.fields.remove(CHECKPOINT);
        }
        let assumed =
            self.has(Bug::WriteAssumed) || self.has(Bug::SaveAssumed) && self.is_save(path, &write);
        let before = write.if_match.clone();
        match (self.inner.write_record(path, write).await, before) {
            (Err(StoreError::Fatal { .. }), _) if self.has(Bug::PolicyIsLoss) => Err(TAKEN),
            (Err(StoreError::Unavailable { .. }), Some(etag)) if assumed => Ok(Written { etag }),
            (answer, _) => answer,
        }
    }

    async fn read_record(&self, path: &LockPath) -> Result<StoredLock, StoreError> {
        let mut stored = self.inner.read_record(path).await?;
        if self.has(Bug::EarlierCheckpoint) {
            let mut first_read = self.first_read.lock().unwrap();
            let first = first_read.entry(path.to_string()).or_insert_with(|| stored.fields.clone());
            stored.fields.clone_from(first);
        }
        if self.has(Bug::EndNotLearned) && stored.lease == LeaseState::Broken {
            stored.lease = LeaseState::Breaking;
        }
        Ok(stored)
    }

    async fn read_break_note(&self, path: &LockPath) -> Result<Option<BreakNote>, StoreError> {
        let note = self.inner.read_break_note(path).await;
        match note {
            Ok(_) if self.has(Bug::NoteUnread) => Ok(None),
            Ok(None) if self.has(Bug::NoticeOfAnother) => {
                let record = Record::from_fields(&self.inner.read_record(path).await?.fields);
                Ok(Some(notices::made_up(record.token)))
            }
            note => note,
        }
    }
}
