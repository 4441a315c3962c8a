//! A sidecar: its machine, its clocks as the product reads them, and what happens to its process.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold::hold::{Action, Event, Failure, Memory, Remark, Settings};
use leasehold::queue::PlainLock;
use leasehold::time::{Instant, Suspicions, UnixMillis};

use crate::simulation::due::Incoming;
use crate::simulation::machine::Machine;
use crate::simulation::planted::Bug;
use crate::simulation::world::World;

#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    /// It is, or was just now, about to go on with a client's hold (S16).
    pub(crate) resumes: bool,
    /// What a bug has added to its clock.
    pub(crate) gained: Duration,
    wall: Option<i128>,
    /// What the product makes of the clocks beside its own, and how much of that its machine was told (S3).
    suspicions: Suspicions,
    told: u64,
    /// It stood still, and no clock of it has shown that yet.
    stood_still: bool,
    /// Grows with each restart: answers to a former one are lost.
    pub(crate) life: u32,
    pub(crate) paused_until: Duration,
    /// It was told to end.
    pub(crate) ends: bool,
    /// Until when no request of it reaches the store.
    pub(crate) cut_off_until: Duration,
    /// Until when its store asks for patience, or refuses its credentials.
    pub(crate) throttled_until: Duration,
    pub(crate) denied_until: Duration,
    /// The turn of a renewal has come: what is sent now goes out (S7).
    pub(crate) has_turn: bool,
    pub(crate) inbox: VecDeque<Incoming>,
    pub(crate) requests: u64,
    pub(crate) lease_ids: u64,
}

impl Sidecar {
    pub(crate) fn new(settings: Settings, seed: u64, now: Instant, bug: Option<Bug>) -> Self {
        let hold = PlainLock::new(settings, Memory::default(), seed, now);
        Self {
            machine: Machine::new(hold, settings, bug),
            settings,
            resumes: false,
            gained: Duration::ZERO,
            wall: None,
            suspicions: Suspicions::default(),
            told: 0,
            stood_still: false,
            life: 0,
            paused_until: Duration::ZERO,
            ends: false,
            cut_off_until: Duration::ZERO,
            throttled_until: Duration::ZERO,
            denied_until: Duration::ZERO,
            has_turn: false,
            inbox: VecDeque::new(),
            requests: 0,
            lease_ids: 0,
        }
    }

    /// What a step of the wall clock was once taken for: time that the boot clock has not counted.
    fn add_step(&mut self, boot: Instant, wall: UnixMillis) {
        let boot = i128::try_from((boot.since_boot() + self.gained).as_millis()).unwrap();
        let difference = i128::from(wall.0) - boot;
        let step = difference - self.wall.replace(difference).unwrap_or(difference);
        if step > 250 {
            self.gained += Duration::from_millis(u64::try_from(step).unwrap());
            self.wall = Some(difference - step);
        }
    }
}

impl World {
    /// The time as a sidecar has it.
    pub(crate) fn time_at(&self, index: usize) -> Instant {
        self.read_clock(index) + self.sidecars[index].gained
    }

    /// Whether a clock of the sidecar shows at this look that it stood still: what it grants from now on is
    /// judged (S1, S5).
    pub(crate) fn note_sign(&mut self, index: usize) {
        let sidecar = &self.sidecars[index];
        if sidecar.stood_still {
            let mut suspicions = sidecar.suspicions.clone();
            suspicions.observe_wall(self.read_clock(index), self.clocks[index].wall(self.now));
            if suspicions.raised() > sidecar.told {
                self.sidecars[index].stood_still = false;
                self.checks.moved.shows(index, self.now, self.time_at(index));
                self.story.shown += 1;
            }
        }
    }

    /// The sidecar looks at the clocks beside its own, as it does before each event (S3).
    pub(crate) fn look_for_pauses(&mut self, index: usize) {
        let (boot, wall) = (self.read_clock(index), self.clocks[index].wall(self.now));
        if self.bug == Some(Bug::AddsWallSteps) {
            self.sidecars[index].add_step(boot, wall);
        }
        let suspicions = &mut self.sidecars[index].suspicions;
        suspicions.observe_wall(boot, wall);
        let raised = suspicions.raised();
        if std::mem::replace(&mut self.sidecars[index].told, raised) < raised {
            self.handle(index, Event::PauseSuspected);
        }
    }

    /// The date of a store's answer comes in.
    pub(crate) fn observe_date(&mut self, index: usize, date: UnixMillis) {
        let now = self.read_clock(index);
        self.sidecars[index].suspicions.observe_store_date(now, date);
    }

    /// What a renewal says of a pause that is suspected.
    pub(crate) fn weigh_suspicion(&mut self, index: usize, action: &Action) {
        let Action::Report(Remark::Renewal { latency, failure, .. }) = action else { return };
        let now = self.read_clock(index);
        let suspicions = &mut self.sidecars[index].suspicions;
        match (failure, latency) {
            (None, Some(latency)) => {
                let source = suspicions.refute(now.saturating_sub(*latency), now);
                self.story.not_heard += u64::from(source.is_some());
            }
            (Some(Failure::Taken | Failure::Deleted), _) => suspicions.confirm(now),
            (Some(_) | None, _) => {}
        }
    }

    /// Freezes a sidecar.
    pub(crate) fn pause(&mut self, index: usize, pause: Duration) {
        let until = &mut self.sidecars[index].paused_until;
        *until = (*until).max(self.now + pause);
        if self.bug == Some(Bug::ClockStopsInSuspend) {
            self.clocks[index].stand_still(self.now, pause);
        }
    }

    /// A virtual machine is moved: all that runs on it stands still, and its boot clock does not count it.
    /// What was promised under the leases of before is outside S1 then; that such a pause is noticed, and
    /// ends (S3), is checked apart. What is granted from the first look on at which a clock shows it is not:
    /// with `set_right` that is the first event, since the wall clock is right.
    pub(crate) fn move_machine(&mut self, index: usize, pause: Duration, set_right: bool) {
        let until = self.now + pause;
        let clock = &mut self.clocks[index];
        if set_right && clock.stands_until(self.now) == self.now {
            clock.wall_shift += i64::try_from(pause.as_millis()).unwrap();
        }
        // Its clock has moved on since whatever it sent last.
        clock.stand_still(self.now + Duration::from_micros(10), pause);
        let sidecar = &mut self.sidecars[index];
        sidecar.paused_until = sidecar.paused_until.max(until);
        sidecar.stood_still = true;
        for client in self.clients.iter_mut().filter(|client| client.machine == index) {
            client.paused_until = client.paused_until.max(until);
        }
        // An answer that waited meanwhile is as old as the pause, also that of a resume: its lease was
        // granted elsewhere, and its client may have gone on from here.
        let resuming = self.clients.iter().filter(|client| {
            client.at == index || client.former.iter().any(|(at, _)| *at == index)
        });
        let leases = resuming.filter_map(|client| Some(client.grant.as_ref()?.lease_id)).collect();
        self.checks.excuse(index, leases);
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
        // It crashes in vain while its machine stands still.
        sidecar.paused_until = self.clocks[index].stands_until(now);
        sidecar.cut_off_until = former.cut_off_until;
        sidecar.throttled_until = former.throttled_until;
        sidecar.denied_until = former.denied_until;
        self.checks.restarted(index);
        self.streams_closed(index);
    }
}
