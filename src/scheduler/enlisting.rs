//! How a subscriber comes in: the definition in force, and the run that it goes on with (T5, T16, S16).

use super::reading::{VersionedPlan, unreadable};
use super::request::{ResumeRun, ScheduleEvent, SubscribeRequest};
use super::run::Begin;
use super::state::KnownSchedule;
use super::subscriber::Subscriber;
use super::task::ScheduleTask;
use crate::coordinator::{CallError, Resumed, ScheduleEventKind, Target};
use crate::schedule::{Lease, Plan, Subscription, resumed, waited_for};

/// Writers of one plan that get in each other's way at the most: subscribers of a rollout all come at once.
const TRIES: usize = 10;

impl ScheduleTask {
    /// Takes in a subscriber. One that cannot be served is told, and let go.
    pub(super) async fn enlist(&mut self, mut subscriber: Subscriber) {
        let resume = subscriber.request.resume.take();
        let is_new = subscriber.request.is_new && resume.is_none();
        if let Err(error) = self.subscribe(&subscriber, is_new).await {
            subscriber.events.tell(ScheduleEvent::Failed(error));
            return;
        }
        let id = subscriber.id;
        self.subscribers.push(subscriber);
        match resume {
            // What it waits for is told first, also where something is due: it says how the spec was
            // understood.
            None => {
                self.note_next();
                self.tell_waiting();
            }
            Some(resume) => {
                if let Err(error) = self.resume(resume).await {
                    self.tell(id, ScheduleEvent::Failed(error));
                    self.leave(id);
                }
            }
        }
        if self.running.is_empty() {
            self.poll.at_once(self.scheduler.now());
        }
    }

    /// What everybody waits for, by what is known.
    fn note_next(&mut self) {
        if let Some(plan) = self.state.plan() {
            self.poll.next = waited_for(&plan, self.state.known().record.as_ref());
        }
    }

    /// Writes the subscriber's definition, if it is to be in force (T16).
    async fn subscribe(&mut self, subscriber: &Subscriber, is_new: bool) -> Result<(), CallError> {
        let path = self.path.clone();
        let SubscribeRequest { definition, runs_at_once, .. } = &subscriber.request;
        let is_known = |plan: &VersionedPlan| {
            let (known, given) = (plan.0.definition(), definition);
            plan.0.removed().is_none()
                && known.hash() == given.hash()
                && known.revision >= given.revision
        };
        let runs_at_once = *runs_at_once;
        let subscription = Subscription { path: &path, definition, is_new, runs_at_once };
        // T16: a new one is compared with what is in force now, which may be another by then, or none (T25).
        let has_read =
            |known: &KnownSchedule| known.learned > 0 && known.plan.as_ref().is_some_and(is_known);
        if !is_new && has_read(&self.state.known()) {
            return Ok(());
        }
        for _ in 0..TRIES {
            let scheduler = self.scheduler.clone();
            let reads = tokio::join!(scheduler.read_plan(&path), self.read_record());
            let ((plan, store_time), ()) = (reads.0?, reads.1?);
            let record = self.state.known().record.clone();
            if plan.is_none() && self.scheduler.restore_plan(&path, &self.state).await? {
                continue;
            }
            let current = plan.as_ref().map(|(plan, _)| plan.as_ref());
            if let Some(removed) = current.and_then(Plan::removed).filter(|_| !is_new) {
                return Err(CallError::removed(&path, removed));
            }
            let record = record.as_ref();
            let subscribed = Plan::subscribed(current, &subscription, record, store_time);
            if subscribed.conflict {
                let kind = ScheduleEventKind::Conflict { revision: definition.revision };
                self.scheduler.observe(&path, kind, None);
            }
            let in_force = match (subscribed.write, plan) {
                (None, Some(plan)) => Some(plan),
                (Some(write), plan) => {
                    let if_match = plan.map(|(_, etag)| etag);
                    self.scheduler.write_plan(&path, write, if_match).await?
                }
                (None, None) => None,
            };
            if let Some(in_force) = in_force {
                self.scheduler.make_status(&path, &in_force.0, record).await?;
                self.state.known().plan = Some(in_force);
                return Ok(());
            }
        }
        let problem =
            format!("others have changed its plan {TRIES} times just now; subscribe again");
        Err(unreadable(&path, problem))
    }

    /// Goes on with a run whose stream broke: it is told again what it runs (S16).
    async fn resume(&mut self, resume: ResumeRun) -> Result<(), CallError> {
        let ResumeRun { hold, run_id } = resume;
        let Some(subscriber) = self.subscribers.last() else { return Ok(()) };
        let id = subscriber.id;
        let Resumed { target: Target { path, .. }, resume, .. } =
            self.scheduler.locks.read_resume(&hold)?;
        let progress_timeout = resume.terms.progress_timeout;
        if path != self.path || run_id.path != path {
            return Err(CallError::ResumeToken);
        }
        self.read_record().await?;
        let (Some(plan), store_time) = (self.state.plan(), self.scheduler.store_time()) else {
            return Ok(());
        };
        let ground = self.ground(&plan);
        let beside = self.surroundings().now();
        let record = self.state.known().record.clone();
        let view = ground.view(record.as_ref(), store_time.into(), Lease::Elsewhere, &beside);
        // Completed since, or repeated: its client has nothing to go on with.
        let told = resumed(&view, &run_id, progress_timeout).ok_or(CallError::Superseded);
        let hold = self.scheduler.locks.resume(&hold)?;
        self.spawn(id, hold, Begin::Resume(Box::new(told?)));
        Ok(())
    }
}
