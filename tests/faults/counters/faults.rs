//! What this storm does, and when it ends.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::PoisonError;

use rustix::process::Signal;

use super::plan::{FIRST, Fault, MUST_OCCUR};
use super::turns::Stage;
use super::{
    BROKEN_AT_ONCE, LOCAL, POOL, Place, REMOTE, SIDECARS, Storm, TICK, TICKS_A_SECOND, languages,
};
use crate::faults::process::{PATIENCE, program};
use crate::faults::proxy::Weather;

/// What passes again.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Passing {
    Weather,
    SidecarStopped(usize),
    SidecarDead(usize),
    /// It was told to end, and its replacement follows.
    SidecarEnding(usize),
    ClientStopped(usize),
    /// Nothing is done to it, so that a notice comes with its next renewal.
    SidecarSpared(usize),
    /// A job that stands between its read and its save, until others have counted on: the lock, and how often
    /// it had been counted.
    Late(usize, String, u64),
}

/// Ticks within which a lease of 15 s is renewed, on a busy machine.
const RENEWED: u64 = 80;
/// The first tick of faults by chance, though others are due.
const BY_CHANCE: u64 = 300;
/// Ticks between two of those that are due.
const SPACE: u64 = 5;
/// How much longer than for its kills a storm lasts that was too gentle.
const LONGEST_MORE: u64 = 180 * TICKS_A_SECOND;
/// Ticks between two late holders.
const LATE_AGAIN: u64 = 60 * TICKS_A_SECOND;

impl Storm {
    fn is_passing(&self, what: impl Fn(&Passing) -> bool) -> bool {
        self.passing.iter().any(|(_, passing)| what(passing))
    }

    fn is_late(&self, seat: usize) -> bool {
        self.is_passing(|what| matches!(what, Passing::Late(late, ..) if *late == seat))
    }

    fn is_whole(&self, sidecar: usize) -> bool {
        !self.is_passing(|what| {
            [
                Passing::SidecarStopped(sidecar),
                Passing::SidecarDead(sidecar),
                Passing::SidecarEnding(sidecar),
                Passing::SidecarSpared(sidecar),
            ]
            .contains(what)
        })
    }

    /// Lets it go on for so many ticks.
    fn last(&mut self, what: Passing, least: u64, most: u64) {
        let ticks = least + self.random.below(most - least + 1);
        self.passing.push((self.tick + ticks, what));
    }

