//! When a schedule is looked at, and what comes of it: the requests between occurrences and at them
//! (`try_look`; T7, T9, T13, T17), and whom a run is started for, if anybody (`begin`; T11, T24).

use std::sync::Arc;
use std::time::Duration;

use super::completing::BETWEEN_READS;
use super::deciders::{Surroundings, start_decider};
use super::figures::millis;
use super::reading::Seen;
use super::run::{Begin, Decided, Run, RunEnd};
use super::starts::Place;
use super::subscriber::{Subscriber, SubscriberId};
use super::task::{Message, Running, ScheduleTask};
use crate::coordinator::{Brought, CallError, HoldRequest, HoldStream, ScheduleEventKind};
use crate::hold::Stored;
use crate::schedule::{
    Beside, Decision, DecisionInput, Fraction, Lease, Occasion, Outcome, Plan, Report, RunEnded,
    RunId, ScheduleRecord, after_busy, look, next_due, until_due,
};
use crate::time::Instant;
use crate::timetable::UtcSecond;

/// A start that waited longer in the queue (T13) reads the record again.
const LONG_IN_THE_QUEUE: Duration = Duration::from_secs(1);
/// For how long a start waits for the lease of a hold that was lost here to go back.
const GOES_BACK: Duration = Duration::from_secs(10);
/// The waits after a store failure: the first, and the longest.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Why the next look comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PollReason {
    /// Something is due by then, or a run elsewhere may be over.
    Due,
    /// Nothing is due: for what changed elsewhere (T17).
    Idle,
    /// What is known has changed here: nothing is read before it is decided over.
    #[default]
    Changed,
    /// A start has waited for its place in the queue since then (T13).
    Queued(Instant),
}

/// When the next look comes, and what the last one has shown.
#[derive(Debug, Default)]
pub(super) struct PollState {
    pub(super) at: Instant,
    pub(super) why: PollReason,
    /// The occurrence that is waited for.
    pub(super) next: Option<UtcSecond>,
    /// Others come first: one who runs, or was given back to, or may be faster with a retry.
    pub(super) is_busy: bool,
    /// It is somebody who has the lock.
    pub(super) is_held: bool,
    /// Looks in a row that saw the same run elsewhere.
    busy_looks: u32,
    /// Looks in a row that the store did not answer.
    failures: u32,
    /// When a hold here ended by itself: a start soon after it waits for its lease to go back.
    ended_here: Option<Instant>,
    /// Who has the lock, as far as is known.
    lease: Lease,
    /// What was read of the lock just before a start.
    seen: Option<Box<Stored>>,
    /// Who has given this occasion back here: it is for others (T11).
    returned: Option<(Occasion, Vec<SubscriberId>)>,
    /// It was said that the record has gone back (T21).
    went_back: bool,
}

impl PollState {
    pub(super) fn new(now: Instant) -> Self {
        Self { at: now, ..Self::default() }
    }

    /// A look now, over what is known.
    pub(super) const fn again(&mut self, now: Instant) {
        (self.at, self.why) = (now, PollReason::Changed);
        (self.is_busy, self.busy_looks) = (false, 0);
    }

    /// A look now: somebody has come, or the plan has changed. What runs elsewhere is read, as it may be
    /// over: over what is known it would be waited for anew, each time (T17). A start that has its place in
    /// the queue keeps it.
    pub(super) const fn at_once(&mut self, now: Instant) {
        if matches!(self.why, PollReason::Queued(_)) {
            return;
        }
        if self.is_busy { self.read_at_once(now) } else { self.again(now) }
    }

    /// A look now that reads the record.
    pub(super) const fn read_at_once(&mut self, now: Instant) {
        (self.at, self.why) = (now, PollReason::Due);
    }

    /// As [`PollState::again`], after a run here: nobody has the lock, as far as is known.
    pub(super) const fn after_run(&mut self, now: Instant) {
        (self.lease, self.failures) = (Lease::Free, 0);
        self.again(now);
    }

