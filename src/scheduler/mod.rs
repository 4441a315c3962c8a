//! Schedules (T1 to T25): one task a schedule with subscribers, which runs the pure machine of `schedule`
//! over the holds.
//!
//! It stands on the coordinator, which knows nothing of it: what it asks of locks beside the calls that all
//! have is the coordinator's `door`. Rules: T1 to T25, S16 (a run goes on), S38. May import: coordinator,
//! webjobs, schedule, store, record, lock, time, timetable, and hold's values.
//!
//! The task (`task`, `poll`) decides when to look, and asks for a lease as any caller does; `deciders` are
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
mod poll;
mod reading;
mod request;
mod run;
mod starts;
mod state;
mod subscriber;
mod task;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::coordinator::{CallError, Coordinator, Owing, Timers, WaitKind};
use crate::lock::LockPath;
use crate::schedule::{Plan, Report, RunEnded, RunId, check_key};
use crate::time::Instant;
use crate::timetable::UtcSecond;
use clock::StoreClock;
pub use figures::ScheduleFigures;
pub use importing::{ImportError, ImportRequest, Imported};
pub use request::{
    CompleteRequest, Completed, Completion, ResumeRun, RunGrant, ScheduleChange, ScheduleEvent,
    ScheduleInfo, ScheduleListRequest, SchedulePage, Standby, SubscribeRequest,
};
use starts::Starts;
use state::ScheduleState;
pub use subscriber::ScheduleStream;
use subscriber::{SubscriberId, subscription};
use task::{Message, ScheduleTask};

/// Runs schedules over a coordinator's locks. Cheap to clone; the clones are one.
#[derive(Clone, Debug)]
pub struct Scheduler {
    locks: Coordinator,
    schedules: Arc<Schedules>,
}

/// The schedules of this sidecar.
#[derive(Debug)]
struct Schedules {
    tasks: Mutex<HashMap<LockPath, TaskHandle>>,
    /// What calls have said of schedules that had no task then, while those calls last.
    told: Mutex<HashMap<LockPath, Weak<ScheduleState>>>,
    timers: Timers<mpsc::UnboundedSender<Message>>,
    clock: StoreClock,
    starts: Starts,
    /// The runs that calls complete which are not answered yet: one for each call.
    completing: Mutex<Vec<RunId>>,
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
        let mut completing = self.schedules.completing_calls();
        if let Some(call) = completing.iter().position(|run_id| *run_id == self.run_id) {
            completing.swap_remove(call);
        }
        drop(completing);
        let run = Box::new((self.run_id.clone(), self.report));
        self.schedules.send(&self.run_id.path, Message::Completed(run, self.completion));
    }
}

impl Schedules {
    fn new(locks: &Coordinator) -> Self {
        Self {
            tasks: Mutex::default(),
            told: Mutex::default(),
            timers: locks.timers(),
            clock: StoreClock::default(),
            starts: Starts::new(locks.settings().starts_per_second),
            completing: Mutex::default(),
            turns: AtomicU64::new(0),
        }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<LockPath, TaskHandle>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn completing_calls(&self) -> MutexGuard<'_, Vec<RunId>> {
        self.completing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn completing(&self, run_id: &RunId, report: Report) -> Completing<'_> {
        self.completing_calls().push(run_id.clone());
        Completing { schedules: self, run_id: run_id.clone(), report, completion: None }
    }

    fn is_completing(&self, run_id: &RunId) -> bool {
        self.completing_calls().contains(run_id)
    }

    /// What is known of a schedule that has subscribers here.
    fn state(&self, path: &LockPath) -> Option<Arc<ScheduleState>> {
        self.tasks().get(path).map(|entry| Arc::clone(&entry.state))
    }

    /// What is known of this run's schedule. A call says the run's end from now on, for which its task stays;
    /// one that begins meanwhile knows of it (T8).
    fn is_told(&self, ended: RunEnded) -> Arc<ScheduleState> {
        let (tasks, path) = (self.tasks(), &ended.run_id.path);
        let state = tasks.get(path).map(|entry| Arc::clone(&entry.state));
        let state = state.unwrap_or_else(|| {
            let state = self.take_told(path);
            self.keep_told(path, &state);
            state
        });
        state.is_told(ended);
        state
    }

