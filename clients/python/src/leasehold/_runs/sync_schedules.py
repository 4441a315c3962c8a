"""What the client without asyncio does with schedules."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Unpack, cast, overload

from leasehold._async_client import AsyncClient
from leasehold._connect.loop_thread import LoopThread
from leasehold._each import each
from leasehold._enums import RunOutcome
from leasehold._hold.spec import Seconds
from leasehold._hold.sync_hold import Owner
from leasehold._records import LockKey
from leasehold._runs.requests import ListSchedulesOptions, PreviewOptions
from leasehold._runs.schedules import CompletedRun, Schedule, SchedulePreview
from leasehold._runs.spec import ScheduleOptions, subscription
from leasehold._runs.subscription import ScheduleHandler, Subscription
from leasehold._runs.sync_run import Every, Run, each_run


class Schedules:
    """The part of Client that is about schedules."""

    _in_loop: AsyncClient

    @overload
    def every(
        self,
        timetable: str | Seconds,
        work: Callable[[Run], object],
        *,
        function: str | LockKey,
        scope: str = "",
        on_event: ScheduleHandler | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None: ...

    @overload
    def every(
        self,
        timetable: str | Seconds,
        *,
        function: str | LockKey,
        scope: str = "",
        on_event: ScheduleHandler | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Every: ...

    def every(
        self,
        timetable: str | Seconds,
        work: Callable[[Run], object] | None = None,
        *,
        function: str | LockKey,
        scope: str = "",
        on_event: ScheduleHandler | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Every | None:
        """Take part in a schedule, and call `work` in this thread on each occurrence that falls to this caller.

        Without `work` it decorates the function that does the work: the decorated one takes part when it is called, and
        gives its own arguments on after the run. `timetable` is an expression (T15), or a span of 10 s or more that
        comes again and again. All that give the same `function` and `scope` share the schedule.

        When `work` returns, the run has succeeded. When it raises, the run has failed, with the text as the detail, and
        is tried again if attempts are left; that is logged. Python cannot stop a thread, so `work` has to look:
        `run.check()` raises when the run is lost or its deadline has come, and `run.ending_event` is set when it should
        end soon. Goes on until KeyboardInterrupt or SystemExit, which return the run for another replica to run, or
        until the client is closed.

        Each occurrence is granted until one run of it is recorded, never after, and never two at once. So a run whose
        process dies is repeated: key its effect on `run.scheduled_at`, or let the resource check `run.fencing_token`
        (T2).

        Where the sidecar or its store cannot be reached, or the sidecar is too old for an option, this asks again,
        after a pause of 0.1 s to 1 s that grows to 10 s.
        Raises RefusedError if trying again does not help, with reason UNSUPPORTED if the sidecar is older than
        schedules, INVALID_FIELD for a schedule that is not valid.
        """
        request = subscription(timetable, function, scope, options)
        client = cast("Owner", self)
        schedule = Every(client, lambda: Subscription(client._calls, request, on_event))
        if work is None:
            return schedule
        schedule.run(work)
        return None

    def runs(
        self,
        timetable: str | Seconds,
        *,
        function: str | LockKey,
        scope: str = "",
        on_event: ScheduleHandler | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Iterator[Run]:
        """Take part in a schedule: give the runs that fall to this caller, one after the other, without end.

        Enter each with `with`, or complete it. Once the sidecar was heard this subscribes again by itself where it
        restarts or the connection breaks. Raises what the block raises, and RefusedError as `every`, also where no
        sidecar answers at the beginning.
        """
        request = subscription(timetable, function, scope, options)
        client = cast("Owner", self)
        return each_run(client, Subscription(client._calls, request, on_event))

    def complete_run(
        self, run_id: str, outcome: RunOutcome, detail: str = "", checkpoint: bytes | None = None
    ) -> CompletedRun:
        """Say how a run ended by its id alone: for a process that wrote it down and was restarted (T8).

        Else `run.complete` is for that. May be repeated, at any sidecar.
        """
        return LoopThread.shared().run(self._in_loop.complete_run(run_id, outcome, detail, checkpoint))

    def get_schedule(self, lock: LockKey | str) -> Schedule:
        """Give a schedule: its definition, and what is known of its runs.

        Raises RefusedError with reason UNKNOWN_SCHEDULE if nobody ever subscribed to it.
        """
        return LoopThread.shared().run(self._in_loop.get_schedule(lock))

    def list_schedules(self, **options: Unpack[ListSchedulesOptions]) -> Iterator[Schedule]:
        """Give the schedules in the order of their paths, all pages of them. Those that never ran come last."""
        return each(self._in_loop.list_schedules(**options))

    def preview_schedule(self, timetable: str | Seconds, **options: Unpack[PreviewOptions]) -> SchedulePreview:
        """Check a schedule, and give its next occurrences. Asks no store and changes nothing.

        Raises RefusedError with reason INVALID_FIELD if it is not valid.
        """
        return LoopThread.shared().run(self._in_loop.preview_schedule(timetable, **options))

    def pause_schedule(self, lock: LockKey | str) -> Schedule | None:
        """Pause a schedule: a run that goes on may finish, and what falls due is skipped. May be repeated (T18).

        Gives the schedule as it is now; None if the caller may not read it. Raises RefusedError with reason
        SCHEDULE_CHANGES_NOT_ENABLED unless the operator enabled it.
        """
        return LoopThread.shared().run(self._in_loop.pause_schedule(lock))

    def remove_schedule(self, lock: LockKey | str, reason: str, *, force: bool = False) -> Schedule | None:
        """Remove a schedule: its subscribers are told, and a new subscription begins it anew (T25).

        Gives and raises as a pause; with reason SCHEDULE_HAS_SUBSCRIBERS when this sidecar has some, without `force`.
        """
        return LoopThread.shared().run(self._in_loop.remove_schedule(lock, reason, force=force))

    def reset_schedule(
        self, lock: LockKey | str, reason: str, *, watermark: datetime | None = None, revision: int | None = None
    ) -> Schedule | None:
        """Let a schedule begin anew: after `watermark`, or after the store's time (T25).

        Its definition has `revision` from then on, if one is given. Gives and raises as a pause.
        """
        reset = self._in_loop.reset_schedule(lock, reason, watermark=watermark, revision=revision)
        return LoopThread.shared().run(reset)

    def resume_schedule(self, lock: LockKey | str) -> Schedule | None:
        """End a pause: the schedule goes on after the store's time. May be repeated. Gives and raises as a pause."""
        return LoopThread.shared().run(self._in_loop.resume_schedule(lock))

    def trigger_schedule(self, lock: LockKey | str, request_id: str) -> Schedule | None:
        """Ask for a run by hand (T18).

        `request_id` is the caller's, 1 to 64 of A-Z a-z 0-9 . _ -: a repeated call with the same one is one run. Gives
        and raises as a pause; with reason TOO_MANY_TRIGGERS when 8 wait already.
        """
        return LoopThread.shared().run(self._in_loop.trigger_schedule(lock, request_id))
