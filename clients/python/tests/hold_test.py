"""A hold in an `async with` block."""

import asyncio

import pytest
from fake import (
    OURS,
    Holder,
    bench,
    grant,
    granted,
    renewed,
    validity,
)

import leasehold
from leasehold.v1 import errors_pb2, hold_pb2
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


async def busy_is_an_exception_that_says_who_has_it() -> None:
    async with bench() as (made, client):
        holder = Holder(made, client)
        call = await made.sidecar.hold()
        call.tell(wire.HoldLeaseResponse(waiting=hold_pb2.Waiting(position=2)))
        busy = hold_pb2.Busy(reason=hold_pb2.BUSY_REASON_HELD)
        busy.record.holder = "them"
        busy.retry_after.FromMilliseconds(1_500)
        call.tell(wire.HoldLeaseResponse(busy=busy))
        with pytest.raises(leasehold.BusyError, match='held by "them"') as caught:
            await holder.task
        assert await made.event() == leasehold.Waiting(2, None)
        assert caught.value.busy.retry_after == 1.5


async def a_wait_without_end_asks_again() -> None:
    async with bench() as (made, client):

        async def hold() -> int:
            async with client.hold("f", wait=leasehold.FOREVER) as hold:
                return hold.fencing_token

        task = asyncio.create_task(hold())
        call = await made.sidecar.hold()
        assert call.request.spec.wait_without_end
        assert not call.request.spec.HasField("wait")
        call.tell(wire.HoldLeaseResponse(waiting=hold_pb2.Waiting(position=1)))
        call.tell(wire.HoldLeaseResponse(busy=hold_pb2.Busy()))
        call.end()
        (await made.sidecar.hold()).tell(grant(validity(OURS, 1_058, 58)))
        assert await task == 65_536


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


async def events_come_in_their_order_and_the_block_ends_by_the_loss() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.tell(renewed(validity(OURS, 1_059, 58.5)))
        made.clock.advance(3)
        risk = hold_pb2.AtRisk(
            validity=validity(OURS, 1_059, 57), cause=errors_pb2.ERROR_REASON_STORE_UNAVAILABLE, detail="no route"
        )
        call.tell(wire.HoldLeaseResponse(at_risk=risk))
        call.tell(wire.HoldLeaseResponse(recovered=hold_pb2.Recovered(validity=validity(OURS, 1_060, 57.5))))
        draining = hold_pb2.Draining()
        draining.time_left.seconds = 20
        call.tell(wire.HoldLeaseResponse(draining=draining))
        lost = hold_pb2.Lost(reason=hold_pb2.LOSS_REASON_SHUTDOWN, detail="drained")
        call.tell(wire.HoldLeaseResponse(lost=lost))
        loss = leasehold.Loss(leasehold.LossReason.SHUTDOWN, "drained")
        assert [await made.event() for _ in range(5)] == [
            leasehold.Renewed(1_059),
            leasehold.AtRisk(1_059, leasehold.Reason.STORE_UNAVAILABLE, "STORE_UNAVAILABLE", "no route"),
            leasehold.Recovered(1_060),
            leasehold.Draining(20),
            leasehold.Lost(loss),
        ]
        assert await holder.loss() == loss
        assert holder.cancelled, "the code in the block was cancelled"
        assert not holder.hold.is_valid()


async def a_cause_that_this_version_does_not_know_is_kept_as_text() -> None:
    async with bench() as (made, client):
        _holder, call = await granted(made, client)
        risk = hold_pb2.AtRisk(validity=validity(OURS, 1_058, 57))
        risk.cause = 999  # type: ignore[assignment]
        call.tell(wire.HoldLeaseResponse(at_risk=risk))
        assert await made.event() == leasehold.AtRisk(1_058, leasehold.Reason.OTHER, "999", "")
