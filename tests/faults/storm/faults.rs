//! What the storm does, when it ends, and how it shows that it acted.

use std::net::SocketAddr;

use rustix::process::Signal;

use super::cast::Resource;
use super::{
    LOCAL, LOCKS, MOVING, REMOTE, SIDECARS, Storm, TICK, TICKS_A_SECOND, WORKERS, cast, unmoved,
};
use crate::faults::moving::Shift;
use crate::faults::proxy::Weather;

/// What passes again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Passing {
    /// With what the proxy had done of it before.
    Weather(Weather, u64),
    SidecarStopped(usize),
    SidecarDead(usize),
    /// It was told to end, and its replacement follows.
    SidecarEnding(usize),
    WorkerStopped(usize),
    /// By its place among the steps.
    Clock(usize),
}

/// A wall clock that was moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    sidecar: usize,
    /// Milliseconds.
    by: i64,
    /// On the boot clock.
    from: u64,
}

/// Steps of wall clocks, in milliseconds: within and beyond what is suspicious, and beyond any lease.
const STEPS: [i64; 6] = [700, 10_000, HOUR, -2_000, -HOUR, 24 * HOUR];
const HOUR: i64 = 3_600_000;
/// Milliseconds between the making of a grant and the reading of it by the job, for a busy machine.
const READING: i64 = 600;
/// How long a fault that has not acted yet goes on.
const MORE: u64 = TICKS_A_SECOND;
/// How much longer than asked for a storm lasts that was too gentle.
const LONGEST_MORE: u64 = 300 * TICKS_A_SECOND;
/// One that has not acted after so many ticks never will.
const NEVER: u64 = 120 * TICKS_A_SECOND;

impl Storm {
    fn is_passing(&self, what: impl Fn(&Passing) -> bool) -> bool {
        self.passing.iter().any(|(_, passing)| what(passing))
    }

    fn is_stopped(&self, worker: usize) -> bool {
        self.is_passing(|what| *what == Passing::WorkerStopped(worker))
    }

    fn is_sidecar_stopped(&self, sidecar: usize) -> bool {
        self.is_passing(|what| *what == Passing::SidecarStopped(sidecar))
    }

    fn is_whole(&self, sidecar: usize) -> bool {
        !self.is_sidecar_stopped(sidecar)
            && !self.is_passing(|what| *what == Passing::SidecarDead(sidecar))
            && !self.is_passing(|what| *what == Passing::SidecarEnding(sidecar))
    }

    /// Lets it go on for so many seconds.
    fn last(&mut self, what: Passing, least: u64, most: u64) {
        let seconds = least + self.random.below(most - least + 1);
        self.passing.push((self.tick + seconds * TICKS_A_SECOND, what));
    }

    /// How often the proxy has done what it does in such weather.
    fn effects(&self, weather: Weather) -> u64 {
        match weather {
            Weather::Calm => 0,
            Weather::Stormy => {
                self.statistics.sum("request: ") - self.statistics.sum("request: passed on")
            }
            Weather::Gone => self.statistics.sum("weather: cut"),
            Weather::Nameless => self.names.refused(),
            Weather::Silent => self.statistics.sum("weather: kept"),
        }
    }

    fn set_weather(&self, weather: Weather) {
        match weather {
            Weather::Nameless => self.names.lose(),
            Weather::Calm | Weather::Stormy | Weather::Gone | Weather::Silent => {
                self.names.find_again();
            }
        }
        self.proxy.set(weather);
    }

    fn is_calm(&self) -> bool {
        !self.is_passing(|what| matches!(what, Passing::Weather(..)))
    }

    /// False while there is another weather.
    fn weather(&mut self, weather: Weather, least: u64, most: u64) -> bool {
        let is_calm = self.is_calm();
        if is_calm {
            self.statistics.count(&format!("fault: weather {weather:?}"));
            let before = self.effects(weather);
            self.set_weather(weather);
            self.last(Passing::Weather(weather, before), least, most);
        }
        is_calm
    }

    async fn stop_sidecar(&mut self, sidecar: usize, least: u64, most: u64) {
        self.sidecars[sidecar].stop().await;
        self.statistics.count("fault: a sidecar was stopped");
        self.last(Passing::SidecarStopped(sidecar), least, most);
    }

    async fn stop_worker(&mut self, worker: usize, least: u64, most: u64) {
        if !self.is_stopped(worker) {
            self.workers[worker].stop().await;
            self.statistics.count("fault: a job was stopped");
            self.last(Passing::WorkerStopped(worker), least, most);
        }
    }

