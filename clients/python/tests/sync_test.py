"""Holds without asyncio: the sidecar of the test runs in the test's loop, and the client in a thread of its own."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest
from fake import OURS, PATIENCE, Bench, HoldCall, bench, grant, renewed, validity

import leasehold
from leasehold.v1 import lease_service_pb2 as wire
from leasehold.v1 import lock_pb2

T = TypeVar("T")


def sync(made: Bench) -> leasehold.Client:
    client = leasehold.Client(made.endpoint)
    client._in_loop._clock = made.clock
    return client


async def during(made: Bench, work: Callable[[leasehold.Client], T]) -> tuple[HoldCall, "asyncio.Task[T]"]:
    """Run `work` in a thread; give its hold call, which is granted, and the task of the thread."""

    def working() -> T:
        with sync(made) as client:
            return work(client)

    task = asyncio.create_task(asyncio.to_thread(working))
    call = await made.sidecar.granted()
    return call, task


async def s13_a_with_block_releases_the_lock_and_ends_the_hold_first() -> None:
    async with bench() as (made, _client):
        holds: list[leasehold.Hold] = []
        was_valid: list[bool] = []
        made.sidecar.on_release = lambda: was_valid.append(holds[0].is_valid())

        def work(client: leasehold.Client) -> int:
            with client.hold("f") as hold:
                holds.append(hold)
                assert leasehold.current_hold() is hold
                assert hold.remaining() == 58
                hold.check()
                hold.report_progress()
                assert hold.info().validity.valid_until == 1_060
                hold.extend(90)
                return hold.fencing_token

        call, task = await during(made, work)
        assert await task == 65_536
        assert made.sidecar.asked == [
            "report progress of generation 1",
            "extend 90 of generation 1",
            "release lease-1 of generation 1",
        ]
        assert was_valid == [False]
        await call.ended()


async def s4_a_loss_wakes_who_waits_and_is_raised_by_check_and_by_the_blocks_end() -> None:
    async with bench() as (made, _client):
        entered = threading.Event()

        def work(client: leasehold.Client) -> None:
            with client.hold("f") as hold:
                assert hold.wait_lost(0.01) is None
                entered.set()
                loss = hold.wait_lost()
                assert loss is not None
                assert loss.reason is leasehold.LossReason.EXPIRED
                with pytest.raises(leasehold.LostError):
                    hold.check()

        _call, task = await during(made, work)
        await asyncio.to_thread(entered.wait)
        made.clock.advance(58)
        with pytest.raises(leasehold.LostError):
            await task
        assert made.sidecar.asked == ["release lease-1 of generation 1"], "S13: it says that it knows"


async def a_block_that_sleeps_does_not_keep_renewals_from_being_heard() -> None:
    async with bench() as (made, _client):
        events: list[leasehold.HoldEvent] = []
        heard = threading.Event()

        def on_event(event: leasehold.HoldEvent) -> None:
            events.append(event)
            if isinstance(event, leasehold.Renewed):
                heard.set()

        def work(client: leasehold.Client) -> float:
            with client.hold("f", on_event=on_event) as hold:
                assert heard.wait(10)
                return hold.valid_until

        call, task = await during(made, work)
        call.tell(renewed(validity(OURS, 1_059, 59)))
        assert await task == 1_059
        assert [type(event) for event in events] == [leasehold.Granted, leasehold.Renewed]


async def a_decorated_function_holds_the_lock_for_each_call() -> None:
    async with bench() as (made, _client):

        def work(client: leasehold.Client) -> list[int]:
            @client.hold("f")
            def job(number: int) -> int:
                assert leasehold.current_hold().is_valid()
                return number + 1

            return [job(1), job(2)]

        _call, task = await during(made, work)
        await made.sidecar.granted()
        assert await task == [2, 3]
        assert made.sidecar.asked == ["release lease-1 of generation 1"] * 2
        with pytest.raises(LookupError):
            leasehold.current_hold()


async def a_decorated_async_function_holds_the_lock_for_each_call() -> None:
    async with bench() as (made, client):

        @client.hold("f")
        async def job(number: int) -> int:
            assert leasehold.current_hold().is_valid()
            return number + 1

        task = asyncio.create_task(job(1))
        await made.sidecar.granted()
        assert await task == 2
        assert made.sidecar.asked == ["release lease-1 of generation 1"]


async def a_process_ends_though_an_iterator_is_left_open() -> None:
    async with bench() as (made, _client):
        made.sidecar.pages = [wire.ListLocksResponse(records=[lock_pb2.LockRecord(lock_path="a")])]
        made.sidecar.watch_stays_open = True
        for iterator in ("watch_lock('f')", "list_locks()"):
            script = f"import leasehold, sys\nrecords = leasehold.Client(sys.argv[1]).{iterator}\nnext(records)"
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", script, made.endpoint, stderr=subprocess.PIPE
            )
            _out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
            assert (process.returncode, err) == (0, b"")


# A signal between the interpreter's last look for one and the system's wait does not interrupt that wait. Here it never
# does, because another thread takes the signal.
BEFORE = """
import leasehold, signal, sys
from leasehold._connect.loop_thread import LoopThread
LoopThread.shared()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
with leasehold.Client(sys.argv[1]).hold('f'): pass
"""
WAITING = "import leasehold, sys\nwith leasehold.Client(sys.argv[1]).hold('f'): pass"
HELD = """
import leasehold, sys, time
with leasehold.Client(sys.argv[1]).hold('f'):
    print('held', flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("script", [WAITING, BEFORE, HELD], ids=["waiting", "just before the waiting", "in a block"])
async def ctrl_c_leaves_the_queue_and_releases_the_lock(script: str) -> None:
    async with bench() as (made, _client):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, made.endpoint, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        call = await made.sidecar.hold()
        if script is HELD:
            call.tell(grant(validity("", 0, 58)))
            assert process.stdout is not None
            assert await process.stdout.readline() == b"held\n"
        process.send_signal(signal.SIGINT)
        await call.ended()
        _out, err = await process.communicate()
        assert b"KeyboardInterrupt" in err
        assert made.sidecar.asked == (["release lease-1 of generation 1"] if script is HELD else [])


async def an_event_handler_that_calls_is_refused_and_not_waited_for_without_end() -> None:
    async with bench() as (made, _client):
        refused: list[str] = []

        def work(client: leasehold.Client) -> None:
            def on_event(_event: leasehold.HoldEvent) -> None:
                try:
                    client.get_lock("a")
                except leasehold.LeaseholdError as error:
                    refused.append(str(error))

            with client.hold("f", on_event=on_event):
                pass

        _call, task = await during(made, work)
        await task
        assert refused == ["an event handler cannot wait for a call: hand the event to another thread"]
