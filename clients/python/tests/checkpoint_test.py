"""S23 to S27: a value that is stored with the lock, and handed to the next holder."""

import asyncio

import grpc
import pytest
from fake import OURS, bench, deadline, grant, granted, validity
from messages import Refusal
from sync_test import during

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


async def s23_a_value_that_is_too_long_is_not_sent() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.answer = saved(9)
        await holder.hold.save(b"x" * 2_048)
        large = b"x" * 2_049
        for saving in (holder.hold.save(large), holder.hold.release(large), client.release("l", large)):
            with pytest.raises(leasehold.ArgumentError, match=r"2,049 bytes; at most 2,048"):
                await saving
        assert holder.hold.is_valid(), "nothing was released"
        assert (len(made.sidecar.requests), made.sidecar.asked) == (1, [])


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


async def s37_a_sidecar_that_does_not_know_checkpoints_is_said() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        made.sidecar.answer = Refusal(grpc.StatusCode.UNIMPLEMENTED)
        with pytest.raises(leasehold.UnsupportedError, match="does not know checkpoints"):
            await holder.hold.save(b"one")
        assert holder.hold.is_valid()


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


@pytest.mark.parametrize("orders", [(1, 2), (2, 1)])
def s26_answers_may_come_in_any_order(orders: tuple[int, int]) -> None:
    known = Known(65_536)
    assert [known.begin(), known.begin()] == [1, 2]
    values = {1: b"one", 2: b"two"}
    for order in orders:
        known.saved(values[order], 7, order)
    assert known.newest == leasehold.Checkpoint(b"two", 7, 65_536)


async def s16_s27_a_resume_tells_of_a_new_limit_and_of_a_newer_checkpoint_only() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        # Nobody saves but this holder, so what is older here was answered before.
        for generation, version, known in ((2, 5, 5), (3, 4, 5), (4, 6, 6)):
            call.fail(GONE)
            call = await made.sidecar.hold()
            answer = grant(validity(OURS, 1_058, 58))
            answer.granted.generation, answer.granted.checkpoint.version = generation, version
            answer.granted.max_hold_ends.CopyFrom(deadline(OURS, 1_300 + version, 300 + version))
            call.tell(answer)
            keeper = holder.hold._keeper
            while keeper.generation != generation:
                await asyncio.sleep(0)
            assert holder.hold.checkpoint is not None
            assert holder.hold.checkpoint.version == known
            assert holder.hold.max_hold_ends == 1_300 + version
