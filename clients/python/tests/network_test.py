"""What becomes of streams, and of waits, when the network or the sidecar fails."""

import asyncio
from contextlib import aclosing

import pytest
from fake import Bench, Holder, until

import leasehold
from leasehold.v1 import hold_pb2
from leasehold.v1.lease_service_pb2 import AcquireLeaseResponse


async def a_wait_without_end_asks_again_also_where_its_connection_breaks(made: Bench) -> None:
    waiter = Holder(made, wait=leasehold.FOREVER)
    for _ in range(2):
        call = await made.sidecar.call()
        spec = call.request.spec
        assert (spec.wait_without_end, spec.HasField("wait")) == (True, False)
        # What is repeated is told once.
        call.tell("waiting", position=1).tell("waiting", position=1).tell("busy")
    (await made.sidecar.call()).fail()
    await made.sidecar.granted()
    await waiter.left()
    assert [type(await made.events.get()) for _ in range(2)] == [leasehold.Waiting, leasehold.Granted]


async def a_waiter_gives_up_when_its_wait_is_over_and_no_sidecar_is_back(made: Bench) -> None:
    waiter = Holder(made, wait=0.5)
    (await made.sidecar.call()).tell("waiting", position=1)
    await made.events.get()
    await made.kill()
    with pytest.raises(leasehold.UnreachableError):
        await waiter.task


async def a_watch_gives_no_record_twice_and_goes_on_until_its_sidecar_stays_away(
    made: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold._connect.calls.SILENCE", 0.2)
    async with aclosing(made.client.watch_lock("l")) as watch:
        asking = asyncio.ensure_future(anext(watch))
        (await made.sidecar.call("WatchLock")).tell("record", lock_path="a").tell("record", lock_path="a")
        assert (await asking).lock_path == "a"
        # Nothing is heard, and then the sidecar restarts.
        for path in ("b", "c"):
            asking = asyncio.ensure_future(anext(watch))
            call = await made.sidecar.call("WatchLock")
            call.tell("record", lock_path="a" if path == "b" else "b").tell("record", lock_path=path)
            assert (await asking).lock_path == path
            await made.kill()
            await made.start()
        await made.kill()
        with pytest.raises(leasehold.UnreachableError):
            await anext(watch)


async def s14_a_resume_is_tried_again_where_a_token_could_not_be_loaded(made: Bench) -> None:
    tokens = ["one"]
    holder, call = await made.held(made.another(bearer_token=lambda: tokens.pop(0)))
    call.fail()
    assert isinstance(await made.events.get(), leasehold.Interrupted)
    await until(lambda: holder.hold._keeper.resuming)
    tokens.extend(["four"] * 9)
    await made.sidecar.granted()
    assert isinstance(await made.events.get(), leasehold.Resumed)


@pytest.mark.parametrize("wait", [3_600, leasehold.FOREVER])
async def a_wait_covers_a_sidecar_that_starts_later(wait: float, made: Bench) -> None:
    await made.kill()
    calls = made.client._calls()
    waiter = Holder(made, wait=wait)
    await until(lambda: any(connection.has_failed for connection in calls._lasting))
    asking = made.do(made.client.acquire("f", wait=wait))
    await until(lambda: calls._general is not None and calls._general.has_failed)
    made.sidecar.answers["AcquireLease"] = AcquireLeaseResponse(granted=hold_pb2.Grant(fencing_token=7))
    await made.start()
    made.do(made.answer_all())
    assert (await asking).fencing_token == 7
    # The unary call waits for the sidecar first, and tells what is left.
    assert 0 < made.sidecar.requests[0].spec.wait.ToNanoseconds() < 3_600 * 10**9 or wait == leasehold.FOREVER
    await waiter.left()


async def a_unary_wait_without_end_is_made_of_waits_that_end(made: Bench) -> None:
    granted = hold_pb2.Grant(fencing_token=7)
    made.sidecar.answers["AcquireLease"] = [
        AcquireLeaseResponse(busy=hold_pb2.Busy()),
        AcquireLeaseResponse(granted=granted),
    ]
    assert (await made.client.acquire("f", wait=leasehold.FOREVER)).fencing_token == 7
    spec = made.sidecar.requests[0].spec
    assert (spec.wait.seconds, spec.wait_without_end) == (24 * 60 * 60, False)


async def a_sidecar_that_has_just_come_back_is_asked(made: Bench) -> None:
    made.sidecar.answers["AcquireLease"] = AcquireLeaseResponse(granted=hold_pb2.Grant())
    await made.kill()
    for _ in range(5):
        with pytest.raises(leasehold.UnreachableError):
            await made.client.acquire("f")
    await made.start()
    await made.client.acquire("f")
