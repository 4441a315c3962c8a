"""What must happen before a task is cancelled."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

_T = TypeVar("_T")


class Guarded(Coroutine[Any, Any, _T]):
    """A coroutine that calls `ending` before it is cancelled, also where its event loop cancels its task."""

    def __init__(self, work: Coroutine[Any, Any, _T], ending: Callable[[], None]) -> None:
        """Guard `work`."""
        self._work: Final = work
        self._ending: Final = ending

    def send(self, value: Any, /) -> Any:
        """Go on."""
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise in `work`. What a future failed with is thrown in, too, and is no end."""
        if isinstance(error[0], asyncio.CancelledError) or error[0] is asyncio.CancelledError:
            self._ending()
        return self._work.throw(*error)

    def close(self) -> None:
        """End `work`."""
        self._ending()
        self._work.close()

    def __await__(self) -> Generator[Any, Any, _T]:
        return self._work.__await__()
