"""Running for as long as this process leads."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from bench import PATIENCE, Bench
from fake import GONE
from messages import refusal

import leasehold
from leasehold._hold.leading import Pauses

Work = Callable[[leasehold.AsyncTerm], Awaitable[object]]


def leading(made: Bench, work: Work, **options: Any) -> "asyncio.Task[list[int]]":
    """Do `work` in each term, until it gives something; the fencing tokens."""

    async def lead() -> list[int]:
        tokens: list[int] = []
        async for term in made.client.lead("f", "s", **options):
            async with term:
                tokens.append(term.fencing_token)
                if await work(term):
                    return tokens
        return tokens

    return made.do(lead())


async def slept(work: Awaitable[object]) -> float:
    """How long something takes."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await work
    return loop.time() - began


async def wait(_term: leasehold.AsyncTerm) -> None:
    await asyncio.sleep(PATIENCE)


async def s33_to_s35_terms_are_asked_for_without_end_also_after_a_release_that_is_not_confirmed(made: Bench) -> None:
    asked: dict[str, Any] = {"priority": 7, "yields": True, "share": "listeners", "rebalance": True}
    made.sidecar.answer("release", GONE)
    task = leading(made, lambda term: asyncio.sleep(0, term.fencing_token == 2), **asked)
    for token in (1, 2):
        spec = (await made.sidecar.granted(fencing_token=token)).request.spec
        assert {name: getattr(spec, name) for name in asked} == asked
        assert spec.wait_without_end
    assert await task == [1, 2]


async def a_loss_ends_what_its_term_runs_and_the_lock_is_taken_again(made: Bench) -> None:
    async def work(term: leasehold.AsyncTerm) -> bool:
        if term.fencing_token == 1:
            await wait(term)
        if term.fencing_token == 2:
            # One that finds this out by itself stays inside, too.
            made.clock.advance(58)
            term.check()
        return True

    task = leading(made, work)
    (await made.sidecar.granted(fencing_token=1)).tell("lost", reason="TAKEN")
    assert 0.1 <= await slept(made.sidecar.granted(fencing_token=2)) <= 1
    # And for a moment the sidecar may say why.
    assert 0.1 <= await slept(made.sidecar.granted(fencing_token=3, until=117_000)) - 0.25 <= 1
    assert await task == [1, 2, 3]
    assert task.cancelling() == 0
    assert made.sidecar.asked == ["release 1"] * 3, "S13: it says that it knows"


async def pauses_grow_while_the_lock_cannot_be_taken_and_a_grant_begins_anew(made: Bench) -> None:
    pauses = Pauses()
    failed = [await slept(pauses.failed("f", leasehold.LeaseholdError("away"))) for _ in range(9)]
    assert all(0.1 <= pause <= limit for pause, limit in zip(failed, [1, 2, 4, 8, *[10] * 5], strict=True))
    assert max(failed) > 1
    pauses.granted()
    assert 0.1 <= await slept(pauses.pause()) <= 1


async def a_leader_asks_on_where_that_may_help_and_raises_what_it_does_not(made: Bench) -> None:
    task = leading(made, wait)
    (await made.sidecar.call()).fail()
    (await made.sidecar.call()).fail(refusal("PERMISSION_DENIED", "ACCESS_DENIED"))
    with pytest.raises(leasehold.RefusedError) as caught:
        await task
    assert caught.value.reason is leasehold.Reason.ACCESS_DENIED


@pytest.mark.parametrize("how", ["entered", "not entered", "left"])
async def a_term_is_released_when_its_turn_is_over(how: str, made: Bench) -> None:
    async def fail() -> None:
        async for term in made.client.lead("f"):
            term.check()
            if how == "left":
                break
            if how == "not entered":
                raise ValueError("boom")
            async with term:
                raise ValueError("boom")

    task = made.do(fail())
    call = await made.sidecar.granted()
    if how == "left":
        await task
    else:
        with pytest.raises(ValueError, match="boom"):
            await task
    await call.ended()
    assert made.sidecar.asked == ["release 1"]


async def a_thread_leads_again_after_a_loss_and_releases_a_term_that_it_leaves_by_an_error(served: Bench) -> None:
    tokens: list[int] = []

    def work(client: leasehold.Client) -> None:
        for term in client.lead("f"):
            with term:
                tokens.append(term.fencing_token)
                assert leasehold.current_hold() is term
                if len(tokens) == 2:
                    break
                assert term.wait_lost() is not None
                term.check()
                pytest.fail("a lost term goes on")
        for is_entered in (False, True):
            with suppress(KeyError):
                for term in client.lead("f"):
                    with term if is_entered else nullcontext():
                        raise KeyError

    call, task = await served.during(work)
    call.tell("lost", reason="TAKEN")
    for token in (65_600, 65_700, 65_800):
        await served.sidecar.granted(fencing_token=token)
    await task
    assert tokens == [65_536, 65_600]
    assert served.sidecar.asked == ["release 1"] * 4, "the lost term says that it knows (S13)"
