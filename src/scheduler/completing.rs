//! How a run's outcome is recorded: under its own lease, or under another one later (T8, T12, T20). One that
//! could not be written stays in `state.rs`; `owes` (`task.rs`) says that it is still to be written, and
//! `begin` (`poll.rs`) writes it where no run is started that would.

use std::sync::Arc;
use std::time::Duration;

use super::Scheduler;
use super::deciders::{Surroundings, report_decider};
use super::figures::ReportedEnd;
use super::reading::unreadable;
use super::request::{CompleteRequest, Completed, Completion};
use super::state::ScheduleState;
use crate::coordinator::{
    Brought, CallError, CheckpointOutcome, Decider, Decisions, Grant, Saving, Settling,
    StoreFailure, StoreFailureKind,
};
use crate::hold::{SaveOutcome, Stored};
use crate::lock::LockPath;
use crate::record::Record;
use crate::schedule::{
    DecisionInput, Outcome, Overlap, Plan, RecordError, Report, ReportDecided, Reported, RunEnded,
    RunId, RunReport, Tally, waited_for,
};

/// How long the plan is waited for over which an outcome is decided, where an older one is known.
const POLICIES_WITHIN: Duration = Duration::from_secs(1);

/// Between two reads of a lock that is held while the outcome of its run waits for the end of that.
pub(super) const BETWEEN_READS: Duration = Duration::from_secs(5);

/// A report that is being recorded, try after try.
struct Recording {
    report: RunReport,
    /// It was seen here: its caller had said nothing when this began, and goes first if it does (T8).
    is_unsaid: bool,
    surroundings: Surroundings,
    /// What its holder has reported, for people; may be empty.
    detail: String,
    /// What the write that was decided last adds, until that is counted: its answer may have been lost
    /// (T23).
    tally: Option<Tally>,
}

impl Recording {
    /// What decides a try, and says what that has come to.
    fn decider(&self, running: bool) -> (Decider, Decisions<ReportDecided>) {
        let (report, surroundings) = (self.report.clone(), self.surroundings.clone());
        report_decider(report, running, self.is_unsaid, surroundings)
    }
}

/// What a try has come to, as it was decided last; none if nothing was asked. One that was decided again over
/// its own write adds nothing, and the first has.
fn hear(
    mut decisions: Decisions<ReportDecided>,
    added: &mut Option<Tally>,
) -> Option<Result<Reported, RecordError>> {
    let mut last = None;
    for ReportDecided { reported, tally } in decisions.each() {
        *added = tally.or_else(|| added.take());
        last = Some(reported);
    }
    last
}

impl Scheduler {
    /// Says how a run ended (T8). May be repeated, at any sidecar.
    ///
    /// # Errors
    /// When the store could not be asked, the lock is held on, or the path is not one of this sidecar's.
    pub async fn complete_run(&self, request: CompleteRequest) -> Result<Completed, CallError> {
        self.locks.host().own(request.run_id.path.clone())?;
        if request.checkpoint.is_some() {
            self.locks.host().check_checkpoints("checkpoint")?;
        }
        let scheduler = self.clone();
        // It goes on if its caller does not wait for it: a release is under way.
        let completing = tokio::spawn(async move { scheduler.complete(request).await });
        completing.await.unwrap_or(Err(CallError::UnknownLease))
    }

    async fn complete(&self, request: CompleteRequest) -> Result<Completed, CallError> {
        let (run_id, report) = (request.run_id.clone(), request.report);
        let detail = request.detail.clone();
        let state = self.schedules.is_told(self.ended_now(&run_id, report));
        let mut completing = self.schedules.completing(&run_id, report);
        let completed = self.complete_now(request, &state).await;
        state.was_told(&run_id, completed.is_ok());
        let path = &run_id.path;
        match &completed {
            Ok(Completed { completion, retry_at, .. }) => tracing::info!(
                lock = %path, occurrence = %run_id.occasion, attempt = run_id.attempt, outcome = Outcome::from(report).as_str(),
                recorded = ?completion, detail, retry_at = retry_at.map(tracing::field::display), "run ended"
            ),
            Err(error) => tracing::warn!(
                lock = %path, occurrence = %run_id.occasion, attempt = run_id.attempt, outcome = Outcome::from(report).as_str(), %error,
                "the outcome of a run could not be recorded"
            ),
        }
        if matches!(completed, Err(CallError::StoreFailure(_))) {
            self.keep_owed(path);
        }
        completing.completion = completed.as_ref().ok().map(|completed| completed.completion);
        completed
    }

