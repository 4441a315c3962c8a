"""A lock held for a `with` block."""

import functools
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from leasehold._async_client import AsyncClient
from leasehold._connect.calls import Calls
from leasehold._connect.loop_thread import LoopThread
from leasehold._constants import NAP
from leasehold._enums import RunOutcome
from leasehold._errors.answers import LostError
from leasehold._errors.errors import LeaseholdError, attach
from leasehold._hold import events
from leasehold._hold.async_hold import AsyncHold
from leasehold._hold.grants import Extension, Grant, HoldInfo, Loss, Notice, ReleaseResult
from leasehold._hold.hold import BaseHold, as_current
from leasehold._hold.keeper import Keeper
from leasehold._hold.opening import open_keeper
from leasehold._hold.saving import as_json
from leasehold._hold.spec import Seconds, Wanted

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Owner(Protocol):
    """What a hold, a term and a run have to know of their client."""

    @property
    def _in_loop(self) -> AsyncClient:
        """The client that does the work, in the thread of a loop."""

    def _calls(self) -> Calls:
        """Give what makes the calls."""


class Hold(BaseHold):
    """A lock that is held for a `with` block."""

    def __init__(self, thread: LoopThread, calls: Calls, keeper: Keeper, grant: Grant) -> None:
        """Show `keeper` to its holder."""
        super().__init__(keeper, grant)
        self._thread: Final = thread
        self._in_loop: Final = AsyncHold(calls, keeper, grant)
        self._found_lost: Final = threading.Event()
        self.revoked_event: Final = threading.Event()
        """Set when the lock was broken, and `notice` says until when the hold is valid (S22). A loss does not set it:
        wait for it with `wait_revoked`, or with a timeout."""
        keeper.on_loss(lambda _loss: self._found_lost.set())
        keeper.on_notice(self.revoked_event.set)

    def wait_lost(self, timeout: float | None = None) -> Loss | None:
        """Wait until the hold is lost; give the loss, or None after `timeout` seconds, or if its holder has ended it.

        Use it in the place of `time.sleep`, to stop at once when the hold is lost.
        """
        self._wait(self._found_lost, timeout)
        return self.loss

    def wait_revoked(self, timeout: float | None = None) -> Notice | None:
        """Wait for the notice that the lock was broken (S22).

        Gives None after `timeout` seconds, or if the hold is over without a notice. The hold is valid until the
        notice's deadline.
        """
        self._wait(self.revoked_event, timeout)
        return self.notice

    def _wait(self, event: threading.Event, timeout: float | None) -> None:
        """Wait for `event`, but not longer than the hold is valid, with a look at the clock from time to time."""
        end = None if timeout is None else time.monotonic() + timeout
        while not event.is_set() and self.is_valid():
            left = NAP if end is None else min(NAP, end - time.monotonic())
            if left <= 0:
                return
            event.wait(min(left, self.remaining()))

    def info(self) -> HoldInfo:
        """Ask the sidecar for the hold's validity, limits and state, which changes nothing.

        Raises RefusedError; with reason HOLD_LOST the hold is lost, too.
        """
        return self._thread.run(self._in_loop.info())

    def report_progress(self) -> None:
        """Say that the job is getting on, which restarts `progress_timeout`.

        Raises RefusedError; with reason HOLD_LOST the hold is lost, too.
        """
        self._thread.run(self._in_loop.report_progress())

    def extend(self, max_hold: Seconds) -> Extension:
        """Set a new `max_hold`, counted from now.

        Raises RefusedError; with reason HOLD_LOST the hold is lost, too.
        """
        return self._thread.run(self._in_loop.extend(max_hold))

    def save(self, value: bytes) -> int:
        """Save the lock's checkpoint, and wait until the store has it (S24).

        The value is at most 2,048 bytes, and not for secrets: anybody who may read locks can read it. Gives the
        version that the store has then: of this value, or of a newer one that took its place (S26). At most one save a
        second reaches the store. Raises LostError if the hold is lost, CheckpointUnknownError if no answer came in time
        (S27), ArgumentError if the value is too long, RefusedError if the sidecar refuses it.
        """
        return self._thread.run(self._in_loop.save(value))

    def save_json(self, value: Any) -> int:
        """Save `value` as JSON, as `save` does. `checkpoint.json()` gives it back.

        Raises TypeError or ValueError if it cannot be JSON.
        """
        return self.save(as_json(value))

    def release(self, checkpoint: bytes | None = None, outcome: RunOutcome | None = None) -> ReleaseResult:
        """Release the lock before the block ends, and wait until the store has it.

        A `checkpoint` is saved first. If that fails the lock is released all the same, and the result says both (S26).
        `outcome` says how the occurrence of `occurrence_at` ended. SUCCEEDED and FAILED_FINAL make it final; the
        result says whether it was recorded.
        The hold is not valid from the first moment of this call on (S13), so stop acting before. May be repeated.
        Raises LostError if the hold was lost before, so that somebody else may have held the lock, and
        ReleaseUnconfirmedError if the release was not confirmed within the client's `release_timeout`: the lock becomes
        available when its lease expires, if not before.
        """
        return self._thread.run(self._in_loop.release(checkpoint, outcome))


class Holding:
    """A lock that is asked for: enter it with `with`, or decorate a function with it.

    Python cannot stop a thread, so the block has to look: `check()` before each step that must not happen twice, or
    `wait_lost()`. LostError is raised where the block ends if the hold was lost by then. The lock is released on
    every way out. Raises BusyError if the lock was not acquired within the wait, LostError if the release finds that
    the hold was lost before, and ReleaseUnconfirmedError if nobody confirms it; an exception of the block goes before,
    and has those as a note.
    """

    def __init__(
        self,
        calls: Callable[[], Calls],
        wanted: Wanted,
        handler: events.EventHandler | None,
    ) -> None:
        """Ask for nothing yet."""
        self._calls: Final = calls
        self._wanted: Final = wanted
        self._handler: Final = handler
        self._hold: Hold | None = None
        self._current: AbstractContextManager[None] | None = None

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """Hold the lock for each call of `function`; `current_hold()` gives the hold."""

        @functools.wraps(function)
        def holding(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            with Holding(self._calls, self._wanted, self._handler):
                return function(*args, **kwargs)

        return holding

    async def _open(self, thread: LoopThread) -> Hold:
        calls = self._calls()
        keeper, grant = await open_keeper(calls, self._wanted, self._handler)
        return Hold(thread, calls, keeper, grant)

    def __enter__(self) -> Hold:
        if self._hold is not None:
            raise LeaseholdError("this block is entered already: ask for another hold")
        thread = LoopThread.shared()
        hold = thread.run(self._open(thread), lambda opened: opened._keeper.close())
        self._hold = hold
        self._current = as_current(hold)
        self._current.__enter__()
        return hold

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        hold, self._hold = self._hold, None
        current, self._current = self._current, None
        if hold is None or current is None:
            return
        current.__exit__(None, None, None)
        leave(hold, exc)


def leave(hold: Hold, exc: BaseException | None) -> None:
    """End a block of `hold`, which `exc` leaves."""
    if hold.is_valid():
        _release(hold, exc)
        return
    loss = LoopThread.shared().run(hold._keeper.why())
    if loss is None:
        return
    lost = LostError(hold.lock_path, loss)
    if exc is None:
        raise lost
    if not isinstance(exc, LostError):
        attach(lost, exc)


def _release(hold: Hold, exc: BaseException | None) -> None:
    try:
        hold.release()
    except LeaseholdError as error:
        if exc is None:
            raise
        attach(error, exc)
