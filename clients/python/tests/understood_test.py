"""S37: what was understood is said back, and a client that misses it was not served as it asked."""

import asyncio

import grpc
import pytest
from fake import OURS, Bench, HoldCall, Refusal, bench, grant, validity

import leasehold
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1 import lease_service_pb2 as wire

OLDER = hold_pb2.Understood()


async def asked(
    made: Bench, client: leasehold.AsyncClient, options: leasehold.LeaseSpec
) -> tuple["asyncio.Task[int]", HoldCall]:
    """A call for a hold with these options, and the task that makes it."""

    async def hold() -> int:
        async with client.hold("f", **options) as hold:
            return hold.permit

    task = asyncio.create_task(hold())
    made.tasks.append(task)  # type: ignore[arg-type]
    return task, await made.sidecar.hold()


def older() -> wire.HoldLeaseResponse:
    answer = grant(validity(OURS, 1_058, 58))
    answer.granted.ClearField("understood")
    return answer


SHARING: list[leasehold.LeaseSpec] = [{"priority": 7}, {"yields": True}, {"share": "listeners"}, {"rebalance": True}]


@pytest.mark.parametrize("options", [{"wait": leasehold.FOREVER}, {"permits": 3}, *SHARING])
async def s37_a_grant_that_was_not_understood_is_released(options: leasehold.LeaseSpec) -> None:
    async with bench() as (made, client):
        task, call = await asked(made, client, options)
        call.tell(older())
        with pytest.raises(leasehold.UnsupportedError, match="older than this request") as caught:
            await task
        assert caught.value.reason is leasehold.Reason.UNSUPPORTED
        assert str(next(iter(options))) in str(caught.value)
        assert made.sidecar.asked == ["release lease-1 of generation 1"]
        await call.ended()


async def s37_a_release_of_it_that_fails_is_noted() -> None:
    async with bench() as (made, client):
        task, call = await asked(made, client, {"permits": 3})
        made.sidecar.release = Refusal(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
        call.tell(older())
        with pytest.raises(leasehold.UnsupportedError) as caught:
            await task
        assert "was not released" in caught.value.__notes__[0]


@pytest.mark.parametrize("options", [{"wait": leasehold.FOREVER}, *SHARING])
@pytest.mark.parametrize("answer", ["busy", "waiting"])
async def s37_a_wait_that_was_not_understood_is_left(answer: str, options: leasehold.LeaseSpec) -> None:
    async with bench() as (made, client):
        task, call = await asked(made, client, options)
        if answer == "busy":
            call.tell(wire.HoldLeaseResponse(busy=hold_pb2.Busy()))
        else:
            call.tell(wire.HoldLeaseResponse(waiting=hold_pb2.Waiting(position=1)))
        with pytest.raises(leasehold.UnsupportedError):
            await task
        await call.ended()
        assert made.sidecar.asked == []


async def s37_what_was_not_asked_for_needs_no_echo() -> None:
    async with bench() as (made, client):
        nothing: leasehold.LeaseSpec = {"priority": 0, "yields": False, "share": "", "rebalance": False}
        task, call = await asked(made, client, {"wait": 5, "permits": 1, **nothing})
        call.tell(older())
        assert await task == 0


async def s37_permits_are_echoed_with_their_number() -> None:
    async with bench() as (made, client):
        task, call = await asked(made, client, {"permits": 3})
        assert call.request.spec.permits == 3
        answer = grant(validity(OURS, 1_058, 58))
        answer.granted.permit = 2
        answer.granted.understood.permits = 3
        call.tell(answer)
        assert await task == 2
        task, call = await asked(made, client, {"permits": 3})
        call.tell(grant(validity(OURS, 1_058, 58)))
        with pytest.raises(leasehold.UnsupportedError):
            await task


async def s37_a_unary_grant_that_was_not_understood_is_released() -> None:
    async with bench() as (made, client):
        told = hold_pb2.Grant(lease_id="lease-9", generation=1)
        made.sidecar.answer = wire.AcquireLeaseResponse(granted=told)
        with pytest.raises(leasehold.UnsupportedError, match="permits"):
            await client.acquire("f", permits=2)
        with pytest.raises(leasehold.UnsupportedError, match="share"):
            await client.acquire("f", share="listeners")
        assert made.sidecar.asked == ["release lease-9 of generation 1"] * 2
        made.sidecar.answer = wire.AcquireLeaseResponse(busy=hold_pb2.Busy())
        with pytest.raises(leasehold.UnsupportedError, match="permits"):
            await client.acquire("f", permits=2)


async def a_unary_wait_without_end_is_made_of_waits_that_end() -> None:
    async with bench() as (made, client):
        made.sidecar.answers = [
            wire.AcquireLeaseResponse(busy=hold_pb2.Busy()),
            wire.AcquireLeaseResponse(granted=hold_pb2.Grant(fencing_token=7)),
        ]
        assert (await client.acquire("f", wait=leasehold.FOREVER)).fencing_token == 7
        spec = made.sidecar.requests[0].spec
        assert (spec.wait.seconds, spec.wait_without_end) == (24 * 60 * 60, False)


async def s28_a_busy_pool_says_how_many_permits_are_held() -> None:
    async with bench() as (made, client):
        task, call = await asked(made, client, {"permits": 3})
        busy = hold_pb2.Busy(held_permits=3, understood=hold_pb2.Understood(permits=3))
        call.tell(wire.HoldLeaseResponse(busy=busy))
        with pytest.raises(leasehold.BusyError, match="3 permits of it are held") as caught:
            await task
        assert caught.value.busy.held_permits == 3


@pytest.mark.parametrize("permits", [0, -1, 2**32])
async def s28_a_number_of_permits_that_cannot_be_sent_is_refused(permits: int) -> None:
    async with bench() as (_made, client):
        with pytest.raises(leasehold.ArgumentError, match=f"permits is {permits}; 1 to 32"):
            client.hold("f", permits=permits)


async def s28_a_permit_of_a_lock_is_selected_by_its_number() -> None:
    async with bench() as (made, client):
        key = leasehold.LockKey("f")
        made.sidecar.answer = wire.GetLockResponse(record=lock_pb2.LockRecord(permit=2, permits=3))
        record = await client.get_lock(key, permit=2)
        assert (record.permit, record.permits) == (2, 3)
        made.sidecar.answer = wire.CheckTokenResponse(status=wire.TOKEN_STATUS_CURRENT)
        await client.check_token(key, 7, permit=2)
        made.sidecar.answer = wire.BreakLockResponse()
        await client.break_lock(key, "stuck", permit=2)
        async for _record in client.watch_lock(key, permit=2):
            pytest.fail("nothing was told")
        assert [request.lock.permit for request in made.sidecar.requests] == [2, 2, 2, 2]
        with pytest.raises(leasehold.ArgumentError, match="a path names its permit"):
            await client.get_lock("locks/f~2", permit=2)
