"""S37: what is said of a hold or of a run goes over the connection of its stream, whose place is given back then."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import pytest
from fake import OURS, Bench, HoldCall, Holder, bench, eventually, grant, granted, older, validity
from fake_schedules import STANDBY, FakeSchedules, SubscribeCall, due, scheduled
from messages import Refusal

import leasehold
from leasehold._connect.listening import Connection
from leasehold._connect.options import Connector
from leasehold.v1 import hold_pb2
from leasehold.v1.lease_service_pb2 import HoldLeaseResponse, SaveCheckpointResponse
from leasehold.v1.schedule_service_pb2 import SubscribeScheduleResponse

TAKEN = hold_pb2.Lost(reason=hold_pb2.LOSS_REASON_TAKEN)
GONE = Refusal(grpc.StatusCode.UNAVAILABLE)


def places(client: leasehold.AsyncClient) -> list[int]:
    """How many places are taken on each connection that may carry streams."""
    assert client._made is not None
    return [connection.places for connection in client._made._lasting]


@asynccontextmanager
async def left(made: Bench, client: leasehold.AsyncClient) -> AsyncIterator[None]:
    """The client's connection is left: its sidecar is too old for another hold, which a new one grants."""
    other = Holder(made, client, wait=60)
    (await made.sidecar.hold()).fail(older())
    await made.sidecar.granted()
    await other.granted.wait()
    yield
    other.leave.set()
    await other.task


async def released(made: Bench, holder: Holder, call: HoldCall) -> None:
    made.sidecar.answer = SaveCheckpointResponse(version=1)
    await holder.hold.save(b"x")
    info = await holder.hold.info()
    assert info.validity.valid_until == 1_060
    assert (holder.hold.remaining(), holder.hold.max_hold_ends) == (60, 1_300), "it counts"
    await holder.hold.extend(90)
    assert made.sidecar.peers == [call.peer] * 3
    made.sidecar.peers.clear()
    holder.leave.set()
    await holder.task


async def lost(_made: Bench, holder: Holder, call: HoldCall) -> None:
    call.tell(HoldLeaseResponse(lost=TAKEN))
    await call.ended()
    await holder.loss()


async def interrupted(made: Bench, holder: Holder, call: HoldCall) -> None:
    call.fail(GONE)
    resume = await made.sidecar.hold()
    await holder.hold.report_progress()
    resume.tell(HoldLeaseResponse(lost=TAKEN))
    await holder.loss()


async def resumed(made: Bench, holder: Holder, call: HoldCall) -> None:
    call.fail(GONE)
    await made.sidecar.granted()
    calls = holder.hold._calls
    await eventually("its place is there", lambda: [connection.places for connection in calls._lasting] == [4])
    holder.leave.set()
    await holder.task


async def dropped(_made: Bench, holder: Holder, call: HoldCall) -> None:
    holder.task.cancel()
    call.tell(HoldLeaseResponse(lost=TAKEN))
    with pytest.raises(asyncio.CancelledError):
        await holder.task


@pytest.mark.parametrize(
    ("end", "is_there"), [(released, True), (lost, True), (interrupted, True), (resumed, False), (dropped, True)]
)
async def s37_what_is_said_of_a_hold_goes_to_its_own_sidecar_and_leaves_no_place(
    end: Callable[[Bench, Holder, HoldCall], Awaitable[None]], is_there: bool
) -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        async with left(made, client):
            made.sidecar.peers.clear()
            await end(made, holder, call)
            assert [peer == call.peer for peer in made.sidecar.peers] == [is_there]
        await eventually("no place is taken", lambda: places(client) == [0])


