//! The watermark beside a .NET timer: the status blob that its hosts and the sidecars write in turns (T22).
//!
//! Both sides take the listener lock, so one at a time decides. A host of .NET holds it as long as it lives,
//! and writes no record and no version that a condition could see: what it did shows in the status alone.
//! What is written under our lease goes in this order, in [`Shared::write_status`]:
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
//! 3. **A status that is ahead** of what is to be written is left as it is, and one that is behind is brought
//!    forward: of the two the later one counts everywhere ([`SharedStatus::over`]).
//!
//! The condition holds only if the version was read while the lease was ours. The first is: what was known
//! before the acquire is older than the lease; later ones are taken along from when the machine, which counts
//! the validity, asked for the write. After a version was not met, the status is read anew, and a renewal
//! after that read proves that the lease was ours at the read (S6).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Schedules;
use super::reading::unreadable;
use crate::coordinator::api::error::CallError;
use crate::coordinator::inspect::records::{PATIENCE, store_error};
use crate::coordinator::{Coordinator, Shared};
use crate::lock::{ETag, FencingToken, LockPath, Record, TimerPath};
use crate::schedule::{Plan, Run, ScheduleRecord, SharedStatus, TimerStatusError, starting};
use crate::store::{DocumentPath, DocumentRead, LeaseStoreExt as _, StoreError, Write};
use crate::timetable::UtcSecond;

/// How often the status may change under one write: hosts of .NET write it once a run.
const TRIES: usize = 5;

/// The status of a timer, as it was read or written last.
#[derive(Debug)]
pub(super) struct DotnetTimer {
    timer: TimerPath,
    known: Mutex<Option<KnownStatus>>,
    /// What was decided to be written, until the status says so. Other writes of the record leave the
    /// status alone.
    decided: Mutex<Option<DecidedWrite>>,
}

/// What tells a write that was decided.
type DecidedWrite = (UtcSecond, Option<Run>);

fn decided(record: &ScheduleRecord) -> DecidedWrite {
    (record.watermark, record.run.clone())
}

/// A status and its version; no version if there is none.
#[derive(Clone, Debug)]
struct KnownStatus {
    status: SharedStatus,
    etag: Option<ETag>,
}

/// The status as it was known when a machine asked for a write: while the lease was ours, or before.
///
/// Whoever reads the status later without a lease learns a version that is no proof; so it is taken along
/// from then.
#[derive(Debug)]
pub(in crate::coordinator) struct Status {
    state: Arc<DotnetTimer>,
    known: Option<KnownStatus>,
    decided: Option<DecidedWrite>,
    /// Nothing is granted under the lease yet, so that the schedule can decide again.
    decides: bool,
}

impl DotnetTimer {
    /// What the store knows the status by.
    fn status(&self) -> DocumentPath {
        DocumentPath::TimerStatus(self.timer.clone())
    }

    fn known(&self) -> Option<KnownStatus> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn(&self, known: Option<KnownStatus>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// This record is about to be written.
    pub(super) fn expect(&self, record: &ScheduleRecord) {
        *self.decided() = Some(decided(record));
    }

    fn decided(&self) -> MutexGuard<'_, Option<DecidedWrite>> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status as it was read last.
    pub(super) fn status_known(&self) -> Option<SharedStatus> {
        self.known().map(|known| known.status)
    }

    /// The record as it is to be taken beside it.
    pub(super) fn over(&self, record: Option<ScheduleRecord>) -> Option<ScheduleRecord> {
        match self.status_known() {
            Some(status) => status.over(record),
            None => record,
        }
    }
}

impl Schedules {
    /// What is known of the status of this timer, for as long as somebody keeps it.
    fn dotnet_timer(&self, path: &LockPath, timer: TimerPath) -> Arc<DotnetTimer> {
        let mut timers = self.dotnet_timers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = timers.get(path).and_then(Weak::upgrade) {
            return state;
        }
        timers.retain(|_, state| state.strong_count() > 0);
        let state =
            Arc::new(DotnetTimer { timer, known: Mutex::default(), decided: Mutex::default() });
        timers.insert(path.clone(), Arc::downgrade(&state));
        state
    }

    /// What is known now, for a write of the record: none where no schedule is under way.
    pub(in crate::coordinator) fn status(&self, path: &LockPath, decides: bool) -> Option<Status> {
        let timers = self.dotnet_timers.lock().unwrap_or_else(PoisonError::into_inner);
        let state = timers.get(path).and_then(Weak::upgrade)?;
        let (known, decided) = (state.known(), state.decided().clone());
        Some(Status { state, known, decided, decides })
    }
}

impl Coordinator {
    /// Whether hosts of .NET can share this sidecar's store (T22).
    #[must_use]
    pub fn has_timers(&self) -> bool {
        self.shared.store.features().has_timers
    }
}

impl Shared {
    /// What is known of the status of the .NET timer with this listener lock; none where there are no such
    /// timers.
    pub(super) fn dotnet_timer(&self, path: &LockPath) -> Option<Arc<DotnetTimer>> {
        let timer = self.settings.host.namespace.timer_of(path)?;
        self.store.features().has_timers.then(|| self.schedules.dotnet_timer(path, timer))
    }

