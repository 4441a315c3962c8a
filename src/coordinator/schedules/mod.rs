//! Schedules (T1 to T22): one task a schedule with subscribers, which runs the pure machine of `schedule`
//! over the holds.
//!
//! The task (`task`, `looking`) decides when to look, and asks for a lease as any caller does; `deciders` are
//! what it writes beside the token; a run follows its hold in a task of its own (`run`). To add an event: a
//! variant of [`ScheduleEvent`], and whoever sends it.

mod changing;
mod clock;
mod completing;
mod deciders;
mod enlisting;
mod figures;
mod importing;
mod listing;
mod looking;
mod reading;
mod request;
mod run;
mod starts;
mod state;
mod subscriber;
mod task;
mod timer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::mpsc;

pub use figures::ScheduleFigures;
pub use importing::{ImportError, ImportRequest, Imported};
pub use request::{
    CompleteRequest, Completed, Completion, ResumeRun, RunGrant, ScheduleChange, ScheduleEvent,
    ScheduleInfo, ScheduleListRequest, SchedulePage, Standby, SubscribeRequest,
};
pub use subscriber::ScheduleStream;
pub(super) use timer::Status;

use super::Coordinator;
use super::actor::timers::Timers;
use super::api::error::CallError;
use super::waiting::WaitKind;
use crate::lock::LockPath;
use crate::schedule::{Report, RunId, check_key};
use crate::time::Clock;
use clock::StoreClock;
use starts::Starts;
use state::ScheduleState;
use subscriber::{SubscriberId, SubscriberTerms, subscription};
use task::{Message, ScheduleTask, Wakeup};
use timer::DotnetTimer;

/// The schedules of this sidecar.
#[derive(Debug)]
pub(super) struct Schedules {
    tasks: Mutex<HashMap<LockPath, TaskHandle>>,
    timers: Timers<Wakeup>,
    clock: StoreClock,
    starts: Starts,
    /// Calls that complete a run and are not answered yet, by the text of its id.
    completing: Mutex<HashMap<String, usize>>,
    /// The .NET timers beside schedules (T22).
    dotnet_timers: Mutex<HashMap<LockPath, Weak<DotnetTimer>>>,
    turns: AtomicU64,
}

/// The way to a schedule's task, and what it knows.
#[derive(Debug)]
struct TaskHandle {
    task: mpsc::UnboundedSender<Message>,
    state: Arc<ScheduleState>,
}

/// While it lives, a call completes this run. The schedule's task waits for its end, so it hears of that in
/// any case.
#[derive(Debug)]
struct Completing<'a> {
    schedules: &'a Schedules,
    run_id: RunId,
    report: Report,
    /// What became of the outcome, if the call was answered.
    completion: Option<Completion>,
}

impl Drop for Completing<'_> {
    fn drop(&mut self) {
        {
            let mut completing = self.schedules.completing_calls();
            let run_id = self.run_id.to_string();
            if let Some(calls) = completing.get_mut(&run_id) {
                *calls -= 1;
                if *calls == 0 {
                    completing.remove(&run_id);
                }
            }
        }
        let run = Box::new((self.run_id.clone(), self.report));
        self.schedules.send(&self.run_id.path, Message::Completed(run, self.completion));
    }
}

impl Schedules {
    pub(super) fn new(clock: Arc<dyn Clock>, starts_per_second: usize) -> Self {
        Self {
            tasks: Mutex::default(),
            timers: Timers::new(clock),
            clock: StoreClock::default(),
            starts: Starts::new(starts_per_second),
            completing: Mutex::default(),
            dotnet_timers: Mutex::default(),
            turns: AtomicU64::new(0),
        }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<LockPath, TaskHandle>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn completing_calls(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.completing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn completing(&self, run_id: &RunId, report: Report) -> Completing<'_> {
        *self.completing_calls().entry(run_id.to_string()).or_default() += 1;
        Completing { schedules: self, run_id: run_id.clone(), report, completion: None }
    }

    fn is_completing(&self, run_id: &RunId) -> bool {
        self.completing_calls().contains_key(&run_id.to_string())
    }

    /// What is known of a schedule that has subscribers here.
    fn state(&self, path: &LockPath) -> Option<Arc<ScheduleState>> {
        self.tasks().get(path).map(|entry| Arc::clone(&entry.state))
    }

    /// How many subscribe to a schedule here.
    fn subscribers(&self, path: &LockPath) -> usize {
        self.state(path).map_or(0, |state| state.known().subscribers)
    }

    /// Tells a schedule's task, if there is one.
    fn send(&self, path: &LockPath, message: Message) {
        if let Some(entry) = self.tasks().get(path) {
            // A task that failed has nobody to tell.
            let _ = entry.task.send(message);
        }
    }

    fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Coordinator {
    /// Takes part in a schedule while the stream lives.
    ///
    /// # Errors
    /// When the sidecar shuts down, the key is too long or has no path, or as many wait or subscribe as may.
    pub fn subscribe(&self, request: SubscribeRequest) -> Result<ScheduleStream, CallError> {
        let SubscribeRequest { key, definition, is_new, holder, labels, runs_at_once, resume } =
            request;
        if *self.shared.draining.borrow() {
            return Err(CallError::shutting_down());
        }
        let target = self.shared.resolve(&key)?;
        check_key(&target.key).map_err(|error| CallError::ScheduleKey(error.to_string()))?;
        if !self.host().namespace.schedules(target.key.mode()) {
            return Err(CallError::ScheduleMode);
        }
        let schedules = &self.shared.schedules;
        let kind = match &resume {
            Some(_) => WaitKind::ResumedSubscriber,
            None => WaitKind::Subscriber,
        };
        let wait = self.shared.waiting.begin(kind)?;
        let id = SubscriberId(schedules.next_turn());
        let is_new = is_new && resume.is_none();
        let resume = resume.map(Box::new);
        let mut tasks = schedules.tasks();
        let path = target.path.clone();
        let entry = tasks.entry(path).or_insert_with(|| self.start_task(&key, &target));
        if entry.task.is_closed() {
            *entry = self.start_task(&key, &target);
        }
        let terms = SubscriberTerms { definition, holder, labels, runs_at_once, wait };
        let (subscriber, stream) = subscription(id, terms, entry.task.clone());
        // It was just seen to be open, and retires only under this lock.
        let _ = entry.task.send(Message::Subscribe(Box::new(subscriber), is_new, resume));
        Ok(stream)
    }

    fn start_task(
        &self,
        key: &super::api::request::KeyRequest,
        target: &super::api::request::Target,
    ) -> TaskHandle {
        let (state, task) = ScheduleTask::start(self, key.clone(), target.clone());
        TaskHandle { task, state }
    }
}
