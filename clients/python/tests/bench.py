"""A client before a fake sidecar, in a time of its own or real."""

import asyncio
import selectors
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any, Final, Self, TypeVar, Unpack

import grpc
import grpc.aio
import pytest
from fake import Call, Channel, FakeSidecar, Served
from messages import BASES, MILLISECOND, OURS

import leasehold

T = TypeVar("T")

PATIENCE = 60.0
CRON = "30 2 * * *"


class _Selector(selectors.SelectSelector):
    """Jumps to the next timer instead of waiting for it."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("nothing will ever happen")
        self.loop.now += max(timeout, 0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in a time of its own, which waits for nothing."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


class Clock:
    """A boot clock that reads 1,000 s, until it is moved or goes by a time."""

    boot_id = OURS

    def __init__(self) -> None:
        self.slept = 0.0
        self.time: Callable[[], float] = lambda: 0.0

    def now(self) -> int:
        return BASES["ours"] * MILLISECOND + round((self.time() + self.slept) * 1e9)

    def advance(self, seconds: float) -> None:
        self.slept += seconds


class Bench:
    """A fake sidecar, and clients of it in the time of a VirtualLoop, whose clock stands still.

    Or it is behind a socket, where it can be killed and started, and time is real.
    """

    def __init__(self, sidecar: FakeSidecar | None = None, *, is_served: bool = False) -> None:
        self.sidecar = sidecar or FakeSidecar()
        self.clock = Clock()
        self.events: asyncio.Queue[leasehold.HoldEvent] = asyncio.Queue()
        self.client: leasehold.AsyncClient
        self._is_served: Final = is_served
        self._port = 0
        self._server: grpc.aio.Server | None = None
        self._tasks: Final[list[asyncio.Task[Any]]] = []
        self._clients = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._is_served:
            await self.start()
        self.client = self.another()
        return self

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._clients.aclose()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.kill()

    async def start(self, *, streams: int = 1_000) -> None:
        self._server = grpc.aio.server(options=[("grpc.max_concurrent_streams", streams)])
        self._server.add_generic_rpc_handlers((Served(self.sidecar),))
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
        if not self._is_served:
            vars(client._connector)["channel"] = lambda _tls: Channel(self.sidecar)
        self._clients.push_async_exit(client)
        return client

    def do(self, work: Any) -> "asyncio.Task[Any]":
        """Do it besides, until the test ends."""
        self._tasks.append(asyncio.ensure_future(work))
        return self._tasks[-1]

    async def answer_all(self) -> None:
        """Grant whatever is asked for from now on."""
        while True:
            await self.sidecar.granted()

    async def held(self, client: leasehold.AsyncClient | None = None, **said: Any) -> "tuple[Holder, Call]":
        """A hold that was granted; the clock reads 1,000 s."""
        holder = Holder(self, client)
        call = await self.sidecar.granted(**said)
        await holder.granted.wait()
        assert isinstance(await self.events.get(), leasehold.Granted)
        return holder, call

    async def running(self) -> "tuple[AsyncGenerator[leasehold.AsyncRun, None], leasehold.AsyncRun, Call]":
        """A run that has just come, on this stream."""
        runs = self.client.runs(CRON, function="nightly")
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