    fn stage(&self, seat: usize) -> Stage {
        self.seats[seat].stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The sidecar that a job is at.
    fn sidecar_of(&self, seat: usize) -> usize {
        match self.seats[seat].place {
            Place::Beside(sidecar) => sidecar,
            Place::Elsewhere(gate) => {
                let target = self.gates[gate].target();
                let is_it = |address: &SocketAddr| *address == target;
                LOCAL + self.addresses.iter().position(is_it).unwrap()
            }
        }
    }

    /// One of the jobs whose save is under way.
    fn saving(&mut self) -> Option<usize> {
        let saving = |seat: &usize| {
            self.stage(*seat) == Stage::Saving && !self.seats[*seat].handle.is_stopped()
        };
        let all: Vec<usize> = (0..self.seats.len()).filter(saving).collect();
        let chosen = self.random.below(all.len() as u64);
        all.get(usize::try_from(chosen).unwrap()).copied()
    }

    /// One of the jobs that wait for a notice, at a sidecar that is whole: which sidecar, and which lock.
    fn awaiting(&mut self, is_meant: impl Fn(&str) -> bool) -> Option<(usize, String)> {
        let found = |seat: usize| {
            let sidecar = self.sidecar_of(seat);
            let Stage::Awaiting(path) = self.stage(seat) else { return None };
            let (lock, _) = path.split_once('~')?;
            let is_it =
                is_meant(lock) && self.is_whole(sidecar) && !self.seats[seat].handle.is_stopped();
            is_it.then(|| (sidecar, lock.to_owned()))
        };
        let all: Vec<_> = (0..self.seats.len()).filter_map(found).collect();
        let chosen = self.random.below(all.len() as u64);
        all.get(usize::try_from(chosen).unwrap()).cloned()
    }

    fn kill_sidecar(&mut self, sidecar: usize) -> bool {
        let is_whole = self.is_whole(sidecar);
        if is_whole {
            self.sidecars[sidecar].kill();
            self.statistics.count("killed: a sidecar");
            self.last(Passing::SidecarDead(sidecar), 0, 20);
        }
        is_whole
    }

    /// The client of a save that is under way, or its sidecar.
    fn kill_while_saving(&mut self, is_client: bool) -> bool {
        let Some(seat) = self.saving() else { return false };
        let sidecar = self.sidecar_of(seat);
        let is_killed =
            if is_client { self.seats[seat].handle.kill() } else { self.kill_sidecar(sidecar) };
        if is_killed {
            self.statistics.count("fault: killed while a save was under way");
        }
        is_killed
    }

    fn weather(&mut self, weather: Weather) -> bool {
        let is_calm = !self.is_passing(|what| *what == Passing::Weather);
        if is_calm {
            self.statistics.count(&format!("fault: weather {weather:?}"));
            self.proxy.set(weather);
            let most = if weather == Weather::Stormy { 80 } else { 30 };
            self.last(Passing::Weather, TICKS_A_SECOND, most);
        }
        is_calm
    }

    /// A holder that has read and not yet saved stands still, and its sidecar dies, until others have the
    /// lock.
    async fn make_late(&mut self) -> bool {
        let working = |seat: &usize| matches!(self.stage(*seat), Stage::Working(_));
        let Some(seat) = (0..self.seats.len()).find(working) else { return false };
        let sidecar = self.sidecar_of(seat);
        if !self.is_whole(sidecar) || !self.seats[seat].handle.stop().await {
            return false;
        }
        // Not too late: the save is sent to one that stands.
        let Stage::Working(path) = self.stage(seat) else {
            self.seats[seat].handle.go_on();
            return false;
        };
        self.kill_sidecar(sidecar);
        let written = self.shared.journal(|journal| journal.unchecked(&path).written);
        self.passing.push((self.tick, Passing::Late(seat, path, written)));
        true
    }

    /// As an operator does it, a lock that somebody works under, and waits for the notice.
    fn break_lock(&mut self, is_at_once: bool) -> bool {
        let is_meant = |lock: &str| lock != POOL && (lock == BROKEN_AT_ONCE) == is_at_once;
        let is_calm = !self.is_passing(|what| *what == Passing::Weather);
        let Some((sidecar, lock)) = self.awaiting(is_meant).filter(|_| is_calm) else {
            return false;
        };
        if !is_at_once {
            self.last(Passing::SidecarSpared(sidecar), RENEWED, RENEWED);
        }
        let endpoint = self.sidecars[sidecar].endpoint();
        let mut command = tokio::process::Command::new(program());
        command.args(["break", "--endpoint", &endpoint, "--function", &lock, "--reason", "storm"]);
        if is_at_once {
            command.args(["--now", "--yes"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let mut breaking = command.spawn().unwrap();
        let statistics = self.statistics.clone();
        let how = if is_at_once { "at once" } else { "to run out" };
        tokio::spawn(async move {
            let ended = tokio::time::timeout(PATIENCE, breaking.wait()).await;
            if ended.is_ok_and(|status| status.unwrap().success()) {
                statistics.count(&format!("fault: a lock was broken {how}"));
            }
        });
        true
    }

    fn move_job(&mut self) -> bool {
        let index = usize::try_from(self.random.below(self.gates.len() as u64)).unwrap();
        let target = usize::try_from(self.random.below(REMOTE as u64)).unwrap();
        let is_cut = self.gates[index].move_to(self.addresses[target]) > 0;
        if is_cut {
            self.statistics.count("fault: a job was moved");
        }
        is_cut
    }

    fn any(&mut self) -> Fault {
        match self.random.below(24) {
            0..=6 => Fault::KillSidecar,
            7..=9 => Fault::KillSidecarOfSave,
            10..=11 => Fault::KillClient,
            12..=13 => Fault::KillClientOfSave,
            14 => Fault::StopSidecar,
            15 => Fault::StopClient,
            16 | 17 => Fault::Weather(Weather::Stormy),
            18 => Fault::Weather(Weather::Gone),
            19 => Fault::Weather(Weather::Silent),
            20 => Fault::Move,
            21 => Fault::Replace,
            22 => Fault::Break,
            _ => Fault::BreakAtOnce,
        }
    }

    /// Whether it acted.
    async fn act(&mut self, fault: Fault) -> bool {
        let sidecar = usize::try_from(self.random.below(SIDECARS as u64)).unwrap();
        let seat = usize::try_from(self.random.below(self.seats.len() as u64)).unwrap();
        match fault {
            Fault::KillSidecar => self.kill_sidecar(sidecar),
            Fault::KillSidecarOfSave => self.kill_while_saving(false),
            Fault::KillClientOfSave => self.kill_while_saving(true),
            // One that is late has yet to write what the control loses.
            Fault::KillClient => !self.is_late(seat) && self.seats[seat].handle.kill(),
            Fault::StopSidecar if self.is_whole(sidecar) => {
                self.sidecars[sidecar].stop().await;
                self.statistics.count("fault: a sidecar was stopped");
                self.last(Passing::SidecarStopped(sidecar), 10, 80);
                true
            }
            Fault::StopClient if self.seats[seat].handle.stop().await => {
                self.statistics.count("fault: a client was stopped");
                self.last(Passing::ClientStopped(seat), 10, 80);
                true
            }
            Fault::Replace if self.is_whole(sidecar) => {
                self.sidecars[sidecar].signal(Signal::TERM);
                self.statistics.count("fault: a sidecar was replaced");
                self.last(Passing::SidecarEnding(sidecar), 0, 20);
                true
            }
            Fault::StopSidecar | Fault::StopClient | Fault::Replace => false,
            Fault::Move => self.move_job(),
            Fault::Break => self.break_lock(false),
            Fault::BreakAtOnce => self.break_lock(true),
            Fault::Weather(weather) => self.weather(weather),
            Fault::MakeLate => self.make_late().await,
        }
    }

    /// Whether it may end: a late holder only when others have counted on.
    fn has_acted(&self, what: &Passing) -> bool {
        match what {
            Passing::SidecarEnding(sidecar) => self.sidecars[*sidecar].has_ended(),
            Passing::Late(_, path, written) => {
                self.shared.journal(|journal| journal.unchecked(path).written > *written)
            }
            Passing::Weather
            | Passing::SidecarStopped(_)
            | Passing::SidecarDead(_)
            | Passing::SidecarSpared(_)
            | Passing::ClientStopped(_) => true,
        }
    }

    fn pass(&mut self, what: Passing) {
        match what {
            Passing::Weather => self.proxy.set(Weather::Calm),
            Passing::SidecarStopped(sidecar) => self.sidecars[sidecar].go_on(),
            Passing::SidecarDead(sidecar) | Passing::SidecarEnding(sidecar) => {
                self.sidecars[sidecar].start_again();
            }
            Passing::SidecarSpared(_) => {}
            Passing::ClientStopped(seat) => self.seats[seat].handle.go_on(),
            Passing::Late(seat, ..) => {
                self.statistics.count("fault: a holder was late");
                self.seats[seat].handle.go_on();
            }
        }
    }

    fn pass_what_is_over(&mut self) {
        let now = self.tick;
        let over: Vec<_> = self.passing.extract_if(.., |(end, _)| *end <= now).collect();
        for (end, what) in over {
            if self.has_acted(&what) {
                self.pass(what);
            } else {
                self.passing.push((end, what));
            }
        }
    }

    /// What has not occurred yet.
    pub(super) fn missing(&self) -> Vec<String> {
        let saved = languages().into_iter().map(|language| format!("saved: {language}"));
        let all = MUST_OCCUR.into_iter().map(str::to_owned).chain(saved);
        let mut missing: Vec<_> = all.filter(|what| self.statistics.sum(what) == 0).collect();
        if self.shared.journal(|journal| journal.lost_unchecked()) == 0 {
            missing.push("the control lost a write".to_owned());
        }
        missing
    }

    /// The fault that is due acts, if it can.
    async fn act_on_what_is_due(&mut self) {
        if self.tick.is_multiple_of(SPACE)
            && let Some(fault) = self.due.first().copied()
            && self.act(fault).await
        {
            self.due.remove(0);
        }
    }

    /// Faults until so many processes were killed, and longer while it was too gentle to prove anything; then
    /// all pass.
    pub(super) async fn rage(&mut self, kills: u64) {
        let mut clock = tokio::time::interval(TICK);
        let (mut next, mut late_due, mut enough) = (0, LATE_AGAIN, None);
        loop {
            clock.tick().await;
            self.tick += 1;
            // None ends before the storm does, but by a panic.
            if let Some(ended) = self.jobs.try_join_next() {
                ended.unwrap();
            }
            self.pass_what_is_over();
            if self.tick >= late_due {
                late_due = self.tick + LATE_AGAIN;
                self.due.push(Fault::MakeLate);
            }
            if self.tick >= next && (self.due.is_empty() || self.tick >= BY_CHANCE) {
                next = self.tick + 3 + self.random.below(7);
                let any = self.any();
                self.act(any).await;
            }
            self.act_on_what_is_due().await;
            if self.statistics.sum("killed: ") >= kills {
                let since = *enough.get_or_insert(self.tick);
                // A busy machine may have let some of the first ones pass without an effect.
                if self.due.is_empty() {
                    self.due = FIRST.to_vec();
                }
                let is_late = self.is_passing(|what| matches!(what, Passing::Late(..)));
                if (self.missing().is_empty() && !is_late) || self.tick > since + LONGEST_MORE {
                    break;
                }
            }
        }
        let left = std::mem::take(&mut self.passing);
        for (_, what) in left {
            while !self.has_acted(&what) {
                tokio::time::sleep(TICK).await;
            }
            self.pass(what);
        }
    }
}
