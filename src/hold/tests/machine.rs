//! A plain lock: the machine of its one permit, with the queue above it.

use std::ops::{Deref, DerefMut};

use crate::hold::{self, Event, Memory, Settings, Standing};
use crate::lock::{LeaseId, Permit};
use crate::queue::{Action, Queue};
use crate::time::Instant;

#[derive(Debug)]
pub(super) struct Hold(Queue);

impl Hold {
    pub(super) fn new(settings: Settings, memory: Memory, seed: u64, now: Instant) -> Self {
        Self(Queue::new(settings, memory, seed, now))
    }

    pub(super) fn needs_lease_id(&self) -> bool {
        self.0.needs_lease_id()
    }

    pub(super) fn supply(&mut self, lease_id: LeaseId) {
        self.0.supply(lease_id);
    }

    pub(super) fn stand(&mut self, standing: Standing) {
        self.0.stand(standing);
    }

    pub(super) fn handle_event(&mut self, event: Event, now: Instant) -> Vec<hold::Action> {
        let actions = self.0.handle_event(Permit::FIRST, event, now);
        let own = |action| match action {
            Action::At { permit: Permit::FIRST, action } => action,
            other => panic!("a plain lock is permit 0 alone: {other:?}"),
        };
        actions.into_iter().map(own).collect()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    pub(super) fn waiting(&self) -> usize {
        self.0.waiting()
    }

    pub(super) fn waiters(&self) -> String {
        self.0.waiters_shown()
    }
}

impl Deref for Hold {
    type Target = hold::Hold;

    fn deref(&self) -> &hold::Hold {
        self.0.first()
    }
}

impl DerefMut for Hold {
    fn deref_mut(&mut self) -> &mut hold::Hold {
        self.0.first_mut()
    }
}
