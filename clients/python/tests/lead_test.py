"""Running for as long as this process leads."""

import asyncio
import threading
from contextlib import suppress

import grpc
import pytest
from fake import OURS, Bench, HoldCall, bench, eventually, grant, validity
from messages import Refusal
from sync_test import during

import leasehold
from leasehold.v1 import hold_pb2
from leasehold.v1 import lease_service_pb2 as wire

LOST = wire.HoldLeaseResponse(lost=hold_pb2.Lost(reason=hold_pb2.LOSS_REASON_TAKEN))


class Leader:
    """A task that leads, and does not really sleep between its terms."""

    def __init__(self, made: Bench, client: leasehold.AsyncClient) -> None:
        self.pauses: list[float] = []
        self.tokens: list[int] = []
        self.cancelled = 0
        self.leave = asyncio.Event()
        client._sleep = self._sleep
        self._client = client
        self.task = asyncio.create_task(self._lead())
        made.tasks.append(self.task)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def _lead(self) -> None:
        async for term in self._client.lead("f", "s"):
            async with term:
                self.tokens.append(term.fencing_token)
                try:
                    await self.leave.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
                self.leave.clear()


async def led(made: Bench, leader: Leader, token: int) -> HoldCall:
    """The call of the next term, which is granted."""
    call = await made.sidecar.hold()
    assert call.request.spec.wait_without_end
    call.tell(grant(validity(OURS, 1_058, 58), token))
    await eventually("the term begins", lambda: token in leader.tokens)
    return call


async def s33_to_s35_terms_are_asked_for_with_a_priority_and_a_share() -> None:
    asked: leasehold.LeaseSpec = {"priority": 7, "yields": True, "share": "listeners", "rebalance": True}
    async with bench() as (made, client):
        client._sleep = lambda _seconds: asyncio.sleep(0)
        terms = client.lead("f", **asked)
        for _ in range(2):
            term = asyncio.ensure_future(anext(terms))
            call = await made.sidecar.granted()
            await term
            spec = call.request.spec
            assert {name: getattr(spec, name) for name in asked} == asked
        await terms.aclose()


async def a_leader_takes_the_lock_again_after_a_loss() -> None:
    async with bench() as (made, client):
        leader = Leader(made, client)
        (await led(made, leader, 1)).tell(LOST)
        await led(made, leader, 2)
        assert leader.cancelled == 1, "the loss ends what the term runs"
        assert len(leader.pauses) == 1
        assert 0.1 <= leader.pauses[0] <= 1
        assert leader.task.cancelling() == 0
        assert made.sidecar.asked == ["release lease-1 of generation 1"], "S13: it says that it knows"


async def a_leader_waits_for_a_sidecar_that_is_away_with_growing_pauses() -> None:
    async with bench() as (made, client):
        await made.kill()
        leader = Leader(made, client)
        await eventually("it tries again", lambda: len(leader.pauses) > 12)
        await made.start()
        await led(made, leader, 1)
        limits = [min(2.0**failures, 10) for failures in range(1, 13)]
        assert all(0.1 <= pause <= limit for pause, limit in zip(leader.pauses, limits, strict=False))
        assert max(leader.pauses) > 1, "they grow"
        count = len(leader.pauses)
        leader.leave.set()
        await led(made, leader, 2)
        assert 0.1 <= leader.pauses[count] <= 1, "a grant begins anew"


async def a_leader_that_is_cancelled_releases_its_term() -> None:
    async with bench() as (made, client):
        leader = Leader(made, client)
        await led(made, leader, 1)
        leader.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader.task
        assert made.sidecar.asked == ["release lease-1 of generation 1"]


async def what_can_never_be_led_is_raised() -> None:
    async with bench() as (made, client):
        leader = Leader(made, client)
        (await made.sidecar.hold()).fail(Refusal(grpc.StatusCode.PERMISSION_DENIED, "ACCESS_DENIED"))
        with pytest.raises(leasehold.RefusedError) as caught:
            await leader.task
        assert caught.value.reason is leasehold.Reason.ACCESS_DENIED
        assert leader.pauses == []


async def a_release_that_is_not_confirmed_does_not_end_the_leading() -> None:
    async with bench() as (made, client):
        leader = Leader(made, client)
        made.sidecar.release = Refusal(grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        call = await led(made, leader, 1)
        leader.leave.set()
        await call.ended()
        made.sidecar.release = None
        await led(made, leader, 2)


@pytest.mark.parametrize("entered", [True, False])
async def an_error_in_a_term_ends_the_leading_and_releases_the_lock(entered: bool) -> None:
    async with bench() as (made, client):

        async def fail() -> None:
            async for term in client.lead("f"):
                if not entered:
                    raise ValueError("boom")
                async with term:
                    raise ValueError("boom")

        task = asyncio.create_task(fail())
        call = await made.sidecar.granted()
        with pytest.raises(ValueError, match="boom"):
            await task
        await call.ended()
        assert made.sidecar.asked == ["release lease-1 of generation 1"]


async def a_term_that_is_not_entered_is_released_when_its_turn_is_over() -> None:
    async with bench() as (made, client):
        client._sleep = asyncio.sleep

        async def lead() -> list[bool]:
            async for term in client.lead("f"):
                term.check()
                break
            return [True]

        task = asyncio.create_task(lead())
        call = await made.sidecar.granted()
        assert await task == [True]
        await call.ended()
        assert made.sidecar.asked == ["release lease-1 of generation 1"]


async def a_thread_leads_again_after_a_loss() -> None:
    async with bench() as (made, _client):
        lost = threading.Event()
        tokens: list[int] = []

        def work(client: leasehold.Client) -> None:
            for term in client.lead("f"):
                with term:
                    tokens.append(term.fencing_token)
                    assert leasehold.current_hold() is term
                    if len(tokens) == 2:
                        return
                    assert term.wait_lost() is not None
                    lost.set()
                    term.check()
                    pytest.fail("a lost term goes on")

        call, task = await during(made, work)
        call.tell(LOST)
        await asyncio.to_thread(lost.wait)
        await made.sidecar.granted(65_600)
        await task
        assert tokens == [65_536, 65_600]
        assert made.sidecar.asked == ["release lease-1 of generation 1"] * 2, "the lost term says that it knows (S13)"


async def a_thread_that_leaves_its_term_by_an_error_releases_it() -> None:
    async with bench() as (made, _client):

        def work(client: leasehold.Client) -> None:
            with suppress(KeyError):
                for term in client.lead("f"):
                    assert term.is_valid()
                    raise KeyError
            with suppress(KeyError):
                for term in client.lead("f"):
                    with term:
                        raise KeyError

        call, task = await during(made, work)
        await call.ended()
        await made.sidecar.granted()
        await task
        assert made.sidecar.asked == ["release lease-1 of generation 1"] * 2


async def a_term_that_finds_itself_lost_stays_inside_its_block() -> None:
    async with bench() as (made, client):

        async def lead() -> int:
            async for term in client.lead("f"):
                async with term:
                    if term.fencing_token == 2:
                        return 2
                    made.clock.advance(58)
                    term.check()
            return 0

        task = asyncio.create_task(lead())
        await made.sidecar.granted(1)
        (await made.sidecar.hold()).tell(grant(validity(OURS, 1_116, 58), 2))
        assert await task == 2
