"""How a block ends: S13, S14."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fake import PATIENCE, Bench, until

import leasehold


def s13_an_event_loop_that_ends_ends_the_hold_before_the_stream() -> None:
    was_valid: list[bool] = []

    async def abandon() -> leasehold.AsyncHold:
        async with Bench() as made:
            entering = asyncio.create_task(made.client.hold("f").__aenter__())
            await made.sidecar.granted()
            hold = await entering
            call = hold._keeper._line._call
            call.add_done_callback(lambda _call: was_valid.append(hold.is_valid()))
            # What the end of an event loop does to every task that is left.
            keeping = hold._keeper._keeping
            assert keeping is not None
            keeping.cancel()
            await until(call.done)
            return hold

    assert not asyncio.run(abandon()).is_valid()
    assert was_valid == [False]


async def s14_a_closed_client_ends_its_holds_first_and_releases_them(made: Bench) -> None:
    holder, call = await made.held()
    was_valid: list[bool] = []
    made.sidecar.answers["ReleaseLease"] = lambda _peer: was_valid.append(holder.hold.is_valid())
    await made.client.close()
    assert was_valid == [False]
    assert (await holder.loss()).detail == "the client was closed"
    await call.ended()
    assert made.sidecar.asked == ["release 1"]


async def s13_a_closed_client_waits_for_a_release_that_is_under_way(made: Bench) -> None:
    holder, _call = await made.held()
    made.sidecar.gate.clear()
    holder.leave.set()
    await until(lambda: made.sidecar.asked)
    closing = asyncio.create_task(made.client.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    made.sidecar.gate.set()
    await holder.task
    await closing


async def a_release_that_nobody_answers_is_unconfirmed_after_its_timeout(made: Bench) -> None:
    client = made.another(release_timeout=0.05)
    made.sidecar.gate.clear()
    ends: list[Callable[[Any], Awaitable[object]]] = [
        lambda holder: holder.hold.release(),
        lambda holder: holder.left(),
        lambda _holder: client.close(),
    ]
    for end in ends:
        holder, _call = await made.held(client)
        with pytest.raises(leasehold.ReleaseUnconfirmedError, match=r"did not answer within 0\.05 s"):
            await end(holder)


async def a_release_within_the_block_leaves_nothing_for_its_end(made: Bench) -> None:
    holder, _call = await made.held()
    released = await holder.hold.release()
    assert (released.outcome, released.checkpoint) == (leasehold.ReleaseOutcome.RELEASED, None)
    again = await holder.hold.release(checkpoint=b"late")
    assert again.outcome is leasehold.ReleaseOutcome.ALREADY_RELEASED
    assert again.checkpoint is not None
    assert again.checkpoint.outcome is leasehold.CheckpointOutcome.NOT_SAVED
    for act in (holder.hold.save(b"two"), asyncio.to_thread(holder.hold.check)):
        with pytest.raises(leasehold.LeaseholdError, match="not held any more"):
            await act
    await holder.left()
    assert made.sidecar.asked == ["release 1"]


async def boom() -> None:
    raise ValueError("boom")


async def stubborn() -> None:
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(PATIENCE)


@pytest.mark.parametrize(
    ("answer", "work", "raised", "note"),
    [
        ({"outcome": "ALREADY_LOST", "loss": "TAKEN"}, boom, "boom", "was lost: TAKEN"),
        ({}, boom, "boom", "was not confirmed"),
        ({"outcome": "RELEASED"}, boom, "boom", "was lost: EXPIRED"),
        # The cancellation was the client's, and is taken back.
        ({"outcome": "RELEASED"}, stubborn, "was lost: EXPIRED", ""),
    ],
)
async def s13_an_exception_of_the_block_goes_before_what_becomes_of_the_hold(
    answer: dict[str, str], work: Callable[[], Awaitable[None]], raised: str, note: str, made: Bench
) -> None:
    client = made.another(release_timeout=PATIENCE if answer else 0.05)
    made.sidecar.answers["ReleaseLease"] = made.sidecar.messages.answer("release", answer)
    if not answer:
        made.sidecar.gate.clear()

    async def block() -> None:
        async with client.hold("f"):
            made.clock.advance(58 if "EXPIRED" in raised + note else 0)
            await work()

    task = made.do(block())
    await made.sidecar.granted()
    with pytest.raises((ValueError, leasehold.LostError), match=raised) as caught:
        await task
    assert task.cancelling() == 0
    if note:
        assert note in caught.value.__notes__[0]
        assert isinstance(caught.value.__context__, leasehold.LeaseholdError)


async def a_cancellation_from_elsewhere_wins_over_the_loss(made: Bench) -> None:
    holder, _call = await made.held()
    made.clock.advance(58)
    assert not holder.hold.is_valid()
    holder.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holder.task


async def other_threads_see_the_end_of_the_hold(made: Bench) -> None:
    holder, _call = await made.held()
    made.clock.advance(58)
    # Found by a thread that asks, and told to the block in its event loop.
    found = threading.Thread(target=holder.hold.is_valid)
    found.start()
    assert (await holder.loss()).reason is leasehold.LossReason.EXPIRED
    found.join()