    /// As when a virtual machine stands still: a sidecar and its jobs, past their leases, in the midst of
    /// work; nothing else fails meanwhile, so that others take their locks.
    async fn stop_machine(&mut self) -> bool {
        if (0..SIDECARS).any(|sidecar| self.is_sidecar_stopped(sidecar)) {
            return false;
        }
        let holding = |machine: &usize| {
            let of_it = self.workers.iter().filter(|worker| worker.sidecar == Some(*machine));
            of_it.filter(|worker| worker.is_deaf_at_work()).count()
        };
        let whole = (0..LOCAL).filter(|sidecar| self.is_whole(*sidecar));
        let chosen = whole.max_by_key(holding).filter(|machine| holding(machine) > 0);
        let Some(machine) = chosen else { return false };
        self.passing.retain(|(_, what)| !matches!(what, Passing::Weather(..)));
        self.set_weather(Weather::Calm);
        self.stop_sidecar(machine, 26, 30).await;
        for worker in 0..WORKERS {
            if self.workers[worker].sidecar == Some(machine) {
                self.stop_worker(worker, 26, 30).await;
            }
        }
        self.statistics.count("fault: a machine was stopped");
        true
    }

    /// A holder that hears nothing, while its sidecar's wall clock says that its lease is long over: nobody
    /// else gets the lock before what the holder was told is over (S3, S13).
    async fn stop_holder_and_step_clock(&mut self) -> bool {
        let is_chosen = |worker: &usize| {
            let chosen = &self.workers[*worker];
            chosen.sidecar.is_some_and(|sidecar| self.is_whole(sidecar))
                && !self.is_stopped(*worker)
                && chosen.is_deaf_at_work()
        };
        let Some(worker) = (0..WORKERS).find(is_chosen) else { return false };
        let Some(sidecar) = self.workers[worker].sidecar else { return false };
        self.stop_worker(worker, 13, 13).await;
        self.step_clock(sidecar, HOUR);
        true
    }

    /// It is told to end, and its replacement follows at the same address (S15).
    fn replace_sidecar(&mut self, sidecar: usize) -> bool {
        let is_whole = self.is_whole(sidecar);
        if is_whole {
            self.sidecars[sidecar].signal(Signal::TERM);
            self.statistics.count("fault: a sidecar was replaced");
            self.last(Passing::SidecarEnding(sidecar), 0, 4);
        }
        is_whole
    }

    /// The same while one of its jobs works under a lock.
    fn replace_sidecar_of_holder(&mut self) -> bool {
        let of_holders = self.workers.iter().filter(|worker| worker.is_at_work());
        let chosen = of_holders.filter_map(|worker| worker.sidecar).next();
        chosen.is_some_and(|sidecar| self.replace_sidecar(sidecar))
    }

    /// A job elsewhere is led to another sidecar than before, and what it had there breaks.
    fn move_job(&mut self) {
        let index = usize::try_from(self.random.below(self.gates.len() as u64)).unwrap();
        let target = usize::try_from(self.random.below(REMOTE as u64)).unwrap();
        if self.gates[index].move_to(self.addresses[target]) > 0 {
            self.statistics.count("fault: a job was moved");
        }
    }

    /// The same while it works under a lock and nothing else keeps it from resuming there (S16).
    fn move_holder(&mut self) -> bool {
        let is_chosen = |gate: &usize| {
            let worker = WORKERS - MOVING + gate;
            self.workers[worker].is_at_work() && !self.is_stopped(worker)
        };
        if !self.is_calm() || !(LOCAL..SIDECARS).all(|sidecar| self.is_whole(sidecar)) {
            return false;
        }
        let Some(gate) = (0..self.gates.len()).find(is_chosen) else { return false };
        let elsewhere = |address: &&SocketAddr| **address != self.gates[gate].target();
        let target = *self.addresses.iter().find(elsewhere).unwrap();
        let is_cut = self.gates[gate].move_to(target) > 0;
        if is_cut {
            self.statistics.count("fault: a holder was moved");
        }
        is_cut
    }

    fn step_clock(&mut self, sidecar: usize, by: i64) {
        let steps = &self.steps;
        let is_of_it = |what: &Passing| match what {
            Passing::Clock(step) => steps[*step].sidecar == sidecar,
            _ => false,
        };
        if sidecar >= LOCAL || self.is_passing(is_of_it) {
            return;
        }
        self.clocks[sidecar].set(&Shift { wall: by, ..unmoved(sidecar) });
        self.statistics.count("fault: a wall clock was moved");
        let step = self.steps.len();
        self.steps.push(Step { sidecar, by, from: cast::boot_nanos() });
        self.last(Passing::Clock(step), 1, 20);
    }

