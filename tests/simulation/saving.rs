//! Clients that save checkpoints, and what they do when they are told that their lease runs out (S22 to S27).

use std::time::Duration;

use leasehold::hold::{CallerId, Event, HolderCall, SaveAsked};
use leasehold::testing::SeededRandom;

use crate::kit::millis;
use crate::simulation::chance::About;
use crate::simulation::client::Stage;
use crate::simulation::due::{Delivery, Incoming};
use crate::simulation::world::World;

impl World {
    /// A save of this client's, under the name of `caller`.
    fn save_of(
        &mut self,
        index: usize,
        caller: CallerId,
        generation: Option<u64>,
    ) -> Option<Event> {
        let (id, value) = self.checks.counters.next(&mut self.clients[index].log)?;
        Some(Event::Call {
            caller,
            generation,
            call: HolderCall::Save(SaveAsked { id, value: Some(value), decides: false }),
        })
    }

    /// A holder adds to the checkpoint: once, twice at once, or a few times.
    pub(crate) fn save_as_holder(&mut self, index: usize) {
        if !self.plan.crossing.saves {
            return;
        }
        let client = &self.clients[index];
        let (caller, generation, acts) = (client.caller, client.generation, client.acts);
        let mut random = self.chance.of(About::Save, index, acts);
        let saves = match random.below(10) {
            0..=3 => 1,
            4 => 2,
            5 => 4,
            6 if !client.former.is_empty() => return self.stray_save(index, &mut random),
            _ => 0,
        };
        for _ in 0..saves {
            let Some(event) = self.save_of(index, caller, generation) else { return };
            self.send_event(index, event);
        }
    }

    /// A holder adds to the checkpoint once, whatever the plan says.
    pub(crate) fn save_once(&mut self, index: usize) {
        let client = &self.clients[index];
        let (caller, generation) = (client.caller, client.generation);
        if let Some(event) = self.save_of(index, caller, generation) {
            self.send_event(index, event);
        }
    }

    /// A save comes to a sidecar that the hold has left, or once more to its own (S16).
    fn stray_save(&mut self, index: usize, random: &mut SeededRandom) {
        let mut log = std::mem::take(&mut self.clients[index].log);
        if let Some((id, value)) = self.checks.counters.next(&mut log) {
            let save = SaveAsked { id, value: Some(value), decides: false };
            self.stray(index, random, |caller, generation| Event::Call {
                caller,
                generation,
                call: HolderCall::Save(save),
            });
        }
        self.clients[index].log = log;
    }

    /// A release, perhaps with a save: then both come at once (S26).
    pub(crate) fn send_release(&mut self, index: usize, must_save: bool) {
        let client = &self.clients[index];
        let (at, caller, generation) = (client.at, client.caller, client.generation);
        let release = Event::Call { caller, generation, call: HolderCall::Release };
        // Who has not heard of its grant has nothing to save.
        let saves = self.plan.crossing.saves
            && generation.is_some()
            && (must_save
                || self.chance.of(About::Save, index, client.acts + (1 << 32)).chance(400));
        let log = &mut self.clients[index].log;
        let value = if saves { self.checks.counters.next(log) } else { None };
        let heard = generation.is_some();
        let Some(save) = self.conclusion(index, heard, value) else {
            return self.send_event(index, release);
        };
        let save = Event::Call { caller, generation, call: HolderCall::Save(save) };
        let number = self.number();
        let delay = millis(&mut self.chance.of(About::Delay, 94, number), 1, 20);
        self.call(delay, (at, caller), Incoming::Together(vec![save, release]));
    }

    /// A client is told that its lease runs out: some finish soon, some save too, some go on as long as they
    /// may.
    pub(crate) fn hear_notice(&mut self, index: usize) {
        let client = &self.clients[index];
        let caller = client.caller;
        let mut random = self.chance.of(About::Save, index, client.acts + (2 << 32));
        let delay = millis(&mut random, 0, 2_500);
        let saves = match random.below(3) {
            0 => false,
            1 => true,
            _ => return,
        };
        self.after(delay, Delivery::Finishes { client: index, caller, saves });
    }

    /// A client ends its hold because of a notice.
    pub(crate) fn finish(&mut self, index: usize, caller: CallerId, saves: bool) {
        let client = &self.clients[index];
        let holds = client.stage == Stage::Holding && client.caller == caller;
        if client.paused_until > self.now {
            let delay = client.paused_until - self.now + Duration::from_millis(1);
            return self.after(delay, Delivery::Finishes { client: index, caller, saves });
        }
        if holds && !self.calm {
            self.leave_saving(index, saves);
        }
    }
}
