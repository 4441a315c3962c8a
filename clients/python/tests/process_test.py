"""What processes do to a client: forks, pickles, SIGTERM, and libraries that patch threads."""

import asyncio
import pickle
import signal
import subprocess
import sys
import textwrap
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from fake import PATIENCE, Bench, bench
from fake_schedules import scheduled
from messages import Refusal

import leasehold
from leasehold._connect.listening import SilentError
from leasehold._enums import LossReason
from leasehold._errors import answers as _answer_errors
from leasehold._errors import errors as _errors
from leasehold._hold.grants import Busy, Loss
from leasehold.v1 import hold_pb2, lock_pb2
from leasehold.v1.lease_service_pb2 import HoldLeaseResponse


@asynccontextmanager
async def script(made: Bench, text: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program of its own that uses the fake sidecar, whose address it finds as `ENDPOINT`."""
    program = f"ENDPOINT = {made.endpoint!r}\nimport os, sys, leasehold\n{textwrap.dedent(text)}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(made: Bench, text: str) -> list[str]:
    """What the program prints; holds are granted to whom asks."""
    made.tasks.append(asyncio.create_task(made.answer_all()))
    async with script(made, text) as process:
        output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert process.returncode == 0, output
        return output.decode().split("\n")[:-1]


FORK = """
import signal
def fork(work):
    child = os.fork()
    if child == 0:
        signal.alarm(50)
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        sys.stdout.flush()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

def hold(client):
    with client.hold("f") as hold:
        print("held", flush=True)
        return hold
"""


async def a_child_uses_a_client_of_its_own_though_its_parent_has_used_one() -> None:
    async with bench() as (made, _client):
        lines = await said(
            made,
            FORK
            + """
with leasehold.Client(ENDPOINT) as client:
    kept = hold(client)
    fork(lambda: hold(leasehold.Client(ENDPOINT)))
    # The connection that the fork has closed is made again.
    hold(client)
""",
        )
        assert lines == ["held", "held", "7", "held"]


async def a_pool_of_forks_works_beside_a_client_of_the_parent() -> None:
    async with bench() as (made, _client):
        lines = await said(
            made,
            FORK
            + """
import multiprocessing
def work(number):
    with leasehold.Client(ENDPOINT) as client, client.hold("f"):
        return number
with leasehold.Client(ENDPOINT) as client:
    hold(client)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(4)), flush=True)
""",
        )
        assert lines == ["held", "[0, 1, 2, 3]"]


async def a_child_of_a_holder_is_told_at_once_that_it_cannot_use_a_client() -> None:
    async with bench() as (made, _client):
        lines = await said(
            made,
            FORK
            + """
with leasehold.Client(ENDPOINT) as client, client.hold("f") as held:
    fork(lambda: hold(leasehold.Client(ENDPOINT)))
    fork(lambda: hold(client))
    fork(lambda: None)
    print(held.is_valid(), flush=True)
""",
        )
        own, status, parents, *rest = lines
        for told in (own, parents):
            assert told.startswith("ClosedError: this process was forked while its parent held")
        assert [status, *rest] == ["7", "7", "7", "True"]


async def a_child_of_a_holder_that_has_lost_uses_a_client_of_its_own() -> None:
    async with bench() as (made, _client):

        async def robbed() -> None:
            (await made.sidecar.granted()).tell(HoldLeaseResponse(lost=hold_pb2.Lost()))

        made.tasks.append(asyncio.create_task(robbed()))
        lines = await said(
            made,
            FORK
            + """
import contextlib
with leasehold.Client(ENDPOINT) as client:
    with contextlib.suppress(leasehold.LostError), client.hold("f") as lost:
        lost.wait_lost()
        fork(lambda: hold(leasehold.Client(ENDPOINT)))
    print(lost.is_valid(), flush=True)
    hold(client)
