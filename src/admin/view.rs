//! The JSON documents of the page's data; docs/page.md lists their fields. Locks and schedules are those of
//! `src/view/`, with what the page needs besides.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::event_log::{LoggedEvent, LoggedKind};
use crate::coordinator::{Coordinator, HoldHere, LockRecord};
use crate::lock::{FencingToken, LockPath, Namespace};
use crate::time::{Instant, UnixMillis};
use crate::view::{LockView, document};

/// A lock, and what only the page says of it.
#[derive(Debug, Serialize)]
pub(super) struct PageLock {
    #[serde(flatten)]
    record: LockView,
    /// The path of the lock itself, where `lock_path` is that of one of its permits (S28).
    lock: String,
    /// The first of those who wait here, by name.
    waiting_here: Vec<String>,
    checkpoint_saved_at: Option<String>,
    /// Of a lock that is held through this sidecar.
    validity: Option<ValidityView>,
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

document! {
    /// Something that happened.
    #[derive(Debug, PartialEq, Serialize)]
    pub(super) struct EventView of event: LoggedEvent {
        number: u64 = event.number,
        at: Option<String> = moment(event.at),
        kind: LoggedKind = event.kind,
        lock_path: Option<String> = event.path.as_ref().map(ToString::to_string),
        fencing_token: Option<u64> = event.token.map(FencingToken::value),
        holder: String = event.holder.clone(),
        detail: String = event.detail.clone(),
        times: u32 = event.times,
    }
}

pub(super) fn events(logged: &[Arc<LoggedEvent>]) -> Vec<EventView> {
    logged.iter().map(|event| EventView::from(event.as_ref())).collect()
}

/// The holds of callers here, by their paths.
pub(super) type Holds = HashMap<LockPath, HoldHere>;

pub(super) fn holds(coordinator: &Coordinator) -> Holds {
    coordinator.holds_here().into_iter().map(|hold| (hold.path.clone(), hold)).collect()
}

pub(super) fn lock(
    lock: LockRecord,
    namespace: &Namespace,
    hold: Option<&HoldHere>,
    now: Instant,
) -> PageLock {
    let saved_at = lock.checkpoint.as_ref().map(|checkpoint| checkpoint.saved_at);
    PageLock {
        lock: namespace.permit_of(&lock.path).0.to_string(),
        waiting_here: lock.waiting_here.clone(),
        checkpoint_saved_at: saved_at.and_then(moment),
        validity: hold.map(|hold| validity(hold, now)),
        record: LockView::here(lock, namespace),
    }
}

pub(super) fn hold(hold: &HoldHere, now: Instant) -> HoldView {
    HoldView { lock_path: hold.path.to_string(), validity: validity(hold, now) }
}

fn validity(hold: &HoldHere, now: Instant) -> ValidityView {
    let left = hold.valid_until.saturating_since(now);
    ValidityView { valid_for_seconds: left.as_secs_f64(), at_risk: hold.at_risk }
}

/// A moment of the wall clock, RFC 3339, to the millisecond.
pub(super) fn moment(at: UnixMillis) -> Option<String> {
    // humantime knows the years up to 9999.
    let at = (at.seconds() < 253_402_300_800).then(|| Duration::from_millis(at.0))?;
    Some(humantime::format_rfc3339_millis(UNIX_EPOCH + at).to_string())
}