    async fn complete_now(
        &self,
        request: CompleteRequest,
        state: &Arc<ScheduleState>,
    ) -> Result<Completed, CallError> {
        let CompleteRequest { lease_id, run_id, report, detail, generation, checkpoint } = request;
        let mut recording = Recording { detail, ..self.recording(state, &run_id, report).await? };
        let has_checkpoint = checkpoint.is_some();
        // A caller that does not know its lease id any more may end the run all the same.
        let mut leases = lease_id.into_iter().chain(state.lease_of(&run_id));
        if let Some(lease_id) = leases.find(|id| self.locks.has_hold(*id, &run_id.path)) {
            let (decider, decisions) = recording.decider(true);
            let saving = Saving { value: checkpoint, decider: Some(decider) };
            let (_, saved) = self.locks.release_with(lease_id, generation, saving).await?;
            let version = match saved {
                Some(SaveOutcome::Saved { version }) => Some(version),
                Some(SaveOutcome::Nothing) => Some(None),
                // Not known, or not done: what the record says counts.
                Some(SaveOutcome::NotSaved(_) | SaveOutcome::Unknown | SaveOutcome::Ended)
                | None => None,
            };
            match (version, hear(decisions, &mut recording.tally)) {
                (Some(version), Some(Ok(reported))) => {
                    // What was saved in the same write may be another call's.
                    let version = version.filter(|_| has_checkpoint);
                    let saved = version.map(|version| CheckpointOutcome::Saved { version });
                    let completed = self.done(&mut recording, reported, Completion::Recorded);
                    if let Some(completed) = completed {
                        return Ok(Completed { checkpoint: saved, ..completed });
                    }
                }
                (_, Some(Err(error))) => return Err(unreadable(&run_id.path, error)),
                (Some(_) | None, Some(Ok(_)) | None) => {}
            }
        }
        let checkpoint = has_checkpoint
            .then(|| CheckpointOutcome::NotSaved { detail: "the run's hold was over".to_owned() });
        let completed = self.complete_late(&mut recording).await?;
        Ok(Completed { checkpoint, ..completed })
    }

    async fn recording(
        &self,
        state: &Arc<ScheduleState>,
        run_id: &RunId,
        report: Report,
    ) -> Result<Recording, CallError> {
        let path = run_id.path.clone();
        let plan = match state.plan() {
            Some(plan) if !is_for_policies(report, &plan) && !state.knows_newer(&plan) => plan,
            // T12: the lease may be over soon, and what is known is better than nothing said.
            Some(plan) if !state.knows_newer(&plan) => {
                let reading = self.plan_in_force(state, &path);
                let read = tokio::time::timeout(POLICIES_WITHIN, reading).await;
                read.ok().and_then(Result::ok).unwrap_or(plan)
            }
            Some(_) | None => self.plan_in_force(state, &path).await?,
        };
        let (newest, store_time) = (state.newest(), self.store_time());
        let timer = self.dotnet_timer(&path);
        let ground = DecisionInput {
            path,
            plan,
            plan_at: None,
            newest,
            lease_duration: self.locks.settings().lease_duration,
            queued: Duration::ZERO,
            store_time,
        };
        let at = state.ended_at(run_id).unwrap_or_else(|| store_time.into());
        let ended = RunEnded { run_id: run_id.clone(), report, at };
        let report = RunReport { ground, ended };
        let surroundings = Surroundings { state: Arc::clone(state), timer };
        let detail = String::new();
        Ok(Recording { report, is_unsaid: false, surroundings, detail, tally: None })
    }

    /// The same of a run's end that was seen here; as its caller has said, if it has (T8).
    async fn recording_seen(
        &self,
        state: &Arc<ScheduleState>,
        run_id: &RunId,
        report: Report,
    ) -> Result<Recording, CallError> {
        let told = state.told_of(run_id);
        let recording = self.recording(state, run_id, told.unwrap_or(report)).await?;
        Ok(Recording { is_unsaid: told.is_none(), ..recording })
    }

