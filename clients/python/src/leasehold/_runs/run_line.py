"""The life line of a run's hold: the subscription's stream, for as long as the run goes on.

Rules: T8 (completion), S13, S14, S16 (a run is a hold, on a stream that outlives it).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import grpc
import grpc.aio

from leasehold._connect.calls import Calls
from leasehold._connect.listening import Connection, Listening
from leasehold._constants import COMPLETION_TIMEOUT, DETAIL_BYTES, LAST_WORD
from leasehold._enums import CompletionResult, RunOutcome
from leasehold._errors.errors import RefusedError
from leasehold._hold.line import Line
from leasehold._hold.saving import checked
from leasehold._runs.schedules import CompletedRun, DefinitionInForce, ScheduleEvent
from leasehold.v1 import hold_pb2, schedule_pb2
from leasehold.v1.lease_service_pb2 import HoldLeaseResponse
from leasehold.v1.schedule_service_pb2 import (
    CompleteRunRequest,
    Run,
    SubscribeScheduleRequest,
    SubscribeScheduleResponse,
)


@dataclass
class Stream:
    """A SubscribeSchedule call."""

    call: Listening[SubscribeScheduleResponse]
    """The call."""
    sent: int
    """When it was sent, on the boot clock."""


@dataclass
class Thread:
    """What the lines of one run have in common, over one stream after the other."""

    request: SubscribeScheduleRequest
    """The subscription."""
    run_id: str
    """The run."""
    tell: Callable[[ScheduleEvent], None]
    """Tells what happens to the subscription."""
    completed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the outcome was told, and that was answered."""
    last: "asyncio.Future[RunLine]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """The line that the run ended on."""


def hold_of(run: Run) -> hold_pb2.Grant:
    """Give the hold of a run, which is to end at the run's deadline here: the sidecar's lasts a little longer (T12)."""
    grant = hold_pb2.Grant()
    grant.CopyFrom(run.grant)
    if run.HasField("deadline"):
        grant.max_hold_ends.CopyFrom(run.deadline)
    return grant


def completion(
    run_id: str, hold: tuple[str, int], outcome: RunOutcome, detail: str = "", checkpoint: bytes | None = None
) -> CompleteRunRequest:
    """Say how a run ended; `hold` is its lease id, and the newest generation that was answered (S16)."""
    lease_id, generation = hold
    return CompleteRunRequest(
        lease_id=lease_id,
        run_id=run_id,
        outcome=schedule_pb2.RunOutcome.ValueType(outcome.value),
        detail=detail.encode(errors="replace")[:DETAIL_BYTES].decode(errors="ignore"),
        generation=generation,
        checkpoint=None if checkpoint is None else checked(checkpoint),
    )


async def complete(calls: Calls, request: CompleteRunRequest, at: Connection | None = None) -> CompletedRun:
    """Say it once."""
    with calls.ending(), calls.knowing_schedules(), calls.about(at) as connection:
        answer = await calls.unary(connection.schedules.CompleteRun, request, COMPLETION_TIMEOUT)
    return CompletedRun._from_wire(answer)


class RunLine(Line):
    """The stream of a subscription while a run goes on."""

    def __init__(self, calls: Calls, stream: Stream, thread: Thread) -> None:
        """Take the stream over."""
        super().__init__(calls, stream.call)
        self._stream: Final = stream
        self._thread: Final = thread
        self._is_over = False
        self._is_lost = False
        self._is_broken = False
        self._handing: asyncio.Task[Stream | None] | None = None

    async def read(self) -> object:
        """Wait for what concerns the run; what comes after its end is for whoever waits for the next one."""
        while not self._is_over:
            try:
                message = await self._call.read()
            except (grpc.aio.AioRpcError, RefusedError):
                self._is_broken = True
                raise
            if not isinstance(message, SubscribeScheduleResponse):
                self._is_broken = True
                return message
            told = self._of_hold(message)
            if told is not None:
                return told
        return await asyncio.get_running_loop().create_future()

    def _of_hold(self, message: SubscribeScheduleResponse) -> HoldLeaseResponse | None:
        """Give what an event means for the hold; None if nothing."""
        event = message.WhichOneof("event")
        match event:
            case "run":
                return HoldLeaseResponse(granted=hold_of(message.run))
            case "renewed" | "at_risk" | "recovered" | "revoked" | "draining" | "lost":
                if event == "lost":
                    self._is_over = self._is_lost = True
                told = HoldLeaseResponse()
                getattr(told, event).CopyFrom(getattr(message, event))
                return told
            case "recorded" if message.recorded.run_id == self._thread.run_id:
                self._is_over = True
                return HoldLeaseResponse(released=hold_pb2.Released())
            case "definition_in_force":
                self._thread.tell(DefinitionInForce._from_wire(message.definition_in_force))
            case _:
                # Of an earlier run, or an event that this version does not know.
                pass
        return None

    def resume(self, resume: hold_pb2.Resume) -> "RunLine":
        """Ask by another subscription, which is no new one."""
        request = SubscribeScheduleRequest()
        request.CopyFrom(self._thread.request)
        request.reconnected = True
        request.resume.CopyFrom(resume)
        request.run_id = self._thread.run_id
        sent = self._calls.clock.now()
        stream = Stream(self._calls.subscribe(request, until_there=True), sent)
        return RunLine(self._calls, stream, self._thread)

    async def release(
        self,
        lease_id: str,
        generation: int,
        checkpoint: bytes | None,
        outcome: int,
    ) -> hold_pb2.ReleaseResult:
        """Have another replica run it."""
        request = completion(self._thread.run_id, (lease_id, generation), RunOutcome.RETURNED, checkpoint=checkpoint)
        with self._calls.knowing_schedules(), self._calls.about(self.connection) as connection:
            answer = await self._calls.unary(connection.schedules.CompleteRun, request, self._calls.release_timeout)
        self._thread.completed.set()
        is_late = CompletionResult(answer.result) is CompletionResult.SUPERSEDED
        outcome = hold_pb2.RELEASE_OUTCOME_ALREADY_LOST if is_late else hold_pb2.RELEASE_OUTCOME_RELEASED
        return hold_pb2.ReleaseResult(
            outcome=outcome,
            checkpoint_outcome=answer.checkpoint_outcome,
            checkpoint_version=answer.checkpoint_version,
        )

    def end(self, *, is_lost: bool) -> None:
        """Leave the stream to the subscription; that of a run that was lost ends soon, whoever asks for the next."""
        if self._thread.last.done():
            return
        self._call.before_cancelled = lambda: None
        self._thread.last.set_result(self)
        self._is_lost |= is_lost
        if self._is_lost:
            self.hand_back()

    def hand_back(self) -> None:
        """Begin to, though nobody may ask for the next run yet."""
        if self._handing is None:
            self._handing = asyncio.get_running_loop().create_task(self._hand_back())

    async def handed_back(self) -> Stream | None:
        """Give the stream back when the run is over; None if it cannot go on."""
        self.hand_back()
        return None if self._handing is None else await asyncio.shield(self._handing)

    async def _hand_back(self) -> Stream | None:
        """Give the stream, or end it.

        It goes on only if the sidecar, too, knows that the run is over: else it would go on renewing a hold that nobody
        believes in; and not after a loss, as the work may go on: the next run comes by another stream (T24). After a
        loss it says so a moment later than the clock here, and a stream that ended meanwhile would be a run that was
        abandoned.
        """
        if not (self._is_broken or self._is_over or self._thread.completed.is_set()):
            listening = asyncio.ensure_future(self._hear_out())
            completed = asyncio.ensure_future(self._thread.completed.wait())
            try:
                await asyncio.wait({listening, completed}, timeout=LAST_WORD, return_when=asyncio.FIRST_COMPLETED)
            finally:
                listening.cancel()
                completed.cancel()
                await asyncio.gather(listening, completed, return_exceptions=True)
        is_known = self._is_over or self._thread.completed.is_set()
        if self._is_broken or self._is_lost or not is_known:
            self._call.drop()
            return None
        return self._stream

    async def _hear_out(self) -> None:
        while not self._is_over and not self._is_broken:
            try:
                await self.read()
            except (grpc.aio.AioRpcError, RefusedError):
                return
