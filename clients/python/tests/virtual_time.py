"""An event loop in a time of its own, which goes on when nothing but timers is left to be done."""

import asyncio
import selectors


class _Selector(selectors.SelectSelector):
    """Jumps to the next timer instead of waiting for it."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("nothing will ever happen")
        self.loop.now += max(timeout, 0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """The event loop."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


async def reach(moment: float) -> None:
    """Let the time go to a moment, and all be done that is due by then."""
    loop = asyncio.get_running_loop()
    come = loop.create_future()
    loop.call_at(moment, come.set_result, None)
    await come
    await settled()


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)
