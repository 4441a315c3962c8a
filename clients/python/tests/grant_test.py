"""What a grant tells besides the validity: when `max_hold` ends, the checkpoint, the permit."""

from datetime import UTC, datetime

import grpc
from fake import ELSEWHERE, OURS, Bench, Holder, Refusal, bench, deadline, eventually, grant, granted, renewed, validity

import leasehold
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1 import lease_service_pb2 as wire


async def given(made: Bench, client: leasehold.AsyncClient, answer: wire.HoldLeaseResponse) -> Holder:
    """A hold that was granted with `answer`."""
    holder = Holder(made, client)
    (await made.sidecar.hold()).tell(answer)
    await holder.granted.wait()
    return holder


async def s11_a_grant_without_a_limit_says_so() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        assert holder.hold.max_hold_ends is None
        assert holder.hold.permit == 0
        assert holder.hold.checkpoint is None


async def s11_a_grant_tells_when_max_hold_ends_on_this_clock() -> None:
    async with bench() as (made, client):
        answer = grant(validity(OURS, 1_058, 58))
        answer.granted.max_hold_ends.CopyFrom(deadline(OURS, 1_300, 300))
        holder = await given(made, client, answer)
        assert holder.hold.max_hold_ends == 1_300
        assert holder.hold.grant.max_hold_ends == leasehold.Deadline(OURS, 1_300, 300)


async def s21_elsewhere_max_hold_is_counted_from_before_the_request() -> None:
    async with bench() as (made, client):
        holder = Holder(made, client)
        call = await made.sidecar.hold()
        made.clock.advance(5)
        answer = grant(validity(ELSEWHERE, 70, 58))
        answer.granted.max_hold_ends.CopyFrom(deadline(ELSEWHERE, 9_300, 300))
        call.tell(answer)
        await holder.granted.wait()
        assert holder.hold.max_hold_ends == 1_300


async def s11_an_extension_moves_the_end_of_max_hold() -> None:
    async with bench() as (made, client):
        answer = grant(validity(OURS, 1_058, 58))
        answer.granted.max_hold_ends.CopyFrom(deadline(OURS, 1_060, 60))
        holder = await given(made, client, answer)
        extension = await holder.hold.extend(90)
        assert extension.max_hold_ends == leasehold.Deadline(OURS, 1_090, 90)
        assert holder.hold.max_hold_ends == 1_090


async def s11_a_renewal_tells_of_a_new_end_of_max_hold() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        told = renewed(validity(OURS, 1_059, 59))
        told.renewed.max_hold_ends.CopyFrom(deadline(OURS, 1_400, 400))
        call.tell(told)
        await made.event()
        assert holder.hold.max_hold_ends == 1_400


async def s21_elsewhere_a_new_end_of_max_hold_is_asked_about_before_it_counts() -> None:
    async with bench() as (made, client):
        made.sidecar.report = validity(ELSEWHERE, 70, 58)
        answer = grant(validity(ELSEWHERE, 70, 58))
        answer.granted.max_hold_ends.CopyFrom(deadline(ELSEWHERE, 300, 300))
        holder = Holder(made, client)
        call = await made.sidecar.hold()
        call.tell(answer)
        await holder.granted.wait()
        made.sidecar.info.max_hold_ends.CopyFrom(deadline(ELSEWHERE, 500, 490))
        told = renewed(validity(ELSEWHERE, 70, 58))
        told.renewed.max_hold_ends.CopyFrom(deadline(ELSEWHERE, 500, 500))
        call.tell(told)
        await eventually("the answer counts", lambda: holder.hold.max_hold_ends == 1_490)
        assert made.sidecar.asked == ["ask of generation 1"]


async def s25_a_grant_carries_the_checkpoint() -> None:
    async with bench() as (made, client):
        answer = grant(validity(OURS, 1_058, 58))
        answer.granted.permit = 2
        saved = answer.granted.checkpoint
        saved.value, saved.version, saved.fencing_token = b'{"next": 7}', 65_530, 65_500
        saved.saved_at.FromSeconds(1_700_000_000)
        holder = await given(made, client, answer)
        checkpoint = holder.hold.checkpoint
        at = datetime.fromtimestamp(1_700_000_000, UTC)
        assert checkpoint == leasehold.Checkpoint(b'{"next": 7}', 65_530, 65_500, at)
        assert checkpoint.json() == {"next": 7}
        assert holder.hold.permit == 2


async def s23_a_record_has_the_checkpoint_only_if_it_is_asked_for() -> None:
    async with bench() as (made, client):
        record = lock_pb2.LockRecord(lock_path="a", checkpoint_version=9, checkpoint_size=0)
        made.sidecar.answer = wire.GetLockResponse(record=record)
        got = await client.get_lock("a")
        assert (got.checkpoint, got.checkpoint_version, got.checkpoint_size) == (None, 9, 0)
        assert not made.sidecar.requests[0].with_checkpoint
        record.checkpoint.CopyFrom(lock_pb2.Checkpoint(version=9))
        made.sidecar.answer = wire.GetLockResponse(record=record)
        got = await client.get_lock("a", with_checkpoint=True)
        assert got.checkpoint == leasehold.Checkpoint(b"", 9, 0, None)
        assert made.sidecar.requests[1].with_checkpoint


async def a_unary_grant_tells_the_same() -> None:
    async with bench() as (made, client):
        told = hold_pb2.Grant(lease_id="l", permit=1, max_hold_ends=deadline(OURS, 1_600, 600))
        told.checkpoint.value = b"x"
        made.sidecar.answer = wire.AcquireLeaseResponse(granted=told)
        got = await client.acquire("f")
        assert (got.permit, got.max_hold_ends) == (1, leasehold.Deadline(OURS, 1_600, 600))
        assert got.checkpoint is not None
        assert got.checkpoint.value == b"x"


async def s16_a_resume_tells_of_a_new_limit_and_of_a_newer_checkpoint_only() -> None:
    async with bench() as (made, client):
        holder = Holder(made, client)
        call = await made.sidecar.hold()
        answer = grant(validity(OURS, 1_058, 58))
        answer.granted.checkpoint.version = 5
        call.tell(answer)
        await holder.granted.wait()
        # Nobody saves but this holder, so what is older here was answered before.
        for version, known in ((4, 5), (6, 6)):
            call.fail(Refusal(grpc.StatusCode.UNAVAILABLE))
            call = await made.sidecar.hold()
            answer.granted.generation += 1
            answer.granted.checkpoint.version = version
            answer.granted.max_hold_ends.CopyFrom(deadline(OURS, 1_300 + version, 300 + version))
            call.tell(answer)
            await eventually("it is resumed", lambda: holder.hold._keeper.generation == answer.granted.generation)
            assert holder.hold.max_hold_ends == 1_300 + version
            assert holder.hold.checkpoint is not None
            assert holder.hold.checkpoint.version == known
        holder.leave.set()
        await holder.task
