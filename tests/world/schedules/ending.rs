//! How runs end: with an outcome, with two, late, elsewhere, or with none (T8, T11, S16).

use std::time::Duration;

use leasehold::coordinator::{HeldEvent, ResumeRequest};
use leasehold::lock::LeaseId;
use leasehold::schedule::{Report, RunId};
use leasehold::scheduler::{CompleteRequest, ResumeRun, RunGrant, ScheduleEvent};
use leasehold::testing::SeededRandom;

use super::runner::{Runner, Running, Worked};
use super::stream::Stream;
use super::telling;
use crate::kit::millis;
use crate::world::client::PATIENCE;
use crate::world::cost::Cause;
use crate::world::sidecar::{End, SECOND, Sidecar};

/// The longest that a completion waits for the end of a lease (T8), with its requests.
const COMPLETING: Duration = Duration::from_secs(120);
/// How long after its answer a runner is told what became of its run.
const TOLD: Duration = Duration::from_secs(60);

/// By what a run is completed.
pub(super) struct By<'a> {
    id: &'a RunId,
    hold: Option<(LeaseId, u64)>,
}

impl<'a> By<'a> {
    const fn hold(running: &'a Running) -> Self {
        let holding = &running.holding;
        Self { id: &running.run.told.run_id, hold: Some((holding.lease_id, holding.generation)) }
    }

    pub(super) const fn late(id: &'a RunId) -> Self {
        Self { id, hold: None }
    }
}

impl Runner {
    /// After its work; where it waits for the next run, if it does.
    pub(super) async fn ends(
        &self,
        running: Running,
        worked: Worked,
        random: &mut SeededRandom,
    ) -> Option<(Sidecar, Stream)> {
        match worked {
            Worked::Done if self.is_calm() => self.ends_well(running).await,
            Worked::Done => self.ends_badly(running, random).await,
            Worked::Lost if self.may_hang() && random.chance(700) => {
                let id = running.id().clone();
                self.hangs((running.holding.sidecar, running.stream), &id, random).await
            }
            Worked::Lost | Worked::Over | Worked::Unsure | Worked::Interrupted | Worked::Gone => {
                // T24: on this stream it would be given nothing until it has said something.
                let sidecar = running.holding.sidecar.clone();
                let id = running.id().clone();
                running.stream.end(self.how_seen(&sidecar));
                self.maybe_late(&id, random).await;
                None
            }
        }
    }

    /// T8: whoever has completed its run is told what became of it.
    async fn ends_well(&self, mut running: Running) -> Option<(Sidecar, Stream)> {
        let sidecar = running.holding.sidecar.clone();
        self.client.believes_no_more(&running.holding);
        let done = self.complete(&sidecar, By::hold(&running), Report::Succeeded).await;
        let told = async {
            while let Some(event) = running.stream.next().await {
                match event {
                    ScheduleEvent::Recorded { .. } => return Some(true),
                    ScheduleEvent::Held(HeldEvent::Lost { .. }) => return Some(false),
                    _ => {}
                }
            }
            None
        };
        match tokio::time::timeout(TOLD, told).await {
            Ok(Some(true)) => return Some((sidecar, running.stream)),
            Ok(Some(false)) => running.stream.end(self.how_seen(&sidecar)),
            Ok(None) => {}
            Err(_) if done => {
                let id = running.id();
                self.client.world.fail(format!("T8: nobody tells what became of {id:?}"));
            }
            Err(_) => running.stream.end(self.how_seen(&sidecar)),
        }
        None
    }

