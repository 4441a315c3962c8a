"""Runs of a schedule, for asyncio."""

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self

from leasehold._connect.calls import Calls
from leasehold._enums import LossReason, RunOutcome
from leasehold._errors.answers import LostError
from leasehold._errors.errors import LeaseholdError, RefusedError, attach, passes
from leasehold._hold.async_hold import AsyncHold, Block
from leasehold._hold.leading import Pauses, is_end_of
from leasehold._runs.run import Outcome, RunFacts, text_of
from leasehold._runs.schedules import CompletedRun
from leasehold._runs.subscription import Granted, Subscription
from leasehold._runs.terminating import cancelled_by_sigterm

_P = ParamSpec("_P")

_log: Final = logging.getLogger("leasehold")


class AsyncRun(RunFacts, AsyncHold):
    """An occurrence to be run now, and the hold of the schedule's lock while it is.

    Enter it with `async with`. Where the block ends the run has succeeded; where an exception leaves it the run has
    failed, with its text as the detail, and is tried again if attempts are left; where the task is cancelled it is
    returned, for another replica to run. When the run is lost, or its deadline comes, the block is cancelled; that
    stays inside, and the run is returned, or has failed for good at its deadline. Or say yourself how it ended: until
    that was recorded it may be granted again (T2). A run that is neither entered nor completed is returned when the
    loop goes on; `release` returns it, too.
    """

    _block: Block | None = None

    def __init__(self, calls: Calls, granted: Granted) -> None:
        """Show a run to who runs it."""
        super().__init__(calls, granted.keeper, granted.grant)
        self._run = granted.run
        self._outcome: Final = Outcome(calls, granted)

    async def complete(self, outcome: RunOutcome, detail: str = "", checkpoint: bytes | None = None) -> CompletedRun:
        """Say how the run ended, and wait until the store has it: SUCCEEDED, FAILED, FAILED_FINAL or RETURNED.

        The run is not valid from the first moment of this call on (S13), so stop acting before. Asks again while the
        sidecar or its store is away; cancel it to give up. Of `detail`, for the sidecar's log, 512 bytes are sent. The
        outcome of a run that was lost may still count: see the result. Raises RefusedError when asking again does not
        help, and ArgumentError, with the run as it was, if the checkpoint is too long.
        """
        return await self._outcome.tell(outcome, detail, checkpoint)

    async def succeeded(self, checkpoint: bytes | None = None) -> CompletedRun:
        """Complete it: it did its work."""
        return await self.complete(RunOutcome.SUCCEEDED, checkpoint=checkpoint)

    async def failed(self, detail: str = "") -> CompletedRun:
        """Complete it: it failed, and is tried again if attempts are left."""
        return await self.complete(RunOutcome.FAILED, detail)

    async def returned(self) -> CompletedRun:
        """Complete it: another replica is to run it."""
        return await self.complete(RunOutcome.RETURNED)

    async def wait_ending(self) -> None:
        """Wait until the run should end soon: the lock was broken, or the sidecar shuts down, or the run is over.

        The block is not cancelled by a notice: finish, or return the run.
        """
        await self._keeper.ending.wait()

    async def __aenter__(self) -> Self:
        if self._block is not None:
            raise LeaseholdError("this run is entered already")
        self._block = Block(self)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        block, self._block = self._block, None
        if block is None:
            return False
        if not block.close():
            try:
                await block.after_end(exc)
            except LostError as error:
                _log.warning("a run has ended: %s", error)
                await self._tell_after_end(exc)
                return True
            if self.loss is not None:
                await self._tell_after_end(exc)
            return is_end_of(self, exc)
        try:
            await self._end(exc, told_to_stop=block.is_told_to_stop)
        except LeaseholdError as error:
            if exc is None:
                raise
            attach(error, exc)
        return False

    async def _end(self, exc: BaseException | None, *, told_to_stop: bool = False) -> None:
        if exc is None:
            await self.succeeded()
        elif isinstance(exc, Exception) and not told_to_stop:
            await self.failed(text_of(exc))
        else:
            await self._give_back()

    async def _tell_after_end(self, exc: BaseException | None) -> None:
        """Say how the work of a run that is over has ended.

        That may still count, and before it is said, or a new stream is opened, the sidecar grants nothing here (T24).
        """
        if exc is None:
            await self.succeeded()
            return
        loss = self.loss
        outcome, detail = RunOutcome.RETURNED, ""
        if isinstance(exc, Exception) and not is_end_of(self, exc):
            outcome, detail = RunOutcome.FAILED, text_of(exc)
        elif loss is not None and loss.reason is LossReason.MAX_HOLD_REACHED:
            outcome, detail = RunOutcome.FAILED_FINAL, "stopped at its deadline"
        with suppress(TimeoutError, LeaseholdError):
            async with asyncio.timeout(self._calls.release_timeout):
                await self.complete(outcome, detail)

    async def _give_back(self) -> None:
        """Return the run; what is not answered in time expires."""
        if not self.is_valid() and self.loss is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._calls.release_timeout):
                await self.returned()

    async def _leave(self) -> None:
        """Return the run where nobody has said how it ended. Its turn is over."""
        try:
            await self._give_back()
        finally:
            self._outcome.leave()


