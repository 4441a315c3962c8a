//! The way to the store and back, on which requests and answers are lost, late and repeated.

use std::time::Duration;

use leasehold::hold::{self, Answer, Event};
use leasehold::lock::{LockPath, Permit, Permits};
use leasehold::time::Instant;

use crate::kit::store::unanswered;
use crate::pools::planted::Bug;
use crate::pools::rig::{millis, secs};
use crate::pools::world::{BUSY_UNTIL, Sender, What, World};

impl World {
    /// The path of a permit, as this sidecar has it.
    fn path(&self, at: usize, permit: Permit) -> LockPath {
        let path = self.store.path(permit);
        match self.bug {
            Some(Bug::FirstPermitOffPlainPath)
                if permit == Permit::FIRST && self.sidecars[at].permits[0] > Permits::ONE =>
            {
                self.store.path(Permit::new(31).unwrap())
            }
            Some(Bug::PermitsMixedUp) if at == 1 && permit != Permit::FIRST => {
                let number = permit.number() % 3 + 1;
                self.store.path(Permit::new(number).unwrap())
            }
            _ => path,
        }
    }

    pub(crate) fn request(
        &mut self,
        from: Sender,
        permit: Permit,
        action: &hold::Action,
        again: bool,
    ) {
        let path = self.path(from.at, permit);
        let event = self.store.apply(&path, action, self.now);
        if again {
            return;
        }
        let arrives = self.now + self.delay();
        let event = match self.is_lost() {
            true => unanswered(action).unwrap(),
            false => event,
        };
        let acquired = match (action, &event) {
            (
                hold::Action::Store { what: hold::Request::Acquire { lease_id, .. }, .. },
                Event::Answer { answer: Answer::Acquire { lease: Ok(_), .. }, .. },
            ) => Some(*lease_id),
            _ => None,
        };
        self.schedule(arrives, What::Answer { from, permit, event, acquired });
    }

    fn is_lost(&mut self) -> bool {
        let lost = self.now < BUSY_UNTIL && self.random.chance(15);
        if lost {
            self.count("a request lost");
        }
        lost
    }

    fn delay(&mut self) -> Duration {
        match self.now < BUSY_UNTIL && self.random.chance(40) {
            true => self.random.span(secs(6)),
            false => millis(1) + self.random.span(millis(40)),
        }
    }

    /// Whether this is the renewal of a hold that waits for its turn: the sidecar is told so, and then that
    /// its turn has come, when the lease runs out at the latest (S7).
    pub(crate) fn waits_for_its_turn(
        &mut self,
        at: usize,
        permit: Permit,
        action: &hold::Action,
    ) -> bool {
        let hold::Action::Store { request, what: hold::Request::Renew { .. }, .. } = action else {
            return false;
        };
        let Some(until) = self.renewed_until(at, permit, *request) else { return false };
        if self.now >= BUSY_UNTIL || !self.random.chance(200) {
            return false;
        }
        self.count("a renewal held back");
        let from = Sender { at, life: self.sidecars[at].life };
        let left = until.saturating_since(Instant::from_boot(self.now));
        let most = if self.random.chance(800) { left.min(secs(2)) } else { left };
        let turn = self.now + self.random.span(most);
        let events = [Event::RenewHeldBack { request: *request }, Event::RenewTurnCame];
        for (arrives, event) in [self.now, turn].into_iter().zip(events) {
            self.schedule(arrives, What::Answer { from, permit, event, acquired: None });
        }
        true
    }

    pub(crate) fn send(&mut self, at: usize, permit: Permit, action: hold::Action) {
        if let hold::Action::Store {
            request, what: hold::Request::Release { lease_id, .. }, ..
        } = &action
        {
            if self.bug == Some(Bug::LateGrantKept) && self.checks.is_unused(*lease_id) {
                let from = Sender { at, life: self.sidecars[at].life };
                let event = Event::Answer { request: *request, answer: Answer::Release(Ok(())) };
                return self.schedule(
                    self.now + millis(5),
                    What::Answer { from, permit, event, acquired: None },
                );
            }
            self.checks.releases(*lease_id);
        }
        let from = Sender { at, life: self.sidecars[at].life };
        if self.is_lost() {
            let event = unanswered(&action).unwrap();
            let arrives = self.now + secs(2);
            return self.schedule(arrives, What::Answer { from, permit, event, acquired: None });
        }
        let arrives = self.now + self.delay();
        if self.now < BUSY_UNTIL && self.random.chance(20) {
            let later = arrives + self.random.span(secs(10));
            let again = What::Request { from, permit, action: action.clone(), again: true };
            self.schedule(later, again);
        }
        self.schedule(arrives, What::Request { from, permit, action, again: false });
    }
}
