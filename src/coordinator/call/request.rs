//! What callers ask of the coordinator, and what it answers: plain domain values.

use std::time::Duration;

use crate::hold::{LossReason, PriorityStatus};
use crate::lock::{FencingToken, HostId, HostType, LeaseId, LockKey, LockPath, Permit, Permits};
use crate::record::{Checkpoint, Labels, Record, ShareName, Sharing};
use crate::schedule::{Ended, Occurrence, ScheduleRecord};
use crate::store::BreakNote;
use crate::time::{BootReading, Instant, UnixMillis};
use crate::timetable::UtcSecond;

/// The trace that a caller is in, as it said so by the headers of W3C Trace Context; nothing of them is
/// checked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// The header `traceparent`, as it came.
    pub parent: String,
    /// The header `tracestate`, as it came.
    pub state: String,
}

/// A key, with the caller's overrides of the sidecar's host id.
#[derive(Clone, Debug)]
pub struct KeyRequest {
    /// What is asked for.
    pub key: LockKey,
    /// Instead of the sidecar's host id.
    pub host_id: Option<HostId>,
    /// Instead of the sidecar's host type; the host id is made from it.
    pub host_type: Option<HostType>,
}

/// Names one lock: by a key, or by the path that the sidecar showed.
#[derive(Clone, Debug)]
pub enum LockSelector {
    /// By what callers ask for, and which of its permits (S28).
    Key(KeyRequest, Permit),
    /// By where it is kept.
    Path(LockPath),
}

/// Where locks are.
#[derive(Clone, Debug)]
pub enum Under {
    /// Those of this sidecar's host id.
    OwnHostId,
    /// Those of this host id.
    HostId(HostId),
    /// Those whose paths begin with this, which must lie in this sidecar's namespace.
    Prefix(String),
}

/// The wait of a caller that waits as long as it stays: an instant that is this far ahead never comes.
pub const WAIT_WITHOUT_END: Duration = Duration::MAX;

/// Asks for a hold. Limits were checked when it was made (S19).
#[derive(Clone, Debug)]
pub struct HoldRequest {
    /// Which lock is asked for.
    pub key: KeyRequest,
    /// D, 15 to 60 s; the sidecar's default if none.
    pub lease_duration: Option<Duration>,
    /// How long to wait; zero is one try, [`WAIT_WITHOUT_END`] as long as the caller stays (S12).
    pub wait: Duration,
    /// How many callers may hold the lock at once (S28).
    pub permits: Permits,
    /// The longest hold (S11).
    pub max_hold: Option<Duration>,
    /// The shortest time until anybody else is granted the lock (S11).
    pub min_hold: Duration,
    /// The longest time without a progress report (S11).
    pub progress_timeout: Option<Duration>,
    /// False: the hold lasts for one lease duration.
    pub auto_renew: bool,
    /// The same one gets the same grant; empty for none.
    pub request_id: String,
    /// Who, for people; the sidecar's default if none.
    pub holder: Option<String>,
    /// For people and tools.
    pub labels: Labels,
    /// Its place among others: with one permit, unless it is the default (S28, S33, S34).
    pub sharing: Sharing,
    /// Whether this sidecar may take a lock of the share from another one that has more (S35).
    pub rebalance: bool,
    /// The occurrence that the caller is about to run, if it has a scheduler of its own: with one permit, and
    /// without `min_hold` (T1, T2).
    pub occurrence: Option<Occurrence>,
    /// The trace that the caller is in.
    pub trace_context: Option<Box<TraceContext>>,
}

impl HoldRequest {
    /// One try for the lock of this key, with the terms that apply where a caller names none.
    #[must_use]
    pub fn new(key: KeyRequest) -> Self {
        Self {
            key,
            lease_duration: None,
            wait: Duration::ZERO,
            permits: Permits::ONE,
            max_hold: None,
            min_hold: Duration::ZERO,
            progress_timeout: None,
            auto_renew: true,
            request_id: String::new(),
            holder: None,
            labels: Labels::default(),
            sharing: Sharing::default(),
            rebalance: false,
            occurrence: None,
            trace_context: None,
        }
    }
}

/// Where a lock is, and under which host it is asked for.
#[derive(Clone, Debug)]
pub struct Target {
    /// The path of the lock.
    pub path: LockPath,
    /// The host id in the path.
    pub host_id: HostId,
    /// The host type of who asks.
    pub host_type: HostType,
    /// What is asked for.
    pub key: LockKey,
}

/// From when to when a holder may act, as it is told (S21).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The end, on this machine's boot clock.
    pub valid_until: BootReading,
    /// The duration from now to the end.
    pub valid_for: Duration,
}

/// A moment that lies ahead, as it is told (S11, S21).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The moment, on this machine's boot clock.
    pub at: BootReading,
    /// The duration from now to it.
    pub after: Duration,
}

