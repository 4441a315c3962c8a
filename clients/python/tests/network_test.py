"""What becomes of streams when the network or the sidecar fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Unpack

import grpc
import pytest
from fake import OURS, PATIENCE, Bench, HoldCall, bench, eventually, grant, granted, validity
from messages import Refusal

import leasehold
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1 import lease_service_pb2 as wire

WAITING = wire.HoldLeaseResponse(waiting=hold_pb2.Waiting(position=1))


@asynccontextmanager
async def impatient(
    monkeypatch: pytest.MonkeyPatch, **options: Unpack[leasehold.ClientOptions]
) -> AsyncIterator[tuple[Bench, leasehold.AsyncClient]]:
    """A client that takes a stream for dead soon."""
    monkeypatch.setattr("leasehold._connect.calls.SILENCE", 0.2)
    async with bench(**options) as both:
        yield both


def waiter(made: Bench, client: leasehold.AsyncClient, wait: float) -> "asyncio.Task[int]":
    async def hold() -> int:
        async with client.hold("f", wait=wait, on_event=made.events.put_nowait) as held:
            return held.fencing_token

    task = asyncio.create_task(hold())
    made.tasks.append(asyncio.create_task(asyncio.wait_for(asyncio.shield(task), PATIENCE)))  # type: ignore[arg-type]
    return task


async def a_waiter_that_hears_nothing_asks_again_for_what_is_left_of_its_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with impatient(monkeypatch) as (made, client):
        task = waiter(made, client, 3_600)
        first = await made.sidecar.hold()
        first.tell(WAITING)
        second = await made.sidecar.hold()
        assert 3_600 - PATIENCE < second.request.spec.wait.ToNanoseconds() / 1e9 < 3_600
        await first.ended()
        second.tell(grant(validity(OURS, 1_058, 58)))
        made.tasks.append(asyncio.create_task(made.answer_all()))
        assert await task == 65_536


async def a_try_that_hears_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with impatient(monkeypatch) as (made, client):
        task = waiter(made, client, 0)
        call = await made.sidecar.hold()
        with pytest.raises(leasehold.RefusedError, match=r"nothing was heard from the sidecar for 0\.2 s"):
            await task
        await call.ended()


async def a_wait_without_end_asks_again() -> None:
    async with bench() as (made, client):
        task = waiter(made, client, leasehold.FOREVER)
        for _ in range(2):
            call = await made.sidecar.hold()
            assert call.request.spec.wait_without_end
            assert not call.request.spec.HasField("wait")
            call.tell(WAITING, wire.HoldLeaseResponse(busy=hold_pb2.Busy()))
        await made.sidecar.granted()
        assert await task == 65_536


async def a_wait_without_end_goes_on_where_its_connection_breaks_between_two_rounds() -> None:
    async with bench() as (made, client):
        task = waiter(made, client, leasehold.FOREVER)
        (await made.sidecar.hold()).tell(wire.HoldLeaseResponse(busy=hold_pb2.Busy()))
        (await made.sidecar.hold()).fail(Refusal(grpc.StatusCode.UNAVAILABLE))
        await made.sidecar.granted()
        assert await task == 65_536


async def a_waiter_gives_up_when_its_wait_is_over_and_no_sidecar_is_back() -> None:
    async with bench() as (made, client):
        task = waiter(made, client, 0.5)
        (await made.sidecar.hold()).tell(WAITING)
        await made.event()
        await made.kill()
        with pytest.raises(leasehold.UnreachableError):
            await task


async def a_repeated_waiting_is_told_once() -> None:
    async with bench() as (made, client):
        task = waiter(made, client, 3_600)
        call = await made.sidecar.hold()
        for message in (WAITING, WAITING, grant(validity(OURS, 1_058, 58))):
            call.tell(message)
        await task
        assert [type(await made.event()) for _ in range(2)] == [leasehold.Waiting, leasehold.Granted]


async def s14_a_holder_that_hears_nothing_resumes_and_only_then_ends_the_silent_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with impatient(monkeypatch) as (made, client):
        holder, silent = await granted(made, client)
        assert isinstance(await made.event(), leasehold.Interrupted)
        second = await made.sidecar.hold()
        assert second.request.resume.resume_token == "resume-1"
        # Tries over which nothing is heard are repeated, and not cut short either.
        third = await made.sidecar.hold()
        assert (silent.is_open, second.is_open, holder.hold.is_valid()) == (True, True, True)
        third.tell(grant(validity(OURS, 1_058, 58)))
        made.tasks.append(asyncio.create_task(made.answer_all()))
        await silent.ended()
        await second.ended()
        assert holder.hold.loss is None


async def a_silent_connection_carries_no_further_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    async with impatient(monkeypatch) as (made, client):
        await granted(made, client)
        await made.sidecar.hold()
        assert client._made is not None
        assert [connection.is_given_up for connection in client._made._lasting][:2] == [True, False]
        # The client is closed without an answer to its resume, and says so.
        with pytest.raises(leasehold.ReleaseUnconfirmedError):
            await client.close()


def records(*paths: str) -> list[wire.ListLocksResponse]:
    return [wire.ListLocksResponse(records=[lock_pb2.LockRecord(lock_path=path) for path in paths])]


async def a_watch_gives_no_record_twice_and_goes_on_where_nothing_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    async with impatient(monkeypatch) as (made, client), aclosing(client.watch_lock("l")) as watch:
        made.sidecar.watch_stays_open = True
        made.sidecar.pages = records("a", "a", "b")
        assert [(await anext(watch)).lock_path for _ in range(2)] == ["a", "b"]
        made.sidecar.pages = records("b", "c")
        assert (await anext(watch)).lock_path == "c"
        assert made.sidecar.watches > 1


async def a_watch_survives_a_restart_of_the_sidecar() -> None:
    async with bench() as (made, client), aclosing(client.watch_lock("l")) as watch:
        made.sidecar.watch_stays_open = True
        made.sidecar.pages = records("a")
        assert (await anext(watch)).lock_path == "a"
        await made.kill()
        made.sidecar.pages = records("b")
        await made.start()
        assert (await anext(watch)).lock_path == "b"


async def a_watch_whose_sidecar_stays_away_ends_by_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with impatient(monkeypatch) as (made, client), aclosing(client.watch_lock("l")) as watch:
        made.sidecar.watch_stays_open = True
        made.sidecar.pages = records("a")
        await anext(watch)
        await made.kill()
        with pytest.raises(leasehold.UnreachableError):
            await anext(watch)


async def s14_a_resume_is_tried_again_where_a_token_could_not_be_loaded() -> None:
    tokens = ["one", "two", "three"]
    async with bench(bearer_token=lambda: tokens.pop(0)) as (made, client):
        holder, call = await granted(made, client)
        tokens.clear()
        call.fail(Refusal(grpc.StatusCode.UNAVAILABLE))
        assert isinstance(await made.event(), leasehold.Interrupted)
        await eventually("a try fails", lambda: holder.hold._keeper.resuming)
        tokens.extend(["four"] * 9)
        resumed: HoldCall = await made.sidecar.hold()
        resumed.tell(grant(validity(OURS, 1_058, 58)))
        assert isinstance(await made.event(), leasehold.Resumed)
