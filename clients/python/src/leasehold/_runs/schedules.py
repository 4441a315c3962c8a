"""What is known of schedules and their runs, as plain values. Times are in UTC."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from leasehold._convert import moment
from leasehold._enums import CheckpointOutcome, CompletionResult, RunKind, RunOutcome
from leasehold._hold.events import HoldEvent
from leasehold._hold.grants import CheckpointResult
from leasehold._records import LockKey, LockRecord
from leasehold._runs.spec import ScheduleSpec, options_of, timetable_of
from leasehold.v1 import schedule_pb2, schedule_service_pb2


def at(wire: Message, name: str) -> datetime | None:
    """Give a moment that may be absent."""
    told: Timestamp = getattr(wire, name)
    return moment(told) if wire.HasField(name) else None


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended, or occurrences that were skipped up to and with this one."""

    kind: RunKind
    """Why there was a run."""
    scheduled_at: datetime | None
    """The occurrence; None for MANUAL."""
    request_id: str
    """The id of the request; for MANUAL only."""
    outcome: RunOutcome | None
    """How it ended; None if this version of the client does not know it."""
    attempt: int
    """Which attempt, from 1; 0 if there was no run."""
    fencing_token: int | None
    """The token of the run; None if there was none."""

    @classmethod
    def _from_wire(cls, wire: schedule_pb2.EndedRun) -> Self:
        token = wire.fencing_token if wire.HasField("fencing_token") else None
        kind, outcome = RunKind(wire.kind), RunOutcome.told(wire.outcome)
        return cls(kind, at(wire, "scheduled_at"), wire.request_id, outcome, wire.attempt, token)


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that was granted and has no outcome. If the lock is available, it was abandoned."""

    kind: RunKind
    """Why there is a run."""
    scheduled_at: datetime | None
    """The occurrence; None for MANUAL."""
    request_id: str
    """The id of the request; for MANUAL only."""
    attempt: int
    """Which attempt, from 1."""
    fencing_token: int
    """The token of the run."""
    started_at: datetime | None
    """When it was started, by the store's clock."""
    deadline_at: datetime | None
    """When it is to be over, by the store's clock; None if it has no deadline."""

    @classmethod
    def _from_wire(cls, wire: schedule_pb2.StartedRun) -> Self:
        return cls(
            RunKind(wire.kind),
            at(wire, "scheduled_at"),
            wire.request_id,
            wire.attempt,
            wire.fencing_token,
            at(wire, "started_at"),
            at(wire, "deadline_at"),
        )


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """What the runs of a schedule have decided, as it stands in the lock's record."""

    next_at: datetime | None
    """The occurrence that is waited for: due, running or still to come; None if there is none."""
    watermark: datetime | None
    """The newest instant that is final. No occurrence up to it is run again."""
    watermark_outcome: RunOutcome | None
    """How the occurrence at `watermark` ended; None if it is the instant of the first subscription."""
    run: StartedRun | None
    """The run that has no outcome yet."""
    retry_at: datetime | None
    """When the next attempt is made, after one that failed."""
    missed: int
    """How many occurrences were missed in all. Those that a pause has skipped do not count."""
    ended: tuple[EndedRun, ...]
    """What ended last, the newest first: as many as the record has room for."""

    @classmethod
    def _from_wire(cls, wire: schedule_pb2.ScheduleState) -> Self:
        return cls(
            at(wire, "next_at"),
            at(wire, "watermark"),
            RunOutcome.told(wire.watermark_outcome),
            StartedRun._from_wire(wire.run) if wire.HasField("run") else None,
            at(wire, "retry_at"),
            wire.missed,
            tuple(EndedRun._from_wire(ended) for ended in wire.ended),
        )


@dataclass(frozen=True, slots=True)
class UnderstoodSchedule:
    """How a spec was understood."""

    expression: str
    """The expression in its canonical form."""
    time_zone: str
    """The time zone."""
    description: str
    """The same for people: "every day at 02:30, Europe/Copenhagen"."""
    zone_data: str
    """The version of the time zone data that the sidecar has, such as `2026b`."""
    warning: str
    """What is said of the spec though it is allowed: that other schedulers read it otherwise; else empty."""

    @classmethod
    def _from_wire(cls, wire: schedule_service_pb2.UnderstoodSchedule) -> Self:
        return cls(wire.expression, wire.time_zone, wire.description, wire.zone_data, wire.warning)


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The sidecar has understood the schedule: at the beginning, and after each time that it was away."""

    understood: UnderstoodSchedule
    """How."""


@dataclass(frozen=True, slots=True)
class Standby:
    """An occurrence is waited for. Repeated when something of it changes, and at least every 30 s."""

    next_at: datetime | None
    """The occurrence; None if there is none."""
    last: EndedRun | None
    """What ended last; None if nothing has."""
    running_elsewhere: bool
    """Whether a run goes on elsewhere, as far as is known."""
    paused: bool
    """Whether the schedule is paused."""

    @classmethod
    def _from_wire(cls, wire: schedule_service_pb2.Standby) -> Self:
        last = EndedRun._from_wire(wire.last) if wire.HasField("last") else None
        return cls(at(wire, "next_at"), last, wire.running_elsewhere, wire.paused)


@dataclass(frozen=True, slots=True)
class DefinitionInForce:
    """Another definition is in force than this caller's (T16)."""

    expression: str
    """Its expression, in the canonical form."""
    time_zone: str
    """Its time zone."""
    description: str
    """The same for people."""
    revision: int
    """Its revision."""
    conflict: bool
    """Whether it has the same revision as this caller's: then two deployments differ by accident."""

    @classmethod
    def _from_wire(cls, wire: schedule_service_pb2.DefinitionInForce) -> Self:
        return cls(wire.expression, wire.time_zone, wire.description, wire.revision, wire.conflict)


