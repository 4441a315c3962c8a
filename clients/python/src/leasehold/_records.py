"""What the API asks for and answers, as plain values. Times are by the wall clock, in UTC, and for people."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Self

from google.protobuf.timestamp_pb2 import Timestamp

from leasehold._convert import duration, moment, seconds
from leasehold._enums import (
    BreakOutcome,
    BusyReason,
    LockMode,
    LockState,
    LossReason,
    ReleaseOutcome,
    TokenStatus,
)
from leasehold.v1 import hold_pb2, lease_service_pb2, lock_pb2


@dataclass(frozen=True, slots=True)
class LockKey:
    """The name of a lock, as a caller says it."""

    function: str
    """What the lock is for: a job, a function, a resource. At most 1,024 bytes."""
    scope: str = ""
    """The part that splits a function's lock: a tenant, an order, a shard. At most 1,024 bytes."""
    mode: LockMode = LockMode.FUNCTION
    """Whether the lock is held while a function runs, or while a listener listens."""
    host_id: str | None = None
    """Overrides the sidecar's host id."""
    host_type: str | None = None
    """Overrides the sidecar's host type."""

    def _to_wire(self) -> lock_pb2.LockKey:
        return lock_pb2.LockKey(
            function=self.function,
            scope=self.scope,
            mode=lock_pb2.LockMode.ValueType(self.mode.value),
            host_id=self.host_id,
            host_type=self.host_type,
        )

    @classmethod
    def _from_wire(cls, wire: lock_pb2.LockKey) -> Self:
        return cls(
            wire.function,
            wire.scope,
            LockMode(wire.mode),
            wire.host_id if wire.HasField("host_id") else None,
            wire.host_type if wire.HasField("host_type") else None,
        )


def selector(lock: LockKey | str) -> lock_pb2.LockSelector:
    """Name a lock by its key, or by its path."""
    if isinstance(lock, LockKey):
        return lock_pb2.LockSelector(key=lock._to_wire())
    return lock_pb2.LockSelector(lock_path=lock)


@dataclass(frozen=True, slots=True)
class BreakNote:
    """Why, by whom and when a lock was broken."""

    reason: str
    """The operator's reason."""
    broken_by: str
    """Who broke it."""
    broken_at: datetime | None
    """When."""
    fencing_token: int | None
    """The token of the hold that was broken; None if it was not known."""

    @classmethod
    def _from_wire(cls, wire: lock_pb2.BreakNote) -> Self:
        token = wire.fencing_token if wire.HasField("fencing_token") else None
        broken_at = moment(wire.broken_at) if wire.HasField("broken_at") else None
        return cls(wire.reason, wire.broken_by, broken_at, token)


@dataclass(frozen=True, slots=True)
class LockRecord:
    """A lock as the store and the sidecar know it. It may be out of date, and excludes nobody."""

    lock_path: str
    """The lock path: container, slash, name in the container."""
    host_id: str
    """The host id in the path; empty where the path does not show one."""
    key: LockKey | None
    """The key the lock was last taken by; None if it was never taken through Leasehold."""
    state: LockState
    """What the lock is doing."""
    fencing_token: int | None
    """The token of the newest grant; None if there was none."""
    holder: str
    """Who holds the lock, or held it last; empty if unknown."""
    host_type: str
    """The host type of that holder."""
    labels: Mapping[str, str]
    """The labels that the holder gave."""
    acquired_at: datetime | None
    """When the newest grant was made, by the store's clock."""
    resting_until: datetime | None
    """Until when nobody gets the lock because of `min_hold`; None if it does not rest."""
    written_at: datetime | None
    """When the record was last written; None if the lock does not exist in the store yet."""
    waiters_here: int
    """How many callers wait for the lock at this sidecar."""
    held_here: bool
    """Whether the lock is held through this sidecar."""
    holder_is_last_recorded: bool
    """Whether `holder` was only recorded last, and somebody who leaves no record may have the lock: a WebJobs host."""
    break_note: BreakNote | None
    """The newest break of the lock; None if it was never broken."""

    @classmethod
    def _from_wire(cls, wire: lock_pb2.LockRecord) -> Self:
        def at(name: str, value: Timestamp) -> datetime | None:
            return moment(value) if wire.HasField(name) else None  # type: ignore[arg-type]

        return cls(
            lock_path=wire.lock_path,
            host_id=wire.host_id,
            key=LockKey._from_wire(wire.key) if wire.HasField("key") else None,
            state=LockState(wire.state),
            fencing_token=wire.fencing_token if wire.HasField("fencing_token") else None,
            holder=wire.holder,
            host_type=wire.host_type,
            labels=MappingProxyType(dict(wire.labels)),
            acquired_at=at("acquired_at", wire.acquired_at),
            resting_until=at("resting_until", wire.resting_until),
            written_at=at("written_at", wire.written_at),
            waiters_here=wire.waiters_here,
            held_here=wire.held_here,
            holder_is_last_recorded=wire.holder_is_last_recorded,
            break_note=BreakNote._from_wire(wire.break_note) if wire.HasField("break_note") else None,
        )


