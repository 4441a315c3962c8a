"""The requests about schedules that take more than a line to make."""

from datetime import datetime
from typing import TypedDict

from leasehold._convert import timestamp
from leasehold._errors.errors import ArgumentError
from leasehold._hold.spec import Seconds
from leasehold._records import LockKey
from leasehold._runs.spec import ScheduleSpec, schedule_spec
from leasehold.v1 import schedule_service_pb2 as wire

_MOST: int = 2**32 - 1


class ListSchedulesOptions(TypedDict, total=False):
    """Which schedules are listed. Default: all under the sidecar's host id."""

    host_id: str
    """Those under this host id; not with `prefix`."""
    prefix: str
    """Those whose lock path begins with this text, the sidecar's container and a slash first."""
    page_size: int
    """How many are asked for at once: 1 to 200. Default: 100."""


class PreviewOptions(ScheduleSpec, total=False):
    """What is previewed besides the spec."""

    after: datetime
    """After which instant; one without a zone is UTC. Default: now, by the sidecar's wall clock."""
    count: int
    """How many occurrences: 1 to 100. Default: 10."""
    key: LockKey
    """The lock, if occurrences are to be shown with the offset that `spread` gives them."""


def list_schedules_request(options: ListSchedulesOptions) -> wire.ListSchedulesRequest:
    """Ask for the first page."""
    if "host_id" in options and "prefix" in options:
        raise ArgumentError("give host_id or prefix, not both")
    request = wire.ListSchedulesRequest(page_size=options.get("page_size", 0))
    if "host_id" in options:
        request.host_id = options["host_id"]
    if "prefix" in options:
        request.prefix = options["prefix"]
    return request


def preview_request(timetable: str | Seconds, options: PreviewOptions) -> wire.PreviewScheduleRequest:
    """Ask for the next occurrences."""
    count = options.get("count", 0)
    if not 0 <= count <= _MOST:
        raise ArgumentError(f"count is {count}; 1 to 100 are allowed")
    return wire.PreviewScheduleRequest(
        spec=schedule_spec(timetable, options),
        after=timestamp(options["after"]) if "after" in options else None,
        count=count,
        key=options["key"]._to_wire() if "key" in options else None,
    )
