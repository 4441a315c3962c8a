"""What the calls that hold nothing answer, as plain values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from leasehold._convert import duration, moment, seconds
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
class BreakResult:
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


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a sidecar accepts at the most. Durations are seconds."""

    wait: float
    """The longest `wait` of a call."""
    max_hold: float
    """The longest `max_hold` of `acquire` and `extend`."""
    default_max_hold: float
    """The `max_hold` of `acquire` where the caller gives none."""
    default_lease_duration: float
    """The `lease_duration` where the caller gives none."""
    holds: int
    """The greatest number of holds at a time."""
    waiters: int
    """The greatest number of callers that wait at a time."""
    streams_per_connection: int
    """The greatest number of streams of one connection."""
    permits: int
    """The greatest number of permits of a lock."""
    checkpoint_bytes: int
    """The greatest size of a checkpoint in bytes; 0 where there can be none."""

    @classmethod
    def _from_wire(cls, wire: lease_service_pb2.ServerLimits) -> Self:
        return cls(
            wait=seconds(duration(wire.wait)),
            max_hold=seconds(duration(wire.max_hold)),
            default_max_hold=seconds(duration(wire.default_max_hold)),
            default_lease_duration=seconds(duration(wire.default_lease_duration)),
            holds=wire.holds,
            waiters=wire.waiters,
            streams_per_connection=wire.streams_per_connection,
            permits=wire.permits,
            checkpoint_bytes=wire.checkpoint_bytes,
        )


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a sidecar is. Behind an address that several share, another one may answer the next call."""

    version: str
    """The version of the program."""
    boot_id: str
    """The kernel's boot id; empty if there is none."""
    limits: ServerLimits
    """The configured limits."""
    features: frozenset[str]
    """What it can do: `checkpoints`, `notice`, `permits`, `sharing`, `wait-without-end`, `break` and so on."""
    host_id: str
    """The host id of the configured provider."""
    host_type: str
    """The host type; empty if there is none."""
    layout: str
    """How lock names are made from keys."""
    store: str
    """The kind of store: `azure`, `sqlite` or `memory`."""
    revision: int
    """Which requests it serves: those that need this revision or a smaller one (S37)."""

    @classmethod
    def _from_wire(cls, wire: lease_service_pb2.GetServerInfoResponse) -> Self:
        return cls(
            version=wire.version,
            boot_id=wire.boot_id,
            limits=ServerLimits._from_wire(wire.limits),
            features=frozenset(wire.features),
            host_id=wire.host_id,
            host_type=wire.host_type,
            layout=wire.layout,
            store=wire.store,
            revision=wire.revision,
        )


@dataclass(frozen=True, slots=True)
class LockChanged:
    """A lock is there, or has changed."""

    record: LockRecord
    """Its record."""


@dataclass(frozen=True, slots=True)
class LockGone:
    """A lock was deleted, or does not have the labels or the share any more."""

    lock_path: str
    """Its path."""


@dataclass(frozen=True, slots=True)
class LocksListed:
    """Everything that is known was told. Repeated at least every 30 s."""

    locks: int
    """How many locks there are."""
    at: datetime | None
    """When the store was listed, by the wall clock."""

    @classmethod
    def _from_wire(cls, wire: lease_service_pb2.Listed) -> Self:
        return cls(wire.locks, moment(wire.at) if wire.HasField("at") else None)


LocksEvent = LockChanged | LockGone | LocksListed
"""What `watch_locks` tells."""
