"""Errors are in the words that all clients use: each line of `proto/vectors/words.jsonl`."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

import leasehold
from leasehold._hold.grants import Busy, Loss
from leasehold._runs.schedules import EndedRun
from leasehold.v1 import hold_pb2, lock_pb2, schedule_pb2

WORDS = Path(__file__).parents[3] / "proto/vectors/words.jsonl"
LINES = [json.loads(line) for line in WORDS.read_text().splitlines()]
MISSING = ["outcome_not_recorded"]
"""What is an answer here, and no error."""


def busy(line: dict[str, Any]) -> leasehold.BusyError:
    record = lock_pb2.LockRecord(
        lock_path=line["lock_path"],
        holder=line.get("holder", ""),
        holder_is_last_recorded=line.get("holder_is_last_recorded", False),
    )
    status = "PRIORITY_STATUS_" + line.get("priority_status", "UNSPECIFIED")
    answer = hold_pb2.Busy(
        record=record,
        reason=hold_pb2.BusyReason.Value("BUSY_REASON_" + line["reason"]),
        held_permits=line.get("held_permits", 0),
        priority_status=hold_pb2.PriorityStatus.Value(status),
    )
    return leasehold.BusyError("f", Busy._from_wire(answer))


def over(line: dict[str, Any]) -> leasehold.OccurrenceOverError:
    if "outcome" in line:
        outcome = schedule_pb2.RunOutcome.Value("RUN_OUTCOME_" + line["outcome"])
        return leasehold.OccurrenceOverError(EndedRun._from_wire(schedule_pb2.EndedRun(outcome=outcome)), None)
    watermark = datetime.fromisoformat(line["watermark"]) if "watermark" in line else None
    return leasehold.OccurrenceOverError(None, watermark)


def checkpoint(line: dict[str, Any]) -> leasehold.CheckpointUnknownError:
    return leasehold.CheckpointUnknownError(leasehold.RefusedError(grpc.StatusCode.UNAVAILABLE, line["cause"]))


def lost(line: dict[str, Any]) -> leasehold.LostError:
    return leasehold.LostError("c/p/h/f", Loss(leasehold.LossReason[line["reason"]], line["detail"]))


def unsupported(line: dict[str, Any]) -> leasehold.UnsupportedError:
    return leasehold.UnsupportedError.lacking(line["feature"])


ERRORS: dict[str, Callable[[dict[str, Any]], leasehold.LeaseholdError]] = {
    "busy": busy,
    "lost": lost,
    "release_unconfirmed": lambda line: leasehold.ReleaseUnconfirmedError(line["lock_path"], OSError(line["cause"])),
    "checkpoint_unknown": checkpoint,
    "occurrence_over": over,
    "endpoint": lambda line: leasehold.EndpointError(line["endpoint"], line["problem"]),
    "protocol": lambda line: leasehold.ProtocolError(line["problem"]),
    "unsupported": unsupported,
}


@pytest.mark.parametrize("line", [line for line in LINES if line["error"] not in MISSING])
def what_is_said_is_what_all_clients_say(line: dict[str, Any]) -> None:
    assert str(ERRORS[line["error"]](line)) == line["says"]
