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

    use serde_json::json;

    use super::{Completion, ListSchedules, LockSelector, PreviewSchedule};
    use crate::fake::Bench;
    use crate::messages::{LockKey, LocksUnder, ScheduleSpec};
    use crate::proto::*;

    #[tokio::test(start_paused = true)]
    async fn every_call_about_schedules_reaches_the_sidecar() {
        let bench = Bench::new();
        let (client, sidecar) = (&bench.client, &bench.sidecar);
        let key = || LockKey::new("f", "s");
        let lock = Some(LockSelector::from(key()).into_wire());
        let schedule = json!({"lock_path": "f/s"});
        let told = json!({"schedule": schedule});
        macro_rules! asked {
            ($call:ident($($with:expr),*), $name:literal: $request:expr) => {
                sidecar.answer($name, &told);
                let answered = client.$call(key(), $($with),*).await.unwrap();
                assert_eq!(answered.unwrap().lock_path, "f/s");
                sidecar.check_last($name, $request);
            };
        }
        let (reason, request_id) = ("moved".to_owned(), "by-hand-1".to_owned());
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(500));
        let watermark = at.map(prost_types::Timestamp::from);
        asked!(pause_schedule(), "pause_schedule":
            PauseScheduleRequest { lock: lock.clone() });
        asked!(resume_schedule(), "resume_schedule":
            ResumeScheduleRequest { lock: lock.clone() });
        asked!(trigger_schedule("by-hand-1"), "trigger_schedule":
            TriggerScheduleRequest { lock: lock.clone(), request_id });
        asked!(remove_schedule("moved", true), "remove_schedule":
            RemoveScheduleRequest { lock: lock.clone(), reason: reason.clone(), force: true });
        asked!(reset_schedule("moved", at, Some(3)), "reset_schedule":
            ResetScheduleRequest { lock: lock.clone(), reason, watermark, revision: Some(3) });

        sidecar.answer("get_schedule", &told);
        assert_eq!(client.get_schedule(key()).await.unwrap().lock_path, "f/s");
        let page = json!({"schedules": [schedule], "next_page_token": "next"});
        sidecar.answer("list_schedules", &page);
        let request = ListSchedules::under(LocksUnder::HostId("h".to_owned())).page("first");
        let page = client.list_schedules(request).await.unwrap();
        assert_eq!((page.next_page_token.as_str(), page.schedules.len()), ("next", 1));
        let asked: ListSchedulesRequest = sidecar.last("list_schedules");
        assert_eq!(asked.under, Some(list_schedules_request::Under::HostId("h".to_owned())));
        assert_eq!(asked.page_token, "first");

        let understood = json!({"zone_data": "2026b"});
        let preview = json!({"understood": understood, "occurrences": [{"at": 1_000}]});
        sidecar.answer("preview_schedule", &preview);
        let after = UNIX_EPOCH.checked_add(Duration::from_secs(900)).unwrap();
        let request = PreviewSchedule::new(ScheduleSpec::cron("@daily")).after(after).with_count(2);
        let preview = client.preview_schedule(request).await.unwrap();
        assert_eq!(preview.understood.zone_data, "2026b");
        assert_eq!(preview.occurrences[0].at, UNIX_EPOCH.checked_add(Duration::from_secs(1_000)));
        let asked: PreviewScheduleRequest = sidecar.last("preview_schedule");
        assert_eq!((asked.needs, asked.count, asked.after), (1, 2, Some(after.into())), "S37");

        let completed = client.complete_run("run-7", Completion::returned()).await.unwrap();
        assert_eq!(completed.result, crate::CompletionResult::Recorded);
        let asked: CompleteRunRequest = sidecar.last("complete_run");
        assert_eq!((asked.run_id.as_str(), asked.lease_id.as_str()), ("run-7", ""));
    }
}
