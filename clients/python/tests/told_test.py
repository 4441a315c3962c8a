"""What callers say goes over the wire whole, and what the sidecar says comes back whole."""

import asyncio
import inspect
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import pytest
from bench import Bench
from fake import UNKNOWN as UNIMPLEMENTED
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from messages import words_of

import leasehold
from leasehold import CatchUp, LockKey, Overlap, RunOutcome
from leasehold._connect.needs import needs
from leasehold._convert import timestamp
from leasehold._hold.grants import Busy, Grant, ReleaseResult
from leasehold._hold.holder import holder_or_this
from leasehold._hold.spec import wanted
from leasehold._records import LockRecord
from leasehold._runs import schedules
from leasehold._runs.run import RunFacts
from leasehold._runs.spec import options_of, schedule_spec, subscription, timetable_of
from leasehold._watch import answers
from leasehold.v1 import hold_pb2, lock_pb2, schedule_pb2, schedule_service_pb2
from leasehold.v1 import lease_service_pb2 as wire

AT = datetime(2026, 11, 23, 2, 30, tzinfo=UTC)
KEY = LockKey("f")


def filled(message: Any, count: Any = None) -> Any:
    """The message with a value of its own in each field, also in those of the messages in it."""
    count = iter(range(1, 10_000)) if count is None else count
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        number = next(count)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value["k"] = str(number)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            filled(value.add() if field.is_repeated else value, count)
        elif field.is_repeated:
            value.append(str(number))
        elif field.type == FieldDescriptor.TYPE_STRING:
            setattr(message, field.name, str(number))
        elif field.type == FieldDescriptor.TYPE_BYTES:
            setattr(message, field.name, str(number).encode())
        elif field.type == FieldDescriptor.TYPE_INT32:
            setattr(message, field.name, 0)
        else:
            setattr(message, field.name, 1 if field.enum_type or field.type == FieldDescriptor.TYPE_BOOL else number)
    return message


def compare(ours: Any, message: Message) -> None:
    """Each field says what the message's field of that name does, and none is empty."""
    for name in (field.name for field in fields(ours)):
        value = getattr(ours, name)
        assert value not in (None, "", b"", 0), name
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None or field.is_repeated:
            continue
        said = getattr(message, name)
        if isinstance(said, Timestamp):
            said = said.ToDatetime(UTC)
        elif isinstance(said, Duration):
            said = said.seconds
        elif isinstance(value, Enum):
            value = value.value
        elif is_dataclass(value):
            compare(value, said)
            continue
        if not isinstance(said, Message) and name != "spec":
            assert value == said, name


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (Grant, hold_pb2.Grant()),
        (Busy, hold_pb2.Busy()),
        (answers.BreakResult, wire.BreakLockResponse()),
        (answers.LocksListed, wire.Listed()),
        (schedules.EndedRun, schedule_pb2.EndedRun()),
        (schedules.Standby, schedule_service_pb2.Standby()),
        (schedules.DefinitionInForce, schedule_service_pb2.DefinitionInForce()),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def all_that_is_told_by_other_than_calls_is_taken_over(read: Any, message: Message) -> None:
    compare(read._from_wire(filled(message)), message)
    read._from_wire(type(message)())


def a_run_tells_what_it_is_of() -> None:
    told = filled(schedule_service_pb2.Run())
    run = RunFacts()
    run._run = told
    for name in ("local_time", "request_id", "run_id", "attempt", "max_attempts", "missed_count"):
        assert getattr(run, name) == getattr(told, name)
    times = (run.scheduled_at, run.deadline_at, run.next_at)
    assert times == tuple(getattr(told, name).ToDatetime(UTC) for name in ("scheduled_at", "deadline_at", "next_at"))
    assert (run.kind.value, run.lateness.seconds) == (told.kind, told.lateness.seconds)
    assert run.previous == schedules.EndedRun._from_wire(told.previous)
    run._run = schedule_service_pb2.Run()
    assert not any((run.deadline_at, run.next_at, run.previous))


def what_is_not_told_is_none() -> None:
    record = LockRecord._from_wire(lock_pb2.LockRecord(break_note=lock_pb2.BreakNote()))
    assert record.break_note is not None
    note = record.break_note
    told = (record.acquired_at, record.lease_duration, record.reserved, record.checkpoint, note.mode, note.for_priority)
    assert told == (None,) * 6
    assert leasehold.Notice(1_058, "", "", None).for_priority is None


