"""Errors are told apart by type, code and reason, in the words that all clients use, and survive a pickle."""

import json
import pickle
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from bench import Bench
from google.protobuf.duration_pb2 import Duration
from messages import Messages, refusal

import leasehold
from leasehold import LossReason, Reason
from leasehold._connect.listening import SilentError
from leasehold._convert import duration, proto_duration
from leasehold._errors import answers, errors
from leasehold._hold.grants import Busy, Loss
from leasehold._runs.schedules import EndedRun
from leasehold.v1 import schedule_pb2

WORDS = (Path(__file__).parents[3] / "proto/vectors/words.jsonl").read_text().splitlines()
# One of them is an answer here, and no error.
LINES = [line for line in map(json.loads, WORDS) if line["error"] != "outcome_not_recorded"]
Line = dict[str, Any]


def busy(line: Line) -> leasehold.BusyError:
    answer = Messages().answer("acquire_lease", {"busy": line | {"record": line}})
    return leasehold.BusyError("f", Busy._from_wire(answer.busy))


def over(line: Line) -> leasehold.OccurrenceOverError:
    if "outcome" in line:
        outcome = schedule_pb2.RunOutcome.Value("RUN_OUTCOME_" + line["outcome"])
        return leasehold.OccurrenceOverError(EndedRun._from_wire(schedule_pb2.EndedRun(outcome=outcome)), None)
    watermark = datetime.fromisoformat(line["watermark"]) if "watermark" in line else None
    return leasehold.OccurrenceOverError(None, watermark)


def gone(cause: str) -> leasehold.RefusedError:
    return leasehold.RefusedError(grpc.StatusCode.UNAVAILABLE, cause)


ERRORS: dict[str, Callable[[Line], leasehold.LeaseholdError]] = {
    "busy": busy,
    "lost": lambda line: leasehold.LostError("c/p/h/f", Loss(LossReason[line["reason"]], line["detail"])),
    "release_unconfirmed": lambda line: leasehold.ReleaseUnconfirmedError(line["lock_path"], OSError(line["cause"])),
    "checkpoint_unknown": lambda line: leasehold.CheckpointUnknownError(gone(line["cause"])),
    "occurrence_over": over,
    "endpoint": lambda line: leasehold.EndpointError(line["endpoint"], line["problem"]),
    "protocol": lambda line: leasehold.ProtocolError(line["problem"]),
    "unsupported": lambda line: leasehold.UnsupportedError.lacking(line["feature"]),
}


@pytest.mark.parametrize("line", LINES)
def what_is_said_is_what_all_clients_say(line: Line) -> None:
    assert str(ERRORS[line["error"]](line)) == line["says"]


def instances() -> list[leasehold.LeaseholdError]:
    """At least one of each kind, with all that it may carry."""
    refusal = gone("no")
    refusal.reason_name, refusal.retry_after = "UNKNOWN_LEASE", 1.5
    refusal.violations = (leasehold.FieldViolation("spec.wait", "is wrong"),)
    plain = (leasehold.LeaseholdError, leasehold.PlatformError, leasehold.ArgumentError, leasehold.ClosedError)
    made = [*(kind("so it is") for kind in plain), *(ERRORS[line["error"]](line) for line in LINES)]
    made[0].add_note("and this")
    return [*made, refusal, leasehold.UnreachableError("http://a:1", "nobody")]


def errors_survive_a_pickle_with_all_that_they_carry() -> None:
    for error in [*instances(), SilentError(90)]:
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
        assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
        assert again.__dict__ == error.__dict__


def errors_are_named_as_their_users_know_them() -> None:
    kinds = [kind for kind in (vars(errors) | vars(answers)).values() if isinstance(kind, type)]
    ours = {kind for kind in kinds if issubclass(kind, leasehold.LeaseholdError)}
    assert ours == {type(error) for error in instances()}, "the list above has one of each"
    for kind in ours:
        assert kind.__module__ == "leasehold"
        assert getattr(leasehold, kind.__name__) is kind


WRONG = refusal("INVALID_ARGUMENT", "INVALID_FIELD", field="spec.wait")


@pytest.mark.parametrize(
    ("error", "text", "reason", "name"),
    [
        (WRONG, "no; spec.wait: is wrong", Reason.INVALID_FIELD, "INVALID_FIELD"),
        (refusal("ABORTED", "HOLD_LOST", domain="example.com"), "no", None, None),
        (refusal("ABORTED", "NEW_ONE"), "no", Reason.OTHER, "NEW_ONE"),
        (refusal("NOT_FOUND", "UNKNOWN_LEASE", details=b"\xff\xff\xff"), "no", None, None),
    ],
)
async def what_a_sidecar_refuses_with_comes_as_data(
    error: grpc.aio.AioRpcError, text: str, reason: Reason | None, name: str | None, made: Bench
) -> None:
    made.sidecar.answer("acquire_lease", error)
    with pytest.raises(leasehold.RefusedError, match=re.escape(text)) as caught:
        await made.client.acquire("f")
    assert (caught.value.code, caught.value.reason, caught.value.reason_name) == (error.code(), reason, name)
    violations = (leasehold.FieldViolation("spec.wait", "is wrong"),)
    assert caught.value.violations == (violations if error is WRONG else ()), "S19"


def what_is_not_known_is_taken_for_the_safe_thing() -> None:
    assert leasehold.LockState(99) is leasehold.LockState.HELD
    assert leasehold.BusyReason(99) is leasehold.BusyReason.HELD
    assert leasehold.TokenStatus(0) is leasehold.TokenStatus.STALE
    assert LossReason(99) is LossReason.UNSPECIFIED


def durations_survive_the_wire() -> None:
    assert duration(proto_duration("wait", 58.3)) == 58_300_000_000
    assert duration(Duration(seconds=-5, nanos=-1)) == 0
    negative = proto_duration("wait", -1.5)
    assert (negative.seconds, negative.nanos) == (-1, -500_000_000)
    for nonsense in (float("nan"), float("inf"), 1e18):
        with pytest.raises(leasehold.ArgumentError, match="wait is"):
            proto_duration("wait", nonsense)
