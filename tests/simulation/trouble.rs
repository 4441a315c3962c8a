//! What happens to sidecars, machines, clients and the store.

use std::time::Duration;

use leasehold::hold::Event;
use leasehold::testing::SeededRandom;

use crate::kit::{millis, one_of};
use crate::simulation::chance::About;
use crate::simulation::due::{Delivery, Incoming, WallMoves};
use crate::simulation::plan::Mode;
use crate::simulation::story::Happening;
use crate::simulation::world::World;

/// How long a draining sidecar waits for its holders (S15).
const DRAIN: Duration = Duration::from_secs(20);

impl World {
    /// Now and then something happens to a sidecar, or to the store.
    pub(crate) fn trouble(&mut self, number: u64) {
        if self.calm {
            return;
        }
        let mut next = self.chance.of(About::Trouble, 1, number);
        let delay = millis(&mut next, 500, 20_000);
        self.after(delay, Delivery::Trouble(number + 1));
        let Some(mut random) = self.chance.fault(About::Trouble, (0, number), self.plan.trouble)
        else {
            return;
        };
        let index = usize::try_from(random.below(self.sidecars.len() as u64)).unwrap();
        let among = match self.plan.mode {
            Mode::Clocks => &Happening::CLOCKS[..],
            Mode::Everything | Mode::Nothing => &Happening::ALL[..],
        };
        let rolls = self.chance.of(About::Trouble, 2, number).chance(self.plan.crossing.hand_overs);
        let mut breaking = self.chance.of(About::Break, 0, number);
        let what = match breaking.chance(self.plan.crossing.breaks) {
            true => one_of(&mut breaking, &Happening::BREAKS),
            false if rolls => Happening::HandOver,
            false => one_of(&mut random, among),
        };
        self.story.happens(self.now, what, index);
        self.happen(what, index, &mut random);
    }

    fn happen(&mut self, what: Happening, index: usize, random: &mut SeededRandom) {
        let now = self.now;
        let mut span = |least, most| millis(random, least, most);
        match what {
            Happening::CutOff => self.sidecars[index].cut_off_until = now + span(5_000, 60_000),
            Happening::Throttled => {
                self.sidecars[index].throttled_until = now + span(1_000, 40_000);
            }
            Happening::Denied => self.sidecars[index].denied_until = now + span(1_000, 60_000),
            Happening::ShortPause => self.pause(index, span(100, 5_000)),
            Happening::LongPause => self.pause(index, span(5_000, 90_000)),
            Happening::MachineMoved => {
                let pause = span(500, 90_000);
                self.move_machine(index, pause, random.chance(500));
            }
            Happening::ClientPause => self.pause_client(span(1_000, 90_000)),
            Happening::Crash => self.restart(index),
            // A second signal ends it at once.
            Happening::Drain | Happening::HandOver if self.sidecars[index].ends => {
                self.restart(index);
            }
            Happening::Drain => self.drain(index),
            Happening::HandOver => self.hand_over(index, span(20, 12_000)),
            Happening::Break
            | Happening::BreakNow
            | Happening::BreakTwice
            | Happening::BreakHere
            | Happening::ForeignBreak => self.break_somehow(what, index),
            Happening::Deletion => {
                self.storage.delete(now, self.checks.newest_grant, &mut self.checks.truth);
                self.checks.counters.reset(self.storage.fields(now).as_ref());
                self.checks.occurrences.reset();
            }
            Happening::OlderCopy => {
                self.storage.fall_back(now, self.checks.newest_grant, &mut self.checks.truth);
                self.checks.counters.reset(self.storage.fields(now).as_ref());
                self.checks.occurrences.reset();
            }
            Happening::TokenGarbled => {
                self.storage.garble(now, &mut self.checks.truth);
                self.after(span(1_000, 20_000), Delivery::Mended);
            }
            Happening::WallSteps | Happening::WallSwings | Happening::WallSlews => {
                self.set_wall(what, index, random);
            }
            // By a chance of its own.
            Happening::StoreClockBack => {}
        }
    }

