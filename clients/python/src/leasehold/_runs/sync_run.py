"""Runs of a schedule, without asyncio."""

import functools
import logging
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self

from leasehold._connect.calls import Calls
from leasehold._connect.loop_thread import LoopThread
from leasehold._enums import RunOutcome
from leasehold._errors.answers import LostError
from leasehold._errors.errors import ClosedError, LeaseholdError, RefusedError, attach, passes
from leasehold._hold.hold import as_current
from leasehold._hold.leading import Pauses, is_end_of
from leasehold._hold.sync_hold import Hold, Owner
from leasehold._runs.async_run import AsyncRun
from leasehold._runs.run import RunFacts, text_of
from leasehold._runs.schedules import CompletedRun
from leasehold._runs.subscription import Granted, Subscription
from leasehold._runs.terminating import ended_by_sigterm

_P = ParamSpec("_P")

_log: Final = logging.getLogger("leasehold")


class Run(RunFacts, Hold):
    """An occurrence to be run now, and the hold of the schedule's lock while it is.

    Enter it with `with`. Where the block ends the run has succeeded; where an exception leaves it the run has failed,
    with its text as the detail, and is tried again if attempts are left; KeyboardInterrupt and SystemExit return it,
    for another replica to run. Python cannot stop a thread, so look: `check()` raises LostError, which stays inside the
    block, when the run is lost or its deadline has come. Or say yourself how it ended: until that was recorded it may
    be granted again (T2). A run that is neither entered nor completed is returned when the loop goes on; `release`
    returns it, too.
    """

    _current: AbstractContextManager[None] | None = None

    def __init__(self, thread: LoopThread, calls: Calls, granted: Granted) -> None:
        """Show a run to who runs it."""
        super().__init__(thread, calls, granted.keeper, granted.grant)
        self._run = granted.run
        self._there: Final = AsyncRun(calls, granted)
        self.ending_event: Final = threading.Event()
        """Set when the run should end soon: the lock was broken, or the sidecar shuts down, or the run is over."""
        granted.keeper.on_ending(self.ending_event.set)

    def complete(self, outcome: RunOutcome, detail: str = "", checkpoint: bytes | None = None) -> CompletedRun:
        """Say how the run ended, and wait until the store has it: SUCCEEDED, FAILED, FAILED_FINAL or RETURNED.

        The run is not valid from the first moment of this call on (S13), so stop acting before. Asks again while the
        sidecar or its store is away. Of `detail`, for the sidecar's log, 512 bytes are sent. The outcome of a run that
        was lost may still count: see the result. Raises RefusedError when asking again does not help, and
        ArgumentError, with the run as it was, if the checkpoint is too long.
        """
        return self._thread.run(self._there.complete(outcome, detail, checkpoint))

    def succeeded(self, checkpoint: bytes | None = None) -> CompletedRun:
        """Complete it: it did its work."""
        return self.complete(RunOutcome.SUCCEEDED, checkpoint=checkpoint)

    def failed(self, detail: str = "") -> CompletedRun:
        """Complete it: it failed, and is tried again if attempts are left."""
        return self.complete(RunOutcome.FAILED, detail)

    def returned(self) -> CompletedRun:
        """Complete it: another replica is to run it."""
        return self.complete(RunOutcome.RETURNED)

    def __enter__(self) -> Self:
        if self._current is not None:
            raise LeaseholdError("this run is entered already")
        self._current = as_current(self)
        self._current.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        current, self._current = self._current, None
        if current is None:
            return False
        current.__exit__(None, None, None)
        if not self.is_valid():
            return self._leave_over(exc)
        try:
            self._thread.run(self._there._end(exc))
        except LeaseholdError as error:
            if exc is None:
                raise
            attach(error, exc)
        return False

    def _leave_over(self, exc: BaseException | None) -> bool:
        """End the block of a run that is over. Say whether `exc` stays inside."""
        loss = self._thread.run(self._keeper.why())
        if loss is None:
            return False
        lost = LostError(self.lock_path, loss)
        _log.warning("a run has ended: %s", lost)
        if exc is not None and not isinstance(exc, LostError):
            attach(lost, exc)
        # The work is done all the same, and that may still count.
        self._thread.run(self._there._tell_after_end(exc))
        return is_end_of(self._there, exc)


class Every:
    """A schedule to take part in: decorate a function with it, which then takes part when it is called."""

    def __init__(self, client: Owner, subscription: Callable[[], Subscription]) -> None:
        """Ask for nothing yet."""
        self._client: Final = client
        self._subscription: Final = subscription

    def __call__(self, work: Callable[Concatenate[Run, _P], object]) -> Callable[_P, None]:
        """Have the function take part when it is called, and run on each occurrence that falls to this caller."""

        @functools.wraps(work)
        def taking_part(*args: _P.args, **kwargs: _P.kwargs) -> None:
            self.run(lambda run: work(run, *args, **kwargs))

        return taking_part

    def run(self, work: Callable[[Run], object]) -> None:
        """Go on until an exception that is not of `work` ends it, or SIGTERM does."""
        with ended_by_sigterm():
            self._run(work)

    def _run(self, work: Callable[[Run], object]) -> None:
        thread = LoopThread.shared()
        pauses = Pauses()
        subscription = self._subscription()

        async def patiently() -> Granted:
            while True:
                try:
                    granted = await subscription.next()
                except RefusedError as error:
                    if not passes(error):
                        raise
                    await pauses.failed(subscription.name, error)
                else:
                    pauses.granted()
                    return granted

        for run in _taken(self._client, thread, subscription, patiently):
            with run:
                failure = _failure(run, work)
                if run.loss is not None and failure is not None:
                    raise LostError(run.lock_path, run.loss)
                if failure is not None:
                    run.failed(failure)


def _failure(run: Run, work: Callable[[Run], object]) -> str | None:
    """Do the work; give the text of what it raises."""
    try:
        work(run)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told and logged
        if not is_end_of(run._there, error):
            _log.warning("a run of %s has failed", run.lock_path, exc_info=True)
        return text_of(error)
    return None


def each_run(client: Owner, subscription: Subscription) -> Generator[Run, None, None]:
    """Give one run after the other."""
    yield from _taken(client, LoopThread.shared(), subscription, subscription.next)


def _taken(
    client: Owner,
    thread: LoopThread,
    subscription: Subscription,
    take: Callable[[], Coroutine[Any, Any, Granted]],
) -> Generator[Run, None, None]:
    async def taken() -> Run:
        granted = await take()
        return Run(thread, client._calls(), granted)

    try:
        while True:
            run = thread.run(taken(), lambda unwanted: unwanted._keeper.close())
            try:
                yield run
            finally:
                # What does not work is repeated when the lease is over.
                with suppress(LeaseholdError):
                    thread.run(run._there._leave())
    finally:
        # Left open until the process ends, it was ended with the thread.
        with suppress(ClosedError):
            thread.run(subscription.leave())
