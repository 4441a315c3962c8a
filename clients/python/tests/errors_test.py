"""Errors are told apart by type, code and reason."""

import re

import grpc
import pytest
from fake import Refusal, bench
from google.protobuf.duration_pb2 import Duration

import leasehold
from leasehold import Reason
from leasehold._convert import duration, proto_duration
from leasehold._hold.spec import wanted


async def s19_field_violations_come_as_data() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field="spec.wait")
        with pytest.raises(leasehold.RefusedError, match=re.escape("no; spec.wait: is wrong")) as caught:
            await client.acquire("f")
        assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.reason is Reason.INVALID_FIELD
        assert caught.value.violations == (leasehold.FieldViolation("spec.wait", "is wrong"),)


async def a_reason_of_another_domain_is_none() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = Refusal(grpc.StatusCode.ABORTED, "HOLD_LOST", domain="example.com")
        with pytest.raises(leasehold.RefusedError) as caught:
            await client.acquire("f")
        assert caught.value.reason is None


async def an_unknown_reason_keeps_its_name() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = Refusal(grpc.StatusCode.ABORTED, "NEW_ONE")
        with pytest.raises(leasehold.RefusedError) as caught:
            await client.acquire("f")
        assert caught.value.reason is Reason.OTHER
        assert caught.value.reason_name == "NEW_ONE"


async def damaged_details_leave_code_and_message() -> None:
    async with bench() as (made, client):
        refusal = Refusal(grpc.StatusCode.NOT_FOUND, "UNKNOWN_LEASE")
        refusal.trailer = b"\xff\xff\xff"
        made.sidecar.answer = refusal
        with pytest.raises(leasehold.RefusedError, match="no") as caught:
            await client.acquire("f")
        assert caught.value.code is grpc.StatusCode.NOT_FOUND
        assert caught.value.reason is None


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