@pytest.mark.parametrize("is_child", [False, True])
async def a_hold_that_is_lost_and_never_left_gives_its_place_back_when_it_is_collected(
    is_child: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench() as (made, client):
        entering = asyncio.create_task(client.hold("f").__aenter__())
        call = await made.sidecar.granted()
        hold = await entering
        call.tell(HoldLeaseResponse(lost=TAKEN))
        await hold.lost()
        await eventually("its stream has ended", lambda: places(client) == [1])
        with monkeypatch.context() as child:
            pid = os.getpid() + is_child
            child.setattr(os, "getpid", lambda: pid)
            del hold, entering
            gc.collect()
        await asyncio.sleep(0.05)
        assert places(client) == [int(is_child)]


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
    state: grpc.ChannelConnectivity, has_others: bool, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        own = holder.hold._keeper.connection
        monkeypatch.setattr(Connection, "state", property(lambda one: state if one is own else one.channel.get_state()))
        monkeypatch.setattr(Connector, "reloads", has_others)
        monkeypatch.setattr(own, "tls", leasehold.Tls(ca_certificate=b"") if has_others else None)
        await holder.hold.info()
        await holder.hold.report_progress()
        await holder.hold.extend(90)
        holder.leave.set()
        await holder.task
        assert [peer == call.peer for peer in made.sidecar.peers] == [is_there] * 4


async def completed(_schedules: FakeSchedules, run: leasehold.AsyncRun, _call: SubscribeCall) -> None:
    await run.succeeded()


async def returned(_schedules: FakeSchedules, run: leasehold.AsyncRun, _call: SubscribeCall) -> None:
    await run.release()


async def robbed(_schedules: FakeSchedules, run: leasehold.AsyncRun, call: SubscribeCall) -> None:
    call.tell(SubscribeScheduleResponse(lost=TAKEN))
    await run.lost()
    call.fail(GONE)
    await call.ended()
    await run.failed()


async def cut(schedules: FakeSchedules, run: leasehold.AsyncRun, call: SubscribeCall) -> None:
    call.fail(GONE)
    resume = await schedules.call()
    asked = resume.request
    assert (asked.reconnected, asked.run_id, asked.resume.resume_token) == (True, "run-1", "resume-1")
    resume.tell(SubscribeScheduleResponse(lost=TAKEN))
    await run.lost()
    await run.succeeded()


async def forgotten(_schedules: FakeSchedules, run: leasehold.AsyncRun, call: SubscribeCall) -> None:
    call.tell(SubscribeScheduleResponse(lost=TAKEN))
    await run.lost()


async def repeated(schedules: FakeSchedules, run: leasehold.AsyncRun, call: SubscribeCall) -> None:
    schedules.completions = [Refusal(grpc.StatusCode.INTERNAL)]
    with pytest.raises(leasehold.RefusedError):
        await run.succeeded()
    call.fail(GONE)
    await eventually("the stream has ended", run._keeper._line._call.done)
    await run.succeeded()


async def unanswered(schedules: FakeSchedules, run: leasehold.AsyncRun, _call: SubscribeCall) -> None:
    schedules.completions = [Refusal(grpc.StatusCode.INTERNAL)]
    with pytest.raises(leasehold.RefusedError):
        await run.succeeded()


async def unconfirmed(schedules: FakeSchedules, run: leasehold.AsyncRun, call: SubscribeCall) -> None:
    schedules.completions = [Refusal(grpc.StatusCode.INTERNAL)]
    with pytest.raises(leasehold.ReleaseUnconfirmedError):
        await run.release()
    call.fail(GONE)
    await eventually("the stream has ended", run._keeper._line._call.done)
    await run.failed()


@pytest.mark.parametrize(
    ("end", "times"),
    [
        (unconfirmed, 2),
        (completed, 1),
        (returned, 1),
        (robbed, 1),
        (cut, 1),
        (forgotten, 1),
        (unanswered, 1),
        (repeated, 2),
    ],
)
async def s37_what_is_said_of_a_run_goes_to_its_own_sidecar_and_leaves_no_place(
    end: Callable[[FakeSchedules, leasehold.AsyncRun, SubscribeCall], Awaitable[None]], times: int
) -> None:
    async with scheduled() as (made, schedules, client):
        runs = client.runs("30 2 * * *", function="nightly")
        first = asyncio.create_task(anext(runs))
        call = await schedules.running()
        run = await first
        async with left(made, client):
            await end(schedules, run, call)
            await runs.aclose()
            assert schedules.peers == [call.peer] * times
        await eventually("no place is taken", lambda: places(client) == [0])


async def a_fork_closes_what_a_lost_run_without_a_stream_keeps() -> None:
    async with scheduled() as (_made, schedules, client):
        runs = client.runs("30 2 * * *", function="nightly")
        first = asyncio.create_task(anext(runs))
        call = await schedules.running()
        run = await first
        assert client._made is not None
        assert not client._made.close_idle(), "its stream is needed"
        call.tell(SubscribeScheduleResponse(lost=TAKEN))
        await run.lost()
        call.fail(GONE)
        await eventually("the stream has ended", run._keeper._line._call.done)
        assert client._made.close_idle()
        await run.succeeded()
        assert schedules.outcomes == ["SUCCEEDED"], "over a new connection"
        await runs.aclose()
        assert places(client) == []


@asynccontextmanager
async def full(made: Bench, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Connections have room for 10 streams, and for a call beside each; the sidecar allows a few more."""
    monkeypatch.setattr("leasehold._connect.calls._STREAMS", 10)
    await made.kill()
    await made.start(streams=25)
    yield


async def s13_each_hold_of_a_full_connection_has_room_for_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as (made, client), full(made, monkeypatch):
        # All wait before the first is granted.
        holders = [Holder(made, client) for _ in range(20)]
        calls = [await made.sidecar.hold() for _ in holders]
        for call in calls:
            call.tell(grant(validity(OURS, 1_058, 58)))
        for holder in holders:
            await holder.granted.wait()
        await saved(made, holders)
        # All are resumed at once, elsewhere.
        for call in calls:
            call.fail(older())
        for call in [await made.sidecar.hold() for _ in holders]:
            call.tell(grant(validity(OURS, 1_058, 58)))
        await eventually("all are resumed", lambda: not any(holder.hold._keeper.resuming for holder in holders))
        await saved(made, holders)
        for holder in holders:
            holder.leave.set()
            await holder.task
        await eventually("no place is taken", lambda: sum(places(client)) == 0)


async def saved(made: Bench, holders: list[Holder]) -> None:
    """All save, and none is answered before all have come."""
    made.sidecar.peers.clear()
    made.sidecar.gate.clear()
    saves = [asyncio.create_task(holder.hold.save(b"x")) for holder in holders]
    await eventually("all have come", lambda: len(made.sidecar.peers) == len(saves))
    made.sidecar.answer = SaveCheckpointResponse(version=1)
    made.sidecar.gate.set()
    assert await asyncio.gather(*saves) == [1] * len(saves)


async def s13_each_run_of_a_full_connection_has_room_for_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scheduled() as (made, schedules, client), full(made, monkeypatch):
        subscriptions = [client.runs("30 2 * * *", function="nightly") for _ in range(20)]
        firsts = [asyncio.create_task(anext(runs)) for runs in subscriptions]
        # All are subscribed before the first run comes.
        for call in [await schedules.call() for _ in firsts]:
            call.tell(STANDBY, due())
        runs = await asyncio.gather(*firsts)
        schedules.gate.clear()
        completions = [asyncio.create_task(run.succeeded()) for run in runs]
        await eventually("all have come", lambda: len(schedules.completed) == len(runs))
        schedules.gate.set()
        await asyncio.gather(*completions)
        for one in subscriptions:
            await one.aclose()
        await eventually("no place is taken", lambda: sum(places(client)) == 0)
