//! A runner: subscribes, runs what it is given while it may believe in it (S21), and ends in one way or
//! another.

use std::time::Duration;

use leasehold::coordinator::{CallError, Extended, HeldEvent};
use leasehold::record::Labels;
use leasehold::schedule::{Definition, RunId};
use leasehold::scheduler::{ResumeRun, RunGrant, ScheduleEvent, SubscribeRequest};
use leasehold::testing::SeededRandom;
use tokio::sync::watch;

use super::stream::{self, Stream};
use super::terms::{self, Terms};
use crate::kit::millis;
use crate::world::chance::About;
use crate::world::client::{Client, Holding};
use crate::world::cost::Cause;
use crate::world::resuming::is_to_come_again;
use crate::world::sidecar::{End, Sidecar, key};

/// How long a schedule stays removed at the most, in milliseconds, before somebody begins it anew.
const MOST_REMOVED: u64 = 200_000;
/// Never, in a world.
pub(super) const FOR_EVER: Duration = Duration::from_secs(1_000_000);
/// The longest time-out of a run that hangs: a day is left to those that do their work (T10).
const MOST_HUNG: Duration = Duration::from_secs(150);
/// What a deadline may be later than its time-out from the start: an answer on its way, a clock that is a
/// hundredth slow, and dates that differ where the hold has moved (S16).
const DEADLINE_SLACK: Duration = Duration::from_secs(20);
/// How long its hold lasts past the time to stop (T12).
const WRITING: Duration = Duration::from_secs(2);

/// One process that runs a schedule.
pub(super) struct Runner {
    pub(super) client: Client,
    pub(super) lock: usize,
    pub(super) definition: Definition,
    /// It has not subscribed yet (T16).
    pub(super) is_new: bool,
    /// It may come back with another definition.
    pub(super) changes: bool,
    pub(super) over: watch::Receiver<bool>,
}

/// A run that goes on.
pub(super) struct Running {
    pub(super) holding: Holding,
    pub(super) stream: Stream,
    pub(super) run: RunGrant,
    /// When it was told first.
    pub(super) began: Duration,
    /// When it reported progress last, at the latest; and whether it does that.
    pub(super) reported: Duration,
    pub(super) reports: bool,
}

impl Running {
    pub(super) fn id(&self) -> &RunId {
        &self.run.told.run_id
    }
}

/// How a stream has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// With the news that its schedule was removed.
    Removed,
    Otherwise,
}

/// How following a run has ended.
pub(super) enum Worked {
    /// Its work is done, or nobody waits for it any longer.
    Done,
    /// It was told that the run is over, by a word of its own or somebody's.
    Over,
    /// It was told that the run is lost.
    Lost,
    /// It may believe no more, and was told nothing.
    Unsure,
    /// Its sidecar is being replaced (S15).
    Interrupted,
    /// Its stream is gone.
    Gone,
}

impl Runner {
    pub(super) async fn live(mut self) {
        while !self.is_over() {
            let mut random = self.client.world.draw(About::Act, self.client.index);
            let sidecar = self.client.pick(&mut random);
            let begun = self.subscribe(&sidecar, None).await;
            self.is_new = false;
            if let Some(stream) = begun {
                let ended = self.serve(sidecar, stream, &mut random).await;
                self.is_new = ended == Ended::Removed && self.begins_anew(&mut random).await;
            }
            tokio::time::sleep(millis(&mut random, 100, 5_000)).await;
            if self.changes && !self.is_calm() && random.chance(200) {
                self.comes_with_another(&mut random);
            }
        }
    }

    /// T25: its schedule was removed. Whether it is started anew, and is no reconnect.
    async fn begins_anew(&self, random: &mut SeededRandom) -> bool {
        let waits = if self.is_calm() { Duration::ZERO } else { millis(random, 0, MOST_REMOVED) };
        tokio::time::sleep(waits).await;
        let is_new = self.is_calm() || random.chance(500);
        if is_new {
            self.client.world.state().schedules.count("began anew");
        }
        is_new
    }

    /// Its deployment was changed: a policy, or its timetable as well (T16).
    fn comes_with_another(&mut self, random: &mut SeededRandom) {
        let world = &self.client.world;
        let terms = Terms::of(world);
        self.definition = if random.chance(700) {
            terms::other_policies(random, &terms, &self.definition)
        } else {
            terms::definition(random, &terms)
        };
        self.is_new = true;
        let path = world.sidecar(0).path(&key(self.lock)).to_string();
        let mut state = world.state();
        let known = &mut state.schedules.seen(&path).definitions;
        known.insert(self.definition.hash(), self.definition.clone());
        state.schedules.count("changed by a deployment");
    }