    /// As [`PollState::after_run`], where the hold was lost: its lease is about to go back.
    pub(super) const fn after_loss(&mut self, now: Instant) {
        self.after_run(now);
        self.ended_here = Some(now);
    }

    /// A subscriber has given this occasion back.
    pub(super) fn returned_by(&mut self, occasion: &Occasion, subscriber: SubscriberId) {
        match &mut self.returned {
            Some((known, by)) if known == occasion => by.push(subscriber),
            other => *other = Some((occasion.clone(), vec![subscriber])),
        }
    }
}

impl ScheduleTask {
    /// Reads what this look is for, decides, and starts what is to run.
    pub(super) async fn look(&mut self) {
        if let Err(error) = self.try_look().await {
            let now = self.scheduler.now();
            self.look_failed(&error, now);
        }
    }

    async fn try_look(&mut self) -> Result<(), CallError> {
        let why = self.poll.why;
        let last_runner = self.state.known().is_last_runner;
        let now = self.scheduler.now();
        let queued_long = matches!(why, PollReason::Queued(since) if now.saturating_since(since) > LONG_IN_THE_QUEUE);
        match why {
            PollReason::Changed => {}
            // Others had time to run it: an acquire for nothing would cost more than this read, and keep them
            // out.
            PollReason::Queued(_) if queued_long => self.read_record().await?,
            PollReason::Queued(_) => self.read_plan().await?,
            PollReason::Idle => {
                self.read_plan().await?;
                self.read_record().await?;
            }
            PollReason::Due if last_runner => {
                self.poll.lease = Lease::Free;
                self.read_plan().await?;
            }
            PollReason::Due => self.read_record().await?,
        }
        // T17: the record may say that there is a newer plan than the one that is known here.
        if self.state.plan().is_none_or(|plan| self.state.knows_newer(&plan)) {
            self.read_plan().await?;
        }
        let Some(plan) = self.state.plan() else {
            // Of a schedule that there is not nothing is owed.
            self.state.learn(None);
            return Err(CallError::NoSuchSchedule { path: self.path.clone() });
        };
        if self.rests_if_removed(&plan, now) {
            return Ok(());
        }
        let mut decision = self.decide(&plan);
        // The plan is read before each start: a pause is noticed, and a definition folded in (T17, T18).
        let is_start = matches!(decision, Decision::Run(_) | Decision::Settle);
        let is_queued = matches!(why, PollReason::Queued(_)) && !queued_long;
        let is_read = is_queued || why == PollReason::Due && last_runner;
        if is_start && !matches!(why, PollReason::Queued(_)) {
            let place = self.scheduler.schedules.starts.place(now);
            self.say_queued(place);
            if place.at > now {
                self.look_at(place.at, PollReason::Queued(now));
                return Ok(());
            }
        }
        if is_start && !is_read {
            self.read_plan().await?;
            if let Some(plan) = self.state.plan() {
                if self.rests_if_removed(&plan, now) {
                    return Ok(());
                }
                decision = self.decide(&plan);
            }
        }
        if !matches!(decision, Decision::Run(_) | Decision::Settle) {
            // A start has yet to show that the store takes it.
            self.poll.failures = 0;
        }
        self.follow(decision).await
    }

    /// T25: of a schedule that was removed nothing is made again, and nothing starts. Whether it was removed.
    fn rests_if_removed(&mut self, plan: &Plan, now: Instant) -> bool {
        if plan.removed().is_some() {
            self.look_at(now + self.until_idle(), PollReason::Idle);
        }
        plan.removed().is_some()
    }

    /// T13: what is asked for beyond the starts of a second is warned about, and counted.
    fn say_queued(&self, place: Place) {
        if place.is_late {
            self.scheduler.observe(&self.path, ScheduleEventKind::StartQueued, None);
        }
        if place.is_said {
            let most = self.scheduler.locks.settings().starts_per_second;
            tracing::warn!(
                "more schedules are due at once than this sidecar starts: up to {most} a second \
                 (limits.starts_per_second), so that runs are late; spread them (spread), or raise the setting (T13)"
            );
        }
    }

