//! What the machine asks for: plain data, imperative. The coordinator does it.

use std::time::Duration;

use super::event::{CallerId, Request, SaveId, StoreFailure, StoreFailureKind};
use super::rival::{PriorityStatus, Rival};
use crate::lock::{Checkpoint, ETag, FencingToken, Fields, LeaseId, Priority, Record};
use crate::time::{Instant, UnixMillis};

/// Something to do, in the order in which it stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Acquire the lease; beside it, read the record if `read` says so.
    SendAcquire {
        /// The answer quotes it.
        request: Request,
        /// The proposed id.
        lease_id: LeaseId,
        /// D.
        duration: Duration,
        /// Only if the record has this version (S6).
        if_match: Option<ETag>,
        /// Whether to read the record side by side.
        read: bool,
        /// How long the answer is waited for.
        timeout: Duration,
    },
    /// Read the record.
    SendRead {
        /// The answer quotes it.
        request: Request,
        /// How long the answer is waited for.
        timeout: Duration,
    },
    /// Write the record under the lease (S5).
    SendWrite {
        /// The answer quotes it.
        request: Request,
        /// The lease.
        lease_id: LeaseId,
        /// Only if the record has this version.
        if_match: ETag,
        /// All its fields.
        fields: Fields,
        /// How long the answer is waited for.
        timeout: Duration,
    },
    /// Renew the lease.
    SendRenew {
        /// The answer quotes it.
        request: Request,
        /// The lease.
        lease_id: LeaseId,
        /// Only if the record has this version: a hold that was resumed elsewhere has another (S16).
        if_match: Option<ETag>,
        /// How long the answer is waited for (S7).
        timeout: Duration,
    },
    /// Read the record of a lock whose lease was broken, and whether the lease still runs out (S22).
    SendLook {
        /// The answer quotes it.
        request: Request,
        /// Whether to read the note of the break too.
        note: bool,
        /// How long the answer is waited for.
        timeout: Duration,
    },
    /// Break the lease so that it runs out, for the caller at the front, and leave a note of it (S33, S35).
    SendBreak {
        /// The answer quotes it.
        request: Request,
        /// Only if the record has this version.
        if_match: ETag,
        /// For whom, and whose grant it is.
        rival: Box<Rival>,
        /// How long the answer is waited for.
        timeout: Duration,
    },
    /// Give the lease back.
    SendRelease {
        /// The answer quotes it.
        request: Request,
        /// The lease.
        lease_id: LeaseId,
        /// Only if the record has this version: a hold that was resumed elsewhere has another (S16).
        if_match: Option<ETag>,
        /// How long the answer is waited for.
        timeout: Duration,
    },
    /// Tell a caller its place in the queue.
    TellWaiting {
        /// Whom.
        caller: CallerId,
        /// One for the next to be served.
        place: usize,
    },
    /// Tell a caller that it holds the lock.
    TellGranted {
        /// Whom.
        caller: CallerId,
        /// The grant.
        grant: Granted,
    },
    /// Answer a repeated call with the grant that its first had.
    TellSameGrant {
        /// Whom.
        caller: CallerId,
        /// Whose grant.
        holder: CallerId,
    },
    /// Tell a caller that somebody else has the lock.
    TellBusy {
        /// Whom.
        caller: CallerId,
        /// Who has it.
        busy: Busy,
    },
    /// Tell a waiting caller that it cannot be served.
    TellFailed {
        /// Whom.
        caller: CallerId,
        /// Why.
        store_failure: StoreFailure,
    },
    /// Tell a waiting caller that its part has had the lock granted to nobody: it waits no more (T6).
    TellSettled {
        /// Whom.
        caller: CallerId,
        /// Whether its part is stored; else it wanted nothing written.
        written: bool,
    },
    /// Tell a caller that a repeated call, or a resume of its hold, has taken its place.
    TellSuperseded {
        /// Whom.
        caller: CallerId,
        /// Who has its place now.
        by: CallerId,
    },
    /// Tell whoever is still there that the hold went on at another sidecar: nothing of it is left here
    /// (S16).
    TellMoved {
        /// Whom.
        caller: CallerId,
    },
    /// Tell a holder that this sidecar ends and its hold does not: the client resumes it at the replacement,
    /// within the validity that it was told last (S15, S16). A release that the store has not answered is not
    /// told as done (S13).
    TellInterrupted {
        /// Whom.
        caller: CallerId,
    },
    /// Tell a holder its new validity.
    TellRenewed {
        /// Whom.
        caller: CallerId,
        /// Its end.
        valid_until: Instant,
    },
    /// Tell a holder its new bound, and its validity (S11).
    TellExtended {
        /// Whom.
        caller: CallerId,
        /// The end of its validity.
        valid_until: Instant,
        /// When its hold ends at the latest.
        max_hold_ends: Instant,
    },
    /// Tell a holder that renewals fail (S9).
    TellAtRisk {
        /// Whom.
        caller: CallerId,
        /// When the hold will be lost.
        valid_until: Instant,
        /// What kind of failure renewals meet.
        kind: StoreFailureKind,
        /// The same for people.
        detail: String,
    },
    /// Tell a holder that renewals work again (S9).
    TellRecovered {
        /// Whom.
        caller: CallerId,
        /// The end of its validity.
        valid_until: Instant,
    },
    /// Tell a holder that its lease was broken and runs out: it has until then to finish (S22).
    TellRevoked {
        /// Whom.
        caller: CallerId,
        /// The end of its validity, which is the deadline.
        valid_until: Instant,
    },
    /// Answer a save (S24 to S27).
    TellSaved {
        /// Which.
        id: SaveId,
        /// What became of it.
        outcome: SaveOutcome,
    },
    /// Tell a holder that the sidecar is shutting down (S15).
    TellDraining {
        /// Whom.
        caller: CallerId,
        /// When its hold ends at the latest.
        ends: Instant,
    },
    /// Tell a holder that its hold is over (S4). Nothing else is told to it after that.
    TellLost {
        /// Whom.
        caller: CallerId,
        /// Why.
        reason: LossReason,
        /// More for people.
        detail: String,
    },
    /// Tell a client that the hold that it wants to go on with is not its own any more, or never was. To the
    /// client it is lost; here it is no loss, because its resume token may be forged (S16).
    TellResumeRefused {
        /// Whom.
        caller: CallerId,
        /// What became of the hold, as far as that is known.
        reason: LossReason,
        /// More for people.
        detail: String,
    },
    /// Answer a release.
    TellReleased {
        /// Whom.
        caller: CallerId,
        /// Until when nobody gets the lock, because of `min_hold` (S11).
        resting_until: Option<Instant>,
    },
    /// Answer a release that the store has not confirmed: the lease has run out by now, and it is not known
    /// whether the hold lasted until it was released (S13).
    TellNotConfirmed {
        /// Whom.
        caller: CallerId,
        /// Why.
        why: NotConfirmed,
        /// More for people.
        detail: String,
    },
    /// Tell the operator that two host types share this path.
    ReportCollision {
        /// The host type in the record.
        stored: String,
        /// The host type of who acquires.
        ours: String,
    },
    /// Tell the operator that the store refuses to break leases with these credentials, so that priorities
    /// wait (S33).
    ReportCannotBreak {
        /// What the store said.
        store_failure: StoreFailure,
    },
    /// Tell the operator that the lease was broken for a waiting caller (S33, S35).
    ReportOverruled {
        /// The caller's priority.
        priority: Priority,
        /// Whether it was for a share's balance (S35).
        moves: bool,
    },
    /// Count that the record is read beside this acquire because the lock was forgotten.
    ReportForgotten,
    /// Tell the operator that this path's token did not grow (S5).
    ReportTokenNotGrowing {
        /// The greatest token seen so far.
        seen: FencingToken,
        /// The one that was to be granted.
        next: Option<FencingToken>,
    },
    /// Tell the operator how a renewal went.
    ReportRenewal {
        /// From the send to the answer; none if none came.
        latency: Option<Duration>,
        /// How long after it was due it was sent.
        lateness: Duration,
        /// Why it failed, if it did.
        failure: Option<super::event::Failure>,
    },
}

