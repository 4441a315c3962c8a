//! What a caller gets: a grant, or word that the lock is busy; and how a hold ends.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::{
    BusyReason, Checkpoint, LockRecord, LossReason, PriorityStatus, ReleaseOutcome, duration,
    moment,
};
use crate::boot_clock::BootInstant;
use crate::proto;

/// Makes the caller a holder.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Names this hold in [`Client::release`](crate::Client::release) and other calls. Who knows it can end
    /// the hold, so do not log it.
    pub lease_id: String,
    /// The path of the lock that was granted.
    pub lock_path: String,
    /// The host id in that path.
    pub host_id: String,
    /// Greater than every token granted for this lock path before (S5).
    pub fencing_token: u64,
    /// Until when the holder may act, unless renewed.
    pub validity: Validity,
    /// When the grant was made, by the wall clock; for people.
    pub acquired_at: Option<SystemTime>,
    /// When the validity ends unless renewed, by the wall clock; for people, and never to be counted on.
    pub expires_at: Option<SystemTime>,
    /// Counts how often the hold was resumed, from 1.
    pub generation: u64,
    /// When `max_hold` ends: the hold is lost then unless it is extended before. `None` if there is no limit.
    pub max_hold_ends: Option<Deadline>,
    /// Which permit of the lock is granted, from 0: the lock's own path. See
    /// [`LeaseSpec::permits`](crate::LeaseSpec).
    pub permit: u32,
    /// The lock's checkpoint as the last holder left it. `None` if there is none.
    pub checkpoint: Option<Checkpoint>,
    /// Which attempt at [`LeaseSpec::occurrence_at`](crate::LeaseSpec) this is, from 1: greater than 1 says
    /// that an earlier holder failed, or died without an outcome, so the work may have been done in part. 0
    /// without an occurrence.
    pub attempt: u32,
}

impl fmt::Debug for Grant {
    // S20: the lease id stays unseen.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Grant")
            .field("lock_path", &self.lock_path)
            .field("fencing_token", &self.fencing_token)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

impl Grant {
    pub(crate) fn from_wire(wire: proto::Grant) -> Self {
        Self {
            lease_id: wire.lease_id,
            lock_path: wire.lock_path,
            host_id: wire.host_id,
            fencing_token: wire.fencing_token,
            validity: Validity::from_wire(&wire.validity.unwrap_or_default()),
            acquired_at: moment(wire.acquired_at.as_ref()),
            expires_at: moment(wire.expires_at.as_ref()),
            generation: wire.generation,
            max_hold_ends: wire.max_hold_ends.map(Deadline::from_wire),
            permit: wire.permit,
            checkpoint: wire.checkpoint.map(Checkpoint::from_wire),
            attempt: wire.attempt,
        }
    }
}

/// Until when a holder may act. Past it the lock is lost, whether or not the holder was told (S21).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Validity {
    /// The kernel whose boot clock `valid_until` is a reading of. Compare only where it is not empty and this
    /// machine's own (/proc/sys/kernel/random/boot_id).
    pub boot_id: String,
    /// The end of validity on that clock.
    pub valid_until: BootInstant,
    /// The time left when the answer was made. Elsewhere than on that kernel, count it from BEFORE the call
    /// was made that was answered.
    pub valid_for: Duration,
}

impl Validity {
    pub(crate) fn from_wire(wire: &proto::Validity) -> Self {
        let until = wire.valid_until.clone().unwrap_or_default();
        Self {
            boot_id: until.boot_id,
            valid_until: BootInstant::from_boot(duration(until.since_boot.as_ref())),
            valid_for: duration(wire.valid_for.as_ref()),
        }
    }
}

/// A moment that lies ahead, told as a [`Validity`] is (S11, S21).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadline {
    /// The kernel whose boot clock `at` is a reading of. Compare only where it is not empty and this
    /// machine's own.
    pub boot_id: String,
    /// The moment on that clock.
    pub at: BootInstant,
    /// The duration from when the answer was made. Elsewhere than on that kernel, count it from BEFORE the
    /// call was made that was answered.
    pub after: Duration,
}

