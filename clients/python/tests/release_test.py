"""How a block ends: S13, S14."""

import asyncio
import threading

import pytest
from fake import PATIENCE, bench, eventually, granted

import leasehold
from leasehold.v1 import hold_pb2


async def s13_a_cancelled_block_releases_the_lock() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        holder.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holder.task
        assert made.sidecar.asked == ["release lease-1 of generation 1"]
        await call.ended()


def s13_an_event_loop_that_ends_ends_the_hold_before_the_stream() -> None:
    was_valid: list[bool] = []

    async def abandon() -> leasehold.AsyncHold:
        async with bench() as (made, client):
            holding = client.hold("f")
            entering = asyncio.create_task(holding.__aenter__())
            await made.sidecar.granted()
            hold = await entering
            call = hold._keeper._line._call
            call.add_done_callback(lambda _call: was_valid.append(hold.is_valid()))
            # What the end of an event loop does to every task that is left.
            keeping = hold._keeper._keeping
            assert keeping is not None
            keeping.cancel()
            await eventually("the stream ends", call.done)
            return hold

    hold = asyncio.run(abandon())
    assert not hold.is_valid()
    assert was_valid == [False]


async def s14_a_closed_client_ends_its_holds_first_and_releases_them() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        was_valid = []
        made.sidecar.on_release = lambda: was_valid.append(holder.hold.is_valid())
        await client.close()
        assert was_valid == [False]
        assert (await holder.loss()).detail == "the client was closed"
        await call.ended()
        assert made.sidecar.asked == ["release lease-1 of generation 1"]
        await client.close()


async def s13_a_client_that_is_closed_waits_for_a_release_that_is_under_way() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.gate.clear()
        holder.leave.set()
        await eventually("it is released", lambda: bool(made.sidecar.peers))
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        made.sidecar.gate.set()
        await holder.task
        await closing


async def a_release_that_nobody_answers_is_unconfirmed_after_its_timeout() -> None:
    async with bench(release_timeout=0.05) as (made, client):
        made.sidecar.is_deaf = True
        holder, _call = await granted(made, client)
        with pytest.raises(leasehold.ReleaseUnconfirmedError, match=r"did not answer within 0\.05 s"):
            await holder.hold.release()
        holder.leave.set()
        await holder.task
        holder, _call = await granted(made, client)
        holder.leave.set()
        with pytest.raises(leasehold.ReleaseUnconfirmedError, match=r"did not answer within 0\.05 s"):
            await holder.task
        await granted(made, client)
        with pytest.raises(leasehold.ReleaseUnconfirmedError, match=r"did not answer within 0\.05 s"):
            await client.close()


async def a_release_within_the_block_leaves_nothing_for_its_end() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        assert (await holder.hold.release()).outcome is leasehold.ReleaseOutcome.RELEASED
        assert (await holder.hold.release()).outcome is leasehold.ReleaseOutcome.ALREADY_RELEASED
        with pytest.raises(leasehold.LeaseholdError, match="not held any more"):
            holder.hold.check()
        holder.leave.set()
        await holder.task
        assert made.sidecar.asked == ["release lease-1 of generation 1"]


TAKEN = hold_pb2.ReleaseResult(
    outcome=hold_pb2.RELEASE_OUTCOME_ALREADY_LOST,
    loss_reason=hold_pb2.LOSS_REASON_TAKEN,
)


@pytest.mark.parametrize(
    ("answer", "hidden", "note"),
    [
        (TAKEN, leasehold.LostError, "was lost: TAKEN"),
        (None, leasehold.ReleaseUnconfirmedError, "was not confirmed"),
    ],
)
async def s13_a_release_that_fails_masks_no_exception_of_the_block(
    answer: hold_pb2.ReleaseResult | None, hidden: type[Exception], note: str
) -> None:
    async with bench(release_timeout=0.05 if answer is None else PATIENCE) as (made, client):
        if answer is None:
            made.sidecar.is_deaf = True
        else:
            made.sidecar.release = answer

        async def fail() -> None:
            async with client.hold("f"):
                raise ValueError("boom")

        task = asyncio.create_task(fail())
        await made.sidecar.granted()
        with pytest.raises(ValueError, match="boom") as caught:
            await task
        assert note in caught.value.__notes__[0]
        assert isinstance(caught.value.__context__, hidden)


async def a_block_that_swallows_the_cancellation_still_ends_by_the_loss() -> None:
    async with bench() as (made, client):

        async def stubborn() -> None:
            async with client.hold("f"):
                try:
                    await asyncio.sleep(PATIENCE)
                except asyncio.CancelledError:
                    await asyncio.sleep(0)

        task = asyncio.create_task(stubborn())
        await made.sidecar.granted()
        await eventually("the block is entered", lambda: client._made is not None and len(client._made.held) == 1)
        made.clock.advance(58)
        with pytest.raises(leasehold.LostError):
            await task
        assert task.cancelling() == 0, "the cancellation was the client's, and is taken back"


async def an_exception_in_a_block_that_is_lost_keeps_its_type_and_notes_the_loss() -> None:
    async with bench() as (made, client):

        async def fail() -> None:
            async with client.hold("f"):
                made.clock.advance(58)
                raise ValueError("boom")

        task = asyncio.create_task(fail())
        await made.sidecar.granted()
        with pytest.raises(ValueError, match="boom") as caught:
            await task
        assert "was lost: EXPIRED" in caught.value.__notes__[0]


async def a_cancellation_from_elsewhere_wins_over_the_loss() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.clock.advance(58)
        assert not holder.hold.is_valid()
        holder.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holder.task


async def other_threads_see_the_end_of_the_hold() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.clock.advance(58)
        # Found by a thread that asks, and told to the block in its event loop.
        found = threading.Thread(target=holder.hold.is_valid)
        found.start()
        assert (await holder.loss()).reason is leasehold.LossReason.EXPIRED
        found.join()
