//! What is on its way, and when it arrives.

use std::cmp::Ordering;
use std::time::Duration;

use leasehold::hold::{Action, CallerId, Event};
use leasehold::time::Instant;

use crate::client::Message;

/// What reaches a sidecar.
#[derive(Debug)]
pub(crate) enum Incoming {
    Event(Event),
    /// A client elsewhere asks for its validity, at this time of its own (S21).
    Question(CallerId, Instant),
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
    Restart(usize),
}

#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) at: Duration,
    pub(crate) number: u64,
    pub(crate) delivery: Delivery,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
