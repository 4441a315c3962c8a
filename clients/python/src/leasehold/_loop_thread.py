"""The event loop in which the clients without asyncio work: one thread for all of them."""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from leasehold._errors import ClosedError, LeaseholdError

_T = TypeVar("_T")

_END_TIMEOUT: Final = 5.0
"""The process's end waits so many seconds at most for the loop's."""


class LoopThread:
    """A thread that runs an event loop until the process ends."""

    _shared: "LoopThread | None" = None
    _making: Final = threading.Lock()

    def __init__(self) -> None:
        """Start the thread."""
        self._process: Final = os.getpid()
        self._loop: Final = asyncio.new_event_loop()
        self._has_ended = False
        self._thread: Final = threading.Thread(target=self._loop.run_forever, name="leasehold", daemon=True)
        self._thread.start()
        atexit.register(self._end)

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
        if self._has_ended:
            # The interpreter closes iterators that were left open when no thread runs any more.
            work.close()
            raise ClosedError("the process is ending")
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

    def _end(self) -> None:
        """End the loop with the process: what it still does is cancelled, and nobody can wait for it any more."""
        if self._process != os.getpid() or self._has_ended:
            return
        self._has_ended = True
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop)
        self._thread.join(_END_TIMEOUT)
        if not self._thread.is_alive():
            self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        self._loop.stop()
