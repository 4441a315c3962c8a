"""A sidecar in this process that does what a test says, and a clock that a test moves."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar, Unpack

import grpc
import grpc.aio
from messages import Refusal

import leasehold
from leasehold import RunOutcome
from leasehold._convert import SECOND
from leasehold.v1 import hold_pb2
from leasehold.v1 import lease_service_pb2 as wire
from leasehold.v1.lease_service_pb2_grpc import (
    LeaseServiceServicer,
    add_LeaseServiceServicer_to_server,
)
from leasehold.v1.schedule_service_pb2_grpc import ScheduleServiceServicer, add_ScheduleServiceServicer_to_server

PATIENCE = 60.0
OURS = "kernel-a"
ELSEWHERE = "kernel-b"

Context = grpc.aio.ServicerContext[Any, Any]
_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")


class FakeClock:
    """A boot clock that stands at 1,000 s until it is moved."""

    def __init__(self, boot_id: str = OURS) -> None:
        self.boot_id = boot_id
        self._now = 1_000 * SECOND
        self._lock = threading.Lock()

    def now(self) -> int:
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._now += round(seconds * SECOND)


def validity(boot_id: str, until: float, valid_for: float) -> hold_pb2.Validity:
    told = hold_pb2.Validity()
    told.valid_until.boot_id = boot_id
    told.valid_until.since_boot.FromNanoseconds(round(until * SECOND))
    told.valid_for.FromNanoseconds(round(valid_for * SECOND))
    return told


def grant(told: hold_pb2.Validity, token: int = 65_536) -> wire.HoldLeaseResponse:
    return wire.HoldLeaseResponse(
        granted=hold_pb2.Grant(
            lease_id="lease-1",
            resume_token="resume-1",
            lock_path="locks/p/h/f/s/FUNCTION",
            fencing_token=token,
            generation=1,
            validity=told,
        ),
    )


def deadline(boot_id: str, at: float, after: float) -> hold_pb2.Deadline:
    told = hold_pb2.Deadline()
    told.at.boot_id = boot_id
    told.at.since_boot.FromNanoseconds(round(at * SECOND))
    told.after.FromNanoseconds(round(after * SECOND))
    return told


def renewed(told: hold_pb2.Validity) -> wire.HoldLeaseResponse:
    return wire.HoldLeaseResponse(renewed=hold_pb2.Renewed(validity=told))


def older() -> Refusal:
    return Refusal(grpc.StatusCode.UNIMPLEMENTED, "UNSUPPORTED", message="2 and 1", needs="2", revision="1")


class Call(Generic[_Request, _Answer]):
    """A stream as the sidecar sees it."""

    def __init__(self, request: _Request, peer: str) -> None:
        self.request = request
        self.peer = peer
        """The connection that it came over."""
        self._said: asyncio.Queue[_Answer | Refusal] = asyncio.Queue()
        self._ended = asyncio.Event()

    def tell(self, *messages: _Answer) -> None:
        for message in messages:
            self._said.put_nowait(message)

    def fail(self, refusal: Refusal) -> None:
        self._said.put_nowait(refusal)

    @property
    def is_open(self) -> bool:
        return not self._ended.is_set()

    async def ended(self) -> None:
        await asyncio.wait_for(self._ended.wait(), PATIENCE)

    async def follow(self, context: Context) -> AsyncIterator[_Answer]:
        try:
            while True:
                said = await self._said.get()
                if isinstance(said, Refusal):
                    await said.abort(context)
                else:
                    yield said
        finally:
            self._ended.set()


HoldCall = Call[wire.HoldLeaseRequest, wire.HoldLeaseResponse]


class FakeSidecar(LeaseServiceServicer):
    """Does what the test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.peers: list[str] = []
        """The connections that calls without a stream came over."""
        self.metadata: list[tuple[str, str | bytes]] = []
        self.release: Refusal | hold_pb2.ReleaseResult | None = None
        self.lost: Refusal | None = None
        self.on_release: Callable[[], object] = lambda: None
        self.gate = asyncio.Event()
        """Answers of calls without a method of their own wait for it."""
        self.gate.set()
        self.pages: list[wire.ListLocksResponse] = []
        self.watches = 0
        self.is_deaf = False
        self.watch_stays_open = False
        self.answer: Any = None
        self.answers: list[Any] = []
        """What is answered before `answer`."""
        self.requests: list[Any] = []
        self._holds: asyncio.Queue[HoldCall] = asyncio.Queue()

    async def hold(self) -> HoldCall:
        """The next HoldLease call."""
        return await asyncio.wait_for(self._holds.get(), PATIENCE)

    async def granted(self, token: int = 65_536) -> HoldCall:
        """The same, which is granted until 1,058 s."""
        call = await self.hold()
        call.tell(grant(validity(OURS, 1_058, 58), token))
        return call

    async def HoldLease(  # noqa: N802
        self, request: wire.HoldLeaseRequest, context: Context
    ) -> AsyncIterator[wire.HoldLeaseResponse]:
        self.metadata = list(context.invocation_metadata() or ())
        assert request.needs == 1, "S37"
        call = HoldCall(request, context.peer())
        self._holds.put_nowait(call)
        async for message in call.follow(context):
            yield message

    async def ReleaseLease(  # noqa: N802
        self, request: wire.ReleaseLeaseRequest, context: Context
    ) -> wire.ReleaseLeaseResponse:
        self.on_release()
        self.peers.append(context.peer())
        if self.is_deaf:
            await asyncio.Event().wait()
        await self.gate.wait()
        checkpoint = f" with {request.checkpoint!r}" if request.HasField("checkpoint") else ""
        outcome = f" as {RunOutcome(request.outcome).name}" if request.outcome else ""
        self.asked.append(f"release {request.lease_id} of generation {request.generation}{checkpoint}{outcome}")
        if isinstance(self.release, Refusal):
            await self.release.abort(context)
            raise AssertionError
        result = self.release or hold_pb2.ReleaseResult(outcome=hold_pb2.RELEASE_OUTCOME_RELEASED)
        return wire.ReleaseLeaseResponse(result=result)

    async def ReportProgress(  # noqa: N802
        self, request: wire.ReportProgressRequest, context: Context
    ) -> wire.ReportProgressResponse:
        self.peers.append(context.peer())
        self.asked.append(f"report progress of generation {request.generation}")
        return wire.ReportProgressResponse(validity=validity(OURS, 1_058, 58))

    async def GetHold(  # noqa: N802
        self, _request: wire.GetHoldRequest, context: Context
    ) -> wire.GetHoldResponse:
        self.peers.append(context.peer())
        if self.lost is not None:
            await self.lost.abort(context)
        return wire.GetHoldResponse(validity=validity(OURS, 1_060, 60), max_hold_ends=deadline(OURS, 1_300, 300))

    async def ExtendLease(  # noqa: N802
        self, request: wire.ExtendLeaseRequest, context: Context
    ) -> wire.ExtendLeaseResponse:
        self.peers.append(context.peer())
        self.asked.append(f"extend {request.max_hold.seconds} of generation {request.generation}")
        return wire.ExtendLeaseResponse(validity=validity(OURS, 1_090, 90), max_hold_ends=deadline(OURS, 1_090, 90))

    async def ListLocks(  # noqa: N802
        self, request: wire.ListLocksRequest, context: Context
    ) -> wire.ListLocksResponse:
        self.asked.append(f"list {request.page_token!r}")
        self.requests.append(request)
        return self.pages[int(request.page_token or 0)]

    async def WatchLock(  # noqa: N802
        self, request: wire.WatchLockRequest, context: Context
    ) -> AsyncIterator[wire.WatchLockResponse]:
        self.watches += 1
        self.requests.append(request)
        for page in self.pages:
            for record in page.records:
                yield wire.WatchLockResponse(record=record)
        if self.watch_stays_open:
            await asyncio.Event().wait()
        if isinstance(self.answer, Refusal):
            await self.answer.abort(context)

    async def _answered(self, request: Any, context: Context) -> Any:
        self.peers.append(context.peer())
        self.requests.append(request)
        await self.gate.wait()
        self.metadata = list(context.invocation_metadata() or ())
        answer = self.answers.pop(0) if self.answers else self.answer
        if isinstance(answer, Refusal):
            await answer.abort(context)
        return answer(context.peer()) if callable(answer) else answer

    WatchLocks: Any = None
    AcquireLease = GetLock = CheckToken = BreakLock = ResolvePath = GetServerInfo = SaveCheckpoint = _answered


