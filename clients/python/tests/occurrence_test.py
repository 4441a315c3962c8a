"""Occurrences that the caller names: what is asked, what is answered, and what is told at the end (T1, T2, S37)."""

import asyncio
from datetime import UTC, datetime

import pytest
from fake import OURS, Bench, bench, grant, validity

import leasehold
from leasehold import OutcomeResult, RunOutcome
from leasehold.v1 import hold_pb2, schedule_pb2
from leasehold.v1 import lease_service_pb2 as wire

AT = datetime(2026, 11, 23, 2, 30, tzinfo=UTC)


def due() -> wire.HoldLeaseResponse:
    answer = grant(validity(OURS, 1_058, 58))
    answer.granted.attempt = 2
    return answer


async def refused(
    made: Bench, client: leasehold.AsyncClient, answer: wire.HoldLeaseResponse
) -> leasehold.LeaseholdError:
    """What a hold of the occurrence raises when it is answered so."""
    asking = asyncio.create_task(client.hold("f", occurrence_at=AT).__aenter__())
    (await made.sidecar.hold()).tell(answer)
    with pytest.raises(leasehold.LeaseholdError) as caught:
        await asking
    return caught.value


async def t2_the_attempt_is_told_and_the_outcome_goes_with_the_release() -> None:
    async with bench() as (made, client):
        entering = asyncio.create_task(client.hold("f", occurrence_at=AT, occurrence_max_attempts=3).__aenter__())
        call = await made.sidecar.hold()
        spec = call.request.spec
        assert (spec.occurrence_at.ToDatetime(UTC), spec.occurrence_max_attempts) == (AT, 3)
        call.tell(due())
        hold = await entering
        assert hold.grant.attempt == 2
        made.sidecar.release = hold_pb2.ReleaseResult(
            outcome=hold_pb2.RELEASE_OUTCOME_RELEASED, outcome_result=hold_pb2.OUTCOME_RESULT_RECORDED
        )
        result = await hold.release(outcome=RunOutcome.SUCCEEDED)
        assert result.occurrence is OutcomeResult.RECORDED
        assert made.sidecar.asked == ["release lease-1 of generation 1 as SUCCEEDED"]


async def s37_an_outcome_of_which_nothing_is_said_was_not_recorded() -> None:
    async with bench() as (made, client):
        entering = asyncio.create_task(client.hold("f", occurrence_at=AT).__aenter__())
        (await made.sidecar.hold()).tell(due())
        result = await (await entering).release(outcome=RunOutcome.SUCCEEDED)
        assert result.occurrence is OutcomeResult.NOT_RECORDED


async def t2_that_an_occurrence_is_over_is_an_error_of_its_own() -> None:
    async with bench() as (made, client):
        run = schedule_pb2.EndedRun(outcome=schedule_pb2.RUN_OUTCOME_SUCCEEDED, attempt=2)
        done = wire.HoldLeaseResponse(already_done=hold_pb2.AlreadyDone(run=run))
        error = await refused(made, client, done)
        assert isinstance(error, leasehold.OccurrenceOverError)
        assert error.run is not None
        assert (error.run.outcome, error.run.attempt, error.watermark) == (RunOutcome.SUCCEEDED, 2, None)
        skipped = wire.HoldLeaseResponse(skipped=hold_pb2.Skipped())
        skipped.skipped.watermark.FromDatetime(AT)
        error = await refused(made, client, skipped)
        assert isinstance(error, leasehold.OccurrenceOverError)
        assert (error.run, error.watermark) == (None, AT)


async def t2_a_unary_acquire_tells_the_same_and_its_release_too() -> None:
    async with bench() as (made, client):
        run = schedule_pb2.EndedRun(outcome=schedule_pb2.RUN_OUTCOME_FAILED_FINAL)
        made.sidecar.answers = [
            wire.AcquireLeaseResponse(already_done=hold_pb2.AlreadyDone(run=run)),
            wire.AcquireLeaseResponse(skipped=hold_pb2.Skipped()),
            wire.AcquireLeaseResponse(granted=due().granted),
        ]
        with pytest.raises(leasehold.OccurrenceOverError, match="FAILED_FINAL"):
            await client.acquire("f", occurrence_at=AT)
        with pytest.raises(leasehold.OccurrenceOverError, match="a newer one"):
            await client.acquire("f", occurrence_at=AT)
        got = await client.acquire("f", occurrence_at=AT)
        await client.release(got.lease_id, outcome=RunOutcome.RETURNED)
        assert made.sidecar.asked == ["release lease-1 of generation 0 as RETURNED"]
