"""The checkpoint of a lock, as its holder knows it."""

import threading
from typing import Final

from leasehold._errors import ArgumentError
from leasehold._records import Checkpoint
from leasehold.v1 import lock_pb2

LONGEST: Final = 2_048
"""The bytes of the longest checkpoint (S23)."""


def checked(value: bytes) -> bytes:
    """Give a value that can be saved."""
    if len(value) > LONGEST:
        raise ArgumentError(
            f"the checkpoint has {len(value):,} bytes; at most {LONGEST:,} are allowed: save where it is instead",
        )
    return bytes(value)


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
