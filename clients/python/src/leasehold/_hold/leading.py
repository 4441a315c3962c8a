"""Running for as long as this process leads: one term after the other."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from leasehold._connect.calls import Calls
from leasehold._constants import FIRST_TERM_PAUSE, LONGEST_TERM_PAUSE, SHORTEST_TERM_PAUSE
from leasehold._errors.answers import LostError
from leasehold._errors.errors import ArgumentError, LeaseholdError, RefusedError, ReleaseUnconfirmedError, passes
from leasehold._hold import events
from leasehold._hold.async_hold import AsyncHold, Block
from leasehold._hold.grants import Grant
from leasehold._hold.keeper import Keeper
from leasehold._hold.opening import open_keeper
from leasehold._hold.spec import FOREVER, LeaseSpec, Wanted, wanted
from leasehold._records import LockKey

_log: Final = logging.getLogger("leasehold")


class AsyncTerm(AsyncHold):
    """A lock that is held for one term of `lead`.

    Enter it with `async with`: then a loss cancels the block, stays inside, and the loop goes on with the next term;
    the lock is released where the block ends. A term that is not entered is released when the loop goes on.
    """

    _block: Block | None = None

    async def __aenter__(self) -> Self:
        if self._block is not None:
            raise LeaseholdError("this term is entered already")
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
        try:
            await block.leave(exc)
        except (LostError, ReleaseUnconfirmedError) as error:
            _log.warning("a term has ended: %s", error)
            return True
        return is_end_of(self, exc)


def is_end_of(term: AsyncHold, exc: BaseException | None) -> bool:
    """Say whether `exc` only tells of the term's own loss, as `check` does."""
    return isinstance(exc, LostError) and exc.lock_path == term.lock_path and term.loss is not None


class Pauses:
    """The pauses between two terms, or two tries."""

    def __init__(self) -> None:
        """Begin with short ones."""
        self._failures = 0

    def granted(self) -> None:
        """Begin anew."""
        self._failures = 0

    async def failed(self, name: str, error: LeaseholdError) -> None:
        """Pause after a try that has failed."""
        _log.warning("%s cannot be led yet, and is tried again: %s", name, error)
        await self.pause()
        self._failures += 1

    async def pause(self) -> None:
        """Pause for a random while."""
        longest = min(FIRST_TERM_PAUSE * 2.0**self._failures, LONGEST_TERM_PAUSE)
        await asyncio.sleep(random.uniform(SHORTEST_TERM_PAUSE, longest))  # noqa: S311 - spreads, and keeps no secret


def for_leading(function: str | LockKey, scope: str, options: LeaseSpec) -> Wanted:
    """Turn a caller's words into what is asked for."""
    if "wait" in options:
        raise ArgumentError("lead waits without end: leave `wait` out")
    return replace(wanted(function, scope, {**options, "wait": FOREVER}), paced=True)


async def take(
    calls: Callable[[], Calls], asked: Wanted, handler: events.EventHandler | None, pauses: Pauses
) -> tuple[Keeper, Grant]:
    """Take the lock, however often that fails by what passes."""
    while True:
        try:
            taken = await open_keeper(calls(), asked, handler)
        except LostError as error:
            await pauses.failed(asked.name, error)
        except RefusedError as error:
            if not passes(error):
                raise
            await pauses.failed(asked.name, error)
        else:
            pauses.granted()
            return taken


async def end(term: AsyncHold) -> None:
    """Release the lock of a term that is still held."""
    keeper = term._keeper
    if not keeper.state.is_valid():
        await keeper.why()
        return
    try:
        await keeper.release()
    except (LostError, ReleaseUnconfirmedError) as error:
        _log.warning("a term has ended: %s", error)


async def lead(
    calls: Callable[[], Calls],
    asked: Wanted,
    handler: events.EventHandler | None,
) -> AsyncGenerator[AsyncTerm, None]:
    """Give one term after the other."""
    pauses = Pauses()
    while True:
        keeper, grant = await take(calls, asked, handler, pauses)
        term = AsyncTerm(calls(), keeper, grant)
        try:
            yield term
        finally:
            await end(term)
        await pauses.pause()
