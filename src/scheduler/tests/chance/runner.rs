//! Runners by chance: they succeed, fail, hang, die, come back elsewhere, and report late or twice.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::judge::Judge;
use super::{SCHEDULES, World};
use crate::coordinator::tests::checker::Belief;
use crate::coordinator::tests::rig::{MINUTE, SECOND, Sidecar, key, pass};
use crate::coordinator::{HeldEvent, ResumeRequest};
use crate::record::Labels;
use crate::schedule::{Definition, Report, Spec};
use crate::scheduler::tests::rig::{completion, late};
use crate::scheduler::{
    CompleteRequest, ResumeRun, RunGrant, ScheduleEvent, ScheduleStream, SubscribeRequest,
};
use crate::testing::SeededRandom;

/// The longest that a runner waits for what became of a completion.
const PATIENCE: Duration = Duration::from_secs(180);

/// One process that runs a schedule.
pub(super) struct Runner {
    pub(super) world: Arc<World>,
    pub(super) random: SeededRandom,
    pub(super) schedule: usize,
    pub(super) spec: Spec,
    /// Which of the sidecars is beside it.
    pub(super) home: usize,
}

/// How following a stream has ended.
enum Followed {
    /// The time is over, and the run goes on.
    Over,
    /// The run is recorded, or lost, and the stream goes on.
    Ended,
    /// The stream has ended.
    Gone,
}

impl Runner {
    pub(super) async fn live(mut self) {
        let mut is_new = true;
        while !self.world.is_over() {
            let sidecar = self.world.sidecar(self.home);
            let Ok(stream) = sidecar.scheduler.subscribe(self.subscription(is_new)) else {
                pass(SECOND).await;
                continue;
            };
            is_new = false;
            let mut served = Some(stream);
            while let Some(stream) = served.take() {
                served = self.serve(&sidecar, stream).await;
            }
            pass(self.random.span(5 * SECOND)).await;
        }
    }

    fn subscription(&self, is_new: bool) -> SubscribeRequest {
        SubscribeRequest {
            key: key(SCHEDULES[self.schedule]),
            definition: Definition::new(self.spec.clone()).unwrap(),
            is_new,
            holder: None,
            labels: Labels::default(),
            runs_at_once: false,
            resume: None,
        }
    }

    fn judge(&self) -> &Judge {
        &self.world.judge
    }

    /// Waits for a run and runs it; the stream, if it goes on.
    async fn serve(
        &mut self,
        sidecar: &Sidecar,
        mut stream: ScheduleStream,
    ) -> Option<ScheduleStream> {
        let patience =
            if self.world.is_calm() { 100 * MINUTE } else { self.random.span(10 * MINUTE) };
        let until = Box::pin(pass(patience));
        let over = Box::pin(self.world.over());
        let run = match select(Box::pin(next_run(&mut stream)), select(until, over)).await {
            Either::Left((run, _)) => Some(run),
            Either::Right(_) => None,
        };
        let Some(run) = run? else { return self.gone(sidecar, stream) };
        if self.judge().is_over(&run) {
            // It was busy with something else: S21.
            return Some(stream);
        }
        let belief = self.judge().granted(&run).await;
        if self.world.is_calm() {
            return self.run_well(sidecar, stream, &run, &belief).await;
        }
        self.run_badly(sidecar, stream, &run, &belief).await
    }

    /// A sidecar that is dead hears nothing of what its clients do.
    fn gone(&self, sidecar: &Sidecar, stream: ScheduleStream) -> Option<ScheduleStream> {
        if self.world.is_dead(sidecar) {
            self.world.bury(stream);
        } else {
            stream.disconnected();
        }
        None
    }

    async fn run_well(
        &mut self,
        sidecar: &Sidecar,
        mut stream: ScheduleStream,
        run: &RunGrant,
        belief: &Belief,
    ) -> Option<ScheduleStream> {
        let span = self.random.span(3 * SECOND);
        match self.follow(&mut stream, belief, span).await {
            Followed::Over => {}
            // T24: whose run was lost is given another one over a new stream.
            Followed::Ended => return None,
            Followed::Gone => return self.gone(sidecar, stream),
        }
        self.judge().beliefs.ended(belief);
        self.complete(sidecar, completion(run, Report::Succeeded)).await;
        // T8: whoever has completed its run is told what became of it.
        match self.follow(&mut stream, belief, 5 * MINUTE).await {
            Followed::Ended => Some(stream),
            Followed::Gone => None,
            Followed::Over if self.world.is_over() => None,
            Followed::Over => {
                panic!("seed {}: {:?} is not answered", self.world.seed, run.told.run_id)
            }
        }
    }