/// A caller holds the lock.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The id of this hold.
    pub lease_id: LeaseId,
    /// For resuming after a restart of the sidecar (S16); empty for a unary hold.
    pub resume_token: String,
    /// The lock, or the permit of it that is granted.
    pub path: LockPath,
    /// Which permit that is (S28).
    pub permit: Permit,
    /// The host id in the path.
    pub host_id: HostId,
    /// The token (S5).
    pub token: FencingToken,
    /// How often the hold was resumed, from 1 (S16).
    pub generation: u64,
    /// Until when the holder may act.
    pub validity: Validity,
    /// When the lock was granted, for people.
    pub acquired_at: UnixMillis,
    /// The end of the validity by the wall clock, for people and never a base for decisions.
    pub expires_at: UnixMillis,
    /// When `max_hold` ends; none without a limit (S11).
    pub max_hold_ends: Option<Deadline>,
    /// The lock's checkpoint, as the last holder left it (S25).
    pub checkpoint: Option<Checkpoint>,
    /// Which attempt at the occurrence that the caller has named, from 1; 0 if it has named none.
    pub attempt: u32,
    /// The revision of this sidecar (S37).
    pub revision: u32,
}

/// A hold that is not over, as this sidecar knows it.
#[derive(Clone, Debug)]
pub struct HeldLock {
    /// Until when its holder may act.
    pub validity: Validity,
    /// What it is doing.
    pub state: HoldState,
    /// When `max_hold` ends; none without a limit (S11).
    pub max_hold_ends: Option<Deadline>,
    /// When it is lost without a report of progress; none if that is not watched (S11).
    pub progress_due: Option<Deadline>,
    /// The lock, or the permit of it that is held.
    pub path: LockPath,
    /// Which permit that is (S28).
    pub permit: Permit,
    /// The token (S5).
    pub token: FencingToken,
    /// How often the hold was resumed, from 1 (S16).
    pub generation: u64,
    /// Who broke the lock and why, if it was revoked (S22).
    pub break_note: Option<BreakNote>,
}

/// What a hold is doing that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// It is held and renewed.
    Held,
    /// Renewals fail (S9).
    AtRisk,
    /// The lease was broken and runs out (S22).
    Revoked,
    /// Its stream broke, and was not resumed yet (S14, S16).
    Disconnected,
}

/// A hold has a new bound (S11).
#[derive(Clone, Debug)]
pub struct Extended {
    /// Until when the holder may act.
    pub validity: Validity,
    /// Replaces the one of the grant: what bounds the hold is in the newest (S16). Empty for a unary hold.
    pub resume_token: String,
    /// When `max_hold` ends now; none if the hold has no such limit any more.
    pub max_hold_ends: Option<Deadline>,
}

/// Somebody else holds the lock.
#[derive(Clone, Debug)]
pub struct BusyAnswer {
    /// Who holds it, as far as is known.
    pub record: LockRecord,
    /// How long to wait before asking again.
    pub retry_after: Duration,
    /// How many of the permits were found held (S28).
    pub held_permits: u8,
    /// Why the caller's priority has not freed the lock, if it gave one (S33).
    pub priority: Option<PriorityStatus>,
}

/// How an acquire without a failure ends.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The caller holds the lock.
    Granted(Box<Grant>),
    /// Somebody else holds it.
    Busy(Box<BusyAnswer>),
    /// Nobody is granted it: what the caller brought has said so under the lease, which has gone back (T6).
    Settled {
        /// Whether something was written; else there was nothing to write.
        written: bool,
    },
    /// The occurrence that the caller has named has a final outcome.
    AlreadyDone(Ended),
    /// The occurrence that the caller has named is older than one that has a final outcome, and nothing was
    /// recorded for it.
    Skipped {
        /// The newest occurrence that is final.
        watermark: UtcSecond,
    },
}

/// The outcome of a release (S13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// The store has released the lease, or another caller here holds the lock.
    Released,
    /// The store has not confirmed the release, and the lease has expired since.
    NotConfirmed,
    /// The hold is over; nobody is granted the lock until then (S11).
    Resting {
        /// When it is available.
        until: UnixMillis,
    },
    /// It was released before.
    AlreadyReleased,
    /// The hold was lost before.
    AlreadyLost {
        /// Why it was lost.
        reason: LossReason,
    },
}

/// A checkpoint was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The version that the store has.
    pub version: u64,
    /// Until when the holder may act.
    pub validity: Validity,
}

/// What became of a checkpoint that came with a release (S26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointOutcome {
    /// The store has it.
    Saved {
        /// The version that the store has.
        version: u64,
    },
    /// The store does not have it.
    NotSaved {
        /// Why, for people.
        detail: String,
    },
    /// The old one stands or the new one (S27).
    Unknown {
        /// Why, for people.
        detail: String,
    },
}

