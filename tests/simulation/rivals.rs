//! Callers with priorities and of a share, for which their sidecars break the lock (S33, S34): in schedules
//! of their own, so that the others stay what they were. Which of them a break is for, and when, is the
//! business of `tests/shares`; here the network is bad, and holds rest, end by their bounds, and go on
//! elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{Action, Event, Notice, Rival, Standing, Terms};
use leasehold::lock::{FencingToken, LeaseId};
use leasehold::record::{Priority, ShareName, Sharing};
use leasehold::testing::SeededRandom;
use leasehold::time::Instant;

use crate::kit::one_of;
use crate::simulation::storage::Storage;
use crate::simulation::truth::{Ended, Truth};
use crate::simulation::world::World;

/// The first seed whose callers are rivals.
pub(crate) const RIVALS: u64 = 1 << 32;

/// The leases that were broken for waiting callers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rivals {
    /// Of which epochs.
    broken: BTreeMap<LeaseId, BTreeSet<u64>>,
    /// The latest, until it is noted.
    latest: Option<(LeaseId, Option<FencingToken>)>,
    /// How many.
    pub(crate) breaks: u64,
}

impl Rivals {
    /// A lease that is acquired anew is another.
    pub(crate) fn acquired(&mut self, lease_id: LeaseId) {
        self.broken.remove(&lease_id);
    }
}

/// Gives a caller its place among the others.
pub(crate) fn place(terms: &mut Terms, random: &mut SeededRandom) {
    let share = random.chance(500).then(|| ShareName::new("share").unwrap());
    let priority = Priority::new(one_of(random, &[0, 0, 1, 2])).unwrap();
    terms.record.sharing = Sharing { priority, yields: random.chance(700), share }.boxed();
    terms.rebalance = random.chance(500);
}

impl Storage {
    /// S33: the lease was broken for a waiting caller.
    pub(super) fn overruled(&mut self, rival: &Rival, truth: &mut Truth) {
        let Some(lease_id) = self.newest_lease() else { return };
        truth.end(lease_id, Ended::Broken);
        let epochs = self.rivals.broken.entry(lease_id).or_default();
        epochs.extend(rival.token.map(FencingToken::epoch));
        self.rivals.latest = Some((lease_id, rival.token));
        self.rivals.breaks += 1;
    }
}

impl World {
    pub(crate) fn note_overruled(&mut self) {
        if let Some((lease_id, token)) = self.storage.rivals.latest.take() {
            self.checks.notices.runs_out(lease_id, token);
        }
    }

    /// S33: nobody is granted a lease that was broken for the grant before.
    pub(crate) fn check_unbroken(&mut self, action: &Action) {
        let Action::Tell { notice: Notice::Granted(grant), .. } = action else { return };
        let epochs = self.storage.rivals.broken.get(&grant.lease_id);
        if epochs.is_some_and(|epochs| epochs.iter().any(|epoch| *epoch != grant.token.epoch())) {
            let (lease_id, token) = (grant.lease_id, grant.token);
            self.checks.fail(format!("S33: {token} is granted {lease_id}, broken for another"));
        }
    }

    /// What the sidecar has of the share, and what it is told of its other locks: anything.
    pub(crate) fn stand(&mut self, index: usize, event: &Event, local: Instant) -> Option<Event> {
        let nanos = u64::try_from(self.now.as_nanos()).unwrap();
        let mut random = SeededRandom::new(nanos ^ ((index as u64) << 48));
        let hold = &mut self.sidecars[index].machine.hold;
        let arrives =
            matches!(event, Event::CallerArrived { terms, .. } if terms.share().is_some());
        if arrives || hold.share().is_some() {
            let (patience, step) =
                (random.span(Duration::from_secs(20)), random.span(Duration::from_secs(8)));
            hold.stand(Standing {
                held: u32::try_from(random.below(4)).unwrap(),
                patience,
                not_before: random.chance(300).then(|| local + step),
                turn: random.chance(800),
            });
        }
        match random.below(16) {
            0 => Some(Event::ShareStirred),
            1 => Some(Event::MoveAsked),
            _ => None,
        }
    }
}