    fn until_idle(&self) -> Duration {
        until_due(None, false, self.share())
    }

    async fn read_plan(&mut self) -> Result<(), CallError> {
        let asked = self.scheduler.store_time().into();
        let (plan, _) = self.scheduler.read_plan(&self.path).await?;
        self.state.known().plan_at = asked;
        match plan {
            Some(plan) => self.state.known().plan = Some(plan),
            // It was deleted; it is written again as it is known here.
            None => {
                self.scheduler.restore_plan(&self.path, &self.state).await?;
            }
        }
        Ok(())
    }

    /// Reads the record, which is known then.
    pub(super) async fn read_record(&mut self) -> Result<(), CallError> {
        let learned = self.state.known().learned;
        let seen = self.scheduler.read_scheduled(&self.path).await?;
        self.learn(seen, learned);
        Ok(())
    }

    /// What was read is known now; who else ran last is the last runner. `learned`: how often that was so
    /// before it was asked for. What was written here since is newer, and went back is none of it (T21).
    fn learn(&mut self, seen: Seen, learned: u64) {
        if self.state.known().learned != learned {
            return;
        }
        self.poll.lease = seen.lease();
        let Seen { stored, record } = seen;
        let newest = |record: &ScheduleRecord| {
            let run = record.run.as_ref().map(|run| run.token);
            run.max(record.ended.iter().filter_map(|ended| ended.token).max())
        };
        let before = self.state.known().record.as_ref().and_then(newest);
        let now = record.as_ref().and_then(newest);
        if now > before {
            self.state.known().is_last_runner = false;
        }
        if now != before {
            // Another run than the one that was seen at the last look: it is looked at anew after D (T17).
            self.poll.busy_looks = 0;
        }
        self.poll.seen = stored;
        self.hear_of(record.as_ref());
        self.state.learn(record);
    }

    /// T24: who has said elsewhere how its run ended has spoken. What nobody said does not count.
    fn hear_of(&mut self, record: Option<&ScheduleRecord>) {
        let Some(record) = record else { return };
        let is_said = |run_id: &RunId| {
            record.ended.iter().any(|ended| {
                let said = matches!(
                    ended.outcome,
                    Outcome::Succeeded | Outcome::Failed | Outcome::FailedFinal
                );
                said && ended.occasion == run_id.occasion && ended.token == Some(run_id.token)
            })
        };
        for subscriber in &mut self.subscribers {
            subscriber.silent.take_if(|run_id| is_said(run_id));
        }
    }

    pub(super) fn ground(&self, plan: &Arc<Plan>) -> DecisionInput {
        let queued = match self.poll.why {
            PollReason::Queued(since) => self.scheduler.now().saturating_since(since),
            PollReason::Due | PollReason::Idle | PollReason::Changed => Duration::ZERO,
        };
        let (plan_at, newest) = {
            let known = self.state.known();
            (Some(known.plan_at), known.newest)
        };
        DecisionInput {
            path: self.path.clone(),
            plan: Arc::clone(plan),
            plan_at,
            newest,
            lease_duration: self.scheduler.locks.settings().lease_duration,
            queued,
            store_time: self.scheduler.store_time(),
        }
    }

    pub(super) fn surroundings(&self) -> Surroundings {
        Surroundings { state: Arc::clone(&self.state), timer: self.beside.clone() }
    }

    fn decide(&mut self, plan: &Arc<Plan>) -> Decision {
        let record = self.state.known().record.clone();
        // What is due is seen with any plan; it is started with one that was read since (T18).
        let ground = DecisionInput { plan_at: None, ..self.ground(plan) };
        let store_time = UtcSecond::from(ground.store_time);
        let beside = self.surroundings().now();
        let look = look(&ground.view(record.as_ref(), store_time, self.poll.lease, &beside));
        if look.went_back && !self.poll.went_back {
            self.scheduler.say_back(&self.path);
        }
        self.poll.went_back = look.went_back;
        if look.is_ahead {
            tracing::warn!(
                lock = %self.path,
                "the schedule's newest occurrence, the end of its last pause, or the last change of its timetable lies ahead of \
                 the store's time: nothing runs before that is past; was the clock wrong? `leasehold schedule reset` begins it \
                 anew (T7, T25)"
            );
        }
        self.poll.next = look.next;
        look.decision
    }

