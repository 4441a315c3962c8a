"""The event loop in which the clients without asyncio work: one thread for all of them."""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

from leasehold._connect import forking
from leasehold._errors.errors import ClosedError, LeaseholdError

_T = TypeVar("_T")

_END_TIMEOUT: Final = 5.0
"""The process's end waits so many seconds at most for the loop's."""

_NAP: Final = 1.0
"""No wait is longer without a look for a signal: one that comes just before the wait does not interrupt it."""


class LoopThread:
    """A thread that runs an event loop until the process ends."""

    _shared: "LoopThread | None" = None
    _making = threading.Lock()

    def __init__(self) -> None:
        """Start the thread."""
        self._process: Final = os.getpid()
        self._loop: Final = asyncio.new_event_loop()
        self._has_ended = False
        self._thread: Final = threading.Thread(target=self._loop.run_forever, name="leasehold", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    @classmethod
    def forget(cls) -> None:
        """Begin anew in a forked child, which has not got its parent's thread, and whose lock may be taken."""
        cls._shared, cls._making = None, threading.Lock()

    @classmethod
    def shared(cls) -> "LoopThread":
        """Give this process's thread. Raises ClosedError in a child that cannot use gRPC."""
        with cls._making:
            if cls._shared is None:
                # Nor may such a child start threads.
                forking.check()
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
        call = _Call(self._loop, work, undo)
        try:
            self._loop.call_soon_threadsafe(call.begin)
            return call.wait()
        except BaseException:
            # With the process the loop has ended, and all that was done in it.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call.give_up)
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


os.register_at_fork(after_in_child=LoopThread.forget)


class _Call(Generic[_T]):
    """Work that is done in the loop, while another thread waits for it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, _T],
        undo: Callable[[_T], None] | None,
    ) -> None:
        """Begin nothing yet."""
        self._loop: Final = loop
        self._work: Final = work
        self._undo: Final = undo
        self._task: asyncio.Task[_T] | None = None
        # Not a future of the other thread: a signal in its lock's own code could leave that lock taken.
        self._ended: Final[SimpleQueue[asyncio.Task[_T]]] = SimpleQueue()

    def wait(self) -> _T:
        """Give what the work gives, or raise what it raises."""
        while True:
            try:
                task = self._ended.get(timeout=_NAP)
            except Empty:
                continue
            if task.cancelled():
                raise ClosedError("the process is ending")
            return task.result()

    def begin(self) -> None:
        """Do the work; called in the loop."""
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._ended.put)

    def give_up(self) -> None:
        """Cancel the work, and undo what it gives all the same; called in the loop."""
        if self._task is None:
            self._work.close()
            return
        self._task.cancel()
        self._task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[_T]") -> None:
        if not task.cancelled() and task.exception() is None and self._undo is not None:
            self._undo(task.result())
