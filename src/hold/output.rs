//! One look at the machine: when it is taken, and what comes of it.

use std::time::Duration;

use super::action::{Action, Notice, Remark, Request};
use super::event::{CallerId, RequestId};
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

    /// Asks the store.
    pub(super) fn ask(&mut self, request: RequestId, what: Request, timeout: Duration) {
        self.push(Action::Store { request, what, timeout });
    }

    /// Tells a caller.
    pub(super) fn tell(&mut self, caller: CallerId, notice: Notice) {
        self.push(Action::Tell { caller, notice });
    }

    /// Tells the operator, or counts.
    pub(super) fn report(&mut self, remark: Remark) {
        self.push(Action::Report(remark));
    }

    pub(super) fn into_actions(self) -> Vec<Action> {
        self.actions
    }
}