impl Deadline {
    pub(crate) fn from_wire(wire: proto::Deadline) -> Self {
        let at = wire.at.unwrap_or_default();
        Self {
            boot_id: at.boot_id,
            at: BootInstant::from_boot(duration(at.since_boot.as_ref())),
            after: duration(wire.after.as_ref()),
        }
    }
}

/// Somebody else has the lock: an answer, not an error.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Busy {
    /// The lock's record, as far as it is known: who has it, since when.
    pub record: Option<LockRecord>,
    /// When asking again is worth while, counted from now.
    pub retry_after: Duration,
    /// Why the lock is not available.
    pub reason: BusyReason,
    /// How many of the permits were found held, as far as the sidecar knows. See
    /// [`LeaseSpec::permits`](crate::LeaseSpec).
    pub held_permits: u32,
    /// Why the caller's [`LeaseSpec::priority`](crate::LeaseSpec) did not free the lock. `None` for a caller
    /// that gave none, where nothing is known of the holder, and for what this version of the client does not
    /// know.
    pub priority_status: Option<PriorityStatus>,
}

impl fmt::Display for Busy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = LockRecord::default();
        let record = self.record.as_ref().unwrap_or(&none);
        let path = if record.lock_path.is_empty() { "" } else { " " };
        write!(formatter, "the lock{path}{} is busy: ", record.lock_path)?;
        match self.reason {
            BusyReason::Breaking => {
                formatter.write_str("it was broken, and its lease has not expired yet")?;
            }
            BusyReason::Resting => {
                formatter.write_str("it rests, as its last holder asked (min_hold)")?;
            }
            BusyReason::Held if self.held_permits > 1 => {
                write!(formatter, "{} permits of it are held", self.held_permits)?;
            }
            BusyReason::Held if record.holder.is_empty() => {
                formatter.write_str("held by somebody else")?;
            }
            BusyReason::Held if record.holder_is_last_recorded => {
                write!(formatter, "held, last recorded holder {:?}", record.holder)?;
            }
            BusyReason::Held => write!(formatter, "held by {:?}", record.holder)?,
        }
        match self.priority_status {
            Some(status) => {
                let words = status.as_str().replace('_', " ").to_lowercase();
                write!(formatter, " (priority: {words})")
            }
            None => Ok(()),
        }
    }
}

impl Busy {
    pub(crate) fn from_wire(wire: proto::Busy) -> Self {
        let reason = BusyReason::from_wire(wire.reason());
        let priority_status = PriorityStatus::from_wire(wire.priority_status());
        Self {
            priority_status,
            retry_after: duration(wire.retry_after.as_ref()),
            record: wire.record.map(LockRecord::from_wire),
            reason,
            held_permits: wire.held_permits,
        }
    }
}

/// The caller waits for the lock.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Waiting {
    /// The place among those who wait at this sidecar; 1 is next.
    pub position: u32,
    /// The lock's record, as far as it is known.
    pub record: Option<LockRecord>,
}

impl Waiting {
    pub(crate) fn from_wire(wire: proto::Waiting) -> Self {
        Self { position: wire.position, record: wire.record.map(LockRecord::from_wire) }
    }
}

/// The result of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseResult {
    /// What the release did.
    pub outcome: ReleaseOutcome,
    /// Why the hold had been lost, with [`ReleaseOutcome::AlreadyLost`].
    pub loss_reason: Option<LossReason>,
    /// Until when nobody gets the lock, by the store's clock, with [`ReleaseOutcome::Resting`].
    pub resting_until: Option<SystemTime>,
    /// The version of the checkpoint that was saved with the release. `None` if there was none to save.
    pub checkpoint_version: Option<u64>,
}

impl ReleaseResult {
    pub(crate) fn from_wire(wire: &proto::ReleaseResult) -> Self {
        let outcome = ReleaseOutcome::from_wire(wire.outcome());
        let lost = outcome == ReleaseOutcome::AlreadyLost;
        Self {
            outcome,
            loss_reason: lost.then(|| LossReason::from_wire(wire.loss_reason())),
            resting_until: moment(wire.resting_until.as_ref()),
            checkpoint_version: (wire.checkpoint_outcome() == proto::CheckpointOutcome::Saved)
                .then_some(wire.checkpoint_version),
        }
    }
}