    async fn fault(&mut self) {
        let sidecar = usize::try_from(self.random.below(SIDECARS as u64)).unwrap();
        let worker = usize::try_from(self.random.below(WORKERS as u64)).unwrap();
        match self.random.below(32) {
            0..=4 => _ = self.weather(Weather::Stormy, 5, 15),
            5 => _ = self.weather(Weather::Gone, 1, 12),
            6 => _ = self.weather(Weather::Silent, 1, 12),
            7..=9 if self.is_whole(sidecar) => {
                self.sidecars[sidecar].kill();
                self.statistics.count("fault: a sidecar was killed");
                self.last(Passing::SidecarDead(sidecar), 0, 4);
            }
            10 | 11 if self.is_whole(sidecar) => self.stop_sidecar(sidecar, 1, 20).await,
            12..=15 => self.stop_worker(worker, 1, 20).await,
            16..=18 if !self.is_stopped(worker) => {
                self.workers[worker].kill_and_start();
                self.statistics.count("fault: a job was killed");
            }
            19 => _ = self.replace_sidecar(sidecar),
            20 | 21 if self.is_whole(sidecar) => {
                self.statistics.count("fault: a lock was broken");
                let lock = LOCKS[usize::try_from(self.random.below(LOCKS.len() as u64)).unwrap()];
                cast::break_lock(&self.sidecars[sidecar].endpoint(), lock).await;
            }
            22..=27 => self.move_job(),
            28..=31 => {
                let by = STEPS[usize::try_from(self.random.below(STEPS.len() as u64)).unwrap()];
                self.step_clock(sidecar % LOCAL, by);
            }
            _ => {}
        }
    }

    /// Whether the fault has shown itself; what needs no more proof than its beginning, has.
    fn has_acted(&self, what: Passing) -> bool {
        match what {
            Passing::Weather(weather, before) => self.effects(weather) > before,
            Passing::Clock(step) => self.is_seen(self.steps[step]),
            Passing::SidecarEnding(sidecar) => self.sidecars[sidecar].has_ended(),
            Passing::SidecarStopped(_) | Passing::SidecarDead(_) | Passing::WorkerStopped(_) => {
                true
            }
        }
    }

    /// Whether a grant of that sidecar showed the moved clock.
    fn is_seen(&self, step: Step) -> bool {
        let of_it = self.workers.iter().filter(|worker| worker.sidecar == Some(step.sidecar));
        let mut lines = of_it.flat_map(|worker| super::checker::read(&worker.log()));
        lines.any(|line| {
            let is_grant = line.event == "granted" && !line.resumed && line.at >= step.from;
            is_grant && (line.wall_ahead_ms - step.by).abs() < READING
        })
    }

    fn pass(&mut self, what: Passing) {
        match what {
            Passing::Weather(..) => self.set_weather(Weather::Calm),
            Passing::SidecarStopped(sidecar) => self.sidecars[sidecar].go_on(),
            Passing::SidecarDead(sidecar) | Passing::SidecarEnding(sidecar) => {
                self.sidecars[sidecar].start_again();
            }
            Passing::WorkerStopped(worker) => self.workers[worker].go_on(),
            Passing::Clock(step) => {
                let sidecar = self.steps[step].sidecar;
                self.clocks[sidecar].set(&unmoved(sidecar));
            }
        }
    }

    /// Ends what is over and has acted.
    fn pass_what_is_over(&mut self) {
        let now = self.tick;
        let over: Vec<_> = self.passing.extract_if(.., |(end, _)| *end <= now).collect();
        for (end, what) in over {
            // Those that are late by so much are asked again a second later.
            if self.has_acted(what) {
                self.pass(what);
            } else if self.late.entry(format!("{what:?}")).or_insert(end).saturating_add(NEVER)
                < now
            {
                self.idle.push(format!("{what:?}"));
                self.pass(what);
            } else {
                self.passing.push((now + MORE, what));
            }
        }
    }

    /// Faults for that long, one a second or so, and longer while it was too gentle to prove anything; then
    /// all of them pass.
    pub(super) async fn rage(&mut self, ticks: u64, resources: &[Resource]) {
        let mut clock = tokio::time::interval(TICK);
        let mut next = 50;
        // In the shortest run, too.
        let (mut machine_due, mut holder_due, mut move_due, mut name_due) = (100, 600, 100, 400);
        let mut replacement_due = 200;
        while self.tick < ticks || self.rages_on(ticks, resources).await {
            clock.tick().await;
            self.tick += 1;
            self.pass_what_is_over();
            if self.tick >= machine_due && self.stop_machine().await {
                machine_due = self.tick + 600;
                next = self.tick + 300;
            }
            if self.tick >= holder_due && self.stop_holder_and_step_clock().await {
                self.statistics.count("fault: a holder was stopped and a clock moved");
                holder_due = self.tick + 600;
            }
            if self.tick >= move_due && self.move_holder() {
                move_due = self.tick + 100;
            }
            if self.tick >= replacement_due && self.replace_sidecar_of_holder() {
                replacement_due = self.tick + 200;
            }
            if self.tick >= name_due && self.weather(Weather::Nameless, 2, 12) {
                name_due = self.tick + 600;
            }
            if self.tick >= next {
                next = self.tick + 4 + self.random.below(14);
                self.fault().await;
            }
        }
        let left = std::mem::take(&mut self.passing);
        left.into_iter().for_each(|(_, what)| self.pass(what));
    }

    /// Whether something is still missing, and may yet come.
    async fn rages_on(&self, ticks: u64, resources: &[Resource]) -> bool {
        let is_checked = self.tick.is_multiple_of(5 * TICKS_A_SECOND);
        self.tick < ticks + LONGEST_MORE
            && !(is_checked && self.missing(resources).await.is_empty())
    }
}
