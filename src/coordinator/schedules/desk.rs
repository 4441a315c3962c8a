//! What is known here of one schedule: shared by its task, the holds of its runs, and the calls that complete them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::lock::ETag;
use crate::schedule::{Newest, Plan, ScheduleRecord};
use crate::timetable::UtcSecond;

/// What is known of one schedule.
#[derive(Debug, Default)]
pub(super) struct Desk(Mutex<Known>);

/// The plan and the record as they were read or written last.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The plan, with its version in the store.
    pub(super) plan: Option<(Arc<Plan>, ETag)>,
    /// The store's time when it was asked for, the last time before a start (T18).
    pub(super) plan_at: UtcSecond,
    /// The record; none before the first run, or if it was never read.
    pub(super) record: Option<ScheduleRecord>,
    /// The greatest that was seen (T21).
    pub(super) newest: Option<Newest>,
    /// This sidecar ran the last run that is known: it does not read before it starts the next one (T17).
    pub(super) is_last_runner: bool,
    /// How many streams subscribe to it here.
    pub(super) subscribers: usize,
}

impl Desk {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record is this now. What was final once is not forgotten (T21).
    pub(super) fn learn(&self, record: Option<ScheduleRecord>) {
        let mut known = self.known();
        if let Some(record) = &record {
            let newest = known.newest.unwrap_or_default();
            known.newest = Some(Newest {
                watermark: newest.watermark.max(record.watermark),
                by_hand_done: newest.by_hand_done.max(record.by_hand_done),
            });
        }
        known.record = record;
    }

    pub(super) fn newest(&self) -> Option<Newest> {
        self.known().newest
    }

    pub(super) fn plan(&self) -> Option<Arc<Plan>> {
        self.known().plan.as_ref().map(|(plan, _)| Arc::clone(plan))
    }
}
