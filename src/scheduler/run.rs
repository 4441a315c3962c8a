//! One run, from the try for its lease to its end: what happens to its hold is told to its subscriber.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Sleep;

use super::Scheduler;
use super::reading::unreadable_record;
use super::request::{RunGrant, ScheduleEvent};
use super::state::ScheduleState;
use super::subscriber::Life;
use crate::coordinator::{
    CallError, Deadline, Decisions, Grant, HeldEvent, HoldEvent, HoldStream, LockEvent,
    ScheduleEventKind, Teller,
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

/// What goes on beside the hold.
enum RunInput {
    Event(Option<HoldEvent>),
    Life(Life),
    /// The time has come to record this, since no call has said how the run ended: the drain, or the hold, is
    /// about to end.
    Note(Report),
    /// It was recorded, as far as it could be.
    Noted,
}

/// How a run may come to its end without a word from its caller.
struct Ends {
    /// Shortly before a drain ends (T20).
    returns_at: Option<Pin<Box<Sleep>>>,
    /// Shortly before its hold ends (T12).
    times_out: Option<Pin<Box<Sleep>>>,
    is_revoked: bool,
}

/// What an event of a hold means for its run.
enum Heard {
    Nothing,
    Tell(ScheduleEvent),
    End(RunEnd),
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
                Some(HoldEvent::Waiting { .. }) => {}
                Some(HoldEvent::Granted(grant)) => return self.granted(*grant).await,
                Some(HoldEvent::Busy(_)) => {
                    self.withdraw();
                    return RunEnd::Busy;
                }
                Some(HoldEvent::Settled { written }) => return self.settled(written),
                // A run names no occurrence.
                Some(HoldEvent::AlreadyDone(_) | HoldEvent::Skipped { .. }) => {}
                Some(HoldEvent::Failed(error)) => return self.failed(error),
                Some(HoldEvent::Held(HeldEvent::Lost { reason, detail, break_note })) => {
                    let Begin::Resume(told) = &self.begin else {
                        self.withdraw();
                        return RunEnd::Failed(CallError::HoldLost { reason });
                    };
                    // Its runner acts on it until it is told (S12, S16).
                    let run_id = told.run_id.clone();
                    self.events.tell(ScheduleEvent::Held(HeldEvent::Lost {
                        reason,
                        detail,
                        break_note,
                    }));
                    return RunEnd::Lost { run_id, reason };
                }
                Some(HoldEvent::Held(
                    HeldEvent::Renewed(_)
                    | HeldEvent::Extended(_)
                    | HeldEvent::AtRisk { .. }
                    | HeldEvent::Recovered(_)
                    | HeldEvent::Revoked { .. }
                    | HeldEvent::Draining { .. },
                )) => {}
                Some(HoldEvent::Released(_)) | None => {
                    return self.failed(CallError::HoldReleased);
                }
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
                return RunEnd::Failed(unreadable_record(&self.path, &error));
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
        let event = LockEvent::of_schedule(&self.path, kind).with_token(Some(run_id.token));
        self.scheduler.locks.observe(&event);
        let times_out = grant.max_hold_ends.as_ref().filter(|_| told.timeout.is_some());
        let times_out = times_out.map(|ends| ends.after.saturating_sub(FOR_THE_WRITE));
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
        let times_out = times_out.map(|after| Box::pin(tokio::time::sleep(after)));
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
            let next = tokio::select! {
                // In this order, so that a simulated world repeats what it did.
                biased;
                event = self.hold.next() => RunInput::Event(event),
                life = ended(&mut self.life) => RunInput::Life(life),
                () = over(&mut note) => RunInput::Noted,
                // One note at a time.
                () = over(&mut ends.returns_at), if note.is_none() => RunInput::Note(Report::Returned),
                () = over(&mut ends.times_out), if note.is_none() => RunInput::Note(Report::TimedOut),
            };
            let event = match next {
                RunInput::Event(Some(event)) => event,
                RunInput::Event(None) => {
                    // The lock's task has failed: the hold's client may believe in it (S14).
                    self.hold.disconnected();
                    break RunEnd::Over { run_id: run_id.clone(), released: false };
                }
                RunInput::Life(Life::Closed | Life::Open) => {
                    self.hold.closed_by_client();
                    break RunEnd::Over { run_id: run_id.clone(), released: false };
                }
                RunInput::Life(Life::Disconnected) => {
                    self.hold.disconnected();
                    break RunEnd::Over { run_id: run_id.clone(), released: false };
                }
                RunInput::Note(report) => {
                    (ends.returns_at, ends.times_out) = (None, None);
                    // It stays known where it cannot be written.
                    self.state.has_seen(self.scheduler.ended_now(&run_id, report));
                    note = Some(Box::pin(scheduler.note_outcome(&grant, &run_id, report)));
                    continue;
                }
                RunInput::Noted => {
                    note = None;
                    continue;
                }
            };
            match self.hear(event, &run_id, &mut ends) {
                Heard::Nothing => {}
                Heard::Tell(told) => {
                    if !self.events.tell(told) {
                        self.hold.disconnected();
                        break RunEnd::Over { run_id: run_id.clone(), released: false };
                    }
                }
                Heard::End(end) => break end,
            }
        };
        if let Some(note) = note {
            note.await;
        }
        end
    }

    /// What an event of its hold means for the run.
    fn hear(&self, event: HoldEvent, run_id: &RunId, ends: &mut Ends) -> Heard {
        let event = match event {
            HoldEvent::Held(event) => event,
            HoldEvent::Released(_) => {
                if ends.is_revoked {
                    // T12: where no call says another outcome.
                    self.state.has_seen(self.scheduler.ended_now(run_id, Report::Returned));
                }
                return Heard::End(RunEnd::Over { run_id: run_id.clone(), released: true });
            }
            HoldEvent::Failed(error) => {
                self.events.tell(ScheduleEvent::Failed(error));
                return Heard::End(RunEnd::Over { run_id: run_id.clone(), released: false });
            }
            HoldEvent::Waiting { .. }
            | HoldEvent::Granted(_)
            | HoldEvent::Settled { .. }
            | HoldEvent::AlreadyDone(_)
            | HoldEvent::Skipped { .. }
            | HoldEvent::Busy(_) => return Heard::Nothing,
        };
        let told = match event {
            HeldEvent::Renewed(_) | HeldEvent::AtRisk { .. } | HeldEvent::Recovered(_) => event,
            HeldEvent::Extended(extended) => {
                let times_out = ends.times_out.take().and(extended.max_hold_ends.as_ref());
                ends.times_out = times_out.map(|ends| {
                    Box::pin(tokio::time::sleep(ends.after.saturating_sub(FOR_THE_WRITE)))
                });
                HeldEvent::Renewed(extended.validity)
            }
            HeldEvent::Revoked { .. } => {
                ends.is_revoked = true;
                event
            }
            HeldEvent::Draining { time_left } => {
                let before = time_left.saturating_sub(BEFORE_THE_END);
                ends.returns_at = Some(Box::pin(tokio::time::sleep(before)));
                event
            }
            HeldEvent::Lost { reason, .. } => {
                self.events.tell(ScheduleEvent::Held(event));
                return Heard::End(RunEnd::Lost { run_id: run_id.clone(), reason });
            }
        };
        Heard::Tell(ScheduleEvent::Held(told))
    }
}

async fn ended(life: &mut watch::Receiver<Life>) -> Life {
    match life.wait_for(|life| *life != Life::Open).await {
        Ok(life) => *life,
        Err(_) => Life::Closed,
    }
}

/// Never ends where there is nothing to wait for.
async fn over<F: Future<Output = ()>>(awaited: &mut Option<Pin<Box<F>>>) {
    match awaited {
        Some(awaited) => awaited.await,
        None => std::future::pending().await,
    }
}
