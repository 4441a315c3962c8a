"""The fake sidecar in the place of the channels, for vectors_test.py: nothing goes over a socket."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import grpc
import grpc.aio
from fake import Call
from messages import Askings, Messages, Said, call_of, error_of


class NearCall(Call):
    """A stream, and the client's end of it."""

    is_granted = False

    def __init__(self, sidecar: "NearSidecar", channel: "Channel", name: str, request: Any, **_more: object) -> None:
        super().__init__(name, sidecar.messages, request, channel)
        self._sidecar: Final = sidecar
        self._over: Final[list[Callable[[Any], None]]] = []
        sidecar.opened(self)

    def say(self, name: str, said: Said) -> None:
        self.is_granted |= name in ("granted", "run")
        super().say(name, said)

    async def read(self) -> object:
        said = await self.said.get()
        if isinstance(said, Exception):
            raise said
        return grpc.aio.EOF if said is None else said

    def cancel(self) -> None:
        if not self.done():
            self._sidecar.cancelled(self)
            self.over(error_of({"code": "CANCELLED"}))

    def over(self, error: Exception | None) -> None:
        if not self.done():
            self.end.set()
            self.said.put_nowait(error)
            for callback in self._over:
                callback(self)

    def done(self) -> bool:
        return self.end.is_set()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._over.append(callback)


class Channel:
    """A connection to it."""

    is_too_old = False
    """Whether its sidecar is, as was told."""

    def __init__(self, sidecar: "NearSidecar") -> None:
        self._sidecar: Final = sidecar

    def get_state(self, *, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY

    async def close(self, grace: float | None = None) -> None:
        pass

    def unary_stream(self, path: str, **_more: object) -> Callable[..., NearCall]:
        return partial(NearCall, self._sidecar, self, path.rpartition("/")[2])

    def unary_unary(self, _path: str, **_more: object) -> Callable[..., Coroutine[Any, Any, Any]]:
        return partial(self._sidecar.call, self)


class NearSidecar:
    """Does what a vector says, remembers what it was sent, and watches over what holds always."""

    def __init__(self, kernel: str, is_valid: Callable[[], bool]) -> None:
        self.sent: list[str] = []
        self.faults: list[str] = []
        self.messages: Final = Messages(kernel)
        self._askings: Final = Askings(kernel)
        self._is_valid: Final = is_valid
        self._calls: Final[list[NearCall]] = []
        self.answers: Final[defaultdict[str, asyncio.Queue[Any]]] = defaultdict(asyncio.Queue)
        """For each call. The oldest that waits has the first one, and the next call one for which none waits."""
        self.connector: Final[Any] = SimpleNamespace(
            reloads=False, release_timeout=10.0, metadata=tuple, tls=lambda: None, channel=lambda _tls: Channel(self)
        )

    def opened(self, call: NearCall) -> None:
        self.sent.append(self._askings.words(call.request))
        if call.peer.is_too_old or any(other.peer is call.peer for other in self._calls if not other.done()):
            self.faults.append("S14, S37: a stream goes over a connection that is to be left")
        self._calls.append(call)

    def cancelled(self, call: NearCall) -> None:
        is_replaced = any(later.is_granted for later in self._calls[self._calls.index(call) + 1 :])
        if not is_replaced and self._is_valid():
            self.faults.append("S14: a stream was ended while the hold was valid")

    async def call(self, channel: Channel, request: Any, *, timeout: float, **_more: object) -> Any:  # noqa: ASYNC109 - as gRPC has it
        self.sent.append(call_of(request))
        name = self.sent[-1].split()[0]
        if name in ("release", "complete_run") and self._is_valid():
            self.faults.append("S13: the hold is valid when its release is sent")
        if channel is not [call.peer for call in self._calls if call.is_granted][-1]:
            self.faults.append("S37: a call goes over another connection than the hold's stream")
        try:
            async with asyncio.timeout(timeout):
                answer = await self.answers[name].get()
        except TimeoutError:
            answer = error_of({"code": "DEADLINE_EXCEEDED"})
        if isinstance(answer, Exception):
            raise answer
        return answer

    def on(self, number: int | None) -> NearCall:
        """A stream by its number, and the newest without one."""
        return self._calls[-1 if number is None else number - 1]

    def end(self, number: int | None, said: Said) -> None:
        call = self.on(number)
        call.peer.is_too_old |= "needs" in said
        call.over(error_of(said) if said else None)

    @property
    def open(self) -> list[int]:
        """The numbers of the streams that live."""
        return [number for number, call in enumerate(self._calls, 1) if not call.done()]
