//! The words in which a machine is spoken to and speaks, of callers and of the store; and what goes out:
//! plain data, imperative ([`Action`]), in the order in which it stands ([`Output`]).

use std::time::Duration;

use crate::lock::{FencingToken, LeaseId};
use crate::record::{Checkpoint, CheckpointValue, ETag, Fields, Found, Priority, Record};
use crate::time::{Instant, UnixMillis};

/// A caller of this sidecar: one call that waits, and the hold that it is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(pub u64);

/// The number of a call that saves a checkpoint; its answer quotes it (S26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SaveId(pub u64);

/// What is to be saved, and the call that asks for it.
#[derive(Clone, Debug)]
pub struct SaveAsked {
    /// The answer quotes it.
    pub id: SaveId,
    /// The new checkpoint, if there is one (S23).
    pub value: Option<CheckpointValue>,
    /// More is to be written in the same write, as is decided for the call then (T8).
    pub decides: bool,
}

/// The number of a request to the store; its answer quotes it (S2: an answer counts from its own request).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The store gave a lease.
#[derive(Clone, Debug)]
pub struct LeaseGranted {
    /// The record's version.
    pub etag: ETag,
    /// The store's clock.
    pub time: UnixMillis,
    /// The lock was made just now: its record is empty.
    pub created: bool,
}

/// The record of a lock as the store has it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The version of the record.
    pub etag: ETag,
    /// Its fields, those of others included.
    pub fields: Fields,
    /// Whether nobody has its lease.
    pub free: bool,
    /// The store's clock.
    pub time: UnixMillis,
}

/// A lock whose lease was broken.
#[derive(Clone, Debug)]
pub struct Look {
    /// The record of the lock.
    pub stored: Stored,
    /// Whether its lease was broken and still runs out.
    pub breaking: bool,
    /// The note of the break, if it was asked for and is there.
    pub note: Option<NoteSeen>,
}

/// What a break's note says, as far as the machine cares (S22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteSeen {
    /// The token of the grant that it is about.
    pub token: Option<FencingToken>,
    /// The lease runs out as it would have; it does not end earlier.
    pub runs_out: bool,
    /// When, by the store's clock, and for which priority, if it was broken for a waiting caller (S33, S35).
    pub for_priority: Option<(Priority, UnixMillis)>,
}

/// Whose write it is that is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOf {
    /// The one that goes before the grant to this caller (T6).
    Grant(CallerId),
    /// The one that this call saves (T8).
    Save(SaveId),
}

/// Why the store did not do what was asked, as far as the machine cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Somebody else has the lease.
    Contended,
    /// The lease is another's, or nobody's (S8).
    Taken,
    /// The lease was broken (S8, S17).
    Broken,
    /// The lock or its container is gone (S8).
    Deleted,
    /// The record has another version than was given.
    Changed,
    /// Nothing is known of the outcome: to be tried again (S8).
    Unknown(StoreFailure),
    /// It was surely not done, and may be tried again: it was not sent, or the store asked for patience.
    NotDone(StoreFailure),
    /// Refused for a reason that trying again in this call will not mend; a hold tries on all the same (S8).
    Refused(StoreFailure),
}

impl Failure {
    /// The store's own failure, to go by and to tell callers; that it has answered what `what` is never
    /// answered, if it has.
    pub(super) fn into_cause(self, what: &str) -> StoreFailure {
        match self {
            Self::Unknown(store_failure)
            | Self::NotDone(store_failure)
            | Self::Refused(store_failure) => store_failure,
            Self::Contended | Self::Changed | Self::Taken | Self::Broken | Self::Deleted => {
                StoreFailure {
                    kind: StoreFailureKind::StoreFailed,
                    message: format!(
                        "the store answered the {what} in a way that no {what} is answered: {self:?}"
                    ),
                    retry_after: None,
                }
            }
        }
    }

