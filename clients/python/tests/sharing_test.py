"""S33 to S35: priorities and shares, as callers ask for them and are told of them."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

import pytest
from fake import OURS, bench, grant, granted, validity
from sync_test import sync

import leasehold
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1 import lease_service_pb2 as wire

ASKED: Final[leasehold.LeaseSpec] = {"priority": 7, "yields": True, "share": "listeners", "rebalance": True}


def asked(spec: hold_pb2.LeaseSpec) -> bool:
    return (spec.priority, spec.yields, spec.share, spec.rebalance) == (7, True, "listeners", True)


def record() -> lock_pb2.LockRecord:
    record = lock_pb2.LockRecord(lock_path="l", sidecar="pod-a/17", share="listeners", priority=7, yields=True)
    record.reserved.priority = 8
    record.reserved.until.FromSeconds(1_700_000_000)
    return record


async def s33_to_s35_what_is_asked_for_goes_over_the_wire() -> None:
    async with bench() as (made, client):

        async def hold() -> int:
            async with client.hold("f", **ASKED) as hold:
                return hold.fencing_token

        task = asyncio.create_task(hold())
        call = await made.sidecar.hold()
        assert asked(call.request.spec)
        call.tell(grant(validity(OURS, 1_058, 58)))
        assert await task == 65_536
        made.sidecar.answer = wire.AcquireLeaseResponse(granted=grant(validity(OURS, 1_058, 58)).granted)
        await client.acquire("f", **ASKED)
        assert asked(made.sidecar.requests[0].spec)


async def s33_to_s35_terms_are_asked_for_with_them() -> None:
    async with bench() as (made, client), aclosing(client.lead("f", **ASKED)) as terms:
        first = asyncio.ensure_future(anext(terms))
        call = await made.sidecar.hold()
        assert asked(call.request.spec)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def s33_to_s35_threads_ask_for_them() -> None:
    async with bench() as (made, _client):
        made.sidecar.pages = [wire.ListLocksResponse(records=[record()])]

        def work() -> tuple[int, list[str]]:
            with sync(made) as client:
                shares = [got.share for got in client.list_locks(share="listeners")]
                with client.hold("f", **ASKED) as hold:
                    return hold.fencing_token, shares

        task = asyncio.create_task(asyncio.to_thread(work))
        call = await made.sidecar.hold()
        assert asked(call.request.spec)
        call.tell(grant(validity(OURS, 1_058, 58)))
        assert await task == (65_536, ["listeners"])
        assert made.sidecar.requests[0].share == "listeners"


@pytest.mark.parametrize("priority", [-1, 2**32])
async def s33_a_priority_that_cannot_be_sent_is_refused(priority: int) -> None:
    async with bench() as (_made, client):
        with pytest.raises(leasehold.ArgumentError, match=f"priority is {priority}; 0 to 2147483647"):
            client.hold("f", priority=priority)


@pytest.mark.parametrize(
    ("told", "status"), [(1, leasehold.PriorityStatus.HOLDER_DOES_NOT_YIELD), (0, None), (9_999, None)]
)
async def s33_a_busy_lock_says_why_a_priority_waits(told: int, status: leasehold.PriorityStatus | None) -> None:
    async with bench() as (made, client):
        number = hold_pb2.PriorityStatus.ValueType(told)
        busy = hold_pb2.Busy(priority_status=number, record=record())
        made.sidecar.answer = wire.AcquireLeaseResponse(busy=busy)
        with pytest.raises(leasehold.BusyError) as caught:
            await client.acquire("f", priority=7)
        assert caught.value.busy.priority_status is status
        assert ("(priority: holder does not yield)" in str(caught.value)) == (status is not None)
        assert caught.value.busy.record is not None
        assert caught.value.busy.record.sidecar == "pod-a/17"


def s33_every_status_is_known() -> None:
    theirs = dict(hold_pb2.PriorityStatus.items())
    assert theirs.pop("PRIORITY_STATUS_UNSPECIFIED") == 0
    assert {f"PRIORITY_STATUS_{status.name}": status.value for status in leasehold.PriorityStatus} == theirs


async def s36_a_record_tells_of_its_holder_s_place_among_others() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.GetLockResponse(record=record())
        got = await client.get_lock("l")
        assert (got.sidecar, got.share, got.priority, got.yields) == ("pod-a/17", "listeners", 7, True)
        assert got.reserved == leasehold.Reservation(8, datetime.fromtimestamp(1_700_000_000, UTC))
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(lock_path="l"))
        got = await client.get_lock("l")
        assert (got.sidecar, got.share, got.priority, got.yields, got.reserved) == ("", "", 0, False, None)


async def s34_locks_are_listed_and_followed_by_share() -> None:
    async with bench() as (made, client):
        made.sidecar.pages = [wire.ListLocksResponse(records=[record()])]
        assert [got.lock_path async for got in client.list_locks(share="listeners")] == ["l"]
        made.sidecar.changes = [[wire.WatchLocksResponse(changed=record())]]
        events = [event async for event in client.watch_locks(share="listeners")]
        assert [event.record.share for event in events if isinstance(event, leasehold.LockChanged)] == ["listeners"]
        assert [request.share for request in made.sidecar.requests] == ["listeners"] * 2


@pytest.mark.parametrize("priority", [7, 0, None])
async def s33_a_notice_tells_a_greater_priority_from_an_operator(priority: int | None) -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        note = lock_pb2.BreakNote(reason="taken over", for_priority=priority)
        revoked = hold_pb2.Revoked(validity=validity(OURS, 1_058, 58), break_note=note)
        call.tell(wire.HoldLeaseResponse(revoked=revoked))
        notice = await holder.hold.wait_revoked()
        assert notice.for_priority == priority
        assert notice.break_note is not None
        assert notice.break_note.for_priority == priority


def s33_a_notice_without_a_note_is_nobody_s() -> None:
    assert leasehold.Notice(1_058, "", "", None).for_priority is None
