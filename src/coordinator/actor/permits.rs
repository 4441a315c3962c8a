//! The permits of a lock, which one task serves: each has a path, and with it a memory and a record, of its
//! own (S28).

use super::task::Task;
use crate::coordinator::{LockEvent, LockEventKind, Shared};
use crate::hold::{Holding, Known};
use crate::lock::{FencingToken, LockPath, Permit, Permits};

impl Shared {
    /// The lock of which `path` is a permit, and which (S28).
    pub(crate) fn permit_of(&self, path: &LockPath) -> (LockPath, Permit) {
        self.settings.host.namespace.permit_of(path)
    }
}

impl Task {
    /// Brings back what is remembered of permits that are new here.
    pub(crate) fn recall(&mut self, permits: impl Iterator<Item = Permit>) {
        for permit in permits.filter(|permit| self.queue.is_new(*permit)).collect::<Vec<_>>() {
            let memory = self.shared.registry().lock_cache.take(&self.path_of(permit));
            self.queue.remember(permit, memory);
        }
    }

    /// The path of one of the lock's permits.
    pub(crate) fn path_of(&self, permit: Permit) -> LockPath {
        self.path.permit(permit)
    }

    /// Who has this permit here.
    pub(crate) fn holding(&self, permit: Permit) -> Option<Holding> {
        self.queue.machine(permit)?.holding()
    }

    /// S29: callers name different numbers, as in a rolling upgrade.
    pub(crate) fn report_permits(&self, others: Permits, ours: Permits) {
        let is_new = self.shared.registry().differing.insert(&self.path);
        let kind = LockEventKind::PermitsDiffer { others, ours, is_new };
        self.shared.observe(&LockEvent::of(&self.path, kind));
    }

    /// What is known of the record of a permit.
    pub(crate) fn known(&self, permit: Permit) -> Option<&Known> {
        self.queue.machine(permit)?.known()
    }

    /// The greatest token of a permit that was seen or granted here.
    pub(crate) fn highest(&self, permit: Permit) -> Option<FencingToken> {
        let mut highest = self.queue.highest().filter(|(of, _)| *of == permit);
        highest.next().map(|(_, token)| token)
    }

    /// A permit that is known to be somebody's, for who waits for any of them: the lock's own if there is
    /// none.
    pub(crate) fn shown(&self) -> Permit {
        let known =
            |permit: &Permit| self.holding(*permit).is_some() || self.known(*permit).is_some();
        Permits::MAX.each().find(known).unwrap_or_default()
    }
}
