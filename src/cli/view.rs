//! The JSON documents of grants and locks; docs/cli.md lists their fields.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_client::{
    BreakMode, BreakNote, Busy, Checkpoint, Grant, LockKey, LockMode, LockRecord, Reservation,
    Validity,
};
use serde::Serialize;

use super::record::{reason, state};
use super::schedule::StateView;
use super::sharing::{status_text, status_word};
use super::times::moment;

/// A lock's record as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LockView {
    pub(super) lock_path: String,
    pub(super) state: &'static str,
    pub(super) fencing_token: Option<u64>,
    holder: String,
    /// Somebody who leaves no record may have the lock instead: a WebJobs host.
    pub(super) holder_is_last_recorded: bool,
    pub(super) host_id: String,
    pub(super) host_type: String,
    pub(super) key: Option<KeyView>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) acquired_at: Option<String>,
    /// How long the lease in the store lasts, and when it was renewed last: only of a lock that is held
    /// through this sidecar.
    lease_duration_seconds: Option<f64>,
    pub(super) renewed_at: Option<String>,
    pub(super) resting_until: Option<String>,
    pub(super) written_at: Option<String>,
    pub(super) waiters_here: u32,
    pub(super) held_here: bool,
    pub(super) break_note: Option<BreakView>,
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
    pub(super) function: String,
    pub(super) scope: String,
    pub(super) mode: &'static str,
}

/// A break as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BreakView {
    pub(super) reason: String,
    pub(super) broken_by: String,
    pub(super) broken_at: Option<String>,
    fencing_token: Option<u64>,
    mode: Option<&'static str>,
    pub(super) for_priority: Option<u32>,
}

/// A grant as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GrantView {
    pub(super) lease_id: String,
    pub(super) fencing_token: u64,
    pub(super) lock_path: String,
    host_id: String,
    acquired_at: Option<String>,
    pub(super) expires_at: Option<String>,
    validity: ValidityView,
    pub(super) permit: u32,
    checkpoint: Option<CheckpointView>,
}

/// A checkpoint as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CheckpointView {
    version: u64,
    size: usize,
    value_base64: String,
    /// The value, if it is text.
    text: Option<String>,
    fencing_token: u64,
    saved_at: Option<String>,
}

/// A validity as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ValidityView {
    /// The end on the boot clock of the kernel with this boot id.
    boot_id: String,
    valid_until_seconds: f64,
    valid_for_seconds: f64,
}

/// A lock that is busy, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BusyView {
    reason: &'static str,
    retry_after_seconds: f64,
    held_permits: u32,
    /// Why a priority did not free the lock, in a word.
    priority_status: Option<&'static str>,
    /// The same with what to do, for people.
    priority_advice: Option<String>,
    lock: Option<LockView>,
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

impl From<&Grant> for GrantView {
    fn from(grant: &Grant) -> Self {
        Self {
            lease_id: grant.lease_id.clone(),
            fencing_token: grant.fencing_token,
            lock_path: grant.lock_path.clone(),
            host_id: grant.host_id.clone(),
            acquired_at: moment(grant.acquired_at),
            expires_at: moment(grant.expires_at),
            validity: ValidityView::from(&grant.validity),
            permit: grant.permit,
            checkpoint: grant.checkpoint.as_ref().map(CheckpointView::from),
        }
    }
}

impl From<&Checkpoint> for CheckpointView {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self {
            version: checkpoint.version,
            size: checkpoint.value.len(),
            value_base64: STANDARD.encode(&checkpoint.value),
            text: checkpoint.text().ok().map(str::to_owned),
            fencing_token: checkpoint.fencing_token,
            saved_at: moment(checkpoint.saved_at),
        }
    }
}

impl From<&Validity> for ValidityView {
    fn from(validity: &Validity) -> Self {
        Self {
            boot_id: validity.boot_id.clone(),
            valid_until_seconds: validity.valid_until.since_boot().as_secs_f64(),
            valid_for_seconds: validity.valid_for.as_secs_f64(),
        }
    }
}

impl From<&Busy> for BusyView {
    fn from(busy: &Busy) -> Self {
        Self {
            reason: reason(busy.reason),
            retry_after_seconds: busy.retry_after.as_secs_f64(),
            held_permits: busy.held_permits,
            priority_status: busy.priority_status.map(status_word),
            priority_advice: status_text(busy),
            lock: busy.record.as_ref().map(LockView::from),
        }
    }
}
