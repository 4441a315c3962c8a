"""Holds without asyncio: the sidecar of the test runs in the test's loop, and the client in a thread of its own."""

import asyncio
import threading

import pytest
from bench import PATIENCE, Bench

import leasehold


async def a_with_block_releases_the_lock(served: Bench) -> None:
    result = {"outcome": "RELEASED", "checkpoint_outcome": "SAVED", "checkpoint_version": 65_541}
    served.sidecar.answer("release", result)
    events: list[leasehold.HoldEvent] = []
    heard = threading.Event()

    def on_event(event: leasehold.HoldEvent) -> None:
        events.append(event)
        if isinstance(event, leasehold.Renewed):
            heard.set()

    def work(client: leasehold.Client) -> int:
        with client.hold("f", on_event=on_event) as hold:
            assert heard.wait(PATIENCE), "a block that sleeps keeps no renewal from being heard"
            assert leasehold.current_hold() is hold
            assert hold.remaining() == 59
            hold.check()
            hold.report_progress()
            assert hold.info().validity.valid_until == 1_060
            hold.extend(90)
            assert hold.save_json(7) == hold.save(b"8") == 1
            released = hold.release(checkpoint=b"9")
            assert released.checkpoint is not None
            return released.checkpoint.version or 0

    call, task = await served.during(work)
    call.tell("renewed", until=59_000, for_=59_000)
    assert await task == 65_541
    assert served.sidecar.requests[-1].checkpoint == b"9"
    assert [type(event) for event in events] == [leasehold.Granted, leasehold.Renewed]
    calls = ["report_progress 1", "get_hold 1", "extend_lease 1 90000", "save_checkpoint 1 7", "save_checkpoint 1 8"]
    assert served.sidecar.asked == [*calls, "release 1"]
    await call.ended()


@pytest.mark.parametrize("is_told", [True, False])
async def s4_s22_a_thread_learns_of_a_notice_and_of_the_loss_and_waits_no_longer_than_for_that(
    is_told: bool, served: Bench
) -> None:
    entered, noticed = threading.Event(), threading.Event()

    def work(client: leasehold.Client) -> None:
        with client.hold("f") as hold:
            assert (hold.wait_lost(0.01), hold.wait_revoked(0.01), hold.revoked_event.is_set()) == (None, None, False)
            entered.set()
            notice = hold.wait_revoked()
            assert (notice is not None) == hold.revoked_event.is_set() == hold.is_valid() == is_told
            noticed.set()
            loss = hold.wait_lost()
            assert loss is not None
            assert loss.reason.name == ("BROKEN" if is_told else "EXPIRED")
            with pytest.raises(leasehold.LostError):
                hold.check()

    call, task = await served.during(work)
    await asyncio.to_thread(entered.wait)
    if is_told:
        call.tell("revoked", by="ops")
        await asyncio.to_thread(noticed.wait, 10)
    served.clock.advance(58)
    with pytest.raises(leasehold.LostError):
        await task
    assert served.sidecar.asked == ["release 1"], "S13: it says that it knows"


async def a_decorated_function_holds_the_lock_for_each_call(served: Bench) -> None:
    def work(client: leasehold.Client) -> list[int]:
        @client.hold("f")
        def job(number: int) -> int:
            assert leasehold.current_hold().is_valid()
            return number + 1

        return [job(1), job(2)]

    @served.client.hold("f")
    async def job(number: int) -> int:
        assert leasehold.current_hold().is_valid()
        return number + 1

    _call, task = await served.during(work)
    served.do(served.answer_all())
    assert await task == [2, 3]
    assert await job(3) == 4
    assert served.sidecar.asked == ["release 1"] * 3
    with pytest.raises(LookupError):
        leasehold.current_hold()


async def an_event_handler_that_calls_is_refused_and_not_waited_for_without_end(served: Bench) -> None:
    refused: list[str] = []

    def work(client: leasehold.Client) -> None:
        def on_event(_event: leasehold.HoldEvent) -> None:
            with pytest.raises(leasehold.LeaseholdError) as caught:
                client.get_lock("a")
            refused.append(str(caught.value))

        with client.hold("f", on_event=on_event):
            pass

    _call, task = await served.during(work)
    await task
    assert refused == ["an event handler cannot wait for a call: hand the event to another thread"]
