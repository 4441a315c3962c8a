"""What the client for asyncio does with schedules."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Unpack, overload

from leasehold._connect.calls import Calls
from leasehold._connect.needs import needs
from leasehold._convert import timestamp
from leasehold._enums import RunOutcome
from leasehold._hold.spec import Seconds
from leasehold._records import LockKey, selector
from leasehold._runs.async_run import AsyncEvery, AsyncRun, each_run
from leasehold._runs.requests import ListSchedulesOptions, PreviewOptions, list_schedules_request, preview_request
from leasehold._runs.run_line import complete, completion
from leasehold._runs.schedules import CompletedRun, Schedule, SchedulePreview
from leasehold._runs.spec import ScheduleOptions, subscription
from leasehold._runs.subscription import ScheduleHandler, Subscription
from leasehold.v1 import schedule_service_pb2 as wire


class AsyncSchedules:
    """The part of AsyncClient that is about schedules."""

    def _calls(self) -> Calls:
        raise NotImplementedError

    @overload
    def every(
        self,
        timetable: str | Seconds,
        work: Callable[[AsyncRun], Awaitable[object]],
        *,
        function: str | LockKey,
        scope: str = "",
        on_event: ScheduleHandler | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Coroutine[Any, Any, None]: ...

    @overload
    def every(
        self,
        timetable: str | Seconds,
        *,
        function: str | LockKey,
        scope: str = "",
        on_event: ScheduleHandler | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> AsyncEvery: ...

    def every(
        self,
        timetable: str | Seconds,
        work: Callable[[AsyncRun], Awaitable[object]] | None = None,
        *,
        function: str | LockKey,
        scope: str = "",
        on_event: ScheduleHandler | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Coroutine[Any, Any, None] | AsyncEvery:
        """Take part in a schedule, and await `work` on each occurrence that falls to this caller, until cancelled.

        Without `work` it decorates the function that does the work: the decorated one takes part when it is called, and
        gives its own arguments on after the run. `timetable` is an expression (T15), or a span of 10 s or more that
        comes again and again. All that give the same `function` and `scope` share the schedule.

        When `work` returns, the run has succeeded. When it raises, the run has failed, with the text as the detail, and
        is tried again if attempts are left; that is logged. It is cancelled when the run is lost or its deadline comes.
        When the lock is broken or the sidecar shuts down it goes on: see `run.wait_ending()`. Cancelled, this cancels
        it and returns the run, for another replica to run.

        Each occurrence is granted until one run of it is recorded, never after, and never two at once. So a run whose
        process dies is repeated: key its effect on `run.scheduled_at`, or let the resource check `run.fencing_token`
        (T2).

        Where the sidecar or its store cannot be reached, or the sidecar is too old for an option, this asks again,
        after a pause of 0.1 s to 1 s that grows to 10 s.
        Raises RefusedError if trying again does not help, with reason UNSUPPORTED if the sidecar is older than
        schedules, INVALID_FIELD for a schedule that is not valid.
        """
        request = subscription(timetable, function, scope, options)
        schedule = AsyncEvery(self._calls, lambda: Subscription(self._calls, request, on_event))
        return schedule if work is None else schedule.run(work)

    def runs(
        self,
        timetable: str | Seconds,
        *,
        function: str | LockKey,
        scope: str = "",
        on_event: ScheduleHandler | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> AsyncGenerator[AsyncRun, None]:
        """Take part in a schedule: give the runs that fall to this caller, one after the other, without end.

        Enter each with `async with`, or complete it. Once the sidecar was heard this subscribes again by itself where
        it restarts or the connection breaks. Raises what the block raises, and RefusedError as `every`, also where no
        sidecar answers at the beginning.
        """
        request = subscription(timetable, function, scope, options)
        return each_run(self._calls, Subscription(self._calls, request, on_event))

    async def complete_run(
        self, run_id: str, outcome: RunOutcome, detail: str = "", checkpoint: bytes | None = None
    ) -> CompletedRun:
        """Say how a run ended by its id alone: for a process that wrote it down and was restarted (T8).

        Else `run.complete` is for that. May be repeated, at any sidecar.
        """
        return await complete(self._calls(), completion(run_id, ("", 0), outcome, detail, checkpoint))

    async def get_schedule(self, lock: LockKey | str) -> Schedule:
        """Give a schedule: its definition, and what is known of its runs.

        Raises RefusedError with reason UNKNOWN_SCHEDULE if nobody ever subscribed to it.
        """
        calls = self._calls()
        with calls.knowing_schedules():
            answer = await calls.unary(calls.schedules.GetSchedule, wire.GetScheduleRequest(lock=selector(lock)))
        return Schedule._from_wire(answer.schedule)

    async def list_schedules(self, **options: Unpack[ListSchedulesOptions]) -> AsyncGenerator[Schedule, None]:
        """Give the schedules in the order of their paths, all pages of them. Those that never ran come last."""
        calls = self._calls()
        request = list_schedules_request(options)
        while True:
            with calls.knowing_schedules():
                answer = await calls.unary(calls.schedules.ListSchedules, request)
            for schedule in answer.schedules:
                yield Schedule._from_wire(schedule)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    async def preview_schedule(self, timetable: str | Seconds, **options: Unpack[PreviewOptions]) -> SchedulePreview:
        """Check a schedule, and give its next occurrences. Asks no store and changes nothing.

        Raises RefusedError with reason INVALID_FIELD if it is not valid.
        """
        calls = self._calls()
        request = preview_request(timetable, options)
        request.needs = needs(request)
        with calls.knowing_schedules():
            return SchedulePreview._from_wire(await calls.unary(calls.schedules.PreviewSchedule, request))

    async def pause_schedule(self, lock: LockKey | str) -> Schedule | None:
        """Pause a schedule: a run that goes on may finish, and what falls due is skipped. May be repeated (T18).

        Gives the schedule as it is now; None if the caller may not read it. Raises RefusedError with reason
        SCHEDULE_CHANGES_NOT_ENABLED unless the operator enabled it.
        """
        calls = self._calls()
        with calls.knowing_schedules():
            answer = await calls.unary(calls.schedules.PauseSchedule, wire.PauseScheduleRequest(lock=selector(lock)))
        return Schedule._from_wire(answer.schedule) if answer.HasField("schedule") else None

    async def remove_schedule(self, lock: LockKey | str, reason: str, *, force: bool = False) -> Schedule | None:
        """Remove a schedule: its subscribers are told, and a new subscription begins it anew (T25).

        Gives and raises as a pause; with reason SCHEDULE_HAS_SUBSCRIBERS when this sidecar has some, without `force`.
        """
        calls = self._calls()
        request = wire.RemoveScheduleRequest(lock=selector(lock), reason=reason, force=force)
        with calls.knowing_schedules():
            answer = await calls.unary(calls.schedules.RemoveSchedule, request)
        return Schedule._from_wire(answer.schedule) if answer.HasField("schedule") else None

    async def reset_schedule(
        self, lock: LockKey | str, reason: str, *, watermark: datetime | None = None, revision: int | None = None
    ) -> Schedule | None:
        """Let a schedule begin anew: after `watermark`, or after the store's time (T25).

        Its definition has `revision` from then on, if one is given. Gives and raises as a pause.
        """
        calls = self._calls()
        request = wire.ResetScheduleRequest(lock=selector(lock), reason=reason, revision=revision)
        if watermark is not None:
            request.watermark.CopyFrom(timestamp(watermark))
        with calls.knowing_schedules():
            answer = await calls.unary(calls.schedules.ResetSchedule, request)
        return Schedule._from_wire(answer.schedule) if answer.HasField("schedule") else None

    async def resume_schedule(self, lock: LockKey | str) -> Schedule | None:
        """End a pause: the schedule goes on after the store's time. May be repeated. Gives and raises as a pause."""
        calls = self._calls()
        with calls.knowing_schedules():
            answer = await calls.unary(calls.schedules.ResumeSchedule, wire.ResumeScheduleRequest(lock=selector(lock)))
        return Schedule._from_wire(answer.schedule) if answer.HasField("schedule") else None

    async def trigger_schedule(self, lock: LockKey | str, request_id: str) -> Schedule | None:
        """Ask for a run by hand (T18).

        `request_id` is the caller's, 1 to 64 of A-Z a-z 0-9 . _ -: a repeated call with the same one is one run. Gives
        and raises as a pause; with reason TOO_MANY_TRIGGERS when 8 wait already.
        """
        calls = self._calls()
        request = wire.TriggerScheduleRequest(lock=selector(lock), request_id=request_id)
        with calls.knowing_schedules():
            answer = await calls.unary(calls.schedules.TriggerSchedule, request)
        return Schedule._from_wire(answer.schedule) if answer.HasField("schedule") else None
