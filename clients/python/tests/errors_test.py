"""Errors are told apart by type, code and reason."""

import re

import grpc
import pytest
from fake import Bench
from google.protobuf.duration_pb2 import Duration
from messages import Refusal

import leasehold
from leasehold import Reason
from leasehold._connect.needs import needs
from leasehold._convert import duration, proto_duration
from leasehold._hold.spec import wanted
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1.lease_service_pb2 import HoldLeaseRequest

DAMAGED = Refusal(grpc.StatusCode.NOT_FOUND, "UNKNOWN_LEASE")
DAMAGED.trailer = b"\xff\xff\xff"
WRONG = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field="spec.wait")


@pytest.mark.parametrize(
    ("refusal", "text", "reason", "name"),
    [
        (WRONG, "no; spec.wait: is wrong", Reason.INVALID_FIELD, "INVALID_FIELD"),
        (Refusal(grpc.StatusCode.ABORTED, "HOLD_LOST", domain="example.com"), "no", None, None),
        (Refusal(grpc.StatusCode.ABORTED, "NEW_ONE"), "no", Reason.OTHER, "NEW_ONE"),
        (DAMAGED, "no", None, None),
    ],
)
async def what_a_sidecar_refuses_with_comes_as_data(
    refusal: Refusal, text: str, reason: Reason | None, name: str | None, made: Bench
) -> None:
    made.sidecar.answers["AcquireLease"] = refusal
    with pytest.raises(leasehold.RefusedError, match=re.escape(text)) as caught:
        await made.client.acquire("f")
    assert (caught.value.code, caught.value.reason, caught.value.reason_name) == (refusal.code, reason, name)
    violations = (leasehold.FieldViolation("spec.wait", "is wrong"),)
    assert caught.value.violations == (violations if refusal is WRONG else ()), "S19"


def s37_a_request_needs_the_revision_of_its_newest_field() -> None:
    newer = {"leasehold.v1.LeaseSpec.permits": 2, "leasehold.v1.LockKey.scope": 3}
    spec = hold_pb2.LeaseSpec(priority=7, key=lock_pb2.LockKey(function="f"))
    assert needs(HoldLeaseRequest(spec=spec), newer) == 1
    spec.permits = 2
    assert needs(HoldLeaseRequest(spec=spec), newer) == 2
    spec.key.scope = "s"
    assert needs(HoldLeaseRequest(spec=spec), newer) == 3


def what_is_not_known_is_taken_for_the_safe_thing() -> None:
    assert leasehold.LockState(99) is leasehold.LockState.HELD
    assert leasehold.BusyReason(99) is leasehold.BusyReason.HELD
    assert leasehold.TokenStatus(0) is leasehold.TokenStatus.STALE
    assert leasehold.LossReason(99) is leasehold.LossReason.UNSPECIFIED


def durations_survive_the_wire() -> None:
    assert duration(proto_duration("wait", 58.3)) == 58_300_000_000
    assert duration(Duration(seconds=-5, nanos=-1)) == 0
    negative = proto_duration("wait", -1.5)
    assert (negative.seconds, negative.nanos) == (-1, -500_000_000)
    for nonsense in (float("nan"), float("inf"), 1e18):
        with pytest.raises(leasehold.ArgumentError, match="wait is"):
            proto_duration("wait", nonsense)


def s19_an_acquire_without_end_halves_its_waits_while_the_sidecar_allows_less() -> None:
    asked = wanted("f", "", {"wait": leasehold.FOREVER}).in_rounds()
    refused = leasehold.RefusedError(grpc.StatusCode.INVALID_ARGUMENT, "no")
    with pytest.raises(leasehold.RefusedError):
        asked.shortened(refused)
    refused.reason_name = "INVALID_FIELD"
    refused.violations = (leasehold.FieldViolation("spec.wait", "is 1day; 0s to 1m is allowed"),)
    assert asked.shortened(refused).spec.wait.seconds == 12 * 60 * 60
    assert asked.spec.wait.seconds == 24 * 60 * 60
    with pytest.raises(leasehold.RefusedError):
        wanted("f", "", {"wait": 60}).in_rounds().shortened(refused)
    while asked.wait > 1:
        asked = asked.shortened(refused)
    with pytest.raises(leasehold.RefusedError):
        asked.shortened(refused)
