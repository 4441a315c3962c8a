"""Taking part in a schedule: T2, T8, T11, T12, T16, and S13, S16, S37 for runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc
import pytest
from fake import PATIENCE, bench, eventually, older
from fake_schedules import DUE, RECORDED, STANDBY, FakeSchedules, SubscribeCall, due, scheduled
from messages import Refusal

import leasehold
from leasehold import CompletionResult, LossReason, RunKind
from leasehold.v1 import hold_pb2
from leasehold.v1.schedule_service_pb2 import SubscribeScheduleResponse

CRON = "30 2 * * *"
GONE = Refusal(grpc.StatusCode.UNAVAILABLE)


async def running(
    schedules: FakeSchedules,
    client: leasehold.AsyncClient,
    events: "asyncio.Queue[leasehold.ScheduleEvent] | None" = None,
) -> "tuple[AsyncGenerator[leasehold.AsyncRun, None], leasehold.AsyncRun, SubscribeCall]":
    """A run that has just come, on this stream."""
    runs = client.runs(CRON, function="nightly", holder="me", on_event=events.put_nowait if events else None)
    asking = asyncio.ensure_future(anext(runs))
    call = await schedules.running()
    return runs, await asyncio.wait_for(asking, PATIENCE), call


def lost(reason: "hold_pb2.LossReason.ValueType") -> SubscribeScheduleResponse:
    return SubscribeScheduleResponse(lost=hold_pb2.Lost(reason=reason))


async def told(events: "asyncio.Queue[leasehold.ScheduleEvent]", kind: type) -> None:
    """Wait for the next event of this kind."""
    async with asyncio.timeout(PATIENCE):
        while not isinstance(await events.get(), kind):
            pass


async def t2_a_run_tells_what_it_is_of_its_outcome_is_recorded_and_the_stream_goes_on() -> None:
    async with scheduled() as (_made, schedules, client):
        runs, run, call = await running(schedules, client)
        assert (call.request.key.function, call.request.spec.cron, call.request.reconnected) == ("nightly", CRON, False)
        assert (run.scheduled_at, run.kind, run.request_id) == (DUE, RunKind.SCHEDULED, "")
        assert (run.attempt, run.max_attempts, run.missed_count) == (2, 3, 7)
        assert (run.lateness.total_seconds(), run.fencing_token, run.is_valid()) == (4, 65_536, True)
        completed = await run.succeeded(checkpoint=b"page 7")
        assert not run.is_valid(), "S13"
        assert run.loss is None
        assert completed.result is CompletionResult.RECORDED
        assert completed.next_at is not None
        (asked,) = schedules.completed
        assert (asked.run_id, asked.lease_id, asked.generation) == ("run-1", "lease-1", 1)
        assert asked.checkpoint == b"page 7"
        call.tell(RECORDED, STANDBY, due(3))
        assert (await anext(runs)).attempt == 3
        assert call.is_open
        assert schedules.outcomes == ["SUCCEEDED"]
        await runs.aclose()
        await call.ended()


async def t2_a_run_that_comes_before_the_answer_to_the_completion_is_not_lost() -> None:
    async with scheduled() as (_made, schedules, client):
        runs, run, call = await running(schedules, client)
        call.tell(RECORDED, STANDBY, due(3))
        await run.succeeded()
        assert (await anext(runs)).attempt == 3
        await runs.aclose()


async def t2_no_event_after_the_end_of_a_run_is_lost() -> None:
    async with scheduled() as (_made, schedules, client):
        runs, run, call = await running(schedules, client)
        await run.succeeded()
        call.tell(due(3))
        assert (await asyncio.wait_for(anext(runs), PATIENCE)).attempt == 3
        await runs.aclose()


async def t11_a_run_that_its_body_does_not_complete_is_returned() -> None:
    async with scheduled() as (_made, schedules, client):
        runs, _run, call = await running(schedules, client)
        asking = asyncio.ensure_future(anext(runs))
        await eventually("it is returned", lambda: schedules.outcomes == ["RETURNED"])
        call.tell(RECORDED, STANDBY, due())
        await asking
        await runs.aclose()
        assert schedules.outcomes == ["RETURNED", "RETURNED"]
        await call.ended()


async def t8_the_end_of_a_block_is_the_outcome() -> None:
    async with scheduled() as (_made, schedules, client):
        runs, run, call = await running(schedules, client)
        async with run:
            assert leasehold.current_hold() is run
        call.tell(RECORDED, due())
        with pytest.raises(ValueError, match="the disk is full"):
            async with await anext(runs):
                raise ValueError("the disk is full")
        assert schedules.outcomes == ["SUCCEEDED", "FAILED"]
        assert schedules.completed[1].detail == "the disk is full"
        await runs.aclose()


async def t8_a_completion_is_repeated_until_it_is_answered_and_a_long_detail_is_cut() -> None:
    async with scheduled() as (_made, schedules, client):
        _runs, run, _call = await running(schedules, client)
        schedules.completions = [GONE, Refusal(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")]
        completed = await run.failed("é" * 300)
        assert completed.result is CompletionResult.RECORDED
        assert schedules.outcomes == ["FAILED"] * 3
        assert schedules.completed[0].detail == "é" * 256
        assert await run.failed() == completed, "told once"
        assert len(schedules.completed) == 3


async def t8_a_completion_that_does_not_pass_is_raised_and_not_repeated() -> None:
    async with scheduled() as (_made, schedules, client):
        _runs, run, _call = await running(schedules, client)
        schedules.completions = [Refusal(grpc.StatusCode.PERMISSION_DENIED, "ACCESS_DENIED")]
        with pytest.raises(leasehold.RefusedError):
            await run.succeeded()
        assert len(schedules.completed) == 1


async def s16_a_completion_carries_the_generation_that_a_resume_was_answered_with() -> None:
    async with scheduled() as (_made, schedules, client):
        _runs, run, call = await running(schedules, client)
        call.fail(GONE)
        resume = await schedules.call()
        # It waits for the answer.
        completing = asyncio.create_task(run.succeeded())
        while run.is_valid():
            await asyncio.sleep(0)
        answer = due()
        answer.run.grant.generation = 2
        resume.tell(answer)
        await completing
        assert [request.generation for request in schedules.completed] == [2]


async def s23_a_checkpoint_that_is_too_long_does_not_end_the_run() -> None:
    async with scheduled() as (_made, schedules, client):
        runs, run, call = await running(schedules, client)
        with pytest.raises(leasehold.ArgumentError, match=r"2,049 bytes; at most 2,048"):
            await run.succeeded(checkpoint=b"x" * 2_049)
        assert (run.is_valid(), schedules.completed) == (True, [])
        await run.failed("its checkpoint is too long")
        assert schedules.outcomes == ["FAILED"]
        call.tell(RECORDED, STANDBY, due(3))
        assert (await anext(runs)).attempt == 3
        await runs.aclose()


async def t12_a_run_is_cancelled_at_its_deadline_and_the_loop_goes_on_over_the_same_stream() -> None:
    async with scheduled() as (_made, schedules, client):
        runs, run, call = await running(schedules, client)
        was_cancelled = False
        async with run:
            call.tell(lost(hold_pb2.LOSS_REASON_MAX_HOLD_REACHED))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                was_cancelled = True
                raise
        assert was_cancelled
        assert run.loss is not None
        assert run.loss.reason is LossReason.MAX_HOLD_REACHED
        call.tell(STANDBY, due(1))
        assert (await anext(runs)).attempt == 1
        assert schedules.outcomes == ["FAILED_FINAL"]
        await runs.aclose()


async def t12_a_loss_that_the_clock_finds_keeps_the_stream_until_the_sidecar_says_so() -> None:
    async with scheduled() as (made, schedules, client):
        runs, run, call = await running(schedules, client)
        made.clock.advance(58)
        assert not run.is_valid()
        asking = asyncio.ensure_future(anext(runs))
        await eventually("the hold is closed", run._keeper.settled.is_set)
        call.tell(lost(hold_pb2.LOSS_REASON_EXPIRED), due(3, valid_for=158))
        assert (await asyncio.wait_for(asking, PATIENCE)).attempt == 3
        assert call.is_open
        await runs.aclose()


async def t24_a_stream_whose_run_was_lost_without_a_word_is_not_used_again() -> None:
    async with scheduled() as (made, schedules, client):
        runs, run, call = await running(schedules, client)
        schedules.completions = [Refusal(grpc.StatusCode.PERMISSION_DENIED, "ACCESS_DENIED")]
        made.clock.advance(58)
        assert not run.is_valid()
        asking = asyncio.ensure_future(anext(runs))
        await call.ended()
        call = await schedules.call()
        assert call.request.reconnected
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def t20_a_run_is_told_gently_when_the_sidecar_shuts_down() -> None:
    async with scheduled() as (_made, schedules, client):
        _runs, run, call = await running(schedules, client)
        async with run:
            call.tell(SubscribeScheduleResponse(draining=hold_pb2.Draining()))
            await asyncio.wait_for(run.wait_ending(), PATIENCE)
            assert run.is_valid()
            await run.returned()
        assert schedules.outcomes == ["RETURNED"]


async def t16_a_subscriber_whose_sidecar_restarts_comes_back_as_no_new_one() -> None:
    async with scheduled() as (made, schedules, client):
        runs = client.runs(CRON, function="nightly")
        asking = asyncio.ensure_future(anext(runs))
        call = await schedules.call()
        call.tell(STANDBY)
        call.fail(Refusal(grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN"))
        call = await schedules.call()
        assert call.request.reconnected
        assert not call.request.HasField("resume")
        await made.kill()
        await made.start()
        call = await schedules.running()
        assert call.request.reconnected
        await (await asyncio.wait_for(asking, PATIENCE)).returned()
        await runs.aclose()


@pytest.mark.parametrize("before", [(), (STANDBY,)], ids=["at once", "later"])
async def s37_a_sidecar_that_is_too_old_interrupts_a_subscription(
    before: tuple[SubscribeScheduleResponse, ...],
) -> None:
    async with scheduled() as (_made, schedules, client):
        events: list[leasehold.ScheduleEvent] = []
        runs = client.runs(CRON, function="nightly", on_event=events.append)
        asking = asyncio.ensure_future(anext(runs))
        there = await schedules.call()
        assert there.request.needs == 1
        there.tell(*before)
        there.fail(older())
        elsewhere = await schedules.call()
        elsewhere.tell(due())
        assert (await asking).is_valid()
        assert there.peer != elsewhere.peer
        assert leasehold.Interrupted("2 and 1") in events
        await runs.aclose()


async def s37_a_sidecar_that_is_older_than_schedules_is_found_out() -> None:
    async with bench() as (_made, client):
        with pytest.raises(leasehold.UnsupportedError, match="schedules"):
            await anext(client.runs(CRON, function="nightly"))
        with pytest.raises(leasehold.UnsupportedError, match="schedules"):
            await client.get_schedule("locks/p")


async def t8_a_client_that_is_closed_waits_for_a_completion_that_is_under_way() -> None:
    async with scheduled() as (_made, schedules, client):
        runs, run, _call = await running(schedules, client)
        schedules.gate.clear()
        completing = asyncio.create_task(run.succeeded())
        await eventually("it is completed", lambda: bool(schedules.completed))
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0.05)
        schedules.gate.set()
        assert (await completing).result is CompletionResult.RECORDED
        await closing
        await runs.aclose()


async def s13_a_closed_client_returns_its_runs() -> None:
    async with scheduled() as (made, schedules, _client):
        async with made.another() as client:
            runs, run, _call = await running(schedules, client)
        assert run.loss is not None
        assert schedules.outcomes == ["RETURNED"]
        async with aclosing(runs):
            with pytest.raises(leasehold.ClosedError):
                await anext(runs)
