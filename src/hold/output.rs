//! One look at the machine: when it is taken, and what comes of it.

use super::action::Action;
use crate::time::Instant;

/// The moment at which an event is looked at, and the actions that it brings, in order.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) now: Instant,
    actions: Vec<Action>,
}

impl Output {
    pub(super) const fn new(now: Instant) -> Self {
        Self { now, actions: Vec::new() }
    }

    pub(super) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(super) fn into_actions(self) -> Vec<Action> {
        self.actions
    }
}
