"""A sidecar in the place of the channels, for vectors_test.py: nothing goes over a socket."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import grpc
import grpc.aio
from messages import Askings, Messages, Said, call_of, error_of

from leasehold.v1.lease_service_pb2 import HoldLeaseRequest, HoldLeaseResponse
from leasehold.v1.schedule_service_pb2 import SubscribeScheduleResponse


class Stream:
    """A HoldLease or SubscribeSchedule call, as the client has it."""

    def __init__(self, request: Any, on_cancelled: Callable[[], None]) -> None:
        self.kind: Final = HoldLeaseResponse if isinstance(request, HoldLeaseRequest) else SubscribeScheduleResponse
        self.said: Final[asyncio.Queue[Any]] = asyncio.Queue()
        self.is_open = True
        self.is_granted = False
        self._on_cancelled: Final = on_cancelled
        self._over: Final[list[Callable[[Any], None]]] = []

    async def read(self) -> object:
        said = await self.said.get()
        if isinstance(said, Exception):
            raise said
        return grpc.aio.EOF if said is None else said

    def cancel(self) -> None:
        if self.is_open:
            self._on_cancelled()
            self.end(error_of({"code": "CANCELLED"}))

    def end(self, error: Exception | None) -> None:
        if self.is_open:
            self.is_open = False
            self.said.put_nowait(error)
            for callback in self._over:
                callback(self)

    def done(self) -> bool:
        return not self.is_open

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._over.append(callback)


class VectorSidecar:
    """Does what a vector says, and remembers what it was sent. It is a channel, and makes it."""

    reloads = False
    release_timeout = 10.0

    def __init__(self, kernel: str, is_valid: Callable[[], bool]) -> None:
        self.sent: list[str] = []
        self.faults: list[str] = []
        self._messages: Final = Messages(kernel)
        self._askings: Final = Askings(kernel)
        self._is_valid: Final = is_valid
        self._streams: Final[list[Stream]] = []
        self._calls: Final[list[tuple[str, asyncio.Future[Any]]]] = []
        self._prepared: Final[dict[str, object]] = {}

    def metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def tls(self) -> None:
        return None

    def channel(self, _tls: None) -> "VectorSidecar":
        return self

    def get_state(self, *, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY

    async def close(self, grace: float | None = None) -> None:
        pass

    def unary_stream(self, _path: str, **_more: object) -> Callable[..., Stream]:
        return self._open

    def unary_unary(self, _path: str, **_more: object) -> Callable[..., Coroutine[Any, Any, Any]]:
        return self._call

    def _open(self, request: Any, **_more: object) -> Stream:
        self.sent.append(self._askings.words(request))
        number = len(self._streams)

        def on_cancelled() -> None:
            is_replaced = any(stream.is_granted for stream in self._streams[number + 1 :])
            if not is_replaced and self._is_valid():
                self.faults.append("S14: a stream was ended while the hold was valid")

        stream = Stream(request, on_cancelled)
        self._streams.append(stream)
        return stream

    async def _call(self, request: Any, timeout: float, metadata: object) -> Any:  # noqa: ASYNC109 - as gRPC has it
        self.sent.append(call_of(request))
        name = self.sent[-1].split()[0]
        if name in ("release", "complete_run") and self._is_valid():
            self.faults.append("S13: the hold is valid when its release is sent")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls.append((name, answer))
        if name in self._prepared:
            self._give(name, self._prepared.pop(name))
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise error_of({"code": "DEADLINE_EXCEEDED"}) from None
        finally:
            self._calls[:] = [call for call in self._calls if call[1] is not answer]

    def _give(self, name: str, answer: object) -> None:
        """Answer the oldest call of this name; where there is none, the next one."""
        for called, waiting in self._calls:
            if called == name:
                self._calls.remove((called, waiting))
                if isinstance(answer, Exception):
                    waiting.set_exception(answer)
                else:
                    waiting.set_result(answer)
                return
        self._prepared[name] = answer

    def answer(self, name: str, said: Said) -> None:
        self._give(name, self._messages.answer(name, said))

    def refuse(self, name: str, said: Said) -> None:
        self._give(name, error_of(said))

    def _on(self, number: int | None) -> Stream:
        """A stream by its number, and the newest without one."""
        return self._streams[-1 if number is None else number - 1]

    def tell(self, number: int | None, events: dict[str, Said]) -> None:
        stream = self._on(number)
        for name, said in events.items():
            stream.is_granted |= name in ("granted", "run")
            stream.said.put_nowait(self._messages.event(stream.kind, name, said))

    def end(self, number: int | None, said: Said) -> None:
        self._on(number).end(error_of(said) if said else None)

    @property
    def open(self) -> list[int]:
        """The numbers of the streams that live."""
        return [number for number, stream in enumerate(self._streams, 1) if stream.is_open]