@pytest.mark.parametrize(
    ("told", "checkpoint", "occurrence"),
    [
        (1, ("SAVED", 12), "RECORDED"),
        (2, ("NOT_SAVED", None), "NOT_RECORDED"),
        (3, ("UNKNOWN", None), "UNKNOWN"),
        # S37: of a newer sidecar, and of an older one.
        (99, ("UNKNOWN", None), "UNKNOWN"),
        (0, ("NOT_SAVED", None), "NOT_RECORDED"),
    ],
)
def s26_t8_a_release_tells_what_became_of_its_checkpoint_and_of_its_outcome(
    told: Any, checkpoint: tuple[str, int | None], occurrence: str
) -> None:
    released = hold_pb2.ReleaseResult(
        checkpoint_outcome=told, checkpoint_version=12, checkpoint_detail="why", outcome_result=told
    )
    result = ReleaseResult._from_wire(released, b"", RunOutcome.FAILED)
    assert result.occurrence is leasehold.OutcomeResult[occurrence]
    assert result.checkpoint is not None
    assert (result.checkpoint.outcome.name, result.checkpoint.version) == checkpoint
    assert result.checkpoint.detail == "why" or "older than this request" in result.checkpoint.detail
    result = ReleaseResult._from_wire(released, None)
    assert (result.checkpoint, result.occurrence) == (None, None)


def all_that_is_asked_for_goes_over_the_wire() -> None:
    options: Any = (
        {"mode": leasehold.LockMode.LISTENER, "host_id": "h", "host_type": "t", "wait": 1.5, "max_hold": 60}
        | {"lease_duration": timedelta(seconds=15), "min_hold": 2, "progress_timeout": 3, "auto_renew": False}
        | {"request_id": "r", "holder": "me", "labels": {"a": "b"}, "permits": 3, "priority": 7, "yields": True}
        | {"share": "listeners", "rebalance": True, "occurrence_at": AT, "occurrence_max_attempts": 4}
    )
    spec = wanted("f", "s", options).spec
    key = lock_pb2.LockKey(function="f", scope="s", mode=lock_pb2.LOCK_MODE_LISTENER, host_id="h", host_type="t")
    assert (spec.key, spec.wait.ToMilliseconds(), spec.occurrence_at.ToDatetime(UTC)) == (key, 1_500, AT)
    durations = {name: getattr(spec, name).seconds for name in ("lease_duration", "max_hold", "min_hold")}
    assert (durations, spec.progress_timeout.seconds) == ({"lease_duration": 15, "max_hold": 60, "min_hold": 2}, 3)
    assert spec.HasField("auto_renew")
    for name in options.keys() - durations.keys() - {*lock_pb2.LockKey.DESCRIPTOR.fields_by_name}:
        if name not in ("wait", "occurrence_at", "progress_timeout"):
            assert getattr(spec, name) == options[name], name
    spec = wanted("f", "", {}).spec
    assert {field.name for field, _value in spec.ListFields()} == {"key", "wait", "holder"}
    assert not spec.key.HasField("host_id")
    assert spec.holder == subscription("@daily", "f", "", {}).holder == holder_or_this("")


def a_schedule_is_told_as_it_was_given() -> None:
    options: Any = (
        {"time_zone": "Europe/Copenhagen", "revision": 7, "catch_up": CatchUp.ALL, "catch_up_max": 9, "grace": 200.0}
        | {"catch_up_window": 3_600.0, "overlap": Overlap.SKIP, "max_attempts": 5, "backoff": 3.0, "spread": 30.0}
        | {"run_timeout": 600.0, "takeover_check": 20.0, "lease_duration": 15.0, "stop_grace": 5.0}
        | {"progress_timeout": 6.0}
    )
    assert options.keys() == leasehold.ScheduleSpec.__optional_keys__
    spec = schedule_spec("30 2 * * *", options)
    assert (timetable_of(spec), options_of(spec)) == ("30 2 * * *", options)
    spec = schedule_spec(90, {"run_timeout": leasehold.FOREVER})
    assert (spec.no_run_timeout, options_of(spec)["run_timeout"]) == (True, leasehold.FOREVER)
    assert timetable_of(spec) == timedelta(seconds=90)
    request = subscription("@daily", "f", "s", {"first_now": True, "labels": {"a": "b"}, "holder": "me"})
    assert (request.first, dict(request.labels), request.holder) == (schedule_pb2.FIRST_RUN_NOW, {"a": "b"}, "me")


