"""A hold in an `async with` block."""

import asyncio

import grpc
import pytest
from fake import (
    ELSEWHERE,
    OURS,
    UNDERSTOOD,
    Holder,
    Refusal,
    bench,
    deadline,
    eventually,
    grant,
    granted,
    held,
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
        call.tell(wire.HoldLeaseResponse(waiting=hold_pb2.Waiting(position=1, understood=UNDERSTOOD)))
        call.tell(wire.HoldLeaseResponse(busy=hold_pb2.Busy(understood=UNDERSTOOD)))
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


async def s4_lost_at_valid_until_though_nobody_says_so() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        made.clock.advance(57)
        assert holder.hold.is_valid()
        made.clock.advance(1)
        assert not holder.hold.is_valid()
        assert holder.hold.remaining() == 0
        assert (await holder.loss()).reason is leasehold.LossReason.EXPIRED
        await call.ended()
        await eventually("it says that it knows", lambda: made.sidecar.asked == ["release lease-1 of generation 1"])


async def s4_the_timer_alone_finds_the_end_of_validity() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.clock.advance(58)
        assert (await holder.loss()).reason is leasehold.LossReason.EXPIRED


async def s4_a_renewal_that_waited_in_the_socket_revives_nothing() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        # As after a pause of the process: the clock has passed the validity, and the renewal is read only now.
        made.clock.advance(60)
        call.tell(renewed(validity(OURS, 1_100, 58)))
        assert isinstance(await made.event(), leasehold.Lost)
        assert not holder.hold.is_valid()


async def s21_a_renewal_moves_the_end_of_validity() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        made.clock.advance(20)
        call.tell(renewed(validity(OURS, 1_078, 58)))
        assert await made.event() == leasehold.Renewed(1_078)
        assert holder.hold.remaining() == 58


async def s21_elsewhere_the_sidecar_is_asked_once_about_each_renewal() -> None:
    async with bench() as (made, client):
        holder, call = await held(made, client, validity(ELSEWHERE, 70, 58))
        # The last is the one with which a sidecar hands over (S15).
        for count, passed in enumerate([20, 20, 20, 7], start=1):
            made.clock.advance(passed)
            made.sidecar.report = validity(ELSEWHERE, 90, 58)
            call.tell(renewed(made.sidecar.report))
            await eventually("the answer counts", lambda: holder.hold.remaining() == 58)
            assert len(made.sidecar.asked) == count, made.sidecar.asked


async def s21_elsewhere_the_sidecar_is_asked_and_its_words_unasked_for_extend_nothing() -> None:
    async with bench() as (made, client):
        holder, call = await held(made, client, validity(ELSEWHERE, 70, 58))
        call.tell(renewed(validity(ELSEWHERE, 90, 58)))
        await made.event()
        assert holder.hold.remaining() == 58
        made.sidecar.report = validity(ELSEWHERE, 95, 50)
        made.clock.advance(30)
        await eventually("the answer counts from the question", lambda: holder.hold.remaining() == 50)
        assert set(made.sidecar.asked) == {"ask of generation 1"}


async def s21_elsewhere_a_grant_after_a_long_wait_is_asked_about_first() -> None:
    async with bench() as (made, client):
        made.sidecar.report = validity(ELSEWHERE, 95, 57)
        made.sidecar.info.max_hold_ends.CopyFrom(deadline(ELSEWHERE, 9_700, 600))
        holder = Holder(made, client)
        call = await made.sidecar.hold()
        made.clock.advance(500)
        answer = grant(validity(ELSEWHERE, 70, 58))
        answer.granted.max_hold_ends.CopyFrom(deadline(ELSEWHERE, 9_700, 600))
        call.tell(answer)
        await holder.granted.wait()
        assert holder.hold.remaining() == 57
        assert holder.hold.max_hold_ends == 2_100


async def s2_a_grant_that_is_read_too_late_is_no_grant() -> None:
    async with bench() as (made, client):
        holder = Holder(made, client)
        call = await made.sidecar.hold()
        made.clock.advance(500)
        call.tell(grant(validity(OURS, 1_100, 58)))
        assert (await holder.loss()).reason is leasehold.LossReason.EXPIRED
        assert not holder.granted.is_set()
        await call.ended()


async def s11_progress_is_reported_and_its_answer_counts() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.report = validity(OURS, 1_060, 60)
        await holder.hold.report_progress()
        assert holder.hold.remaining() == 60
        await holder.hold.extend(90)
        assert holder.hold.remaining() == 90
        assert made.sidecar.asked == ["report progress of generation 1", "extend 90 of generation 1"]


async def an_answer_that_tells_of_the_loss_ends_the_hold() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.report = Refusal(grpc.StatusCode.FAILED_PRECONDITION, "HOLD_LOST", loss_reason="NO_PROGRESS")
        with pytest.raises(leasehold.RefusedError) as caught:
            await holder.hold.report_progress()
        assert caught.value.reason is leasehold.Reason.HOLD_LOST
        assert not holder.hold.is_valid()
        assert (await holder.loss()).reason is leasehold.LossReason.NO_PROGRESS


async def a_cause_that_this_version_does_not_know_is_kept_as_text() -> None:
    async with bench() as (made, client):
        _holder, call = await granted(made, client)
        risk = hold_pb2.AtRisk(validity=validity(OURS, 1_058, 57))
        risk.cause = 999  # type: ignore[assignment]
        call.tell(wire.HoldLeaseResponse(at_risk=risk))
        assert await made.event() == leasehold.AtRisk(1_058, leasehold.Reason.OTHER, "999", "")


async def a_hold_that_another_released_says_so_when_it_is_asked() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.report = Refusal(grpc.StatusCode.FAILED_PRECONDITION, "HOLD_RELEASED")
        with pytest.raises(leasehold.RefusedError) as caught:
            await holder.hold.report_progress()
        assert caught.value.reason is leasehold.Reason.HOLD_RELEASED
        assert (await holder.loss()).reason is leasehold.LossReason.UNSPECIFIED
