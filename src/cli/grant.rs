//! The JSON documents of grants; docs/cli.md lists their fields. Those of locks are in `src/view/`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_client::{Busy, Checkpoint, Grant, Validity};
use serde::Serialize;

use super::record::reason;
use super::sharing::status_text;
use super::times::moment;
use crate::view::LockView;

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
    pub(super) priority_status: Option<String>,
    /// The same with what to do, for people.
    priority_advice: Option<String>,
    lock: Option<LockView>,
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
            priority_status: busy
                .priority_status
                .map(|status| status.as_str().to_ascii_lowercase()),
            priority_advice: status_text(busy),
            lock: busy.record.as_ref().map(LockView::from),
        }
    }
}