LARGE: Any = b"x" * 2_049


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda: wanted(KEY, "s", {}), "parts of the LockKey"),
        (lambda: subscription("@daily", KEY, "s", {}), "parts of the LockKey"),
        (lambda: wanted("f", "", {"permits": 0}), "permits is 0; 1 to 32"),
        (lambda: wanted("f", "", {"permits": 2**32}), "permits is 4294967296"),
        (lambda: wanted("f", "", {"priority": -1}), "priority is -1; 0 to 2147483647"),
        (lambda: wanted("f", "", {"occurrence_max_attempts": -1}), "occurrence_max_attempts is -1"),
        (lambda: schedule_spec("@daily", {"revision": -1}), "revision"),
        (lambda: leasehold.Client(release_timeout=0), "release_timeout is 0; it must be more than 0"),
        (lambda: leasehold.Client().save_checkpoint("l", LARGE), "2,049 bytes; at most 2,048"),
        (lambda: leasehold.Client().release("l", checkpoint=LARGE), "2,049 bytes"),
        (lambda: leasehold.Client().complete_run("r", RunOutcome.FAILED, checkpoint=LARGE), "2,049 bytes"),
        (lambda: leasehold.Client().get_lock("locks/f~2", permit=2), "a path names its permit"),
        (lambda: [*leasehold.Client().list_locks(host_id="h", prefix="p")], "not both"),
        (lambda: [*leasehold.Client().list_schedules(host_id="h", prefix="p")], "not both"),
        (lambda: next(leasehold.Client().watch_locks(host_id="h", prefix="p")), "not both"),
        (lambda: leasehold.Client().lead("f", wait=3), "lead waits without end"),
        (lambda: leasehold.AsyncClient().lead("f", wait=3), "lead waits without end"),
    ],
)
def s19_what_no_sidecar_takes_is_refused_here(ask: Any, match: str) -> None:
    with pytest.raises(leasehold.ArgumentError, match=match):
        ask()


CALLS = """
release('l', b'v') = ReleaseLease: lease_id: "l" checkpoint: "v"
extend('l', 60) = ExtendLease: lease_id: "l" max_hold { seconds: 60 }
report_progress('l') = ReportProgress: lease_id: "l"
get_hold('l') = GetHold: lease_id: "l"
save_checkpoint('l', b'v') = SaveCheckpoint: lease_id: "l" value: "v"
get_server_info() = GetServerInfo:
get_lock('p', with_checkpoint=True) = GetLock: lock { lock_path: "p" } with_checkpoint: true
get_lock(KEY, permit=2) = GetLock: $KEY_2
check_token(KEY, 7, permit=2) = CheckToken: $KEY_2 fencing_token: 7
break_lock(KEY, 'r', permit=2, fencing_token=9) = BreakLock: $KEY_2 fencing_token: 9 reason: "r" mode: BREAK_MODE_RUN_OUT
break_lock('p', 'r', mode=NOW, broken_by='me') = BreakLock: lock { lock_path: "p" } reason: "r" broken_by: "me" mode: BREAK_MODE_NOW
resolve_path(KEY) = ResolvePath: key { $KEY }
list_locks(prefix='p', labels=LABELS, share='s') = ListLocks: prefix: "p" share: "s" labels { key: "a" value: "b" }
list_locks(host_id='h', page_size=9, states=[HELD]) = ListLocks: host_id: "h" page_size: 9 states: LOCK_STATE_HELD
watch_lock(KEY, permit=2) = WatchLock: $KEY_2
watch_locks(host_id='h', share='s') = WatchLocks: host_id: "h" share: "s"
get_schedule(KEY) = GetSchedule: lock { key { $KEY } }
pause_schedule('p') = PauseSchedule: lock { lock_path: "p" }
resume_schedule(KEY) = ResumeSchedule: lock { key { $KEY } }
trigger_schedule(KEY, 'x') = TriggerSchedule: lock { key { $KEY } } request_id: "x"
remove_schedule(KEY, 'r', force=True) = RemoveSchedule: lock { key { $KEY } } reason: "r" force: true
reset_schedule('p', 'r', watermark=AT, revision=3) = ResetSchedule: lock { lock_path: "p" } reason: "r" watermark { $AT } revision: 3
list_schedules(prefix='p', page_size=1) = ListSchedules: prefix: "p" page_size: 1
preview_schedule('@daily', after=AT, count=2) = PreviewSchedule: spec { cron: "@daily" } after { $AT } count: 2 needs: 1
preview_schedule('@daily', key=KEY) = PreviewSchedule: spec { cron: "@daily" } key { $KEY } needs: 1
runs('@daily', function=KEY, holder='me') = SubscribeSchedule: key { $KEY } spec { cron: "@daily" } holder: "me" needs: 1
complete_run('r', RunOutcome.FAILED, 'd') = CompleteRun: run_id: "r" outcome: RUN_OUTCOME_FAILED detail: "d"
""".strip().splitlines()  # noqa: E501
NOW, HELD, LABELS = leasehold.BreakMode.NOW, leasehold.LockState.HELD, {"a": "b"}
WORDS = {"$KEY_2": "lock { key { $KEY } permit: 2 }", "$KEY": str(KEY._to_wire()), "$AT": str(timestamp(AT))}


