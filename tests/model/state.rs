//! What there is: one lock in the store, two sidecars, a client that moves, a client that waits at each
//! sidecar, and what is on its way between them. All times are countdowns in ticks, so that equal situations
//! are one state whenever they occur.

/// A span in ticks.
pub(crate) type Ticks = u8;
/// A lease id; 0 is none. Each storage acquisition has its own (S6).
pub(crate) type Lease = u8;

/// The two sidecars, A and B.
pub(crate) const SIDECARS: [usize; 2] = [0, 1];
/// The client that moves; it begins at A. Clients 1 and 2 wait at A and at B.
pub(crate) const MOVER: usize = 0;

/// Who waits at this sidecar.
pub(crate) fn waiter(sidecar: usize) -> usize {
    sidecar + 1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LeaseState {
    Available,
    Leased,
    Breaking,
    Broken,
    Expired,
}

/// What stands with the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Record {
    /// The ETag: another one after each write.
    pub(crate) version: u8,
    pub(crate) epoch: u8,
    /// The number of the hand-off: with the epoch it is the token (S5).
    pub(crate) number: u8,
    /// The lease fingerprint.
    pub(crate) lease: Lease,
    pub(crate) generation: u8,
    /// The resume attempt that wrote it; 0 for a grant.
    pub(crate) attempt: u8,
    /// The write id: whose write this is.
    pub(crate) writer: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) state: LeaseState,
    pub(crate) lease: Lease,
    pub(crate) left: Ticks,
    pub(crate) record: Record,
    /// The leases that ended by their own release, a bit each.
    pub(crate) released: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Operation {
    Acquire,
    /// With the version that it expects; `claimed` is the generation that the resume came with.
    Write {
        expected: u8,
        record: Record,
        claimed: u8,
    },
    Renew {
        expected: Option<u8>,
    },
    Release {
        expected: Option<u8>,
    },
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) lease: Lease,
    pub(crate) operation: Operation,
    /// What is left of the validity that an answer to this very request would give (S2).
    pub(crate) fresh: Ticks,
}

impl Request {
    /// Whether it writes the record.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.operation, Operation::Write { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Done(Record),
    /// Another has it, or nobody.
    NotOurs,
    Breaking,
    Broken,
    Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exchange {
    pub(crate) request: Request,
    pub(crate) reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// For the client that it will be granted to.
    Acquiring,
    /// The token is written, or a read settles whether it was.
    Storing,
    Held,
    /// The stream broke: nothing is renewed until the validity last told is over (S14).
    Silent,
    /// Breaking: nothing is renewed, handed on or resumed any more (S22).
    Revoked,
    /// Released in the store; whether somebody is to be told the outcome.
    Ending {
        asked: bool,
    },
    /// A resume: the lease is renewed and the record read.
    Renewing,
    /// A resume: the next generation is written, or a read settles whether it was.
    Resuming,
}

/// What a sidecar knows of a lease beside the breaks from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Proof {
    #[default]
    Proven,
    /// A break is over, and no renewal was sent since.
    Unproven,
    /// A renewal was sent since.
    Proving,
    /// One may come yet: until the record has another version than this, which it was for.
    Doubtful(u8),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sidecar {
    pub(crate) phase: Phase,
    pub(crate) lease: Lease,
    /// The version that it last wrote.
    pub(crate) version: u8,
    pub(crate) epoch: u8,
    pub(crate) number: u8,
    /// The number in the record of that version: below its own until a hold that was handed on is written
    /// (S10).
    pub(crate) stored: u8,
    pub(crate) generation: u8,
    /// The resume attempt in the record of that version.
    pub(crate) attempt: u8,
    /// Of a resume: the generation that the client came with, and its attempt.
    pub(crate) claimed: u8,
    pub(crate) trying: u8,
    pub(crate) holder: usize,
    /// The validity by the store's answers.
    pub(crate) valid: Ticks,
    /// The validity last told to the holder.
    pub(crate) told: Ticks,
    /// Until somebody elsewhere can no longer believe (S16).
    pub(crate) settling: Ticks,
    /// A try of what is under way has an unknown outcome.
    pub(crate) repeats: bool,
    /// A record write has an unknown outcome: that of the next generation, or of a hold that was handed on.
    pub(crate) unsettled: bool,
    /// Whether an operator's break from here may have met the lease (S17).
    pub(crate) proof: Proof,
    /// It has told the holder of this lease something itself.
    pub(crate) own: bool,
    /// A bound of the hold (`max_hold`, progress) has come: no more validity is told.
    pub(crate) bounded: bool,
    /// It was told to end, and a replacement follows (S15).
    pub(crate) ending: bool,
    /// When the release was asked for, the lease was ours.
    pub(crate) was_ours: bool,
    pub(crate) exchange: Option<Exchange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Waiting,
    Holding,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) stage: Stage,
    /// It believes while this is not over.
    pub(crate) until: Ticks,
    pub(crate) lease: Lease,
    /// The number of its token within that lease.
    pub(crate) number: u8,
}

/// What the moving client knows beyond its belief.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Mover {
    /// Where its stream is, if it has one.
    pub(crate) stream: Option<usize>,
    pub(crate) epoch: u8,
    pub(crate) number: u8,
    /// As last answered.
    pub(crate) generation: u8,
    /// Its current attempt to resume; the same one until it is answered.
    pub(crate) attempt: u8,
    /// It has sent a resume whose answer it does not know.
    pub(crate) unsure: bool,
    /// Where it waits for an answer.
    pub(crate) awaiting: Option<usize>,
}

