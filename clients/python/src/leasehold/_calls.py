"""The calls over the wire, their deadlines, and the connections that carry them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import grpc
import grpc.aio

from leasehold._boot_clock import Clock
from leasehold._connect import Connector
from leasehold._enums import LossReason
from leasehold._errors import ClosedError, Reason, RefusedError, UnreachableError, refused
from leasehold._records import Loss
from leasehold.v1.hold_pb2 import ReleaseResult, Validity
from leasehold.v1.lease_service_pb2 import (
    HoldLeaseRequest,
    HoldLeaseResponse,
    ReleaseLeaseRequest,
    ReportProgressRequest,
)
from leasehold.v1.lease_service_pb2_grpc import LeaseServiceStub

if TYPE_CHECKING:
    from leasehold.v1.lease_service_pb2_grpc import LeaseServiceAsyncStub

CALL_TIMEOUT: Final = 30.0
"""A call that asks no holder and waits for nothing is given up after so many seconds."""

RELEASE_TIMEOUT: Final = 90.0
"""A release may wait until the lease can no longer be valid (S13), at most one lease duration."""

_STREAMS: Final = 128
"""The streams on one connection. Sidecars allow 256, and releases must get through when that many holds wait."""

HoldCall = grpc.aio.UnaryStreamCall[HoldLeaseRequest, HoldLeaseResponse]

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class _Connection:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel: Final = channel
        self.stub: Final[LeaseServiceAsyncStub] = LeaseServiceStub(channel)
        self.streams = 0

    @property
    def state(self) -> grpc.ChannelConnectivity:
        return self.channel.get_state()

    @property
    def has_failed(self) -> bool:
        return self.state is grpc.ChannelConnectivity.TRANSIENT_FAILURE

    def no_longer(self, _call: object) -> None:
        self.streams -= 1


class Calls:
    """The calls of one client, in one event loop."""

    def __init__(self, connector: Connector, clock: Clock) -> None:
        """Connect to nothing yet."""
        self.clock: Final = clock
        # So that a sidecar on the same kernel knows that the end of a stream is this process's doing (S14).
        self._kernel: Final = (("leasehold-boot-id", clock.boot_id),) if clock.boot_id else ()
        self._connector: Final = connector
        self._closed = False
        self._connections: list[_Connection] = []

    @property
    def stub(self) -> "LeaseServiceAsyncStub":
        """The stub for unary calls and watches."""
        return self._usable().stub

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What each call carries besides its request."""
        return (*self._connector.metadata, *self._kernel)

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        for connection in self._connections:
            await connection.channel.close()

    async def unary(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        timeout: float = CALL_TIMEOUT,  # noqa: ASYNC109 - a deadline of gRPC's, which the sidecar sees
    ) -> _Response:
        """Make a unary call."""
        with self.typed_errors():
            return await method(request, timeout=timeout, metadata=self.metadata)

    def hold(self, request: HoldLeaseRequest, *, until_there: bool = False) -> HoldCall:
        """Open the stream of a hold. It has no deadline (S14).

        With `until_there` it waits for the sidecar to be there, which is looked for as often as `_connect` says.
        """
        connection = self._usable(also_failed=until_there)
        call = connection.stub.HoldLease(request, metadata=self.metadata, wait_for_ready=until_there)
        connection.streams += 1
        call.add_done_callback(connection.no_longer)
        return call

    def _usable(self, *, also_failed: bool = False) -> _Connection:
        """Give a connection with room for a call.

        gRPC refuses calls for up to a second after a try to connect has failed, without another try. So a connection
        that has failed is left to the holds that wait on it to be resumed, and a call makes a new one.
        """
        self._connections = [c for c in self._connections if c.streams or not c.has_failed]
        for connection in self._connections:
            if connection.streams < _STREAMS and (also_failed or not connection.has_failed):
                return connection
        connection = _Connection(self._connector.channel())
        self._connections.append(connection)
        return connection

    async def release(self, lease_id: str, generation: int) -> ReleaseResult:
        """Release a lock; `generation` is the newest that was answered (S16)."""
        request = ReleaseLeaseRequest(lease_id=lease_id, generation=generation)
        return (await self.unary(self.stub.ReleaseLease, request, RELEASE_TIMEOUT)).result

    async def validity(self, lease_id: str, generation: int, *, validity_only: bool) -> Validity:
        """Report progress, or only ask for the validity; `generation` is the newest that was answered (S16)."""
        request = ReportProgressRequest(lease_id=lease_id, validity_only=validity_only, generation=generation)
        return (await self.unary(self.stub.ReportProgress, request)).validity

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
            if any(connection.state in trying for connection in self._connections):
                return UnreachableError(self._connector.endpoint, typed.message)
        return typed


def told_lost(error: RefusedError) -> Loss | None:
    """Give the loss that an answer tells of, if it does."""
    if error.reason is not Reason.HOLD_LOST:
        return None
    reason = LossReason.__members__.get(error.loss_reason or "", LossReason.UNSPECIFIED)
    return Loss(reason, error.message)


_HOPELESS: Final = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNIMPLEMENTED,
}


def final_refusal(error: RefusedError) -> Loss | None:
    """Give the loss, if no try to resume will ever work; anything else may pass (S16)."""
    if error.code not in _HOPELESS or error.reason is Reason.STREAM_BEHIND:
        return None
    detail = f"the sidecar will not resume it: {error}"
    return told_lost(error) or Loss(LossReason.UNSPECIFIED, detail)
