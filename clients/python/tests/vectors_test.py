"""Plays proto/vectors/client.jsonl and runs.jsonl; proto/vectors/README.md says what they mean."""

import asyncio
import json
import selectors
from pathlib import Path
from typing import Any, Final

import pytest
from messages import BASES, MILLISECOND, OURS, Said, error_of
from near_sidecar import NearSidecar

import leasehold
from leasehold._connect.calls import Calls
from leasehold._hold import events
from leasehold._hold.async_hold import AsyncHold
from leasehold._hold.opening import open_keeper
from leasehold._hold.spec import wanted
from leasehold._runs.async_run import AsyncRun, each_run
from leasehold._runs.schedules import DefinitionInForce, ScheduleEvent
from leasehold._runs.spec import subscription
from leasehold._runs.subscription import Subscription

_VECTORS: Final = Path(__file__).parents[3] / "proto/vectors"

Step = dict[str, Any]


class _Selector(selectors.SelectSelector):
    """Jumps to the next timer instead of waiting for it."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("nothing will ever happen")
        self.loop.now += max(timeout, 0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """The event loop."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


async def reach(moment: float) -> None:
    """Let the time go to a moment, and all be done that is due by then."""
    loop = asyncio.get_running_loop()
    come = loop.create_future()
    loop.call_at(moment, come.set_result, None)
    await come
    await settled()


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def read() -> list[tuple[Said, list[Step]]]:
    vectors: list[tuple[Said, list[Step]]] = []
    lines = [line for name in ("client", "runs") for line in (_VECTORS / f"{name}.jsonl").read_text().splitlines()]
    for line in lines:
        said = json.loads(line) if line else {}
        if "vector" in said:
            vectors.append((said, []))
        elif said:
            vectors[-1][1].append(said)
    return vectors


