//! How a sidecar's share is driven: as the coordinator does it (S34, S35).

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::hold::{Event, ShareUse};
use leasehold::record::Record;
use leasehold::sharing::{Share, Wanted};

use crate::shares::planted::Bug;
use crate::shares::sidecar::{CAP, Life, share_name};
use crate::shares::world::{What, World};

/// How often it is looked whether a share is to be rebalanced, and its locks are listed for that.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
const BETWEEN_LISTINGS: Duration = Duration::from_secs(300);

impl World {
    /// Before an event: tells the machine how the share stands, for the caller that the event brings too.
    pub(crate) fn enter_share(&mut self, at: usize, lock: usize, event: &Event) -> bool {
        let arriving = match event {
            Event::CallerArrived { terms, .. } => terms.share(),
            _ => None,
        };
        let bug = self.bug;
        let sidecar = &mut self.sidecars[at];
        let machine = sidecar.machines.get_mut(&lock).unwrap();
        if machine.share().or(arriving).is_none() {
            return false;
        }
        let share = sidecar.share.get_or_insert_with(|| Share::new(share_name()));
        let mut standing = share.standing(&lock, CAP);
        match bug {
            Some(Bug::NoPatience) => standing.patience = Duration::ZERO,
            Some(Bug::PlainPatience) => {
                let plain = Duration::from_millis(500) * standing.held;
                standing.patience = plain.min(Duration::from_secs(15));
                standing.not_before = None;
            }
            Some(Bug::TurnIgnored) => standing.turn = true,
            _ => {}
        }
        machine.stand(standing);
        true
    }

    /// After it: takes in what the machine does now.
    pub(crate) fn leave_share(&mut self, at: usize, lock: usize, entered: bool) {
        let bug = self.bug;
        let now = self.sidecars[at].clock.at(self.now);
        let sidecar = &mut self.sidecars[at];
        let Some(machine) = sidecar.machines.get(&lock) else { return };
        if machine.share().is_none() {
            if let Some(share) = sidecar.share.as_mut().filter(|_| entered) {
                let is_over = share.leave(&lock);
                if is_over && !sidecar.is_balanced {
                    sidecar.share = None;
                }
            }
            return;
        }
        let wanted =
            Wanted { rebalances: machine.rebalances(), priority: machine.front_priority() };
        let mut used = machine.share_use();
        if bug == Some(Bug::AcquiringNotCounted) && used == ShareUse::Acquiring {
            used = ShareUse::Unknown;
        }
        let share = sidecar.share.get_or_insert_with(|| Share::new(share_name()));
        if bug == Some(Bug::OwnRestartsMinute) && used == ShareUse::Held {
            share.moved(now);
        }
        let stirred = share.note(&lock, used, wanted, now);
        let begins = share.rebalances() && !sidecar.is_balanced;
        sidecar.is_balanced |= begins;
        if begins {
            sidecar.listed_at = None;
            self.schedule(self.now + BETWEEN_LOOKS, What::Balance { at });
        }
        for other in stirred {
            self.schedule(self.now, What::Stirred { at, lock: other });
        }
    }

    pub(crate) fn balance(&mut self, at: usize) {
        let local = self.sidecars[at].clock.at(self.now);
        let sidecar = &mut self.sidecars[at];
        let rebalances = sidecar.share.as_ref().is_some_and(Share::rebalances);
        if sidecar.life != Life::Running || !rebalances {
            sidecar.is_balanced = false;
            if sidecar.share.as_ref().is_some_and(|share| share.keys().is_empty()) {
                sidecar.share = None;
            }
            return;
        }
        let listed = sidecar.listed_at;
        if listed.is_none_or(|at| local.saturating_since(at) >= BETWEEN_LISTINGS) {
            sidecar.listed_at = Some(local);
            let arrives = self.now + self.way();
            return self.schedule(arrives, What::List { at });
        }
        self.move_next(at);
    }

    pub(crate) fn list(&mut self, at: usize) {
        let records = self.store.list(self.now);
        let records = (!self.is_lost()).then_some(records);
        let arrives = self.now + self.way();
        self.schedule(arrives, What::Listed { at, records });
    }

    pub(crate) fn listed(&mut self, at: usize, records: Option<BTreeMap<usize, Record>>) {
        if let (Some(records), Some(share)) = (records, &mut self.sidecars[at].share) {
            let name = share_name();
            let of_share = records.iter().filter(|(_, record)| {
                let sharing = record.sharing.as_deref();
                sharing.and_then(|sharing| sharing.share.as_ref()) == Some(&name)
            });
            share.listed(of_share.map(|(lock, record)| (*lock, record)));
        }
        self.move_next(at);
    }

    fn move_next(&mut self, at: usize) {
        let random = self.random.next_u64();
        let local = self.sidecars[at].clock.at(self.now);
        let chosen = match (&mut self.sidecars[at].share, self.bug) {
            (Some(share), Some(Bug::BothSidesRevoke)) => {
                let waited: Vec<usize> = share.waited_for().copied().collect();
                let place = random.checked_rem(waited.len() as u64);
                place.and_then(|place| waited.get(usize::try_from(place).unwrap()).copied())
            }
            (Some(share), _) => share.next_move(random, local),
            (None, _) => None,
        };
        self.schedule(self.now + BETWEEN_LOOKS, What::Balance { at });
        if let Some(lock) = chosen {
            self.feed(at, lock, Event::MoveAsked);
        }
    }
}
