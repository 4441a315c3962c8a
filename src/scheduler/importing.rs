//! How a schedule begins where another scheduler has stopped (T22): written under the lease, as everything
//! that runs decide.

use super::Scheduler;
use super::reading::unreadable;
use crate::coordinator::{Brought, CallError, Decider, KeyRequest, Settling, Target};
use crate::hold::Stored;
use crate::lock::{Layout, LockPath};
use crate::record::Record;
use crate::schedule::{CannotImport, Import, TakeOver, TakeOverError, check_key};
use crate::timetable::UtcSecond;

/// By how many seconds the other scheduler's clock may be ahead of the store's.
const AHEAD: i64 = 5;

/// Lets a schedule begin where another scheduler has stopped.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The schedule's lock.
    pub key: KeyRequest,
    /// Where the other one has stopped.
    pub take_over: TakeOver,
    /// Only say what would be done: nothing is acquired and nothing written.
    pub dry_run: bool,
}

/// A schedule begins there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The schedule's lock.
    pub path: LockPath,
    /// False: that stands there already, and nothing was written.
    pub is_new: bool,
}

/// Why a schedule does not begin there. Nothing was written, unless the call says otherwise.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ImportError {
    /// The store could not be asked, or the lock has no path here.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The schedule that is there does not allow it.
    #[error("cannot import to {path}: {source}")]
    Refused {
        /// The schedule's lock.
        path: LockPath,
        /// Why it does not allow it.
        source: TakeOverError,
    },
    /// The other scheduler's clock was wrong: nothing would run until then.
    #[error(
        "cannot import to {path}: the timer's last run, {done_up_to}, lies ahead of the store's time, {store_time}; \
         was the clock or the zone of its host wrong?"
    )]
    Ahead {
        /// The schedule's lock.
        path: LockPath,
        /// Up to when the other one is done.
        done_up_to: UtcSecond,
        /// The store's time.
        store_time: UtcSecond,
    },
    /// In the layout `webjobs` a schedule and the timer share one status.
    #[error(
        "in the layout `webjobs` there is nothing to import: a schedule with the timer's name in mode LISTENER goes on from \
         the timer's own status (docs/beside-webjobs.md); or import into another layout (paths.layout)"
    )]
    Layout,
    /// Somebody has the lock.
    #[error("cannot import to {path}: its lock is held; repeat the command when it is free")]
    Busy {
        /// The schedule's lock.
        path: LockPath,
    },
}

impl Scheduler {
    /// Lets a schedule begin where another scheduler has stopped. May be repeated.
    ///
    /// # Errors
    /// When a schedule is there that does not allow it, its lock is held, or the store cannot be asked.
    pub async fn import_schedule(&self, request: ImportRequest) -> Result<Imported, ImportError> {
        let ImportRequest { key, take_over, dry_run } = request;
        let target = self.locks.host().resolve(&key)?;
        if self.locks.host().namespace.layout == Layout::WebJobs {
            return Err(ImportError::Layout);
        }
        check_key(&target.key).map_err(|error| CallError::ScheduleKey(error.to_string()))?;
        let path = target.path.clone();
        let reads = tokio::join!(self.read_plan(&path), self.read_scheduled(&path));
        let ((plan, store_time), seen) = (reads.0?, reads.1?);
        let done_up_to = take_over.done_up_to;
        if done_up_to.seconds_since(store_time) > AHEAD {
            return Err(ImportError::Ahead { path, done_up_to, store_time });
        }
        let import = Import { take_over, plan: plan.map(|(plan, _)| plan) };
        let refused = |source| ImportError::Refused { path: path.clone(), source };
        let is_new = import.over(seen.record.as_ref()).map_err(refused)?.is_some();
        if is_new && !dry_run {
            return self.write_import(&target, import, seen.stored).await;
        }
        Ok(Imported { path, is_new })
    }

    async fn write_import(
        &self,
        target: &Target,
        import: Import,
        seen: Option<Box<Stored>>,
    ) -> Result<Imported, ImportError> {
        let path = target.path.clone();
        // Nobody is granted anything: who ran last, if anybody did, goes on standing there.
        let found = seen.as_ref().map(|stored| Record::from_fields(&stored.fields));
        let record = found.map_or_else(
            || Record {
                holder: self.locks.settings().holder.clone(),
                host_type: target.host_type.to_string(),
                ..Record::for_key(&target.key)
            },
            |found| Record {
                holder: found.holder,
                host_type: found.host_type,
                labels: found.labels,
                ..Record::for_key(&target.key)
            },
        );
        let (decider, mut decisions) = Decider::new(move |found| import.write_over(found));
        let brought = Brought { decider, seen };
        let duration = self.locks.settings().lease_duration;
        match self.locks.settle_at(&path, record, duration, brought).await? {
            Settling::Written => Ok(Imported { path, is_new: true }),
            Settling::TurnedAway => turned_away(path, decisions.last()),
            Settling::Busy => Err(ImportError::Busy { path }),
        }
    }
}

/// Nothing was written: it stands there already, or may not.
fn turned_away(
    path: LockPath,
    decided: Option<Result<bool, CannotImport>>,
) -> Result<Imported, ImportError> {
    match decided {
        Some(Err(CannotImport::Refused(source))) => Err(ImportError::Refused { path, source }),
        Some(Err(CannotImport::Unreadable(error))) => Err(unreadable(&path, error).into()),
        Some(Ok(false)) => Ok(Imported { path, is_new: false }),
        Some(Ok(true)) | None => Err(ImportError::Busy { path }),
    }
}
