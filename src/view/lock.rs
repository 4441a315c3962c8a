//! The JSON document of a lock.

use std::collections::BTreeMap;

use leasehold_client::{
    BreakMode, BreakNote, LockKey, LockMode, LockRecord, LockState, Reservation,
};
use serde::Serialize;

use super::moment;
use super::schedule::StateView;

/// A lock's record as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LockView {
    pub(crate) lock_path: String,
    pub(crate) state: &'static str,
    pub(crate) fencing_token: Option<u64>,
    holder: String,
    /// Somebody who leaves no record may have the lock instead: a WebJobs host.
    pub(crate) holder_is_last_recorded: bool,
    pub(crate) host_id: String,
    pub(crate) host_type: String,
    pub(crate) key: Option<KeyView>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) acquired_at: Option<String>,
    /// How long the lease in the store lasts, and when it was renewed last: only of a lock that is held
    /// through this sidecar.
    lease_duration_seconds: Option<f64>,
    pub(crate) renewed_at: Option<String>,
    pub(crate) resting_until: Option<String>,
    pub(crate) written_at: Option<String>,
    pub(crate) waiters_here: u32,
    pub(crate) held_here: bool,
    pub(crate) break_note: Option<BreakView>,
    permits: u32,
    permit: u32,
    checkpoint_version: Option<u64>,
    checkpoint_size: Option<u32>,
    schedule: Option<StateView>,
    /// Which sidecar acquired it.
    sidecar: String,
    share: String,
    priority: u32,
    yields: bool,
    reserved: Option<ReservedView>,
    /// Until when the sidecar that answers keeps it from all, since its former holder there may not know its
    /// end.
    kept_until: Option<String>,
}

/// For whom a lock is kept, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ReservedView {
    priority: u32,
    until: Option<String>,
}

/// A lock's name as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct KeyView {
    pub(crate) function: String,
    pub(crate) scope: String,
    pub(crate) mode: &'static str,
}

/// A break as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BreakView {
    pub(crate) reason: String,
    pub(crate) broken_by: String,
    pub(crate) broken_at: Option<String>,
    fencing_token: Option<u64>,
    mode: Option<&'static str>,
    pub(crate) for_priority: Option<u32>,
}

impl From<&LockRecord> for LockView {
    fn from(record: &LockRecord) -> Self {
        Self {
            lock_path: record.lock_path.clone(),
            state: state(record),
            fencing_token: record.fencing_token,
            holder: record.holder.clone(),
            holder_is_last_recorded: record.holder_is_last_recorded,
            host_id: record.host_id.clone(),
            host_type: record.host_type.clone(),
            key: record.key.as_ref().map(KeyView::from),
            labels: record.labels.clone(),
            acquired_at: moment(record.acquired_at),
            lease_duration_seconds: record.lease_duration.map(|lease| lease.as_secs_f64()),
            renewed_at: moment(record.renewed_at),
            resting_until: moment(record.resting_until),
            written_at: moment(record.written_at),
            waiters_here: record.waiters_here,
            held_here: record.held_here,
            break_note: record.break_note.as_ref().map(BreakView::from),
            permits: record.permits,
            permit: record.permit,
            checkpoint_version: record.checkpoint_version,
            checkpoint_size: record.checkpoint_size,
            schedule: record.schedule.as_ref().map(StateView::from),
            sidecar: record.sidecar.clone(),
            share: record.share.clone(),
            priority: record.priority,
            yields: record.yields,
            reserved: record.reserved.as_ref().map(ReservedView::from),
            kept_until: moment(record.kept_until),
        }
    }
}

impl From<&Reservation> for ReservedView {
    fn from(reserved: &Reservation) -> Self {
        Self { priority: reserved.priority, until: moment(reserved.until) }
    }
}

impl From<&LockKey> for KeyView {
    fn from(key: &LockKey) -> Self {
        let mode = if key.mode == LockMode::Listener { "listener" } else { "function" };
        Self { function: key.function.clone(), scope: key.scope.clone(), mode }
    }
}

impl From<&BreakNote> for BreakView {
    fn from(note: &BreakNote) -> Self {
        Self {
            reason: note.reason.clone(),
            broken_by: note.broken_by.clone(),
            broken_at: moment(note.broken_at),
            fencing_token: note.fencing_token,
            mode: note.mode.map(|mode| if mode == BreakMode::Now { "now" } else { "run_out" }),
            for_priority: note.for_priority,
        }
    }
}

/// What a lock is doing.
pub(crate) fn state(record: &LockRecord) -> &'static str {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the API says to take a state that is not known for held"
    )]
    match record.state {
        LockState::Available => "available",
        LockState::Breaking => "breaking",
        LockState::Resting => "resting",
        _ => "held",
    }
}
