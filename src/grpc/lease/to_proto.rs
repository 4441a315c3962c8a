//! From domain values to proto.

use std::time::Duration;

use super::run_state;
use crate::coordinator::{
    BreakNote, BreakPeriod, BreakResult, BusyAnswer, CheckpointOutcome, Concluding, Deadline,
    Grant, HeldLock, HoldState, LockRecord, LockState, LocksEvent, LossReason, OutcomeResult,
    PriorityStatus, Released, StoreFailureKind, TokenStatus, Validity,
};
use crate::grpc::proto;
use crate::grpc::status;
use crate::lock::{FencingToken, LockMode, Namespace};
use crate::record::{Checkpoint, Priority};
use crate::schedule::Ended;
use crate::time::{BootReading, UnixMillis};
use crate::timetable::UtcSecond;

pub(in crate::grpc) fn grant(grant: Grant) -> proto::Grant {
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
        max_hold_ends: grant.max_hold_ends.map(deadline),
        revision: grant.revision,
        attempt: grant.attempt,
        permit: grant.permit.number().into(),
        checkpoint: grant.checkpoint.map(checkpoint),
    }
}

/// A checkpoint with its value.
pub(in crate::grpc) fn checkpoint(checkpoint: Checkpoint) -> proto::Checkpoint {
    proto::Checkpoint {
        value: checkpoint.value.as_bytes().to_vec(),
        version: checkpoint.version,
        fencing_token: checkpoint.token.value(),
        saved_at: Some(timestamp(checkpoint.saved_at)),
    }
}

pub(in crate::grpc) fn busy(busy: BusyAnswer, namespace: &Namespace) -> proto::Busy {
    let reason = match busy.record.state {
        LockState::Resting => proto::BusyReason::Resting,
        LockState::Breaking => proto::BusyReason::Breaking,
        LockState::Held | LockState::Available => proto::BusyReason::Held,
    };
    proto::Busy {
        record: Some(record(busy.record, namespace)),
        retry_after: Some(duration(busy.retry_after)),
        reason: reason.into(),
        priority_status: priority_status(busy.priority).into(),
        held_permits: busy.held_permits.into(),
    }
}

const fn priority_status(status: Option<PriorityStatus>) -> proto::PriorityStatus {
    use proto::PriorityStatus as Wire;
    match status {
        None => Wire::Unspecified,
        Some(PriorityStatus::HolderDoesNotYield) => Wire::HolderDoesNotYield,
        Some(PriorityStatus::NotGreater) => Wire::NotGreater,
        Some(PriorityStatus::WaitedTooShort) => Wire::WaitedTooShort,
        Some(PriorityStatus::BrokenRecently) => Wire::BrokenRecently,
        Some(PriorityStatus::Revoked) => Wire::Revoked,
        Some(PriorityStatus::CannotBreak) => Wire::CannotBreak,
        Some(PriorityStatus::Reserved) => Wire::Reserved,
    }
}

pub(in crate::grpc) fn already_done(ended: &Ended) -> proto::AlreadyDone {
    proto::AlreadyDone { run: Some(run_state::ended(ended)) }
}

pub(in crate::grpc) const fn skipped(watermark: UtcSecond) -> proto::Skipped {
    proto::Skipped { watermark: Some(run_state::timestamp(watermark)) }
}

pub(in crate::grpc) fn held_lock(held: HeldLock) -> proto::GetHoldResponse {
    let state = match held.state {
        HoldState::Held => proto::HoldState::Held,
        HoldState::AtRisk => proto::HoldState::AtRisk,
        HoldState::Revoked => proto::HoldState::Revoked,
        HoldState::Disconnected => proto::HoldState::Disconnected,
    };
    proto::GetHoldResponse {
        validity: Some(validity(held.validity)),
        state: state.into(),
        max_hold_ends: held.max_hold_ends.map(deadline),
        progress_due: held.progress_due.map(deadline),
        lock_path: held.path.to_string(),
        fencing_token: held.token.value(),
        generation: held.generation,
        break_note: held.break_note.map(break_note),
        permit: held.permit.number().into(),
    }
}

