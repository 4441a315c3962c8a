"""Test support: a sidecar of its own for each test, which can be made to lose, break and delay holds.

With pytest, the fixtures `leasehold_sidecar`, `leasehold_async_sidecar` and `leasehold_client` are all that it takes.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Final, Self

from leasehold._async_client import AsyncClient
from leasehold._enums import BreakMode, BreakOutcome, LockState
from leasehold._records import LockKey, LockRecord
from leasehold._sync_client import Client
from leasehold.testing._process import LOOK, Process, SidecarError
from leasehold.testing._program import PROGRAM_VARIABLE, ProgramNotFoundError, find_program

__all__ = [
    "PROGRAM_VARIABLE",
    "TIMEOUT",
    "AsyncSidecar",
    "ProgramNotFoundError",
    "Sidecar",
    "SidecarError",
    "find_program",
]

TIMEOUT: Final = 30.0
"""How many seconds are waited for something, unless a call says otherwise."""


class Sidecar:
    """A sidecar with its locks in memory, on a Unix socket in a temporary folder, from `with` to the end of the block.

    It ends with this process, however that ends. What the block raises has the sidecar's log as a note.
    """

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, program: str | os.PathLike[str] | None = None
    ) -> None:
        """Start nothing yet.

        `settings` are the sidecar's, as for `leasehold serve --set`, and replace those that it would have: its store is
        the memory, its leases last for 15 s where a caller names no duration, and locks may be broken. `program` is the
        path of `leasehold`; by default that of `find_program()`.
        """
        found = os.fspath(program) if program is not None else find_program()
        self._process: Final = Process(found, dict(settings or {}))
        self._client: Final = Client(self._process.endpoint)

    def __repr__(self) -> str:
        return f"<Sidecar {self.endpoint}>"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is not None:
            exc.add_note(f"the sidecar's log:\n{self.log()}")
        self.close()

    @property
    def endpoint(self) -> str:
        """Where it is, for a client or for LEASEHOLD_ENDPOINT."""
        return self._process.endpoint

    def client(self) -> Client:
        """Make a client of it, for a `with` block."""
        return Client(self.endpoint)

    def async_client(self) -> AsyncClient:
        """Make a client of it for asyncio, for an `async with` block."""
        return AsyncClient(self.endpoint)

    def log(self) -> str:
        """Give what it has logged so far."""
        return self._process.log()

    def lose(self, function: str | LockKey, scope: str = "") -> None:
        """Have the holder lose the lock at once, with the reason BROKEN; the lock is available then.

        Raises SidecarError if nobody holds it.
        """
        self._break(function, scope, "lost by a test", BreakMode.NOW)

    def break_lock(self, function: str | LockKey, scope: str = "", reason: str = "broken by a test") -> None:
        """Break the lock as an operator does: its holder is told, and loses it when its lease has run out.

        Raises SidecarError if nobody holds it.
        """
        self._break(function, scope, reason, BreakMode.RUN_OUT)

    def _break(self, function: str | LockKey, scope: str, reason: str, mode: BreakMode) -> None:
        key = _key(function, scope)
        self._check_answers(key)
        # One that was never acquired does not exist, and cannot be asked to be broken.
        held = self._client.get_lock(key).state is not LockState.AVAILABLE
        if not held or self._client.break_lock(key, reason, mode=mode).outcome is BreakOutcome.NOT_HELD:
            raise SidecarError(
                f"{_name(key)} cannot be lost or broken: nobody holds it. wait_until_held() waits for a holder"
            )

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stop the sidecar's process for the block, so that grants, renewals and answers are late.

        A hold is not told of it: its client finds by its own clock that its validity is over.
        """
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def pause(self) -> None:
        """Stop the sidecar's process, until `resume`."""
        self._process.pause()

    def resume(self) -> None:
        """Let the sidecar's process go on, if it is paused."""
        self._process.resume()

    def kill(self) -> None:
        """End the sidecar as a crash does. What is in memory is forgotten: all its locks."""
        self._process.kill()

    def stop(self, timeout: float = TIMEOUT) -> None:
        """Have the sidecar shut down, as an update does: holders are told, and have `drain.period` to release."""
        self._process.stop(timeout)

    def start(self, timeout: float = TIMEOUT) -> None:
        """Start the sidecar again at the same endpoint, after `kill` or `stop`."""
        self._process.start(timeout)

    def wait_until_held(self, function: str | LockKey, scope: str = "", *, timeout: float = TIMEOUT) -> LockRecord:
        """Wait until somebody holds the lock."""
        return self.wait_until("is held", lambda lock: lock.state is LockState.HELD, function, scope, timeout=timeout)

    def wait_until_available(self, function: str | LockKey, scope: str = "", *, timeout: float = TIMEOUT) -> LockRecord:
        """Wait until nobody holds the lock."""
        available = LockState.AVAILABLE
        return self.wait_until("is available", lambda lock: lock.state is available, function, scope, timeout=timeout)

    def wait_until_waiting(
        self, function: str | LockKey, scope: str = "", *, callers: int = 1, timeout: float = TIMEOUT
    ) -> LockRecord:
        """Wait until so many callers, or more, wait for the lock."""
        what = f"has {callers} waiting"
        return self.wait_until(what, lambda lock: lock.waiters_here >= callers, function, scope, timeout=timeout)

    def wait_until(
        self,
        what: str,
        condition: Callable[[LockRecord], bool],
        function: str | LockKey,
        scope: str = "",
        *,
        timeout: float = TIMEOUT,
    ) -> LockRecord:
        """Wait until the lock's record meets a condition, and give the record; `what` is for the error.

        Raises SidecarError if that takes longer than `timeout` seconds.
        """
        key = _key(function, scope)
        deadline = time.monotonic() + timeout
        while True:
            self._check_answers(key)
            record = self._client.get_lock(key)
            if condition(record):
                return record
            if time.monotonic() > deadline:
                raise SidecarError(f"not after {timeout} s: {_name(key)} {what}. It is {record}")
            time.sleep(LOOK)

    def _check_answers(self, key: LockKey) -> None:
        self._process.running()
        if self._process.is_paused:
            raise SidecarError(f"the sidecar is paused, and cannot be asked about {_name(key)}: resume() it first")

    def close(self) -> None:
        """End the sidecar, and remove its folder."""
        self._process.close()
        self._client.close()


