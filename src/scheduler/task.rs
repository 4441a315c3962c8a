//! One task a schedule with subscribers: when to look, who runs, and what subscribers are told (T4, T5, T17);
//! which outcomes are still to be written (`owes`, T8), and who is given no run (`silence`, T24).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::poll::PollState;
use super::reading::VersionedPlan;
use super::request::{Completion, ScheduleEvent, Standby};
use super::run::RunEnd;
use super::state::ScheduleState;
use super::subscriber::{Subscriber, SubscriberId};
use super::{Scheduler, Schedules, TaskHandle};
use crate::coordinator::{Alarm, CallError, HeldEvent, Timer};
use crate::hold::LossReason;
use crate::lock::LockPath;
use crate::schedule::{Report, RunId};
use crate::time::Instant;
use crate::webjobs::DotnetTimer;

/// A subscriber that waits is told so again after this: a little under the 30 s that it is promised.
const REPEAT: Duration = Duration::from_secs(25);

/// What a schedule's task is told.
#[derive(Debug)]
pub(super) enum Message {
    /// Somebody takes part.
    Subscribe(Box<Subscriber>),
    /// A stream has ended.
    Left(SubscriberId),
    /// A run here, or the try for one, is over: the one with this number.
    RunEnded(u64, RunEnd),
    /// A call that completes a run of this schedule has ended. What became of it, if it was answered.
    Completed(Box<(RunId, Report)>, Option<Completion>),
    /// The plan was changed through this sidecar.
    PlanWritten(VersionedPlan),
    /// The timer has come to this deadline.
    TimePassed(Instant),
}

impl Alarm for mpsc::UnboundedSender<Message> {
    fn call(&self, deadline: Instant) {
        // A schedule has no hold, so it looks for no pause.
        if deadline != Instant::default() {
            // A task that has ended waits for no time.
            let _ = self.send(Message::TimePassed(deadline));
        }
    }
}

/// The run that goes on here, or is tried for.
#[derive(Debug)]
pub(super) struct Running {
    /// Tells it from others.
    pub(super) turn: u64,
    pub(super) subscriber: SubscriberId,
    /// It is over by a call that has yet to say what became of its outcome.
    pub(super) released: Option<RunId>,
}

/// The state around one schedule.
#[derive(Debug)]
pub(super) struct ScheduleTask {
    pub(super) scheduler: Scheduler,
    pub(super) path: LockPath,
    pub(super) state: Arc<ScheduleState>,
    /// Of the .NET timer beside it (T22).
    pub(super) beside: Option<Arc<DotnetTimer>>,
    pub(super) messages: mpsc::UnboundedReceiver<Message>,
    pub(super) sender: mpsc::UnboundedSender<Message>,
    pub(super) subscribers: Vec<Subscriber>,
    /// One at the most but for a run that was resumed here while what was before it is not over yet (S16).
    pub(super) running: Vec<Running>,
    /// A call ended before the run that it completed was seen to be over.
    pub(super) completed: Option<(RunId, Report, Completion)>,
    pub(super) poll: PollState,
    timer: Timer,
    pub(super) draining: watch::Receiver<bool>,
    told_at: Instant,
}

impl ScheduleTask {
    pub(super) fn start(scheduler: &Scheduler, path: LockPath) -> TaskHandle {
        let (sender, messages) = mpsc::unbounded_channel();
        let now = scheduler.now();
        let beside = scheduler.dotnet_timer(&path);
        let state = scheduler.schedules.take_told(&path);
        let task = Self {
            path,
            beside,
            state: Arc::clone(&state),
            messages,
            sender: sender.clone(),
            subscribers: Vec::new(),
            running: Vec::new(),
            completed: None,
            poll: PollState::new(now),
            timer: scheduler.schedules.timers.timer(),
            draining: scheduler.locks.draining(),
            told_at: now,
            scheduler: scheduler.clone(),
        };
        tokio::spawn(task.run());
        TaskHandle { task: sender, state }
    }

    async fn run(mut self) {
        loop {
            self.set_timer();
            tokio::select! {
                // In this order, so that a simulated world repeats what it did.
                biased;
                // The task keeps a sender itself, so there is always another message.
                Some(message) = self.messages.recv() => self.take(message).await,
                Ok(()) = self.draining.changed() => {
                    self.drain();
                    self.write_before_the_end();
                }
            }
            if *self.draining.borrow() {
                self.drain();
            }
            if self.looks() && self.scheduler.now() >= self.poll.at {
                self.look().await;
            }
            self.tell_waiting();
            self.state.known().subscribers = self.subscribers.len();
            if self.subscribers.is_empty() && self.running.is_empty() && self.retire() {
                return;
            }
        }
    }

    /// Whether there is something to look for: a run that can be started here, or an outcome to write.
    fn looks(&self) -> bool {
        self.running.is_empty() && (!self.subscribers.is_empty() || self.owes())
    }

