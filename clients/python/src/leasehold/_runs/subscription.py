"""Taking part in a schedule: the runs that fall to this caller, over one stream after the other.

Rules: T2, T16 (a reconnected subscriber replaces no definition), S37.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import grpc

from leasehold._connect.calls import Calls
from leasehold._connect.listening import ENDED
from leasehold._constants import FIRST_PAUSE, LONGEST_RUN_PAUSE
from leasehold._convert import duration, seconds
from leasehold._enums import RunOutcome
from leasehold._errors.answers import LostError
from leasehold._errors.errors import LeaseholdError, ProtocolError, RefusedError, is_below_needs, passes
from leasehold._hold import events
from leasehold._hold.grants import Grant
from leasehold._hold.keeper import Keeper
from leasehold._hold.opening import begin
from leasehold._runs.run_line import RunLine, Stream, Thread, complete, completion, hold_of
from leasehold._runs.schedules import DefinitionInForce, ScheduleEvent, Standby, Subscribed, UnderstoodSchedule
from leasehold.v1 import schedule_service_pb2 as wire
from leasehold.v1.schedule_service_pb2 import Run, SubscribeScheduleRequest, SubscribeScheduleResponse

ScheduleHandler = Callable[[ScheduleEvent], None]
"""Takes in events. Called in the client's event loop, so it must be quick; what it raises is only logged."""


class Granted:
    """A run that was granted, and its hold."""

    def __init__(self, keeper: Keeper, grant: Grant, run: Run, thread: Thread) -> None:
        """Keep them together."""
        self.keeper: Final = keeper
        self.grant: Final = grant
        self.run: Final = run
        self.thread: Final = thread


class Subscription:
    """A subscription to a schedule."""

    def __init__(
        self,
        calls: Callable[[], Calls],
        request: SubscribeScheduleRequest,
        handler: ScheduleHandler | None,
    ) -> None:
        """Ask for nothing yet."""
        self._calls: Final = calls
        self._request: Final = request
        self._handler: Final = handler
        self._stream: Stream | None = None
        self._running: Thread | None = None
        # Whether a sidecar has taken the subscription.
        self._is_heard = False
        self._pause = FIRST_PAUSE

    @property
    def name(self) -> str:
        """The schedule's name, for people."""
        key = self._request.key
        return f"{key.function}/{key.scope}" if key.scope else key.function

    async def next(self) -> Granted:
        """Wait for the next run, as long as that takes; the one before is to end first.

        Where the sidecar restarts or is too old, or the connection breaks, this subscribes again. Raises RefusedError:
        one that cannot be reached is an error only before it was heard of.
        """
        calls = self._calls()
        while True:
            if self._running is not None:
                line = await self._running.last
                self._running, self._stream = None, await line.handed_back()
            try:
                if self._stream is None:
                    self._stream = self._subscribe(calls)
                run = await self._hear(calls, self._stream)
            except RefusedError as error:
                self.close()
                if not (is_below_needs(error) or (self._is_heard and passes(error))):
                    raise
                events.tell(self._handler, events.Interrupted(str(error)))
                await asyncio.sleep(max(error.retry_after or 0, self._pause))
                self._pause = min(2 * self._pause, LONGEST_RUN_PAUSE)
                continue
            granted = None if run is None else await self._take_up(calls, self._stream, run)
            if granted is not None:
                return granted

    def close(self) -> None:
        """Take part no more. A run that goes on keeps its stream."""
        if self._stream is not None:
            self._stream.call.drop()
            self._stream = None

    async def leave(self) -> None:
        """Take part no more, once the last run has ended."""
        running, self._running = self._running, None
        if running is not None:
            line = await running.last
            self._stream = await line.handed_back()
        self.close()

    def _subscribe(self, calls: Calls) -> Stream:
        request = SubscribeScheduleRequest()
        request.CopyFrom(self._request)
        # T16: who was understood before is no new subscriber.
        request.reconnected = self._is_heard
        sent = calls.clock.now()
        return Stream(calls.subscribe(request), sent)

    async def _hear(self, calls: Calls, stream: Stream) -> Run | None:
        """Take in the next event between runs; give the run, if it is one."""
        with calls.knowing_schedules():
            message = await stream.call.read()
        if not isinstance(message, SubscribeScheduleResponse):
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, ENDED)
        match message.WhichOneof("event"):
            case "standby":
                self._stand_by(message.standby)
            case "run":
                return message.run
            case "definition_in_force":
                events.tell(self._handler, DefinitionInForce._from_wire(message.definition_in_force))
            case "draining":
                events.tell(self._handler, events.Draining(seconds(duration(message.draining.time_left))))
            case _:
                # Of a run that is over, or an event that this version does not know.
                pass
        return None

    def _stand_by(self, standby: wire.Standby) -> None:
        if standby.HasField("understood"):
            self._is_heard = True
            events.tell(self._handler, Subscribed(UnderstoodSchedule._from_wire(standby.understood)))
        self._pause = FIRST_PAUSE
        events.tell(self._handler, Standby._from_wire(standby))

    async def _take_up(self, calls: Calls, stream: Stream, run: Run) -> Granted | None:
        """Begin a run that has come, if it can still be run; of one that cannot, another replica takes the place."""
        if not run.HasField("grant") or not run.HasField("scheduled_at"):
            self.close()
            raise ProtocolError("a run came without its grant or its occurrence")
        thread = Thread(self._request, run.run_id, lambda event: events.tell(self._handler, event))
        line = RunLine(calls, stream, thread)
        with calls.about(line.connection):
            try:
                keeper, grant = await begin(calls, line, hold_of(run), stream.sent, self._handler)
            except (LostError, RefusedError):
                # Said once, and else its lease expires.
                request = completion(run.run_id, (run.grant.lease_id, run.grant.generation), RunOutcome.RETURNED)
                with suppress(LeaseholdError, TimeoutError):
                    await asyncio.wait_for(complete(calls, request, line.connection), calls.release_timeout)
                return None
        self._stream, self._running = None, thread
        return Granted(keeper, grant, run, thread)