    async fn follow(&mut self, decision: Decision) -> Result<(), CallError> {
        let now = self.scheduler.now();
        self.poll.is_held = decision == Decision::Busy;
        match decision {
            Decision::Wait(at) => {
                let wait = at.map(|at| self.until(at));
                let last_runner = self.state.known().is_last_runner;
                let delay = until_due(wait, last_runner, self.share());
                self.look_at(
                    now + delay,
                    if wait.is_some_and(|wait| wait <= delay) {
                        PollReason::Due
                    } else {
                        PollReason::Idle
                    },
                );
                (self.poll.is_busy, self.poll.busy_looks) = (false, 0);
            }
            Decision::RetryLater(at) if self.state.known().is_last_runner => {
                let wait = self.until(at);
                self.look_at(now + wait, PollReason::Due);
            }
            Decision::Busy | Decision::RetryLater(_) => self.look_after_busy(now),
            Decision::Run(_) | Decision::Settle => return self.begin(decision).await,
        }
        Ok(())
    }

    const fn look_at(&mut self, at: Instant, why: PollReason) {
        (self.poll.at, self.poll.why) = (at, why);
    }

    /// How long it is until the store's time is `at`, as nearly as it is known.
    fn until(&self, at: UtcSecond) -> Duration {
        millis(at).saturating_since(self.scheduler.store_time())
    }

    pub(super) fn share(&self) -> Fraction {
        Fraction(u16::try_from(self.scheduler.locks.seed() % 1_001).unwrap_or_default())
    }

    /// Somebody has the lock, or a retry is for others first: it is looked at after D, 2 D and so on; and
    /// when the next occurrence falls due, and then anew (T17): where the one before hangs until then, that
    /// is not to cost those who are here the next one (T24).
    pub(super) fn look_after_busy(&mut self, now: Instant) {
        let Some(plan) = self.state.plan() else { return };
        let definition = plan.definition();
        let lease = self.scheduler.lease_of(&plan);
        let check = definition.takeover_check;
        let looks = self.poll.busy_looks;
        let after = if self.state.owed().is_some() && BETWEEN_READS.saturating_mul(looks) < lease {
            // T8: the run is over, and its lease goes back, or ends within D: what is to be written of it is
            // written then.
            BETWEEN_READS
        } else {
            after_busy(looks, lease, check, self.share())
        };
        let ground = self.ground(&plan);
        let store_time = ground.store_time.into();
        let view = ground.view(None, store_time, self.poll.lease, &Beside::default());
        let due = until_due(next_due(&view).map(|at| self.until(at)), false, self.share());
        self.poll.busy_looks = if due < after { 0 } else { looks.saturating_add(1) };
        (self.poll.is_busy, self.poll.failures) = (true, 0);
        self.look_at(now + after.min(due), PollReason::Due);
    }

    /// The store did not answer, or its answer cannot be used: later again.
    pub(super) fn look_failed(&mut self, error: &CallError, now: Instant) {
        let (first, most) = AFTER_FAILURE;
        // T20: what is owed has the time of the drain.
        let most = if *self.draining.borrow() { BETWEEN_READS } else { most };
        let delay = first.saturating_mul(1 << self.poll.failures.min(6)).min(most);
        self.poll.failures = self.poll.failures.saturating_add(1);
        tracing::warn!(lock = %self.path, %error, "the schedule could not be looked at; it is tried again");
        self.state.known().is_last_runner = false;
        self.look_at(now + delay, PollReason::Due);
    }

