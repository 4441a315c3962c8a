"""S37: a sidecar that is too old for what is asked; and permits (S28)."""

import asyncio
from itertools import count

import pytest
from fake import Bench, HoldCall, bench, eventually, granted, older

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


async def s37_a_call_goes_on_though_the_last_stream_beside_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # A connection that nothing needs any more is closed at once, and not after a while.
    monkeypatch.setattr("leasehold._connect.calls.CALL_TIMEOUT", 0)
    async with bench() as (made, client):
        kept, there = await granted(made, client)
        task, refused = await asked(made, client, {"wait": 60})
        refused.fail(older())
        await made.sidecar.granted()
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
        elsewhere = await made.sidecar.granted()
        await task
        assert made.sidecar.peers.pop() == elsewhere.peer
        grants.append(await client.acquire("f", wait=60))
        for one in grants:
            await client.release(one.lease_id)
        assert made.sidecar.peers == made.sidecar.peers[:1] * 5


async def s37_more_unary_waits_than_one_connection_carries_are_released_where_they_were_granted() -> None:
    async with bench() as (made, client):
        numbers = count()
        made.sidecar.answer = lambda peer: wire.AcquireLeaseResponse(
            granted=hold_pb2.Grant(lease_id=f"{peer} {next(numbers)}")
        )
        made.sidecar.gate.clear()
        waits = [asyncio.create_task(client.acquire("f", wait=60)) for _ in range(201)]
        await eventually("all wait", lambda: len(made.sidecar.requests) == 201)
        made.sidecar.gate.set()
        leases = [grant.lease_id for grant in await asyncio.gather(*waits)]
        made.sidecar.peers.clear()
        for lease in leases:
            await client.release(lease)
        peers = [lease.split()[0] for lease in leases]
        assert made.sidecar.peers == peers
        assert sorted(peers.count(peer) for peer in {*peers}) == [1, 200]
        await eventually("no place is taken", lambda: [one.places for one in client._calls()._lasting] == [0])


async def s37_a_unary_call_tries_on_while_its_wait_lasts() -> None:
    async with bench() as (made, client):
        told = wire.AcquireLeaseResponse(granted=hold_pb2.Grant(lease_id="lease-9", generation=1))
        made.sidecar.answers = [older(), older(), older(), told]
        with pytest.raises(leasehold.UnsupportedError):
            await client.acquire("f")
        assert (await client.acquire("f", wait=60)).lease_id == "lease-9"
        assert [request.needs for request in made.sidecar.requests] == [1, 1, 1, 1]


async def a_unary_wait_without_end_is_made_of_waits_that_end() -> None:
    async with bench() as (made, client):
        made.sidecar.answers = [
            wire.AcquireLeaseResponse(busy=hold_pb2.Busy()),
            wire.AcquireLeaseResponse(granted=hold_pb2.Grant(fencing_token=7)),
        ]
        assert (await client.acquire("f", wait=leasehold.FOREVER)).fencing_token == 7
        spec = made.sidecar.requests[0].spec
        assert (spec.wait.seconds, spec.wait_without_end) == (24 * 60 * 60, False)
