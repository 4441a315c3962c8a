//! The store: the table of the contract of stores (`src/store/mod.rs`), for the operations that sidecars and
//! operators use.

use crate::model::state::{Lease, LeaseState, Operation, Record, Reply, Request, Store, Ticks};

impl Store {
    pub(crate) fn new() -> Self {
        let record = Record::default();
        Self { state: LeaseState::Available, lease: 0, left: 0, record, released: 0 }
    }

    /// Whether this lease is still its owner's: nobody else has the lock, and nobody ended it.
    pub(crate) fn is_of(&self, lease: Lease) -> bool {
        let is_live = match self.state {
            LeaseState::Leased | LeaseState::Breaking | LeaseState::Expired => true,
            LeaseState::Available | LeaseState::Broken => false,
        };
        is_live && self.lease == lease
    }

    pub(crate) fn apply(&mut self, request: Request, duration: Ticks) -> Reply {
        let is_own = self.lease == request.lease;
        match request.operation {
            Operation::Acquire => self.acquire(request.lease, duration),
            Operation::Write { expected, record, .. } => match self.state {
                LeaseState::Leased | LeaseState::Breaking if is_own => {
                    if expected != self.record.version {
                        return Reply::Changed;
                    }
                    self.record = Record { version: self.record.version + 1, ..record };
                    Reply::Done(self.record)
                }
                LeaseState::Leased
                | LeaseState::Breaking
                | LeaseState::Available
                | LeaseState::Broken
                | LeaseState::Expired => Reply::NotOurs,
            },
            Operation::Renew { expected } => match self.state {
                // A write goes only with a live lease, so an expired one is as it was.
                LeaseState::Leased | LeaseState::Expired if is_own => {
                    if self.is_changed(expected) {
                        return Reply::Changed;
                    }
                    (self.state, self.left) = (LeaseState::Leased, duration);
                    Reply::Done(self.record)
                }
                LeaseState::Breaking if is_own => Reply::Breaking,
                LeaseState::Broken if is_own => Reply::Broken,
                LeaseState::Leased
                | LeaseState::Expired
                | LeaseState::Breaking
                | LeaseState::Broken
                | LeaseState::Available => Reply::NotOurs,
            },
            Operation::Release { expected } => match self.state {
                LeaseState::Available => Reply::NotOurs,
                LeaseState::Leased
                | LeaseState::Breaking
                | LeaseState::Broken
                | LeaseState::Expired => {
                    if !is_own {
                        return Reply::NotOurs;
                    }
                    if self.is_changed(expected) {
                        return Reply::Changed;
                    }
                    self.released |= 1 << self.lease;
                    self.free();
                    Reply::Done(self.record)
                }
            },
            Operation::Read => Reply::Done(self.record),
        }
    }

    fn acquire(&mut self, lease: Lease, duration: Ticks) -> Reply {
        let is_own = self.lease == lease;
        match self.state {
            LeaseState::Leased if !is_own => Reply::NotOurs,
            LeaseState::Breaking => Reply::NotOurs,
            // S6: it goes by the version from before the token, so a late one revives nothing.
            LeaseState::Broken if is_own && self.record.lease == lease => Reply::NotOurs,
            LeaseState::Leased
            | LeaseState::Available
            | LeaseState::Broken
            | LeaseState::Expired => {
                (self.state, self.lease, self.left) = (LeaseState::Leased, lease, duration);
                Reply::Done(self.record)
            }
        }
    }

    fn is_changed(&self, expected: Option<u8>) -> bool {
        expected.is_some_and(|expected| expected != self.record.version)
    }

    fn free(&mut self) {
        (self.state, self.lease, self.left) = (LeaseState::Available, 0, 0);
    }

    /// An operator's break (S17): it runs out, or it ends at once. False where there is nothing to break.
    pub(crate) fn break_lease(&mut self, at_once: bool) -> bool {
        match (self.state, at_once) {
            (LeaseState::Leased, false) => self.state = LeaseState::Breaking,
            (LeaseState::Leased | LeaseState::Breaking, true) => {
                (self.state, self.left) = (LeaseState::Broken, 0);
            }
            (LeaseState::Breaking, false)
            | (LeaseState::Available | LeaseState::Broken | LeaseState::Expired, _) => {
                return false;
            }
        }
        true
    }

    pub(crate) fn tick(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.state = match self.state {
                LeaseState::Leased => LeaseState::Expired,
                LeaseState::Breaking => LeaseState::Broken,
                LeaseState::Available => LeaseState::Available,
                LeaseState::Broken => LeaseState::Broken,
                LeaseState::Expired => LeaseState::Expired,
            };
        }
    }
}
