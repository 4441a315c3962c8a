"""What reads the clock for a hold as long as it is valid, and has the sidecar asked where that is due."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from leasehold._constants import NAP
from leasehold._convert import seconds
from leasehold._hold.state import LocalState

_QUESTION_PAUSE: Final = 0.2
"""The pause between two questions for the validity."""


class Ticker:
    """Reads the clock for one hold."""

    def __init__(self, state: LocalState, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have `ask` called when the sidecar is to be asked (S21)."""
        self._state: Final = state
        self._ask: Final = ask
        self._loop: Final = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._question: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """Read the clock now, ask if it is time to, and come again."""
        self.pause()
        left = self._state.remaining()
        if left == 0:
            return
        nap = min(seconds(left), NAP)
        due = self._state.next_question()
        if due is not None and self._question is None:
            until = seconds(due - self._state.now())
            if until <= 0:
                self._question = self._loop.create_task(self._asking())
            else:
                nap = min(nap, until)
        self._timer = self._loop.call_later(nap, self.tick)

    def pause(self) -> None:
        """Read the clock no more, unless something is heard."""
        if self._timer is not None:
            self._timer.cancel()

    def stop(self) -> None:
        """Read the clock no more, and end the question that is asked."""
        self.pause()
        if self._question is not None:
            self._question.cancel()

    async def _asking(self) -> None:
        await self._ask()
        await asyncio.sleep(_QUESTION_PAUSE)
        self._question = None
        self.tick()
