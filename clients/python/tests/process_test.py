"""What processes do to a client: forks, signals, and libraries that patch threads. And the samples work."""

import asyncio
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import fenced
import pytest
from bench import Bench, until
from messages import Messages

import leasehold
from leasehold._hold.holder import holder_or_this, named

SAMPLES = Path(__file__).parents[1] / "samples"


@asynccontextmanager
async def program(served: Bench, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python program of its own that uses the fake sidecar."""
    environment = {**os.environ, "LEASEHOLD_ENDPOINT": served.endpoint}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    # As of another kernel: the clock of the program is real.
    served.sidecar.messages = Messages("unknown")
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


FORK = """
import contextlib, leasehold, multiprocessing, os, signal, sys
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
    with leasehold.Client() as client, client.hold("f"):
        return number

client = leasehold.Client()
"""
OWN_CLIENT = """
kept = hold(client)
fork(lambda: hold(leasehold.Client()))
fork(lambda: hold(client))
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
    fork(lambda: hold(leasehold.Client()))
    fork(lambda: hold(client))
    fork(lambda: print(held.is_valid(), flush=True))
    print(held.is_valid(), flush=True)
"""
ROBBED = """
with contextlib.suppress(leasehold.LostError), client.hold("f") as lost:
    lost.wait_lost()
    fork(lambda: hold(leasehold.Client()))
print(lost.is_valid(), flush=True)
hold(client)
"""
CLOSED = "ClosedError: this process was forked while its pare"
FOREIGN = "ClosedError: the client was made before this proces"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        pytest.param(
            OWN_CLIENT, ["held", "held", "7", FOREIGN, "7", "held"], id="a client of its own beside a used one"
        ),
        pytest.param(POOL, ["held", "[0, 1, 2, 3]"], id="a pool beside a used one"),
        # It is told at once that it cannot use a client.
        pytest.param(HOLDER, [CLOSED, "7", CLOSED, "7", "False", "7", "True"], id="of a holder"),
        # The release of the lost hold says that its holder knows.
        pytest.param(ROBBED, ["held", "7", "False", "held"], id="of a holder that has lost"),
    ],
)
async def a_forked_child_uses_a_client_of_its_own_unless_its_parent_holds(
    text: str, printed: list[str], served: Bench
) -> None:
    async def grant() -> None:
        if text == ROBBED:
            (await served.sidecar.granted()).tell("lost", reason="TAKEN")
        await served.answer_all()

    served.do(grant())
    async with program(served, "-c", FORK + text + "client.close()") as process:
        output, _ = await process.communicate()
    assert (process.returncode, output.decode().splitlines()) == (0, printed)
    assert len(served.sidecar.asked) == {OWN_CLIENT: 3, POOL: 5, HOLDER: 1, ROBBED: 3}[text]


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
import leasehold, os
@leasehold.Client().every("@daily", function="f")
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
import asyncio, leasehold
async def main():
    @leasehold.AsyncClient().every("@daily", function="f")
    async def nightly(run):
        try:
            print("begun", flush=True)
            await asyncio.Event().wait()
        finally:
            print("finally", flush=True)
    await nightly()
asyncio.run(main())
"""
OWN = "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: (print('own', flush=True), os._exit(3)))\n"


@pytest.mark.parametrize(
    ("text", "said", "code", "outcome"),
    [
        *((text, b"finally\n", 128 + signal.SIGTERM, ["complete_run 1 RETURNED"]) for text in (SYNC, ASYNC)),
        # A program that handles it by itself is left alone.
        (OWN + SYNC, b"own\n", 3, []),
    ],
)
async def t20_sigterm_runs_what_finally_says_and_returns_the_run(
    text: str, said: bytes, code: int, outcome: list[str], served: Bench
) -> None:
    async with program(served, "-c", text) as process:
        await served.sidecar.running()
        assert process.stdout is not None
        assert await process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGTERM)
        rest, _ = await process.communicate()
        assert (rest, process.returncode, served.sidecar.asked) == (said, code, outcome)


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


def s5_a_write_with_a_smaller_token_is_refused() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE report (id INTEGER PRIMARY KEY, body TEXT, fencing_token BIGINT)")
        database.execute("INSERT INTO report VALUES (1, '', 0)")
        fenced.write(database, 1, "of the first", 7)
        fenced.write(database, 1, "again", 7)
        fenced.write(database, 1, "of the second", 9)
        with pytest.raises(fenced.LateWriteError):
            fenced.write(database, 1, "late", 7)
        assert database.execute("SELECT body FROM report").fetchall() == [("of the second",)]


@pytest.mark.parametrize("name", ["first.py", "blocking.py", "decorated.py", "careful.py"])
async def a_sample_of_the_readme_runs(name: str, served: Bench) -> None:
    async with program(served, str(SAMPLES / name)) as process:
        call = await served.sidecar.granted()
        assert call.request.spec.key.function == "nightly-report"
        out, err = await process.communicate()
        assert process.returncode == 0, err
        assert b"with token 65536" in out
        assert served.sidecar.asked[-1] == "release 1"


async def the_sample_run_kills_the_command_on_loss(served: Bench) -> None:
    command = ("f", "--", "sh", "-c", "echo $$; exec sleep 600")
    async with program(served, str(SAMPLES / "run.py"), *command) as process:
        call = await served.sidecar.granted()
        assert process.stdout is not None
        pid = int(await process.stdout.readline())
        call.tell("lost", reason="BROKEN")
        await process.communicate()
        assert process.returncode == 76
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def the_sample_every_runs_on_each_occurrence_until_ctrl_c(served: Bench) -> None:
    async with program(served, str(SAMPLES / "every.py")) as process:
        call = await served.sidecar.running(local_time="half past twelve")
        assert call.request.spec.time_zone == "Europe/Copenhagen"
        await until(lambda: served.sidecar.asked == ["complete_run 1 SUCCEEDED"])
        process.send_signal(signal.SIGINT)
        out, _err = await process.communicate()
        assert out == b"writing the report of half past twelve\n"
        await call.ended()


# A signal between the interpreter's last look for one and the system's wait does not interrupt that wait. Here it never
# does, because another thread takes the signal.
BEFORE = """
import leasehold, signal
from leasehold._connect.loop_thread import LoopThread
LoopThread.shared()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
with leasehold.Client().hold('f'): pass
"""
WAITING = "import leasehold\nwith leasehold.Client().hold('f'): pass"
HELD = """
import leasehold, time
with leasehold.Client().hold('f'):
    print('held', flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("text", [WAITING, BEFORE, HELD], ids=["waiting", "just before the waiting", "in a block"])
async def ctrl_c_leaves_the_queue_and_releases_the_lock(text: str, served: Bench) -> None:
    async with program(served, "-c", text) as process:
        call = await served.sidecar.call()
        if text is HELD:
            call.tell("granted")
            assert process.stdout is not None
            assert await process.stdout.readline() == b"held\n"
        process.send_signal(signal.SIGINT)
        await call.ended()
        _out, err = await process.communicate()
        assert b"KeyboardInterrupt" in err
        assert served.sidecar.asked == (["release 1"] if text is HELD else [])
