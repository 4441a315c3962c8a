"""The stream that a hold lives by (S14)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from leasehold._connect.calls import Calls
from leasehold._connect.listening import Connection, Listening
from leasehold.v1 import hold_pb2
from leasehold.v1.lease_service_pb2 import HoldLeaseRequest


class Line(ABC):
    """The stream that a hold lives by, and what is done at its sidecar besides."""

    def __init__(self, calls: Calls, call: Listening[Any]) -> None:
        """Live by `call`."""
        self._calls: Final = calls
        self._call: Final = call

    @property
    def says_known(self) -> bool:
        """Whether the sidecar is told by a release that the holder knows of its loss (S13)."""
        return False

    @property
    def connection(self) -> Connection | None:
        """What carries it, and the calls about the hold."""
        return self._call.connection

    def guard(self, ending: Callable[[], None]) -> None:
        """Have `ending` called before the event loop cancels the stream."""
        self._call.before_cancelled = ending

    async def read(self) -> object:
        """Wait for the next HoldLeaseResponse; what is not one is the end of the stream. May be cancelled."""
        return await self._call.read()

    def cancel(self) -> None:
        """End the stream."""
        self._call.cancel()

    def drop(self) -> None:
        """End the stream, which nothing depends on any more."""
        self._call.drop()

    def end(self, *, is_lost: bool) -> None:  # noqa: ARG002 - for a run, whose stream outlives it
        """Say that the hold is over here, lost or ended by its holder.

        Called on the line that it lives by; may be repeated.
        """
        self.cancel()

    @abstractmethod
    def hand_back(self) -> None:
        """Have a stream that `end` has left open end, too, unless the sidecar knows that the hold is over."""

    @abstractmethod
    def resume(self, resume: hold_pb2.Resume) -> "Line":
        """Ask to take the hold up again, over another stream (S16)."""

    @abstractmethod
    async def release(
        self, lease_id: str, generation: int, checkpoint: bytes | None, outcome: int
    ) -> hold_pb2.ReleaseResult:
        """Have the lock released, after the hold has ended here (S13)."""


class HoldLine(Line):
    """A HoldLease stream."""

    @property
    def says_known(self) -> bool:
        """A run's loss is told by its outcome; this one's by a release."""
        return True

    def hand_back(self) -> None:
        """Do nothing: it has ended."""

    def resume(self, resume: hold_pb2.Resume) -> "HoldLine":
        """Ask by another HoldLease."""
        return HoldLine(self._calls, self._calls.hold(HoldLeaseRequest(resume=resume), until_there=True))

    async def release(
        self, lease_id: str, generation: int, checkpoint: bytes | None, outcome: int
    ) -> hold_pb2.ReleaseResult:
        """Release it."""
        return await self._calls.release(lease_id, generation, checkpoint, outcome, self.connection)
