"""S16: a stream that broke is resumed within the validity."""

import grpc
import pytest
from fake import OURS, Refusal, bench, eventually, grant, granted, validity

import leasehold
from leasehold.v1 import hold_pb2
from leasehold.v1 import lease_service_pb2 as wire

GONE = Refusal(grpc.StatusCode.UNAVAILABLE)


async def s16_a_hold_survives_a_restart_of_the_sidecar() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        await made.kill()
        assert isinstance(await made.event(), leasehold.Interrupted)
        assert holder.hold.is_valid(), "the hold is still valid"
        await made.start()
        call = await made.sidecar.hold()
        assert call.request.resume.resume_token == "resume-1"
        assert call.request.resume.told_valid_until == validity(OURS, 1_058, 58).valid_until
        made.clock.advance(10)
        call.tell(grant(validity(OURS, 1_068, 58)))
        assert await made.event() == leasehold.Resumed(1_068)
        assert holder.hold.remaining() == 58
        holder.leave.set()
        await holder.task
        await call.ended()


async def s16_a_stream_that_ends_without_a_word_is_resumed() -> None:
    async with bench() as (made, client):
        _holder, call = await granted(made, client)
        call.end()
        assert isinstance(await made.event(), leasehold.Interrupted)
        (await made.sidecar.hold()).end()
        (await made.sidecar.hold()).fail(GONE)
        (await made.sidecar.hold()).tell(grant(validity(OURS, 1_058, 58)))
        assert isinstance(await made.event(), leasehold.Resumed)


@pytest.mark.parametrize("refusal", [None, Refusal(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")])
async def s16_what_cannot_go_on_is_lost(refusal: Refusal | None) -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.fail(GONE)
        call = await made.sidecar.hold()
        if refusal is None:
            call.tell(wire.HoldLeaseResponse(lost=hold_pb2.Lost(reason=hold_pb2.LOSS_REASON_TAKEN)))
        else:
            call.fail(refusal)
        reason = leasehold.LossReason.UNSPECIFIED if refusal else leasehold.LossReason.TAKEN
        assert (await holder.loss()).reason is reason
        assert not holder.hold.is_valid()


async def s16_a_stream_that_was_superseded_is_not_resumed() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.fail(Refusal(grpc.StatusCode.ABORTED, "SUPERSEDED"))
        assert "will not resume" in (await holder.loss()).detail


async def s16_a_stream_that_fell_behind_is_resumed() -> None:
    async with bench() as (made, client):
        _holder, call = await granted(made, client)
        call.fail(Refusal(grpc.StatusCode.ABORTED, "STREAM_BEHIND"))
        (await made.sidecar.hold()).tell(grant(validity(OURS, 1_058, 58)))
        assert isinstance(await made.event(), leasehold.Interrupted)
        assert isinstance(await made.event(), leasehold.Resumed)


async def s16_another_token_is_another_hold() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.fail(GONE)
        call = await made.sidecar.hold()
        call.tell(grant(validity(OURS, 1_058, 58), token=65_537))
        assert (await holder.loss()).reason is leasehold.LossReason.TAKEN
        await call.ended()


async def s16_a_sidecar_that_stays_away_costs_the_hold_at_the_end_of_validity() -> None:
    async with bench() as (made, client):
        holder, _call = await granted(made, client)
        await made.kill()
        assert isinstance(await made.event(), leasehold.Interrupted)
        made.clock.advance(57)
        assert holder.hold.is_valid()
        made.clock.advance(1)
        assert (await holder.loss()).reason is leasehold.LossReason.EXPIRED


async def s14_a_try_to_resume_is_not_cut_short_while_the_hold_is_valid() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.fail(GONE)
        call = await made.sidecar.hold()
        made.clock.advance(57)
        assert holder.hold.is_valid()
        assert call.is_open
        made.clock.advance(1)
        assert not holder.hold.is_valid()
        await call.ended()


async def s16_nothing_is_released_while_a_resume_is_unanswered() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.fail(GONE)
        call = await made.sidecar.hold()
        holder.leave.set()
        await eventually("the hold ends first", lambda: holder.hold._keeper.state.is_over)
        made.clock.advance(58)
        with pytest.raises(leasehold.ReleaseUnconfirmedError) as caught:
            await holder.task
        assert "no sidecar has answered yet" in str(caught.value.__cause__)
        assert not holder.hold.is_valid()
        await call.ended()
        assert made.sidecar.asked == []


async def s16_a_release_waits_for_the_answer_to_a_resume_and_carries_its_generation() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        call.fail(GONE)
        call = await made.sidecar.hold()
        holder.leave.set()
        await eventually("the hold ends first", lambda: holder.hold._keeper.state.is_over)
        # A try that fails is repeated also now.
        call.fail(GONE)
        (await made.sidecar.hold()).tell(resumed(2))
        await holder.task
        assert made.sidecar.asked == ["release lease-1 of generation 2"]


async def s16_later_calls_carry_the_newest_generation_and_the_newest_token_resumes() -> None:
    async with bench() as (made, client):
        holder, call = await granted(made, client)
        await holder.hold.extend(90)
        call.fail(GONE)
        call = await made.sidecar.hold()
        first = call.request.resume
        assert first.resume_token == "resume-extended"
        assert 0 < len(first.attempt_id) <= 64
        # Its answer is lost, so the very same resume is repeated.
        call.fail(GONE)
        call = await made.sidecar.hold()
        assert call.request.resume == first
        call.tell(resumed(2))
        assert isinstance(await made.event(), leasehold.Interrupted)
        assert isinstance(await made.event(), leasehold.Resumed)
        told = hold_pb2.Renewed(validity=validity(OURS, 1_059, 59), resume_token="resume-renewed")
        call.tell(wire.HoldLeaseResponse(renewed=told))
        assert isinstance(await made.event(), leasehold.Renewed)
        call.fail(GONE)
        call = await made.sidecar.hold()
        second = call.request.resume
        assert second.resume_token == "resume-renewed"
        assert second.attempt_id != first.attempt_id, "another break"
        call.tell(resumed(3))
        assert isinstance(await made.event(), leasehold.Interrupted)
        assert isinstance(await made.event(), leasehold.Resumed)
        holder.leave.set()
        await holder.task
        assert made.sidecar.asked == ["extend 90 of generation 1", "release lease-1 of generation 3"]


def resumed(generation: int) -> wire.HoldLeaseResponse:
    answer = grant(validity(OURS, 1_058, 58))
    answer.granted.generation = generation
    return answer