@pytest.mark.parametrize("line", CALLS)
async def each_call_of_both_clients_sends_what_it_says(line: str, served: Bench) -> None:
    call, _, sent = line.partition(") = ")
    name, _, text = sent.partition(":")
    for word, meant in WORDS.items():
        text = text.replace(word, meant)
    service: Any = wire if hasattr(wire, f"{name}Request") else schedule_service_pb2
    request = text_format.Parse(text, getattr(service, f"{name}Request")())
    refusal = leasehold.RefusedError if service is wire else leasehold.UnsupportedError

    def made_by(client: object) -> Any:
        return eval(f"client.{call})", globals(), {"client": client})  # noqa: S307 - our own

    def blocking() -> None:
        with leasehold.Client(served.endpoint) as client, pytest.raises(refusal):
            [*made_by(client)]

    answers = served.sidecar.standing
    answers[words_of(name)] = UNIMPLEMENTED
    answer = made_by(served.client)
    with pytest.raises(refusal):
        await (answer if inspect.isawaitable(answer) else anext(answer))
    await asyncio.to_thread(blocking)
    assert served.sidecar.requests == [request, request]
    if inspect.isawaitable(answer):
        answers[words_of(name)] = told = filled(getattr(service, f"{name}Response")())
        got = await made_by(served.client)
        message = next((getattr(told, part) for part in ("record", "schedule") if hasattr(told, part)), told)
        if is_dataclass(got) and name not in ("ReleaseLease", "BreakLock", "ExtendLease", "ReportProgress"):
            compare(got, message)
        answers[words_of(name)] = type(told)()
        await made_by(served.client)


def s37_a_request_needs_the_revision_of_its_newest_field() -> None:
    newer = {"leasehold.v1.LeaseSpec.permits": 2, "leasehold.v1.LockKey.scope": 3}
    plain, scoped = lock_pb2.LockKey(function="f"), lock_pb2.LockKey(function="f", scope="s")
    for least, spec in ((1, {"key": plain}), (2, {"key": plain, "permits": 2}), (3, {"key": scoped, "permits": 2})):
        assert needs(wire.HoldLeaseRequest(spec=hold_pb2.LeaseSpec(**spec)), newer) == least


async def all_pages_are_listed(served: Bench) -> None:
    pages = [
        wire.ListLocksResponse(records=[lock_pb2.LockRecord(lock_path="a")], next_page_token="1"),
        wire.ListLocksResponse(next_page_token="2"),
        wire.ListLocksResponse(records=[lock_pb2.LockRecord(lock_path="b")]),
    ]
    served.sidecar.answer("list_locks", *pages, *pages)
    assert [got.lock_path async for got in served.client.list_locks()] == ["a", "b"]
    with leasehold.Client(served.endpoint) as blocking:
        assert [got.lock_path for got in await asyncio.to_thread(list, blocking.list_locks())] == ["a", "b"]
    assert [request.page_token for request in served.sidecar.requests] == ["", "1", "2"] * 2


async def t2_a_unary_acquire_tells_its_attempt_and_that_its_occurrence_is_over(made: Bench) -> None:
    answers: Any = ({"already_done": {"run": {"outcome": "FAILED_FINAL"}}}, {"skipped": {}}, {})
    made.sidecar.answer("acquire_lease", *answers, {"granted": {"attempt": 2}})
    for match in ("FAILED_FINAL", "a newer one", "without an outcome"):
        with pytest.raises((leasehold.OccurrenceOverError, leasehold.ProtocolError), match=match):
            await made.client.acquire("f", occurrence_at=AT)
    assert (await made.client.acquire("f", occurrence_at=AT)).attempt == 2