pub(in crate::grpc) fn deadline(deadline: Deadline) -> proto::Deadline {
    proto::Deadline { at: Some(boot_time(deadline.at)), after: Some(duration(deadline.after)) }
}

fn boot_time(BootReading { boot_id, since_boot }: BootReading) -> proto::BootTime {
    proto::BootTime { boot_id, since_boot: Some(duration(since_boot)) }
}

pub(in crate::grpc) fn validity(validity: Validity) -> proto::Validity {
    proto::Validity {
        valid_until: Some(boot_time(validity.valid_until)),
        valid_for: Some(duration(validity.valid_for)),
    }
}

/// What clients are told of a lock: never the value of its checkpoint.
pub(crate) fn record(lock: LockRecord, namespace: &Namespace) -> proto::LockRecord {
    let stored = lock.record;
    let host_id = namespace.host_id_of(&lock.path);
    let (_, permit) = namespace.permit_of(&lock.path);
    let taken_by_us = !(stored.function.is_empty() && stored.scope.is_empty());
    let key = taken_by_us.then(|| proto::LockKey {
        function: stored.function,
        scope: stored.scope,
        mode: mode(&stored.mode).into(),
        host_id: None,
        host_type: None,
    });
    let sharing = stored.sharing.map(|sharing| *sharing).unwrap_or_default();
    proto::LockRecord {
        schedule: lock.schedule.as_deref().map(run_state::state),
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
        lease_duration: lock.lease.map(|lease| duration(lease.duration)),
        renewed_at: lock.lease.map(|lease| timestamp(lease.renewed_at)),
        sidecar: stored.sidecar.to_string(),
        share: sharing.share.as_ref().map(ToString::to_string).unwrap_or_default(),
        priority: sharing.priority.get(),
        yields: sharing.yields,
        reserved: stored.reserved.map(|reserved| proto::Reservation {
            priority: reserved.priority.get(),
            until: Some(timestamp(reserved.until)),
        }),
        kept_until: lock.kept_until.map(timestamp),
        permits: stored.permits.map_or(0, |permits| permits.get().into()),
        permit: permit.number().into(),
        checkpoint: None,
        checkpoint_version: lock.checkpoint.as_ref().map(|checkpoint| checkpoint.version),
        checkpoint_size: lock
            .checkpoint
            .map(|checkpoint| u32::try_from(checkpoint.value.as_bytes().len()).unwrap_or(u32::MAX)),
    }
}

/// A record with the value of its checkpoint: never in lists.
pub(in crate::grpc) fn record_with_checkpoint(
    lock: LockRecord,
    namespace: &Namespace,
) -> proto::LockRecord {
    let value = lock.checkpoint.clone().map(checkpoint);
    proto::LockRecord { checkpoint: value, ..record(lock, namespace) }
}

