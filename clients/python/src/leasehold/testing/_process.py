"""The process of a sidecar that a test has started."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from leasehold._sync_client import Client

LOOK: Final = 0.01
"""How often a condition is looked at, in seconds."""

_LONGEST_SOCKET_PATH: Final = 100
"""Linux takes 107 bytes, macOS 103."""

_PAUSE: Final = """
kill -STOP "$1" || exit 1
while :; do
    case $(cat "/proc/$1/stat" 2>/dev/null || ps -o stat= -p "$1") in
    *') T '* | T*) break ;;
    '' | *') Z '* | Z*) exit 1 ;;
    esac
done
echo paused
read -r _
kill -CONT "$1" 2>/dev/null
"""
"""Stops a process until this one's standard input is closed, which it is also when the test process dies."""


class SidecarError(Exception):
    """The sidecar did not start, or did not come into the state that was waited for."""


class Process:
    """A `leasehold serve`, in a folder of its own. It ends with this process, however that ends."""

    def __init__(self, program: str, settings: Mapping[str, str]) -> None:
        self.folder: Final = _folder()
        self.socket: Final = self.folder / "s"
        self._log: Final = self.folder / "log"
        defaults = {
            "store.kind": "memory",
            "listen.unix": str(self.socket),
            "listen.tcp": "",
            "admin.listen": "",
            "admin.allow_break": "true",
            "host_id.host_type": "test",
            "locks.lease_duration": "15s",
        }
        sets = [word for key, value in {**defaults, **settings}.items() for word in ("--set", f"{key}={value}")]
        self._words: Final = [program, "serve", "--exit-on-stdin-close", *sets]
        self._process: subprocess.Popen[bytes] | None = None
        self._pause: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self, timeout: float) -> None:
        """Start it, and wait until it answers."""
        if self._process is not None:
            raise SidecarError("the sidecar runs already: kill() or stop() it before start()")
        # Settings come from the test alone, whatever the environment has for the code under test.
        ours = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 # whose program the caller names
                self._words,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=ours,
                process_group=0,
            )
        deadline = time.monotonic() + timeout
        while not self._accepts():
            status = self._process.poll()
            if status is not None:
                self._ended()
                raise SidecarError(f"{' '.join(self._words)} ended with {status} as it started:\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise SidecarError(f"the sidecar does not answer {timeout} s after its start. Its log:\n{self.log()}")
            time.sleep(LOOK)
        with Client(self.endpoint) as client:
            client.get_server_info()

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as one:
            try:
                one.connect(str(self.socket))
            except OSError:
                return False
            return True

    @property
    def is_paused(self) -> bool:
        return self._pause is not None

    def running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise SidecarError("the sidecar does not run: start() it first")
        return self._process

    def pause(self) -> None:
        """Stop the process (SIGSTOP) until `resume`."""
        pid = str(self.running().pid)
        if self._pause is not None:
            raise SidecarError("the sidecar is paused already")
        pause = subprocess.Popen(  # noqa: S603 # words of this module alone
            ["/bin/sh", "-c", _PAUSE, "sh", pid],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        if _pipe(pause.stdout).readline() != b"paused\n":
            self._pause = pause
            self.resume()
            raise SidecarError(f"the sidecar, process {pid}, cannot be stopped: it has ended. Its log:\n{self.log()}")
        self._pause = pause

    def resume(self) -> None:
        """Let it go on."""
        if self._pause is not None:
            _pipe(self._pause.stdin).close()
            _pipe(self._pause.stdout).close()
            self._pause.wait()
            self._pause = None

    def stop(self, timeout: float) -> None:
        """Have it shut down, as at SIGTERM, and wait for that."""
        process = self.running()
        process.terminate()
        self.resume()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise SidecarError(
                f"the sidecar has not shut down after {timeout} s: it waits for holders, up to drain.period. "
                f"Its log:\n{self.log()}"
            ) from error
        self._ended()

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self.resume()
            self._process.wait()
            self._ended()

    def _ended(self) -> None:
        if self._process is not None:
            _pipe(self._process.stdin).close()
            self._process = None
        # What is left of a sidecar that was killed would be taken for one that listens.
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()

    def close(self) -> None:
        """End it, and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _folder() -> Path:
    usual = Path(tempfile.gettempdir())
    # Many CI systems have long ones, and a socket's path is short.
    fits = len(os.fsencode(usual / "lh-12345678" / "s")) <= _LONGEST_SOCKET_PATH
    return Path(tempfile.mkdtemp(prefix="lh-", dir=usual if fits else "/tmp"))  # noqa: S108 # mkdtemp makes it safe


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # noqa: S101 # each is made with PIPE
    return stream
