"""A sidecar in this process that does what a test says, in the place of the connections or behind a socket."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass
from messages import METHODS, Messages, Said, call_of, refusal, words_of

Context = grpc.aio.ServicerContext[Any, Any]

GONE = refusal("UNAVAILABLE")
OLDER = refusal("UNIMPLEMENTED", "UNSUPPORTED", message="2 and 1", needs=2, revision=1)
UNKNOWN = refusal("UNIMPLEMENTED")

_VALIDITY: Final = {"until": 58_000, "for": 58_000}
_ANSWERS: Final[dict[str, Said]] = {
    "release": {"outcome": "RELEASED"},
    "report_progress": _VALIDITY,
    "get_hold": {"until": 60_000, "for": 60_000, "max_hold": {"at": 300_000, "after": 300_000}},
    "extend_lease": {"until": 90_000, "for": 90_000, "max_hold": {"at": 90_000, "after": 90_000}},
    "save_checkpoint": {"version": 1},
    "complete_run": {"result": "RECORDED"},
}
"""What is answered unless a test says otherwise."""


class Call:
    """A stream, with its end at the sidecar and its end at the client."""

    is_granted = False

    def __init__(self, sidecar: "FakeSidecar", name: str, request: Any, peer: str) -> None:
        self.request = request
        self.peer = peer
        """The connection that it came over."""
        self.end: Final = asyncio.Event()
        self.ended: Final = self.end.wait
        self._sidecar: Final = sidecar
        self._name: Final = name
        self._said: Final[asyncio.Queue[Any]] = asyncio.Queue()
        self._over: Final[list[Callable[[Any], None]]] = []

    def say(self, name: str, said: Said) -> None:
        self.is_granted |= name in ("granted", "run")
        self._said.put_nowait(self._sidecar.messages.event(self._name, name, said))

    def tell(self, name: str, **said: Any) -> "Call":
        """Tell an event; a validity ends in 58 s unless it is said when."""
        self.say(name, _VALIDITY | {key.rstrip("_"): value for key, value in said.items()})
        return self

    def fail(self, error: Exception | None = GONE) -> None:
        if not self.done():
            self.end.set()
            self._said.put_nowait(grpc.aio.EOF if error is None else error)
            for callback in self._over:
                callback(self)

    async def read(self) -> object:
        said = await self._said.get()
        if isinstance(said, Exception):
            raise said
        return said

    def cancel(self) -> None:
        if not self.done():
            self._sidecar.cancelled(self)
            self.fail(refusal("CANCELLED"))

    def done(self) -> bool:
        return self.end.is_set()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._over.append(callback)


class FakeSidecar:
    """Does what the test says, and remembers what it was asked."""

    def __init__(self, kernel: str = "ours") -> None:
        self.messages = Messages(kernel)
        self.calls: Final[list[Call]] = []
        """The streams."""
        self.asked: list[str] = []
        """Calls about holds and runs."""
        self.requests: list[Any] = []
        """All that are no streams, and the connections that they came over."""
        self.peers: list[str] = []
        self.metadata: list[tuple[str, str | bytes]] = []
        self.deadline = 0.0
        """How long the newest of these is waited for."""
        self.standing: dict[str, Any] = dict(_ANSWERS)
        """By the name of the call: what is said in a message, the message, an error, or what makes one for a peer."""
        self._answers: Final[defaultdict[str, asyncio.Queue[Any]]] = defaultdict(asyncio.Queue)
        self._streams: Final[defaultdict[str, asyncio.Queue[Call]]] = defaultdict(asyncio.Queue)

    def answer(self, name: str, *answers: Any) -> None:
        """Answer the oldest calls of this name that wait, or the next ones. Without any an answer is waited for."""
        for answer in answers:
            self._answers[name].put_nowait(answer)

    async def call(self, name: str = "hold_lease") -> Call:
        """The next stream of this name."""
        return await self._streams[name].get()

    async def granted(self, **said: Any) -> Call:
        """The next hold, which is granted."""
        return (await self.call()).tell("granted", **said)

    async def running(self, **said: Any) -> Call:
        """The next subscription, which is given a run."""
        call = await self.call("subscribe_schedule")
        return call.tell("standby", understood=True).tell("run", **{"attempt": 2, **said})

    def follow(self, name: str, request: Any, peer: str, metadata: Any) -> Call:
        """Take in what is answered by a stream."""
        self.metadata = list(metadata)
        call = Call(self, name, request, peer)
        self.calls.append(call)
        self._streams[name].put_nowait(call)
        if name in self.standing:
            self.requests.append(request)
            call.fail(self.standing[name])
        return call

    def cancelled(self, call: Call) -> None:
        """Hear that the client has ended a stream."""

    async def ask(self, name: str, request: Any, peer: str, metadata: Any) -> Any:
        """Take in what is answered by a message, and answer."""
        self.metadata = list(metadata)
        self.requests.append(request)
        self.peers.append(peer)
        if hasattr(request, "generation"):
            self.asked.append(call_of(name, request))
        answer = self.standing.get(name) if self._answers[name].empty() else None
        if answer is None:
            answer = await self._answers[name].get()
        if callable(answer):
            answer = answer(peer)
        if isinstance(answer, Exception):
            raise answer
        return self.messages.answer(name, answer) if isinstance(answer, dict) else answer


class Channel:
    """A connection to it that takes no socket."""

    def __init__(self, sidecar: FakeSidecar) -> None:
        self._sidecar: Final = sidecar
        self._peer: Final = f"channel-{id(self)}"

    def get_state(self, *, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY

    async def close(self, grace: float | None = None) -> None:
        for call in self._sidecar.calls:
            if call.peer == self._peer:
                call.cancel()

    def unary_stream(self, path: str, **_more: object) -> Callable[..., Call]:
        def follow(request: Any, *, metadata: Any, **_more: object) -> Call:
            return self._sidecar.follow(words_of(path.rpartition("/")[2]), _sent(request), self._peer, metadata)

        return follow

    def unary_unary(self, path: str, **_more: object) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def ask(request: Any, *, metadata: Any, timeout: float) -> Any:  # noqa: ASYNC109 - as gRPC has it
            self._sidecar.deadline = timeout
            # No answer is there at once.
            await asyncio.sleep(0)
            try:
                async with asyncio.timeout(timeout):
                    name = words_of(path.rpartition("/")[2])
                    return await self._sidecar.ask(name, _sent(request), self._peer, metadata)
            except TimeoutError:
                raise refusal("DEADLINE_EXCEEDED") from None

        return ask


def _sent(request: Any) -> Any:
    return type(request).FromString(request.SerializeToString())


class Served(grpc.GenericRpcHandler):
    """The sidecar behind a socket."""

    def __init__(self, sidecar: FakeSidecar) -> None:
        self._sidecar: Final = sidecar

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        name = words_of(details.method.rpartition("/")[2])
        method = METHODS[name]
        request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        kind, behaviour = ("stream", self._follow) if method.server_streaming else ("unary", self._ask)
        make = getattr(grpc, f"unary_{kind}_rpc_method_handler")
        return make(partial(behaviour, name), request.FromString, answer.SerializeToString)

    async def _follow(self, name: str, request: Any, context: Context) -> AsyncIterator[Any]:
        call = self._sidecar.follow(name, request, context.peer(), context.invocation_metadata() or ())
        try:
            while (said := await call.read()) is not grpc.aio.EOF:
                yield said
        except grpc.aio.AioRpcError as error:
            await _abort(context, error)
        finally:
            call.fail()

    async def _ask(self, name: str, request: Any, context: Context) -> Any:
        try:
            return await self._sidecar.ask(name, request, context.peer(), context.invocation_metadata() or ())
        except grpc.aio.AioRpcError as error:
            await _abort(context, error)


async def _abort(context: Context, error: grpc.aio.AioRpcError) -> None:
    await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata()))
