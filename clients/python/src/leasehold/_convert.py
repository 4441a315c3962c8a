"""Durations and moments of time to and from the wire. In here durations are whole nanoseconds."""

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from leasehold._errors.errors import ArgumentError

SECOND: Final = 1_000_000_000
"""The nanoseconds of a second."""

_LONGEST: Final = 315_576_000_000
"""The seconds of the longest duration that protobuf allows, about 10,000 years."""


def duration(wire: Duration) -> int:
    """Give a duration from the wire; 0 for a negative one, which only ends holds earlier."""
    return max(wire.seconds * SECOND + wire.nanos, 0)


def nanoseconds(name: str, given: float | timedelta) -> int:
    """Give a duration, rounded to a nanosecond; `name` is the argument's, for the error."""
    if isinstance(given, timedelta):
        return given // timedelta(microseconds=1) * 1_000
    if math.isfinite(given):
        return round(given * SECOND)
    raise ArgumentError(f"{name} is {given}; give a number of seconds or a timedelta")


def proto_duration(name: str, given: float | timedelta) -> Duration:
    """Give a duration for the wire; `name` is the argument's, for the error."""
    nanos = nanoseconds(name, given)
    # The sign of both parts must be the same.
    sign = -1 if nanos < 0 else 1
    seconds, rest = divmod(abs(nanos), SECOND)
    if seconds > _LONGEST:
        raise ArgumentError(f"{name} is {given}, longer than any duration that can be sent")
    return Duration(seconds=sign * seconds, nanos=sign * rest)


def seconds(nanos: int) -> float:
    """Give nanoseconds as seconds."""
    return nanos / SECOND


def timestamp(given: datetime) -> Timestamp:
    """Give a moment for the wire; one without a zone is UTC."""
    told = Timestamp()
    told.FromDatetime(given if given.tzinfo is None else given.astimezone(UTC))
    return told


def moment(wire: Timestamp) -> datetime:
    """Give a moment from the wire, by the wall clock, in UTC."""
    return wire.ToDatetime(tzinfo=UTC)
