//! A plain lock as a driver has it: the machine of its one permit, with the queue above it.

use std::ops::Deref;

use leasehold::hold::{self, Event, Hold, Memory, Settings, Standing};
use leasehold::lock::{LeaseId, Permit};
use leasehold::queue::{Action, Queue};
use leasehold::time::Instant;

/// A lock whose callers name one permit.
#[derive(Clone, Debug)]
pub(crate) struct PlainLock(Queue);

impl PlainLock {
    pub(crate) fn new(settings: Settings, memory: Memory, seed: u64, now: Instant) -> Self {
        Self(Queue::new(settings, memory, seed, now))
    }

    pub(crate) fn needs_lease_id(&self) -> bool {
        self.0.needs_lease_id()
    }

    pub(crate) fn supply(&mut self, lease_id: LeaseId) {
        self.0.supply(lease_id);
    }

    pub(crate) fn stand(&mut self, standing: Standing) {
        self.0.stand(standing);
    }

    pub(crate) fn handle_event(&mut self, event: Event, now: Instant) -> Vec<hold::Action> {
        let actions = self.0.handle_event(Permit::FIRST, event, now);
        let own = |action| match action {
            Action::At { permit: Permit::FIRST, action } => action,
            other => panic!("a plain lock is permit 0 alone: {other:?}"),
        };
        actions.into_iter().map(own).collect()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.0.waiting()
    }

    pub(crate) fn into_memory(self) -> Memory {
        self.0.into_memories().into_iter().next().map(|(_, memory)| memory).unwrap_or_default()
    }
}

impl Deref for PlainLock {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        self.0.first()
    }
}