/// A call of the moving client on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) to: usize,
    pub(crate) what: CallKind,
    pub(crate) lease: Lease,
    pub(crate) epoch: u8,
    pub(crate) number: u8,
    pub(crate) generation: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CallKind {
    Resume { attempt: u8 },
    Release,
}

/// An operator's break of the grant that was looked at (S17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Break {
    pub(crate) at_once: bool,
    /// The sidecar that it goes through.
    pub(crate) through: usize,
    /// The token that it is for: its epoch and number.
    pub(crate) named: (u8, u8),
    /// The version that was looked at.
    pub(crate) expected: u8,
    pub(crate) stage: BreakStage,
    /// The request will arrive once more.
    pub(crate) again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BreakStage {
    Sent,
    /// Done, and the answer is under way.
    Done,
    /// Its sidecar knows nothing of it any more.
    Late,
}

/// What may still go wrong, and what may still be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Answers and requests of the store that are given up, lost or late.
    pub(crate) unknown: u8,
    /// Requests to the store that arrive twice.
    pub(crate) doubled: u8,
    /// Calls of the client that arrive twice.
    pub(crate) repeated: u8,
    /// Streams that break.
    pub(crate) cuts: u8,
    /// Resumes that the client sends.
    pub(crate) resumes: u8,
    pub(crate) crashes: u8,
    /// Sidecars that are told to end, and are replaced (S15).
    pub(crate) hand_overs: u8,
    pub(crate) breaks: u8,
    pub(crate) breaks_now: u8,
    /// Of these, those that are given up though they may come yet, or that arrive twice.
    pub(crate) late_breaks: u8,
    pub(crate) bounds: u8,
    /// Storage acquisitions that a sidecar makes.
    pub(crate) leases: u8,
}

/// A rule that a step broke. What can be seen in a state alone (S1) is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    /// S4: a hold went on after its validity was over.
    Revived,
    /// S5: a token that does not grow.
    Token,
    /// S16: a generation that does not grow.
    Generation,
    /// S16: a resume with another generation than the record's was accepted.
    ForeignGeneration,
    /// S13: RELEASED, though the lease was not ours.
    Released,
    /// S16: a resumed hold was ended early by something else than a release that carries its generation.
    EarlyEnd,
    /// S13, S16: handed on without the store after its stream broke, or while a write has an unknown outcome.
    HandedOn,
    /// S16: renewed over somebody else's write.
    RenewedOver,
    /// S13, S16: released over somebody else's write.
    ReleasedOver,
    /// S13: a lease was given back while a client believed in it.
    ReleasedUnder,
    /// S10, S16: a resume went on with a hold that a recorded hand-off had ended.
    OlderToken,
    /// S17: a break ended another grant than the one that it names.
    BrokeAnother,
    /// S17: a lease was handed on where it had been broken.
    HandedOnBroken,
}

/// One state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) sidecars: [Sidecar; 2],
    pub(crate) clients: [Client; 3],
    pub(crate) mover: Mover,
    pub(crate) calls: Vec<Call>,
    /// Requests whose answer nobody waits for.
    pub(crate) late: Vec<(usize, Request)>,
    pub(crate) budget: Budget,
    /// How many lease ids each sidecar has used.
    pub(crate) used: [u8; 2],
    /// The greatest token that was granted.
    pub(crate) greatest: (u8, u8),
    /// Leases that an operator ended at once, a bit each (S17).
    pub(crate) ended_at_once: u8,
    pub(crate) breaking: Option<Break>,
    /// The lease that a break has met, and through which sidecar.
    pub(crate) met: Option<(usize, Lease)>,
    pub(crate) breach: Option<Breach>,
}

/// What a step did that others may know of: the tests that the model is not vacuous and the traces are made
/// of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// By a storage acquisition, by hand-off, or by a resume that its caller heard.
    Granted {
        sidecar: usize,
        client: usize,
        how: How,
    },
    /// A validity that its holder heard.
    Told {
        client: usize,
    },
    /// A client ends its belief and says so next.
    EndsBelief {
        client: usize,
    },
    Lost {
        client: usize,
    },
    Outcome {
        client: usize,
        released: bool,
    },
    ResumedUnheard,
    ResumeRefused {
        stale: bool,
    },
    ResumeRepeated,
    /// A sidecar that is replaced has left a hold to its client.
    Interrupted,
    /// It has sent a resume away: to be tried again at the replacement, or elsewhere.
    ComeAgain,
    Left,
    ReleaseRefusedHere,
    Settled,
    SilentWaitedOut,
    RanOut,
    Revoked,
    BrokenNow,
    /// A hold that was handed on is in the record.
    Recorded,
    /// Its client resumed before that.
    ResumedAhead,
    /// Somebody resumed by the grant before it.
    OlderRefused,
    /// A break met another version of the same grant, or another grant.
    BreakGoesOn,
    BreakRefused,
    /// A break through another sidecar met a hold that was handed on and is not in the record yet (S10).
    BrokeUnrecorded,
    /// A lock was not handed on because of a break from there.
    KeptFromWaiter,
    OwnLateWrite,
    LateRequestApplied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    Acquired,
    HandedOn,
    Resumed,
}