    /// Now and then the store's clock goes back (S5, S11).
    pub(crate) fn store_clock(&mut self, number: u64) {
        if self.calm {
            return;
        }
        let mut next = self.chance.of(About::StoreClock, 1, number);
        self.after(millis(&mut next, 2_000, 60_000), Delivery::StoreClock(number + 1));
        let rate = self.plan.crossing.store_clock;
        let Some(mut random) = self.chance.fault(About::StoreClock, (0, number), rate) else {
            return;
        };
        let by = one_of(&mut random, &[1_500, 30_000, 3_600_000, 50_000_000_000]);
        self.story.happens(self.now, Happening::StoreClockBack, 0);
        self.storage.set_back(by, self.now);
    }

    /// Freezes the processes of some clients.
    pub(crate) fn pause_client(&mut self, pause: Duration) {
        let until = self.now + pause;
        for client in self.clients.iter_mut().rev().take(4) {
            client.paused_until = client.paused_until.max(until);
        }
    }

    fn drain(&mut self, index: usize) {
        self.sidecars[index].ends = true;
        let ends = self.clocks[index].read(self.now + DRAIN);
        let life = self.sidecars[index].life;
        let start = Incoming::Event(Event::DrainStarted { ends });
        let end = Incoming::Event(Event::DrainEnded);
        let to = |incoming| Delivery::ToSidecar { sidecar: index, life, incoming };
        self.after(Duration::ZERO, to(start));
        self.after(DRAIN, to(end));
        self.after(DRAIN + Duration::from_secs(1), Delivery::Restart(index));
    }

    /// S15: the sidecar ends, and a replacement follows: as soon as everything is settled, or sooner, if
    /// somebody kills it.
    fn hand_over(&mut self, index: usize, lasts: Duration) {
        self.sidecars[index].ends = true;
        let ends = self.clocks[index].read(self.now + DRAIN);
        let life = self.sidecars[index].life;
        let incoming = Incoming::Event(Event::HandOverStarted { ends });
        self.after(Duration::ZERO, Delivery::ToSidecar { sidecar: index, life, incoming });
        self.after(lasts, Delivery::Restart(index));
    }

    /// S3: somebody sets the wall clock of any machine.
    fn set_wall(&mut self, what: Happening, index: usize, random: &mut SeededRandom) {
        let sign = if random.chance(500) { 1 } else { -1 };
        let (by, swings, left) = match what {
            Happening::WallSwings => (one_of(random, &[300, 1_000, 3_000]), true, 40),
            Happening::WallSlews => (one_of(random, &[1, 20, 200]), false, 60),
            _ => (one_of(random, &[1_000, 10_000, 3_600_000]), false, 1),
        };
        let each = Duration::from_secs(1);
        self.wall_moves(WallMoves { machine: index, by: by * sign, swings, left, each });
    }

    pub(crate) fn wall_moves(&mut self, moves: WallMoves) {
        if self.calm {
            return;
        }
        let WallMoves { machine, by, swings, left, each } = moves;
        self.clocks[machine].wall_shift += by;
        // Its sidecar never sleeps for longer than a second while it has a lease.
        let number = self.number();
        let look = millis(&mut self.chance.of(About::Delay, 98, number), 0, 1_000);
        let life = self.sidecars[machine].life;
        let incoming = Incoming::Event(Event::TimePassed);
        self.after(look, Delivery::ToSidecar { sidecar: machine, life, incoming });
        if left > 1 {
            let by = if swings { -by } else { by };
            self.after(each, Delivery::WallMoves(WallMoves { by, left: left - 1, ..moves }));
        }
    }

    /// An operator mends a record, as soon as the lock is not leased.
    pub(crate) fn mend(&mut self) {
        self.storage.mend(self.now, &mut self.checks.truth);
        if self.storage.is_garbled() {
            self.after(Duration::from_millis(300), Delivery::Mended);
        }
    }
}