class Bench:
    """A fake sidecar that can be killed and started, a clock, and a client of both."""

    def __init__(self, boot_id: str = OURS) -> None:
        self.sidecar = FakeSidecar()
        self.clock = FakeClock(boot_id)
        self.events: asyncio.Queue[leasehold.HoldEvent] = asyncio.Queue()
        self.tasks: list[asyncio.Task[None]] = []
        self.port = 0
        self._server: grpc.aio.Server | None = None
        self.schedules: ScheduleServiceServicer | None = None

    async def start(self, *, streams: int = 1_000) -> None:
        self._server = grpc.aio.server(options=[("grpc.max_concurrent_streams", streams)])
        add_LeaseServiceServicer_to_server(self.sidecar, self._server)
        if self.schedules is not None:
            add_ScheduleServiceServicer_to_server(self.schedules, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def kill(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def another(self, **options: Unpack[leasehold.ClientOptions]) -> leasehold.AsyncClient:
        client = leasehold.AsyncClient(self.endpoint, **options)
        client._clock = self.clock
        return client

    async def answer_all(self) -> None:
        """Grant whatever is asked for from now on."""
        while True:
            await self.sidecar.granted()

    async def event(self) -> leasehold.HoldEvent:
        return await asyncio.wait_for(self.events.get(), PATIENCE)


@asynccontextmanager
async def bench(**options: Unpack[leasehold.ClientOptions]) -> AsyncIterator[tuple[Bench, leasehold.AsyncClient]]:
    made = Bench()
    await made.start()
    try:
        async with made.another(**options) as client:
            yield made, client
    finally:
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        await made.kill()


class Holder:
    """A task that holds a lock in a block until it is told to leave."""

    def __init__(self, made: Bench, client: leasehold.AsyncClient, *, wait: float = 0) -> None:
        self.leave = asyncio.Event()
        self.hold: leasehold.AsyncHold
        self.granted = asyncio.Event()
        self.cancelled = False
        holding = client.hold("f", "s", on_event=made.events.put_nowait, wait=wait)
        self.task = asyncio.create_task(self._run(holding))
        made.tasks.append(self.task)

    async def _run(self, holding: leasehold.AsyncHolding) -> None:
        async with holding as self.hold:
            self.granted.set()
            try:
                await self.leave.wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise

    async def loss(self) -> leasehold.Loss:
        """The loss that ended the block."""
        try:
            await asyncio.wait_for(self.task, PATIENCE)
        except leasehold.LostError as error:
            return error.loss
        raise AssertionError("the hold was not lost")


async def held(made: Bench, client: leasehold.AsyncClient, told: hold_pb2.Validity) -> tuple[Holder, HoldCall]:
    """A hold that was granted with `told`; the clock stands at 1,000 s."""
    holder = Holder(made, client)
    call = await made.sidecar.hold()
    call.tell(grant(told))
    await asyncio.wait_for(holder.granted.wait(), PATIENCE)
    assert isinstance(await made.event(), leasehold.Granted)
    return holder, call


async def granted(made: Bench, client: leasehold.AsyncClient) -> tuple[Holder, HoldCall]:
    return await held(made, client, validity(OURS, 1_058, 58))


async def eventually(what: str, condition: Callable[[], bool]) -> None:
    """Wait until `condition` is true."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(what) from None
