//! The JSON document of a lock.

use std::collections::BTreeMap;

use leasehold_client::{
    BreakMode, BreakNote, LockKey, LockMode, LockRecord, LockState, Reservation,
};
use serde::Serialize;

use super::moment;
use super::schedule::StateView;

document! {
    /// A lock's record as JSON.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub(crate) struct LockView of record: LockRecord {
        pub(crate) lock_path: String = record.lock_path.clone(),
        pub(crate) state: &'static str = state(record),
        pub(crate) fencing_token: Option<u64> = record.fencing_token,
        holder: String = record.holder.clone(),
        /// Somebody who leaves no record may have the lock instead: a WebJobs host.
        pub(crate) holder_is_last_recorded: bool = record.holder_is_last_recorded,
        pub(crate) host_id: String = record.host_id.clone(),
        pub(crate) host_type: String = record.host_type.clone(),
        pub(crate) key: Option<KeyView> = record.key.as_ref().map(KeyView::from),
        pub(crate) labels: BTreeMap<String, String> = record.labels.clone(),
        pub(crate) acquired_at: Option<String> = moment(record.acquired_at),
        /// How long the lease in the store lasts, and when it was renewed last: only of a lock that is held
        /// through this sidecar.
        lease_duration_seconds: Option<f64> = record.lease_duration.map(|lease| lease.as_secs_f64()),
        pub(crate) renewed_at: Option<String> = moment(record.renewed_at),
        pub(crate) resting_until: Option<String> = moment(record.resting_until),
        pub(crate) written_at: Option<String> = moment(record.written_at),
        pub(crate) waiters_here: u32 = record.waiters_here,
        pub(crate) held_here: bool = record.held_here,
        pub(crate) break_note: Option<BreakView> = record.break_note.as_ref().map(BreakView::from),
        permits: u32 = record.permits,
        permit: u32 = record.permit,
        checkpoint_version: Option<u64> = record.checkpoint_version,
        checkpoint_size: Option<u32> = record.checkpoint_size,
        schedule: Option<StateView> = record.schedule.as_ref().map(StateView::from),
        /// Which sidecar acquired it.
        sidecar: String = record.sidecar.clone(),
        share: String = record.share.clone(),
        priority: u32 = record.priority,
        yields: bool = record.yields,
        reserved: Option<ReservedView> = record.reserved.as_ref().map(ReservedView::from),
        /// Until when the sidecar that answers keeps it from all, since its former holder there may not know
        /// its end.
        kept_until: Option<String> = moment(record.kept_until),
    }
}

document! {
    /// For whom a lock is kept, as JSON.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
    pub(crate) struct ReservedView of reserved: Reservation {
        priority: u32 = reserved.priority,
        until: Option<String> = moment(reserved.until),
    }
}

document! {
    /// A lock's name as JSON.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub(crate) struct KeyView of key: LockKey {
        pub(crate) function: String = key.function.clone(),
        pub(crate) scope: String = key.scope.clone(),
        pub(crate) mode: &'static str =
            if key.mode == LockMode::Listener { "listener" } else { "function" },
    }
}

document! {
    /// A break as JSON.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
    pub(crate) struct BreakView of note: BreakNote {
        pub(crate) reason: String = note.reason.clone(),
        pub(crate) broken_by: String = note.broken_by.clone(),
        pub(crate) broken_at: Option<String> = moment(note.broken_at),
        fencing_token: Option<u64> = note.fencing_token,
        mode: Option<&'static str> =
            note.mode.map(|mode| if mode == BreakMode::Now { "now" } else { "run_out" }),
        pub(crate) for_priority: Option<u32> = note.for_priority,
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
