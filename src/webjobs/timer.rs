//! The watermark beside a .NET timer: the status blob that its hosts and the sidecars write in turns (T22).
//!
//! Both sides take the listener lock, so one at a time decides. A host of .NET holds it as long as it lives,
//! and writes no record and no version that a condition could see: what it did shows in the status alone.
//! What is written under our lease goes in this order, by [`StatusWrite::write`]; the first status of all
//! is made without a lease, by `scheduler/reading.rs`:
//!
//! 1. **A start.** The status is written as it is, with If-Match on the version that was decided over; then
//!    the record with the token and the run. If somebody wrote the status since, it is read and decided
//!    again. The write also makes a new version, so that a sidecar that has lost the lease and wakes up meets
//!    another version than it knows.
//! 2. **An outcome that is final.** First the status, then the record. A crash between the two leaves a
//!    status that is ahead of its record: both sides take the occurrence for done, and the run's own outcome
//!    stands in the status, so that its caller is answered RECORDED. The other order would leave a record
//!    that no host of .NET reads, and the occurrence would be run again by one. Nothing is lost either:
//!    neither is written before the run has said that it is over.
//! 3. **A status that is ahead** of what is to be written is left as it is, and one that is behind is
//!    brought forward: of the two the later one counts everywhere ([`SharedStatus::over`]). Only the first
//!    write after a reset takes it back, as the operator has asked for (T25).
//!
//! The condition holds only if the version was read while the lease was ours, or before. So it is the one
//! that the write was decided over, which was under the lease: what is read of the status later, without a
//! lease, is no proof. After a version was not met, the status is read anew, and a renewal after that read
//! proves that the lease was ours at the read (S6).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::SharedStore;
use crate::lock::{FencingToken, LeaseId, LockPath, TimerPath};
use crate::record::{ETag, Record};
use crate::schedule::{Plan, Run, ScheduleRecord, SharedStatus, TimerStatusError, starting};
use crate::store::{DocumentPath, DocumentRead, LeaseStoreExt as _, StoreError, Write};
use crate::time::{Instant, UnixMillis};
use crate::timetable::UtcSecond;

/// How often the status may change under one write: hosts of .NET write it once a run.
const TRIES: usize = 5;

/// The .NET timers beside the schedules of this sidecar, by their listener locks.
#[derive(Debug, Default)]
pub(crate) struct DotnetTimers(Mutex<KnownTimers>);

#[derive(Debug, Default)]
struct KnownTimers {
    timers: HashMap<LockPath, Weak<DotnetTimer>>,
    /// The store's time as a status told it last, and when it was told.
    heard: Option<(UnixMillis, Instant)>,
}

/// The status of a timer, as it was read or written last.
#[derive(Debug)]
pub(crate) struct DotnetTimer {
    path: TimerPath,
    known: Mutex<Option<KnownStatus>>,
    /// What was decided to be written, until the status says so. Other writes of the record leave the
    /// status alone.
    decided: Mutex<Option<DecidedWrite>>,
}

/// A status and its version; no version if there is none.
#[derive(Clone, Debug)]
pub(crate) struct KnownStatus {
    status: SharedStatus,
    etag: Option<ETag>,
}

/// Whether the schedule can decide a write again, if the status is ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decides {
    /// Nothing is granted under the lease yet.
    Again,
    /// A run goes on under the lease.
    Once,
    /// The schedule was reset: what the status says does not count (T25).
    Anew,
}

/// A write that was decided.
#[derive(Clone, Debug)]
struct DecidedWrite {
    what: DecidedRecord,
    decides: Decides,
    /// The status that it was decided over.
    known: Option<KnownStatus>,
}

/// The status that goes before a write, as it stood when the write was asked for.
#[derive(Debug)]
pub(super) struct StatusWrite {
    timer: Arc<DotnetTimer>,
    record: Box<ScheduleRecord>,
    decided: DecidedWrite,
    /// Whether the write grants a run.
    starts: bool,
}

/// What tells the record that was decided from others.
type DecidedRecord = (UtcSecond, Option<Run>);