/// What became of a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveOutcome {
    /// The store has it, or a newer one that took its place.
    Saved {
        /// The version of the checkpoint that the store has; none if there was none in the write.
        version: Option<u64>,
    },
    /// There was nothing to write: the part of the save has said so, over the record as it is (T8).
    Nothing,
    /// The hold was over before anything was written.
    Ended,
    /// The store refused it, and the hold goes on; nothing was written.
    NotSaved(StoreFailure),
    /// The hold was over before the store answered: the checkpoint from before stands or this one (S27).
    Unknown,
}

/// A grant, as the machine gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The token (S5).
    pub token: FencingToken,
    /// Grows with each resume of the hold (S16).
    pub generation: u64,
    /// The storage lease that backs it; for the resume token only (S16).
    pub lease_id: LeaseId,
    /// D of that lease.
    pub lease_duration: Duration,
    /// The end of the holder's validity (S2).
    pub valid_until: Instant,
    /// When the hold ends at the latest, if it has such a bound (S11).
    pub max_hold_ends: Option<Instant>,
    /// Until when a release keeps the lock from everyone (S11).
    pub min_hold_ends: Instant,
    /// When the lock was granted, by the store's clock, for people.
    pub acquired_at: UnixMillis,
    /// The store's clock now, as nearly as it is known.
    pub store_time: UnixMillis,
    /// The hold went on: it was had before and resumed (S16).
    pub resumed: bool,
    /// The lock's checkpoint, as it was when the token was written (S25).
    pub checkpoint: Option<Checkpoint>,
}

