//! What a resume token says of a hold's bounds, as the coordinator makes it and reads it (S16).

use std::time::Duration;

use leasehold::hold::{Granted, StoreBounds, Terms};
use leasehold::time::{Instant, UnixMillis};

/// The boot clock of a sidecar's machine at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    /// Which machine: its boot id, so to speak.
    pub(crate) machine: usize,
    pub(crate) boot: Instant,
}

/// When a bound ends: on the boot clock where that is the same, else by the store's clock, and never more
/// than was left.
#[derive(Clone, Copy, Debug)]
struct End {
    machine: usize,
    boot: Instant,
    store: UnixMillis,
    left: Duration,
}

impl End {
    fn new(at: Instant, store_time: UnixMillis, here: Here) -> Self {
        let left = at.saturating_since(here.boot);
        Self { machine: here.machine, boot: at, store: store_time + left, left }
    }

    /// What is left at the most, and the end by the store's clock where that is to be looked at.
    fn left(&self, here: Here) -> (Duration, Option<UnixMillis>) {
        match self.machine == here.machine {
            true => (self.boot.saturating_since(here.boot).min(self.left), None),
            false => (self.left, Some(self.store)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    max_hold: Option<End>,
    lease: Option<End>,
    min_hold: End,
    /// The store's clock at the grant, and the boot clock.
    store_time: UnixMillis,
    granted: Instant,
}

impl Kept {
    pub(crate) fn made(grant: &Granted, here: Here) -> Self {
        let store_time = grant.store_time;
        Self {
            max_hold: grant.max_hold_ends.map(|at| End::new(at, store_time, here)),
            lease: grant.lease_ends.map(|at| End::new(at, store_time, here)),
            min_hold: End::new(grant.min_hold_ends, store_time, here),
            store_time,
            granted: here.boot,
        }
    }

    /// The newest one, after `max_hold` was set anew.
    pub(crate) fn extended(self, ends: Instant, here: Here) -> Self {
        let store_time = self.store_time + here.boot.saturating_since(self.granted);
        Self { max_hold: Some(End::new(ends, store_time, here)), ..self }
    }

    /// The terms to go on with, when its one lease ends, and the bounds by the store's clock.
    pub(crate) fn terms(
        &self,
        terms: &Terms,
        here: Here,
    ) -> (Terms, Option<Instant>, Option<StoreBounds>) {
        let max_hold_ends = self.max_hold.map(|end| end.left(here));
        let lease_ends = self.lease.map(|end| end.left(here));
        let (min_hold, min_hold_ends) = self.min_hold.left(here);
        let bounds = min_hold_ends.map(|min_hold_ends| StoreBounds {
            max_hold_ends: max_hold_ends.and_then(|(_, ends)| ends),
            lease_ends: lease_ends.and_then(|(_, ends)| ends),
            min_hold_ends,
        });
        let max_hold = max_hold_ends.map(|(left, _)| left);
        let lease_ends = lease_ends.map(|(left, _)| here.boot + left);
        (Terms { max_hold, min_hold, ..terms.clone() }, lease_ends, bounds)
    }
}