@dataclass(frozen=True, slots=True)
class Busy:
    """The lock was not acquired within the wait."""

    record: LockRecord | None
    """The lock's record, as far as it is known: who holds it, since when."""
    retry_after: float
    """When to ask again: seconds, counted from the answer."""
    reason: BusyReason
    """Why the lock is not available."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Busy) -> Self:
        record = LockRecord._from_wire(wire.record) if wire.HasField("record") else None
        return cls(record, seconds(duration(wire.retry_after)), BusyReason(wire.reason))


@dataclass(frozen=True, slots=True)
class Validity:
    """Until when a holder may act, in the sidecar's words."""

    boot_id: str
    """Whose boot clock `valid_until` is a reading of: readings compare only where it is the same and not empty."""
    valid_until: float
    """The end of validity: seconds since boot on that clock (CLOCK_BOOTTIME)."""
    valid_for: float
    """The seconds from when the message was made; count them only from before the request that it answers."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Validity) -> Self:
        told = wire.valid_until
        return cls(told.boot_id, seconds(duration(told.since_boot)), seconds(duration(wire.valid_for)))


@dataclass(frozen=True, slots=True)
class Grant:
    """What makes the caller a holder."""

    lease_id: str = field(repr=False)
    """Names this hold in calls. Who knows it can end the hold, so it is not shown."""
    lock_path: str
    """The path of the lock."""
    host_id: str
    """The host id in that path."""
    fencing_token: int
    """Greater than every token granted for this lock path before (S5): 1 to 2^53 - 1."""
    validity: Validity
    """Until when the holder may act, unless renewed, as it was at the grant."""
    acquired_at: datetime
    """When the grant was made."""
    expires_at: datetime
    """When the validity ends unless renewed; never to be counted on."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Grant) -> Self:
        return cls(
            lease_id=wire.lease_id,
            lock_path=wire.lock_path,
            host_id=wire.host_id,
            fencing_token=wire.fencing_token,
            validity=Validity._from_wire(wire.validity),
            acquired_at=moment(wire.acquired_at),
            expires_at=moment(wire.expires_at),
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a hold is over, though its holder did not end it."""

    reason: LossReason
    """Why."""
    detail: str = ""
    """The same for people."""
    break_note: BreakNote | None = None
    """Who broke the lock and why, where it was broken and that is known."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.Lost) -> Self:
        note = BreakNote._from_wire(wire.break_note) if wire.HasField("break_note") else None
        return cls(LossReason(wire.reason), wire.detail, note)

    def __str__(self) -> str:
        return f"{self.reason.name}: {self.detail}" if self.detail else self.reason.name


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """What a release did."""

    outcome: ReleaseOutcome
    """What happened."""
    loss_reason: LossReason | None = None
    """Why the hold had been lost; with outcome ALREADY_LOST only."""
    resting_until: datetime | None = None
    """Until when nobody gets the lock, by the store's clock; with outcome RESTING only."""

    @classmethod
    def _from_wire(cls, wire: hold_pb2.ReleaseResult) -> Self:
        outcome = ReleaseOutcome(wire.outcome)
        lost = outcome is ReleaseOutcome.ALREADY_LOST
        return cls(
            outcome,
            LossReason(wire.loss_reason) if lost else None,
            moment(wire.resting_until) if wire.HasField("resting_until") else None,
        )


@dataclass(frozen=True, slots=True)
class Extension:
    """The result of a new `max_hold`."""

    validity: Validity
    """Until when the holder may act, unless renewed."""
    max_hold_ends_at: datetime
    """When the new `max_hold` ends."""

    @classmethod
    def _from_wire(cls, wire: lease_service_pb2.ExtendLeaseResponse) -> Self:
        return cls(Validity._from_wire(wire.validity), moment(wire.max_hold_ends_at))


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
