"""The checkpoint of a lock, as its holder knows it."""

import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from leasehold._connect.calls import Calls, told_lost
from leasehold._connect.listening import Connection
from leasehold._constants import CHECKPOINT_BYTES
from leasehold._convert import seconds
from leasehold._errors.answers import LostError
from leasehold._errors.errors import ArgumentError, RefusedError
from leasehold._hold.grants import Loss
from leasehold._hold.state import LocalState
from leasehold._records import Checkpoint
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1.lease_service_pb2 import SaveCheckpointRequest, SaveCheckpointResponse

_T = TypeVar("_T")


class Kept(Protocol):
    """What a save or a release has to know of the hold, and of the keeper that keeps it."""

    refused: Loss | None
    """The answer to a resume that was refused."""
    resuming: bool
    """Whether the stream broke, and no resume was answered yet."""
    generation: int
    """The newest that was answered (S16)."""

    @property
    def state(self) -> LocalState:
        """What the holder and the keeper both know of the hold."""

    @property
    def known(self) -> "Known":
        """The newest checkpoint that is known."""

    @property
    def lease_id(self) -> str:
        """The id of the lease."""

    @property
    def connection(self) -> Connection | None:
        """What carries its stream, and the calls about it."""

    @property
    def lock_path(self) -> str:
        """The path of the lock."""

    @property
    def is_unkept(self) -> bool:
        """Whether nobody reads the stream any more."""

    def check(self) -> None:
        """Raise unless the hold is valid."""

    async def call(self, make: Callable[[int], Awaitable[_T]]) -> tuple[int, _T]:
        """Make a call about the hold, by its newest generation; give when it was sent, and the answer (S21)."""

    async def resumed(self) -> None:
        """Wait until no resume is unanswered, as long as the hold is valid."""

    async def release_there(self, checkpoint: bytes | None, outcome: int) -> hold_pb2.ReleaseResult:
        """Ask the sidecar for the release."""

    def released(self) -> None:
        """End the hold and the stream."""

    def unheard(self) -> None:
        """End them where the sidecar may not know that the hold is over."""


def as_json(value: Any) -> bytes:
    """Give `value` as JSON in UTF-8, without spaces. Raises TypeError or ValueError if it cannot be JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def checked(value: bytes) -> bytes:
    """Give a value that can be saved."""
    if len(value) > CHECKPOINT_BYTES:
        raise ArgumentError(
            f"the checkpoint has {len(value):,} bytes; at most {CHECKPOINT_BYTES:,} are allowed: store the data "
            "elsewhere, and save its address",
        )
    return bytes(value)


async def save(keeper: Kept, calls: Calls, value: bytes) -> int:
    """Save a value while the hold is valid; give the version that the store has then.

    While the hold is being resumed it waits, and carries the generation that is answered (S16).
    """
    sending = checked(value)
    known, state = keeper.known, keeper.state
    order = known.begin()
    await keeper.resumed()
    keeper.check()

    def send(generation: int) -> Awaitable[SaveCheckpointResponse]:
        request = SaveCheckpointRequest(lease_id=keeper.lease_id, generation=generation, value=sending)
        return calls.save(request, seconds(state.remaining()), keeper.connection)

    try:
        sent, answer = await keeper.call(send)
    except RefusedError as error:
        loss = told_lost(error)
        if loss is None:
            raise
        raise LostError(keeper.lock_path, loss) from error
    known.saved(sending, answer.version, order)
    if answer.HasField("validity"):
        state.take_in(answer.validity, sent)
    return answer.version


class Known:
    """The newest checkpoint that is known. Answers may come in another order than they were given in."""

    def __init__(self, fencing_token: int) -> None:
        """Know none yet."""
        self._fencing_token: Final = fencing_token
        # A save may be begun in one thread while another asks.
        self._lock: Final = threading.Lock()
        self._newest: Checkpoint | None = None
        self._order = 0
        self._begun = 0

    @property
    def newest(self) -> Checkpoint | None:
        """The newest."""
        with self._lock:
            return self._newest

    def told(self, wire: lock_pb2.Checkpoint) -> None:
        """Take in what a grant carries."""
        with self._lock:
            if self._newest is None or wire.version > self._newest.version:
                self._newest = Checkpoint._from_wire(wire)
                self._order = 0

    def begin(self) -> int:
        """Give a save its place among the others of this hold."""
        with self._lock:
            self._begun += 1
            return self._begun

    def saved(self, value: bytes, version: int, order: int) -> None:
        """Take in that the store has `version`: this value, or that of a newer save that took its place (S26)."""
        with self._lock:
            known = (self._newest.version, self._order) if self._newest else (0, 0)
            if (version, order) > known:
                self._newest = Checkpoint(value, version, self._fencing_token)
                self._order = order
