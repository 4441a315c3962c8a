//! Renewals that wait for their turn while the store throttles (S7): one budget of the sidecar holds them
//! back, as `coordinator::pacing` has it. How much it lets through is tested there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{Action, Answer, Event, Hold, Notice, Purpose, Request, RequestId};
use leasehold::time::Instant;

use crate::kit::millis;
use crate::simulation::chance::About;
use crate::simulation::due::{Delivery, Incoming};
use crate::simulation::plan::Mode;
use crate::simulation::world::World;

/// A renewal whose turn has come waits at most for the answer to a save, which goes by the same version.
const SOON: Duration = Duration::from_secs(5);

/// What machines make of renewals that are held back.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Renewals that were asked for, of a hold.
    asked: BTreeSet<(usize, RequestId)>,
    /// At these sidecars a renewal waits.
    waiting: BTreeSet<usize>,
    /// Its turn has come, and when.
    owed: BTreeMap<usize, Instant>,
    pub(crate) waited: u64,
    pub(crate) came: u64,
}

impl Turns {
    /// An event comes to the machine at this sidecar.
    pub(crate) fn came_in(&mut self, sidecar: usize, event: &Event, local: Instant) {
        match event {
            Event::RenewHeldBack { request } => self.held_back(sidecar, *request),
            Event::RenewTurnCame => self.turn_came(sidecar, local),
            // Another one has decided meanwhile.
            Event::Answer { answer: Answer::Renew(_), .. } => self.forget(sidecar),
            _ => {}
        }
    }

    /// Something is sent: by a machine that has a hold, or that makes use of a turn.
    pub(crate) fn sent(
        &mut self,
        sidecar: usize,
        action: &Action,
        (holds, has_turn): (bool, bool),
    ) -> Result<(), String> {
        match action {
            Action::Store { request, what: Request::Renew { .. }, .. } if holds => {
                self.owed.remove(&sidecar);
                self.asked.insert((sidecar, *request));
                match self.waiting.contains(&sidecar) && !has_turn {
                    true => Err(format!(
                        "S7: sidecar {sidecar} asks for a renewal beside one that waits for its turn"
                    )),
                    false => Ok(()),
                }
            }
            Action::Tell { notice: Notice::Granted(_), .. } => {
                self.forget(sidecar);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// An event was handled.
    pub(crate) fn settled(
        &mut self,
        sidecar: usize,
        hold: &Hold,
        local: Instant,
    ) -> Result<(), String> {
        if hold.renewed_lease().is_none() || hold.holding().is_none() {
            self.forget(sidecar);
        }
        let late = self.owed.get(&sidecar).is_some_and(|at| local > *at + SOON);
        match late {
            true => Err(format!("S7: sidecar {sidecar} makes no use of a renewal's turn")),
            false => Ok(()),
        }
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.asked.retain(|(at, _)| *at != sidecar);
        self.forget(sidecar);
    }

    fn held_back(&mut self, sidecar: usize, request: RequestId) {
        if self.asked.remove(&(sidecar, request)) {
            self.waited += 1;
            self.waiting.insert(sidecar);
        }
    }

    fn turn_came(&mut self, sidecar: usize, local: Instant) {
        if self.waiting.remove(&sidecar) {
            self.came += 1;
            self.owed.insert(sidecar, local);
        }
    }

    fn forget(&mut self, sidecar: usize) {
        self.waiting.remove(&sidecar);
        self.owed.remove(&sidecar);
    }
}

impl World {
    pub(crate) fn check_turn(&mut self, index: usize, action: &Action) {
        let sidecar = &self.sidecars[index];
        let is_held = sidecar.machine.hold.holding().is_some();
        let by = (is_held, sidecar.has_turn);
        let judged = self.checks.turns.sent(index, action, by);
        self.checks.judge(judged);
    }

    pub(crate) fn check_turns(&mut self, index: usize, local: Instant) {
        let hold = &self.sidecars[index].machine.hold;
        let judged = self.checks.turns.settled(index, hold, local);
        self.checks.judge(judged);
    }

    /// Whether this is the renewal of a hold that is not sent before its turn comes. That may be at once, and
    /// is when the lease runs out at the latest.
    pub(crate) fn waits_for_its_turn(
        &mut self,
        index: usize,
        number: u64,
        action: &Action,
    ) -> bool {
        let Action::Store { request, what: Request::Renew { .. }, .. } = action else {
            return false;
        };
        let sidecar = &self.sidecars[index];
        let (life, has_turn) = (sidecar.life, sidecar.has_turn);
        let Purpose::Hold { until } = sidecar.machine.hold.purpose(*request) else { return false };
        if has_turn {
            return false;
        }
        let sound = self.calm || self.plan.mode != Mode::Everything;
        let rate = if sound { 0 } else { self.plan.crossing.held_back };
        let Some(mut random) = self.chance.fault(About::HeldBack, (index, number), rate) else {
            return false;
        };
        let left = until.saturating_since(self.time_at(index));
        let wait = match random.below(10) {
            0 => left,
            1..=4 => left * u32::try_from(random.below(801)).unwrap() / 1_000,
            _ => left.min(millis(&mut random, 0, 2_000)),
        };
        // What came before is taken before.
        let told = Duration::from_micros(random.below(3_000));
        let events = [Event::RenewHeldBack { request: *request }, Event::RenewTurnCame];
        for (delay, event) in [told, told + wait].into_iter().zip(events) {
            let incoming = Incoming::Event(event);
            self.after(delay, Delivery::ToSidecar { sidecar: index, life, incoming });
        }
        true
    }
}