    /// That the lease which the request went under is ours no more, if it says so (S8).
    pub(super) const fn loss(&self) -> Option<Loss> {
        match self {
            Self::Taken => Some(Loss::TAKEN),
            Self::Broken => Some(Loss::BROKEN),
            Self::Deleted => Some(Loss::DELETED),
            Self::Contended
            | Self::Changed
            | Self::Unknown(_)
            | Self::NotDone(_)
            | Self::Refused(_) => None,
        }
    }
}

/// A failure of the store to tell to callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFailure {
    /// Of what kind it is.
    pub kind: StoreFailureKind,
    /// What happened and what to do, for people; no secrets (S20).
    pub message: String,
    /// When to come again, if the store said so.
    pub retry_after: Option<Duration>,
}

impl StoreFailure {
    /// The sidecar shuts down (S15).
    pub(crate) fn shutting_down() -> Self {
        let message = "the sidecar is shutting down".to_owned();
        Self { kind: StoreFailureKind::ShuttingDown, message, retry_after: None }
    }

    /// The failure of a request that was not answered in time.
    pub(super) fn unanswered(what: &str) -> Self {
        Self {
            kind: StoreFailureKind::Unavailable,
            message: format!("the store did not answer the {what} in time"),
            retry_after: None,
        }
    }
}

/// The kinds of store failure that callers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreFailureKind {
    /// The store cannot be reached or does not answer in time.
    Unavailable,
    /// The store asks for patience.
    Throttled,
    /// The store refuses the sidecar's credentials.
    Denied,
    /// The container does not exist and may not be made.
    ContainerMissing,
    /// The store has failed in a way that needs an operator.
    StoreFailed,
    /// The store has as many locks as it may, and this would be another.
    Full,
    /// The token would not have grown (S5).
    TokenNotGrowing,
    /// A token is stored that cannot be read (S5).
    TokenUnreadable,
    /// The sidecar is shutting down (S15).
    ShuttingDown,
}

/// Something to do, in the order in which it stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask the store.
    Store {
        /// The answer quotes it.
        request: RequestId,
        /// What is asked.
        what: Request,
        /// How long the answer is waited for (S7).
        timeout: Duration,
    },
    /// Have it decided what is written; [`super::Event::Decided`] is the next event.
    Decide {
        /// Whose write it is.
        of: WriteOf,
        /// Over which record.
        found: Found,
    },
    /// Tell a caller, or whoever is still there of a hold that has gone.
    Tell {
        /// The caller that waits, or the holder.
        caller: CallerId,
        /// What it is told.
        notice: Notice,
    },
    /// Answer a save (S24 to S27).
    Saved {
        /// The save's number.
        id: SaveId,
        /// What became of it.
        outcome: SaveOutcome,
    },
    /// Tell the operator, or count.
    Report(Remark),
}

/// What the store is asked, about the machine's lock.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Acquire the lease; beside it, read the record if `read` says so.
    Acquire {
        /// The proposed id.
        lease_id: LeaseId,
        /// D, the duration of the lease.
        duration: Duration,
        /// Only if the record has this version (S6).
        if_match: Option<ETag>,
        /// Whether to read the record side by side.
        read: bool,
    },
    /// Read the record.
    Read,
    /// Write the record under the lease (S5).
    Write {
        /// The lease to write under.
        lease_id: LeaseId,
        /// Only if the record has this version.
        if_match: ETag,
        /// All its fields.
        fields: Fields,
    },
    /// Renew the lease.
    Renew {
        /// The lease to renew.
        lease_id: LeaseId,
        /// Only if the record has this version: a hold that was resumed elsewhere has another (S16).
        if_match: Option<ETag>,
    },
    /// Read the record of a lock whose lease was broken, and whether the lease still runs out (S22).
    Look {
        /// Whether to read the note of the break too.
        note: bool,
    },
    /// Break the lease so that it runs out, for the caller at the front, and leave a note of it (S33, S35).
    Break {
        /// Only if the record has this version.
        if_match: ETag,
        /// For whom, and whose grant it is.
        rival: Box<Rival>,
    },
    /// Give the lease back.
    Release {
        /// The lease to give back.
        lease_id: LeaseId,
        /// Only if the record has this version: a hold that was resumed elsewhere has another (S16).
        if_match: Option<ETag>,
    },
}