pub(in crate::grpc) fn locks_event(
    event: LocksEvent,
    namespace: &Namespace,
) -> proto::WatchLocksResponse {
    use proto::watch_locks_response::Event;
    let event = match event {
        // Of what changes here it is not known before the next listing: told now and then, it would look like
        // a change.
        LocksEvent::Changed(lock) => {
            Event::Changed(record(LockRecord { written_at: None, ..*lock }, namespace))
        }
        LocksEvent::Gone(path) => Event::Gone(path.to_string()),
        LocksEvent::Listed { locks, at } => Event::Listed(proto::Listed {
            locks: u32::try_from(locks).unwrap_or(u32::MAX),
            at: Some(timestamp(at)),
        }),
    };
    proto::WatchLocksResponse { event: Some(event) }
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

pub(in crate::grpc) fn break_note(note: BreakNote) -> proto::BreakNote {
    proto::BreakNote {
        reason: note.reason,
        broken_by: note.by,
        broken_at: Some(timestamp(note.at)),
        fencing_token: note.token.map(FencingToken::value),
        mode: match note.period {
            BreakPeriod::RunOut => proto::BreakMode::RunOut,
            BreakPeriod::Now => proto::BreakMode::Now,
        }
        .into(),
        for_priority: note.for_priority.map(Priority::get),
    }
}

/// A release, with what came with it.
pub(in crate::grpc) fn concluded(concluding: Concluding) -> proto::ReleaseResult {
    let outcome_result = match concluding.outcome {
        None => proto::OutcomeResult::Unspecified,
        Some(OutcomeResult::Recorded) => proto::OutcomeResult::Recorded,
        Some(OutcomeResult::NotRecorded) => proto::OutcomeResult::NotRecorded,
        Some(OutcomeResult::Unknown) => proto::OutcomeResult::Unknown,
    };
    let released = released(&concluding.released, concluding.checkpoint);
    proto::ReleaseResult { outcome_result: outcome_result.into(), ..released }
}

pub(in crate::grpc) fn released(
    released: &Released,
    saved: Option<CheckpointOutcome>,
) -> proto::ReleaseResult {
    use proto::ReleaseOutcome;
    let (saved, checkpoint_version, checkpoint_detail) = match saved {
        None => (proto::CheckpointOutcome::Unspecified, 0, String::new()),
        Some(CheckpointOutcome::Saved { version }) => {
            (proto::CheckpointOutcome::Saved, version, String::new())
        }
        Some(CheckpointOutcome::NotSaved { detail }) => {
            (proto::CheckpointOutcome::NotSaved, 0, detail)
        }
        Some(CheckpointOutcome::Unknown { detail }) => {
            (proto::CheckpointOutcome::Unknown, 0, detail)
        }
    };
    let (outcome, loss, resting) = match released {
        Released::Released => (ReleaseOutcome::Released, None, None),
        Released::Resting { until } => (ReleaseOutcome::Resting, None, Some(*until)),
        Released::NotConfirmed => (ReleaseOutcome::NotConfirmed, None, None),
        Released::AlreadyReleased => (ReleaseOutcome::AlreadyReleased, None, None),
        Released::AlreadyLost { reason } => (ReleaseOutcome::AlreadyLost, Some(*reason), None),
    };
    proto::ReleaseResult {
        outcome: outcome.into(),
        loss_reason: loss.map_or(proto::LossReason::Unspecified, loss_reason).into(),
        resting_until: resting.map(timestamp),
        outcome_result: proto::OutcomeResult::Unspecified.into(),
        checkpoint_outcome: saved.into(),
        checkpoint_version,
        checkpoint_detail,
    }
}

pub(in crate::grpc) const fn loss_reason(reason: LossReason) -> proto::LossReason {
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

pub(in crate::grpc) const fn token_status(status: TokenStatus) -> proto::TokenStatus {
    match status {
        TokenStatus::Current => proto::TokenStatus::Current,
        TokenStatus::Stale => proto::TokenStatus::Stale,
        TokenStatus::Unknown => proto::TokenStatus::Unknown,
    }
}

pub(in crate::grpc) fn broken(
    broken: BreakResult,
) -> (proto::BreakOutcome, Option<prost_types::Duration>) {
    match broken {
        BreakResult::Breaking { free_in } => {
            (proto::BreakOutcome::Breaking, Some(duration(free_in)))
        }
        BreakResult::Broken => (proto::BreakOutcome::Broken, None),
        BreakResult::NotHeld => (proto::BreakOutcome::NotHeld, None),
    }
}

/// A duration that is longer than protobuf allows (10,000 years) is cut: some languages refuse to read it.
pub(in crate::grpc) fn duration(duration: Duration) -> prost_types::Duration {
    let cut = duration.min(LONGEST);
    prost_types::Duration {
        seconds: i64::try_from(cut.as_secs()).unwrap_or_default(),
        nanos: i32::try_from(cut.subsec_nanos()).unwrap_or_default(),
    }
}

const LONGEST: Duration = Duration::from_secs(315_576_000_000);

pub(in crate::grpc) fn timestamp(at: UnixMillis) -> prost_types::Timestamp {
    let nanos = u32::try_from(at.0 % 1_000).unwrap_or_default() * 1_000_000;
    prost_types::Timestamp {
        seconds: i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos).unwrap_or_default(),
    }
}

/// What fails, as the API names it.
pub(in crate::grpc) fn cause(kind: StoreFailureKind) -> i32 {
    status::store_failure(kind).into()
}
