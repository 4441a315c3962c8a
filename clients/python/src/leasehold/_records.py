"""Locks as the API names and records them. Times are by the wall clock, in UTC, and for people."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from types import MappingProxyType
from typing import Any, Self

from google.protobuf.timestamp_pb2 import Timestamp

from leasehold._convert import duration, moment, seconds
from leasehold._enums import BreakMode, LockMode, LockState
from leasehold._errors.errors import ArgumentError
from leasehold.v1 import lock_pb2


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


def selector(lock: LockKey | str, permit: int = 0) -> lock_pb2.LockSelector:
    """Name a lock by its key, and the number of its permit, or by its path."""
    if isinstance(lock, LockKey):
        return lock_pb2.LockSelector(key=lock._to_wire(), permit=permit)
    if permit:
        raise ArgumentError(f"permit is {permit}, and the lock is named by its path; a path names its permit itself")
    return lock_pb2.LockSelector(lock_path=lock)


@dataclass(frozen=True, slots=True)
class BreakNote:
    """Why, by whom and when a lock was broken."""

    reason: str
    """The reason, in words: the operator's, or the sidecar's."""
    broken_by: str
    """Who broke it."""
    broken_at: datetime | None
    """When."""
    fencing_token: int | None
    """The token of the hold that was broken; None if it was not known."""
    mode: BreakMode | None = None
    """How the lease was broken; None if the note does not say."""
    for_priority: int | None = None
    """The priority of the waiting caller for which it was broken (S33); None if an operator broke it."""

    @classmethod
    def _from_wire(cls, wire: lock_pb2.BreakNote) -> Self:
        token = wire.fencing_token if wire.HasField("fencing_token") else None
        broken_at = moment(wire.broken_at) if wire.HasField("broken_at") else None
        mode = BreakMode.told(wire.mode)
        priority = wire.for_priority if wire.HasField("for_priority") else None
        return cls(wire.reason, wire.broken_by, broken_at, token, mode, priority)


@dataclass(frozen=True, slots=True)
class Reservation:
    """For whom a lock is kept for a short while, after it was broken for a caller of greater priority (S33)."""

    priority: int
    """Callers of a smaller priority are not granted the lock."""
    until: datetime
    """Until then, by the store's clock."""

    @classmethod
    def _from_wire(cls, wire: lock_pb2.Reservation) -> Self:
        return cls(wire.priority, moment(wire.until))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A small value stored with a lock: where the next holder goes on from (S23)."""

    value: bytes
    """The value, at most 2,048 bytes. Anybody who may read locks can read it."""
    version: int
    """Grows with each save of the lock's checkpoint."""
    fencing_token: int
    """The token of the holder that saved it."""
    saved_at: datetime | None = None
    """When it was saved, by the store's clock; None in a hold that has saved it itself."""

    @classmethod
    def _from_wire(cls, wire: lock_pb2.Checkpoint) -> Self:
        saved_at = moment(wire.saved_at) if wire.HasField("saved_at") else None
        return cls(wire.value, wire.version, wire.fencing_token, saved_at)

    def json(self) -> Any:
        """Give the value that `save_json` has saved. Raises ValueError if it is not JSON."""
        return json.loads(self.value)


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
    """When the record was last written; None if the lock does not exist in the store yet, while this sidecar has it,
    and in a watch of many locks."""
    waiters_here: int
    """How many callers wait for the lock at this sidecar."""
    held_here: bool
    """Whether the lock is held through this sidecar."""
    holder_is_last_recorded: bool
    """Whether `holder` was only recorded last, and somebody who leaves no record may have the lock: a WebJobs host."""
    break_note: BreakNote | None
    """The newest break of the lock; None if it was never broken."""
    lease_duration: float | None
    """The seconds of the lease that the holder asked for; None unless the lock is held through this sidecar."""
    renewed_at: datetime | None
    """When the lease was renewed last, by the store's clock; None unless the lock is held through this sidecar.

    `lease_duration` later the lock becomes available at the latest if its holder dies now.
    """
    checkpoint: Checkpoint | None
    """The lock's checkpoint; None if there is none, or if it was not asked for (`get_lock`, `with_checkpoint`)."""
    checkpoint_version: int | None
    """The version of the lock's checkpoint; None if there is none."""
    checkpoint_size: int | None
    """The bytes of the checkpoint's value; None if there is none."""
    permit: int
    """Which permit of the lock this is: 0 for the lock's own path."""
    permits: int
    """How many permits the newest holder asked for; 0 if the record does not say."""
    sidecar: str
    """Which sidecar acquired the lock: its name and a number of the process; empty if the record does not say."""
    share: str
    """The group of like locks that the holder named; empty for none."""
    priority: int
    """The holder's priority."""
    yields: bool
    """Whether the holder yields to a greater priority."""
    reserved: Reservation | None
    """For whom the lock is kept after a break; None if it is for nobody in particular."""
    kept_until: datetime | None
    """Until when the sidecar that answers grants the lock to nobody, by its wall clock.

    The lock's former holder there may not know that its hold is over (S13). None if it is not kept for such a holder.
    """

    def __reduce__(self) -> "tuple[Callable[..., LockRecord], tuple[object, ...]]":
        # A view of the labels cannot be pickled.
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return _unpickled, ({**values, "labels": dict(self.labels)},)

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
            lease_duration=seconds(duration(wire.lease_duration)) if wire.HasField("lease_duration") else None,
            renewed_at=at("renewed_at", wire.renewed_at),
            checkpoint=Checkpoint._from_wire(wire.checkpoint) if wire.HasField("checkpoint") else None,
            checkpoint_version=wire.checkpoint_version if wire.HasField("checkpoint_version") else None,
            checkpoint_size=wire.checkpoint_size if wire.HasField("checkpoint_size") else None,
            permit=wire.permit,
            permits=wire.permits,
            sidecar=wire.sidecar,
            share=wire.share,
            priority=wire.priority,
            yields=wire.yields,
            reserved=Reservation._from_wire(wire.reserved) if wire.HasField("reserved") else None,
            kept_until=at("kept_until", wire.kept_until),
        )


def _unpickled(values: dict[str, Any]) -> LockRecord:
    return LockRecord(**{**values, "labels": MappingProxyType(values["labels"])})
