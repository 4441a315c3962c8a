//! The unary calls about schedules, one method each.

use std::time::SystemTime;

use crate::client::{Client, within};
use crate::constants::{CALL_TIMEOUT, COMPLETION_TIMEOUT};
use crate::errors::Error;
use crate::messages::{
    CompletedRun, Completion, ListSchedules, LockSelector, PreviewSchedule, Schedule, SchedulePage,
    SchedulePreview,
};
use crate::proto;
use crate::revisions::Needs as _;

impl Client {
    /// A schedule: its definition, and what is known of its runs.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::UnknownSchedule`](crate::Reason::UnknownSchedule) if nobody ever
    /// subscribed to it, and [`Reason::Unsupported`](crate::Reason::Unsupported) if the sidecar knows no
    /// schedules.
    pub async fn get_schedule(&self, lock: impl Into<LockSelector>) -> Result<Schedule, Error> {
        let lock = Some(lock.into().into_wire());
        let request = within(CALL_TIMEOUT, proto::GetScheduleRequest { lock });
        let answer =
            self.answer_of_schedules(self.short().schedules.get_schedule(request).await).await?;
        let told = answer.schedule;
        let schedule = told.ok_or(Error::Protocol("it has no schedule"))?;
        Ok(Schedule::from_wire(schedule))
    }

    /// One page of schedules.
    ///
    /// # Errors
    /// As [`get_schedule`](Self::get_schedule).
    pub async fn list_schedules(&self, request: ListSchedules) -> Result<SchedulePage, Error> {
        let request = within(CALL_TIMEOUT, request.into_wire());
        let answer =
            self.answer_of_schedules(self.short().schedules.list_schedules(request).await).await?;
        Ok(SchedulePage::from_wire(answer))
    }

    /// Checks a spec, and gives its next occurrences. Asks no store and changes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::InvalidField`](crate::Reason::InvalidField) if the spec is not
    /// valid.
    pub async fn preview_schedule(
        &self,
        request: PreviewSchedule,
    ) -> Result<SchedulePreview, Error> {
        let mut request = request.into_wire();
        request.needs = request.needs();
        let request = within(CALL_TIMEOUT, request);
        let answer = self
            .answer_of_schedules(self.short().schedules.preview_schedule(request).await)
            .await?;
        Ok(SchedulePreview::from_wire(answer))
    }

    /// Pauses a schedule: a run that goes on may finish, and what falls due is skipped. May be repeated
    /// (T18). Gives the schedule as it is now; `None` if the caller may not read it.
    ///
    /// # Errors
    /// As [`get_schedule`](Self::get_schedule), and
    /// [`Reason::ScheduleChangesNotEnabled`](crate::Reason::ScheduleChangesNotEnabled) unless the operator
    /// enabled it.
    pub async fn pause_schedule(
        &self,
        lock: impl Into<LockSelector>,
    ) -> Result<Option<Schedule>, Error> {
        let lock = Some(lock.into().into_wire());
        let request = within(CALL_TIMEOUT, proto::PauseScheduleRequest { lock });
        let answer =
            self.answer_of_schedules(self.short().schedules.pause_schedule(request).await).await?;
        Ok(answer.schedule.map(Schedule::from_wire))
    }

    /// Ends a pause: the schedule goes on after the store's time. May be repeated.
    ///
    /// # Errors
    /// As [`pause_schedule`](Self::pause_schedule).
    pub async fn resume_schedule(
        &self,
        lock: impl Into<LockSelector>,
    ) -> Result<Option<Schedule>, Error> {
        let lock = Some(lock.into().into_wire());
        let request = within(CALL_TIMEOUT, proto::ResumeScheduleRequest { lock });
        let answer =
            self.answer_of_schedules(self.short().schedules.resume_schedule(request).await).await?;
        Ok(answer.schedule.map(Schedule::from_wire))
    }

    /// Asks for a run by hand. `request_id` is the caller's, 1 to 64 of A-Z a-z 0-9 . _ -: a repeated call
    /// with the same one is one run.
    ///
    /// # Errors
    /// As [`pause_schedule`](Self::pause_schedule), and
    /// [`Reason::TooManyTriggers`](crate::Reason::TooManyTriggers) when 8 wait already.
    pub async fn trigger_schedule(
        &self,
        lock: impl Into<LockSelector>,
        request_id: impl Into<String>,
    ) -> Result<Option<Schedule>, Error> {
        let (lock, request_id) = (Some(lock.into().into_wire()), request_id.into());
        let request = within(CALL_TIMEOUT, proto::TriggerScheduleRequest { lock, request_id });
        let answer = self
            .answer_of_schedules(self.short().schedules.trigger_schedule(request).await)
            .await?;
        Ok(answer.schedule.map(Schedule::from_wire))
    }

    /// Removes a schedule: its subscribers are told, and a new subscription begins it anew. `reason` is kept;
    /// `force` also where this sidecar has subscribers (T25).
    ///
    /// # Errors
    /// As [`pause_schedule`](Self::pause_schedule), and
    /// [`Reason::ScheduleHasSubscribers`](crate::Reason::ScheduleHasSubscribers).
    pub async fn remove_schedule(
        &self,
        lock: impl Into<LockSelector>,
        reason: impl Into<String>,
        force: bool,
    ) -> Result<Option<Schedule>, Error> {
        let (lock, reason) = (Some(lock.into().into_wire()), reason.into());
        let request = within(CALL_TIMEOUT, proto::RemoveScheduleRequest { lock, reason, force });
        let answer =
            self.answer_of_schedules(self.short().schedules.remove_schedule(request).await).await?;
        Ok(answer.schedule.map(Schedule::from_wire))
    }

