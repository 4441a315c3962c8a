"""What a subscriber asks for, and how it goes over the wire."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, TypedDict

from leasehold._convert import duration, proto_duration, seconds
from leasehold._enums import CatchUp, LockMode, Overlap
from leasehold._errors.errors import ArgumentError
from leasehold._hold.holder import holder_or_this
from leasehold._hold.spec import FOREVER, Seconds
from leasehold._records import LockKey
from leasehold.v1 import schedule_pb2
from leasehold.v1.schedule_service_pb2 import SubscribeScheduleRequest

_SPANS: Final = (
    "catch_up_window",
    "grace",
    "backoff",
    "stop_grace",
    "progress_timeout",
    "spread",
    "takeover_check",
    "lease_duration",
)
_NUMBERS: Final = {"revision": 2**64, "catch_up_max": 2**32, "max_attempts": 2**32}
"""No number can be sent from there on. What else is out of range, the sidecar says (S19)."""


class ScheduleSpec(TypedDict, total=False):
    """How the runs of a schedule are handled. Durations are whole seconds. The sidecar checks the ranges (S19)."""

    time_zone: str
    """The IANA name of the zone whose clocks the expression is about. Default: UTC, never the machine's (T14)."""
    revision: int
    """Of two different definitions the higher one is in force. Give each deployment a higher one. Default: 0 (T16)."""
    catch_up: CatchUp
    """What becomes of missed occurrences that are older than the newest one. Default: LATEST (T9)."""
    catch_up_max: int
    """How many of them are run: 1 to 100. With ALL only, which needs it."""
    catch_up_window: Seconds
    """Occurrences older than this are never run: 1 min to 366 days. Default: as `catch_up` may run, 25 h at least."""
    grace: Seconds
    """How late the newest occurrence still counts as on time: up to 7 days. Default, and least: two leases and 10 s."""
    overlap: Overlap
    """What becomes of occurrences that fall due during a run. Default: FOLLOW (T10)."""
    max_attempts: int
    """How many attempts an occurrence has that fail or are abandoned: 1 to 100. Default: 3 (T11)."""
    backoff: Seconds
    """The wait before the second attempt; doubled with each further one up to 10 min: 1 s to 10 min. Default: 10 s."""
    run_timeout: Seconds
    """How long a run may take: 1 s to 366 days, or FOREVER. At its deadline it has failed, and is not tried again.

    Default: until the next occurrence is due, but at least as long as the gap between the two (T12).
    """
    stop_grace: Seconds
    """How long a run may take to end after its deadline, and still say how it ended: up to 1 h. Default: 10 s."""
    progress_timeout: Seconds
    """A run is lost unless it reports progress at least this often: 1 s to 24 h. Default: none (S11)."""
    spread: Seconds
    """Each schedule starts later by an offset of its own, up to this: 0 to 24 h. Default: 0 (T13)."""
    takeover_check: Seconds
    """The longest time until it is looked whether a run elsewhere was abandoned: 1 s to 10 min (T17)."""
    lease_duration: Seconds
    """The duration of the lease in the store: 15 s to 60 s. Default: the sidecar's."""


class ScheduleOptions(ScheduleSpec, total=False):
    """What may be said of a schedule besides its timetable and the name of its lock."""

    mode: LockMode
    """Whether the lock is a function's or a listener's. Default: FUNCTION."""
    host_id: str
    """Overrides the sidecar's host id."""
    host_type: str
    """Overrides the sidecar's host type."""
    holder: str
    """Who is asking, for people to read: at most 256 bytes. Default: this pod or host, and the process id."""
    first_now: bool
    """Whether a schedule that nobody has subscribed to before runs at once, in one replica (T25). Default: no."""
    labels: Mapping[str, str]
    """Free key-value pairs for people and tools, at most 16. Not for secrets."""


def schedule_spec(timetable: str | Seconds, options: ScheduleSpec) -> schedule_pb2.ScheduleSpec:
    """Give the spec for the wire: of an expression, or of a span that comes again and again."""
    for name, limit in _NUMBERS.items():
        number: int | None = options.get(name)  # type: ignore[assignment]
        if number is not None and not 0 <= number < limit:
            raise ArgumentError(f"{name} is {number}; give a number from 0 to {limit - 1}")
    spec = schedule_pb2.ScheduleSpec(
        time_zone=options.get("time_zone", ""),
        revision=options.get("revision", 0),
        catch_up_max=options.get("catch_up_max", 0),
        max_attempts=options.get("max_attempts", 0),
    )
    if isinstance(timetable, str):
        spec.cron = timetable
    else:
        spec.every.CopyFrom(proto_duration("the timetable", timetable))
    if "catch_up" in options:
        spec.catch_up = schedule_pb2.CatchUp.ValueType(options["catch_up"].value)
    if "overlap" in options:
        spec.overlap = schedule_pb2.Overlap.ValueType(options["overlap"].value)
    for name in _SPANS:
        given: Seconds | None = options.get(name)  # type: ignore[assignment]
        if given is not None:
            getattr(spec, name).CopyFrom(proto_duration(name, given))
    timeout = options.get("run_timeout")
    if timeout == FOREVER:
        spec.no_run_timeout = True
    elif timeout is not None:
        spec.run_timeout.CopyFrom(proto_duration("run_timeout", timeout))
    return spec


def subscription(
    timetable: str | Seconds, function: str | LockKey, scope: str, options: ScheduleOptions
) -> SubscribeScheduleRequest:
    """Turn a caller's words into what is asked for."""
    if not isinstance(function, LockKey):
        mode = options.get("mode", LockMode.FUNCTION)
        function = LockKey(function, scope, mode, options.get("host_id"), options.get("host_type"))
    elif scope or {"mode", "host_id", "host_type"} & options.keys():
        raise ArgumentError("scope, mode, host_id and host_type are parts of the LockKey that was given")
    return SubscribeScheduleRequest(
        key=function._to_wire(),
        spec=schedule_spec(timetable, options),
        holder=holder_or_this(options.get("holder", "")),
        labels=dict(options.get("labels", {})),
        first=schedule_pb2.FIRST_RUN_NOW if options.get("first_now") else schedule_pb2.FIRST_RUN_UNSPECIFIED,
    )


def timetable_of(wire: schedule_pb2.ScheduleSpec) -> str | timedelta | None:
    """Give the expression of a spec, or its span; None if it has neither."""
    match wire.WhichOneof("timetable"):
        case "cron":
            return wire.cron
        case "every":
            return timedelta(seconds=seconds(duration(wire.every)))
        case _:
            return None


def options_of(wire: schedule_pb2.ScheduleSpec) -> ScheduleSpec:
    """Give the options of a spec: those that were set."""
    options: ScheduleSpec = {
        "time_zone": wire.time_zone,
        "revision": wire.revision,
        "catch_up": CatchUp(wire.catch_up),
        "overlap": Overlap(wire.overlap),
    }
    if wire.max_attempts:
        options["max_attempts"] = wire.max_attempts
    if wire.catch_up_max:
        options["catch_up_max"] = wire.catch_up_max
    if wire.no_run_timeout:
        options["run_timeout"] = FOREVER
    for name in (*_SPANS, "run_timeout"):
        if wire.HasField(name):
            options[name] = seconds(duration(getattr(wire, name)))
    return options
