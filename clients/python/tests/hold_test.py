"""A hold in an `async with` block."""

import asyncio

import grpc
import pytest
from fake import (
    ELSEWHERE,
    OURS,
    Holder,
    bench,
    eventually,
    granted,
    held,
    validity,
)
from messages import Refusal

import leasehold
from leasehold.v1 import hold_pb2
from leasehold.v1 import lease_service_pb2 as wire


async def a_hold_tells_its_grant() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        hold = holder.hold
        assert call.request.spec.key.function == "f"
        assert call.request.spec.key.scope == "s"
        assert hold.fencing_token == 65_536
        assert hold.lease_id == "lease-1"
        assert hold.lock_path == "locks/p/h/f/s/FUNCTION"
        assert hold.valid_until == 1_058
        assert hold.remaining() == 58
        assert hold.is_valid()
        assert "lease-1" not in repr(hold), "S20"
        assert "lease-1" not in repr(hold.grant), "S20"


async def a_caller_that_gives_up_leaves_the_queue() -> None:
    async with bench() as (made, client):
        holder = Holder(made, client)
        call = await made.sidecar.hold()
        call.tell(wire.HoldLeaseResponse(waiting=hold_pb2.Waiting(position=1)))
        await made.event()
        holder.task.cancel()
        await call.ended()
        with pytest.raises(asyncio.CancelledError):
            await holder.task


async def a_cause_that_this_version_does_not_know_is_kept_as_text() -> None:
    async with bench() as (made, client):
        _holder, call = await granted(made, client)
        risk = hold_pb2.AtRisk(validity=validity(OURS, 1_058, 57))
        risk.cause = 999  # type: ignore[assignment]
        call.tell(wire.HoldLeaseResponse(at_risk=risk))
        assert await made.event() == leasehold.AtRisk(1_058, leasehold.Reason.OTHER, "999", "")


async def s21_elsewhere_the_answer_to_a_question_tells_the_end_of_max_hold() -> None:
    async with bench() as (made, client):
        holder, _call = await held(made, client, validity(ELSEWHERE, 70, 58))
        made.clock.advance(30)
        await eventually("it is asked", lambda: holder.hold.max_hold_ends == 1_330)
        assert holder.hold.valid_until == 1_090, "it counts from before the question"
        # Its answer may also be that the hold is over.
        made.sidecar.lost = Refusal(grpc.StatusCode.FAILED_PRECONDITION, "HOLD_LOST", loss_reason="BROKEN")
        with pytest.raises(leasehold.RefusedError):
            await holder.hold.info()
        assert (await holder.loss()).reason is leasehold.LossReason.BROKEN
