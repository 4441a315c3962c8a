//! What clients do of their own: look, write, ask, go, come back.

use std::time::Duration;

use leasehold::hold::{Event, HolderCall};
use leasehold::testing::SeededRandom;

use crate::kit::millis;
use crate::simulation::client::Stage;
use crate::simulation::due::{Delivery, Incoming};
use crate::simulation::plan::Mode;
use crate::simulation::planted::Bug;
use crate::simulation::world::World;

impl World {
    pub(crate) fn act(&mut self, index: usize) {
        if self.clients[index].paused_until > self.now {
            let delay = self.clients[index].paused_until - self.now;
            return self.after(delay, Delivery::ClientActs(index));
        }
        if self.clients[index].calls.is_some() {
            return self.act_by_call(index);
        }
        let (mut random, again) = self.next_act(index);
        match self.clients[index].stage {
            Stage::Gone => return,
            Stage::Waiting if !self.calm && random.chance(100) => self.leave(index),
            Stage::Waiting => {}
            Stage::Holding => self.act_as_holder(index, &mut random),
            Stage::CutOff | Stage::Resuming if !self.believes(index) => {
                self.clients[index].stage = Stage::Gone;
            }
            Stage::CutOff => self.resume(index, &mut random),
            // It tries another sidecar, and cannot tell the first, whose connection is broken.
            Stage::Resuming if random.chance(300) => self.cut_off(index, &mut random),
            Stage::Resuming => {}
        }
        self.after(again, Delivery::ClientActs(index));
    }

    fn act_as_holder(&mut self, index: usize, random: &mut SeededRandom) {
        let unsure = self.clients[index].until.is_none() && !self.calm;
        if !unsure && !self.believes(index) {
            return self.leave(index);
        }
        if self.clients[index].machine != self.clients[index].at {
            self.ask(index);
        }
        if unsure {
            return;
        }
        // It has just looked whether it may act; its write may be under way for long.
        let token = self.clients[index].grant.as_ref().map_or(0, |grant| grant.token.value());
        let most = if !self.calm && random.chance(50) { 60_000 } else { 40 };
        self.after(millis(random, 1, most), Delivery::ToResource { client: index, token });
        self.check_act(index, token);
        if self.calm {
            return self.leave(index);
        }
        self.save_as_holder(index);
        let (caller, generation) = (self.clients[index].caller, self.clients[index].generation);
        let moved = !self.clients[index].former.is_empty();
        match random.below(12) {
            0 | 1 => self.leave(index),
            2 | 3 if self.plan.mode == Mode::Everything => self.cut_off(index, random),
            4 => {
                let max_hold = millis(random, 0, 40_000);
                self.send_event(
                    index,
                    Event::Call { caller, generation, call: HolderCall::Extend { max_hold } },
                );
            }
            7..=9 if self.plan.crossing.moves => self.cut_off(index, random),
            10 if self.plan.crossing.moves => self.stray_cancel(index, random),
            5 if moved => {
                let max_hold = millis(random, 0, 40_000);
                self.stray(index, random, |caller, generation| Event::Call {
                    caller,
                    generation,
                    call: HolderCall::Extend { max_hold },
                });
            }
            6 if moved => {
                self.stray(index, random, |caller, generation| Event::Call {
                    caller,
                    generation,
                    call: HolderCall::Progress,
                });
            }
            _ => self
                .send_event(index, Event::Call { caller, generation, call: HolderCall::Progress }),
        }
    }

    /// A write reaches the resource, which compares its token (S5).
    pub(crate) fn write(&mut self, client: usize, token: u64) {
        self.story.note(self.now, || format!("resource    client {client} writes with {token}"));
        self.checks.write(token, self.now);
    }

    /// Everybody dies: their sockets close.
    pub(crate) fn all_leave(&mut self) {
        for index in 0..self.clients.len() {
            if self.clients[index].calls.is_some() {
                if self.clients[index].stage != Stage::Gone {
                    self.leave_by_call(index);
                }
                continue;
            }
            let client = &mut self.clients[index];
            let (caller, at) = (client.caller, client.at);
            (client.grant, client.until, client.stage) = (None, None, Stage::Gone);
            self.callers.remove(&caller);
            let left = Incoming::Event(Event::CallerLeft { caller });
            self.call(Duration::ZERO, (at, caller), left);
        }
    }

    /// The stream to its sidecar breaks; the sidecar notices some time later.
    pub(crate) fn cut_off(&mut self, index: usize, random: &mut SeededRandom) {
        let client = &mut self.clients[index];
        let (caller, at) = (client.caller, client.at);
        client.stage = Stage::CutOff;
        self.callers.remove(&caller);
        let event = match self.bug {
            Some(Bug::SilenceIsLeaving) => Event::CallerLeft { caller },
            _ => Event::HolderDisconnected { caller },
        };
        let latest = if self.plan.crossing.moves { 60_000 } else { 25_000 };
        let delay = millis(random, 0, latest);
        self.call(delay, (at, caller), Incoming::Event(event));
    }

    /// All streams to a sidecar are closed from its side.
    pub(crate) fn streams_closed(&mut self, sidecar: usize) {
        for index in 0..self.clients.len() {
            if self.clients[index].at != sidecar {
                continue;
            }
            if self.clients[index].calls.is_some() {
                self.calls_closed(index);
                continue;
            }
            let caller = self.clients[index].caller;
            self.callers.remove(&caller);
            let believes = self.believes(index);
            let client = &mut self.clients[index];
            match client.stage {
                Stage::Holding | Stage::Resuming if believes => client.stage = Stage::CutOff,
                Stage::Waiting | Stage::Holding | Stage::Resuming => client.stage = Stage::Gone,
                Stage::CutOff | Stage::Gone => {}
            }
        }
    }
}