""",
        )
        assert lines == ["held", "7", "False", "held"]
        releases = [asked.split()[0] for asked in made.sidecar.asked]
        assert releases == ["release"] * 3, "that of the lost hold says that its holder knows"


def errors() -> list[leasehold.LeaseholdError]:
    """One of each kind, with all that it may carry."""
    wire = hold_pb2.Busy(
        record=lock_pb2.LockRecord(lock_path="l", holder="a", labels={"team": "red"}, state=lock_pb2.LOCK_STATE_HELD),
        reason=hold_pb2.BUSY_REASON_HELD,
    )
    refusal = leasehold.RefusedError(grpc.StatusCode.NOT_FOUND, "no")
    refusal.reason_name, refusal.retry_after = "UNKNOWN_LEASE", 1.5
    refusal.violations = (leasehold.FieldViolation("spec.wait", "is wrong"),)
    loss = Loss(LossReason.TAKEN, "by a")
    made = [
        leasehold.LeaseholdError("so it is"),
        leasehold.PlatformError("no clock"),
        leasehold.ArgumentError("wrong"),
        leasehold.EndpointError("ftp://a", "wrong"),
        leasehold.ClosedError("closed"),
        leasehold.ProtocolError("odd"),
        leasehold.BusyError("f", Busy._from_wire(wire)),
        leasehold.OccurrenceOverError(None, None),
        leasehold.LostError("l", loss),
        leasehold.ReleaseUnconfirmedError("l", refusal),
        refusal,
        leasehold.UnsupportedError.lacking("schedules"),
        leasehold.CheckpointUnknownError(refusal),
        leasehold.UnreachableError("http://a:1", "nobody"),
    ]
    made[0].add_note("and this")
    return made


def errors_survive_a_pickle_with_all_that_they_carry() -> None:
    for error in [*errors(), SilentError(90)]:
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
        assert type(again) is type(error)
        assert (str(again), again.args) == (str(error), error.args)
        assert again.__dict__ == error.__dict__


def errors_are_named_as_their_users_know_them() -> None:
    kinds = {
        kind
        for kind in (vars(_errors) | vars(_answer_errors)).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    ours = {kind for kind in kinds if issubclass(kind, leasehold.LeaseholdError)}
    assert ours == {type(error) for error in errors()}, "the list above has one of each"
    for kind in ours:
        assert kind.__module__ == "leasehold"
        assert getattr(leasehold, kind.__name__) is kind


SYNC = """
@leasehold.Client(ENDPOINT).every("@daily", function="f")
def nightly(run):
    import time
    try:
        print("begun", flush=True)
        while True:
            time.sleep(60)
    finally:
        print("finally", flush=True)
nightly()
"""
ASYNC = """
import asyncio
async def main():
    @leasehold.AsyncClient(ENDPOINT).every("@daily", function="f")
    async def nightly(run):
        try:
            print("begun", flush=True)
            await asyncio.Event().wait()
        finally:
            print("finally", flush=True)
    await nightly()
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [SYNC, ASYNC])
async def t20_sigterm_runs_what_finally_says_and_returns_the_run(program: str) -> None:
    async with scheduled() as (made, schedules, _client), script(made, program) as process:
        await schedules.running()
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"begun\n"
        process.send_signal(signal.SIGTERM)
        rest, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert rest == b"finally\n"
        assert process.returncode == 128 + signal.SIGTERM
        assert schedules.outcomes == ["RETURNED"]


async def a_program_that_handles_sigterm_by_itself_is_left_alone() -> None:
    async with scheduled() as (made, schedules, _client):
        own = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: (print('own', flush=True), os._exit(3)))\n"
        async with script(made, own + SYNC) as process:
            await schedules.running()
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"begun\n"
            process.send_signal(signal.SIGTERM)
            rest, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
            assert (rest, process.returncode) == (b"own\n", 3)


@pytest.mark.parametrize(
    ("library", "module", "question"),
    [("gevent", "gevent.monkey", "is_module_patched"), ("eventlet", "eventlet.patcher", "is_monkey_patched")],
)
def patched_threads_are_said_at_once(library: str, module: str, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patched: set[str] = set()
    fake = types.SimpleNamespace(**{question: patched.__contains__})
    monkeypatch.setitem(sys.modules, module, fake)
    leasehold.Client("http://127.0.0.1:1")
    patched.add("socket")
    for kind in (leasehold.Client, leasehold.AsyncClient):
        with pytest.raises(leasehold.PlatformError, match=f"{library} has patched Python's threads"):
            kind("http://127.0.0.1:1")


async def a_wait_covers_a_sidecar_that_starts_later() -> None:
    made = Bench()
    await made.start()
    await made.kill()
    tried = asyncio.Event()

    class Watching(grpc.aio.UnaryStreamClientInterceptor):
        async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
            call = await continuation(details, request)
            call.add_done_callback(lambda _call: tried.set())
            return call

    for wait in (3_600.0, leasehold.FOREVER):
        async with made.another(interceptors=[Watching()]) as client:
            tried.clear()
            entered = asyncio.ensure_future(client.hold("f", wait=wait).__aenter__())
            await asyncio.wait_for(tried.wait(), PATIENCE)
            await made.start()
            made.tasks.append(answering := asyncio.create_task(made.answer_all()))
            assert (await asyncio.wait_for(entered, PATIENCE)).is_valid()
        answering.cancel()
        await made.kill()


async def the_wait_of_a_unary_call_covers_a_sidecar_that_starts_later() -> None:
    made = Bench()
    await made.start()
    await made.kill()
    made.sidecar.answer = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED)
    async with made.another() as client:
        asking = asyncio.create_task(client.acquire("f", wait=3_600))
        calls = client._calls()
        async with asyncio.timeout(PATIENCE):
            while calls._general is None or not calls._general.has_failed:
                await asyncio.sleep(0)
        await made.start()
        with pytest.raises(leasehold.RefusedError) as refused:
            await asyncio.wait_for(asking, PATIENCE)
        assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert 0 < made.sidecar.requests[0].spec.wait.ToNanoseconds() < 3_600 * 10**9
    await made.kill()