/// A status that cannot be read, and what can be done about it.
#[derive(Debug, thiserror::Error)]
#[error("{why}; {}", repair(path))]
pub(crate) struct StatusError {
    path: TimerPath,
    why: TimerStatusError,
}

impl KnownStatus {
    pub(crate) const fn status(&self) -> &SharedStatus {
        &self.status
    }
}

impl DotnetTimers {
    /// The timer with this listener lock, for as long as it is kept.
    pub(crate) fn of(&self, lock: &LockPath, timer: TimerPath) -> Arc<DotnetTimer> {
        let timers = &mut self.known().timers;
        if let Some(known) = timers.get(lock).and_then(Weak::upgrade) {
            return known;
        }
        timers.retain(|_, timer| timer.strong_count() > 0);
        let timer = Arc::new(DotnetTimer {
            path: timer,
            known: Mutex::default(),
            decided: Mutex::default(),
        });
        timers.insert(lock.clone(), Arc::downgrade(&timer));
        timer
    }

    /// What is to be written before this write of a record: nothing where no schedule is under way, or the
    /// write is none that a schedule has decided.
    pub(super) fn before(&self, lock: &LockPath, write: &Write) -> Option<StatusWrite> {
        let timer = self.known().timers.get(lock).and_then(Weak::upgrade)?;
        // What cannot be read was not written by a schedule here.
        let record = ScheduleRecord::from_fields(&write.fields).ok().flatten()?;
        let slot = timer.decided().clone();
        let decided = slot.filter(|slot| slot.what == decided(&record))?;
        let starts = is_start(&record, Record::from_fields(&write.fields).token);
        Some(StatusWrite { timer, record: Box::new(record), decided, starts })
    }

    /// A status told the store's time (T7).
    pub(super) fn hear(&self, time: UnixMillis, answered: Instant) {
        self.known().heard = Some((time, answered));
    }

    /// The store's time that a status told since this was asked last, and when it was told (T7).
    pub(crate) fn heard(&self) -> Option<(UnixMillis, Instant)> {
        self.known().heard.take()
    }

    fn known(&self) -> MutexGuard<'_, KnownTimers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DotnetTimer {
    /// What the store knows the status by.
    pub(crate) fn document(&self) -> DocumentPath {
        DocumentPath::TimerStatus(self.path.clone())
    }

    /// The status as it was read or written last.
    pub(crate) fn known_status(&self) -> Option<KnownStatus> {
        self.known().clone()
    }

    /// The record as it is to be taken beside it.
    pub(crate) fn over(&self, record: Option<ScheduleRecord>) -> Option<ScheduleRecord> {
        match self.known_status() {
            Some(known) => known.status.over(record),
            None => record,
        }
    }

    /// The status was read, without a lease.
    ///
    /// # Errors
    /// When it cannot be understood: nothing is known of it then.
    pub(crate) fn learn(&self, read: DocumentRead) -> Result<(), StatusError> {
        let read = known(read);
        *self.known() = read.as_ref().ok().cloned();
        let broken = |why| StatusError { path: self.path.clone(), why };
        read.map(drop).map_err(broken)
    }

    /// This record is about to be written; it was decided over a status.
    pub(crate) fn expect(
        &self,
        record: &ScheduleRecord,
        known: Option<KnownStatus>,
        decides: Decides,
    ) {
        *self.decided() = Some(DecidedWrite { what: decided(record), decides, known });
    }

    /// A first subscription makes the status, as a host of .NET does when it starts: what is due before the
    /// first run is missed then, whoever is next. Needs no lease: it is written only where there is none.
    /// What it is to say; none if there is one.
    pub(crate) fn to_make(
        &self,
        plan: &Plan,
        record: Option<&ScheduleRecord>,
    ) -> Option<SharedStatus> {
        let Some(KnownStatus { status, etag: None }) = self.known().clone() else { return None };
        status.after(&starting(plan, record))
    }

