"""What processes do to a client: forks, SIGTERM, and libraries that patch threads."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fake import PATIENCE, Bench

import leasehold
from leasehold._hold.holder import holder_or_this, named


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


FORK = """
import contextlib, multiprocessing, signal
def fork(work):
    child = os.fork()
    if child == 0:
        signal.alarm(50)
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}"[:51], flush=True)
        sys.stdout.flush()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

def hold(client):
    with client.hold("f") as hold:
        print("held", flush=True)
        return hold

def work(number):
    with leasehold.Client(ENDPOINT) as client, client.hold("f"):
        return number

client = leasehold.Client(ENDPOINT)
"""
OWN_CLIENT = """
kept = hold(client)
fork(lambda: hold(leasehold.Client(ENDPOINT)))
# The connection that the fork has closed is made again.
hold(client)
"""
POOL = """
hold(client)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, range(4)), flush=True)
"""
HOLDER = """
with client.hold("f") as held:
    fork(lambda: hold(leasehold.Client(ENDPOINT)))
    fork(lambda: hold(client))
    fork(lambda: None)
    print(held.is_valid(), flush=True)
"""
ROBBED = """
with contextlib.suppress(leasehold.LostError), client.hold("f") as lost:
    lost.wait_lost()
    fork(lambda: hold(leasehold.Client(ENDPOINT)))
print(lost.is_valid(), flush=True)
hold(client)
"""
CLOSED = "ClosedError: this process was forked while its pare"


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        pytest.param(OWN_CLIENT, ["held", "held", "7", "held"], id="a client of its own beside a used one"),
        pytest.param(POOL, ["held", "[0, 1, 2, 3]"], id="a pool beside a used one"),
        # It is told at once that it cannot use a client.
        pytest.param(HOLDER, [CLOSED, "7", CLOSED, "7", "7", "True"], id="of a holder"),
        # The release of the lost hold says that its holder knows.
        pytest.param(ROBBED, ["held", "7", "False", "held"], id="of a holder that has lost"),
    ],
)
async def a_forked_child_uses_a_client_of_its_own_unless_its_parent_holds(
    program: str, printed: list[str], made: Bench
) -> None:
    async def grant() -> None:
        if program == ROBBED:
            (await made.sidecar.granted()).tell("lost", reason="TAKEN")
        await made.answer_all()

    made.do(grant())
    async with script(made, FORK + program + "client.close()") as process:
        output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, output.decode().splitlines()) == (0, printed)
    assert len(made.sidecar.asked) == {OWN_CLIENT: 3, POOL: 5, HOLDER: 1, ROBBED: 3}[program]


def a_caller_without_a_name_is_its_pod_or_host_and_process_and_a_fork_names_itself() -> None:
    assert named("importer-7f9c", 17) == "importer-7f9c/17"
    assert named("", 17) == named("bj\u00f6rn", 17) == named("a\nb", 17) == "17"
    assert named("h" * 300, 17) == "h" * 253 + "/17"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, holder_or_this("").encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert told.read() == f"{socket.gethostname()}/{child}"
    os.waitpid(child, 0)


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
OWN = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: (print('own', flush=True), os._exit(3)))\n"


@pytest.mark.parametrize(
    ("program", "said", "code", "outcome"),
    [
        *((program, b"finally\n", 128 + signal.SIGTERM, ["complete_run 1 RETURNED"]) for program in (SYNC, ASYNC)),
        # A program that handles it by itself is left alone.
        (OWN + SYNC, b"own\n", 3, []),
    ],
)
async def t20_sigterm_runs_what_finally_says_and_returns_the_run(
    program: str, said: bytes, code: int, outcome: list[str], made: Bench
) -> None:
    async with script(made, program) as process:
        await made.sidecar.running()
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"begun\n"
        process.send_signal(signal.SIGTERM)
        rest, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert (rest, process.returncode, made.sidecar.asked) == (said, code, outcome)


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