class AsyncSidecar:
    """The same for asyncio, with `async with`. What waits does not keep the event loop waiting."""

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, program: str | os.PathLike[str] | None = None
    ) -> None:
        """Start nothing yet. The arguments are those of Sidecar."""
        self._sidecar = Sidecar(settings, program=program)

    @classmethod
    def of(cls, sidecar: Sidecar) -> Self:
        """Use a sidecar that is there already, whose end is its own matter."""
        made = cls.__new__(cls)
        made._sidecar = sidecar
        return made

    def __repr__(self) -> str:
        return f"<AsyncSidecar {self.endpoint}>"

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._sidecar.__enter__)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._sidecar.__exit__, exc_type, exc, traceback)

    @property
    def endpoint(self) -> str:
        """Where it is, for a client or for LEASEHOLD_ENDPOINT."""
        return self._sidecar.endpoint

    def client(self) -> AsyncClient:
        """Make a client of it, for an `async with` block."""
        return self._sidecar.async_client()

    def log(self) -> str:
        """Give what it has logged so far."""
        return self._sidecar.log()

    async def lose(self, function: str | LockKey, scope: str = "") -> None:
        """Have the holder lose the lock at once: see Sidecar."""
        await asyncio.to_thread(self._sidecar.lose, function, scope)

    async def break_lock(self, function: str | LockKey, scope: str = "", reason: str = "broken by a test") -> None:
        """Break the lock as an operator does: see Sidecar."""
        await asyncio.to_thread(self._sidecar.break_lock, function, scope, reason)

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None]:
        """Stop the sidecar's process for the block: see Sidecar."""
        await self.pause()
        try:
            yield
        finally:
            await self.resume()

    async def pause(self) -> None:
        """Stop the sidecar's process, until `resume`."""
        await asyncio.to_thread(self._sidecar.pause)

    async def resume(self) -> None:
        """Let the sidecar's process go on, if it is paused."""
        await asyncio.to_thread(self._sidecar.resume)

    async def kill(self) -> None:
        """End the sidecar as a crash does. What is in memory is forgotten: all its locks."""
        await asyncio.to_thread(self._sidecar.kill)

    async def stop(self, timeout: float = TIMEOUT) -> None:  # noqa: ASYNC109 # as the one without asyncio has it
        """Have the sidecar shut down: see Sidecar."""
        await asyncio.to_thread(self._sidecar.stop, timeout)

    async def start(self, timeout: float = TIMEOUT) -> None:  # noqa: ASYNC109
        """Start the sidecar again at the same endpoint, after `kill` or `stop`."""
        await asyncio.to_thread(self._sidecar.start, timeout)

    async def wait_until_held(
        self,
        function: str | LockKey,
        scope: str = "",
        *,
        timeout: float = TIMEOUT,  # noqa: ASYNC109
    ) -> LockRecord:
        """Wait until somebody holds the lock."""
        return await asyncio.to_thread(self._sidecar.wait_until_held, function, scope, timeout=timeout)

    async def wait_until_available(
        self,
        function: str | LockKey,
        scope: str = "",
        *,
        timeout: float = TIMEOUT,  # noqa: ASYNC109
    ) -> LockRecord:
        """Wait until nobody holds the lock."""
        return await asyncio.to_thread(self._sidecar.wait_until_available, function, scope, timeout=timeout)

    async def wait_until_waiting(
        self,
        function: str | LockKey,
        scope: str = "",
        *,
        callers: int = 1,
        timeout: float = TIMEOUT,  # noqa: ASYNC109
    ) -> LockRecord:
        """Wait until so many callers, or more, wait for the lock."""
        waiting = self._sidecar.wait_until_waiting
        return await asyncio.to_thread(waiting, function, scope, callers=callers, timeout=timeout)

    async def wait_until(
        self,
        what: str,
        condition: Callable[[LockRecord], bool],
        function: str | LockKey,
        scope: str = "",
        *,
        timeout: float = TIMEOUT,  # noqa: ASYNC109
    ) -> LockRecord:
        """Wait until the lock's record meets a condition, and give the record: see Sidecar."""
        wait = self._sidecar.wait_until
        return await asyncio.to_thread(wait, what, condition, function, scope, timeout=timeout)

    async def close(self) -> None:
        """End the sidecar, and remove its folder."""
        await asyncio.to_thread(self._sidecar.close)


def _key(function: str | LockKey, scope: str) -> LockKey:
    return function if isinstance(function, LockKey) else LockKey(function, scope)


def _name(key: LockKey) -> str:
    return f"the lock {key.function!r}" + (f" of {key.scope!r}" if key.scope else "")
