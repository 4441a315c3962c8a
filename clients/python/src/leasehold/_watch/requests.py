"""The requests that take more than a line to make."""

from collections.abc import Iterable, Mapping
from typing import Final, TypedDict

from leasehold._convert import proto_duration
from leasehold._enums import BreakMode, LockState
from leasehold._errors.errors import ArgumentError
from leasehold._hold.spec import Seconds
from leasehold._records import LockKey, selector
from leasehold.v1 import lease_service_pb2 as wire
from leasehold.v1 import lock_pb2


class WatchOptions(TypedDict, total=False):
    """Which locks are followed. Default: all under the sidecar's host id."""

    host_id: str
    """Those under this host id; not with `prefix`."""
    prefix: str
    """Those whose lock path begins with this text, the sidecar's container and a slash first."""
    labels: Mapping[str, str]
    """Only those whose record has all of these labels, with these values. Default: all."""
    share: str
    """Only those whose holder, or last holder, named this share. Default: all."""


class ListOptions(WatchOptions, total=False):
    """Which locks are listed. Default: all under the sidecar's host id."""

    states: Iterable[LockState]
    """Only those in one of these states. Default: all."""
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
    fencing_token: int
    """The token of the grant to break, as the lock's record has shown it. Give it always.

    If that grant is over by then, nothing is broken, and RefusedError has the reason OTHER_HOLDER. Default: the grant
    that the sidecar reads first.
    """


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
    request = wire.ListLocksRequest(
        states=[lock_pb2.LockState.ValueType(state.value) for state in options.get("states", ())],
        labels=dict(options.get("labels", {})),
        share=options.get("share", ""),
        page_size=options.get("page_size", 0),
    )
    _put_under(request, options)
    return request


def watch_request(options: WatchOptions) -> wire.WatchLocksRequest:
    """Ask for all locks and their changes."""
    request = wire.WatchLocksRequest(labels=dict(options.get("labels", {})), share=options.get("share", ""))
    _put_under(request, options)
    return request


def _put_under(request: wire.ListLocksRequest | wire.WatchLocksRequest, options: WatchOptions) -> None:
    if "host_id" in options and "prefix" in options:
        raise ArgumentError("give host_id or prefix, not both")
    if "host_id" in options:
        request.host_id = options["host_id"]
    if "prefix" in options:
        request.prefix = options["prefix"]


def break_request(lock: LockKey | str, reason: str, options: BreakOptions) -> wire.BreakLockRequest:
    """Ask for a break."""
    return wire.BreakLockRequest(
        lock=selector(lock, options.get("permit", 0)),
        reason=reason,
        mode=lock_pb2.BreakMode.ValueType(options.get("mode", BreakMode.RUN_OUT).value),
        broken_by=options.get("broken_by", ""),
        fencing_token=options.get("fencing_token"),
    )
