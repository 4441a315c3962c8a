"""A stream of answers that is not waited for without end, and the connection that carries it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import grpc
import grpc.aio

from leasehold._connect.guarded import Guarded
from leasehold._connect.options import Tls
from leasehold._errors.errors import RefusedError, is_below_needs, refused
from leasehold.v1.lease_service_pb2_grpc import LeaseServiceStub
from leasehold.v1.schedule_service_pb2_grpc import ScheduleServiceStub

if TYPE_CHECKING:
    from leasehold.v1.lease_service_pb2_grpc import LeaseServiceAsyncStub
    from leasehold.v1.schedule_service_pb2_grpc import ScheduleServiceAsyncStub

_T = TypeVar("_T")

ENDED: Final = "the sidecar ended the stream without a reason"
"""What is said of a stream that has ended without a word."""


class Connection:
    """A channel, and what goes on over it."""

    def __init__(self, channel: grpc.aio.Channel, tls: Tls | None) -> None:
        """Carry nothing yet."""
        self.channel: Final = channel
        self.stub: Final[LeaseServiceAsyncStub] = LeaseServiceStub(channel)
        self.schedules: Final[ScheduleServiceAsyncStub] = ScheduleServiceStub(channel)
        self.tls: Final = tls
        self.streams = 0
        """How many streams, and other calls that last, it carries."""
        self.places = 0
        """How many of these, and of other calls and holds, need it."""
        self.is_given_up = False
        """Whether no further call that lasts goes over it: nothing was heard for long, or its sidecar is too old."""

    @property
    def state(self) -> grpc.ChannelConnectivity:
        """What the channel is doing."""
        return self.channel.get_state()

    @property
    def has_failed(self) -> bool:
        """Whether the last try to connect failed."""
        return self.state is grpc.ChannelConnectivity.TRANSIENT_FAILURE


class SilentError(RefusedError):
    """Nothing was heard over a stream for so long that the connection is taken for dead."""

    def __init__(self, silence: float) -> None:
        message = f"nothing was heard from the sidecar for {silence:g} s"
        super().__init__(grpc.StatusCode.UNAVAILABLE, message)


class _Ended:
    """In the place of a stream that has ended, because that would keep its channel."""

    async def read(self) -> object:
        return grpc.aio.EOF

    def cancel(self) -> None:
        """Do nothing: it has ended."""

    def done(self) -> bool:
        return True

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        callback(self)


class Listening(Generic[_T]):
    """A stream of answers."""

    def __init__(self, call: grpc.aio.UnaryStreamCall[Any, _T], silence: float, connection: Connection) -> None:
        """Read `call`; give `connection` up if nothing is heard for `silence` seconds, or by a sidecar's age (S37)."""
        self._call: grpc.aio.UnaryStreamCall[Any, _T] | _Ended = call
        self._silence: Final = silence
        self.connection: Connection | None = connection
        """What carries it, and the calls about what it brings; None once nothing does."""
        self._reading: asyncio.Task[object] | None = None
        self.is_ending = False
        """Whether it was ended from here."""
        self.before_cancelled: Callable[[], None] = lambda: None
        """Called before the event loop cancels the stream, as it does at its own end."""

    async def read(self) -> object:
        """Wait for the next answer; what is not one is the end of the stream.

        Raises SilentError, after which the stream still lives, and is to be cancelled; cancelling the task that waits
        does not cancel it either, and loses no answer.
        """
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(Guarded(self._next(), self._cancelling))
            # Where nobody waits for it any more, what it ends with concerns nobody.
            self._reading.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        done, _ = await asyncio.wait({self._reading}, timeout=self._silence)
        if not done:
            self._give_up()
            raise SilentError(self._silence)
        reading, self._reading = self._reading, None
        try:
            return reading.result()
        except BaseException as error:  # noqa: BLE001 - it is raised again
            if isinstance(error, grpc.aio.AioRpcError) and is_below_needs(refused(error)):
                self._give_up()
            # Whoever keeps the error is not to keep gRPC's frames, and by them the channel.
            raise error.with_traceback(None) from error.__cause__

    def _give_up(self) -> None:
        if self.connection is not None:
            self.connection.is_given_up = True

    def _cancelling(self) -> None:
        self.before_cancelled()

    def _next(self) -> Coroutine[Any, Any, object]:
        return self._call.read()

    def cancel(self) -> None:
        """End the stream."""
        self.is_ending = True
        self._call.cancel()

    def drop(self) -> None:
        """End the stream, which nothing depends on any more."""
        self.before_cancelled = lambda: None
        self.cancel()

    def let_go(self) -> None:
        """Keep nothing of a stream that has ended."""
        self._call, self.connection, self._reading = _Ended(), None, None

    def done(self) -> bool:
        """Say whether the stream has ended."""
        return self._call.done()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Have `callback` called when the stream has ended."""
        self._call.add_done_callback(callback)
