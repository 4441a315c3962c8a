"""Taking part in a schedule, with asyncio and without: what becomes of blocks, functions, and the runs between them."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from bench import CRON, PATIENCE, Bench, until
from fake import GONE
from messages import Messages, refusal

import leasehold


def outcomes(made: Bench) -> list[str]:
    return [asked.removeprefix("complete_run 1 ") for asked in made.sidecar.asked]


def recorded(made: Bench, *told: str) -> Callable[[], bool]:
    return lambda: outcomes(made) == [*told]


async def t8_t11_the_end_of_a_block_is_the_outcome_and_a_run_that_nobody_completes_is_returned(made: Bench) -> None:
    runs, run, call = await made.running()
    async with run:
        assert leasehold.current_hold() is run
    call.tell("recorded").tell("run")
    with pytest.raises(ValueError, match="the disk is full"):
        async with await anext(runs):
            raise ValueError("the disk is full")
    assert made.sidecar.requests[1].detail == "the disk is full"
    call.tell("recorded").tell("run")
    await anext(runs)
    asking = asyncio.ensure_future(anext(runs))
    await until(recorded(made, "SUCCEEDED", "FAILED", "RETURNED"))
    call.tell("recorded").tell("run")
    await asking
    await runs.aclose()
    assert outcomes(made)[3:] == ["RETURNED"]
    await call.ended()


async def t8_s23_an_outcome_is_told_once_with_a_detail_that_is_cut_and_a_checkpoint_that_is_not(made: Bench) -> None:
    runs, run, call = await made.running()
    with pytest.raises(leasehold.ArgumentError, match=r"2,049 bytes; at most 2,048"):
        await run.succeeded(checkpoint=b"x" * 2_049)
    assert (run.is_valid(), made.sidecar.requests) == (True, []), "the run is as it was"
    completed = await run.failed("é" * 300)
    assert await run.failed() == completed
    assert [request.detail for request in made.sidecar.requests] == ["é" * 256]
    call.tell("recorded").tell("run", attempt=3)
    await (await anext(runs)).succeeded(checkpoint=b"page 7")
    assert made.sidecar.requests[1].checkpoint == b"page 7"
    await runs.aclose()


async def t12_a_block_is_cancelled_at_the_deadline_of_its_run(made: Bench) -> None:
    runs, run, call = await made.running()
    async with run:
        call.tell("lost", reason="MAX_HOLD_REACHED")
        await asyncio.sleep(PATIENCE)
    assert outcomes(made) == ["FAILED_FINAL"]
    await runs.aclose()


async def s13_t8_a_closed_client_returns_its_runs_and_waits_for_a_completion_that_is_under_way(made: Bench) -> None:
    (runs, run, _call), (others, other, _other) = await made.running(), await made.running()
    recorded = made.sidecar.standing.pop("complete_run")
    completing = made.do(other.succeeded())
    await asyncio.sleep(0)
    closing = made.do(made.client.close())
    await until(lambda: outcomes(made) == ["SUCCEEDED", "RETURNED"])
    made.sidecar.answer("complete_run", GONE, recorded, recorded)
    assert (await completing).result is leasehold.CompletionResult.RECORDED
    await closing
    assert outcomes(made) == ["SUCCEEDED", "RETURNED", "SUCCEEDED"]
    assert run.loss is not None
    with pytest.raises(leasehold.ClosedError):
        await anext(runs)
    await others.aclose()


async def every_asks_again_where_no_sidecar_answers_and_gives_up_where_that_is_no_use(made: Bench) -> None:
    async def nightly(_run: leasehold.AsyncRun) -> None:
        raise AssertionError

    task = made.do(made.client.every(CRON, nightly, function="nightly"))
    (await made.sidecar.call("subscribe_schedule")).fail()
    call = await made.sidecar.call("subscribe_schedule")
    assert 0.1 <= asyncio.get_running_loop().time() <= 2
    call.fail(refusal("INVALID_ARGUMENT", "INVALID_FIELD", field="spec.cron"))
    with pytest.raises(leasehold.RefusedError, match=r"spec\.cron"):
        await task


class Nightly:
    """A function that is run on a schedule, with asyncio and without."""

    def __init__(self) -> None:
        self.attempts: list[tuple[int, str]] = []
        self.is_ending = False
        """T20: whether it was told gently, while its run was valid."""
        self._thread = threading.current_thread()

    def _begin(self, run: leasehold.Run | leasehold.AsyncRun, what: str) -> None:
        self.attempts.append((run.attempt, what))
        assert (leasehold.current_hold(), run.scheduled_at.timestamp()) == (run, 1_800)
        if run.attempt == 1:
            raise ValueError("the disk is full")

    async def waiting(self, run: leasehold.AsyncRun, what: str) -> None:
        self._begin(run, what)
        if run.attempt == 3:
            await run.wait_ending()
            self.is_ending = run.is_valid()
            # What it raises when it is cancelled, because the run is lost, is no failure of its own.
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(PATIENCE)
            raise ValueError
        if run.attempt == 4:
            await asyncio.sleep(PATIENCE)

    def blocking(self, run: leasehold.Run, what: str) -> None:
        assert threading.current_thread() is self._thread
        self._begin(run, what)
        if run.attempt == 3:
            run.ending_event.wait(PATIENCE)
            self.is_ending = run.is_valid()
            # It has to look.
            run.wait_lost(PATIENCE)
            run.check()
        if run.attempt == 4:
            raise SystemExit(7)

    def in_this_thread(self, endpoint: str, **options: Any) -> None:
        self._thread = threading.current_thread()
        with leasehold.Client(endpoint) as client, pytest.raises(SystemExit):
            client.every(CRON, function="nightly", **options)(self.blocking)("all")


@pytest.mark.parametrize(("reason", "outcome"), [("TAKEN", "RETURNED"), ("MAX_HOLD_REACHED", "FAILED_FINAL")])
@pytest.mark.parametrize("is_async", [True, False])
async def t8_t11_t12_what_becomes_of_the_function_is_the_outcome_and_it_goes_on_with_the_next(
    is_async: bool, reason: str, outcome: str, served: Bench
) -> None:
    nightly = Nightly()
    options: Any = {"time_zone": "Europe/Copenhagen", "on_event": None}
    if is_async:
        task = served.do(served.client.every(CRON, function="nightly", **options)(nightly.waiting)("all"))
    else:
        # As of another kernel: the client's clock is real.
        served.sidecar.messages = Messages("unknown")
        task = served.do(asyncio.to_thread(nightly.in_this_thread, served.endpoint, **options))
    call = await served.sidecar.call("subscribe_schedule")
    spec = call.request.spec
    assert (spec.time_zone, spec.cron, call.request.key.function) == ("Europe/Copenhagen", CRON, "nightly")
    call.tell("standby", understood=True).tell("run", attempt=1)
    await until(recorded(served, "FAILED"))
    assert served.sidecar.requests[0].detail == "the disk is full"
    call.tell("recorded").tell("run", attempt=2)
    await until(recorded(served, "FAILED", "SUCCEEDED"))
    call.tell("recorded").tell("run", attempt=3)
    await until(lambda: len(nightly.attempts) == 3)
    call.tell("draining")
    await until(lambda: nightly.is_ending)
    call.tell("lost", reason=reason)
    call = await served.sidecar.running(attempt=4)
    await until(lambda: len(nightly.attempts) == 4)
    # T11: told to stop, it returns its run.
    if is_async:
        task.cancel()
    with pytest.raises(asyncio.CancelledError) if is_async else nullcontext():
        await task
    assert nightly.attempts == [(attempt, "all") for attempt in (1, 2, 3, 4)]
    assert outcomes(served) == ["FAILED", "SUCCEEDED", outcome, "RETURNED"]
    await call.ended()


async def without_asyncio_runs_come_one_by_one(served: Bench) -> None:
    def working() -> None:
        with leasehold.Client(served.endpoint) as client:
            for run in client.runs(timedelta(seconds=30), function="nightly"):
                with run:
                    assert run.is_valid()
                    if run.attempt == 2:
                        run.complete(leasehold.RunOutcome.FAILED_FINAL, "no such month")
                if run.attempt == 3:
                    break

    served.sidecar.messages = Messages("unknown")
    task = served.do(asyncio.to_thread(working))
    call = await served.sidecar.running()
    assert call.request.spec.every.seconds == 30
    await until(recorded(served, "FAILED_FINAL"))
    call.tell("recorded").tell("run", attempt=3)
    await call.ended()
    await task
    assert outcomes(served) == ["FAILED_FINAL", "SUCCEEDED"]
