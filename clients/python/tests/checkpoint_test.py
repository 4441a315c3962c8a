"""S23 to S27: a value that is stored with the lock, and handed to the next holder."""

import asyncio
from typing import Any

import grpc
import pytest
from fake import ELSEWHERE, OURS, Refusal, bench, eventually, grant, granted, held, validity
from sync_test import during, sync

import leasehold
from leasehold._hold.saving import Known
from leasehold.v1 import hold_pb2
from leasehold.v1 import lease_service_pb2 as wire

GONE = Refusal(grpc.StatusCode.UNAVAILABLE)


def saved(version: int, told: hold_pb2.Validity | None = None) -> wire.SaveCheckpointResponse:
    return wire.SaveCheckpointResponse(version=version, validity=told or validity(OURS, 1_058, 58))


async def s24_a_save_is_done_when_the_store_has_it() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.answer = saved(65_540, validity(OURS, 1_060, 60))
        assert await holder.hold.save(b"one") == 65_540
        request = made.sidecar.requests[0]
        assert (request.lease_id, request.generation, request.value) == ("lease-1", 1, b"one")
        assert holder.hold.checkpoint == leasehold.Checkpoint(b"one", 65_540, 65_536, None)
        assert holder.hold.remaining() == 60, "its validity counts"
        made.sidecar.answer = saved(65_541)
        assert await holder.hold.save_json({"next": [1, "é"]}) == 65_541
        assert made.sidecar.requests[1].value == '{"next":[1,"é"]}'.encode()
        assert holder.hold.checkpoint is not None
        assert holder.hold.checkpoint.json() == {"next": [1, "é"]}


async def s21_elsewhere_the_answer_to_a_save_counts_from_before_it_was_sent() -> None:
    async with bench() as (made, client):
        holder, _call = await held(made, client, validity(ELSEWHERE, 70, 40))
        made.sidecar.on_request = lambda: made.clock.advance(5)
        made.sidecar.answer = saved(9, validity(ELSEWHERE, 90, 50))
        await holder.hold.save(b"one")
        assert holder.hold.valid_until == 1_050


async def s23_a_value_that_is_too_long_is_not_sent() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.answer = saved(9)
        await holder.hold.save(b"x" * 2_048)
        for saving in (holder.hold.save(b"x" * 2_049), client.save_checkpoint("l", b"x" * 2_049)):
            with pytest.raises(leasehold.ArgumentError, match=r"2,049 bytes; at most 2,048"):
                await saving
        assert len(made.sidecar.requests) == 1
        with pytest.raises(leasehold.ArgumentError, match=r"2,049 bytes"):
            await holder.hold.release(checkpoint=b"x" * 2_049)
        with pytest.raises(leasehold.ArgumentError, match=r"2,049 bytes"):
            await client.release("l", checkpoint=b"x" * 2_049)
        assert holder.hold.is_valid(), "nothing was released"
        assert made.sidecar.asked == []


async def s24_a_hold_that_is_lost_cannot_save() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.answer = Refusal(grpc.StatusCode.FAILED_PRECONDITION, "HOLD_LOST", loss_reason="TAKEN")
        with pytest.raises(leasehold.LostError) as caught:
            await holder.hold.save(b"one")
        assert caught.value.loss.reason is leasehold.LossReason.TAKEN
        assert not holder.hold.is_valid()
        assert holder.hold.checkpoint is None
        with pytest.raises(leasehold.LostError):
            await holder.hold.save(b"two")
        assert len(made.sidecar.requests) == 1, "what is over is not sent"


async def s24_a_hold_that_was_released_cannot_save() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        await holder.hold.release()
        with pytest.raises(leasehold.LeaseholdError, match="not held any more"):
            await holder.hold.save(b"two")


@pytest.mark.parametrize("answer", [Refusal(grpc.StatusCode.UNAVAILABLE, "CHECKPOINT_UNKNOWN"), GONE])
async def s27_an_unknown_outcome_has_a_type_of_its_own(answer: Refusal) -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.answer = answer
        with pytest.raises(leasehold.CheckpointUnknownError) as caught:
            await holder.hold.save(b"one")
        assert caught.value.reason is leasehold.Reason.CHECKPOINT_UNKNOWN
        assert holder.hold.checkpoint is None
        with pytest.raises(leasehold.CheckpointUnknownError):
            await client.save_checkpoint("lease-1", b"one")


async def a_save_that_is_refused_says_why() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.answer = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field="value")
        with pytest.raises(leasehold.RefusedError) as caught:
            await holder.hold.save(b"one")
        assert caught.value.reason is leasehold.Reason.INVALID_FIELD
        assert holder.hold.is_valid()


async def s37_a_sidecar_that_does_not_know_checkpoints_is_said() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.answer = Refusal(grpc.StatusCode.UNIMPLEMENTED)
        with pytest.raises(leasehold.UnsupportedError, match="does not know checkpoints"):
            await holder.hold.save(b"one")
        assert holder.hold.is_valid()


async def s26_a_save_that_a_newer_one_replaced_leaves_the_newer_value() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.answer = saved(7)
        gate = made.sidecar.gate = asyncio.Event()
        saves = [asyncio.create_task(holder.hold.save(value)) for value in (b"one", b"two")]
        await eventually("both are sent", lambda: len(made.sidecar.requests) == 2)
        gate.set()
        assert await asyncio.gather(*saves) == [7, 7]
        assert holder.hold.checkpoint is not None
        assert holder.hold.checkpoint.value == b"two"


