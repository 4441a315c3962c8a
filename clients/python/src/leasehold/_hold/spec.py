"""What a caller asks for, and how it goes over the wire."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypedDict

from leasehold._convert import proto_duration, timestamp
from leasehold._enums import LockMode, Reason
from leasehold._errors.errors import ArgumentError, RefusedError
from leasehold._hold.holder import holder_or_this
from leasehold._records import LockKey
from leasehold.v1 import hold_pb2

FOREVER: Final = math.inf
"""The `wait` without end."""

_LONGEST_WAIT: Final = 24 * 60 * 60
"""The longest wait that a sidecar allows, in seconds; a unary wait without end repeats it."""
_SHORTEST_WAIT: Final = 1
"""A sidecar that does not allow this allows no wait at all."""

_TOO_MANY: Final = 2**32
"""No number can be sent from here on. What else is out of range, the sidecar says (S19)."""

Seconds = float | timedelta
"""A duration: a number of seconds, or a timedelta."""


class LeaseSpec(TypedDict, total=False):
    """What may be asked for besides the name of the lock. The sidecar checks the ranges (S19)."""

    mode: LockMode
    """Whether the lock is held while a function runs, or while a listener listens. Default: FUNCTION."""
    host_id: str
    """Overrides the sidecar's host id."""
    host_type: str
    """Overrides the sidecar's host type."""
    wait: Seconds
    """How long to wait while the lock is busy: 0 to 24 h, or FOREVER, until it is cancelled. Default: 0, one try."""
    lease_duration: Seconds
    """The lease in the store: whole seconds, 15 s to 60 s. Default: the sidecar's, 60 s."""
    max_hold: Seconds
    """How long the hold may last in all. Default: `hold` without such a bound, `acquire` the sidecar's, 10 min."""
    min_hold: Seconds
    """How long the lock stays taken at least, counted from the grant: 0 to 24 h. Default: 0."""
    progress_timeout: Seconds
    """The hold is lost when progress was not reported for so long: 1 s to 24 h. Default: not watched."""
    auto_renew: bool
    """Whether the sidecar renews the lease. Default: true."""
    request_id: str
    """Makes `acquire` repeatable; `hold` makes no use of it. Default: every call is a new one."""
    holder: str
    """Who is asking, for people to read: at most 256 bytes. Default: this pod or host, and the process id."""
    occurrence_at: datetime
    """The occurrence that is about to be run, for callers with a scheduler of their own: whole seconds, UTC.

    It is granted until an outcome was recorded for it (`release`), and never after: OccurrenceOverError. Not with
    `permits` above 1, nor with `min_hold`, nor on a lock that has a schedule.
    """
    occurrence_max_attempts: int
    """How often the occurrence may fail or be abandoned before that is final: 1 to 100. Default: no limit."""
    permits: int
    """How many callers may hold the lock at the same time: 1 to 32. Give the same number everywhere. Default: 1."""
    priority: int
    """How important this caller is: 0 to 2**31 - 1. Callers of a lock are served by priority, then by arrival.

    One that has waited for a lease duration takes the lock over from a holder of smaller priority that `yields`: that
    one is told (`notice`), and has what is left of its lease to finish. With a number that grows with each version,
    such as a build number, the newest version takes over (S33). Not with `permits` above 1. Default: 0.
    """
    yields: bool
    """Whether this holder gives the lock up to a greater priority, or to an equal one that rebalances.

    Not with `permits` above 1. Default: false (S33, S35).
    """
    share: str
    """The group of like locks, such as all listeners of a deployment, that its sidecars spread among themselves (S34).

    At most 256 bytes, no invisible characters. Not with `permits` above 1. Default: none.
    """
    rebalance: bool
    """Whether the sidecar of this caller may take a lock of the share from a sidecar that holds at least two more.

    One at a time, at most one a minute, and only from holders of equal priority that yield. Only with `share` and
    `yields`. Default: false (S35).
    """
    labels: Mapping[str, str]
    """Free key-value pairs for people and tools, at most 16. Not for secrets."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A lock that is asked for."""

    spec: hold_pb2.LeaseSpec
    """What goes over the wire."""
    name: str
    """The lock's name for people."""
    wait: float
    """How long the call may wait, in seconds; FOREVER for a stream that waits without end."""
    forever: bool
    """Whether to wait without end."""
    paced: bool = False
    """Whether the caller pauses where no sidecar answers, so that the wait is not one for the sidecar."""

    def in_rounds(self) -> "Wanted":
        """Give the same for unary calls, which cannot wait without end: the call is repeated instead."""
        if not self.forever:
            return self
        spec = hold_pb2.LeaseSpec()
        spec.CopyFrom(self.spec)
        spec.wait_without_end = False
        spec.wait.CopyFrom(proto_duration("wait", _LONGEST_WAIT))
        return replace(self, spec=spec, wait=_LONGEST_WAIT)

    def after(self, waited: float) -> "Wanted":
        """Give the same for a call that is made after so many seconds of the wait."""
        if self.forever or not waited:
            return self
        spec, wait = hold_pb2.LeaseSpec(), max(self.wait - waited, 0)
        spec.CopyFrom(self.spec)
        spec.wait.CopyFrom(proto_duration("wait", wait))
        return replace(self, spec=spec, wait=wait)

    def shortened(self, refused: RefusedError) -> "Wanted":
        """Give the same with half the wait, where a wait without end is longer than the sidecar allows.

        Raises what was refused where that is not the reason.
        """
        fields = [violation.field for violation in refused.violations]
        only_the_wait = refused.reason == Reason.INVALID_FIELD and fields == ["spec.wait"]
        if not (self.forever and only_the_wait and self.wait > _SHORTEST_WAIT):
            raise refused
        spec = hold_pb2.LeaseSpec()
        spec.CopyFrom(self.spec)
        spec.wait.CopyFrom(proto_duration("wait", self.wait / 2))
        return replace(self, spec=spec, wait=self.wait / 2)


