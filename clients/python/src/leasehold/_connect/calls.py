"""The calls over the wire, their deadlines, and the connections that carry them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import WeakSet

import grpc
import grpc.aio

from leasehold._connect.forking import connecting
from leasehold._connect.listening import Connection, Listening
from leasehold._connect.needs import needs
from leasehold._connect.options import Connector
from leasehold._connect.tracing import trace_metadata
from leasehold._constants import CALL_TIMEOUT, FIRST_PAUSE, SAVE_GRACE, SILENCE, STREAMS_PER_CONNECTION
from leasehold._enums import LossReason, Reason
from leasehold._errors.errors import (
    CheckpointUnknownError,
    ClosedError,
    RefusedError,
    UnreachableError,
    UnsupportedError,
    is_below_needs,
    is_unanswered,
    refused,
)
from leasehold._hold.boot_clock import Clock
from leasehold._hold.grants import Loss
from leasehold.v1.hold_pb2 import ReleaseResult, Validity
from leasehold.v1.lease_service_pb2 import (
    ExtendLeaseRequest,
    ExtendLeaseResponse,
    GetHoldRequest,
    GetHoldResponse,
    HoldLeaseRequest,
    HoldLeaseResponse,
    ReleaseLeaseRequest,
    ReportProgressRequest,
    SaveCheckpointRequest,
    SaveCheckpointResponse,
    WatchLockRequest,
    WatchLockResponse,
    WatchLocksRequest,
    WatchLocksResponse,
)
from leasehold.v1.schedule_pb2 import RunOutcome
from leasehold.v1.schedule_service_pb2 import SubscribeScheduleRequest, SubscribeScheduleResponse

if TYPE_CHECKING:
    from leasehold.v1.lease_service_pb2_grpc import LeaseServiceAsyncStub
    from leasehold.v1.schedule_service_pb2_grpc import ScheduleServiceAsyncStub

_STREAMS: Final = STREAMS_PER_CONNECTION // 2
"""So many streams go over a connection: it has room for a call beside each, also of a run that comes later."""

LONGEST_LEASE: Final = 60.0
"""No lease lasts longer unless it is renewed, in seconds."""

_LOOK: Final = 1.0

HoldCall = Listening[HoldLeaseResponse]

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class Held(Protocol):
    """A hold that is released when its client is closed."""

    async def abandon(self, loss: Loss) -> None:
        """Have it lost, and release the lock."""


class Calls:
    """The calls of one client, in one event loop."""

    def __init__(self, connector: Connector, clock: Clock) -> None:
        """Connect to nothing yet."""
        self.clock: Final = clock
        self.release_timeout: Final = connector.release_timeout
        self.silence = SILENCE
        # So that a sidecar on the same kernel knows that the end of a stream is this process's doing (S14).
        self._kernel: Final = (("leasehold-boot-id", clock.boot_id),) if clock.boot_id else ()
        self._connector: Final = connector
        self.loop: Final = asyncio.get_running_loop()
        self._closed = False
        # The short calls that are under way.
        self._under_way = 0
        self._opened: Final[WeakSet[Listening[Any]]] = WeakSet()
        # One for calls that are about no stream, and never moves: a lease id means something to one sidecar alone.
        self._general: Connection | None = None
        # The others for streams, and for the calls about them.
        self._lasting: list[Connection] = []
        self._places: Final[WeakSet[Place]] = WeakSet()
        # Of what was granted over another connection than the general one, and is known by its lease id alone.
        self._granted: Final[dict[str, Place]] = {}
        self.held: Final[set[Held]] = set()
        """The holds that are not over."""
        self._endings: Final[set[asyncio.Future[None]]] = set()
        self._closing: Final[set[asyncio.Task[None]]] = set()

    @property
    def stub(self) -> "LeaseServiceAsyncStub":
        """The stub for calls that are about no stream."""
        return self.at(None).stub

    @property
    def schedules(self) -> "ScheduleServiceAsyncStub":
        """The stub for such calls about schedules."""
        return self.at(None).schedules

    def at(self, connection: Connection | None) -> Connection:
        """Give the connection for calls about what came over `connection`: that one, as long as it is there (S37).

        A channel keeps its certificates. Where there are others, one that has failed never connects again.
        """
        if connection in self._lasting and not (connection.has_failed and self._has_old_certificates(connection)):
            return connection
        if self._general is None or not self._is_usable(self._general):
            if self._general is not None:
                self._close(self._general)
            self._general = self._connect()
        return self._general

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What each call carries besides its request."""
        return (*self._connector.metadata(), *self._kernel, *trace_metadata())

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Do a release or a completion, which the end of the client waits for."""
        ended = self.loop.create_future()
        self._endings.add(ended)
        try:
            yield
        finally:
            self._endings.discard(ended)
            ended.set_result(None)

    async def ended(self) -> None:
        """Wait until those that are under way have ended, as long as a release may take."""
        if self._endings:
            await asyncio.wait(self._endings, timeout=self.release_timeout)

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        for connection in self._made():
            await connection.channel.close()
        await asyncio.gather(*self._closing)
        # gRPC's thread ends with the last channel, and only then may the process fork.
        self._general, self._lasting = None, []

    def _made(self) -> list[Connection]:
        return [connection for connection in (self._general, *self._lasting) if connection is not None]

    @property
    def is_ending(self) -> bool:
        """Whether the calls over the connections are about to end, all of them."""
        return not self._under_way and all(stream.is_ending or stream.done() for stream in self._opened)

    def close_idle(self) -> bool:
        """Close the connections if no call is made over any of them; say whether none is left."""
        # A hold that has a place and no stream is over, or is taken up again over whatever connection there is then.
        places = sum(place.connection is not None for place in self._places)
        if self._under_way or self._closing or sum(connection.places for connection in self._lasting) > places:
            return False
        self._general, self._lasting = None, []
        for place in self._places:
            place.move(None)
        for stream in list(self._opened):
            stream.let_go()
        return True

    async def sidecar(self, wait: float) -> float:
        """Wait until a connection stands, for so many seconds at the most. Whether one does, the next call tells.

        Gives how long that took; nothing where the first try succeeds.
        """
        began, pause, has_failed = self.loop.time(), FIRST_PAUSE, False
        while (left := began + wait - self.loop.time()) > 0:
            with self.typed_errors():
                # One that has failed is made anew.
                channel = self.at(None).channel
                state = channel.get_state(try_to_connect=True)
                if state is grpc.ChannelConnectivity.READY:
                    break
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    has_failed = True
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _LOOK)):
                        await channel.wait_for_state_change(state)
                if channel.get_state() is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    has_failed = True
                    await asyncio.sleep(min(left, pause))
                    pause = min(2 * pause, _LOOK)
        return self.loop.time() - began if has_failed else 0

    async def unary(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        timeout: float = CALL_TIMEOUT,  # noqa: ASYNC109 - a deadline of gRPC's, which the sidecar sees
    ) -> _Response:
        """Make a unary call."""
        self._under_way += 1
        try:
            with self.typed_errors():
                return await method(request, timeout=timeout, metadata=self.metadata)
        finally:
            self._under_way -= 1

    @contextmanager
    def about(self, at: Connection | None, lease_id: str = "") -> Iterator[Connection]:
        """Give the connection for a call about what came over `at`, or about what a unary call was granted.

        It stays for as long as the call goes on.
        """
        place = self._granted.get(lease_id)
        connection = self.at(at if place is None else place.connection)
        connection.places += 1
        try:
            yield connection
        finally:
            self.leave(connection)

    @contextmanager
    def lasting(self) -> Iterator[Connection]:
        """Give the connection for a unary call that may last."""
        connection = self.at(None)
        if connection.streams >= STREAMS_PER_CONNECTION:
            connection = self._with_room()
        self._begin(connection)
        try:
            yield connection
        finally:
            self._end(connection)

    def granted(self, lease_id: str, connection: Connection) -> None:
        """Keep the connection of such a call, where another is not there for all calls, until that is released."""
        if connection in self._lasting:
            self._granted[lease_id] = Place(self, connection)

    def hold(self, request: HoldLeaseRequest, *, until_there: bool = False) -> HoldCall:
        """Open the stream of a hold. It has no deadline (S14).

        With `until_there` it waits for the sidecar to be there, which is looked for as often as `_connect` says.
        """
        # A channel keeps its certificates. Where they may change, each try takes a channel that has the newest.
        until_there = until_there and not self._connector.reloads
        connection = self._with_room(also_failed=until_there)
        request.needs = needs(request)
        call = connection.stub.HoldLease(request, metadata=self.metadata, wait_for_ready=until_there)
        return self._listen(connection, call)

    def subscribe(
        self, request: SubscribeScheduleRequest, *, until_there: bool = False
    ) -> Listening[SubscribeScheduleResponse]:
        """Open the stream of a subscription, as that of a hold."""
        until_there = until_there and not self._connector.reloads
        connection = self._with_room(also_failed=until_there)
        request.needs = needs(request)
        call = connection.schedules.SubscribeSchedule(request, metadata=self.metadata, wait_for_ready=until_there)
        return self._listen(connection, call)

    def watch(self, request: WatchLockRequest) -> Listening[WatchLockResponse]:
        """Open the stream of a watch."""
        connection = self._with_room()
        return self._listen(connection, connection.stub.WatchLock(request, metadata=self.metadata))

    def watch_all(self, request: WatchLocksRequest) -> Listening[WatchLocksResponse]:
        """Open the stream of a watch of all locks."""
        connection = self._with_room()
        return self._listen(connection, connection.stub.WatchLocks(request, metadata=self.metadata))

    def _listen(
        self,
        connection: Connection,
        call: grpc.aio.UnaryStreamCall[_Request, _Response],
    ) -> Listening[_Response]:
        self._begin(connection)
        call.add_done_callback(lambda _call: self._end(connection))
        listening = Listening(call, self.silence, connection)
        self._opened.add(listening)
        return listening

    def _with_room(self, *, also_failed: bool = False) -> Connection:
        """Give a connection with room for a call that lasts.

        gRPC refuses calls for up to a second after a try to connect has failed, without another try. So a connection
        that has failed is left to the holds that wait on it to be resumed, and a call makes a new one.
        """
        for connection in list(self._lasting):
            if not connection.places and (connection.is_given_up or not self._is_usable(connection)):
                self._lasting.remove(connection)
                self._close(connection)
        for connection in self._lasting:
            is_usable = self._is_usable(connection) or (also_failed and connection.has_failed)
            if connection.streams < _STREAMS and is_usable and not connection.is_given_up:
                return connection
        connection = self._connect()
        self._lasting.append(connection)
        return connection

    def _is_usable(self, connection: Connection) -> bool:
        """Say whether a call over the connection would have the newest certificates and not be refused at once."""
        if connection.has_failed:
            return False
        return connection.state is grpc.ChannelConnectivity.READY or not self._has_old_certificates(connection)

    def _has_old_certificates(self, connection: Connection) -> bool:
        return self._connector.reloads and connection.tls != self._connector.tls()

    def _connect(self) -> Connection:
        if self._closed:
            raise ClosedError("the client was closed")
        connecting(self)
        tls = self._connector.tls()
        return Connection(self._connector.channel(tls), tls)

    def _begin(self, connection: Connection) -> None:
        connection.streams += 1
        connection.places += 1

    def _end(self, connection: Connection) -> None:
        connection.streams -= 1
        self.leave(connection)

    def leave(self, connection: Connection) -> None:
        """Say that a call or a hold is over. A connection that is not needed any more is closed."""
        connection.places -= 1
        others = (other for other in self._lasting if other is not connection)
        is_needed = not connection.is_given_up and all(other.is_given_up for other in others)
        if not connection.places and not is_needed and connection in self._lasting:
            self._lasting.remove(connection)
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        # What goes on over it may end.
        closing = asyncio.get_running_loop().create_task(connection.channel.close(CALL_TIMEOUT))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def release(
        self,
        lease_id: str,
        generation: int,
        checkpoint: bytes | None = None,
        outcome: int = 0,
        at: Connection | None = None,
    ) -> ReleaseResult:
        """Release a lock; `generation` is the newest that was answered (S16)."""
        request = ReleaseLeaseRequest(
            lease_id=lease_id, generation=generation, checkpoint=checkpoint, outcome=RunOutcome.ValueType(outcome)
        )
        with self.ending(), self.about(at, lease_id) as connection:
            answer = await self.unary(connection.stub.ReleaseLease, request, self.release_timeout)
        if place := self._granted.pop(lease_id, None):
            place.move(None)
        return answer.result

    async def save(
        self, request: SaveCheckpointRequest, valid_for: float, at: Connection | None = None
    ) -> SaveCheckpointResponse:
        """Save a checkpoint. The sidecar answers when the store does, or when the validity is over (S27)."""
        try:
            with self.about(at, request.lease_id) as connection:
                return await self.unary(connection.stub.SaveCheckpoint, request, valid_for + SAVE_GRACE)
        except RefusedError as error:
            if is_unanswered(error) or error.reason is Reason.CHECKPOINT_UNKNOWN:
                raise CheckpointUnknownError(error) from error
            if error.code is grpc.StatusCode.UNIMPLEMENTED:
                raise UnsupportedError.lacking("checkpoints") from error
            raise

    async def extend(self, request: ExtendLeaseRequest, at: Connection | None = None) -> ExtendLeaseResponse:
        """Set a new `max_hold`."""
        with self.about(at, request.lease_id) as connection:
            return await self.unary(connection.stub.ExtendLease, request)

    async def report_progress(self, lease_id: str, generation: int, at: Connection | None = None) -> Validity:
        """Report progress; `generation` is the newest that was answered (S16)."""
        request = ReportProgressRequest(lease_id=lease_id, generation=generation)
        with self.about(at, lease_id) as connection:
            return (await self.unary(connection.stub.ReportProgress, request)).validity

    async def get_hold(self, lease_id: str, generation: int, at: Connection | None = None) -> GetHoldResponse:
        """Ask for a hold's validity and state; `generation` is the newest that was answered (S16)."""
        request = GetHoldRequest(lease_id=lease_id, generation=generation)
        with self.about(at, lease_id) as connection:
            return await self.unary(connection.stub.GetHold, request)

    @contextmanager
    def knowing_schedules(self) -> Iterator[None]:
        """Have a sidecar that is older than schedules found out (S37), and raise this client's own errors."""
        try:
            with self.typed_errors():
                yield
        except RefusedError as error:
            if error.code is grpc.StatusCode.UNIMPLEMENTED and error.reason is None:
                raise UnsupportedError.lacking("schedules") from error
            raise

    @contextmanager
    def typed_errors(self) -> Iterator[None]:
        """Turn what gRPC raises into this client's own errors."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise self._refused(error) from error
        except grpc.aio.UsageError as error:
            raise ClosedError(f"the client was closed: {error}") from None
        except asyncio.CancelledError:
            # A channel that is closed cancels its calls, which is no cancellation of the task that made them.
            task = asyncio.current_task()
            if self._closed and task is not None and task.cancelling() == 0:
                raise ClosedError("the client was closed during the call") from None
            raise

    def _refused(self, error: grpc.aio.AioRpcError) -> RefusedError:
        """Give the typed error, which says so if nobody answers there."""
        typed = refused(error)
        if typed.code is grpc.StatusCode.UNAVAILABLE and typed.reason_name is None:
            trying = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.CONNECTING)
            if any(connection.state in trying for connection in self._made()):
                return UnreachableError(self._connector.endpoint, typed.message)
        return typed


class Place:
    """A hold's on the connection of its stream, which stays open for what is to be said of the hold (S37)."""

    def __init__(self, calls: Calls, connection: Connection | None) -> None:
        """Take it."""
        self._calls: Final = calls
        self.connection: Connection | None = None
        """The connection, while it is kept."""
        self._calls._places.add(self)
        self.move(connection)

    def move(self, to: Connection | None) -> None:
        """Take a place there, and give the one back that it had."""
        left, self.connection = self.connection, to
        if to is not None:
            to.places += 1
        if left is not None:
            self._calls.leave(left)


def told_lost(error: RefusedError) -> Loss | None:
    """Give the loss that an answer tells of, if it does."""
    if error.reason not in (Reason.HOLD_LOST, Reason.HOLD_RELEASED):
        return None
    return Loss(error.loss_reason or LossReason.UNSPECIFIED, error.message)


_HOPELESS: Final = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNIMPLEMENTED,
}


def final_refusal(error: RefusedError) -> Loss | None:
    """Give the loss, if no try to resume will ever work; anything else may pass (S16), also a sidecar's age (S37)."""
    if error.code not in _HOPELESS or error.reason is Reason.STREAM_BEHIND or is_below_needs(error):
        return None
    detail = f"the sidecar will not resume it: {error}"
    return told_lost(error) or Loss(LossReason.UNSPECIFIED, detail)
