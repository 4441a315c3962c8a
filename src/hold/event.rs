//! What can come in: everything that happens to a lock path, in the past tense.

use std::sync::Arc;
use std::time::Duration;

use super::memory::{Resume, Terms};
use super::words::{CallerId, Failure, LeaseGranted, Look, RequestId, SaveAsked, Stored, WriteOf};
use crate::lock::FencingToken;
use crate::record::{ETag, Verdict};
use crate::time::{Instant, UnixMillis};

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