    async fn run_badly(
        &mut self,
        sidecar: &Sidecar,
        mut stream: ScheduleStream,
        run: &RunGrant,
        belief: &Belief,
    ) -> Option<ScheduleStream> {
        let span =
            self.random.span(if self.random.clone().chance(300) { MINUTE } else { 8 * SECOND });
        match self.follow(&mut stream, belief, span).await {
            Followed::Over => {}
            Followed::Ended => {
                self.maybe_late(run).await;
                return None;
            }
            Followed::Gone => {
                let stream = self.gone(sidecar, stream);
                self.maybe_late(run).await;
                return stream;
            }
        }
        match self.random.below(12) {
            // It is killed.
            0 => {
                self.judge().beliefs.ended(belief);
                None
            }
            // It hangs.
            1 => {
                let hangs = self.random.span(3 * MINUTE);
                let followed = self.follow(&mut stream, belief, hangs).await;
                match followed {
                    Followed::Over => self.judge().beliefs.ended(belief),
                    Followed::Ended => {}
                    Followed::Gone => return self.gone(sidecar, stream),
                }
                // Nothing is given to it before, over that stream.
                self.maybe_late(run).await;
                None
            }
            // Its connection breaks.
            2 | 3 => {
                stream.disconnected();
                self.come_back(run, belief).await
            }
            // It asks another sidecar, and goes.
            4 => {
                self.judge().beliefs.ended(belief);
                let other = self.random_sidecar();
                self.complete_and_go(other, stream, run, 10 * SECOND).await
            }
            // It goes while it completes.
            5 => {
                self.judge().beliefs.ended(belief);
                self.complete_and_go(sidecar.clone(), stream, run, SECOND).await
            }
            how => {
                self.judge().beliefs.ended(belief);
                self.end_badly(sidecar, run, how).await;
                Some(stream)
            }
        }
    }

    /// Says what became of the run, and goes within this time.
    async fn complete_and_go(
        &mut self,
        sidecar: Sidecar,
        stream: ScheduleStream,
        run: &RunGrant,
        within: Duration,
    ) -> Option<ScheduleStream> {
        let request = completion(run, self.report());
        let (judge, world) = (self.judge().clone(), Arc::clone(&self.world));
        let call = tokio::spawn(async move { complete(&judge, &world, &sidecar, request).await });
        pass(self.random.span(within)).await;
        drop(stream);
        call.await.unwrap();
        None
    }

    /// Says what became of the run: once, twice, or not at all.
    async fn end_badly(&mut self, sidecar: &Sidecar, run: &RunGrant, how: u64) {
        let report = self.report();
        match how {
            // It says two things at once.
            6 => {
                let other =
                    if self.random.chance(500) { sidecar.clone() } else { self.random_sidecar() };
                let contrary = if self.random.chance(500) { report } else { self.report() };
                let one = complete(self.judge(), &self.world, sidecar, completion(run, report));
                let two = complete(self.judge(), &self.world, &other, completion(run, contrary));
                tokio::join!(one, two);
            }
            // It releases, and says nothing of an outcome.
            7 => {
                let grant = &run.grant;
                let _ = sidecar.coordinator.release(grant.lease_id, Some(grant.generation)).await;
            }
            _ => self.complete(sidecar, completion(run, report)).await,
        }
        if self.random.chance(200) {
            self.complete(sidecar, completion(run, report)).await;
        }
    }