impl Granted {
    /// The grant without what may be large and is told once.
    pub(crate) const fn without_checkpoint(&self) -> Self {
        Self { checkpoint: None, ..*self }
    }
}

/// Who has the lock instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// What is stored with the lock, as last read; the default if it could not be read.
    pub record: Record,
    /// A good time to come again.
    pub retry_after: Duration,
    /// Nobody holds it: it rests because of `min_hold` (S11).
    pub resting: bool,
    /// How many of the permits that the caller may have were found held; one for a plain lock, or none if it
    /// rests (S28).
    pub held_permits: u8,
    /// Why the caller's priority has not freed the lock, if it gave one (S33).
    pub priority: Option<PriorityStatus>,
}

/// Why a release was not confirmed (S13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotConfirmed {
    /// The store has not answered before the lease ran out.
    NoAnswer,
    /// The store said that the lease is not ours any more, and by then it may have run out by itself.
    LeaseGone,
    /// Nothing was asked of the store, because the hold may have gone on elsewhere (S16).
    LeftToExpire,
}

impl NotConfirmed {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::NoAnswer, Self::LeaseGone, Self::LeftToExpire];

    /// A stable name, for metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoAnswer => "no_answer",
            Self::LeaseGone => "lease_gone",
            Self::LeftToExpire => "left_to_expire",
        }
    }
}

/// Why a hold was lost (S4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossReason {
    /// Its validity ran out: no renewal succeeded in time.
    Expired,
    /// Another has the lease.
    Taken,
    /// An operator broke the lease (S17).
    Broken,
    /// The lock or its container was deleted.
    LockDeleted,
    /// It lasted as long as `max_hold` allows, or one lease duration where `auto_renew` is off (S11).
    MaxHoldReached,
    /// The holder reported no progress in time (S11).
    NoProgress,
    /// The sidecar shut down (S15).
    Shutdown,
}

impl LossReason {
    /// Every reason, in the order of the API.
    pub const ALL: [Self; 7] = [
        Self::Expired,
        Self::Taken,
        Self::Broken,
        Self::LockDeleted,
        Self::MaxHoldReached,
        Self::NoProgress,
        Self::Shutdown,
    ];

    /// A stable name, for metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Taken => "taken",
            Self::Broken => "broken",
            Self::LockDeleted => "lock_deleted",
            Self::MaxHoldReached => "max_hold_reached",
            Self::NoProgress => "no_progress",
            Self::Shutdown => "shutdown",
        }
    }
}