    /// Those who do not read what they are told are let go: an attempt that nobody hears of would be lost
    /// (T6).
    fn leave_those_behind(&mut self) {
        let behind = |it: &&Subscriber| !it.events.can_be_told();
        let behind: Vec<_> = self.subscribers.iter().filter(behind).map(|it| it.id).collect();
        for id in behind {
            tracing::warn!(lock = %self.path, "a subscriber's stream is too far behind and is ended");
            self.leave(id);
        }
    }

    /// T8: the run in the record is over, which the store does not say yet, and no subscriber here is to be
    /// given the next one.
    async fn write_owed(&mut self, run_id: &RunId, report: Report) -> Result<(), CallError> {
        self.poll.seen = None;
        let is_written = self.scheduler.write_owed(&self.state, run_id, report).await?;
        let now = self.scheduler.now();
        if is_written {
            self.poll.after_run(now);
        } else {
            self.look_after_busy(now);
        }
        Ok(())
    }

    /// Asks for the lease, for whoever here has waited longest since its last run.
    async fn begin(&mut self, decision: Decision) -> Result<(), CallError> {
        let now = self.scheduler.now();
        self.leave_those_behind();
        let Some(plan) = self.state.plan() else { return Ok(()) };
        let is_for_others = |id: SubscriberId| match (&self.poll.returned, &decision) {
            (Some((returned, by)), Decision::Run(occasion)) => {
                returned == occasion && by.contains(&id)
            }
            _ => false,
        };
        let free = self.subscribers.iter_mut();
        let free = free.filter(|it| it.silent.is_none() && !is_for_others(it.id));
        let Some(subscriber) = free.min_by_key(|it| it.served) else {
            if let Some(RunEnded { run_id, report, .. }) = self.state.owed() {
                return self.write_owed(&run_id, report).await;
            }
            // Whoever is here has given it back: other sidecars come first, and then it is tried here again.
            self.poll.returned = None;
            self.state.known().is_last_runner = false;
            self.poll.busy_looks = self.poll.busy_looks.max(1);
            // What falls due next has not been given back (T11).
            self.look_after_busy(now);
            return Ok(());
        };
        subscriber.served = self.scheduler.schedules.next_turn();
        subscriber.standby = None;
        // One that comes later, by somebody who was silent (T24), would poll for what others have meanwhile.
        let ended_here = self.poll.ended_here.take();
        let goes_back = ended_here
            .map(|at| GOES_BACK.saturating_sub(now.saturating_since(at)))
            .unwrap_or_default();
        let request = HoldRequest {
            lease_duration: plan.definition().lease_duration,
            wait: goes_back,
            progress_timeout: plan.definition().progress_timeout,
            holder: subscriber.request.holder.clone(),
            labels: subscriber.request.labels.clone(),
            ..HoldRequest::new(subscriber.request.key.clone())
        };
        let id = subscriber.id;
        let (decider, decisions) = start_decider(self.ground(&plan), self.surroundings());
        let begin = Begin::Start(Decided::new(decisions, self.poll.went_back));
        let brought = Brought { decider, seen: self.poll.seen.take() };
        let hold = self.scheduler.locks.hold_with(&request, Some(brought))?;
        self.spawn(id, hold, begin);
        Ok(())
    }

    /// Lets a run go on beside this task.
    pub(super) fn spawn(&mut self, id: SubscriberId, hold: HoldStream, begin: Begin) {
        let Some(subscriber) = self.subscribers.iter().find(|it| it.id == id) else { return };
        let run = Run {
            scheduler: self.scheduler.clone(),
            path: self.path.clone(),
            state: Arc::clone(&self.state),
            hold,
            begin,
            events: subscriber.events.clone(),
            life: subscriber.life.clone(),
        };
        let turn = self.scheduler.schedules.next_turn();
        self.running.push(Running { turn, subscriber: id, released: None });
        let sender = self.sender.clone();
        tokio::spawn(async move {
            // A run that fails in here is over as well; its hold goes with it.
            let failed = |_| RunEnd::Failed(CallError::UnknownLease);
            let end = tokio::spawn(run.run()).await.unwrap_or_else(failed);
            // The task lives while it has a run.
            let _ = sender.send(Message::RunEnded(turn, end));
        });
    }
}