    /// Lets a schedule begin anew, after `watermark` or, without one, after the store's time; its definition
    /// has `revision` from then on, if one is given. `reason` is kept (T25).
    ///
    /// # Errors
    /// As [`pause_schedule`](Self::pause_schedule).
    pub async fn reset_schedule(
        &self,
        lock: impl Into<LockSelector>,
        reason: impl Into<String>,
        watermark: Option<SystemTime>,
        revision: Option<u64>,
    ) -> Result<Option<Schedule>, Error> {
        let (lock, reason) = (Some(lock.into().into_wire()), reason.into());
        let watermark = watermark.map(prost_types::Timestamp::from);
        let request = proto::ResetScheduleRequest { lock, reason, watermark, revision };
        let request = within(CALL_TIMEOUT, request);
        let answer =
            self.answer_of_schedules(self.short().schedules.reset_schedule(request).await).await?;
        Ok(answer.schedule.map(Schedule::from_wire))
    }

    /// Says how a run ended, by its id alone: for a process that wrote down the id of a run and was
    /// restarted. Else [`Run::complete`](crate::Run::complete) is for that. May be repeated, at any sidecar
    /// (T8).
    ///
    /// # Errors
    /// [`Error::Refused`]; what is transient may be repeated.
    pub async fn complete_run(
        &self,
        run_id: impl Into<String>,
        completion: Completion,
    ) -> Result<CompletedRun, Error> {
        self.complete(completion.into_wire(String::new(), 0, run_id.into())).await
    }

    pub(crate) async fn complete(
        &self,
        request: proto::CompleteRunRequest,
    ) -> Result<CompletedRun, Error> {
        let request = within(COMPLETION_TIMEOUT, request);
        let answer =
            self.answer_of_schedules(self.short().schedules.complete_run(request).await).await?;
        Ok(CompletedRun::from_wire(&answer))
    }

    /// As [`answer`](Self::answer), and says it plainly where the sidecar is older than schedules.
    async fn answer_of_schedules<T>(
        &self,
        answer: Result<tonic::Response<T>, tonic::Status>,
    ) -> Result<T, Error> {
        match self.answer(answer) {
            Err(error) => Err(self.knowing("schedules", error).await),
            answered => answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::fake::Bench;
    use crate::messages::{CompletionResult, LockKey, LocksUnder, ScheduleSpec};

    #[tokio::test]
    async fn every_call_about_schedules_reaches_the_sidecar() {
        let bench = Bench::new().await;
        let client = &bench.client;
        let key = || LockKey::new("f", "s");
        assert_eq!(client.get_schedule(key()).await.unwrap().lock_path, "f/s");
        assert!(client.pause_schedule(key()).await.unwrap().unwrap().paused);
        let path = LockSelector::path("locks/a");
        let resumed = client.resume_schedule(path).await.unwrap().unwrap();
        assert_eq!(resumed.lock_path, "locks/a");
        let triggered = client.trigger_schedule(key(), "by-hand-1").await.unwrap().unwrap();
        assert_eq!(triggered.waiting_request_ids, ["by-hand-1"]);
        let removed = client.remove_schedule(key(), "moved", true).await.unwrap().unwrap();
        assert_eq!(removed.lock_path, "f/s");
        let begins = UNIX_EPOCH.checked_add(Duration::from_secs(500));
        let reset = client.reset_schedule(key(), "clock", begins, Some(3)).await.unwrap();
        assert_eq!(reset.unwrap().lock_path, "f/s");
        let request = ListSchedules::under(LocksUnder::HostId("h".to_owned())).page("next");
        let page = client.list_schedules(request).await.unwrap();
        assert_eq!((page.next_page_token.as_str(), page.schedules.len()), ("next", 1));
        let after = UNIX_EPOCH.checked_add(Duration::from_secs(1_000)).unwrap();
        let request = PreviewSchedule::new(ScheduleSpec::cron("@daily")).after(after).with_count(2);
        let preview = client.preview_schedule(request).await.unwrap();
        assert_eq!(preview.understood.zone_data, "2026b");
        assert_eq!(preview.occurrences.len(), 2);
        assert_eq!(preview.occurrences[0].at, Some(after));
        let completed = client.complete_run("run-7", Completion::returned()).await.unwrap();
        assert_eq!(completed.result, CompletionResult::Recorded);
        let asked = bench.sidecar.asked();
        let expected = "complete run-7 of \"\" generation 0: RETURNED \"\"";
        assert_eq!(asked.last().map(String::as_str), Some(expected));
        assert_eq!(asked[0], "remove because \"moved\", force true");
        assert_eq!(asked[1], "reset because \"clock\" to Some(500) at Some(3)");
        assert!(asked[2].starts_with("list Some(HostId(\"h\"))"), "{asked:?}");
    }
}