    /// It was cut off from its sidecar: it goes on at another one, or says later what it has done, or
    /// nothing.
    async fn come_back(&mut self, run: &RunGrant, belief: &Belief) -> Option<ScheduleStream> {
        if self.random.chance(500) {
            pass(self.random.span(10 * SECOND)).await;
            self.maybe_late(run).await;
            return None;
        }
        pass(self.random.span(12 * SECOND)).await;
        let sidecar = self.random_sidecar();
        let told_valid_until = self.judge().beliefs.told(belief);
        let resume_token = run.grant.resume_token.clone();
        let hold = ResumeRequest {
            resume_token,
            attempt_id: "again".to_owned(),
            told_valid_until,
            trace_context: None,
        };
        let resume = Some(ResumeRun { hold, run_id: run.told.run_id.clone() });
        let request = SubscribeRequest { resume, ..self.subscription(false) };
        let mut stream = sidecar.scheduler.subscribe(request).ok()?;
        let resumed = tokio::time::timeout(2 * MINUTE, next_run(&mut stream)).await;
        let Ok(Some(resumed)) = resumed else {
            // S16: it may be that it goes on, and its client has given up.
            self.judge().beliefs.ended(belief);
            stream.disconnected();
            return None;
        };
        if resumed.told.run_id != run.told.run_id {
            // The run is over, and this is the next one.
            self.judge().beliefs.ended(belief);
            let belief = self.judge().granted(&resumed).await;
            self.judge().beliefs.ended(&belief);
            self.complete(&sidecar, completion(&resumed, Report::Succeeded)).await;
            return None;
        }
        self.judge().beliefs.resumed(belief, &resumed.grant);
        let span = self.random.span(20 * SECOND);
        match self.follow(&mut stream, belief, span).await {
            Followed::Over => self.judge().beliefs.ended(belief),
            Followed::Ended => return None,
            Followed::Gone => return self.gone(&sidecar, stream),
        }
        let report = self.report();
        self.complete(&sidecar, completion(&resumed, report)).await;
        None
    }

    async fn maybe_late(&mut self, run: &RunGrant) {
        if self.random.chance(700) {
            pass(self.random.span(40 * SECOND)).await;
            let (sidecar, report) = (self.random_sidecar(), self.report());
            self.complete(&sidecar, late(&run.told.run_id, report)).await;
        }
    }

    async fn complete(&self, sidecar: &Sidecar, request: CompleteRequest) {
        complete(self.judge(), &self.world, sidecar, request).await;
    }

    fn report(&mut self) -> Report {
        match self.random.below(10) {
            0 | 1 => Report::Failed,
            2 => Report::FailedFinal,
            3 => Report::Returned,
            _ => Report::Succeeded,
        }
    }

    fn random_sidecar(&mut self) -> Sidecar {
        let index = self.random.below(self.world.size() as u64);
        self.world.sidecar(usize::try_from(index).unwrap())
    }

    /// Reads what is told for this long.
    async fn follow(
        &self,
        stream: &mut ScheduleStream,
        belief: &Belief,
        span: Duration,
    ) -> Followed {
        let mut over = Box::pin(pass(span));
        loop {
            let event = match select(&mut over, Box::pin(stream.next())).await {
                Either::Left(_) => return Followed::Over,
                Either::Right((event, _)) => event,
            };
            match event {
                Some(ScheduleEvent::Held(
                    HeldEvent::Renewed(validity) | HeldEvent::Recovered(validity),
                )) => {
                    if self.judge().beliefs.is_believed(belief) {
                        self.judge().beliefs.renewed(belief, &validity);
                    }
                }
                Some(ScheduleEvent::Held(HeldEvent::Lost { .. })) => {
                    self.judge().beliefs.lost(belief);
                    return Followed::Ended;
                }
                Some(ScheduleEvent::Recorded { .. }) => return Followed::Ended,
                Some(ScheduleEvent::Failed(_)) | None => return Followed::Gone,
                Some(ScheduleEvent::Run(run)) => panic!("seed {}: {run:?}", self.world.seed),
                Some(_) => {}
            }
        }
    }
}

async fn complete(judge: &Judge, world: &World, sidecar: &Sidecar, request: CompleteRequest) {
    let (id, report) = (request.run_id.clone(), request.report);
    let call = sidecar.scheduler.complete_run(request);
    if let Ok(Ok(completed)) = tokio::time::timeout(PATIENCE, call).await
        && !world.is_dead(sidecar)
    {
        judge.answered(&id, report, completed.completion).await;
    }
}

/// The next run; none at the end of the stream.
async fn next_run(stream: &mut ScheduleStream) -> Option<RunGrant> {
    loop {
        match stream.next().await? {
            ScheduleEvent::Run(run) => return Some(*run),
            ScheduleEvent::Failed(_) => return None,
            _ => {}
        }
    }
}
