"""S37: a sidecar that is too old for what is asked; and permits (S28)."""

import asyncio

import pytest
from fake import OURS, Bench, HoldCall, bench, eventually, grant, granted, older, validity

import leasehold
from leasehold._connect.needs import needs
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1 import lease_service_pb2 as wire


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


def s37_a_request_needs_the_revision_of_its_newest_field() -> None:
    newer = {"leasehold.v1.LeaseSpec.permits": 2, "leasehold.v1.LockKey.scope": 3}
    spec = hold_pb2.LeaseSpec(priority=7, key=lock_pb2.LockKey(function="f"))
    assert needs(wire.HoldLeaseRequest(spec=spec), newer) == 1
    spec.permits = 2
    assert needs(wire.HoldLeaseRequest(spec=spec), newer) == 2
    spec.key.scope = "s"
    assert needs(wire.HoldLeaseRequest(spec=spec), newer) == 3


@pytest.mark.parametrize("reports", [0, 1])
async def s37_a_sidecar_that_is_too_old_is_left_by_new_streams_alone(reports: int) -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.SaveCheckpointResponse(version=1)
        kept, there = await granted(made, client)
        for _ in range(reports):
            await kept.hold.report_progress()
        task, refused = await asked(made, client, {"wait": 60})
        refused.fail(older())
        elsewhere = await made.sidecar.hold()
        elsewhere.tell(grant(validity(OURS, 1_058, 58)))
        await task
        assert [refused.peer, *made.sidecar.peers] == [there.peer] * (1 + reports) + [elsewhere.peer]
        made.sidecar.peers.clear()
        await kept.hold.report_progress()
        await kept.hold.info()
        await kept.hold.extend(90)
        await kept.hold.save(b"x")
        await kept.hold.release()
        assert made.sidecar.peers == [there.peer] * 5
        assert there.peer != elsewhere.peer


async def s37_a_call_goes_on_though_the_last_stream_beside_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # A connection that nothing needs any more is closed at once, and not after a while.
    monkeypatch.setattr("leasehold._connect.calls.CALL_TIMEOUT", 0)
    async with bench() as (made, client):
        kept, there = await granted(made, client)
        task, refused = await asked(made, client, {"wait": 60})
        refused.fail(older())
        (await made.sidecar.hold()).tell(grant(validity(OURS, 1_058, 58)))
        await task
        made.sidecar.answer = wire.SaveCheckpointResponse(version=1)
        made.sidecar.gate.clear()
        saving = asyncio.create_task(kept.hold.save(b"x"))
        await eventually("the save is asked for", lambda: made.sidecar.peers[-1:] == [there.peer])
        there.tell(wire.HoldLeaseResponse(lost=hold_pb2.Lost(reason=hold_pb2.LOSS_REASON_TAKEN)))
        await there.ended()
        made.sidecar.gate.set()
        assert await saving == 1


async def s37_what_a_unary_call_was_granted_is_known_where_it_was_granted() -> None:
    async with bench() as (made, client):
        told = wire.AcquireLeaseResponse(granted=hold_pb2.Grant(lease_id="lease-9", generation=1))
        made.sidecar.answers = [told, older(), told]
        task, refused = await asked(made, client, {"wait": 60})
        grants = [await client.acquire("f")]
        refused.fail(older())
        elsewhere = await made.sidecar.hold()
        elsewhere.tell(grant(validity(OURS, 1_058, 58)))
        await task
        assert made.sidecar.peers.pop() == elsewhere.peer
        grants.append(await client.acquire("f", wait=60))
        for one in grants:
            await client.release(one.lease_id)
        assert made.sidecar.peers == made.sidecar.peers[:1] * 5


async def more_unary_waits_than_one_connection_carries_leave_room_for_releases() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = wire.AcquireLeaseResponse(granted=hold_pb2.Grant())
        made.sidecar.gate.clear()
        waits = [asyncio.create_task(client.acquire("f", wait=60)) for _ in range(201)]
        await eventually("all wait", lambda: len(made.sidecar.requests) == 201)
        await client.release("lease-9")
        peers = made.sidecar.peers
        assert sorted(peers.count(peer) for peer in {*peers}) == [1, 201]
        made.sidecar.gate.set()
        await asyncio.gather(*waits)


async def s37_who_does_not_wait_is_told_at_once() -> None:
    async with bench() as (made, client):
        task, call = await asked(made, client, {})
        call.fail(older())
        with pytest.raises(leasehold.UnsupportedError, match="2 and 1") as caught:
            await task
        assert caught.value.reason is leasehold.Reason.UNSUPPORTED


async def s37_a_unary_call_tries_on_while_its_wait_lasts() -> None:
    async with bench() as (made, client):
        told = wire.AcquireLeaseResponse(granted=hold_pb2.Grant(lease_id="lease-9", generation=1))
        made.sidecar.answers = [older(), older(), older(), told]
        with pytest.raises(leasehold.UnsupportedError):
            await client.acquire("f")
        assert (await client.acquire("f", wait=60)).lease_id == "lease-9"
        assert [request.needs for request in made.sidecar.requests] == [1, 1, 1, 1]


async def s28_a_permit_is_asked_for_and_told() -> None:
    async with bench() as (made, client):
        task, call = await asked(made, client, {"permits": 3})
        assert call.request.spec.permits == 3
        answer = grant(validity(OURS, 1_058, 58))
        answer.granted.permit = 2
        call.tell(answer)
        assert await task == 2


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
        busy = hold_pb2.Busy(held_permits=3)
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
