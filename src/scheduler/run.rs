//! One run, from the try for its lease to its end: what happens to its hold is told to its subscriber.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Sleep;

use super::Scheduler;
use super::reading::unreadable;
use super::request::{RunGrant, ScheduleEvent};
use super::state::ScheduleState;
use super::subscriber::Life;
use crate::coordinator::{
    CallError, Deadline, Decisions, Grant, HeldEvent, HoldEvent, HoldStream, ScheduleEventKind,
    Teller,
};
use crate::hold::LossReason;
use crate::lock::LockPath;
use crate::schedule::{FOR_THE_WRITE, Report, RunId, ScheduleRecord, Start, Starting, Told};

/// Before a drain ends, an unfinished run is recorded as returned (T20); a store needs about so long to write
/// it.
const BEFORE_THE_END: Duration = Duration::from_secs(2);

/// How a try for a run, or the run, has ended.
#[derive(Debug)]
pub(super) enum RunEnd {
    /// There was nothing to run; what is so is known now.
    Settled,
    /// Somebody has the lock.
    Busy,
    /// The lock could not be had.
    Failed(CallError),
    /// A run does not go on here; its subscriber was told so last.
    NotResumed(CallError),
    /// The run is over. `released`: by a call.
    Over { run_id: RunId, released: bool },
    /// Its subscriber was told that it is lost, and has said nothing of how it ended (T24).
    Lost { run_id: RunId, reason: LossReason },
}

/// What a run is started for.
#[derive(Debug)]
pub(super) enum Begin {
    /// A lease was asked for; under it, it is decided what to run.
    Start(Decided),
    /// It goes on (S16): this is what it is told again.
    Resume(Box<Told>),
}

/// What was decided of a start.
#[derive(Debug)]
pub(super) struct Decided {
    decisions: Decisions<Start>,
    /// Whether it is to be said that the record has gone back: it has, and that was not said before (T21).
    went_back: bool,
    said_back: bool,
    /// What was decided last; none if no lease was had.
    last: Option<Starting>,
    /// The runs whose starts may have been written.
    starts: Vec<RunId>,
}

impl Decided {
    pub(super) const fn new(decisions: Decisions<Start>, said_back: bool) -> Self {
        Self { decisions, went_back: false, said_back, last: None, starts: Vec::new() }
    }

    /// Takes in what was decided since.
    fn hear(&mut self) {
        for Start { what, went_back } in self.decisions.each() {
            self.went_back |= went_back && !self.said_back;
            if let Starting::Run { told, .. } = &what {
                self.starts.push(told.run_id.clone());
            }
            self.last = Some(what);
        }
    }
}

/// A run, or the try for one.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) scheduler: Scheduler,
    pub(super) path: LockPath,
    pub(super) state: Arc<ScheduleState>,
    pub(super) hold: HoldStream,
    pub(super) begin: Begin,
    pub(super) events: Teller<ScheduleEvent>,
    pub(super) life: watch::Receiver<Life>,
}

/// How a run may come to its end without a word from its caller.
struct Ends {
    /// Shortly before a drain ends (T20).
    returns_at: Option<Pin<Box<Sleep>>>,
    /// Shortly before its hold ends (T12).
    times_out: Option<Pin<Box<Sleep>>>,
    is_revoked: bool,
}

impl Ends {
    /// The time has come to record this, since no call has said how the run ended: the drain, or the hold, is
    /// about to end.
    async fn report(&mut self) -> Report {
        tokio::select! {
            biased;
            () = over(&mut self.returns_at) => Report::Returned,
            () = over(&mut self.times_out) => Report::TimedOut,
        }
    }
}

impl Run {
    /// Until its end.
    pub(super) async fn run(mut self) -> RunEnd {
        loop {
            let event = self.hold.next().await;
            if let Begin::Start(decided) = &mut self.begin {
                decided.hear();
            }
            match event {
                Some(HoldEvent::Granted(grant)) => return self.granted(*grant).await,
                Some(HoldEvent::Busy(_)) => {
                    self.withdraw();
                    return RunEnd::Busy;
                }
                Some(HoldEvent::Settled { written }) => return self.settled(written),
                Some(HoldEvent::Failed(error)) => return self.failed(error),
                Some(HoldEvent::Held(event)) => {
                    let HeldEvent::Lost { reason, .. } = event else { continue };
                    let Begin::Resume(told) = &self.begin else {
                        self.withdraw();
                        return RunEnd::Failed(CallError::HoldLost { reason });
                    };
                    // Its runner acts on it until it is told (S12, S16).
                    let run_id = told.run_id.clone();
                    self.events.tell(ScheduleEvent::Held(event));
                    return RunEnd::Lost { run_id, reason };
                }
                Some(HoldEvent::Released(_)) | None => {
                    return self.failed(CallError::HoldReleased);
                }
                // A run names no occurrence.
                Some(
                    HoldEvent::Waiting { .. }
                    | HoldEvent::AlreadyDone(_)
                    | HoldEvent::Skipped { .. },
                ) => {}
            }
        }
    }

