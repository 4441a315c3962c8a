"""Leading without asyncio."""

import logging
from collections.abc import Generator
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Final, Self

from leasehold._connect.loop_thread import LoopThread
from leasehold._errors.answers import LostError
from leasehold._errors.errors import ClosedError, LeaseholdError, ReleaseUnconfirmedError
from leasehold._hold import events
from leasehold._hold.hold import as_current
from leasehold._hold.leading import Pauses, end, is_end_of, take
from leasehold._hold.spec import Wanted
from leasehold._hold.sync_hold import Hold, Owner, leave

_log: Final = logging.getLogger("leasehold")


class Term(Hold):
    """A lock that is held for one term of `lead`.

    Enter it with `with`: then LostError of this term, which `check()` raises, stays inside, and the loop goes on with
    the next term; the lock is released where the block ends. A term that is not entered is released when the loop goes
    on.
    """

    _current: AbstractContextManager[None] | None = None

    def __enter__(self) -> Self:
        if self._current is not None:
            raise LeaseholdError("this term is entered already")
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
        try:
            leave(self, exc)
        except (LostError, ReleaseUnconfirmedError) as error:
            _log.warning("a term has ended: %s", error)
            return True
        return is_end_of(self._in_loop, exc)


def lead(client: Owner, asked: Wanted, handler: events.EventHandler | None) -> Generator[Term, None, None]:
    """Give one term after the other."""
    thread = LoopThread.shared()
    pauses = Pauses()

    async def opened() -> Term:
        keeper, grant = await take(client._calls, asked, handler, pauses)
        return Term(thread, client._calls(), keeper, grant)

    while True:
        term = thread.run(opened(), lambda unwanted: unwanted._keeper.close())
        try:
            yield term
        finally:
            # Left open until the process ends, it was ended with the thread.
            with suppress(ClosedError):
                thread.run(end(term._in_loop))
        thread.run(pauses.pause())