class _Stage:
    """A client in a time of its own, and a sidecar that does what a vector says. It is the clock, too."""

    boot_id = OURS

    def __init__(self, kernel: str) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._slept = 0
        self._hold: AsyncHold | None = None
        self._until: int | None = None
        self._told: list[str] = []
        self._returned: list[str] = []
        self._deeds: Final[dict[str, asyncio.Task[None]]] = {}
        self._sidecar: Final = NearSidecar(kernel, lambda: self._hold is not None and self._hold.is_valid())
        self._calls: Final = Calls(self._sidecar.connector, self)
        request = subscription("30 2 * * *", "f", "", {})
        self._runs: Final = each_run(lambda: self._calls, Subscription(lambda: self._calls, request, self._tell))

    def now(self) -> int:
        return (BASES["ours"] + self._slept) * MILLISECOND + round(self._loop.time() * 1e9)

    @property
    def _time(self) -> int:
        return self.now() // MILLISECOND - BASES["ours"]

    async def _pass(self, to: int) -> None:
        await reach((to - self._slept) / 1_000)

    async def play(self, step: Step) -> None:
        """Do what a step says, and compare what came of it."""
        await self._reach(step["at"])
        self._slept += step.get("sleep", 0)
        for name, said in step.get("answer", {}).items():
            self._sidecar.answers[name].put_nowait(self._sidecar.messages.answer(name, said))
        for name, said in step.get("refuse", {}).items():
            self._sidecar.answers[name].put_nowait(error_of(said))
        for name, deed in step.get("do", {}).items():
            self._deeds[name] = self._loop.create_task(self._do(name, deed))
        await settled()
        tell = step.get("tell", [])
        for told in [tell] if isinstance(tell, dict) else tell:
            for name, said in told.items():
                self._sidecar.on(step.get("on")).say(name, said)
        if "break" in step:
            self._sidecar.end(step.get("on"), step["break"])
        await self._pass(step["at"] + step.get("sleep", 0) + step.get("within", 0))
        self._compare(step)

    async def _reach(self, at: int) -> None:
        """Let the time go on to a step. The validity ends at its end, neither sooner nor later."""
        until = self._until
        if until is not None and self._time < until < at:
            assert self._hold is not None
            await self._pass(until - 1)
            assert self._hold.is_valid(), f"before {at}: the hold is over already"
            await self._pass(until)
            assert not self._hold.is_valid(), f"before {at}: the hold is not over"
        await self._pass(at)

    def _compare(self, step: Step) -> None:
        self._until = step.get("until", self._until)
        hold = self._hold
        seen: dict[str, Any] = {
            "until": moment(hold.valid_until) if hold is not None and hold.is_valid() else None,
            "open": self._sidecar.open,
            "max_hold": moment(hold.max_hold_ends) if hold is not None else None,
        }
        wanted = {name: step.get(name, seen[name]) for name in seen} | {"until": self._until, "faults": []}
        seen["faults"] = self._sidecar.faults
        for name, came in (("sent", self._sidecar.sent), ("told", self._told), ("returned", self._returned)):
            seen[name], wanted[name] = came[:], step.get(name, [])
            came.clear()
        assert seen == wanted, f"at {step['at']}"
        if any(done.startswith("release ") for done in seen["returned"]):
            assert self._places == len(self._sidecar.open), "S37: its place on the connection is given back"
        if hold is not None and "resumed" in seen["told"]:
            needed = [connection for connection in self._calls._lasting if connection.places]
            assert needed == [hold._keeper.connection], "S37: it has left the other one"

    @property
    def _places(self) -> int:
        return sum(connection.places for connection in self._calls._lasting)

    async def _do(self, name: str, deed: Said) -> None:
        try:
            done = await self._done(name, deed)
        except leasehold.LeaseholdError as error:
            done = named(error)
        except asyncio.CancelledError:
            done = "closed"
        self._returned.append(f"{name} {done}")

    async def _done(self, name: str, deed: Said) -> str:
        """What the holder does, and what comes of it."""
        if name == "hold":
            options: Any = deed | ({"wait": deed["wait"] / 1_000} if "wait" in deed else {})
            keeper, grant = await open_keeper(self._calls, wanted("f", "", options), self._tell)
            self._hold = AsyncHold(self._calls, keeper, grant)
            return "held"
        if name == "next_run":
            self._hold = run = await anext(self._runs)
            return f"run {run.attempt}"
        hold, done = self._hold, "done"
        match name, hold:
            case "close", _:
                self._deeds["next_run"].cancel()
            case "complete", AsyncRun():
                done = (await hold.complete(leasehold.RunOutcome[deed["outcome"]])).result.name
            case "release", AsyncHold():
                done = (await hold.release()).outcome.name
            case "report_progress", AsyncHold():
                await hold.report_progress()
            case "extend_lease", AsyncHold():
                await hold.extend(deed["max_hold"] / 1_000)
            case "save_checkpoint", AsyncHold():
                done = str(await hold.save(deed["value"].encode()))
            case _:
                raise AssertionError(name)
        return done

    def _tell(self, event: ScheduleEvent) -> None:
        """Take in what the holder is told, but the grant, which the hold itself is."""
        match event:
            case events.Granted():
                return
            case events.Waiting(position):
                said = f"waiting {position}"
            case events.AtRisk():
                said = f"at_risk {event.cause_name}"
            case events.Draining(time_left):
                said = f"draining {round(time_left * 1_000)}"
            case events.Revoked(notice):
                said = f"revoked by {notice.by}"
            case DefinitionInForce():
                said = "definition conflict" if event.conflict else "definition"
            case events.Lost(loss):
                said = f"lost {loss.reason.name}"
            case _:
                said = type(event).__name__.lower()
        self._told.append(said)

    async def close(self) -> None:
        for deed in self._deeds.values():
            deed.cancel()
        if self._hold is not None and not isinstance(self._hold, AsyncRun):
            self._hold._keeper.close()
        await settled()
        await self._runs.aclose()
        await settled()
        assert (self._places, self._sidecar.open, self._sidecar.faults) == (0, [], []), "S37"
        await self._calls.close()


def moment(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000) - BASES["ours"]


def named(error: leasehold.LeaseholdError) -> str:
    match error:
        case leasehold.BusyError():
            return f"busy {error.busy.reason.name}"
        case leasehold.LostError():
            return f"lost {error.loss.reason.name}"
        case leasehold.ReleaseUnconfirmedError():
            return "unconfirmed"
        case leasehold.RefusedError():
            return f"refused {error.reason.name if error.reason is not None else ''}"
    return repr(error)


@pytest.mark.parametrize(("vector", "steps"), [pytest.param(*vector, id=vector[0]["vector"]) for vector in read()])
def the_client_does_what_the_vector_says(vector: Said, steps: list[Step]) -> None:
    async def play() -> None:
        stage = _Stage(vector.get("kernel", "ours"))
        for step in steps:
            await stage.play(step)
        await stage.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play())


def the_sidecar_may_still_say_why_a_hold_is_over_that_the_clock_has_found_to_be_so() -> None:
    steps: list[Step] = [
        {"at": 0, "do": {"hold": {}}, "sent": ["hold"]},
        {"at": 0, "tell": {"granted": {"until": 58_000, "for": 58_000}}, "returned": ["hold held"], "until": 58_000},
        {"at": 58_200, "tell": {"lost": {"reason": "BROKEN"}}, "told": ["lost BROKEN"], "until": None},
    ]
    the_client_does_what_the_vector_says({}, steps)
