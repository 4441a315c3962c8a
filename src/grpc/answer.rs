//! From domain values to proto.

use std::time::Duration;

use super::{proto, status};
use crate::coordinator::{
    BreakNote, BreakResult, BusyAnswer, Grant, LockRecord, LockState, LossReason, Released,
    TokenStatus, Validity,
};
use crate::lock::{FencingToken, LockMode, Namespace};
use crate::time::{BootReading, UnixMillis};

pub(super) fn grant(grant: Grant) -> proto::Grant {
    proto::Grant {
        lease_id: grant.lease_id.to_string(),
        resume_token: grant.resume_token,
        lock_path: grant.path.to_string(),
        host_id: grant.host_id.to_string(),
        fencing_token: grant.token.value(),
        validity: Some(validity(grant.validity)),
        acquired_at: Some(timestamp(grant.acquired_at)),
        expires_at: Some(timestamp(grant.expires_at)),
        generation: grant.generation,
    }
}

pub(super) fn busy(busy: BusyAnswer, namespace: &Namespace) -> proto::Busy {
    let reason = match busy.record.state {
        LockState::Resting => proto::BusyReason::Resting,
        LockState::Breaking => proto::BusyReason::Breaking,
        LockState::Held | LockState::Available => proto::BusyReason::Held,
    };
    proto::Busy {
        record: Some(record(busy.record, namespace)),
        retry_after: Some(duration(busy.retry_after)),
        reason: reason.into(),
    }
}

pub(super) fn validity(validity: Validity) -> proto::Validity {
    let BootReading { boot_id, since_boot } = validity.valid_until;
    proto::Validity {
        valid_until: Some(proto::BootTime { boot_id, since_boot: Some(duration(since_boot)) }),
        valid_for: Some(duration(validity.valid_for)),
    }
}

pub(super) fn record(lock: LockRecord, namespace: &Namespace) -> proto::LockRecord {
    let stored = lock.record;
    let host_id = namespace.host_id_of(&lock.path);
    let taken_by_us = !(stored.function.is_empty() && stored.scope.is_empty());
    let key = taken_by_us.then(|| proto::LockKey {
        function: stored.function,
        scope: stored.scope,
        mode: mode(&stored.mode).into(),
        host_id: None,
        host_type: None,
    });
    proto::LockRecord {
        lock_path: lock.path.to_string(),
        host_id: host_id.map(|host_id| host_id.to_string()).unwrap_or_default(),
        key,
        state: state(lock.state).into(),
        fencing_token: stored.token.map(FencingToken::value),
        holder: stored.holder,
        host_type: stored.host_type,
        labels: stored.labels.as_map().clone(),
        acquired_at: stored.acquired_at.map(timestamp),
        resting_until: stored.resting_until.map(timestamp),
        written_at: lock.written_at.map(timestamp),
        waiters_here: u32::try_from(lock.waiters_here).unwrap_or(u32::MAX),
        held_here: lock.held_here,
        break_note: lock.break_note.map(break_note),
        holder_is_last_recorded: lock.holder_is_last_recorded,
    }
}

/// The mode as it was stored; an unknown name is a mode of a later version.
fn mode(stored: &str) -> proto::LockMode {
    if stored == LockMode::Listener.as_str() {
        proto::LockMode::Listener
    } else if stored == LockMode::Function.as_str() {
        proto::LockMode::Function
    } else {
        proto::LockMode::Unspecified
    }
}

const fn state(state: LockState) -> proto::LockState {
    match state {
        LockState::Available => proto::LockState::Available,
        LockState::Held => proto::LockState::Held,
        LockState::Breaking => proto::LockState::Breaking,
        LockState::Resting => proto::LockState::Resting,
    }
}

pub(super) fn break_note(note: BreakNote) -> proto::BreakNote {
    proto::BreakNote {
        reason: note.reason,
        broken_by: note.by,
        broken_at: Some(timestamp(note.at)),
        fencing_token: note.token.map(FencingToken::value),
    }
}

pub(super) fn released(released: &Released) -> proto::ReleaseResult {
    use proto::ReleaseOutcome;
    let (outcome, loss, resting) = match released {
        Released::Released => (ReleaseOutcome::Released, None, None),
        Released::Resting { until } => (ReleaseOutcome::Resting, None, Some(*until)),
        Released::AlreadyReleased => (ReleaseOutcome::AlreadyReleased, None, None),
        Released::AlreadyLost { reason } => (ReleaseOutcome::AlreadyLost, Some(*reason), None),
    };
    proto::ReleaseResult {
        outcome: outcome.into(),
        loss_reason: loss.map_or(proto::LossReason::Unspecified, loss_reason).into(),
        resting_until: resting.map(timestamp),
    }
}

pub(super) const fn loss_reason(reason: LossReason) -> proto::LossReason {
    match reason {
        LossReason::Expired => proto::LossReason::Expired,
        LossReason::Taken => proto::LossReason::Taken,
        LossReason::Broken => proto::LossReason::Broken,
        LossReason::LockDeleted => proto::LossReason::LockDeleted,
        LossReason::MaxHoldReached => proto::LossReason::MaxHoldReached,
        LossReason::NoProgress => proto::LossReason::NoProgress,
        LossReason::Shutdown => proto::LossReason::Shutdown,
    }
}

pub(super) const fn token_status(status: TokenStatus) -> proto::TokenStatus {
    match status {
        TokenStatus::Current => proto::TokenStatus::Current,
        TokenStatus::Stale => proto::TokenStatus::Stale,
        TokenStatus::Unknown => proto::TokenStatus::Unknown,
    }
}

pub(super) fn broken(broken: BreakResult) -> (proto::BreakOutcome, Option<prost_types::Duration>) {
    match broken {
        BreakResult::Breaking { free_in } => {
            (proto::BreakOutcome::Breaking, Some(duration(free_in)))
        }
        BreakResult::Broken => (proto::BreakOutcome::Broken, None),
        BreakResult::NotHeld => (proto::BreakOutcome::NotHeld, None),
    }
}

/// A duration that is too long for proto (292 billion years) is cut to the longest.
pub(super) fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration)
        .unwrap_or(prost_types::Duration { seconds: i64::MAX, nanos: 0 })
}

pub(super) fn timestamp(at: UnixMillis) -> prost_types::Timestamp {
    let nanos = u32::try_from(at.0 % 1_000).unwrap_or_default() * 1_000_000;
    prost_types::Timestamp {
        seconds: i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos).unwrap_or_default(),
    }
}

/// What fails, as the list at `LeaseService` names it.
pub(super) fn cause(kind: crate::coordinator::StoreFailureKind) -> String {
    status::store_failure(kind).1.to_owned()
}