    /// Who goes on with a run is told that it does not go on here, and may try again, here or elsewhere
    /// (S16).
    fn failed(&self, error: CallError) -> RunEnd {
        match &self.begin {
            Begin::Start(_) => {
                self.withdraw();
                RunEnd::Failed(error)
            }
            Begin::Resume(_) => {
                self.events.tell(ScheduleEvent::Failed(error.clone()));
                RunEnd::NotResumed(error)
            }
        }
    }

    /// T6: starts that may have been written were not granted, so nobody has seen those runs.
    fn withdraw(&self) {
        if let Begin::Start(Decided { starts, .. }) = &self.begin {
            for run_id in starts {
                self.state.has_seen(self.scheduler.ended_now(run_id, Report::Withdrawn));
            }
        }
    }

    fn settled(self, written: bool) -> RunEnd {
        self.withdraw();
        let Begin::Start(decided) = self.begin else { return RunEnd::Settled };
        if decided.went_back {
            self.scheduler.say_back(&self.path);
        }
        match decided.last {
            Some(Starting::Settled { record, tally }) if written => {
                self.scheduler.count(&self.path, &tally, None);
                self.state.learn(Some(*record));
            }
            Some(Starting::Nothing { record }) => {
                // Somebody else was faster.
                self.state.known().is_last_runner = false;
                self.state.learn(record.map(|it| *it));
            }
            Some(Starting::Unreadable(error)) => {
                return RunEnd::Failed(unreadable(&self.path, error));
            }
            Some(Starting::Settled { .. } | Starting::Run { .. }) | None => {
                return RunEnd::Busy;
            }
        }
        RunEnd::Settled
    }

    async fn granted(self, grant: Grant) -> RunEnd {
        if let Begin::Start(Decided { went_back: true, .. }) = &self.begin {
            self.scheduler.say_back(&self.path);
        }
        let told = match &self.begin {
            Begin::Resume(told) => told.clone(),
            Begin::Start(decided) => match &decided.last {
                Some(Starting::Run { token, record, told, tally }) if *token == grant.token => {
                    self.scheduler.count(&self.path, tally, None);
                    self.state.learn(Some(ScheduleRecord::clone(record)));
                    told.clone()
                }
                // A grant without its start written would be a run that nobody knows of: it is not told (T6).
                Some(_) | None => {
                    self.withdraw();
                    return RunEnd::Busy;
                }
            },
        };
        self.state.known().is_last_runner = true;
        let run_id = told.run_id.clone();
        self.state.known().granted = Some((run_id.clone(), grant.lease_id));
        let kind = ScheduleEventKind::RunStarted {
            run: &run_id,
            lateness: told.lateness,
            missed: told.missed_count,
            is_resumed: matches!(self.begin, Begin::Resume(_)),
        };
        self.scheduler.observe(&self.path, kind, Some(run_id.token));
        let times_out = grant.max_hold_ends.as_ref().filter(|_| told.timeout.is_some());
        let times_out = times_out.map(before_the_write);
        let deadline = self.deadline(&grant, &told);
        let granted = RunGrant { grant: grant.clone(), told: *told, deadline };
        // Who left while its run was being started has not seen it.
        let has_left = matches!(self.begin, Begin::Start(_)) && *self.life.borrow() != Life::Open;
        if has_left || !self.events.tell(ScheduleEvent::Run(Box::new(granted))) {
            // Nobody was told: it is given back before the hold ends (T6), or later where that cannot be
            // written (T8).
            self.state.has_seen(self.scheduler.ended_now(&run_id, Report::Withdrawn));
            self.scheduler.note_outcome(&grant, &run_id, Report::Withdrawn).await;
            return RunEnd::Over { run_id, released: false };
        }
        self.follow(grant, run_id, times_out).await
    }

    /// T12: the run's deadline by S21's clocks. Its hold lasts a little longer.
    fn deadline(&self, grant: &Grant, told: &Told) -> Option<Deadline> {
        told.timeout?;
        let beyond = told.stop_grace + FOR_THE_WRITE;
        let ends = grant.max_hold_ends.as_ref()?;
        Some(self.scheduler.locks.deadline_before(ends, beyond))
    }

