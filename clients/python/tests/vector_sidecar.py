"""A sidecar in the place of the channels, for vectors_test.py: nothing goes over a socket."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import grpc
import grpc.aio
from vector_messages import BASES, MILLISECOND, Messages, Said, error_of

from leasehold._convert import duration
from leasehold.v1 import hold_pb2
from leasehold.v1 import lease_service_pb2 as wire

_CALLS: Final = {
    "ReleaseLease": "release",
    "GetHold": "get_hold",
    "ReportProgress": "report_progress",
    "ExtendLease": "extend_lease",
    "SaveCheckpoint": "save_checkpoint",
}


class Stream:
    """A HoldLease call, as the client has it."""

    def __init__(self, on_cancelled: Callable[[], None]) -> None:
        self.said: Final[asyncio.Queue[wire.HoldLeaseResponse | Exception | None]] = asyncio.Queue()
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
        self._kernel: Final = kernel
        self._messages: Final = Messages(kernel)
        self._is_valid: Final = is_valid
        self._streams: Final[list[Stream]] = []
        self._calls: Final[list[tuple[str, asyncio.Future[Any]]]] = []
        self._prepared: Final[dict[str, object]] = {}
        self._attempts: Final[list[str]] = []

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

    def unary_unary(self, path: str, **_more: object) -> Callable[..., Coroutine[Any, Any, Any]]:
        name = path.rsplit("/", 1)[1]

        async def call(request: Any, timeout: float, metadata: object) -> Any:  # noqa: ASYNC109 - as gRPC has it
            return await self._call(_CALLS.get(name, name), request, timeout)

        return call

    def _open(self, request: wire.HoldLeaseRequest, **_more: object) -> Stream:
        if request.needs != 1:
            self.sent.append("a request that does not need revision 1")
        self.sent.append(self._resume(request.resume) if request.HasField("resume") else asked(request.spec))
        number = len(self._streams)

        def on_cancelled() -> None:
            is_replaced = any(stream.is_granted for stream in self._streams[number + 1 :])
            if not is_replaced and self._is_valid():
                self.faults.append("S14: a stream was ended while the hold was valid")

        stream = Stream(on_cancelled)
        self._streams.append(stream)
        return stream

    def _resume(self, resume: hold_pb2.Resume) -> str:
        told = ""
        if resume.HasField("told_valid_until"):
            told = f" told {duration(resume.told_valid_until.since_boot) // MILLISECOND - BASES[self._kernel]}"
        if resume.attempt_id not in self._attempts:
            self._attempts.append(resume.attempt_id)
        return f"resume {resume.resume_token}{told} attempt {self._attempts.index(resume.attempt_id) + 1}"

    async def _call(self, name: str, request: Any, timeout: float) -> Any:  # noqa: ASYNC109 - as gRPC has it
        if name == "release" and self._is_valid():
            self.faults.append("S13: the hold is valid when its release is sent")
        said = f"{name} {request.generation}"
        if name == "extend_lease":
            said += f" {duration(request.max_hold) // MILLISECOND}"
        if name == "save_checkpoint":
            said += f" {request.value.decode()}"
        self.sent.append(said)
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
            stream.is_granted |= name == "granted"
            stream.said.put_nowait(self._messages.event(name, said))

    def end(self, number: int | None, said: Said) -> None:
        self._on(number).end(error_of(said) if said else None)

    @property
    def open(self) -> list[int]:
        """The numbers of the streams that live."""
        return [number for number, stream in enumerate(self._streams, 1) if stream.is_open]


def asked(spec: hold_pb2.LeaseSpec) -> str:
    """How a lock was asked for."""
    wait = duration(spec.wait) // MILLISECOND
    parts = {"wait": wait, "permits": spec.permits if spec.permits > 1 else 0, "priority": spec.priority}
    said = "".join(f" {name} {value}" for name, value in parts.items() if value)
    return "hold" + said + (" yields" if spec.yields else "") + (f" share {spec.share}" if spec.share else "")