    pub(super) fn may_hang(&self) -> bool {
        self.client.world.scene().is_whole()
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    pub(super) fn is_calm(&self) -> bool {
        self.client.world.state().calm
    }

    pub(super) async fn subscribe(
        &self,
        sidecar: &Sidecar,
        resume: Option<ResumeRun>,
    ) -> Option<Stream> {
        let request = SubscribeRequest {
            key: key(self.lock),
            definition: self.definition.clone(),
            is_new: self.is_new && resume.is_none(),
            holder: None,
            labels: Labels::default(),
            runs_at_once: self.may_hang() && self.client.index.is_multiple_of(2),
            resume,
        };
        let path = sidecar.path(&request.key);
        let cause = if request.resume.is_some() { Cause::Resume } else { Cause::Caller };
        sidecar.calls_for(&path, cause);
        let world = &self.client.world;
        if request.is_new {
            let hash = self.definition.hash();
            let mut state = world.state();
            let seen = state.schedules.seen(path.as_str());
            // However long it is under way.
            seen.anew.came.insert(hash, world.now());
        }
        let work = async { stream::begin(world, sidecar, request) };
        sidecar.call_surely(self.client.index, work).await?.ok()
    }

    /// Runs what it is given, until it leaves.
    async fn serve(&self, sidecar: Sidecar, stream: Stream, random: &mut SeededRandom) -> Ended {
        let (mut sidecar, mut stream) = (sidecar, stream);
        let asked = self.client.world.now();
        let stays = if self.is_calm() { FOR_EVER } else { millis(random, 1_000, 600_000) };
        let mut over = self.over.clone();
        let leaves = tokio::time::sleep(stays);
        tokio::pin!(leaves);
        loop {
            let event = tokio::select! {
                biased;
                event = stream.next() => event,
                _ = over.wait_for(|over| *over) => None,
                () = &mut leaves => None,
            };
            match event {
                Some(ScheduleEvent::Run(run)) => {
                    self.client.is_late().await;
                    match self.run((sidecar, stream), *run, asked, random).await {
                        Some(goes_on) => (sidecar, stream) = goes_on,
                        None => return Ended::Otherwise,
                    }
                }
                Some(ScheduleEvent::Failed(CallError::ScheduleRemoved { .. })) => {
                    stream.end(self.how_seen(&sidecar));
                    return Ended::Removed;
                }
                Some(ScheduleEvent::Failed(_)) | None => {
                    stream.end(self.how_seen(&sidecar));
                    return Ended::Otherwise;
                }
                // What is told of a run that is over for its runner; the definition in force; that it waits.
                Some(
                    ScheduleEvent::Standby(_)
                    | ScheduleEvent::Held(_)
                    | ScheduleEvent::Recorded { .. }
                    | ScheduleEvent::DefinitionInForce { .. },
                ) => {}
            }
        }
    }

    /// Over a network an end may have been a proxy's doing (S14).
    pub(super) fn how_seen(&self, sidecar: &Sidecar) -> End {
        if self.client.home == Some(sidecar.index) { End::Closed } else { End::Silent }
    }

    /// Runs an occurrence; where it goes on to wait for the next, if it does.
    async fn run(
        &self,
        (sidecar, stream): (Sidecar, Stream),
        run: RunGrant,
        asked: Duration,
        random: &mut SeededRandom,
    ) -> Option<(Sidecar, Stream)> {
        let mut holding = self.client.holding(&sidecar, None, &run.grant);
        self.client.believe(&mut holding, &run.grant.validity, asked);
        let began = self.client.world.now();
        let is_watched = run.told.progress_timeout.is_some();
        let reports = !is_watched || self.is_calm() || random.chance(700);
        let mut running = Running { holding, stream, run, began, reported: began, reports };
        let most = if self.is_calm() || random.chance(600) { 3_000 } else { 60_000 };
        let mut span = millis(random, 0, most);
        let ends = running.run.told.timeout.is_some_and(|timeout| timeout <= MOST_HUNG);
        let ends = ends && !self.is_calm();
        if ends && self.may_hang() && random.chance(300) {
            // Its function never returns.
            span = FOR_EVER;
        }
        loop {
            let worked = self.work(&mut running, span, random).await;
            if !matches!(worked, Worked::Interrupted | Worked::Gone) {
                return self.ends(running, worked, random).await;
            }
            if matches!(worked, Worked::Gone) {
                tokio::time::sleep(millis(random, 0, 8_000)).await;
            }
            running = self.resume(running, random).await?;
            span = millis(random, 0, 20_000);
        }
    }

    /// Goes about its business for this long.
    pub(super) async fn work(
        &self,
        running: &mut Running,
        span: Duration,
        random: &mut SeededRandom,
    ) -> Worked {
        let (client, world) = (&self.client, &self.client.world);
        let mut ends = world.now() + span;
        loop {
            let now = world.now();
            let holding = &mut running.holding;
            let Some(until) = client.believes(holding) else {
                if !holding.fresh || !self.asks(running).await {
                    client.believes_no_more(&running.holding);
                    return Worked::Unsure;
                }
                continue;
            };
            self.in_time(running, until);
            let next = (now + millis(random, 200, 4_000)).min(ends).min(until).saturating_sub(now);
            let told = tokio::select! {
                biased;
                event = running.stream.next() => Some(event),
                () = tokio::time::sleep(next.max(Duration::from_millis(1))) => None,
            };
            match told {
                Some(None) => return Worked::Gone,
                Some(Some(event)) => {
                    client.is_late().await;
                    let soon = world.now() + millis(random, 0, 20_000);
                    if let Some(worked) = self.hears(running, event, (now, soon, &mut ends)) {
                        return worked;
                    }
                }
                None if world.now() >= ends => return Worked::Done,
                None => self.acts(running, until).await,
            }
        }
    }

    /// What an event means to a runner; none if it goes on.
    fn hears(
        &self,
        running: &mut Running,
        event: ScheduleEvent,
        (now, soon, ends): (Duration, Duration, &mut Duration),
    ) -> Option<Worked> {
        let client = &self.client;
        match event {
            ScheduleEvent::Held(
                HeldEvent::Renewed(validity)
                | HeldEvent::Extended(Extended { validity, .. })
                | HeldEvent::Recovered(validity)
                | HeldEvent::AtRisk { validity, .. },
            ) => {
                client.hears_validity(&mut running.holding, &validity, now);
                None
            }
            ScheduleEvent::Held(HeldEvent::Revoked { .. } | HeldEvent::Draining { .. }) => {
                *ends = (*ends).min(soon);
                None
            }
            ScheduleEvent::Standby(_) | ScheduleEvent::DefinitionInForce { .. } => None,
            ScheduleEvent::Failed(error) if is_to_come_again(&error) => Some(Worked::Interrupted),
            ScheduleEvent::Held(HeldEvent::Lost { .. }) => {
                client.believes_no_more(&running.holding);
                Some(Worked::Lost)
            }
            ScheduleEvent::Recorded { .. } | ScheduleEvent::Failed(_) => {
                client.believes_no_more(&running.holding);
                Some(Worked::Over)
            }
            ScheduleEvent::Run(next) => {
                let (id, next) = (running.id(), &next.told.run_id);
                client.world.fail(format!("T10: {next:?} is told beside {id:?}"));
                Some(Worked::Over)
            }
        }
    }

    /// Asks for its validity, which is a report of progress (S11); whether it may go on.
    async fn asks(&self, running: &mut Running) -> bool {
        let may = self.client.ask(&mut running.holding, None).await;
        // It may have come, whether it was answered or not.
        running.reported = self.client.world.now();
        may
    }

    /// T12: what it is told of its validity ends at its deadline, with the time to stop and to write it. S11:
    /// and as long after its last report as its schedule says.
    fn in_time(&self, running: &Running, until: Duration) {
        if let Some(timeout) = running.run.told.progress_timeout {
            let latest = running.reported + timeout + timeout / 100 + DEADLINE_SLACK;
            if until > latest {
                let what = format!("valid to {until:?}, past {latest:?}, and reports no progress");
                self.client.world.fail(format!("S11: {:?} is {what}", running.id()));
            }
        }
        let Some(timeout) = running.run.told.timeout else { return };
        let beyond = running.run.told.stop_grace + WRITING;
        let latest = running.began + timeout + timeout / 100 + beyond + DEADLINE_SLACK;
        if until > latest {
            let id = running.id();
            self.client.world.fail(format!("T12: {id:?} is valid to {until:?}, past {latest:?}"));
        }
    }

    async fn acts(&self, running: &mut Running, until: Duration) {
        let (client, world) = (&self.client, &self.client.world);
        let third = Duration::from_secs(world.plan().lease) / 3;
        let soon = until.saturating_sub(world.now()) < third * 2;
        let due = |timeout| world.now() >= running.reported + timeout / 3;
        let is_due = running.run.told.progress_timeout.is_some_and(due) && running.reports;
        let is_elsewhere = client.home != Some(running.holding.sidecar.index);
        let holding = &running.holding;
        if is_due || is_elsewhere && soon {
            self.asks(running).await;
        } else if client.believes(holding).is_some() {
            world.state().checks.write(&holding.path, holding.token);
        }
    }
}
