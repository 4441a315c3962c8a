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

import grpc
import pytest
from fake import PATIENCE, Bench

import leasehold
from leasehold._connect.listening import SilentError
from leasehold._enums import LossReason
from leasehold._errors import answers as _answer_errors
from leasehold._errors import errors as _errors
from leasehold._hold.grants import Busy, Loss
from leasehold.v1 import hold_pb2, lock_pb2


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


def errors() -> list[leasehold.LeaseholdError]:
    """One of each kind, with all that it may carry."""
    wire = hold_pb2.Busy(
        record=lock_pb2.LockRecord(lock_path="l", holder="a", labels={"team": "red"}, state=lock_pb2.LOCK_STATE_HELD),
        reason=hold_pb2.BUSY_REASON_HELD,
    )
    refusal = leasehold.RefusedError(grpc.StatusCode.NOT_FOUND, "no")
    refusal.reason_name, refusal.retry_after = "UNKNOWN_LEASE", 1.5
    refusal.violations = (leasehold.FieldViolation("spec.wait", "is wrong"),)
    made = [
        leasehold.LeaseholdError("so it is"),
        leasehold.PlatformError("no clock"),
        leasehold.ArgumentError("wrong"),
        leasehold.EndpointError("ftp://a", "wrong"),
        leasehold.ClosedError("closed"),
        leasehold.ProtocolError("odd"),
        leasehold.BusyError("f", Busy._from_wire(wire)),
        leasehold.OccurrenceOverError(None, None),
        leasehold.LostError("l", Loss(LossReason.TAKEN, "by a")),
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
    kinds = [kind for kind in (vars(_errors) | vars(_answer_errors)).values() if isinstance(kind, type)]
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