    /// T8, T20: whether something is to be written of a run that is over, also where no subscriber is left
    /// here, and as the sidecar ends: its occurrence would be run again.
    fn owes(&self) -> bool {
        self.state.owes()
    }

    /// When the last subscriber has gone, or has to go, what is left to write is written now.
    fn write_before_the_end(&mut self) {
        if self.subscribers.is_empty() && self.owes() {
            self.state.known().is_last_runner = false;
            self.poll.read_at_once(self.scheduler.now());
        }
    }

    fn set_timer(&mut self) {
        let look = self.looks().then_some(self.poll.at);
        let repeat = (!self.subscribers.is_empty()).then(|| self.told_at + REPEAT);
        let first = look.into_iter().chain(repeat).min();
        self.scheduler.schedules.timers.set(&mut self.timer, first, &self.sender);
    }

    fn retire(&mut self) -> bool {
        let retires = self.scheduler.schedules.retire(self);
        if retires {
            self.scheduler.schedules.timers.set(&mut self.timer, None, &self.sender);
        }
        retires
    }

    async fn take(&mut self, message: Message) {
        match message {
            Message::Subscribe(subscriber) => self.enlist(*subscriber).await,
            Message::TimePassed(deadline) => self.timer.called(deadline),
            Message::Left(id) => self.leave(id),
            Message::RunEnded(turn, end) => self.run_ended(turn, end),
            Message::Completed(run, completion) => {
                let (run_id, report) = *run;
                self.hear(&run_id);
                if completion.is_some() && self.running.is_empty() && self.poll.is_busy {
                    // A run that was over has an outcome now: nobody is waited for any longer (T12).
                    self.poll.after_run(self.scheduler.now());
                }
                // A late call for an older run is no news of this one.
                let is_last = self.state.lease_of(&run_id).is_some();
                if let Some(completion) = completion.filter(|_| is_last) {
                    self.completed = Some((run_id, report, completion));
                }
                self.finish_released();
                self.write_before_the_end();
            }
            Message::PlanWritten(plan) => {
                self.state.learn_plan(&plan);
                // T18: a run by hand is to be noticed at once.
                self.poll.at_once(self.scheduler.now());
            }
        }
    }

    pub(super) fn leave(&mut self, id: SubscriberId) {
        self.subscribers.retain(|subscriber| subscriber.id != id);
        self.write_before_the_end();
    }

    fn run_ended(&mut self, turn: u64, end: RunEnd) {
        let now = self.scheduler.now();
        if let RunEnd::Over { run_id, released: true } = end {
            let running = self.running.iter_mut().find(|running| running.turn == turn);
            if let Some(running) = running {
                running.released = Some(run_id);
            }
            return self.finish_released();
        }
        let ended = self.running.extract_if(.., |running| running.turn == turn).next();
        match end {
            RunEnd::Settled => self.poll.after_run(now),
            RunEnd::Busy => {
                self.poll.is_held = true;
                self.state.known().is_last_runner = false;
                self.look_after_busy(now);
            }
            RunEnd::Failed(error) => self.look_failed(&error, now),
            RunEnd::NotResumed(error) => {
                tracing::info!(lock = %self.path, %error, "a run does not go on here");
                if let Some(ended) = ended {
                    self.leave(ended.subscriber);
                }
                self.state.known().is_last_runner = false;
                self.look_after_busy(now);
            }
            RunEnd::Over { run_id, .. } => {
                tracing::warn!(
                    lock = %self.path, occurrence = %run_id.occasion, attempt = run_id.attempt,
                    "run ended without an outcome"
                );
                self.completed = None;
                // What became of its lease is not known here: others may be faster.
                self.state.known().is_last_runner = false;
                self.poll.after_run(now);
            }
            RunEnd::Lost { run_id, reason } => {
                tracing::warn!(
                    lock = %self.path, occurrence = %run_id.occasion, attempt = run_id.attempt, reason = reason.as_str(),
                    "run lost: its subscriber is given nothing until it has said how the run ended (T24)"
                );
                if reason == LossReason::MaxHoldReached {
                    // T12: where that was not recorded under the run's own lease, it is before anything else.
                    self.state.has_seen(self.scheduler.ended_now(&run_id, Report::TimedOut));
                }
                self.completed = None;
                self.state.known().is_last_runner = false;
                if let Some(ended) = ended {
                    self.silence(ended.subscriber, run_id);
                }
                self.poll.after_loss(now);
            }
        }
    }

    /// T24: nothing is given to a subscriber whose run has ended without a word from it.
    fn silence(&mut self, id: SubscriberId, run_id: RunId) {
        if self.scheduler.schedules.is_completing(&run_id) {
            return;
        }
        if let Some(subscriber) = self.subscribers.iter_mut().find(|it| it.id == id) {
            subscriber.silent = Some(run_id);
        }
    }

