"""What the examples' chaos tests share: processes that are killed and stopped by a seed, and logs on one clock.

Programs write a line of JSON for each thing that matters (`{"at": …, "what": …}`, `at` in nanoseconds of the machine's
monotonic clock) to the file that EVENTS names, with one write each, so that a kill leaves whole lines.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent.parent
Event = dict[str, Any]
P = TypeVar("P", bound="Program")
# Starts all processes: the signal at the parent's death comes when the thread ends that has started them.
STARTER = ThreadPoolExecutor(1, "starter")
# The status of a test that was ended by SIGTERM.
ENDED = 128 + signal.SIGTERM


def leasehold() -> str:
    """The program: what LEASEHOLD_PROGRAM names, or the one of this repository, which is built if it is not there."""
    named = os.environ.get("LEASEHOLD_PROGRAM")
    if named:
        return named
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    if not (target / "demo/leasehold").exists():
        print("building Leasehold, which takes some minutes the first time", file=sys.stderr, flush=True)
    subprocess.run(["cargo", "build", "--quiet", "--profile", "demo", "--locked"], cwd=ROOT, check=True)
    return str(target / "demo/leasehold")


def now() -> int:
    """The machine's monotonic clock, in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Program:
    """A process that can be killed, stopped for a while, and started again; with all that it started itself."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path | None = None
    ) -> None:
        self.name = name
        self._command = list(command)
        self._environment = {**os.environ, **environment}
        self._log = log
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = STARTER.submit(
                subprocess.Popen,
                # Ends too when the test is killed.
                ["setpriv", "--pdeathsig", "KILL", *self._command],
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ).result()

    def _signal(self, number: int) -> bool:
        if self._process is None:
            return False
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> bool:
        """kill -9, and proof that it acted: the process ended by that signal."""
        # Another thread may start it again meanwhile.
        process, was_running = self._process, self.is_running
        self._signal(signal.SIGKILL)
        return was_running and process is not None and process.wait() == -signal.SIGKILL

    def stop_for(self, seconds: float) -> bool:
        """Stops everything of it for a while; whether it was stopped (read back from the kernel)."""
        if not self.is_running or self._process is None or not self._signal(signal.SIGSTOP):
            return False
        stat = Path(f"/proc/{self._process.pid}/stat")
        end = time.monotonic() + 1.0
        # A busy process stops a little later than it is told to.
        while True:
            try:
                state = stat.read_text().rpartition(")")[2].split()[0]
            except OSError:
                return False
            if state == "T" or time.monotonic() > end:
                break
            time.sleep(0.01)
        time.sleep(seconds)
        self._signal(signal.SIGCONT)
        return state == "T"

    def end(self, patience: float = 20.0) -> int | None:
        """SIGTERM, then SIGKILL; the exit status."""
        if self._process is None:
            return None
        self._signal(signal.SIGTERM)
        try:
            status = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            status = self._process.wait()
        self._signal(signal.SIGKILL)
        return status

    def wait(self, patience: float) -> int:
        assert self._process is not None, "it was started"
        return self._process.wait(patience)


class Sidecar(Program):
    """`leasehold serve` on a Unix socket in the test's folder. Sidecars with one folder share the embedded store."""

    def __init__(
        self,
        folder: Path,
        name: str,
        host_type: str | None,
        *settings: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.socket = folder / f"{name}.sock"
        self.program = leasehold()
        values = [
            f"listen.unix={self.socket}",
            "listen.tcp=",
            "admin.listen=",
            f"locks.holder={name}",
        ]
        if host_type is not None:
            values.append(f"host_id.host_type={host_type}")
        environment = dict(environment or {})
        if "AZURE_STORAGE_CONNECTION_STRING" in environment:
            environment["LEASEHOLD_STORE_AZURE_CONNECTION_STRING"] = environment.pop("AZURE_STORAGE_CONNECTION_STRING")
            values += ["store.kind=azure", "store.azure.create_container=true"]
        else:
            values.append(f"store.embedded.path={folder / 'locks.db'}")
        command = [self.program, "serve"]
        for value in [*values, *settings]:
            command += ["--set", value]
        super().__init__(name, command, environment, folder / f"{name}.log")

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        super().start()
        ready = subprocess.run(
            [self.program, "probe", "--wait", "20s"],
            env={**os.environ, "LEASEHOLD_ENDPOINT": self.endpoint},
            capture_output=True,
            check=False,
        )
        if ready.returncode != 0:
            raise AssertionError(
                f"sidecar {self.name} is not ready: {ready.stderr.decode()}\n{self._log.read_text()[-2000:]}"
            )


class Events:
    """The lines that programs wrote to one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def __iter__(self) -> Iterator[Event]:
        with self.path.open() as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield json.loads(line)

    def of(self, what: str) -> list[Event]:
        return [event for event in self if event["what"] == what]

    def write(self, what: str, **values: object) -> None:
        line = json.dumps({"at": now(), "what": what, **values}) + "\n"
        with self.path.open("a") as file:
            file.write(line)


class Chaos:
    """Does things to programs, in an order and at moments that a seed gives, until each is done often enough.

    An action returns whether it acted; what did not act is tried again.
    """

    def __init__(self, seed: int, between: tuple[float, float]) -> None:
        self.random = random.Random(seed)
        self.done: dict[str, int] = {}
        self.last_at = now()
        self._between = between
        self._actions: list[str] = []
        self._do: dict[str, Callable[[], bool]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos")
        self._failure: BaseException | None = None

    def add(self, name: str, times: int, action: Callable[[], bool]) -> None:
        self._actions += [name] * times
        self._do[name] = action
        self.done[name] = 0

    def start(self) -> None:
        self.random.shuffle(self._actions)
        self._thread.start()

    def _run(self) -> None:
        try:
            for name in self._actions:
                while not self._over.wait(self.random.uniform(*self._between)):
                    if self._do[name]():
                        self.done[name] += 1
                        self.last_at = now()
                        break
        except BaseException as failure:
            self._failure = failure

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def end(self) -> None:
        """Waits until everything was done, or says why it was not."""
        self._thread.join()
        if self._failure:
            raise self._failure

    def cancel(self) -> None:
        self._over.set()
        self._thread.join()


class Folder:
    """A temporary folder of a test, kept if the test fails, and the programs in it, which end with it."""

    def __init__(self, name: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"leasehold-{name}-"))
        self.programs: list[Program] = []

    def add(self, program: P) -> P:
        self.programs.append(program)
        return program

    def __enter__(self) -> Folder:
        # So that what was started ends, and nothing is left, also then.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in reversed(self.programs):
            program.end(5.0)
        is_ended = isinstance(failure, SystemExit) and failure.code == ENDED
        if failure is None or is_ended or isinstance(failure, KeyboardInterrupt):
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            print(f"what was written is kept in {self.path}")


def until(what: str, patience: float, is_true: Callable[[], bool]) -> None:
    """Waits until something is true; a failure with its name if that takes longer."""
    end = time.monotonic() + patience
    while not is_true():
        if time.monotonic() > end:
            raise AssertionError(f"after {patience:.0f} s: {what}")
        time.sleep(0.05)


def overlaps(intervals: Iterable[tuple[int, int, str]]) -> list[tuple[str, str]]:
    """Pairs of intervals (begin, end, name) that overlap."""
    found = []
    latest = (0, 0, "")
    for interval in sorted(intervals):
        if interval[0] < latest[1]:
            found.append((latest[2], interval[2]))
        if interval[1] > latest[1]:
            latest = interval
    return found


def percentile(values: Sequence[float], part: float) -> float:
    """The value that a part (0 to 1) of all are not above."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]