    async fn ends_badly(
        &self,
        running: Running,
        random: &mut SeededRandom,
    ) -> Option<(Sidecar, Stream)> {
        let sidecar = running.holding.sidecar.clone();
        let report = report(random);
        match random.below(12) {
            // It goes, with or without a word.
            0 => {
                self.client.believes_no_more(&running.holding);
                let id = running.id().clone();
                running.stream.end(self.how_seen(&sidecar));
                self.maybe_late(&id, random).await;
                return None;
            }
            1 => return self.freezes(running, random).await,
            // Its connection breaks, and it comes back elsewhere.
            2 | 3 => {
                let mut running = self.resume(running, random).await?;
                let span = millis(random, 0, 20_000);
                return match self.work(&mut running, span, random).await {
                    Worked::Done => {
                        self.completes(&running, report).await;
                        Some((running.holding.sidecar, running.stream))
                    }
                    Worked::Lost
                    | Worked::Over
                    | Worked::Unsure
                    | Worked::Interrupted
                    | Worked::Gone => None,
                };
            }
            // It says so at another sidecar, which its hold is not at, and goes.
            4 => {
                self.client.believes_no_more(&running.holding);
                let other = self.client.pick(random);
                let by = By::hold(&running);
                let gone = millis(random, 0, 10_000);
                let _ = tokio::time::timeout(gone, self.complete(&other, by, report)).await;
                running.stream.end(End::Closed);
                return None;
            }
            // It says two things at once, or one thing twice.
            5 => {
                self.client.believes_no_more(&running.holding);
                let other = self.client.pick(random);
                let contrary = if random.chance(500) { report } else { self::report(random) };
                let one = self.complete(&sidecar, By::hold(&running), report);
                let two = self.complete(&other, By::late(running.id()), contrary);
                tokio::join!(one, two);
            }
            // It gives the lock back, and says nothing of an outcome.
            6 => {
                self.client.believes_no_more(&running.holding);
                let (id, generation) = (running.holding.lease_id, running.holding.generation);
                let release = sidecar.coordinator.release(id, Some(generation));
                let release = sidecar.call(self.client.index, release);
                let _ = tokio::time::timeout(COMPLETING, release).await;
            }
            _ => {
                self.completes(&running, report).await;
                if random.chance(200) {
                    tokio::time::sleep(millis(random, 0, 30_000)).await;
                    let other = self.client.pick(random);
                    self.complete(&other, By::late(running.id()), report).await;
                }
            }
        }
        Some((sidecar, running.stream))
    }

    async fn completes(&self, running: &Running, report: Report) {
        self.client.believes_no_more(&running.holding);
        self.complete(&running.holding.sidecar, By::hold(running), report).await;
    }

    /// It reads nothing, believes to the end of what it knows, and says later what it has done.
    async fn freezes(
        &self,
        running: Running,
        random: &mut SeededRandom,
    ) -> Option<(Sidecar, Stream)> {
        let world = &self.client.world;
        self.client.note(|| format!("freezes with {}", running.holding.token));
        world.state().schedules.count("frozen");
        tokio::time::sleep(millis(random, 1_000, 90_000)).await;
        let id = running.id().clone();
        // Whoever wakes in time says so at once.
        if self.client.believes(&running.holding).is_none() {
            self.client.believes_no_more(&running.holding);
        }
        if random.chance(500) {
            self.completes(&running, report(random)).await;
            return Some((running.holding.sidecar, running.stream));
        }
        self.client.believes_no_more(&running.holding);
        running.stream.end(End::Silent);
        self.maybe_late(&id, random).await;
        None
    }

    async fn maybe_late(&self, id: &RunId, random: &mut SeededRandom) {
        if !self.is_calm() && random.chance(600) {
            tokio::time::sleep(millis(random, 0, 40_000)).await;
            let sidecar = self.client.pick(random);
            self.complete(&sidecar, By::late(id), report(random)).await;
        }
    }