    /// What calls that last have said of a schedule that had no task.
    fn take_told(&self, path: &LockPath) -> Arc<ScheduleState> {
        self.told().remove(path).and_then(|state| state.upgrade()).unwrap_or_default()
    }

    /// Calls that last may know this of a schedule that has no task.
    fn keep_told(&self, path: &LockPath, state: &Arc<ScheduleState>) {
        let mut told = self.told();
        told.retain(|_, state| state.strong_count() > 0);
        told.insert(path.clone(), Arc::downgrade(state));
    }

    fn told(&self) -> MutexGuard<'_, HashMap<LockPath, Weak<ScheduleState>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Owing for Schedules {
    fn owes(&self) -> bool {
        self.tasks().values().any(|entry| entry.state.owes())
            || self.told().values().any(|state| state.upgrade().is_some_and(|it| it.owes()))
    }
}

impl Scheduler {
    /// A scheduler over these locks; there is one for each coordinator.
    #[must_use]
    pub fn new(locks: Coordinator) -> Self {
        let schedules = Arc::new(Schedules::new(&locks));
        let owing = Arc::downgrade(&schedules);
        locks.waits_for(owing);
        Self { locks, schedules }
    }

    /// The locks that its runs hold.
    #[must_use]
    pub const fn coordinator(&self) -> &Coordinator {
        &self.locks
    }

    /// Whether hosts of .NET can share this sidecar's store (T22).
    #[must_use]
    pub fn has_timers(&self) -> bool {
        self.locks.store().features().has_timers
    }

    /// D of a schedule's leases.
    fn lease_of(&self, plan: &Plan) -> Duration {
        let default = || self.locks.settings().lease_duration;
        plan.definition().lease_duration.unwrap_or_else(default)
    }

    fn now(&self) -> Instant {
        self.locks.clock().now()
    }

    /// It is said, or seen, now that this run has ended so.
    fn ended_now(&self, run_id: &RunId, report: Report) -> RunEnded {
        // Where the store has not answered yet, it counts from when that is decided.
        let at = self.known_time().map_or(UtcSecond(i64::MAX), UtcSecond::from);
        RunEnded { run_id: run_id.clone(), report, at }
    }

    /// What could not be written of a run is kept by its schedule's task (T8), which begins anew where it has
    /// ended, or never was: there are as many as may have subscribers (S38).
    fn keep_owed(&self, path: &LockPath) {
        let mut tasks = self.schedules.tasks();
        let is_there = tasks.get(path).is_some_and(|entry| !entry.task.is_closed());
        if !is_there && tasks.len() < self.locks.settings().max_waiters {
            tasks.insert(path.clone(), ScheduleTask::start(self, path.clone()));
        }
    }

    /// Takes part in a schedule while the stream lives.
    ///
    /// # Errors
    /// When the sidecar shuts down, the key is too long or has no path, or as many wait or subscribe as may.
    pub fn subscribe(&self, request: SubscribeRequest) -> Result<ScheduleStream, CallError> {
        if *self.locks.draining().borrow() {
            return Err(CallError::shutting_down());
        }
        let target = self.locks.host().resolve(&request.key)?;
        check_key(&target.key).map_err(|error| CallError::ScheduleKey(error.to_string()))?;
        if !self.locks.host().namespace.schedules(target.key.mode()) {
            return Err(CallError::ScheduleMode);
        }
        let schedules = &self.schedules;
        let kind = match &request.resume {
            Some(_) => WaitKind::ResumedSubscriber,
            None => WaitKind::Subscriber,
        };
        let wait = self.locks.begin_waiting(kind)?;
        let id = SubscriberId(schedules.next_turn());
        let mut tasks = schedules.tasks();
        let start = || ScheduleTask::start(self, target.path.clone());
        let entry = tasks.entry(target.path.clone()).or_insert_with(start);
        if entry.task.is_closed() {
            *entry = start();
        }
        let (subscriber, stream) = subscription(id, request, wait, entry.task.clone());
        // It was just seen to be open, and retires only under this lock.
        let _ = entry.task.send(Message::Subscribe(Box::new(subscriber)));
        Ok(stream)
    }
}
