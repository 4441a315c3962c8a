"""The requests that take more than a line to make."""

from collections.abc import Iterable, Mapping
from typing import Final, TypedDict

from leasehold._convert import proto_duration
from leasehold._enums import BreakMode, LockState
from leasehold._errors import ArgumentError
from leasehold._records import LockKey, selector
from leasehold._spec import Seconds
from leasehold.v1 import lease_service_pb2 as wire
from leasehold.v1 import lock_pb2


class ListOptions(TypedDict, total=False):
    """Which locks are listed. Default: all under the sidecar's host id."""

    host_id: str
    """Those under this host id; not with `prefix`."""
    prefix: str
    """Those whose lock path begins with this text, the sidecar's container and a slash first."""
    states: Iterable[LockState]
    """Only those in one of these states. Default: all."""
    labels: Mapping[str, str]
    """Only those whose record has all of these labels, with these values. Default: all."""
    page_size: int
    """How many records are asked for at once: 1 to 250. Default: 100."""


class BreakOptions(TypedDict, total=False):
    """How a lock is broken."""

    mode: BreakMode
    """How the lease ends. Default: RUN_OUT."""
    broken_by: str
    """Who breaks it. Default: the name of the sidecar's pod or host."""
    permit: int
    """Which permit of the lock is broken. Default: 0, the lock's own path."""


UNKNOWN_GENERATION: Final = 0
"""Of a hold that is known by its lease id only."""


def extend_request(lease_id: str, generation: int, max_hold: Seconds) -> wire.ExtendLeaseRequest:
    """Ask for a new `max_hold`; `generation` is the newest that was answered (S16)."""
    return wire.ExtendLeaseRequest(
        lease_id=lease_id,
        max_hold=proto_duration("max_hold", max_hold),
        generation=generation,
    )


def list_request(options: ListOptions) -> wire.ListLocksRequest:
    """Ask for the first page."""
    host_id, prefix = options.get("host_id"), options.get("prefix")
    if host_id is not None and prefix is not None:
        raise ArgumentError("give host_id or prefix, not both")
    request = wire.ListLocksRequest(
        states=[lock_pb2.LockState.ValueType(state.value) for state in options.get("states", ())],
        labels=dict(options.get("labels", {})),
        page_size=options.get("page_size", 0),
    )
    if host_id is not None:
        request.host_id = host_id
    if prefix is not None:
        request.prefix = prefix
    return request


def break_request(lock: LockKey | str, reason: str, options: BreakOptions) -> wire.BreakLockRequest:
    """Ask for a break."""
    return wire.BreakLockRequest(
        lock=selector(lock, options.get("permit", 0)),
        reason=reason,
        mode=lock_pb2.BreakMode.ValueType(options.get("mode", BreakMode.RUN_OUT).value),
        broken_by=options.get("broken_by", ""),
    )