    /// Says how a run ended; whether that was answered.
    pub(super) async fn complete(&self, sidecar: &Sidecar, by: By<'_>, report: Report) -> bool {
        let (world, By { id, hold }) = (&self.client.world, by);
        world.state().schedules.reports(id, report);
        sidecar.calls_for(&id.path, Cause::Caller);
        let request = CompleteRequest {
            lease_id: hold.map(|(lease_id, _)| lease_id),
            run_id: id.clone(),
            report,
            detail: String::new(),
            generation: hold.map(|(_, generation)| generation),
            checkpoint: None,
        };
        let work = async {
            let answer = sidecar.scheduler.complete_run(request).await;
            telling::answered(world, id, report, &answer);
            answer.is_ok()
        };
        let call = sidecar.call(self.client.index, work);
        matches!(tokio::time::timeout(COMPLETING, call).await, Ok(Some(true)))
    }

    /// Goes on with its run at the same or another sidecar (S16), as long as it believes.
    pub(super) async fn resume(
        &self,
        running: Running,
        random: &mut SeededRandom,
    ) -> Option<Running> {
        let (client, world) = (&self.client, &self.client.world);
        let Running { holding, stream, run, began, reports, .. } = running;
        stream.breaks(millis(random, 0, 15_000));
        while client.believes(&holding).is_some() {
            let to = client.pick(random);
            let told_valid_until = holding.told.clone().filter(|_| client.home == Some(to.index));
            let attempt_id = format!("{}-{}", client.index, random.below(1 << 40));
            let resume_token = holding.resume_token.clone();
            let hold =
                ResumeRequest { resume_token, attempt_id, told_valid_until, trace_context: None };
            let run_id = run.told.run_id.clone();
            let asked = world.now();
            client.note(|| format!("resumes {} at {}", holding.token, to.index));
            let begun = self.subscribe(&to, Some(ResumeRun { hold, run_id })).await;
            if let Some(mut stream) = begun {
                match tokio::time::timeout(PATIENCE, first(&mut stream)).await {
                    Ok(First::Run(resumed)) if resumed.told.run_id == run.told.run_id => {
                        let mut holding = client.holding(&to, None, &resumed.grant);
                        client.believe(&mut holding, &resumed.grant.validity, asked);
                        let reported = world.now();
                        if limits(&resumed) != limits(&run) {
                            let moved = (limits(&run), limits(&resumed));
                            let id = &run.told.run_id;
                            world.fail(format!("T12, S16: the limits of {id:?} moved: {moved:?}"));
                        }
                        let run = *resumed;
                        return Some(Running { holding, stream, run, began, reported, reports });
                    }
                    Ok(First::Run(other)) => {
                        let id = &other.told.run_id;
                        world.fail(format!("S16: {id:?} is told to who resumes {:?}", run.told));
                        return None;
                    }
                    Ok(First::Lost) => {
                        world.state().schedules.count("told lost when resumed");
                        stream.end(End::Closed);
                        break;
                    }
                    // It may be that it goes on there, and its client has given up.
                    Ok(First::End) | Err(_) => stream.end(End::Silent),
                }
            }
            tokio::time::sleep(millis(random, 100, 1_000).max(SECOND / 10)).await;
        }
        client.believes_no_more(&holding);
        self.maybe_late(&run.told.run_id, random).await;
        None
    }
}

/// How long a run may take, and for how long it may be silent: its hold has them from its beginning.
fn limits(run: &RunGrant) -> [Option<Duration>; 3] {
    [run.told.timeout, Some(run.told.stop_grace), run.told.progress_timeout]
}

/// What a stream that is to go on with a run brings first.
enum First {
    Run(Box<RunGrant>),
    Lost,
    End,
}

async fn first(stream: &mut Stream) -> First {
    loop {
        match stream.next().await {
            Some(ScheduleEvent::Run(run)) => return First::Run(run),
            Some(ScheduleEvent::Held(HeldEvent::Lost { .. })) => return First::Lost,
            Some(ScheduleEvent::Failed(_)) | None => return First::End,
            Some(_) => {}
        }
    }
}

/// What a runner says, by chance.
pub(super) fn report(random: &mut SeededRandom) -> Report {
    match random.below(10) {
        0 | 1 => Report::Failed,
        2 => Report::FailedFinal,
        3 => Report::Returned,
        _ => Report::Succeeded,
    }
}
