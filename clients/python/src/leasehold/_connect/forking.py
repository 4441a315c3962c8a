"""What a fork needs: gRPC goes on in a child only if nothing of it ran in the parent at that moment.

So a fork closes the connections that nothing uses; they are made again at the next call. Those of holds, waits and
watches stay, because a hold ends with its stream (S14): then the child may not use gRPC, and is told so.
"""

import asyncio
import ctypes
import gc
import os
import threading
import time
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet

from leasehold._errors.errors import ClosedError

_PATIENCE: Final = 1.0
"""A fork waits so many seconds for an event loop to close its connections."""


_END_PATIENCE: Final = 0.2
"""And so many for gRPC's thread to end when they are closed."""

_TASKS: Final = Path("/proc/self/task")

_LOOK: Final = 0.005
"""How often it looks whether the last calls have ended."""


class Connected(Protocol):
    """What has connections, in one event loop."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""

    @property
    def is_ending(self) -> bool:
        """Whether the calls over the connections are about to end, all of them."""

    def close_idle(self) -> bool:
        """Close the connections if no call is made over any of them; say whether none is left."""


class _Process:
    """What is known of this process: who has connections in it, and whether it may have any."""

    def __init__(self) -> None:
        self.connected: Final[WeakSet[Connected]] = WeakSet()
        self.known: list[Connected] = []
        """Who had connections at the newest fork."""
        self.others = 0
        """The threads that were neither Python's nor gRPC's when the newest of these began to connect."""
        self.in_use = False
        self.is_unusable = False

    def before(self) -> None:
        """Close what can be closed; called by the thread that forks."""
        self.known = list(self.connected)
        closed = [one for one in self.known if _close_idle(one)]
        for one in closed:
            self.connected.discard(one)
        until = time.monotonic() + _END_PATIENCE
        while closed == self.known != [] and time.monotonic() < until:
            if not _is_running() and _others() <= self.others:
                break
            # The last references to a channel may be in cycles, or in what an event loop still does.
            gc.collect()
            time.sleep(_LOOK)
        self.in_use = _is_running()

    def after_in_parent(self) -> None:
        """Go on; called in the parent."""
        self.known = []

    def after_in_child(self) -> None:
        """Begin anew; called in the child."""
        self.is_unusable = self.is_unusable or self.in_use
        if self.in_use:
            # The end of gRPC's objects needs a thread that only the parent has: without it the child would crash or
            # hang where it ends. So they never end, and nothing looks for cycles in what the parent's threads had.
            gc.freeze()
            for one in (*self.known, *(calls.loop for calls in self.known)):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
        self.in_use = False
        self.known = []
        self.connected.clear()


def _is_running() -> bool:
    """Say whether gRPC's thread for asyncio runs, which ends with the last channel."""
    return any("_poll_wrapper" in thread.name for thread in threading.enumerate())


def _others() -> int:
    """Count the threads that are not Python's; only Linux tells."""
    try:
        return len(list(_TASKS.iterdir())) - threading.active_count()
    except OSError:
        return 0


def _close_idle(one: Connected) -> bool:
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is one.loop or not one.loop.is_running():
        return one.close_idle()
    done, answers = threading.Event(), []

    def close() -> None:
        is_closed = one.close_idle()
        if not is_closed and one.is_ending:
            one.loop.call_later(_LOOK, close)
            return
        answers.append(is_closed)
        done.set()

    try:
        one.loop.call_soon_threadsafe(close)
    except RuntimeError:
        # It was closed meanwhile.
        return one.close_idle()
    return done.wait(_PATIENCE) and answers[0]


_process: Final = _Process()
os.register_at_fork(
    before=_process.before, after_in_parent=_process.after_in_parent, after_in_child=_process.after_in_child
)


def check() -> None:
    """Raise ClosedError where gRPC would hang, or crash the process."""
    if _process.is_unusable:
        raise ClosedError(
            "this process was forked while its parent held, waited for or watched a lock, and gRPC cannot be used in "
            "such a child: fork before that, or start the process by `spawn` or `forkserver`"
        )


def connecting(one: Connected) -> None:
    """Say that `one` makes connections from now on. Raises ClosedError, as `check` does."""
    check()
    if not _is_running():
        _process.others = _others()
    _process.connected.add(one)
