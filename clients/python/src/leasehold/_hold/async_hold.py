"""A lock held for an `async with` block."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from leasehold._connect.calls import Calls
from leasehold._enums import RunOutcome
from leasehold._errors.answers import LostError
from leasehold._errors.errors import LeaseholdError, attach
from leasehold._hold import events
from leasehold._hold.grants import Extension, Grant, HoldInfo, Loss, Notice, ReleaseResult
from leasehold._hold.hold import BaseHold, as_current
from leasehold._hold.keeper import Keeper
from leasehold._hold.opening import open_keeper
from leasehold._hold.saving import as_json, save
from leasehold._hold.spec import Seconds, Wanted
from leasehold._watch.requests import extend_request

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AsyncHold(BaseHold):
    """A lock that is held for an `async with` block."""

    def __init__(self, calls: Calls, keeper: Keeper, grant: Grant) -> None:
        """Show `keeper` to its holder."""
        super().__init__(keeper, grant)
        self._calls: Final = calls

    async def lost(self) -> Loss:
        """Wait until the hold is lost; without end, if the holder ends it first."""
        await self._keeper.over.wait()
        loss = self.loss
        if loss is None:
            never: asyncio.Future[Loss] = asyncio.get_running_loop().create_future()
            return await never
        return loss

    async def wait_revoked(self) -> Notice:
        """Wait for the notice that the lock was broken; without end, if the hold ends without one (S22).

        The block is not cancelled by it: the hold is valid until the notice's deadline.
        """
        while self._keeper.notice is None:
            await self._keeper.noticed.wait()
        return self._keeper.notice

    async def info(self) -> HoldInfo:
        """Ask the sidecar for the hold's validity, limits and state, which changes nothing.

        Raises RefusedError; with reason HOLD_LOST the hold is lost, too.
        """
        keeper, state = self._keeper, self._keeper.state
        sent, answer = await keeper.call(
            lambda generation: self._calls.get_hold(self.lease_id, generation, keeper.connection)
        )
        state.take_in(answer.validity, sent)
        if answer.HasField("max_hold_ends"):
            state.bound(answer.max_hold_ends, sent)
        return HoldInfo._from_wire(answer)

    async def report_progress(self) -> None:
        """Say that the job is getting on, which restarts `progress_timeout`.

        Raises RefusedError; with reason HOLD_LOST the hold is lost, too.
        """
        keeper = self._keeper
        sent, validity = await keeper.call(
            lambda generation: self._calls.report_progress(self.lease_id, generation, keeper.connection)
        )
        keeper.state.take_in(validity, sent)

    async def extend(self, max_hold: Seconds) -> Extension:
        """Set a new `max_hold`, counted from now.

        Raises RefusedError; with reason HOLD_LOST the hold is lost, too.
        """
        keeper, state = self._keeper, self._keeper.state
        sent, answer = await keeper.call(
            lambda generation: self._calls.extend(
                extend_request(self.lease_id, generation, max_hold), keeper.connection
            ),
            here=True,
        )
        keeper.replace_resume_token(answer.resume_token)
        state.take_in(answer.validity, sent)
        if answer.HasField("max_hold_ends"):
            state.bound(answer.max_hold_ends, sent)
        return Extension._from_wire(answer)

    async def save(self, value: bytes) -> int:
        """Save the lock's checkpoint, and wait until the store has it (S24).

        The value is at most 2,048 bytes, and not for secrets: anybody who may read locks can read it. Gives the
        version that the store has then: of this value, or of a newer one that took its place (S26). At most one save a
        second reaches the store. Raises LostError if the hold is lost, CheckpointUnknownError if no answer came in time
        (S27), ArgumentError if the value is too long, RefusedError if the sidecar refuses it.
        """
        return await save(self._keeper, self._calls, value)

    async def save_json(self, value: Any) -> int:
        """Save `value` as JSON, as `save` does. `checkpoint.json()` gives it back.

        Raises TypeError or ValueError if it cannot be JSON.
        """
        return await self.save(as_json(value))

    async def release(self, checkpoint: bytes | None = None, outcome: RunOutcome | None = None) -> ReleaseResult:
        """Release the lock before the block ends, and wait until the store has it.

        A `checkpoint` is saved first. If that fails the lock is released all the same, and the result says both (S26).
        `outcome` says how the occurrence of `occurrence_at` ended. SUCCEEDED and FAILED_FINAL make it final; the
        result says whether it was recorded.
        The hold is not valid from the first moment of this call on (S13), so stop acting before. May be repeated.
        Raises LostError if the hold was lost before, so that somebody else may have held the lock, and
        ReleaseUnconfirmedError if the release was not confirmed within the client's `release_timeout`: the lock becomes
        available when its lease expires, if not before.
        """
        return await self._keeper.release(checkpoint, outcome)


class AsyncHolding:
    """A lock that is asked for: enter it with `async with`, or decorate an async function with it.

    The block is cancelled when the hold is lost, and LostError is raised where the block ends. The lock is released
    on every way out. Raises BusyError if the lock was not acquired within the wait, LostError if the release finds that
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
        self._block: Block | None = None

    def __call__(
        self,
        function: Callable[_P, Awaitable[_T]],
    ) -> Callable[_P, Coroutine[Any, Any, _T]]:
        """Hold the lock for each call of `function`; `current_hold()` gives the hold."""

        @functools.wraps(function)
        async def holding(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            async with AsyncHolding(self._calls, self._wanted, self._handler):
                return await function(*args, **kwargs)

        return holding

    async def __aenter__(self) -> AsyncHold:
        if self._block is not None:
            raise LeaseholdError("this block is entered already: ask for another hold")
        calls = self._calls()
        keeper, grant = await open_keeper(calls, self._wanted, self._handler)
        hold = AsyncHold(calls, keeper, grant)
        self._block = Block(hold)
        return hold

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        block, self._block = self._block, None
        if block is not None:
            await block.leave(exc)


class Block:
    """The block of code that a hold is for, and the task that runs it."""

    def __init__(self, hold: AsyncHold) -> None:
        task = asyncio.current_task()
        if task is None:
            raise LeaseholdError("a lock can be held in a task only")
        self.hold: Final = hold
        self._task: Final = task
        self._cancelling: Final = task.cancelling()
        self._cancelled = False
        self._left = False
        self._current: Final[AbstractContextManager[None]] = as_current(hold)
        self._current.__enter__()
        hold._keeper.on_loss(self._lost)

    def _lost(self, _loss: Loss) -> None:
        # Called by the event loop, so the task is not running, and gets the cancellation before it can leave the block.
        if not self._left:
            self._cancelled = True
            self._task.cancel("the lock was lost")

    async def leave(self, exc: BaseException | None) -> None:
        """Release the lock, or raise LostError."""
        if self.close():
            await self._release(self.hold._keeper, exc)
        else:
            await self.after_end(exc)

    def close(self) -> bool:
        """Take the hold from the block. Say whether it is still valid."""
        self._left = True
        self._current.__exit__(None, None, None)
        return self.hold.is_valid()

    async def after_end(self, exc: BaseException | None) -> None:
        """Raise LostError, or have `exc` tell of it, if the hold has not been ended by its holder."""
        keeper = self.hold._keeper
        others = False
        if self._cancelled:
            others = self._task.uncancel() > self._cancelling
        loss = await keeper.why()
        if loss is None:
            return
        lost = LostError(self.hold.lock_path, loss)
        if self._cancelled and not others and isinstance(exc, asyncio.CancelledError):
            raise lost from exc
        if exc is None:
            raise lost
        if not isinstance(exc, (LostError, asyncio.CancelledError)):
            attach(lost, exc)

    @property
    def is_told_to_stop(self) -> bool:
        """Whether the task was cancelled since by somebody else."""
        return self._task.cancelling() > self._cancelling + self._cancelled

    async def _release(self, keeper: Keeper, exc: BaseException | None) -> None:
        try:
            await keeper.release()
        except LeaseholdError as error:
            if exc is None:
                raise
            attach(error, exc)
