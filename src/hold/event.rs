//! What can come in: everything that happens to a lock path, in the past tense.

use std::sync::Arc;
use std::time::Duration;

use crate::lock::{FencingToken, LeaseId};
use crate::record::{CheckpointValue, ETag, Fields, Priority, Record, ShareName, Verdict};
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

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A caller wants the lock.
    CallerArrived {
        /// The caller; a new number each time.
        caller: CallerId,
        /// On what terms.
        terms: Arc<Terms>,
    },
    /// A caller went away on its own: it cancelled, closed its stream, or its process died (S12, S14).
    CallerLeft {
        /// The caller that waited or held.
        caller: CallerId,
    },
    /// A holder's stream ended in a way that does not show that the holder knows (S14).
    HolderDisconnected {
        /// The holder whose stream ended.
        caller: CallerId,
    },
    /// A holder asks for something.
    Call {
        /// The holder that asks.
        caller: CallerId,
        /// The generation that it was answered with, if it said one (S16).
        generation: Option<u64>,
        /// What it asks for.
        call: HolderCall,
    },
    /// A client wants to go on with a hold that it had by a stream that broke (S16).
    ResumeAsked {
        /// The caller that goes on; a new number.
        caller: CallerId,
        /// With which hold.
        resume: Box<Resume>,
    },
    /// The store answered.
    Answer {
        /// The request that it answers.
        request: RequestId,
        /// What the store answered.
        answer: Answer,
    },
    /// What the machine has asked for is decided: the event that follows [`super::Action::Decide`].
    Decided {
        /// Whose write it is.
        of: WriteOf,
        /// What is to be written.
        verdict: Verdict,
    },
    /// A renewal of a hold was not sent: it waits for its turn, because the store throttles (S7).
    RenewHeldBack {
        /// The renewal that waits.
        request: RequestId,
    },
    /// The turn of a renewal that was held back has come: if it is still wanted, it is sent now.
    RenewTurnCame,
    /// Other locks of the share were found free, or are had by fewer: those who wait look soon (S34).
    ShareStirred,
    /// This sidecar has least of the share: whoever waits here takes the lock from its holder, if that yields
    /// to it (S35).
    MoveAsked,
    /// An operator begins to break the lock through this sidecar: nothing is handed on meanwhile (S17).
    BreakBegun,
    /// That break is over, whatever became of it.
    BreakOver {
        /// Its outcome is not known: the request may be on its way yet.
        may_arrive: bool,
    },
    /// An operator broke the lease through this sidecar (S17).
    LeaseBroken {
        /// Whether it ended at once; else it runs out (S22).
        ends_now: bool,
    },
    /// An operator has ended this very grant at once, and took the risk that its former holder does not know
    /// (S13, S17).
    LockFreed {
        /// The token of the grant.
        token: FencingToken,
    },
    /// Another clock shows a pause that ours may not have counted: the store decides (S3).
    PauseSuspected,
    /// The sidecar is shutting down (S15).
    DrainStarted {
        /// When the drain period ends.
        ends: Instant,
    },
    /// The drain period is over (S15).
    DrainEnded,
    /// The sidecar is shutting down, and a replacement follows at which clients resume their holds (S15,
    /// S16).
    HandOverStarted {
        /// When the sidecar ends at the latest.
        ends: Instant,
    },
    /// Time passed; it may be spurious.
    TimePassed,
}

/// What a holder asks for.
#[derive(Clone, Debug)]
pub enum HolderCall {
    /// To release: its own belief has ended (S13).
    Release,
    /// To save its checkpoint (S23). With a release, it is told just before.
    Save(SaveAsked),
    /// A new `max_hold` (S11).
    Extend {
        /// For how long from now.
        max_hold: Duration,
    },
    /// It reports progress (S11).
    Progress,
    /// To be told its validity; nothing of its hold changes (S21).
    Validity,
}

/// What the store answered to a request of the same name.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To an acquire, and to the read beside it if there was one.
    Acquire {
        /// What of the lease.
        lease: Result<LeaseGranted, Failure>,
        /// What of the record, if it was read too.
        read: Option<Result<Stored, Failure>>,
    },
    /// To a read: the record.
    Read(Result<Stored, Failure>),
    /// The record's new version.
    Write(Result<ETag, Failure>),
    /// The store's clock, if the lease was renewed.
    Renew(Result<UnixMillis, Failure>),
    /// Whether it was released.
    Release(Result<(), Failure>),
    /// What is there of a lease that was broken.
    Look(Result<Look, Failure>),
    /// Whether the lease runs out now (S33, S35).
    Break(Result<(), Failure>),
}

