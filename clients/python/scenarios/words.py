"""The words of the driver: what commands ask for, and how what happens is told."""

import json
import sys
from typing import Any, cast

import leasehold

Command = dict[str, Any]


def name_of(command: Command) -> tuple[str, str]:
    """Give the function and the scope."""
    return command["function"], command.get("scope") or ""


def key_of(command: Command) -> leasehold.LockKey:
    """Give the key."""
    return leasehold.LockKey(*name_of(command))


def options(command: Command) -> leasehold.LeaseSpec:
    """Give what is asked for besides the name."""
    asked: dict[str, object] = {}
    names = {
        "lease_ms": "lease_duration",
        "max_hold_ms": "max_hold",
        "min_hold_ms": "min_hold",
        "progress_timeout_ms": "progress_timeout",
    }
    for given, name in names.items():
        if command.get(given) is not None:
            asked[name] = command[given] / 1_000
    wait = command.get("wait_ms") or 0
    asked["wait"] = leasehold.FOREVER if wait == -1 or command.get("wait_forever") else wait / 1_000
    for name in ("permits", "priority", "yields", "share", "rebalance"):
        if command.get(name) is not None:
            asked[name] = command[name]
    asked["labels"] = command.get("labels") or {}
    return cast("leasehold.LeaseSpec", asked)


def emit(command: Command, event: str, **more: object) -> None:
    """Tell an event."""
    sys.stdout.write(json.dumps({"id": command["id"], "event": event, **more}) + "\n")
    sys.stdout.flush()


def emit_granted(command: Command, grant: leasehold.Grant) -> None:
    """Tell a grant."""
    checkpoint = grant.checkpoint.value.decode() if grant.checkpoint else None
    emit(
        command,
        "granted",
        token=grant.fencing_token,
        lease_id=grant.lease_id,
        lock_path=grant.lock_path,
        permit=grant.permit,
        checkpoint=checkpoint,
    )


def told_of_busy(busy: leasehold.Busy) -> dict[str, object]:
    """Give what is told of a lock that is busy."""
    told: dict[str, object] = {"held_permits": busy.held_permits}
    told["priority_status"] = busy.priority_status.name if busy.priority_status else None
    if busy.record is None:
        return told | {"holder": "", "token": None}
    return told | {"holder": busy.record.holder, "token": busy.record.fencing_token} | told_of_record(busy.record)


def told_of_record(record: leasehold.LockRecord) -> dict[str, object]:
    """Give what a record tells of its holder's place among others."""
    return {name: getattr(record, name) for name in ("sidecar", "share", "priority", "yields")}


def told_of_checkpoint(result: leasehold.ReleaseResult) -> dict[str, object]:
    """Give what a release told of its checkpoint."""
    return {} if result.checkpoint is None else {"checkpoint": result.checkpoint.outcome.name.lower()}


def emit_error(command: Command, error: leasehold.LeaseholdError) -> None:
    """Tell an error."""
    if isinstance(error, leasehold.RefusedError):
        fields = [violation.field for violation in error.violations]
        code, reason, message = error.code.name, error.reason_name, error.message
    else:
        code, reason, message, fields = type(error).__name__, None, str(error), []
    emit(command, "error", code=code, reason=reason, message=message, fields=fields)