ScheduleEvent = Subscribed | Standby | DefinitionInForce | HoldEvent
"""What happens to a subscription, and to the holds of its runs."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule."""

    lock_path: str
    """The lock path."""
    key: LockKey | None
    """The key, as far as the lock's record has it."""
    timetable: str | timedelta | None
    """The expression as it was given, or the span; None if the definition cannot be read."""
    spec: ScheduleSpec
    """The rest of the definition in force: what was set."""
    expression: str
    """The expression in the canonical form, also where the timetable is a span."""
    description: str
    """The same for people: "every day at 02:30, Europe/Copenhagen"."""
    zone_data: str
    """The version of the zone data that the next occurrence was computed with."""
    paused: bool
    """Whether it is paused."""
    waiting_request_ids: tuple[str, ...]
    """The request ids of runs by hand that wait, in their order."""
    next_at: datetime | None
    """The occurrence that is waited for: due, running or still to come, also before the first run."""
    state: ScheduleState | None
    """What its runs have decided; None if there was none yet."""
    record: LockRecord | None
    """Who holds the schedule's lock, as far as is known; None in lists."""
    subscribers_here: int
    """How many streams subscribe to it at this sidecar."""
    problem: str
    """Why its definition cannot be read, for people; empty if it can."""
    removed: "ScheduleIntervention | None"
    """Who has removed it, and why; None if nobody has."""
    reset: "ScheduleIntervention | None"
    """Who has reset it last, and why; None if nobody has."""
    run_abandoned: bool
    """Whether the run in `state` was abandoned: it has no outcome, and its lock is available."""

    @classmethod
    def _from_wire(cls, wire: schedule_service_pb2.Schedule) -> Self:
        return cls(
            lock_path=wire.lock_path,
            key=LockKey._from_wire(wire.key) if wire.HasField("key") else None,
            timetable=timetable_of(wire.spec),
            spec=options_of(wire.spec),
            expression=wire.expression,
            description=wire.description,
            zone_data=wire.zone_data,
            paused=wire.paused,
            waiting_request_ids=tuple(wire.waiting_request_ids),
            next_at=at(wire, "next_at"),
            state=ScheduleState._from_wire(wire.state) if wire.HasField("state") else None,
            record=LockRecord._from_wire(wire.record) if wire.HasField("record") else None,
            subscribers_here=wire.subscribers_here,
            problem=wire.problem,
            removed=ScheduleIntervention._from_wire(wire.removed) if wire.HasField("removed") else None,
            reset=ScheduleIntervention._from_wire(wire.reset) if wire.HasField("reset") else None,
            run_abandoned=wire.run_abandoned,
        )


@dataclass(frozen=True, slots=True)
class ScheduleIntervention:
    """What an operator has done to a whole schedule (T25)."""

    at: datetime | None
    """When, by the store's clock."""
    reason: str
    """Why, as the operator said."""
    caller: str
    """Who, as far as the sidecar knew."""

    @classmethod
    def _from_wire(cls, wire: schedule_service_pb2.ScheduleIntervention) -> Self:
        return cls(at(wire, "at"), wire.reason, wire.caller)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One instant of a schedule."""

    at: datetime
    """The nominal instant."""
    local_time: str
    """The same as the clocks of the schedule's zone show it."""
    starts_at: datetime | None
    """When it starts, with the offset of `spread`; only if the lock was given."""

    @classmethod
    def _from_wire(cls, wire: schedule_service_pb2.Occurrence) -> Self:
        return cls(moment(wire.at), wire.local_time, at(wire, "starts_at"))


@dataclass(frozen=True, slots=True)
class SchedulePreview:
    """How a spec was understood, and its next occurrences."""

    understood: UnderstoodSchedule
    """How it was understood."""
    occurrences: tuple[Occurrence, ...]
    """The occurrences: fewer than asked for if there are no more."""

    @classmethod
    def _from_wire(cls, wire: schedule_service_pb2.PreviewScheduleResponse) -> Self:
        occurrences = tuple(Occurrence._from_wire(one) for one in wire.occurrences)
        return cls(UnderstoodSchedule._from_wire(wire.understood), occurrences)


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """What became of the outcome of a run (T8)."""

    result: CompletionResult
    """Whether it counts: with SUPERSEDED the run was or may be repeated."""
    retry_at: datetime | None = None
    """When the occurrence is tried again; None if it is not."""
    next_at: datetime | None = None
    """The occurrence that is waited for now; None if there is none."""
    checkpoint: CheckpointResult | None = None
    """What became of the checkpoint; None if there was none."""

    @classmethod
    def _from_wire(cls, wire: schedule_service_pb2.CompleteRunResponse) -> Self:
        outcome = CheckpointOutcome.told(wire.checkpoint_outcome)
        checkpoint = None
        if outcome is not None:
            version = wire.checkpoint_version if outcome is CheckpointOutcome.SAVED else None
            checkpoint = CheckpointResult(outcome, version)
        return cls(CompletionResult(wire.result), at(wire, "retry_at"), at(wire, "next_at"), checkpoint)