def wanted(function: str | LockKey, scope: str, options: LeaseSpec) -> Wanted:
    """Turn a caller's words into what is asked for."""
    key = _key(function, scope, options)
    wait = options.get("wait", 0)
    forever = wait == FOREVER
    permits = options.get("permits")
    if permits is not None and not 1 <= permits < _TOO_MANY:
        raise ArgumentError(f"permits is {permits}; 1 to 32 are allowed")
    priority = options.get("priority", 0)
    if not 0 <= priority < _TOO_MANY:
        raise ArgumentError(f"priority is {priority}; 0 to 2147483647 are allowed")
    attempts = options.get("occurrence_max_attempts", 0)
    if not 0 <= attempts < _TOO_MANY:
        raise ArgumentError(f"occurrence_max_attempts is {attempts}; 1 to 100 are allowed")
    spec = hold_pb2.LeaseSpec(
        key=key._to_wire(),
        wait=None if forever else proto_duration("wait", wait),
        wait_without_end=forever,
        permits=permits,
        priority=priority,
        yields=options.get("yields", False),
        share=options.get("share", ""),
        rebalance=options.get("rebalance", False),
        occurrence_at=timestamp(options["occurrence_at"]) if "occurrence_at" in options else None,
        occurrence_max_attempts=attempts,
        request_id=options.get("request_id", ""),
        holder=holder_or_this(options.get("holder", "")),
        labels=dict(options.get("labels", {})),
        auto_renew=options.get("auto_renew"),
    )
    for name in ("lease_duration", "max_hold", "min_hold", "progress_timeout"):
        given: Seconds | None = options.get(name)  # type: ignore[assignment]
        if given is not None:
            getattr(spec, name).CopyFrom(proto_duration(name, given))
    name = f"{key.function}/{key.scope}" if key.scope else key.function
    return Wanted(spec, name, FOREVER if forever else spec.wait.seconds + spec.wait.nanos / 1e9, forever)


def _key(function: str | LockKey, scope: str, options: LeaseSpec) -> LockKey:
    if not isinstance(function, LockKey):
        return LockKey(
            function,
            scope,
            options.get("mode", LockMode.FUNCTION),
            options.get("host_id"),
            options.get("host_type"),
        )
    if scope or {"mode", "host_id", "host_type"} & options.keys():
        raise ArgumentError("scope, mode, host_id and host_type are parts of the LockKey that was given")
    return function
