//! The JSON documents of grants; docs/cli.md lists their fields. Those of locks are in `src/view/`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_client::{Busy, Checkpoint, Grant, Validity};
use serde::Serialize;

use super::record::reason;
use super::sharing::status_text;
use super::times::moment;
use crate::view::{LockView, document};

document! {
    /// A grant as JSON.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub(crate) struct GrantView of grant: Grant {
        pub(super) lease_id: String = grant.lease_id.clone(),
        pub(super) fencing_token: u64 = grant.fencing_token,
        pub(super) lock_path: String = grant.lock_path.clone(),
        host_id: String = grant.host_id.clone(),
        acquired_at: Option<String> = moment(grant.acquired_at),
        pub(super) expires_at: Option<String> = moment(grant.expires_at),
        validity: ValidityView = ValidityView::from(&grant.validity),
        pub(super) permit: u32 = grant.permit,
        checkpoint: Option<CheckpointView> = grant.checkpoint.as_ref().map(CheckpointView::from),
    }
}

document! {
    /// A checkpoint as JSON.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
    pub(crate) struct CheckpointView of checkpoint: Checkpoint {
        version: u64 = checkpoint.version,
        size: usize = checkpoint.value.len(),
        value_base64: String = STANDARD.encode(&checkpoint.value),
        /// The value, if it is text.
        text: Option<String> = checkpoint.text().ok().map(str::to_owned),
        fencing_token: u64 = checkpoint.fencing_token,
        saved_at: Option<String> = moment(checkpoint.saved_at),
    }
}

document! {
    /// A validity as JSON.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub(crate) struct ValidityView of validity: Validity {
        /// The end on the boot clock of the kernel with this boot id.
        boot_id: String = validity.boot_id.clone(),
        valid_until_seconds: f64 = validity.valid_until.since_boot().as_secs_f64(),
        valid_for_seconds: f64 = validity.valid_for.as_secs_f64(),
    }
}

document! {
    /// A lock that is busy, as JSON.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub(crate) struct BusyView of busy: Busy {
        reason: &'static str = reason(busy.reason),
        retry_after_seconds: f64 = busy.retry_after.as_secs_f64(),
        held_permits: u32 = busy.held_permits,
        /// Why a priority did not free the lock, in a word.
        pub(super) priority_status: Option<String> =
            busy.priority_status.map(|status| status.as_str().to_ascii_lowercase()),
        /// The same with what to do, for people.
        priority_advice: Option<String> = status_text(busy),
        lock: Option<LockView> = busy.record.as_ref().map(LockView::from),
    }
}