    /// The plan as the store has it; as it is known here, where it was deleted.
    async fn plan_in_force(
        &self,
        state: &ScheduleState,
        path: &LockPath,
    ) -> Result<Arc<Plan>, CallError> {
        if let (Some(plan), _) = self.read_plan(path).await? {
            state.learn_plan(&plan);
            return Ok(plan.0);
        }
        state.plan().ok_or_else(|| CallError::NoSuchSchedule { path: path.clone() })
    }

    /// Writes what this sidecar was told, or saw, of a run whose lease is over, and could not write then
    /// (T8). False: the lock is held.
    pub(super) async fn write_owed(
        &self,
        state: &Arc<ScheduleState>,
        run_id: &RunId,
        report: Report,
    ) -> Result<bool, CallError> {
        let mut recording = self.recording_seen(state, run_id, report).await?;
        let completed = self.try_late(&mut recording).await?;
        if completed.is_some() {
            say_ended(&recording.report.ended);
            state.was_told(run_id, true);
        }
        Ok(completed.is_some())
    }

    /// T8: the run's own lease is over, or unknown here.
    async fn complete_late(&self, recording: &mut Recording) -> Result<Completed, CallError> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(completed) = self.try_late(recording).await? {
                return Ok(completed);
            }
            if waited >= self.lease_of(&recording.report.ground.plan) {
                return Err(held_on(&recording.report.ended.run_id));
            }
            tokio::time::sleep(BETWEEN_READS).await;
            waited += BETWEEN_READS;
        }
    }

    /// None: somebody else was faster, or has the lock; look again. Success under another lease proves that
    /// nobody was granted since.
    async fn try_late(&self, recording: &mut Recording) -> Result<Option<Completed>, CallError> {
        let path = &recording.report.ended.run_id.path;
        let seen = self.read_scheduled(path).await?;
        let serial = seen.record.as_ref().map(|record| record.serial);
        if serial > Some(recording.report.ground.plan.serial()) {
            // T17: its run was decided over a newer plan, of which nothing may be taken back (T16).
            let plan = self.plan_in_force(&recording.surroundings.state, path).await?;
            recording.report.ground.plan = plan;
        }
        let now = self.store_time().into();
        let beside = recording.surroundings.now();
        let reported = recording.report.over(seen.record.as_ref(), now, seen.lease(), &beside);
        match reported {
            Reported::AcquireFirst => self.acquire_and_report(recording, seen.stored).await,
            Reported::HeldElsewhere => Ok(None),
            Reported::Write { .. } | Reported::Recorded | Reported::Superseded => {
                let completed = self.done(recording, reported, Completion::Recorded);
                completed.map(Some).ok_or(CallError::UnknownLease)
            }
        }
    }

    /// None: somebody else was faster, or has the lock; look again.
    async fn acquire_and_report(
        &self,
        recording: &mut Recording,
        seen: Option<Box<Stored>>,
    ) -> Result<Option<Completed>, CallError> {
        let Some(stored) = seen else { return Ok(None) };
        let found = Record::from_fields(&stored.fields);
        // The name of who ran stays: nobody is granted anything.
        let record = Record {
            holder: found.holder,
            host_type: found.host_type,
            function: found.function,
            scope: found.scope,
            mode: found.mode,
            labels: found.labels,
            ..Record::default()
        };
        let lease_duration = self.lease_of(&recording.report.ground.plan);
        let (decider, decisions) = recording.decider(false);
        let brought = Brought { decider, seen: Some(stored) };
        let path = &recording.report.ended.run_id.path;
        let settling = self.locks.settle_at(path, record, lease_duration, brought).await?;
        match hear(decisions, &mut recording.tally) {
            Some(Ok(reported)) if settling == Settling::Written => {
                Ok(self.done(recording, reported, Completion::RecordedLate))
            }
            Some(Ok(_) | Err(_)) | None => Ok(None),
        }
    }

    /// Records the outcome of a run that goes on, under its own lease, and leaves its hold as it is (T6, T12,
    /// T20).
    pub(super) async fn note_outcome(&self, grant: &Grant, run_id: &RunId, report: Report) {
        let Some(state) = self.schedules.state(&run_id.path) else { return };
        let Ok(mut recording) = self.recording_seen(&state, run_id, report).await else { return };
        let (decider, decisions) = recording.decider(true);
        let saved = self.locks.save_decided(grant.lease_id, Some(grant.generation), decider).await;
        let heard = hear(decisions, &mut recording.tally);
        // What is not stored is not known.
        if matches!(saved, Ok(SaveOutcome::Saved { .. } | SaveOutcome::Nothing))
            && let Some(Ok(reported)) = heard
            && self.done(&mut recording, reported, Completion::Recorded).is_some()
        {
            say_ended(&recording.report.ended);
        }
    }

    /// What a report that was written, or needed no writing, comes to; none if it was not. It is counted
    /// where it was written here: once (T23).
    fn done(
        &self,
        recording: &mut Recording,
        reported: Reported,
        completion: Completion,
    ) -> Option<Completed> {
        let state = &recording.surroundings.state;
        let (completion, retry_at) = match reported {
            Reported::Write { record, retry_at } => {
                state.learn(Some(*record));
                (completion, retry_at)
            }
            Reported::Recorded => (Completion::Recorded, None),
            Reported::Superseded => (Completion::Superseded, None),
            Reported::AcquireFirst | Reported::HeldElsewhere => return None,
        };
        let next_at = waited_for(&recording.report.ground.plan, state.known().record.as_ref());
        if let Some(tally) = recording.tally.take().filter(|_| completion != Completion::Superseded)
        {
            let RunEnded { run_id, report, .. } = &recording.report.ended;
            let end =
                ReportedEnd { run_id, outcome: Outcome::from(*report), detail: &recording.detail };
            self.count(&run_id.path, &tally, Some(&end));
        }
        Some(Completed { completion, retry_at, next_at, checkpoint: None })
    }
}

