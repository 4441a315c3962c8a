//! What is on its way, and when it arrives.

use std::time::Duration;

use leasehold::hold::{Action, CallerId, Event};
use leasehold::lock::FencingToken;
use leasehold::record::ETag;
use leasehold::store::BreakPeriod;
use leasehold::time::{Instant, UnixMillis};

use crate::simulation::client::Message;
use crate::simulation::ghosts::Ghost;

/// What reaches a sidecar.
#[derive(Debug)]
pub(crate) enum Incoming {
    Event(Event),
    /// What one call asks for.
    Together(Vec<Event>),
    /// A lock was broken through this sidecar, with a note about this grant (S17).
    Broken {
        noted: Option<FencingToken>,
        ends_now: bool,
    },
    /// The connection of a unary call is gone.
    CallCut(CallerId),
    /// An answer of the store, with its date.
    Answer(Event, UnixMillis),
    /// A client elsewhere asks for its validity with this generation, at this time of its own (S21).
    Question(CallerId, Option<u64>, Instant),
}

/// The side of a connection that a message goes to. Its number belongs to the choices of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client = 0,
    Sidecar = 1,
}

/// A wall clock that is set, again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallMoves {
    pub(crate) machine: usize,
    /// By how many milliseconds; each time the other way if it swings.
    pub(crate) by: i64,
    pub(crate) swings: bool,
    pub(crate) left: u8,
    pub(crate) each: Duration,
}

/// A break of a lock (S17).
#[derive(Clone, Debug)]
pub(crate) struct Break {
    pub(crate) by: Breaker,
    /// The grant that it is for; none if the lock is yet to be looked at.
    pub(crate) seen: Option<Seen>,
    /// The sidecar through which it was asked for, and its life, if it is one of these.
    pub(crate) through: Option<(usize, u32)>,
    /// That sidecar has given it up before it arrives, and is told nothing more of it.
    pub(crate) given_up: bool,
}

/// A grant as it was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) token: Option<FencingToken>,
    pub(crate) version: ETag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breaker {
    /// The product, which leaves its note.
    Ours(BreakPeriod),
    /// Another tool, with a period of its own.
    Another(Duration),
}

#[derive(Debug)]
pub(crate) enum Delivery {
    ToSidecar {
        sidecar: usize,
        life: u32,
        incoming: Incoming,
    },
    ToStore {
        sidecar: usize,
        life: u32,
        action: Box<Action>,
        number: u64,
        heard: bool,
        sent: Duration,
    },
    ToClient(CallerId, Message),
    ClientActs(usize),
    /// A client's write reaches the protected resource.
    ToResource {
        client: usize,
        token: u64,
    },
    Arrival(u64),
    Trouble(u64),
    /// Perhaps somebody sets the store's clock.
    StoreClock(u64),
    Restart(usize),
    WallMoves(WallMoves),
    /// Somebody mends a record that another tool has spoilt.
    Mended,
    /// A client has finished after a notice (S22).
    Finishes {
        client: usize,
        caller: CallerId,
        saves: bool,
    },
    /// A client that has released resumes all the same.
    Haunts {
        sidecar: usize,
        caller: CallerId,
        ghost: Box<Ghost>,
    },
    /// The break of a lock, for which its record has been read, reaches the store.
    Breaks(Break),
    /// A client that takes the lock in a loop goes on.
    LoopsOn(usize),
}