    /// Tells the subscriber what happens to its hold, until that is over.
    async fn follow(
        mut self,
        grant: Grant,
        run_id: RunId,
        times_out: Option<Pin<Box<Sleep>>>,
    ) -> RunEnd {
        let mut ends = Ends { returns_at: None, times_out, is_revoked: false };
        let scheduler = self.scheduler.clone();
        // What is written of its end while it goes on: its subscriber hears of its hold meanwhile.
        let mut note = None;
        let end = loop {
            let event = tokio::select! {
                // In this order, so that a simulated world repeats what it did.
                biased;
                event = self.hold.next() => event,
                life = ended(&mut self.life) => break Err(life),
                () = over(&mut note) => {
                    note = None;
                    continue;
                }
                // One note at a time.
                report = ends.report(), if note.is_none() => {
                    (ends.returns_at, ends.times_out) = (None, None);
                    // It stays known where it cannot be written.
                    self.state.has_seen(self.scheduler.ended_now(&run_id, report));
                    note = Some(Box::pin(scheduler.note_outcome(&grant, &run_id, report)));
                    continue;
                }
            };
            // Without one, the lock's task has failed: the hold's client may believe in it (S14).
            let Some(event) = event else { break Err(Life::Disconnected) };
            match self.hear(event, &run_id, &mut ends) {
                Ok(Some(told)) => {
                    if !self.events.tell(told) {
                        break Err(Life::Disconnected);
                    }
                }
                Ok(None) => {}
                Err(end) => break Ok(end),
            }
        };
        let end = match end {
            Ok(end) => end,
            Err(life) => {
                match life {
                    Life::Closed | Life::Open => self.hold.closed_by_client(),
                    Life::Disconnected => self.hold.disconnected(),
                }
                RunEnd::Over { run_id: run_id.clone(), released: false }
            }
        };
        if let Some(note) = note {
            note.await;
        }
        end
    }

    /// What its subscriber is told of an event of its hold, or how the run has ended.
    fn hear(
        &self,
        event: HoldEvent,
        run_id: &RunId,
        ends: &mut Ends,
    ) -> Result<Option<ScheduleEvent>, RunEnd> {
        let event = match event {
            HoldEvent::Held(event) => event,
            HoldEvent::Released(_) => {
                if ends.is_revoked {
                    // T12: where no call says another outcome.
                    self.state.has_seen(self.scheduler.ended_now(run_id, Report::Returned));
                }
                return Err(RunEnd::Over { run_id: run_id.clone(), released: true });
            }
            HoldEvent::Failed(error) => {
                self.events.tell(ScheduleEvent::Failed(error));
                return Err(RunEnd::Over { run_id: run_id.clone(), released: false });
            }
            HoldEvent::Waiting { .. }
            | HoldEvent::Granted(_)
            | HoldEvent::Settled { .. }
            | HoldEvent::AlreadyDone(_)
            | HoldEvent::Skipped { .. }
            | HoldEvent::Busy(_) => return Ok(None),
        };
        let told = match event {
            HeldEvent::Renewed(_) | HeldEvent::AtRisk { .. } | HeldEvent::Recovered(_) => event,
            HeldEvent::Extended(extended) => {
                let times_out = ends.times_out.take().and(extended.max_hold_ends.as_ref());
                ends.times_out = times_out.map(before_the_write);
                HeldEvent::Renewed(extended.validity)
            }
            HeldEvent::Revoked { .. } => {
                ends.is_revoked = true;
                event
            }
            HeldEvent::Draining { time_left } => {
                // In a short drain what its caller says has half of the time.
                let before = time_left.saturating_sub(BEFORE_THE_END).max(time_left / 2);
                ends.returns_at = Some(Box::pin(tokio::time::sleep(before)));
                event
            }
            HeldEvent::Lost { reason, .. } => {
                self.events.tell(ScheduleEvent::Held(event));
                return Err(RunEnd::Lost { run_id: run_id.clone(), reason });
            }
        };
        Ok(Some(ScheduleEvent::Held(told)))
    }
}

async fn ended(life: &mut watch::Receiver<Life>) -> Life {
    match life.wait_for(|life| *life != Life::Open).await {
        Ok(life) => *life,
        Err(_) => Life::Closed,
    }
}

fn before_the_write(ends: &Deadline) -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(ends.after.saturating_sub(FOR_THE_WRITE)))
}

/// Never ends where there is nothing to wait for.
async fn over<F: Future<Output = ()>>(awaited: &mut Option<Pin<Box<F>>>) {
    match awaited {
        Some(awaited) => awaited.await,
        None => std::future::pending().await,
    }
}
