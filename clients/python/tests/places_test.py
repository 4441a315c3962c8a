"""S37: what is said of a hold or of a run goes over the connection of its stream, whose place is given back then."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import grpc
import pytest
from bench import CRON, Bench, Holder, until
from fake import OLDER
from messages import Said, refusal

import leasehold
from leasehold._connect.listening import Connection
from leasehold._connect.options import Connector


def places(made: Bench) -> list[int]:
    """How many places are taken on each connection that may carry streams."""
    return [connection.places for connection in made.client._calls()._lasting]


@asynccontextmanager
async def left(made: Bench) -> AsyncIterator[None]:
    """The client's connection is left: its sidecar is too old for another hold, which a new one grants."""
    other = Holder(made, wait=60)
    (await made.sidecar.call()).fail(OLDER)
    await made.sidecar.granted()
    await other.granted.wait()
    made.sidecar.peers.clear()
    yield
    peers = made.sidecar.peers[:]
    await other.left()
    made.sidecar.peers[:] = peers


@pytest.mark.parametrize("is_child", [False, True])
async def a_hold_that_is_lost_and_never_left_gives_its_place_back_when_it_is_collected(
    is_child: bool, made: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    entering = asyncio.create_task(made.client.hold("f").__aenter__())
    call = await made.sidecar.granted()
    hold = await entering
    call.tell("lost", reason="TAKEN")
    await hold.lost()
    await until(lambda: places(made) == [1])
    with monkeypatch.context() as child:
        pid = os.getpid() + is_child
        child.setattr(os, "getpid", lambda: pid)
        del hold, entering
        gc.collect()
    await asyncio.sleep(1)
    assert places(made) == [int(is_child)]


@pytest.mark.parametrize(
    ("state", "has_others", "is_there"),
    [
        (grpc.ChannelConnectivity.TRANSIENT_FAILURE, False, True),
        (grpc.ChannelConnectivity.IDLE, True, True),
        # A channel keeps its certificates, so this one never connects again.
        (grpc.ChannelConnectivity.TRANSIENT_FAILURE, True, False),
    ],
)
async def s37_a_connection_that_breaks_is_kept_for_what_is_said_of_its_hold(
    state: grpc.ChannelConnectivity, has_others: bool, is_there: bool, made: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, call = await made.held()
    own = holder.hold._keeper.connection
    monkeypatch.setattr(Connection, "state", property(lambda one: state if one is own else one.channel.get_state()))
    monkeypatch.setattr(Connector, "reloads", has_others)
    monkeypatch.setattr(own, "tls", leasehold.Tls(ca_certificate=b"") if has_others else None)
    told = await holder.hold.info()
    assert [told.validity.valid_until, holder.hold.remaining(), holder.hold.max_hold_ends] == [1_060, 60, 1_300]
    await holder.hold.report_progress()
    await holder.hold.extend(90)
    await holder.left()
    assert [peer == call.peer for peer in made.sidecar.peers] == [is_there] * 4


async def s37_a_call_goes_on_though_the_last_stream_beside_it_has_ended(
    served: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A connection that nothing needs any more is closed at once, and not after a while.
    monkeypatch.setattr("leasehold._connect.calls.CALL_TIMEOUT", 0)
    kept, there = await served.held()
    async with left(served):
        del served.sidecar.standing["save_checkpoint"]
        saving = served.do(kept.hold.save(b"x"))
        await until(lambda: served.sidecar.peers == [there.peer])
        there.tell("lost", reason="TAKEN")
        await there.ended()
        served.sidecar.answer("save_checkpoint", {"version": 7})
        assert await saving == 7


async def s37_the_outcome_of_a_lost_run_whose_stream_has_broken_goes_to_its_own_sidecar(made: Bench) -> None:
    runs, run, call = await made.running()
    async with left(made):
        call.tell("lost", reason="TAKEN")
        await run.lost()
        call.fail()
        await until(run._keeper._line._call.done)
        await run.failed()
        await runs.aclose()
    assert made.sidecar.peers == [call.peer]
    await until(lambda: places(made) == [0])


async def s37_a_run_whose_release_is_refused_ends_its_stream_and_keeps_its_sidecar_for_its_outcome(made: Bench) -> None:
    runs, run, call = await made.running()
    async with left(made):
        made.sidecar.answer("complete_run", refusal("INTERNAL"))
        with pytest.raises(leasehold.ReleaseUnconfirmedError):
            await run.release()
        # The sidecar may go on with a run whose end it has not heard.
        await call.ended()
        await run.failed()
        await runs.aclose()
    assert made.sidecar.peers == [call.peer] * 2
    await until(lambda: places(made) == [0])


async def a_fork_closes_what_a_lost_run_without_a_stream_keeps(made: Bench) -> None:
    runs, run, call = await made.running()
    calls = made.client._calls()
    assert not calls.close_idle(), "its stream is needed"
    call.tell("lost", reason="TAKEN")
    await run.lost()
    call.fail()
    await until(run._keeper._line._call.done)
    assert calls.close_idle()
    await run.succeeded()
    assert made.sidecar.asked == ["complete_run 1 SUCCEEDED"], "over a new connection"
    await runs.aclose()
    assert places(made) == []


async def flooded(made: Bench, name: str, calls: list[Coroutine[Any, Any, object]]) -> None:
    """Make calls, of which none is answered before all have come."""
    answer = made.sidecar.standing.pop(name)
    made.sidecar.peers.clear()
    making = [made.do(call) for call in calls]
    await until(lambda: len(made.sidecar.peers) == len(calls))
    made.sidecar.answer(name, *[answer] * len(calls))
    await asyncio.gather(*making)
    made.sidecar.standing[name] = answer


async def s13_each_hold_and_run_of_a_full_connection_has_room_for_a_call(
    served: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is room for 10 streams, and for a call beside each; the sidecar allows a few more.
    monkeypatch.setattr("leasehold._connect.calls._STREAMS", 10)
    await served.kill()
    await served.start(streams=25)
    # All wait before the first is granted.
    holders = [Holder(served) for _ in range(20)]
    calls = [await served.sidecar.call() for _ in holders]
    for call in calls:
        call.tell("granted")
    for holder in holders:
        await holder.granted.wait()
    await flooded(served, "save_checkpoint", [holder.hold.save(b"x") for holder in holders])
    # All are resumed at once, elsewhere.
    for call in calls:
        call.fail(OLDER)
    for call in [await served.sidecar.call() for _ in holders]:
        call.tell("granted")
    await until(lambda: not any(holder.hold._keeper.resuming for holder in holders))
    await flooded(served, "save_checkpoint", [holder.hold.save(b"x") for holder in holders])
    for holder in holders:
        await holder.left()
    subscriptions = [served.client.runs(CRON, function="nightly") for _ in range(20)]
    firsts = [asyncio.create_task(anext(runs)) for runs in subscriptions]
    for _ in firsts:
        await served.sidecar.running()
    await flooded(served, "complete_run", [run.succeeded() for run in await asyncio.gather(*firsts)])
    for runs in subscriptions:
        await runs.aclose()
    await until(lambda: sum(places(served)) == 0)


def leases(made: Bench) -> None:
    """Grant to each AcquireLease a lease whose id names its connection."""
    numbers = count()

    def grant(peer: str) -> Said:
        return {"granted": {"lease_id": f"{peer} {next(numbers)}", "generation": 1}}

    made.sidecar.standing["acquire_lease"] = grant


async def s37_more_unary_waits_than_a_connection_carries_are_released_where_they_were_granted(made: Bench) -> None:
    leases(made)
    grant = made.sidecar.standing.pop("acquire_lease")
    waits = [made.do(made.client.acquire("f", wait=60)) for _ in range(201)]
    await until(lambda: len(made.sidecar.requests) == 201)
    made.sidecar.answer("acquire_lease", *[grant] * 201)
    granted = [grant.lease_id for grant in await asyncio.gather(*waits)]
    made.sidecar.peers.clear()
    for lease in granted:
        await made.client.release(lease)
    peers = [lease.split()[0] for lease in granted]
    assert made.sidecar.peers == peers
    assert sorted(peers.count(peer) for peer in {*peers}) == [1, 200]
    await until(lambda: places(made) == [0])


async def s37_what_a_unary_call_was_granted_is_known_where_it_was_granted(made: Bench) -> None:
    leases(made)
    refused = Holder(made, wait=60)
    there = await made.sidecar.call()
    granted = [(await made.client.acquire("f")).lease_id]
    there.fail(OLDER)
    elsewhere = await made.sidecar.granted()
    await refused.left()
    assert made.sidecar.peers.pop() == elsewhere.peer
    granted.append((await made.client.acquire("f", wait=60)).lease_id)
    for lease in granted:
        await made.client.release(lease)
    assert made.sidecar.peers == made.sidecar.peers[:1] * 4


async def s37_a_unary_call_tries_on_while_its_wait_lasts(made: Bench) -> None:
    made.sidecar.answer("acquire_lease", OLDER, OLDER, OLDER, {"granted": {"lease_id": "lease-9"}})
    with pytest.raises(leasehold.UnsupportedError):
        await made.client.acquire("f")
    assert (await made.client.acquire("f", wait=60)).lease_id == "lease-9"
    assert [request.needs for request in made.sidecar.requests] == [1, 1, 1, 1]
    assert made.sidecar.peers == made.sidecar.peers[:1] * 4