/// What a caller is told: one that waits, or a holder.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Its place in the queue.
    Waiting {
        /// 1 for the next to be served.
        place: usize,
    },
    /// It holds the lock.
    Granted(Granted),
    /// It repeats a call, and has the grant of the first.
    SameGrant {
        /// The caller whose grant it is.
        holder: CallerId,
    },
    /// Another caller has the lock.
    Busy(Box<Busy>),
    /// It cannot be served.
    Failed(StoreFailure),
    /// As was decided for it, nobody is granted the lock: it waits no more (T6).
    Settled {
        /// Whether what was decided is stored; else there was nothing to write.
        written: bool,
    },
    /// A repeated call, or a resume of its hold, has taken its place.
    Superseded {
        /// Who has its place now.
        by: CallerId,
    },
    /// The hold went on at another sidecar: nothing of it is left here (S16).
    Moved,
    /// This sidecar ends and the hold does not: the client resumes it at the replacement, within the validity
    /// that it was told last (S15, S16). A release that the store has not answered is not told as done (S13).
    Interrupted,
    /// Its new validity.
    Renewed {
        /// The end of the validity.
        valid_until: Instant,
    },
    /// Its new bound, and its validity (S11).
    Extended {
        /// The end of the validity.
        valid_until: Instant,
        /// When its hold ends at the latest.
        max_hold_ends: Instant,
    },
    /// Renewals fail (S9).
    AtRisk {
        /// When the hold will be lost.
        valid_until: Instant,
        /// What kind of failure renewals meet.
        kind: StoreFailureKind,
        /// The same for people.
        detail: String,
    },
    /// Renewals work again (S9).
    Recovered {
        /// The end of the validity.
        valid_until: Instant,
    },
    /// Its lease was broken and runs out: it has until then to finish (S22).
    Revoked {
        /// The end of the validity, which is the deadline.
        valid_until: Instant,
    },
    /// The sidecar is shutting down (S15).
    Draining {
        /// When its hold ends at the latest.
        ends: Instant,
    },
    /// Its hold is over (S4). Nothing else is told to it after that.
    Lost {
        /// Why the hold is over.
        reason: LossReason,
        /// More for people.
        detail: String,
    },
    /// The hold that the client wants to go on with is not its own any more, or never was. To the client it
    /// is lost; here it is no loss, because its resume token may be forged (S16).
    ResumeRefused {
        /// What became of the hold, as far as that is known.
        reason: LossReason,
        /// More for people.
        detail: String,
    },
    /// It has released.
    Released {
        /// Until when nobody gets the lock, because of `min_hold` (S11).
        resting_until: Option<Instant>,
    },
    /// It has released, and the store has not confirmed it: the lease has run out by now, and it is not known
    /// whether the hold lasted until it was released (S13).
    NotConfirmed {
        /// Why it is not confirmed.
        why: NotConfirmed,
        /// More for people.
        detail: String,
    },
}

