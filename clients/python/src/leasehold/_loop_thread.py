"""The event loop in which the clients without asyncio work: one thread for all of them."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from leasehold._errors import LeaseholdError

_T = TypeVar("_T")


class LoopThread:
    """A thread that runs an event loop until the process ends."""

    _shared: "LoopThread | None" = None
    _making: Final = threading.Lock()

    def __init__(self) -> None:
        """Start the thread."""
        self._process: Final = os.getpid()
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(target=self._loop.run_forever, name="leasehold", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> "LoopThread":
        """Give this process's thread; a forked child has not got its parent's."""
        with cls._making:
            if cls._shared is None or cls._shared._process != os.getpid():
                cls._shared = LoopThread()
            return cls._shared

    def run(self, work: Coroutine[Any, Any, _T], undo: Callable[[_T], None] | None = None) -> _T:
        """Run `work` in the loop and wait for it.

        When the waiting is interrupted (Ctrl-C), `work` is cancelled; what it has given all the same goes to `undo`.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise LeaseholdError("an event handler cannot wait for a call: hand the event to another thread")
        handing_over = threading.Lock()
        given_up = False
        given: list[_T] = []

        async def handed_over() -> _T:
            result = await work
            with handing_over:
                if given_up and undo is not None:
                    undo(result)
                given.append(result)
            return result

        future = asyncio.run_coroutine_threadsafe(handed_over(), self._loop)
        try:
            return future.result()
        except BaseException:
            with handing_over:
                given_up = True
                if given and undo is not None:
                    self._loop.call_soon_threadsafe(undo, given[0])
            future.cancel()
            raise