    /// Reads the status of the timer beside a schedule, if it is of one that has it.
    pub(super) async fn read_status(
        &self,
        path: &LockPath,
    ) -> Result<Option<Arc<DotnetTimer>>, CallError> {
        let Some(state) = self.dotnet_timer(path) else { return Ok(None) };
        let read = self.asked(PATIENCE, self.store.read_document(state.status())).await;
        let read = read.map_err(|error| store_error(&error))?;
        self.note_time(read.time);
        let known = known(read);
        state.learn(known.as_ref().ok().cloned());
        known.map_err(|error| unreadable(path, broken(&state.timer, &error)))?;
        Ok(Some(state))
    }

    /// A first subscription makes the status, as a host of .NET does when it starts: what is due before the
    /// first run is missed then, whoever is next. Needs no lease: it is written only where there is none.
    pub(super) async fn make_status(
        &self,
        path: &LockPath,
        plan: &Plan,
        record: Option<&ScheduleRecord>,
    ) -> Result<(), CallError> {
        let Some(state) = self.dotnet_timer(path) else { return Ok(()) };
        let Some(KnownStatus { status, etag: None }) = state.known() else { return Ok(()) };
        let Some(made) = status.after(&starting(plan, record)) else { return Ok(()) };
        let text = made.text().to_owned();
        let writing = self.store.write_document(state.status(), text, None);
        match self.asked(PATIENCE, writing).await {
            Ok(written) => {
                state.learn(Some(KnownStatus { status: made, etag: Some(written.etag) }))
            }
            // Somebody was faster, and it is read before anything is decided.
            Err(StoreError::Changed) => state.learn(None),
            Err(error) => return Err(store_error(&error)),
        }
        Ok(())
    }

    /// Writes the status that goes before this write of the record; see the head of this file. `Changed`
    /// where it is to be decided again: only if nothing has been granted under the lease yet (`decides`).
    pub(in crate::coordinator) async fn write_status(
        &self,
        path: &LockPath,
        write: &Write,
        status: Option<Status>,
    ) -> Result<(), StoreError> {
        let Some(status) = status else { return Ok(()) };
        let Status { state, mut known, decided: expected, decides } = status;
        // What cannot be read was not written by a schedule here.
        let Ok(Some(record)) = ScheduleRecord::from_fields(&write.fields) else { return Ok(()) };
        let decided = decided(&record);
        if expected.as_ref() != Some(&decided) {
            return Ok(());
        }
        let starts = is_start(&record, Record::from_fields(&write.fields).token);
        let mut tries = 1;
        loop {
            let KnownStatus { status, etag } = match known.take() {
                Some(known) => known,
                None => self.read_again(path, &state, write).await?,
            };
            if decides && status.is_ahead_of(&record) {
                // What nobody decides again is a plain grant's, which leaves the status alone.
                state.decided().take_if(|expected| *expected == decided);
                return Err(StoreError::Changed);
            }
            let target = match status.after(&record) {
                Some(target) => target,
                None if starts => status,
                None => break,
            };
            let text = target.text().to_owned();
            match self.store.write_document(state.status(), text, etag).await {
                Ok(written) => {
                    self.note_time(written.time);
                    state.learn(Some(KnownStatus { status: target, etag: Some(written.etag) }));
                    break;
                }
                Err(StoreError::Changed) if tries < TRIES => tries += 1,
                Err(StoreError::Changed) => {
                    let source =
                        format!("the status of the timer, {}, changed {TRIES} times", state.timer);
                    return Err(StoreError::Unavailable { sent: false, source: source.into() });
                }
                Err(error) => return Err(error),
            }
        }
        // If the record's own write has to be repeated, the status says so already.
        state.decided().take_if(|expected| *expected == decided);
        Ok(())
    }

    /// Reads the status under the lease: that it was ours at the read is proved after it.
    async fn read_again(
        &self,
        path: &LockPath,
        state: &DotnetTimer,
        write: &Write,
    ) -> Result<KnownStatus, StoreError> {
        let read = self.store.read_document(state.status()).await?;
        self.note_time(read.time);
        let known = known(read).map_err(|error| StoreError::Fatal {
            advice: repair(&state.timer),
            source: error.into(),
        })?;
        self.store.renew(path, write.lease_id, None).await?;
        state.learn(Some(known.clone()));
        Ok(known)
    }
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

fn broken(timer: &TimerPath, error: &TimerStatusError) -> String {
    format!("{error}; {}", repair(timer))
}

/// What can be done about a status that cannot be read.
fn repair(timer: &TimerPath) -> String {
    format!(
        "repair the timer's status, the blob {timer}, or delete it: then the lock's record says what is done, and without one \
         the schedule begins at its first subscription"
    )
}
