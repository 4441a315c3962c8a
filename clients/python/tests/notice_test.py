"""S22: a holder whose lock was broken is told, and has until the end of its validity."""

import asyncio
import threading

import pytest
from fake import OURS, PATIENCE, bench, eventually, granted, validity
from sync_test import during

import leasehold
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1 import lease_service_pb2 as wire

NOTE = lock_pb2.BreakNote(reason="new build", broken_by="ops", mode=lock_pb2.BREAK_MODE_RUN_OUT)


def revoked(told: hold_pb2.Validity) -> wire.HoldLeaseResponse:
    return wire.HoldLeaseResponse(revoked=hold_pb2.Revoked(validity=told, break_note=NOTE))


async def s22_a_notice_leaves_the_hold_valid_until_its_deadline() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        hold = holder.hold
        before = hold.notice
        waiting = asyncio.create_task(hold.wait_revoked())
        made.clock.advance(20)
        call.tell(revoked(validity(OURS, 1_058, 38)))
        notice = await asyncio.wait_for(waiting, PATIENCE)
        assert (notice.deadline, notice.reason, notice.by) == (1_058, "new build", "ops")
        assert notice.break_note is not None
        assert notice.break_note.mode is leasehold.BreakMode.RUN_OUT
        assert (before, hold.notice) == (None, notice)
        assert await made.event() == leasehold.Revoked(notice)
        assert hold.is_valid()
        assert not holder.cancelled
        holder.leave.set()
        await holder.task
        assert made.sidecar.asked == ["release lease-1 of generation 1"]


async def s22_a_notice_is_given_once_and_to_no_hold_that_is_over() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.tell(revoked(validity(OURS, 1_058, 58)), revoked(validity(OURS, 1_058, 58)))
        call.tell(wire.HoldLeaseResponse(draining=hold_pb2.Draining()))
        assert isinstance(await made.event(), leasehold.Revoked)
        assert isinstance(await made.event(), leasehold.Draining)
        holder.leave.set()
        await holder.task
        holder, call = await granted(made, client)
        made.clock.advance(60)
        call.tell(revoked(validity(OURS, 1_058, 0)))
        assert isinstance(await made.event(), leasehold.Lost)
        assert holder.hold.notice is None


@pytest.mark.parametrize("priority", [7, 0, None])
async def s33_a_notice_tells_a_greater_priority_from_an_operator(priority: int | None) -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        note = lock_pb2.BreakNote(reason="taken over", for_priority=priority)
        told = hold_pb2.Revoked(validity=validity(OURS, 1_058, 58), break_note=note)
        call.tell(wire.HoldLeaseResponse(revoked=told))
        notice = await holder.hold.wait_revoked()
        assert notice.for_priority == priority
        assert notice.break_note is not None
        assert notice.break_note.for_priority == priority


async def s22_a_thread_learns_of_a_notice_by_an_event() -> None:
    async with bench() as (made, _client):
        entered = threading.Event()

        def work(client: leasehold.Client) -> leasehold.Notice | None:
            with client.hold("f") as hold:
                assert hold.wait_revoked(0.01) is None
                assert not hold.revoked_event.is_set()
                entered.set()
                notice = hold.wait_revoked()
                assert hold.revoked_event.is_set()
                assert hold.is_valid()
                return notice

        call, task = await during(made, work)
        await asyncio.to_thread(entered.wait)
        call.tell(revoked(validity(OURS, 1_058, 58)))
        notice = await task
        assert notice is not None
        assert notice.by == "ops"


async def s22_a_thread_that_waits_for_a_notice_does_not_outwait_the_hold() -> None:
    async with bench() as (made, _client):
        entered = threading.Event()

        def work(client: leasehold.Client) -> None:
            with client.hold("f") as hold:
                entered.set()
                assert hold.wait_revoked() is None
                assert hold.loss is not None

        _call, task = await during(made, work)
        await asyncio.to_thread(entered.wait)
        made.clock.advance(58)
        with pytest.raises(leasehold.LostError):
            await task


async def who_waits_for_a_notice_waits_until_the_hold_has_one() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        waiting = asyncio.create_task(holder.hold.wait_revoked())
        made.tasks.append(waiting)  # type: ignore[arg-type]
        holder.leave.set()
        await holder.task
        await eventually("the hold is over", holder.hold._keeper.over.is_set)
        assert not waiting.done()
