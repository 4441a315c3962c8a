"""The schedules of a sidecar that does what a test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import grpc
from fake import OURS, PATIENCE, Bench, Call, Context, bench, grant, validity
from messages import Refusal

import leasehold
from leasehold.v1 import schedule_pb2, schedule_service_pb2
from leasehold.v1.schedule_service_pb2 import (
    CompleteRunRequest,
    CompleteRunResponse,
    Recorded,
    Run,
    Standby,
    SubscribeScheduleRequest,
    SubscribeScheduleResponse,
    UnderstoodSchedule,
)
from leasehold.v1.schedule_service_pb2_grpc import ScheduleServiceServicer

DUE = datetime.fromtimestamp(1_800, UTC)
STANDBY = SubscribeScheduleResponse(
    standby=Standby(understood=UnderstoodSchedule(expression="30 2 * * *", time_zone="UTC", description="every day"))
)
RECORDED = SubscribeScheduleResponse(recorded=Recorded(run_id="run-1", outcome=schedule_pb2.RUN_OUTCOME_SUCCEEDED))


def due(attempt: int = 2, boot_id: str = OURS, valid_for: float = 58) -> SubscribeScheduleResponse:
    """A run that is granted, with 58 s of validity; the clock stands at 1,000 s."""
    until = 1_000 + valid_for if boot_id else 0
    run = Run(
        grant=grant(validity(boot_id, until, valid_for)).granted,
        run_id="run-1",
        kind=schedule_pb2.RUN_KIND_SCHEDULED,
        local_time="1970-01-01T00:30:00Z[UTC]",
        attempt=attempt,
        max_attempts=3,
        missed_count=7,
    )
    run.scheduled_at.FromDatetime(DUE)
    run.lateness.FromSeconds(4)
    return SubscribeScheduleResponse(run=run)


SubscribeCall = Call[SubscribeScheduleRequest, SubscribeScheduleResponse]


class FakeSchedules(ScheduleServiceServicer):
    """Does what the test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self._calls: asyncio.Queue[SubscribeCall] = asyncio.Queue()
        self.completed: list[CompleteRunRequest] = []
        self.peers: list[str] = []
        """The connections that the completions came over."""
        self.completions: list[schedule_service_pb2.CompletionResult.ValueType | Refusal] = []
        """How the next completions are answered. Default: recorded."""
        self.gate = asyncio.Event()
        """Answers of completions wait for it."""
        self.gate.set()

    async def call(self) -> SubscribeCall:
        """The next SubscribeSchedule call."""
        return await asyncio.wait_for(self._calls.get(), PATIENCE)

    async def running(self) -> SubscribeCall:
        """The same, which has given a run out."""
        call = await self.call()
        call.tell(STANDBY, due())
        return call

    @property
    def outcomes(self) -> list[str]:
        names = (schedule_pb2.RunOutcome.Name(request.outcome) for request in self.completed)
        return [name.removeprefix("RUN_OUTCOME_") for name in names]

    async def SubscribeSchedule(  # noqa: N802
        self, request: SubscribeScheduleRequest, context: Context
    ) -> AsyncIterator[SubscribeScheduleResponse]:
        call = SubscribeCall(request, context.peer())
        self._calls.put_nowait(call)
        async for message in call.follow(context):
            yield message

    async def CompleteRun(self, request: CompleteRunRequest, context: Context) -> CompleteRunResponse:  # noqa: N802
        self.completed.append(request)
        self.peers.append(context.peer())
        await self.gate.wait()
        result = self.completions.pop(0) if self.completions else schedule_service_pb2.COMPLETION_RESULT_RECORDED
        if isinstance(result, Refusal):
            await result.abort(context)
            raise AssertionError
        answer = CompleteRunResponse(result=result)
        answer.next_at.FromSeconds(3_600)
        return answer

    async def _unknown(self, request: Any, context: Context) -> Any:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, type(request).__name__)

    GetSchedule = ListSchedules = PreviewSchedule = PauseSchedule = ResumeSchedule = TriggerSchedule = _unknown
    RemoveSchedule = ResetSchedule = _unknown


@asynccontextmanager
async def scheduled() -> AsyncIterator[tuple[Bench, FakeSchedules, leasehold.AsyncClient]]:
    """A fake sidecar that knows schedules, and a client of it."""
    async with bench() as (made, client):
        await made.kill()
        schedules = FakeSchedules()
        made.schedules = schedules
        await made.start()
        yield made, schedules, client
