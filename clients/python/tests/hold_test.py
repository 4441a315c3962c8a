"""A hold in an `async with` block: its grant, notice (S22) and checkpoint (S23 to S27), and its end (S13, S14)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bench import PATIENCE, Bench
from fake import GONE, UNKNOWN
from messages import refusal

import leasehold
from leasehold._hold.saving import Known
from leasehold.v1 import lock_pb2


async def a_cause_that_this_version_does_not_know_is_kept_as_text(made: Bench) -> None:
    _holder, call = await made.held()
    call.tell("at_risk", cause=999)
    assert await made.events.get() == leasehold.AtRisk(1_058, leasehold.Reason.OTHER, "999", "")


async def s8_a_question_of_the_holder_that_finds_the_hold_lost_ends_it(made: Bench) -> None:
    holder, _call = await made.held()
    made.sidecar.answer("get_hold", refusal("FAILED_PRECONDITION", "HOLD_LOST", loss="BROKEN"))
    with pytest.raises(leasehold.RefusedError):
        await holder.hold.info()
    assert (await holder.loss()).reason is leasehold.LossReason.BROKEN


async def s22_s33_a_notice_tells_its_deadline_and_the_least_priority_from_none(made: Bench) -> None:
    holder, call = await made.held()
    call.tell("revoked", reason="new build", by="ops", mode="RUN_OUT", for_priority=0)
    notice = await holder.hold.wait_revoked()
    assert (notice.deadline, notice.reason, notice.by, notice.for_priority) == (1_058, "new build", "ops", 0)
    assert notice.break_note is not None
    assert (notice.break_note.mode, notice.break_note.for_priority) == (leasehold.BreakMode.RUN_OUT, 0)
    assert (holder.hold.notice, await made.events.get()) == (notice, leasehold.Revoked(notice))
    assert holder.hold.is_valid()


async def s24_a_save_is_known_to_its_hold(made: Bench) -> None:
    holder, _call = await made.held()
    made.sidecar.answer("save_checkpoint", {"version": 65_540}, {"version": 65_541})
    assert "lease-1" not in repr(holder.hold) + repr(holder.hold.grant), "S20"
    assert await holder.hold.save(b"one") == 65_540
    assert 58 < made.sidecar.deadline < 64, "S27: a little longer than it is valid"
    assert holder.hold.checkpoint == leasehold.Checkpoint(b"one", 65_540, 65_536, None)
    assert await holder.hold.save_json({"next": [1, "é"]}) == 65_541
    assert [request.value for request in made.sidecar.requests] == [b"one", '{"next":[1,"é"]}'.encode()]
    assert holder.hold.checkpoint.json() == {"next": [1, "é"]}
    with pytest.raises(leasehold.ArgumentError, match=r"2,049 bytes; at most 2,048"):
        await holder.hold.release(b"x" * 2_049)
    assert (holder.hold.is_valid(), len(made.sidecar.requests)) == (True, 2), "S23: nothing was released"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal("UNAVAILABLE", "CHECKPOINT_UNKNOWN"), leasehold.CheckpointUnknownError),
        (GONE, leasehold.CheckpointUnknownError),
        # S37: a sidecar that is older than checkpoints.
        (UNKNOWN, leasehold.UnsupportedError),
    ],
)
async def s27_a_save_of_which_nothing_is_known_has_an_error_of_its_own(answer: Any, kind: Any, made: Bench) -> None:
    holder, _call = await made.held()
    made.sidecar.answer("save_checkpoint", answer, answer)
    for saving in (holder.hold.save(b"one"), made.client.save_checkpoint("lease-1", b"one")):
        with pytest.raises(kind):
            await saving
    assert (holder.hold.checkpoint, holder.hold.is_valid()) == (None, True)


async def s26_a_release_that_finds_the_lock_lost_says_what_became_of_the_checkpoint(made: Bench) -> None:
    holder, _call = await made.held()
    result = {"outcome": "ALREADY_LOST", "checkpoint_outcome": "UNKNOWN", "checkpoint_detail": "silent"}
    made.sidecar.answer("release", result)
    with pytest.raises(leasehold.LostError) as caught:
        await holder.hold.release(checkpoint=b"last")
    assert caught.value.__notes__ == ["its checkpoint: UNKNOWN: silent"]


@pytest.mark.parametrize("orders", [(1, 2), (2, 1)])
def s26_s27_answers_may_come_in_any_order(orders: tuple[int, int]) -> None:
    known = Known(65_536)
    assert [known.begin(), known.begin()] == [1, 2]
    values = {1: b"one", 2: b"two"}
    for order in orders:
        known.saved(values[order], 7, order)
    assert known.newest == leasehold.Checkpoint(b"two", 7, 65_536)
    # Nobody saves but this holder, so what a resume tells of that is older was answered before.
    for version, newest in ((6, 7), (8, 8)):
        known.told(lock_pb2.Checkpoint(version=version))
        assert known.newest.version == newest


async def s16_s27_a_resume_tells_of_a_new_limit_and_of_a_newer_checkpoint(made: Bench) -> None:
    holder, call = await made.held()
    call.fail()
    (await made.sidecar.call()).tell(
        "granted", checkpoint={"version": 6}, max_hold={"at": 300_000, "after": 300_000}, generation=2
    )
    assert isinstance(await made.events.get(), leasehold.Interrupted)
    assert isinstance(await made.events.get(), leasehold.Resumed)
    assert holder.hold.checkpoint is not None
    assert (holder.hold.checkpoint.version, holder.hold.max_hold_ends) == (6, 1_300)


async def s13_an_event_loop_that_ends_ends_the_hold_before_the_stream(made: Bench) -> None:
    holder, call = await made.held()
    was_valid: list[bool] = []
    call.add_done_callback(lambda _call: was_valid.append(holder.hold.is_valid()))
    # What the end of an event loop does to every task that is left.
    keeping = holder.hold._keeper._keeping
    assert keeping is not None
    keeping.cancel()
    # Long before its validity ends.
    await asyncio.sleep(1)
    assert was_valid == [False]


async def s14_a_closed_client_ends_its_holds_first_and_releases_them(made: Bench) -> None:
    holder, call = await made.held()
    was_valid: list[bool] = []

    def answer(_peer: str) -> Any:
        was_valid.append(holder.hold.is_valid())
        return {"outcome": "RELEASED"}

    made.sidecar.answer("release", answer)
    await made.client.close()
    assert was_valid == [False]
    assert (await holder.loss()).detail == "the client was closed"
    await call.ended()
    assert made.sidecar.asked == ["release 1"]


@pytest.mark.parametrize("how", ["resuming", "release", "complete_run"])
async def s13_a_closed_client_waits_for_a_release_that_is_under_way(how: str, made: Bench) -> None:
    if how == "resuming":
        holder, call = await made.held()
        call.fail()
        call = await made.sidecar.call()
        ending = made.do(holder.left())
    else:
        answer = made.sidecar.standing.pop(how)
        outcome = (leasehold.RunOutcome.FAILED,) if how == "complete_run" else ()
        ending = made.do(getattr(made.client, how)("id", *outcome))
    closing = made.do(made.client.close())
    await asyncio.sleep(5)
    assert not closing.done()
    if how == "resuming":
        call.tell("granted", generation=2)
    else:
        made.sidecar.answer(how, answer)
    await asyncio.gather(ending, closing)


async def s13_a_client_that_is_closed_without_an_answer_to_a_resume_says_so(made: Bench) -> None:
    _holder, call = await made.held()
    call.fail()
    await made.sidecar.call()
    with pytest.raises(leasehold.ReleaseUnconfirmedError):
        await made.client.close()


async def a_release_within_the_block_leaves_nothing_for_its_end(made: Bench) -> None:
    holder, _call = await made.held()
    released = await holder.hold.release()
    assert (released.outcome, released.checkpoint) == (leasehold.ReleaseOutcome.RELEASED, None)
    again = await holder.hold.release(checkpoint=b"late")
    assert again.outcome is leasehold.ReleaseOutcome.ALREADY_RELEASED
    assert again.checkpoint is not None
    assert again.checkpoint.outcome is leasehold.CheckpointOutcome.NOT_SAVED
    with pytest.raises(leasehold.LeaseholdError, match="not held any more"):
        await holder.hold.save(b"two")
    with pytest.raises(leasehold.LeaseholdError, match="not held any more"):
        holder.hold.check()
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
    made.sidecar.standing["release"] = answer or None

    async def block() -> None:
        async with made.client.hold("f"):
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


async def other_threads_see_the_end_of_the_hold(served: Bench) -> None:
    holder, _call = await served.held()
    noticing = served.do(holder.hold.wait_revoked())
    served.clock.advance(58)
    # Found by a thread that asks, and told to the block in its event loop.
    await asyncio.to_thread(holder.hold.is_valid)
    assert (await holder.loss()).reason is leasehold.LossReason.EXPIRED
    assert not noticing.done(), "who waits for a notice waits on"
