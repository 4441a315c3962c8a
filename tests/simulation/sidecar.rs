//! A sidecar: its machine, its clocks as the product reads them, and what happens to its process.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold::hold::{Hold, Memory, Settings};
use leasehold::time::{Correction, Instant};

use crate::due::Incoming;
use crate::planted::{Bug, Machine};
use crate::world::World;

#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    /// What the product makes of its machine's clocks (S3).
    correction: Correction,
    /// Grows with each restart: answers to a former one are lost.
    pub(crate) life: u32,
    pub(crate) paused_until: Duration,
    /// Until when no request of it reaches the store.
    pub(crate) cut_off_until: Duration,
    /// Until when its store asks for patience, or refuses its credentials.
    pub(crate) throttled_until: Duration,
    pub(crate) denied_until: Duration,
    pub(crate) inbox: VecDeque<Incoming>,
    pub(crate) requests: u64,
    pub(crate) lease_ids: u64,
}

impl Sidecar {
    pub(crate) fn new(settings: Settings, seed: u64, now: Instant, bug: Option<Bug>) -> Self {
        let hold = Hold::new(settings, Memory::default(), seed, now);
        Self {
            machine: Machine::new(hold, bug),
            settings,
            correction: Correction::default(),
            life: 0,
            paused_until: Duration::ZERO,
            cut_off_until: Duration::ZERO,
            throttled_until: Duration::ZERO,
            denied_until: Duration::ZERO,
            inbox: VecDeque::new(),
            requests: 0,
            lease_ids: 0,
        }
    }
}

impl World {
    /// The sidecar looks at its clocks.
    pub(crate) fn look(&mut self, index: usize) -> Instant {
        let (boot, wall) = (self.read_clock(index), self.clocks[index].wall(self.now));
        self.sidecars[index].correction.now(boot.since_boot(), wall)
    }

    /// A time of the sidecar, as its clients on the same kernel read it.
    pub(crate) fn told(&self, index: usize, at: Instant) -> Instant {
        at.saturating_sub(self.sidecars[index].correction.missed())
    }

    /// Freezes a sidecar.
    pub(crate) fn pause(&mut self, index: usize, pause: Duration) {
        let until = &mut self.sidecars[index].paused_until;
        *until = (*until).max(self.now + pause);
        if self.bug == Some(Bug::ClockStopsInSuspend) {
            self.clocks[index].stand_still(self.now, pause);
        }
    }

    /// A virtual machine is moved: all that runs on it stands still, and its clocks do not count it. What was promised
    /// under the leases of before is outside S1 then; that such a pause is noticed, and ends (S3), is checked apart.
    pub(crate) fn move_machine(&mut self, index: usize, pause: Duration) {
        let until = self.now + pause;
        self.clocks[index].stand_still(self.now, pause);
        let sidecar = &mut self.sidecars[index];
        sidecar.paused_until = sidecar.paused_until.max(until);
        for client in self.clients.iter_mut().filter(|client| client.machine == index) {
            client.paused_until = client.paused_until.max(until);
        }
        self.checks.excuse(index);
    }

    /// The sidecar crashes and starts again, knowing nothing.
    pub(crate) fn restart(&mut self, index: usize) {
        self.story.note(self.now, || format!("sidecar {index}   crashes and starts again"));
        let (local, now, bug) = (self.read_clock(index), self.now, self.bug);
        let former = &self.sidecars[index];
        let (life, settings) = (former.life + 1, former.settings);
        let seed = (u64::from(life) << 16) + index as u64;
        let fresh = Sidecar::new(settings, seed, local, bug);
        let former = std::mem::replace(&mut self.sidecars[index], fresh);
        let sidecar = &mut self.sidecars[index];
        (sidecar.life, sidecar.requests) = (life, former.requests);
        sidecar.paused_until = now;
        sidecar.cut_off_until = former.cut_off_until;
        sidecar.throttled_until = former.throttled_until;
        sidecar.denied_until = former.denied_until;
        self.checks.restarted(index);
        self.streams_closed(index);
    }
}
