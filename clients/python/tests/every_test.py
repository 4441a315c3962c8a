"""A function that runs on each occurrence, with asyncio and without; the other calls about schedules."""

import asyncio
import threading
from datetime import timedelta

import grpc
import pytest
from fake import PATIENCE, eventually
from fake_schedules import DUE, RECORDED, STANDBY, due, scheduled
from messages import Refusal

import leasehold
from leasehold import RunOutcome
from leasehold.v1 import hold_pb2
from leasehold.v1.schedule_service_pb2 import SubscribeScheduleResponse

CRON = "30 2 * * *"
LOST = SubscribeScheduleResponse(lost=hold_pb2.Lost(reason=hold_pb2.LOSS_REASON_TAKEN))


async def t8_returning_is_success_an_error_is_failure_and_the_function_goes_on_with_the_next() -> None:
    async with scheduled() as (_made, schedules, client):
        attempts: list[tuple[int, str]] = []

        @client.every(CRON, function="nightly", time_zone="Europe/Copenhagen", on_event=None)
        async def nightly(run: leasehold.AsyncRun, what: str) -> None:
            attempts.append((run.attempt, what))
            assert leasehold.current_hold() is run
            if run.attempt == 1:
                raise KeyError

        task = asyncio.create_task(nightly("all"))
        call = await schedules.call()
        assert (call.request.spec.time_zone, call.request.key.function) == ("Europe/Copenhagen", "nightly")
        call.tell(STANDBY, due(1))
        await eventually("it has failed", lambda: schedules.outcomes == ["FAILED"])
        assert schedules.completed[0].detail == "KeyError"
        call.tell(RECORDED, due(2))
        await eventually("it has succeeded", lambda: schedules.outcomes == ["FAILED", "SUCCEEDED"])
        assert attempts == [(1, "all"), (2, "all")]
        assert call.is_open
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await call.ended()
        assert len(schedules.outcomes) == 2


async def t11_a_function_that_is_told_to_stop_returns_its_run() -> None:
    async with scheduled() as (_made, schedules, client):
        begun = asyncio.Event()

        async def nightly(_run: leasehold.AsyncRun) -> None:
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(client.every(CRON, nightly, function="nightly"))
        call = await schedules.running()
        await asyncio.wait_for(begun.wait(), PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert schedules.outcomes == ["RETURNED"]
        await call.ended()


async def t24_a_function_whose_run_is_lost_is_cancelled_and_its_run_is_returned() -> None:
    async with scheduled() as (_made, schedules, client):
        begun: list[int] = []

        async def nightly(run: leasehold.AsyncRun) -> None:
            begun.append(run.attempt)
            if run.attempt == 3:
                return
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError

        task = asyncio.create_task(client.every(CRON, nightly, function="nightly"))
        call = await schedules.running()
        await eventually("it has begun", lambda: bool(begun))
        call.tell(LOST, STANDBY, due(3))
        await eventually("the next one is done", lambda: schedules.outcomes == ["RETURNED", "SUCCEEDED"])
        assert begun == [2, 3]
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def every_asks_again_where_no_sidecar_answers_and_gives_up_where_that_is_no_use() -> None:
    async with scheduled() as (made, schedules, client):
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            await made.start()

        async def nightly(_run: leasehold.AsyncRun) -> None:
            raise AssertionError

        client._sleep = sleep
        await made.kill()
        task = asyncio.create_task(client.every(CRON, nightly, function="nightly"))
        call = await schedules.call()
        assert len(pauses) == 1
        call.fail(Refusal(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field="spec.cron"))
        with pytest.raises(leasehold.RefusedError, match=r"spec\.cron"):
            await task


async def without_asyncio_a_function_runs_in_its_thread_and_has_to_look() -> None:
    async with scheduled() as (made, schedules, _client):
        threads: list[threading.Thread] = []
        begun = threading.Event()

        def nightly(run: leasehold.Run, what: str) -> None:
            threads.append(threading.current_thread())
            assert (run.scheduled_at, what) == (DUE, "all")
            if run.attempt == 1:
                raise ValueError("the disk is full")
            if run.attempt == 2:
                begun.set()
                run.wait_lost(PATIENCE)
                assert run.ending_event.is_set()
                run.check()
            if run.attempt == 4:
                raise SystemExit(7)

        def work() -> None:
            assert threading.current_thread() is not threading.main_thread()
            with leasehold.Client(made.endpoint) as client, pytest.raises(SystemExit):
                client.every(CRON, function="nightly")(nightly)("all")

        task = asyncio.create_task(asyncio.to_thread(work))
        call = await schedules.call()
        call.tell(STANDBY, due(1, boot_id=""))
        await eventually("it has failed", lambda: schedules.outcomes == ["FAILED"])
        assert schedules.completed[0].detail == "the disk is full"
        call.tell(RECORDED, due(2, boot_id=""))
        await asyncio.to_thread(begun.wait, PATIENCE)
        call.tell(LOST, due(3, boot_id=""))
        await eventually("it has succeeded", lambda: schedules.outcomes == ["FAILED", "RETURNED", "SUCCEEDED"])
        call.tell(RECORDED, due(4, boot_id=""))
        await task
        assert schedules.outcomes == ["FAILED", "RETURNED", "SUCCEEDED", "RETURNED"]
        assert len(set(threads)) == 1
        await call.ended()


async def without_asyncio_the_runs_come_one_by_one() -> None:
    async with scheduled() as (made, schedules, _client):

        def work() -> None:
            with leasehold.Client(made.endpoint) as client:
                for run in client.runs(timedelta(seconds=30), function="nightly"):
                    with run:
                        assert run.is_valid()
                        if run.attempt == 2:
                            run.complete(RunOutcome.FAILED_FINAL, "no such month")
                    if run.attempt == 3:
                        break

        task = asyncio.create_task(asyncio.to_thread(work))
        call = await schedules.call()
        assert call.request.spec.every.seconds == 30
        call.tell(STANDBY, due(2, boot_id=""))
        await eventually("it is told", lambda: schedules.outcomes == ["FAILED_FINAL"])
        call.tell(RECORDED, due(3, boot_id=""))
        await task
        assert schedules.outcomes == ["FAILED_FINAL", "SUCCEEDED"]
