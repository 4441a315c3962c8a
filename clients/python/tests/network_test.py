"""What becomes of streams, and of waits, when the network or the sidecar fails."""

import asyncio
from contextlib import aclosing

import pytest
from bench import Bench, Holder, until
from fake import GONE
from messages import refusal

import leasehold


async def a_wait_without_end_asks_again_where_the_lock_was_busy_and_is_told_its_place_once(made: Bench) -> None:
    waiter = Holder(made, wait=leasehold.FOREVER)
    for _ in range(2):
        call = await made.sidecar.call()
        spec = call.request.spec
        assert (spec.wait_without_end, spec.HasField("wait")) == (True, False)
        # What is repeated is told once.
        call.tell("waiting", position=1).tell("waiting", position=1).tell("busy")
    await made.sidecar.granted()
    await waiter.left()
    assert [type(await made.events.get()) for _ in range(2)] == [leasehold.Waiting, leasehold.Granted]


async def a_waiter_gives_up_when_its_wait_is_over_and_no_sidecar_is_back(made: Bench) -> None:
    waiter = Holder(made, wait=3)
    (await made.sidecar.call()).tell("waiting", position=1)
    await made.events.get()
    made.sidecar.standing["hold_lease"] = GONE
    made.sidecar.calls[0].fail()
    with pytest.raises(leasehold.RefusedError):
        await waiter.task
    assert asyncio.get_running_loop().time() == 3


async def a_watch_gives_no_record_twice_and_goes_on_until_its_sidecar_stays_away(made: Bench) -> None:
    async with aclosing(made.client.watch_lock("l")) as watch:
        for paths in ("aa", "ab", "bc"):
            asking = made.do(anext(watch))
            call = await made.sidecar.call("watch_lock")
            for path in paths:
                call.tell("record", lock_path=path)
            assert (await asking).lock_path == paths[-1]
            if paths != "aa":
                # After the first one nothing is heard.
                call.fail()
        made.sidecar.standing["watch_lock"] = GONE
        with pytest.raises(leasehold.RefusedError):
            await anext(watch)
    assert asyncio.get_running_loop().time() > 180


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
async def a_wait_covers_a_sidecar_that_starts_later(wait: float, served: Bench) -> None:
    await served.kill()
    calls = served.client._calls()
    waiter = Holder(served, wait=wait)
    await until(lambda: any(connection.has_failed for connection in calls._lasting))
    asking = served.do(served.client.acquire("f", wait=wait))
    await until(lambda: calls._general is not None and calls._general.has_failed)
    served.sidecar.answer("acquire_lease", {"granted": {"fencing_token": 7}})
    await served.start()
    served.do(served.answer_all())
    assert (await asking).fencing_token == 7
    # The unary call waits for the sidecar first, and tells what is left.
    assert 0 < served.sidecar.requests[0].spec.wait.ToNanoseconds() < 3_600 * 10**9 or wait == leasehold.FOREVER
    await waiter.left()


async def s19_a_unary_wait_without_end_is_made_of_waits_that_the_sidecar_allows(made: Bench) -> None:
    too_long = refusal("INVALID_ARGUMENT", "INVALID_FIELD", field="spec.wait")
    made.sidecar.answer("acquire_lease", too_long, {"busy": {}}, {"granted": {"fencing_token": 7}})
    assert (await made.client.acquire("f", wait=leasehold.FOREVER)).fencing_token == 7
    specs = [request.spec for request in made.sidecar.requests]
    assert [spec.wait.seconds / 3_600 for spec in specs] == [24, 12, 12]
    assert not any(spec.wait_without_end for spec in specs)
    for error, wait in (
        (too_long, 60),
        (too_long, leasehold.FOREVER),
        (refusal("INVALID_ARGUMENT"), leasehold.FOREVER),
    ):
        made.sidecar.standing["acquire_lease"] = error
        with pytest.raises(leasehold.RefusedError):
            await made.client.acquire("f", wait=wait)
    assert made.sidecar.requests[-2].spec.wait.seconds < 1 < made.sidecar.requests[-1].spec.wait.seconds


async def a_sidecar_that_has_just_come_back_is_asked(served: Bench) -> None:
    served.sidecar.answer("acquire_lease", {"granted": {}})
    await served.kill()
    for _ in range(5):
        with pytest.raises(leasehold.UnreachableError):
            await served.client.acquire("f")
    await served.start()
    await served.client.acquire("f")