async def s16_a_save_during_a_resume_waits_for_it_and_carries_its_generation() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.fail(GONE)
        call = await made.sidecar.hold()
        made.sidecar.answer = saved(9)
        saving = asyncio.create_task(holder.hold.save(b"one"))
        await asyncio.sleep(0)
        assert made.sidecar.requests == []
        answer = grant(validity(OURS, 1_058, 58))
        answer.granted.generation = 2
        call.tell(answer)
        assert await saving == 9
        assert made.sidecar.requests[0].generation == 2


async def s16_a_save_does_not_outwait_the_validity() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.fail(GONE)
        await made.sidecar.hold()
        saving = asyncio.create_task(holder.hold.save(b"one"))
        await asyncio.sleep(0)
        made.clock.advance(58)
        with pytest.raises(leasehold.LostError):
            await saving
        assert made.sidecar.requests == []


@pytest.mark.parametrize(
    ("told", "result"),
    [
        (
            {"checkpoint_outcome": hold_pb2.CHECKPOINT_OUTCOME_SAVED, "checkpoint_version": 12},
            leasehold.CheckpointResult(leasehold.CheckpointOutcome.SAVED, 12, ""),
        ),
        (
            {"checkpoint_outcome": hold_pb2.CHECKPOINT_OUTCOME_NOT_SAVED, "checkpoint_detail": "full"},
            leasehold.CheckpointResult(leasehold.CheckpointOutcome.NOT_SAVED, None, "full"),
        ),
        (
            {"checkpoint_outcome": hold_pb2.CHECKPOINT_OUTCOME_UNKNOWN, "checkpoint_detail": "silent"},
            leasehold.CheckpointResult(leasehold.CheckpointOutcome.UNKNOWN, None, "silent"),
        ),
        (
            {},
            leasehold.CheckpointResult(
                leasehold.CheckpointOutcome.NOT_SAVED,
                None,
                "the sidecar does not know checkpoints, because it is older than this request",
            ),
        ),
    ],
)
async def s26_a_release_with_a_checkpoint_tells_both_outcomes(
    told: dict[str, Any], result: leasehold.CheckpointResult
) -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.release = hold_pb2.ReleaseResult(outcome=hold_pb2.RELEASE_OUTCOME_RELEASED, **told)
        released = await holder.hold.release(checkpoint=b"last")
        assert (released.outcome, released.checkpoint) == (leasehold.ReleaseOutcome.RELEASED, result)
        assert made.sidecar.asked == ["release lease-1 of generation 1 with b'last'"]
        unary = await client.release("lease-1", checkpoint=b"")
        assert unary.checkpoint == result
        assert made.sidecar.asked[1] == "release lease-1 of generation 0 with b''", "empty is not absent"


async def a_release_without_a_checkpoint_has_no_outcome_of_one() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        assert (await holder.hold.release()).checkpoint is None
        again = await holder.hold.release(checkpoint=b"late")
        assert again.outcome is leasehold.ReleaseOutcome.ALREADY_RELEASED
        assert again.checkpoint is not None
        assert again.checkpoint.outcome is leasehold.CheckpointOutcome.NOT_SAVED


async def s26_a_release_that_finds_the_lock_lost_says_what_became_of_the_checkpoint() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.release = hold_pb2.ReleaseResult(
            outcome=hold_pb2.RELEASE_OUTCOME_ALREADY_LOST,
            loss_reason=hold_pb2.LOSS_REASON_TAKEN,
            checkpoint_outcome=hold_pb2.CHECKPOINT_OUTCOME_UNKNOWN,
            checkpoint_detail="silent",
        )
        with pytest.raises(leasehold.LostError) as caught:
            await holder.hold.release(checkpoint=b"last")
        assert caught.value.__notes__ == ["its checkpoint: UNKNOWN: silent"]


async def a_thread_saves_and_releases_with_a_checkpoint() -> None:
    async with bench() as (made, _client):
        made.sidecar.answer = saved(65_540)
        made.sidecar.release = hold_pb2.ReleaseResult(
            outcome=hold_pb2.RELEASE_OUTCOME_RELEASED,
            checkpoint_outcome=hold_pb2.CHECKPOINT_OUTCOME_SAVED,
            checkpoint_version=65_541,
        )

        def work(client: leasehold.Client) -> leasehold.ReleaseResult:
            with client.hold("f") as hold:
                assert hold.save_json(7) == 65_540
                assert hold.save(b"8") == 65_540
                return hold.release(checkpoint=b"9")

        _call, task = await during(made, work)
        result = await task
        assert result.checkpoint is not None
        assert result.checkpoint.version == 65_541


async def a_lock_held_without_a_stream_is_saved_and_released_by_its_id() -> None:
    async with bench() as (made, client):
        made.sidecar.answer = saved(5)
        assert await client.save_checkpoint("lease-9", b"one") == 5
        assert made.sidecar.requests[0].lease_id == "lease-9"

        def work() -> int:
            with sync(made) as blocking:
                blocking.release("lease-9", checkpoint=b"x")
                return blocking.save_checkpoint("lease-9", b"two")

        assert await asyncio.to_thread(work) == 5
        assert made.sidecar.asked == ["release lease-9 of generation 0 with b'x'"]


@pytest.mark.parametrize("orders", [(1, 2), (2, 1)])
def s26_answers_may_come_in_any_order(orders: tuple[int, int]) -> None:
    known = Known(65_536)
    assert [known.begin(), known.begin()] == [1, 2]
    values = {1: b"one", 2: b"two"}
    for order in orders:
        known.saved(values[order], 7, order)
    assert known.newest == leasehold.Checkpoint(b"two", 7, 65_536)
