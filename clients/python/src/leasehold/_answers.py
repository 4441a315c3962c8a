"""What the calls that hold nothing answer, as plain values."""

from dataclasses import dataclass
from typing import Self

from leasehold._convert import duration, seconds
from leasehold._enums import BreakOutcome, TokenStatus
from leasehold._records import LockRecord
from leasehold.v1 import lease_service_pb2


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """What a fencing token is, compared with the newest of its lock."""

    status: TokenStatus
    """What the token is."""
    newest_fencing_token: int | None
    """The newest token of the lock that is known; None if it was never granted."""

    @classmethod
    def _from_wire(cls, wire: lease_service_pb2.CheckTokenResponse) -> Self:
        newest = wire.newest_fencing_token if wire.HasField("newest_fencing_token") else None
        return cls(TokenStatus(wire.status), newest)


@dataclass(frozen=True, slots=True)
class Break:
    """What a break did."""

    outcome: BreakOutcome
    """What happened."""
    free_in: float | None
    """When the lock is free: seconds, counted from the answer; with outcome BREAKING only."""
    record: LockRecord
    """What is known of the lock after the break."""

    @classmethod
    def _from_wire(cls, wire: lease_service_pb2.BreakLockResponse) -> Self:
        free_in = seconds(duration(wire.free_in)) if wire.HasField("free_in") else None
        return cls(BreakOutcome(wire.outcome), free_in, LockRecord._from_wire(wire.record))


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """The lock path of a key, and where it comes from."""

    lock_path: str
    """The path of the lock."""
    host_id: str
    """The host id in it."""
    host_type: str
    """The host type that is recorded with the lock; empty if the sidecar has none."""
    provider: str
    """Where the host id came from."""
    layout: str
    """How the lock name is made from the key."""

    @classmethod
    def _from_wire(cls, wire: lease_service_pb2.ResolvePathResponse) -> Self:
        return cls(wire.lock_path, wire.host_id, wire.host_type, wire.provider, wire.layout)