    /// The status that was to be made was made; none: another writer was faster, and what that wrote is read
    /// before anything is decided.
    pub(crate) fn made(&self, made: Option<(SharedStatus, ETag)>) {
        *self.known() = made.map(|(status, etag)| KnownStatus { status, etag: Some(etag) });
    }

    /// Nothing is to be written of this any more: the status says it, or nobody is to say it.
    fn forget(&self, what: &DecidedRecord) {
        self.decided().take_if(|slot| slot.what == *what);
    }

    fn known(&self) -> MutexGuard<'_, Option<KnownStatus>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decided(&self) -> MutexGuard<'_, Option<DecidedWrite>> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StatusWrite {
    /// Writes the status that goes before this write of the record; see the head of this file.
    ///
    /// # Errors
    /// `Changed` where the write is to be decided again; what the store says.
    pub(super) async fn write(
        self,
        store: &SharedStore,
        lock: &LockPath,
        lease_id: LeaseId,
    ) -> Result<(), StoreError> {
        let Self { timer, record, decided: DecidedWrite { what, decides, mut known }, starts } =
            self;
        let mut tries = 1;
        loop {
            let KnownStatus { status, etag } = match known.take() {
                Some(known) => known,
                None => timer.read_again(store, lock, lease_id, &what).await?,
            };
            if decides == Decides::Again && status.is_ahead_of(&record) {
                timer.forget(&what);
                return Err(StoreError::Changed);
            }
            let target = match decides {
                Decides::Anew => Some(status.saying(&record)),
                Decides::Again | Decides::Once => status.after(&record),
            };
            let target = match target {
                Some(target) => target,
                None if starts => status,
                None => break,
            };
            let text = target.text().to_owned();
            match store.write_document(timer.document(), text, etag).await {
                Ok(written) => {
                    timer.made(Some((target, written.etag)));
                    break;
                }
                Err(StoreError::Changed) if tries < TRIES => tries += 1,
                Err(StoreError::Changed) => {
                    let source =
                        format!("the status of the timer, {}, changed {TRIES} times", timer.path);
                    return Err(StoreError::Unavailable { sent: false, source: source.into() });
                }
                Err(error) => return Err(error),
            }
        }
        // If the record's own write has to be repeated, the status says so already.
        timer.forget(&what);
        Ok(())
    }
}

impl DotnetTimer {
    /// Reads the status under the lease: that it was ours at the read is proved after it.
    async fn read_again(
        &self,
        store: &SharedStore,
        lock: &LockPath,
        lease_id: LeaseId,
        what: &DecidedRecord,
    ) -> Result<KnownStatus, StoreError> {
        let read = store.read_document(self.document()).await?;
        let read = known(read).map_err(|error| StoreError::Fatal {
            advice: repair(&self.path),
            source: error.into(),
        })?;
        store.renew(lock, lease_id, None).await?;
        *self.known() = Some(read.clone());
        if let Some(slot) = self.decided().as_mut().filter(|slot| slot.what == *what) {
            // For the next try of the same write.
            slot.known = Some(read.clone());
        }
        Ok(read)
    }
}

fn decided(record: &ScheduleRecord) -> DecidedRecord {
    (record.watermark, record.run.clone())
}

/// Whether the write grants a run: it has the token of the write itself.
fn is_start(record: &ScheduleRecord, token: Option<FencingToken>) -> bool {
    record.run.as_ref().is_some_and(|run| Some(run.token) == token)
}

fn known(read: DocumentRead) -> Result<KnownStatus, TimerStatusError> {
    let Some(stored) = read.document else {
        return Ok(KnownStatus { status: SharedStatus::default(), etag: None });
    };
    let status = SharedStatus::parse(&stored.text)?;
    status.check(read.time.into())?;
    Ok(KnownStatus { status, etag: Some(stored.etag) })
}

/// What can be done about a status that cannot be read.
fn repair(timer: &TimerPath) -> String {
    format!(
        "repair the timer's status, the blob {timer}, or delete it: then the lock's record says what is done, and without one \
         the schedule begins at its first subscription"
    )
}