/// What became of an outcome that came with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeResult {
    /// The store has it.
    Recorded,
    /// The store does not have it: the next caller with this occurrence is granted it.
    NotRecorded,
    /// The store may have it or not: who asks for the occurrence again is told (S27).
    Unknown,
}

/// A hold was released, with what came with that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concluding {
    /// What became of the hold.
    pub released: Released,
    /// What became of the checkpoint; none if there was none (S26).
    pub checkpoint: Option<CheckpointOutcome>,
    /// What became of the outcome; none if there was none (T8).
    pub outcome: Option<OutcomeResult>,
}

/// The state of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// Anybody can acquire it.
    Available,
    /// Somebody holds it.
    Held,
    /// Its lease was broken and expires (S17).
    Breaking,
    /// Nobody holds it, and nobody is granted it yet, because of `min_hold` (S11).
    Resting,
}

/// What is known of a lock.
#[derive(Clone, Debug)]
pub struct LockRecord {
    /// The path of the lock.
    pub path: LockPath,
    /// Whether the lock is held.
    pub state: LockState,
    /// What is stored with it; of a lock held here, what is true now.
    pub record: Record,
    /// When its record was last written, by the store's clock.
    pub written_at: Option<UnixMillis>,
    /// Callers of this sidecar that wait for it.
    pub waiters_here: usize,
    /// The holders that the first of them want to be, for people, in the order of their arrival: at most 8.
    /// None where the record is told to one of them.
    pub waiting_here: Vec<String>,
    /// Whether a caller of this sidecar holds it.
    pub held_here: bool,
    /// The latest break, if it concerns the grant that is stored.
    pub break_note: Option<BreakNote>,
    /// Until when the lock is granted to nobody here, by the wall clock, because its former holder may not
    /// know that its hold is over (S13).
    pub kept_until: Option<UnixMillis>,
    /// Whether somebody who leaves no record may hold the lock now, so that the record's holder is only the
    /// last recorded.
    pub holder_is_last_recorded: bool,
    /// The lease, if the lock is held through this sidecar.
    pub lease: Option<LeaseHere>,
    /// Its checkpoint (S23).
    pub checkpoint: Option<Checkpoint>,
    /// What the runs of its schedule have decided, or those who named occurrences (T3).
    pub schedule: Option<Box<ScheduleRecord>>,
}

impl LockRecord {
    /// Whether its holder, or last holder, named this share (S34).
    #[must_use]
    pub fn is_of_share(&self, share: &ShareName) -> bool {
        self.record.share() == Some(share)
    }

    /// Whether its record has all of these labels, with the same values.
    #[must_use]
    pub fn has_labels(&self, wanted: &Labels) -> bool {
        let labels = self.record.labels.as_map();
        wanted.as_map().iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// The lease of a lock that is held through this sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseHere {
    /// D, the duration of the lease.
    pub duration: Duration,
    /// When it was acquired or renewed last, by the store's clock.
    pub renewed_at: UnixMillis,
}

/// How a presented token compares with a lock's newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenStatus {
    /// It is the newest.
    Current,
    /// There is a newer one.
    Stale,
    /// It is newer than any that is known here.
    Unknown,
}

/// What a client that resumes says of its hold.
#[derive(Clone, Debug)]
pub struct ResumeRequest {
    /// The resume token, as it is now (S16).
    pub resume_token: String,
    /// Names this try and its repeats (S16); empty for none.
    pub attempt_id: String,
    /// The end of the validity that the client relies on, if it told it.
    pub told_valid_until: Option<BootReading>,
    /// The trace that the caller is in.
    pub trace_context: Option<Box<TraceContext>>,
}

/// A lock that an operator broke.
#[derive(Clone, Copy, Debug)]
pub enum BreakResult {
    /// It expires; until then nobody is granted it.
    Breaking {
        /// When it is available.
        free_in: Duration,
    },
    /// It is available now.
    Broken,
    /// Nobody held it.
    NotHeld,
}

/// What becomes known to watchers of one process: numbers for gauges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Holds that are valid now.
    pub holds: usize,
    /// Callers that wait.
    pub waiters: usize,
    /// Subscribers of schedules, also while they have a run (S38).
    pub subscribers: usize,
    /// Holds that are at risk (S9).
    pub at_risk: usize,
    /// Lock paths with a machine.
    pub paths: usize,
    /// Locks that are remembered while nobody uses them.
    pub remembered: usize,
    /// Locks that are held or being acquired here and belong to a share (S34).
    pub share_locks: usize,
    /// The end of the validity that ends first.
    pub earliest_valid_until: Option<Instant>,
    /// Whether a shutdown has begun (S15).
    pub draining: bool,
}