/// Whether policies have a say in what comes of this report: a change of them takes effect at the next
/// decision, and drops nothing that the new ones would run (T16). What is known of the plan may be as old as
/// the run.
fn is_for_policies(report: Report, plan: &Plan) -> bool {
    match report {
        // Whether it is tried again.
        Report::Failed => true,
        // What fell due meanwhile.
        Report::Succeeded | Report::FailedFinal | Report::TimedOut => {
            plan.definition().overlap == Overlap::Skip
        }
        Report::Returned | Report::Withdrawn => false,
    }
}

/// T23: what its sidecar says of a run's end for its runner.
fn say_ended(RunEnded { run_id, report, .. }: &RunEnded) {
    tracing::info!(
        lock = %run_id.path, occurrence = %run_id.occasion, attempt = run_id.attempt,
        outcome = Outcome::from(*report).as_str(), "run ended"
    );
}

fn held_on(run_id: &RunId) -> CallError {
    let message = format!(
        "the lock {} is held, by the run itself or by somebody else, so its outcome cannot be recorded through this sidecar \
         now: repeat the call at the sidecar that has the run, or here when the lock is released",
        run_id.path
    );
    CallError::StoreFailure(StoreFailure {
        kind: StoreFailureKind::Unavailable,
        message,
        retry_after: Some(BETWEEN_READS),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::lock::FencingToken;
    use crate::record::{Fields, Found, Verdict};
    use crate::schedule::ScheduleRecord;
    use crate::time::UnixMillis;

    #[test]
    fn t23_what_is_decided_again_over_its_own_write_is_counted_by_the_first() {
        let fields = [("leasehold_schedule_next", "-"), ("leasehold_schedule_plan", "1/ff/1/3")];
        let last = ("leasehold_schedule_last", "2027-01-15T08:00:00Z/-/-");
        let fields = fields.into_iter().chain([last]).map(|(name, it)| (name.into(), it.into()));
        let record = ScheduleRecord::from_fields(&fields.collect()).unwrap().unwrap();
        let tally = Tally::between(None, &ScheduleRecord { missed: 3, ..record });
        assert_ne!(tally, Tally::default());
        let tallies = Mutex::new(vec![None, Some(tally)]);
        let (decider, decisions) = Decider::new(move |_| {
            let tally = tallies.lock().unwrap().pop().flatten();
            (Verdict::Nothing, ReportDecided { reported: Ok(Reported::Recorded), tally })
        });
        let token = FencingToken::from_u64(4_096).unwrap();
        let found = Found { fields: Fields::new(), token, store_time: UnixMillis(0) };
        decider.decide(&found);
        decider.decide(&found);
        let mut added = None;
        assert_eq!(hear(decisions, &mut added), Some(Ok(Reported::Recorded)));
        assert_eq!(added, Some(tally));
    }
}
