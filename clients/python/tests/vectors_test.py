"""Plays proto/vectors/client.jsonl and runs.jsonl; proto/vectors/README.md says what they mean."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from bench import CRON, Bench, VirtualLoop
from fake import Call, FakeSidecar
from messages import BASES, MILLISECOND, Askings, Said, call_of, refusal

import leasehold
from leasehold import AsyncHold, AsyncRun

_VECTORS: Final = Path(__file__).parents[3] / "proto/vectors"

Step = dict[str, Any]


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


class _Sidecar(FakeSidecar):
    """Watches over what holds always, too."""

    hold: AsyncHold | None = None

    def __init__(self, kernel: str) -> None:
        super().__init__(kernel)
        self.standing.clear()
        self.sent: Final[list[str]] = []
        self.faults: Final[list[str]] = []
        self._askings: Final = Askings(kernel)
        self._too_old: Final[set[str]] = set()

    @property
    def _is_valid(self) -> bool:
        return self.hold is not None and self.hold.is_valid()

    @property
    def open(self) -> list[int]:
        """The numbers of the streams that live."""
        return [number for number, call in enumerate(self.calls, 1) if not call.done()]

    def end(self, call: Call, said: Said) -> None:
        if "needs" in said:
            self._too_old.add(call.peer)
        call.fail(refusal(**said) if said else None)

    def follow(self, name: str, request: Any, peer: str, metadata: Any) -> Call:
        self.sent.append(self._askings.words(request))
        if peer in self._too_old | {call.peer for call in self.calls if not call.done()}:
            self.faults.append("S14, S37: a stream goes over a connection that is to be left")
        return super().follow(name, request, peer, metadata)

    def cancelled(self, call: Call) -> None:
        is_replaced = any(later.is_granted for later in self.calls[self.calls.index(call) + 1 :])
        if not is_replaced and self._is_valid:
            self.faults.append("S14: a stream was ended while the hold was valid")

    async def ask(self, name: str, request: Any, peer: str, metadata: Any) -> Any:
        if name in ("release", "complete_run") and self._is_valid:
            self.faults.append("S13: the hold is valid when its release is sent")
        if peer != [call.peer for call in self.calls if call.is_granted][-1]:
            self.faults.append("S37: a call goes over another connection than the hold's stream")
        self.sent.append(call_of(name, request))
        return await super().ask(name, request, peer, metadata)


class _FailedError(Exception):
    """What work fails with."""


class _Stage:
    """A client in a time of its own, and a sidecar that does what a vector says."""

    def __init__(self, sidecar: _Sidecar, made: Bench) -> None:
        self._sidecar: Final = sidecar
        self._made: Final = made
        made.clock.time = asyncio.get_running_loop().time
        self._until: int | None = None
        self._told: list[str] = []
        self._returned: list[str] = []
        self._deeds: Final[dict[str, asyncio.Task[None]]] = {}
        self._finish: asyncio.Future[None]
        self._calls: Final = made.client._calls()
        self._runs: Final = made.client.runs(CRON, function="f", on_event=self._tell)

    @property
    def _time(self) -> int:
        return self._made.clock.now() // MILLISECOND - BASES["ours"]

    async def _pass(self, to: int) -> None:
        await reach(to / 1_000 - self._made.clock.slept)

    async def play(self, step: Step) -> None:
        """Do what a step says, and compare what came of it."""
        await self._reach(step["at"])
        self._made.clock.advance(step.get("sleep", 0) / 1_000)
        for name, said in step.get("answer", {}).items():
            self._sidecar.answer(name, said)
        for name, said in step.get("refuse", {}).items():
            self._sidecar.answer(name, refusal(**said))
        for name, deed in step.get("do", {}).items():
            if name == "finish":
                self._end_work(**deed)
                continue
            self._deeds[name] = asyncio.create_task(self._do(name, deed))
        await settled()
        stream = self._sidecar.calls[step.get("on", 0) - 1]
        tell = step.get("tell", [])
        for told in [tell] if isinstance(tell, dict) else tell:
            for name, said in told.items():
                stream.say(name, said)
        if "break" in step:
            self._sidecar.end(stream, step["break"])
        await self._pass(step["at"] + step.get("sleep", 0) + step.get("within", 0))
        self._compare(step)

    async def _reach(self, at: int) -> None:
        """Let the time go on to a step. The validity ends at its end, neither sooner nor later."""
        until = self._until
        if until is not None and self._time < until < at:
            assert self._sidecar.hold is not None
            await self._pass(until - 1)
            assert self._sidecar.hold.is_valid(), f"before {at}: the hold is over already"
            await self._pass(until)
            assert not self._sidecar.hold.is_valid(), f"before {at}: the hold is not over"
        await self._pass(at)

    def _compare(self, step: Step) -> None:
        self._until = step.get("until", self._until)
        hold = self._sidecar.hold
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
        except _FailedError:
            done = "failed"
        except leasehold.LeaseholdError as error:
            done = named(error)
        except asyncio.CancelledError:
            done = "closed"
        self._returned.append(f"{name} {done}")

    async def _done(self, name: str, deed: Said) -> str:
        """What the holder does, and what comes of it."""
        if name == "hold":
            options: Any = deed | ({"wait": deed["wait"] / 1_000} if "wait" in deed else {})
            self._sidecar.hold = await self._made.client.hold("f", on_event=self._tell, **options).__aenter__()
            return "held"
        if name == "next_run":
            self._sidecar.hold = run = await anext(self._runs)
            return f"run {run.attempt}"
        hold, done = self._sidecar.hold, "done"
        match name, hold:
            case "lead" | "every", _:
                await (self._lead() if name == "lead" else self._every())
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

    async def _lead(self) -> None:
        async for term in self._made.client.lead("f", on_event=self._tell):
            async with term:
                await self._work(term, f"term {term.fencing_token}")
                if term.notice is None:
                    return

    async def _every(self) -> None:
        await self._made.client.every(
            CRON, lambda run: self._work(run, f"run {run.attempt}"), function="f", on_event=self._tell
        )

    async def _work(self, hold: AsyncHold, begun: str) -> None:
        """Go on until the holder finishes it, or it is cancelled."""
        self._sidecar.hold = hold
        self._told.append(begun)
        self._finish = asyncio.get_running_loop().create_future()
        await self._finish

    def _end_work(self, *, fails: bool = False) -> None:
        if fails:
            self._finish.set_exception(_FailedError())
        else:
            self._finish.set_result(None)

    def _tell(self, event: leasehold.HoldEvent | leasehold.ScheduleEvent) -> None:
        """Take in what the holder is told, but the grant, which the hold itself is."""
        match event:
            case leasehold.Granted():
                return
            case leasehold.Waiting(position):
                said = f"waiting {position}"
            case leasehold.AtRisk():
                said = f"at_risk {event.cause_name}"
            case leasehold.Draining(time_left):
                said = f"draining {round(time_left * 1_000)}"
            case leasehold.Revoked(notice):
                said = f"revoked by {notice.by}"
            case leasehold.DefinitionInForce():
                said = "definition conflict" if event.conflict else "definition"
            case leasehold.Lost(loss):
                said = f"lost {loss.reason.name}"
            case _:
                said = type(event).__name__.lower()
        self._told.append(said)

    async def close(self) -> None:
        for deed in self._deeds.values():
            deed.cancel()
        if self._sidecar.hold is not None and not isinstance(self._sidecar.hold, AsyncRun):
            self._sidecar.hold._keeper.close()
        await settled()
        await self._runs.aclose()
        await settled()
        assert (self._places, self._sidecar.open, self._sidecar.faults) == (0, [], []), "S37"


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
        sidecar = _Sidecar(vector.get("kernel", "ours"))
        async with Bench(sidecar) as made:
            stage = _Stage(sidecar, made)
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
