//! What happens to the processes while their schedules go on.

use std::time::Duration;

use leasehold_client::BootInstant;
use rustix::process::{Pid, Signal, kill_process};

use super::{REPLICAS, Stage, WALLS};
use crate::faults::process::until;
use crate::faults::proxy::Weather;

/// One thing that happens. All of them come before one comes again.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// The command dies; `leasehold every` lives.
    KillJob,
    /// `leasehold every` dies while its job runs.
    KillRunner,
    KillSidecar,
    /// Longer than a lease.
    FreezeSidecar,
    /// No store, over a due time.
    Outage,
    /// Requests are lost, late, repeated and refused.
    Storm,
    StepClock,
}

const ACTS: [Act; 7] = [
    Act::KillJob,
    Act::KillRunner,
    Act::KillSidecar,
    Act::Outage,
    Act::StepClock,
    Act::FreezeSidecar,
    Act::Storm,
];
/// Longer than the leases of 15 s.
const FREEZE: Duration = Duration::from_secs(18);
/// Longer than the shortest period.
const OUTAGE: Duration = Duration::from_secs(12);
const STORM: Duration = Duration::from_secs(8);
const DEAD: Duration = Duration::from_secs(3);

const MUST_OCCUR: [&str; 9] = [
    "fault: a job was killed",
    "fault: a replica was killed in a run",
    "fault: a sidecar was killed",
    "fault: a sidecar was stopped",
    "fault: a wall clock was moved",
    "weather: cut",
    "job: start, tried again",
    "replica: recorded",
    "replica: failed",
];

impl Stage {
    /// One act after another, each at least once, for at least so long.
    pub(super) async fn trouble(&mut self, least: Duration) {
        let over = BootInstant::now().since_boot() + least;
        loop {
            for act in ACTS {
                self.act(act).await;
            }
            if BootInstant::now().since_boot() >= over {
                return;
            }
        }
    }

    pub(super) fn never_occurred(&self) -> Vec<&'static str> {
        MUST_OCCUR.into_iter().filter(|name| self.statistics.sum(name) == 0).collect()
    }

    fn any(&mut self) -> usize {
        usize::try_from(self.random.below(REPLICAS as u64)).unwrap()
    }

    /// A run that goes on: its schedule, and what its job wrote. It waits for one.
    async fn running(&self) -> (usize, super::cast::Line) {
        let look = || {
            let timers = self.timers.iter().enumerate();
            // The longest work is most likely still there when it is killed.
            timers.rev().find_map(|(index, timer)| Some((index, timer.running()?)))
        };
        until("a job runs", || self.story(), look).await
    }

    /// Kills a job that runs; whether that is what it ended of, by what was made of it.
    async fn kill_job(&self) -> bool {
        let (schedule, line) = self.running().await;
        let replica = self.replicas[schedule].iter().find(|replica| replica.name == line.replica);
        let replica = replica.unwrap();
        let before = replica.ended().len();
        let job = Pid::from_raw(line.process).unwrap();
        // It may have ended by itself meanwhile.
        let _ = kill_process(job, Signal::KILL);
        let ended = || replica.ended().get(before).cloned();
        let ended = until("the replica says how its run ended", || self.story(), ended).await;
        let killed = ended.contains("ended: FAILED");
        if killed {
            self.statistics.count("fault: a job was killed");
        }
        killed
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::KillJob => while !self.kill_job().await {},
            Act::KillRunner => {
                let (schedule, line) = self.running().await;
                let replicas = &mut self.replicas[schedule];
                let replica = replicas.iter_mut().find(|replica| replica.name == line.replica);
                replica.unwrap().kill_and_start();
                self.statistics.count("fault: a replica was killed in a run");
            }
            Act::KillSidecar => {
                let index = self.any();
                self.sidecars[index].kill();
                tokio::time::sleep(DEAD).await;
                self.sidecars[index].restart().await;
                self.statistics.count("fault: a sidecar was killed");
            }
            Act::FreezeSidecar => {
                let index = self.any();
                self.sidecars[index].stop().await;
                tokio::time::sleep(FREEZE).await;
                self.sidecars[index].go_on();
                self.statistics.count("fault: a sidecar was stopped");
            }
            Act::Outage => self.weather(Weather::Gone, OUTAGE).await,
            Act::Storm => self.weather(Weather::Stormy, STORM).await,
            Act::StepClock => {
                let index = self.any();
                let wall = WALLS[self.any()];
                self.clocks[index].step_wall(&self.sidecars[index], wall).await;
                self.statistics.count("fault: a wall clock was moved");
            }
        }
    }

    async fn weather(&self, weather: Weather, lasting: Duration) {
        self.proxy.set(weather);
        tokio::time::sleep(lasting).await;
        self.proxy.set(Weather::Calm);
    }
}