/// What a caller wants of its hold.
#[derive(Clone, Debug)]
pub struct Terms {
    /// D: the duration of the storage lease, 15 to 60 s.
    pub lease_duration: Duration,
    /// How long to wait for the lock; zero is one try (S12).
    pub wait: Duration,
    /// The longest hold (S11); unbounded if none.
    pub max_hold: Option<Duration>,
    /// The shortest time until anybody else gets the lock (S11).
    pub min_hold: Duration,
    /// The longest time without a progress report (S11).
    pub progress_timeout: Option<Duration>,
    /// Whether the lease is renewed; otherwise the hold lasts one lease duration and no more.
    pub auto_renew: bool,
    /// A repeated call with the same one gets the same grant; empty for none.
    pub request_id: String,
    /// Whether this sidecar may take a lock of the share from another one that has more (S35).
    pub rebalance: bool,
    /// Whether the hold can be resumed, also elsewhere: then only a release that carries its generation shows
    /// that nobody believes in it any more (S13, S16).
    pub resumable: bool,
    /// What is stored with the lock, but for what the grant adds.
    pub record: Record,
    /// What is written beside the token is decided for the caller, under the lease; then the hold is never
    /// handed on without the store (T6). Not for callers of a pool (S28).
    pub decides: bool,
    /// The lock as the caller read it just before, so that the acquire goes by its version. Boxed: there is
    /// one of these for each hold.
    pub seen: Option<Box<Stored>>,
}

impl Terms {
    /// Those of a caller that asks for nothing in particular, by a lease of this duration.
    #[must_use]
    pub fn plain(lease_duration: Duration, wait: Duration) -> Self {
        Self {
            lease_duration,
            wait,
            max_hold: None,
            min_hold: Duration::ZERO,
            progress_timeout: None,
            auto_renew: true,
            request_id: String::new(),
            rebalance: false,
            resumable: false,
            record: Record::default(),
            decides: false,
            seen: None,
        }
    }

    /// Its priority among those who wait (S33).
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.record.sharing.as_ref().map_or(Priority::NONE, |sharing| sharing.priority)
    }

    /// The share that its lock belongs to (S34).
    #[must_use]
    pub fn share(&self) -> Option<&ShareName> {
        self.record.sharing.as_ref()?.share.as_ref()
    }
}

/// A hold that a client wants to go on with (S16).
#[derive(Clone, Debug)]
pub struct Resume {
    /// The storage lease.
    pub lease_id: LeaseId,
    /// The client's token.
    pub token: FencingToken,
    /// The generation of the hold that the client was answered with last.
    pub generation: u64,
    /// Names this try and its repeats: one whose answer was lost is not another's (S16). Empty for none.
    pub attempt: String,
    /// The terms, their spans counted from now.
    pub terms: Arc<Terms>,
    /// Until when, at most, the client may believe in its hold.
    pub believed_until: Instant,
    /// The end of the one lease of a hold that is not renewed (S11).
    pub lease_ends: Option<Instant>,
    /// When the lock was granted, by the store's clock.
    pub acquired_at: UnixMillis,
    /// The bounds of the hold by the store's clock, where the boot clock that they were counted on is
    /// another's; never more than `terms` says (S3, S11).
    pub bounds: Option<StoreBounds>,
}

/// When a hold must be over, and when it may be, by the store's clock (S11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreBounds {
    /// The end of `max_hold`.
    pub max_hold_ends: Option<UnixMillis>,
    /// The end of the one lease of a hold that is not renewed.
    pub lease_ends: Option<UnixMillis>,
    /// The end of `min_hold`.
    pub min_hold_ends: UnixMillis,
}

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

impl StoreFailure {
    /// The failure of a request that was not answered in time.
    pub(super) fn unanswered(what: &str) -> Self {
        Self {
            kind: StoreFailureKind::Unavailable,
            message: format!("the store did not answer the {what} in time"),
            retry_after: None,
        }
    }
}
