//! What is known of a lock.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::{BreakMode, LockKey, LockState, ScheduleState, duration, moment};
use crate::proto;

/// A lock as the store and the sidecar know it. For people and schedulers: it may be out of date when it
/// arrives, and excludes nobody.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LockRecord {
    /// Container, slash, name in the container.
    pub lock_path: String,
    /// The host id in the path. Empty where the path does not show one.
    pub host_id: String,
    /// The key that the lock was last taken by. `None` if it was never taken through Leasehold.
    pub key: Option<LockKey>,
    /// What the lock is doing.
    pub state: LockState,
    /// The token of the newest grant. `None` if there was none.
    pub fencing_token: Option<u64>,
    /// Who has the lock, or had it last. Empty if unknown.
    pub holder: String,
    /// The host type of who has it or had it last.
    pub host_type: String,
    /// The labels that the holder gave.
    pub labels: BTreeMap<String, String>,
    /// When the newest grant was made, by the store's clock.
    pub acquired_at: Option<SystemTime>,
    /// Until when nobody gets the lock because of `min_hold`, by the store's clock.
    pub resting_until: Option<SystemTime>,
    /// When the record was last written, by the store's clock. Absent if the lock does not exist in the store
    /// yet, while this sidecar has it, and in a watch of many locks.
    pub written_at: Option<SystemTime>,
    /// How many callers wait for the lock at this sidecar.
    pub waiters_here: u32,
    /// Whether the lock is held through this sidecar.
    pub held_here: bool,
    /// The newest break of the lock. `None` if it was never broken.
    pub break_note: Option<BreakNote>,
    /// Whether `holder` is only who was recorded last, and somebody who leaves no record may have the lock
    /// now.
    pub holder_is_last_recorded: bool,
    /// The duration of the lease that the holder asked for, if the lock is held through this sidecar.
    pub lease_duration: Option<Duration>,
    /// When the lease was renewed last, by the store's clock, if the lock is held through this sidecar. With
    /// `lease_duration` it says when the lock is available at the latest if its holder dies now.
    pub renewed_at: Option<SystemTime>,
    /// How many permits the holder of the newest grant asked for. 0 if the record does not say.
    pub permits: u32,
    /// Which permit this is: 0 for the lock's own path.
    pub permit: u32,
    /// The version of the lock's checkpoint. `None` if there is none.
    /// [`Client::get_checkpoint`](crate::Client) reads the checkpoint itself.
    pub checkpoint_version: Option<u64>,
    /// The size of the checkpoint's value in bytes.
    pub checkpoint_size: Option<u32>,
    /// What the runs of the lock's schedule have decided, or of the occurrences that its callers named.
    /// `None` if it has neither. Of the latter `next_at`, `retry_at` and `missed` say nothing.
    pub schedule: Option<ScheduleState>,
    /// Which sidecar acquired the lock: its name and a number of the process. Empty if the record does not
    /// say.
    pub sidecar: String,
    /// The group of like locks that the holder named. Empty for none.
    pub share: String,
    /// The holder's priority.
    pub priority: u32,
    /// Whether the holder yields to a greater priority.
    pub yields: bool,
    /// For whom the lock is kept after a break. `None` if it is for nobody in particular.
    pub reserved: Option<Reservation>,
    /// Until when the sidecar that answers grants the lock to nobody, by its wall clock, because the lock's
    /// former holder there may not know that its hold is over (S13). `None` if it is not kept for such a
    /// holder.
    pub kept_until: Option<SystemTime>,
}

/// A lock that a caller of greater priority had broken is kept for it for a short while after the release
/// (S33).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reservation {
    /// Callers of a smaller priority are not granted the lock.
    pub priority: u32,
    /// Until then, by the store's clock.
    pub until: Option<SystemTime>,
}

impl Reservation {
    fn from_wire(wire: &proto::Reservation) -> Self {
        Self { priority: wire.priority, until: moment(wire.until.as_ref()) }
    }
}

/// Why, by whom and when a lock was broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakNote {
    /// The operator's reason, or what a caller of greater priority says.
    pub reason: String,
    /// Who broke it.
    pub broken_by: String,
    /// When, by the wall clock of the sidecar that broke it.
    pub broken_at: Option<SystemTime>,
    /// The token of the hold that was broken, if it was known.
    pub fencing_token: Option<u64>,
    /// How the lease was broken. `None` if the note does not say.
    pub mode: Option<BreakMode>,
    /// The priority of the waiting caller for which it was broken: a newer version takes over, say. `None` if
    /// an operator broke it. The holder's own priority, if it was broken to spread the locks of a share.
    pub for_priority: Option<u32>,
}

impl LockRecord {
    pub(crate) fn from_wire(wire: proto::LockRecord) -> Self {
        Self {
            state: LockState::from_wire(wire.state()),
            lock_path: wire.lock_path,
            host_id: wire.host_id,
            key: wire.key.map(LockKey::from_wire),
            fencing_token: wire.fencing_token,
            holder: wire.holder,
            host_type: wire.host_type,
            labels: wire.labels,
            acquired_at: moment(wire.acquired_at.as_ref()),
            resting_until: moment(wire.resting_until.as_ref()),
            written_at: moment(wire.written_at.as_ref()),
            waiters_here: wire.waiters_here,
            held_here: wire.held_here,
            break_note: wire.break_note.map(BreakNote::from_wire),
            holder_is_last_recorded: wire.holder_is_last_recorded,
            lease_duration: wire.lease_duration.as_ref().map(|lease| duration(Some(lease))),
            renewed_at: moment(wire.renewed_at.as_ref()),
            permits: wire.permits,
            permit: wire.permit,
            schedule: wire.schedule.map(ScheduleState::from_wire),
            checkpoint_version: wire.checkpoint_version,
            checkpoint_size: wire.checkpoint_size,
            sidecar: wire.sidecar,
            share: wire.share,
            priority: wire.priority,
            yields: wire.yields,
            reserved: wire.reserved.as_ref().map(Reservation::from_wire),
            kept_until: moment(wire.kept_until.as_ref()),
        }
    }
}

impl BreakNote {
    pub(crate) fn from_wire(wire: proto::BreakNote) -> Self {
        Self {
            mode: BreakMode::from_wire(wire.mode()),
            broken_at: moment(wire.broken_at.as_ref()),
            reason: wire.reason,
            broken_by: wire.broken_by,
            fencing_token: wire.fencing_token,
            for_priority: wire.for_priority,
        }
    }
}
