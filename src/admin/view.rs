//! The JSON documents of the page's data; docs/page.md lists their fields. Those of a lock are named as
//! `leasehold ls` names them.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::event_log::LoggedEvent;
use crate::coordinator::{BreakNote, BreakPeriod, Coordinator, HoldHere, LockRecord, LockState};
use crate::lock::{Checkpoint, FencingToken, LockPath, Namespace, Priority};
use crate::time::{Instant, UnixMillis};

/// A lock.
#[derive(Debug, Serialize)]
pub(super) struct LockView {
    lock_path: String,
    /// The path of the lock itself, where `lock_path` is that of one of its permits (S28).
    lock: String,
    host_id: String,
    function: String,
    scope: String,
    mode: String,
    state: &'static str,
    fencing_token: Option<u64>,
    holder: String,
    /// Somebody who leaves no record may have the lock instead: a WebJobs host.
    holder_is_last_recorded: bool,
    host_type: String,
    sidecar: String,
    share: String,
    priority: u32,
    yields: bool,
    labels: BTreeMap<String, String>,
    acquired_at: Option<String>,
    resting_until: Option<String>,
    /// Until when it is granted to nobody here, because its former holder may not know (S13).
    kept_until: Option<String>,
    written_at: Option<String>,
    renewed_at: Option<String>,
    lease_duration_seconds: Option<f64>,
    held_here: bool,
    waiters_here: usize,
    /// The first of them by name.
    waiting_here: Vec<String>,
    permit: u32,
    permits: u32,
    checkpoint: Option<CheckpointView>,
    break_note: Option<BreakView>,
    has_schedule: bool,
    /// Of a lock that is held through this sidecar.
    validity: Option<ValidityView>,
}

/// A checkpoint, without its value: that is the job's own.
#[derive(Debug, Serialize)]
struct CheckpointView {
    version: u64,
    size: usize,
    saved_at: Option<String>,
}

/// A break.
#[derive(Debug, Serialize)]
struct BreakView {
    reason: String,
    broken_by: String,
    broken_at: Option<String>,
    mode: &'static str,
    for_priority: Option<u32>,
}

/// How long a hold of a caller here is valid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ValidityView {
    valid_for_seconds: f64,
    at_risk: bool,
}

/// The same with its lock.
#[derive(Debug, Serialize)]
pub(super) struct HoldView {
    lock_path: String,
    #[serde(flatten)]
    validity: ValidityView,
}

/// Something that happened.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct EventView {
    number: u64,
    at: Option<String>,
    kind: &'static str,
    lock_path: Option<String>,
    fencing_token: Option<u64>,
    holder: String,
    detail: String,
    times: u32,
}

/// The holds of callers here, by their paths.
pub(super) type Holds = HashMap<LockPath, HoldHere>;

pub(super) fn holds(coordinator: &Coordinator) -> Holds {
    coordinator.holds_here().into_iter().map(|hold| (hold.path.clone(), hold)).collect()
}

pub(super) fn lock(
    lock: &LockRecord,
    namespace: &Namespace,
    hold: Option<&HoldHere>,
    now: Instant,
) -> LockView {
    let record = &lock.record;
    let (own, permit) = namespace.permit_of(&lock.path);
    let host_id = namespace.host_id_of(&lock.path);
    let sharing = record.sharing.as_deref();
    LockView {
        lock_path: lock.path.to_string(),
        lock: own.to_string(),
        host_id: host_id.map(|host_id| host_id.to_string()).unwrap_or_default(),
        function: record.function.clone(),
        scope: record.scope.clone(),
        mode: record.mode.to_lowercase(),
        state: state(lock.state),
        fencing_token: record.token.map(FencingToken::value),
        holder: record.holder.clone(),
        holder_is_last_recorded: lock.holder_is_last_recorded,
        host_type: record.host_type.clone(),
        sidecar: record.sidecar.to_string(),
        share: sharing
            .and_then(|sharing| sharing.share.as_ref())
            .map(ToString::to_string)
            .unwrap_or_default(),
        priority: sharing.map_or(0, |sharing| sharing.priority.get()),
        yields: sharing.is_some_and(|sharing| sharing.yields),
        labels: record.labels.as_map().clone(),
        acquired_at: record.acquired_at.and_then(moment),
        resting_until: record.resting_until.and_then(moment),
        kept_until: lock.kept_until.and_then(moment),
        written_at: lock.written_at.and_then(moment),
        renewed_at: lock.lease.and_then(|lease| moment(lease.renewed_at)),
        lease_duration_seconds: lock.lease.map(|lease| lease.duration.as_secs_f64()),
        held_here: lock.held_here,
        waiters_here: lock.waiters_here,
        waiting_here: lock.waiting_here.clone(),
        permit: permit.number().into(),
        permits: record.permits.map_or(0, |permits| permits.get().into()),
        checkpoint: lock.checkpoint.as_ref().map(checkpoint),
        break_note: lock.break_note.as_ref().map(break_note),
        has_schedule: lock.schedule.is_some(),
        validity: hold.map(|hold| validity(hold, now)),
    }
}

pub(super) fn hold(hold: &HoldHere, now: Instant) -> HoldView {
    HoldView { lock_path: hold.path.to_string(), validity: validity(hold, now) }
}

fn validity(hold: &HoldHere, now: Instant) -> ValidityView {
    let left = hold.valid_until.saturating_since(now);
    ValidityView { valid_for_seconds: left.as_secs_f64(), at_risk: hold.at_risk }
}

fn checkpoint(checkpoint: &Checkpoint) -> CheckpointView {
    CheckpointView {
        version: checkpoint.version,
        size: checkpoint.value.as_bytes().len(),
        saved_at: moment(checkpoint.saved_at),
    }
}

fn break_note(note: &BreakNote) -> BreakView {
    BreakView {
        reason: note.reason.clone(),
        broken_by: note.by.clone(),
        broken_at: moment(note.at),
        mode: match note.period {
            BreakPeriod::Now => "now",
            BreakPeriod::RunOut => "run_out",
        },
        for_priority: note.for_priority.map(Priority::get),
    }
}

pub(super) fn event(event: &LoggedEvent) -> EventView {
    EventView {
        number: event.number,
        at: moment(event.at),
        kind: event.kind.as_str(),
        lock_path: event.path.as_ref().map(ToString::to_string),
        fencing_token: event.token.map(FencingToken::value),
        holder: event.holder.clone(),
        detail: event.detail.clone(),
        times: event.times,
    }
}

const fn state(state: LockState) -> &'static str {
    match state {
        LockState::Available => "available",
        LockState::Held => "held",
        LockState::Breaking => "breaking",
        LockState::Resting => "resting",
    }
}

/// A moment of the wall clock, RFC 3339, to the millisecond.
pub(super) fn moment(at: UnixMillis) -> Option<String> {
    // humantime knows the years up to 9999.
    let at = (at.seconds() < 253_402_300_800).then(|| Duration::from_millis(at.0))?;
    Some(humantime::format_rfc3339_millis(UNIX_EPOCH + at).to_string())
}