    /// A call has said here how this run ended.
    fn hear(&mut self, run_id: &RunId) {
        let silent = |it: &&mut Subscriber| it.silent.as_ref() == Some(run_id);
        if let Some(subscriber) = self.subscribers.iter_mut().find(silent) {
            subscriber.silent = None;
            if self.running.is_empty() {
                self.poll.again(self.scheduler.now());
            }
        }
    }

    /// A run is over by a call: once that has said what became of the outcome, its subscriber is told and the
    /// next look comes. A release that says nothing of an outcome is waited for as well: it has no call that
    /// completes it.
    fn finish_released(&mut self) {
        let released = |it: &Running| Some((it.turn, it.subscriber, it.released.clone()?));
        let Some((turn, subscriber, run_id)) = self.running.iter().find_map(released) else {
            return;
        };
        let completing = self.scheduler.schedules.is_completing(&run_id);
        let completed = self.completed.take_if(|(completed, ..)| *completed == run_id);
        if completed.is_none() && completing {
            return;
        }
        let (report, completion) = match completed {
            Some((_, report, completion)) => (Some(report), completion),
            None => (None, Completion::Superseded),
        };
        self.running.retain(|running| running.turn != turn);
        if report == Some(Report::Returned) {
            self.poll.returned_by(&run_id.occasion, subscriber);
        }
        if report.is_none() {
            self.state.known().is_last_runner = false;
        }
        self.tell(subscriber, ScheduleEvent::Recorded { run_id, report, completion });
        self.poll.after_run(self.scheduler.now());
    }

    /// Nothing new starts here (T20). Whoever has a run is told by its hold.
    fn drain(&mut self) {
        let running = self.with_a_run();
        for subscriber in self.subscribers.extract_if(.., |it| !running.contains(&it.id)) {
            subscriber
                .events
                .tell(ScheduleEvent::Held(HeldEvent::Draining { time_left: Duration::ZERO }));
            subscriber.events.tell(ScheduleEvent::Failed(CallError::shutting_down()));
        }
    }

    fn with_a_run(&self) -> Vec<SubscriberId> {
        self.running.iter().map(|running| running.subscriber).collect()
    }

    /// Sends an event to one subscriber. One that cannot be told is let go.
    pub(super) fn tell(&mut self, id: SubscriberId, event: ScheduleEvent) {
        let told = self.subscribers.iter().find(|it| it.id == id).map(|it| it.events.tell(event));
        if told == Some(false) {
            self.leave(id);
        }
    }

    /// Tells those who wait what they wait for, where that has changed or was told long ago.
    pub(super) fn tell_waiting(&mut self) {
        let Some(plan) = self.state.plan() else { return };
        let now = self.scheduler.now();
        let repeat = now >= self.told_at + REPEAT;
        if repeat {
            self.told_at = now;
        }
        if let Some(removed) = plan.removed() {
            return self.tell_removed(&CallError::removed(&self.path, removed));
        }
        let (hash, definition) = (plan.hash(), plan.definition());
        let standby = self.standby(plan.is_paused());
        let running = self.with_a_run();
        let mut gone = Vec::new();
        for subscriber in &mut self.subscribers {
            let mut told = true;
            if subscriber.told_definition != hash {
                hash.clone_into(&mut subscriber.told_definition);
                let conflict = definition.revision == subscriber.request.definition.revision;
                let definition = Box::new(definition.clone());
                told = subscriber
                    .events
                    .tell(ScheduleEvent::DefinitionInForce { definition, conflict });
            }
            if !running.contains(&subscriber.id)
                && (repeat || subscriber.standby.as_ref() != Some(&standby))
            {
                subscriber.standby = Some(standby.clone());
                // Who has not read so many of these is let go once something is due.
                subscriber.events.tell(ScheduleEvent::Standby(Box::new(standby.clone())));
            }
            if !told {
                gone.push(subscriber.id);
            }
        }
        for id in gone {
            self.leave(id);
        }
    }

    /// T25: the schedule is no more. Whoever has a run is told when that is over.
    fn tell_removed(&mut self, error: &CallError) {
        let running = self.with_a_run();
        for subscriber in self.subscribers.extract_if(.., |it| !running.contains(&it.id)) {
            subscriber.events.tell(ScheduleEvent::Failed(error.clone()));
        }
    }

    fn standby(&self, paused: bool) -> Standby {
        let known = self.state.known();
        let record = known.record.as_ref();
        let last = record.and_then(|record| record.ended.first().cloned());
        let here = !self.running.is_empty();
        let running_elsewhere = !here && self.poll.is_busy && self.poll.is_held;
        Standby { next_at: self.poll.next, last, running_elsewhere, paused }
    }
}

impl Schedules {
    /// Takes a schedule's task out, unless something has come for it, or it has something to write: messages
    /// are sent, and calls begin to say how runs have ended, under this lock.
    fn retire(&self, task: &ScheduleTask) -> bool {
        let mut tasks = self.tasks();
        let retires = task.messages.is_empty() && !task.owes();
        if retires {
            tasks.remove(&task.path);
            self.keep_told(&task.path, &task.state);
        }
        retires
    }
}
