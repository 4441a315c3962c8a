"""A sidecar in this process that does what a test says, a clock that a test moves, and a client of both."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, Self, TypeVar, Unpack

import grpc
import grpc.aio
import pytest
from google.protobuf.message_factory import GetMessageClass
from messages import BASES, MILLISECOND, OURS, Context, Messages, Refusal, Said, call_of

import leasehold
from leasehold.v1 import lease_service_pb2, schedule_service_pb2

T = TypeVar("T")

PATIENCE = 60.0
GONE = Refusal(grpc.StatusCode.UNAVAILABLE)
OLDER = Refusal(grpc.StatusCode.UNIMPLEMENTED, "UNSUPPORTED", message="2 and 1", needs="2", revision="1")
UNKNOWN = Refusal(grpc.StatusCode.UNIMPLEMENTED)

METHODS: Final = {
    method.name: method
    for file in (lease_service_pb2, schedule_service_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
_VALIDITY: Final = {"until": 58_000, "for": 58_000}
_ANSWERS: Final[dict[str, tuple[str, Said]]] = {
    "ReleaseLease": ("release", {"outcome": "RELEASED"}),
    "ReportProgress": ("report_progress", _VALIDITY),
    "GetHold": ("get_hold", {"until": 60_000, "for": 60_000, "max_hold": {"at": 300_000, "after": 300_000}}),
    "ExtendLease": ("extend_lease", {"until": 90_000, "for": 90_000, "max_hold": {"at": 90_000, "after": 90_000}}),
    "SaveCheckpoint": ("save_checkpoint", {"version": 1}),
    "CompleteRun": ("complete_run", {"result": "RECORDED"}),
}
"""What is answered unless a test says otherwise."""


class FakeClock:
    """A boot clock that stands at 1,000 s until it is moved."""

    boot_id = OURS

    def __init__(self) -> None:
        self._now = BASES["ours"] * MILLISECOND

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += round(seconds * 1_000) * MILLISECOND


class Call:
    """A stream as the sidecar sees it."""

    def __init__(self, name: str, messages: Messages, request: Any, peer: Any) -> None:
        self.request = request
        self.peer = peer
        """The connection that it came over."""
        self.said: Final[asyncio.Queue[Any]] = asyncio.Queue()
        self.end: Final = asyncio.Event()
        self.ended: Final = self.end.wait
        self._kind: Final = GetMessageClass(METHODS[name].output_type)
        self._messages: Final = messages

    def say(self, name: str, said: Said) -> None:
        self.said.put_nowait(self._messages.event(self._kind, name, said))

    def tell(self, name: str, **said: Any) -> "Call":
        """Tell an event; a validity ends in 58 s unless it is said when."""
        self.say(name, _VALIDITY | {key.rstrip("_"): value for key, value in said.items()})
        return self

    def fail(self, refusal: Refusal = GONE) -> None:
        self.said.put_nowait(refusal)

    async def follow(self, context: Context) -> AsyncIterator[Any]:
        try:
            while True:
                said = await self.said.get()
                if isinstance(said, Refusal):
                    await said.abort(context)
                yield said
        finally:
            self.end.set()


class FakeSidecar(grpc.GenericRpcHandler):
    """Does what the test says, and remembers what it was asked. What it does not know is unimplemented."""

    def __init__(self) -> None:
        self.messages = Messages()
        self.asked: list[str] = []
        """Calls about holds and runs."""
        self.requests: list[Any] = []
        """All that are no streams, and the connections that they came over."""
        self.peers: list[str] = []
        self.metadata: list[tuple[str, str | bytes]] = []
        self.deadline = 0.0
        """How long the newest of these is waited for."""
        self.answers: dict[str, Any] = {}
        """By the name of the call: a message, a refusal, what makes one for a peer, or a list of the next ones."""
        self.gate = asyncio.Event()
        """All answers wait for it."""
        self.gate.set()
        self._calls: defaultdict[str, asyncio.Queue[Call]] = defaultdict(asyncio.Queue)

    async def call(self, name: str = "HoldLease") -> Call:
        """The next stream of this name."""
        return await self._calls[name].get()

    async def granted(self, **said: Any) -> Call:
        """The next hold, which is granted."""
        return (await self.call()).tell("granted", **said)

    async def running(self, **said: Any) -> Call:
        """The next subscription, which is given a run."""
        call = await self.call("SubscribeSchedule")
        return call.tell("standby", understood=True).tell("run", attempt=2, **said)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        method = METHODS[details.method.rpartition("/")[2]]
        request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        kind, behaviour = ("stream", self._follow) if method.server_streaming else ("unary", self._answer)
        make = getattr(grpc, f"unary_{kind}_rpc_method_handler")
        return make(partial(behaviour, method.name), request.FromString, answer.SerializeToString)

    async def _follow(self, name: str, request: Any, context: Context) -> AsyncIterator[Any]:
        self.metadata = list(context.invocation_metadata() or ())
        if name in self.answers:
            self.requests.append(request)
            await self.answers[name].abort(context)
        call = Call(name, self.messages, request, context.peer())
        self._calls[name].put_nowait(call)
        async for message in call.follow(context):
            yield message

    async def _answer(self, name: str, request: Any, context: Context) -> Any:
        self.metadata = list(context.invocation_metadata() or ())
        self.requests.append(request)
        self.peers.append(context.peer())
        self.deadline = context.time_remaining()
        if name in _ANSWERS:
            self.asked.append(call_of(request))
        await self.gate.wait()
        answer = self.answers.get(name)
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else None
        if callable(answer):
            answer = answer(context.peer())
        if answer is None:
            answer = self.messages.answer(*_ANSWERS[name]) if name in _ANSWERS else UNKNOWN
        if isinstance(answer, Refusal):
            await answer.abort(context)
        return answer


class Bench:
    """A fake sidecar that can be killed and started, a clock, and clients of both."""

    def __init__(self) -> None:
        self.sidecar = FakeSidecar()
        self.clock = FakeClock()
        self.events: asyncio.Queue[leasehold.HoldEvent] = asyncio.Queue()
        self.tasks: list[asyncio.Task[Any]] = []
        self.client: leasehold.AsyncClient
        self._port = 0
        self._server: grpc.aio.Server | None = None
        self._clients = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        self.client = self.another()
        return self

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._clients.aclose()
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            await self.kill()

    async def start(self, *, streams: int = 1_000) -> None:
        self._server = grpc.aio.server(options=[("grpc.max_concurrent_streams", streams)])
        self._server.add_generic_rpc_handlers((self.sidecar,))
        self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
        await self._server.start()

    async def kill(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def another(self, **options: Unpack[leasehold.ClientOptions]) -> leasehold.AsyncClient:
        client = leasehold.AsyncClient(self.endpoint, **options)
        client._clock = self.clock
        self._clients.push_async_exit(client)
        return client

    def do(self, work: Any) -> "asyncio.Task[Any]":
        """Do it besides, until the test ends."""
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    async def answer_all(self) -> None:
        """Grant whatever is asked for from now on."""
        while True:
            await self.sidecar.granted()

    async def held(self, client: leasehold.AsyncClient | None = None, **said: Any) -> "tuple[Holder, Call]":
        """A hold that was granted; the clock stands at 1,000 s."""
        holder = Holder(self, client)
        call = await self.sidecar.granted(**said)
        await holder.granted.wait()
        assert isinstance(await self.events.get(), leasehold.Granted)
        return holder, call

    async def running(self) -> "tuple[AsyncGenerator[leasehold.AsyncRun, None], leasehold.AsyncRun, Call]":
        """A run that has just come, on this stream."""
        runs = self.client.runs("30 2 * * *", function="nightly")
        asking = asyncio.ensure_future(anext(runs))
        call = await self.sidecar.running()
        return runs, await asking, call

    async def during(self, work: Callable[[leasehold.Client], T]) -> "tuple[Call, asyncio.Task[T]]":
        """Run `work` in a thread; give its hold, which is granted, and the task of the thread."""

        def working() -> T:
            with leasehold.Client(self.endpoint) as client:
                client._in_loop._clock = self.clock
                return work(client)

        task = asyncio.create_task(asyncio.to_thread(working))
        return await self.sidecar.granted(), task


class Holder:
    """A task that holds a lock in a block until it is told to leave."""

    def __init__(self, made: Bench, client: leasehold.AsyncClient | None = None, **options: Any) -> None:
        self.leave = asyncio.Event()
        self.hold: leasehold.AsyncHold
        self.granted = asyncio.Event()
        holding = (client or made.client).hold("f", "s", on_event=made.events.put_nowait, **options)
        self.task = made.do(self._run(holding))

    async def _run(self, holding: leasehold.AsyncHolding) -> None:
        async with holding as self.hold:
            self.granted.set()
            await self.leave.wait()

    async def left(self) -> None:
        self.leave.set()
        await self.task

    async def loss(self) -> leasehold.Loss:
        """The loss that ended the block."""
        with pytest.raises(leasehold.LostError) as caught:
            await self.task
        return caught.value.loss


async def until(condition: Callable[[], object]) -> None:
    """Wait until `condition` is true."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)