Work = Callable[Concatenate[AsyncRun, _P], Awaitable[object]]
"""What is done on each occurrence."""


class AsyncEvery:
    """A schedule to take part in: decorate an async function with it, which then takes part when it is called."""

    def __init__(
        self,
        calls: Callable[[], Calls],
        subscription: Callable[[], Subscription],
    ) -> None:
        """Ask for nothing yet."""
        self._calls: Final = calls
        self._subscription: Final = subscription

    def __call__(self, work: Work[_P]) -> Callable[_P, Coroutine[Any, Any, None]]:
        """Have the function take part when it is called, and run on each occurrence that falls to this caller."""

        @functools.wraps(work)
        async def taking_part(*args: _P.args, **kwargs: _P.kwargs) -> None:
            await self.run(lambda run: work(run, *args, **kwargs))

        return taking_part

    async def run(self, work: Callable[[AsyncRun], Awaitable[object]]) -> None:
        """Go on until it is cancelled, also by SIGTERM, or fails by what trying again does not help."""
        with cancelled_by_sigterm():
            await self._run(work)

    async def _run(self, work: Callable[[AsyncRun], Awaitable[object]]) -> None:
        subscription, pauses = self._subscription(), Pauses()
        try:
            while True:
                try:
                    granted = await subscription.next()
                except RefusedError as error:
                    if not passes(error):
                        raise
                    await pauses.failed(subscription.name, error)
                    continue
                pauses.granted()
                await self._run_one(AsyncRun(self._calls(), granted), work)
        finally:
            await subscription.leave()

    async def _run_one(self, run: AsyncRun, work: Callable[[AsyncRun], Awaitable[object]]) -> None:
        try:
            async with run:
                failure = await _failure(run, work)
                if run.loss is not None and failure is not None:
                    raise LostError(run.lock_path, run.loss)
                if failure is not None:
                    await run.failed(failure)
        finally:
            run._keeper.close()


async def _failure(run: AsyncRun, work: Callable[[AsyncRun], Awaitable[object]]) -> str | None:
    """Do the work; give the text of what it raises, but where it is told to stop."""
    try:
        await work(run)
    except Exception as error:
        if run._block is not None and run._block.is_told_to_stop:
            raise
        if not is_end_of(run, error):
            _log.warning("a run of %s has failed", run.lock_path, exc_info=True)
        return text_of(error)
    return None


async def each_run(calls: Callable[[], Calls], subscription: Subscription) -> AsyncGenerator[AsyncRun, None]:
    """Give one run after the other."""
    try:
        while True:
            run = AsyncRun(calls(), await subscription.next())
            try:
                yield run
            finally:
                # What does not work is repeated when the lease is over.
                with suppress(LeaseholdError):
                    await run._leave()
    finally:
        await subscription.leave()