/// What the operator is told, and what is counted.
#[derive(Clone, Debug, PartialEq)]
pub enum Remark {
    /// Two host types share this path.
    Collision {
        /// The host type in the record.
        stored: String,
        /// The host type of who acquires.
        ours: String,
    },
    /// The store refuses to break leases with these credentials, so that priorities wait (S33).
    CannotBreak {
        /// What the store said.
        store_failure: StoreFailure,
    },
    /// The lease was broken for a waiting caller (S33, S35).
    Overruled {
        /// The caller's priority.
        priority: Priority,
        /// Whether it was for a share's balance (S35).
        moves: bool,
    },
    /// The record is read beside this acquire because the lock was forgotten.
    Forgotten,
    /// This path's token did not grow (S5).
    TokenNotGrowing {
        /// The greatest token seen so far.
        seen: FencingToken,
        /// The one that was to be granted.
        next: Option<FencingToken>,
    },
    /// How a renewal went.
    Renewal {
        /// From the send to the answer; none if none came.
        latency: Option<Duration>,
        /// How long after it was due it was sent.
        lateness: Duration,
        /// Why it failed, if it did.
        failure: Option<Failure>,
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
    /// There was nothing to write: that was decided over the record as it is (T8).
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
    /// The end of the one lease that a hold without `auto_renew` lasts for (S11).
    pub lease_ends: Option<Instant>,
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
    /// Every reason, in the order of the API.
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

/// Why a caller with a priority waits all the same (S33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PriorityStatus {
    /// The holder does not yield.
    HolderDoesNotYield,
    /// The holder's priority is not smaller.
    NotGreater,
    /// The caller has not waited for a lease duration, or tries once.
    WaitedTooShort,
    /// The lock was broken less than two lease durations ago.
    BrokenRecently,
    /// The holder was told, and has until its lease expires to finish.
    Revoked,
    /// The store refuses to break leases with the sidecar's credentials.
    CannotBreak,
    /// The lock is kept for a caller of greater priority.
    Reserved,
}

/// For whom a lock is broken that is another's (S33, S35).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The token of the grant that is broken.
    pub token: Option<FencingToken>,
    /// The caller's priority.
    pub priority: Priority,
    /// Who the caller is, for people.
    pub holder: String,
    /// Whether it is for a share's balance (S35); else the holder's priority is smaller (S33).
    pub moves: bool,
    /// When, by the store's clock.
    pub at: UnixMillis,
}

/// Why a hold is lost, and how that is said to people.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    pub(super) reason: LossReason,
    pub(super) detail: &'static str,
}

impl Loss {
    /// The store's word, as those below (S8).
    pub(super) const TAKEN: Self =
        Self { reason: LossReason::Taken, detail: "another has the lease, or had it since" };
    pub(super) const BROKEN: Self =
        Self { reason: LossReason::Broken, detail: "the lease was broken" };
    pub(super) const DELETED: Self =
        Self { reason: LossReason::LockDeleted, detail: "the lock or its container was deleted" };
}

/// What a try has come to, for the queue to tell the callers that wait.
#[derive(Clone, Debug)]
pub(crate) enum Tried {
    /// Another caller has the lock: one try is over, and the others wait.
    Taken,
    /// The store could not be asked, and will be asked again: one try is over.
    Failed(StoreFailure),
    /// The store refuses what is asked, for any caller.
    Refused(StoreFailure),
}

/// What an event brings: something to do, or an answer to the callers that wait.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Act(Action),
    Tried(Tried),
}

/// The moment at which an event is looked at, and what it brings, in order.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) now: Instant,
    effects: Vec<Effect>,
}

impl Output {
    pub(super) const fn new(now: Instant) -> Self {
        Self { now, effects: Vec::new() }
    }

    pub(super) fn push(&mut self, action: Action) {
        self.effects.push(Effect::Act(action));
    }

    /// Asks the store.
    pub(super) fn ask(&mut self, request: RequestId, what: Request, timeout: Duration) {
        self.push(Action::Store { request, what, timeout });
    }

    /// Tells a caller.
    pub(super) fn tell(&mut self, caller: CallerId, notice: Notice) {
        self.push(Action::Tell { caller, notice });
    }

    /// Says what a try has come to.
    pub(super) fn tried(&mut self, tried: Tried) {
        self.effects.push(Effect::Tried(tried));
    }

    /// Tells the operator, or counts.
    pub(super) fn report(&mut self, remark: Remark) {
        self.push(Action::Report(remark));
    }

    pub(super) fn into_effects(self) -> Vec<Effect> {
        self.effects
    }
}
