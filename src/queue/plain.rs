//! A plain lock, for tests that drive one by itself: the machine of its one permit, with the queue above it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::{Action, Queue};
use crate::hold::{self, Event, Hold, Memory, Settings, Standing};
use crate::lock::{LeaseId, Permit};
use crate::time::Instant;

/// A lock whose callers name one permit.
#[derive(Clone, Debug)]
pub struct PlainLock(Queue);

impl PlainLock {
    /// [`Queue::new`].
    #[must_use]
    pub fn new(
        settings: impl Into<Arc<Settings>>,
        memory: Memory,
        seed: u64,
        now: Instant,
    ) -> Self {
        Self(Queue::new(settings, memory, seed, now))
    }

    /// [`Queue::needs_lease_id`].
    #[must_use]
    pub const fn needs_lease_id(&self) -> bool {
        self.0.needs_lease_id()
    }

    /// [`Queue::supply`].
    pub const fn supply(&mut self, lease_id: LeaseId) {
        self.0.supply(lease_id);
    }

    /// [`Queue::stand`].
    pub fn stand(&mut self, standing: Standing) {
        self.0.stand(standing);
    }

    /// [`Queue::handle_event`].
    ///
    /// # Panics
    /// When a caller has named more permits than one.
    pub fn handle_event(&mut self, event: Event, now: Instant) -> Vec<hold::Action> {
        let actions = self.0.handle_event(Permit::FIRST, event, now);
        let own = |action| match action {
            Action::At { permit: Permit::FIRST, action } => action,
            other @ (Action::At { .. } | Action::ReportPermitsDiffer { .. }) => {
                panic!("a plain lock is permit 0 alone: {other:?}")
            }
        };
        actions.into_iter().map(own).collect()
    }

    /// [`Queue::poll_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    /// [`Queue::is_idle`].
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    /// [`Queue::waiting`].
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting()
    }

    /// All that is kept of callers that wait.
    #[must_use]
    pub fn waiters(&self) -> String {
        let mut waiters = self.0.waiters.clone();
        // What is looked for only once it is needed is not told apart.
        waiters.rivals();
        format!("{waiters:?}")
    }

    /// [`Queue::into_memories`] of its one permit.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        self.0.into_memories().into_iter().next().map(|(_, memory)| memory).unwrap_or_default()
    }
}

impl Deref for PlainLock {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        self.0.machines.first()
    }
}

impl DerefMut for PlainLock {
    fn deref_mut(&mut self) -> &mut Hold {
        self.0.machines.first_mut()
    }
}
